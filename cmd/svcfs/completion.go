package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
)

// completeLimit bounds the questions asked for a completion: a shell waits.
const completeLimit = 1500 * time.Millisecond

// completion is what a shell asks for: the candidates and how to go on.
type completion = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// ask collects candidates from the service. Every failure gives none, silently:
// a shell in the middle of a line has no place for messages.
func (a *app) ask(cmd *cobra.Command, prefix string,
	from func(ctx context.Context, c *sdk.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	silent := newApp(strings.NewReader(""), io.Discard, io.Discard, a.env)
	silent.flags = a.flags
	ctx, cancel := context.WithTimeout(cmd.Context(), completeLimit)
	defer cancel()
	if silent.flags.keyFile == "-" { // that is the shell's own input
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, _, err := silent.client(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	found, err := from(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []string
	for _, name := range found {
		// A name that a shell could misread is not offered.
		if strings.HasPrefix(name, prefix) && name == escapeName(name) && !strings.ContainsAny(name, "\t\n") {
			list = append(list, name)
		}
	}
	if len(list) == 1 && strings.HasSuffix(list[0], "/") { // a path goes on
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completeGroup offers groups for the first argument.
func (a *app) completeGroup(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return a.completeGroupThen(completeNothing)(cmd, args, toComplete)
}

// completeGroupThen offers groups for the first argument, and what then offers for
// those behind it.
func (a *app) completeGroupThen(then completion) completion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return then(cmd, args, toComplete)
		}
		return a.ask(cmd, toComplete, func(ctx context.Context, c *sdk.Client) ([]string, error) {
			groups, err := c.Groups(ctx)
			return each(groups, func(g sdk.Group) string { return string(g.ID) }), err
		})
	}
}

// completePlace offers groups, files of the group that is the first argument, and files of GROUP/PATH. Of a large group
// it offers what is in the folder that was typed.
func (a *app) completePlace(cmd *cobra.Command, args []string,
	toComplete string) ([]string, cobra.ShellCompDirective) {
	return a.completeNames(cmd, args, toComplete, pathsIn)
}

// pathsIn lists what is in the folder of a path that is being typed, or in a small group the path of each file.
func pathsIn(ctx context.Context, g sdk.Group, typed string) (paths []string, err error) {
	folder := typed[:max(strings.LastIndexByte(typed, '/'), 0)]
	ok, err := walk(ctx, g, folder, false, func(path string, file *sdk.Entry) error {
		switch {
		case file != nil:
			paths = append(paths, path)
		case path != folder:
			paths = append(paths, path+"/")
		}
		return nil
	})
	if ok || err != nil {
		return paths, err
	}
	list, err := listOf(ctx, g)
	_, paths = list.Current()
	return paths, err
}

// completeRemoved is [app.completePlace] for what is in the trash.
func (a *app) completeRemoved(cmd *cobra.Command, args []string,
	toComplete string) ([]string, cobra.ShellCompDirective) {
	return a.completeNames(cmd, args, toComplete, func(ctx context.Context, g sdk.Group, _ string) ([]string, error) {
		list, err := listOf(ctx, g)
		_, paths := list.trash().Current()
		return paths, err
	})
}

func (a *app) completeNames(cmd *cobra.Command, args []string, toComplete string,
	pathsOf func(ctx context.Context, g sdk.Group, typed string) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	group, before := "", ""
	switch first, _, isPath := strings.Cut(toComplete, "/"); {
	case len(args) > 0 && !strings.Contains(args[0], "/") && !isLocalPath(args[0]):
		group = args[0]
	case isLocalPath(toComplete):
		return nil, cobra.ShellCompDirectiveDefault
	case !isPath:
		return a.completeGroup(cmd, nil, toComplete)
	default:
		group, before = first, first+"/"
	}
	return a.ask(cmd, toComplete, func(ctx context.Context, c *sdk.Client) ([]string, error) {
		paths, err := pathsOf(ctx, c.Group(sdk.GroupID(group)), strings.TrimPrefix(toComplete, before))
		return each(paths, func(path string) string { return before + path }), err
	})
}

// completeMember offers, as the second argument, members of the group that is the first.
func (a *app) completeMember(cmd *cobra.Command, args []string,
	toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.ask(cmd, toComplete, func(ctx context.Context, c *sdk.Client) ([]string, error) {
		members, err := c.Group(sdk.GroupID(args[0])).Members(ctx)
		return each(members, func(m sdk.Member) string { return string(m.ID) }), err
	})
}

// completeMount offers the mounts of this user.
func completeMount(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	dirs, err := ownMounts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []string
	for _, dir := range dirs {
		if strings.HasPrefix(dir, toComplete) && dir == escapeName(dir) {
			list = append(list, dir)
		}
	}
	if len(list) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completeFiles offers files of this machine.
func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func completeNothing(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func completeDirs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeWords offers fixed words for the first argument.
func completeWords(words ...string) completion {
	return func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		var list []string
		for _, w := range words {
			if len(args) == 0 && strings.HasPrefix(w, toComplete) {
				list = append(list, w)
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}
