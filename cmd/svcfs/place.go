package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
)

// place is what an argument names: a group, or something in it.
type place struct {
	group sdk.GroupID // "" = all groups
	path  string      // in the group, as a person reads it; "" = the group itself
	mount string      // the mount that it was named in; "" = none
}

// placeHelp is what the help of each command with places says of them.
const placeHelp = `A PLACE is
GROUP/PATH, or a path in a mount. A NAME or PATH is a file, a folder, a pattern such
as 'docs/*.pdf', or the reference of a version.`

// placesOf reads arguments, the same in every command. Each is GROUP/PATH, or a path in a mount. Where the
// first is one word, it is a GROUP, and the others are paths in it.
func placesOf(args []string) ([]place, error) {
	if len(args) > 0 && !strings.Contains(args[0], "/") && !isLocalPath(args[0]) {
		places := each(args[1:], func(path string) place {
			return place{group: sdk.GroupID(args[0]), path: strings.TrimSuffix(path, "/")}
		})
		if len(places) == 0 {
			places = []place{{group: sdk.GroupID(args[0])}}
		}
		return places, nil
	}
	places := make([]place, 0, len(args))
	for _, arg := range args {
		p, err := placeOf(arg)
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, nil
}

// placeOf reads an argument that stands alone.
func placeOf(arg string) (place, error) {
	if isLocalPath(arg) {
		return placeInMount(arg)
	}
	group, path, _ := strings.Cut(arg, "/")
	return place{group: sdk.GroupID(group), path: strings.TrimSuffix(path, "/")}, nil
}

// isLocalPath reports whether an argument is a path of this machine: it says so by how it begins, or it lies in
// a mount and its first part is there.
func isLocalPath(arg string) bool {
	first, _, more := strings.Cut(arg, "/")
	switch first {
	case "", ".", "..":
		return arg != ""
	}
	if !more {
		return false
	}
	if _, err := os.Lstat(first); err != nil {
		return false
	}
	_, _, err := mountHolding(arg)
	return err == nil
}

func placeInMount(path string) (place, error) {
	dir, inside, err := mountHolding(path)
	if err != nil {
		return place{}, err
	}
	folder, rest, _ := strings.Cut(strings.TrimPrefix(inside, "/"), "/")
	if first, _, _ := strings.Cut(rest, "/"); folder == names.Control || first == names.Control {
		return place{}, usage("name a file of a group", path+" is a control file of the mount")
	}
	return place{sdk.GroupID(names.GroupShown(folder)), rest, dir}, nil
}

// groupPlace reads an argument that names a group: its id, or its folder in a mount.
func groupPlace(arg string) (place, error) {
	if arg == "" || !isLocalPath(arg) {
		return place{group: sdk.GroupID(arg)}, nil
	}
	p, err := placeInMount(arg)
	if err == nil && (p.group == "" || p.path != "") {
		return p, usage("name a group, or its folder in a mount", arg+" is no group")
	}
	return p, err
}

// inGroups checks, before anything is asked, that each argument names something in a group.
func inGroups(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		places, err := placesOf(args)
		if err != nil {
			return err
		}
		isBare := func(p place) bool { return p.path == "" }
		if len(places) == 0 || slices.ContainsFunc(places, isBare) {
			hint := "usage: " + cmd.UseLine()
			if len(args) == 1 && placeWord(args[0]) != shellWord(args[0]) {
				hint = "name a file of this folder as " + placeWord(args[0])
			}
			return usage(hint, fmt.Sprintf("%s wants %s, got %s", cmd.CommandPath(), what,
				plural(len(args), "argument")))
		}
		return nil
	}
}

// withPlaces is withClient for a command whose arguments are places.
func (a *app) withPlaces(
	run func(ctx context.Context, c *sdk.Client, places []place) error,
) func(*cobra.Command, []string) error {
	return a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
		places, err := placesOf(args)
		if err == nil {
			err = mustBeMountsOf(ctx, c, places)
		}
		if err != nil {
			return err
		}
		return fileOfThisFolder(run(ctx, c, places), args)
	})
}

// fileOfThisFolder says instead of the answer about a group that is not there how a file of the folder of a mount is
// named: a word without a slash that comes first is taken for a group.
func fileOfThisFolder(err error, args []string) error {
	var refused *sdk.Error
	if !errors.As(err, &refused) || refused.Code != wire.CodeGroupNotFound || len(args) == 0 ||
		placeWord(args[0]) == shellWord(args[0]) {
		return err
	}
	told := *refused
	told.Err = errors.New("this account has no group of that name")
	return refuse(exitCodeOf(err), "name a file of this folder as "+placeWord(args[0])+"; see the groups of this "+
		"account with: svcfs ls", &told)
}

// orAllGroups returns places, or where they name none, or the root of a mount, all groups of the account.
func orAllGroups(ctx context.Context, c *sdk.Client, places []place) ([]place, error) {
	if len(places) > 0 && places[0].group != "" {
		return places, nil
	}
	groups, err := c.Groups(ctx)
	return each(groups, func(g sdk.Group) place { return place{group: g.ID} }), err
}

// mustBeMountsOf refuses a place in a mount of another account, or of another service: a group of the same name
// is another one there.
func mustBeMountsOf(ctx context.Context, c *sdk.Client, places []place) error {
	asked := map[string]bool{"": true}
	for _, p := range places {
		if asked[p.mount] {
			continue
		}
		asked[p.mount] = true
		m := inspect(ctx, p.mount)
		switch {
		case m.Status == nil:
			return refuse(exitUnreachable, "name it as GROUP/PATH, or see: svcfs status",
				fmt.Errorf("the mount on %s does not tell whose it is", p.mount))
		case !m.isOf(c.Account(), c.NetworkInfo().MCPURL):
			return usage("use the account and the service of the mount, or name it as GROUP/PATH",
				fmt.Sprintf("the mount on %s is of %s at %s, and this command is of %s at %s", p.mount,
					m.Status.Account, m.Status.Address, c.Account(), c.NetworkInfo().MCPURL))
		}
	}
	return nil
}

// byGroup calls do with each group that places name, in their order, and what they name in it.
func byGroup(places []place, do func(group sdk.GroupID, paths []string) error) error {
	var order []sdk.GroupID
	paths := make(map[sdk.GroupID][]string)
	for _, p := range places {
		if paths[p.group] == nil {
			order = append(order, p.group)
		}
		paths[p.group] = append(paths[p.group], p.path)
	}
	for _, group := range order {
		if err := do(group, paths[group]); err != nil {
			return err
		}
	}
	return nil
}

// errNotMounted: a group is in no mount that could be asked.
var errNotMounted = errors.New("is in no mount here")

// placeWord is an argument for a command that a message names, where one word alone is a GROUP: with ./ in front of the
// name of a file in the folder of a mount in which this command runs.
func placeWord(arg string) string {
	if here, err := placeInMount("."); err == nil && here.group != "" && !strings.Contains(arg, "/") {
		arg = "./" + arg
	}
	return shellWord(arg)
}

// mountPath returns where a place is in a mount of this user, for a command that asks a mount: an argument that
// is a path stays what it is, and a GROUP with a NAME, or GROUP/PATH, is looked for in the mounts of the account of
// the settings, or without one in all. Where it is in none the error is errNotMounted.
func (a *app) mountPath(ctx context.Context, args []string) (string, error) {
	_, _, err := mountHolding(args[0])
	inMount := len(args) == 1 && err == nil
	if inMount && !strings.Contains(args[0], "/") || len(args) == 1 && isLocalPath(args[0]) {
		return args[0], nil
	}
	places, err := placesOf(args)
	if err != nil {
		return "", err
	}
	p := places[0]
	if p.mount != "" {
		return filepath.Join(args...), nil
	}
	dirs, err := a.mountsToAsk(ctx)
	if err != nil {
		return "", err
	}
	folder := names.Group(string(p.group), "", false)
	var found []string
	for _, dir := range dirs {
		at := filepath.Join(dir, folder)
		if is, ok := inTime(ctx, func() bool { _, err := os.Lstat(at); return err == nil }); ok && is {
			found = append(found, filepath.Join(at, filepath.FromSlash(p.path)))
		}
	}
	switch len(found) {
	case 0:
		if inMount { // nothing of that name is there, perhaps not any more
			return args[0], nil
		}
		return "", refuse(exitNotFound, "this command asks a mount: 'svcfs status' shows those that run, 'svcfs mount "+
			"DIR' begins one", fmt.Errorf("group %s %w", escapeName(string(p.group)), errNotMounted))
	case 1:
		return found[0], nil
	}
	return "", refuse(exitUsage, "name one of them", errors.New("it is in several mounts: "+strings.Join(found, ", ")))
}

// mountsToAsk lists the mounts of this user that are of the account of the settings, or without one all.
func (a *app) mountsToAsk(ctx context.Context) ([]string, error) {
	all, err := ownMounts()
	s, unset := a.loadSettings()
	if err != nil || unset != nil || s.account == "" {
		return all, err
	}
	at, err := s.network()
	return ofAccount(ctx, all, s.account, at.MCPURL), err
}

// ofAccount returns the mounts among dirs that are of an account at a service.
func ofAccount(ctx context.Context, dirs []string, account sdk.AccountID, address string) (of []string) {
	is := make([]bool, len(dirs))
	var asked sync.WaitGroup // at once: a mount that does not answer takes its time
	for i, dir := range dirs {
		asked.Go(func() { is[i] = inspect(ctx, dir).isOf(account, address) })
	}
	asked.Wait()
	for i, dir := range dirs {
		if is[i] {
			of = append(of, dir)
		}
	}
	return of
}
