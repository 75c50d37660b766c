package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// The answers to a conflict.
const (
	keepMine   = "mine"
	keepTheirs = "theirs"
	keepBoth   = "both"
)

// conflictFlags are the flags of conflicts.
type conflictFlags struct{ keep, merge string }

func (a *app) conflictsCommand() *cobra.Command {
	var f conflictFlags
	cmd := &cobra.Command{
		Use:   "conflicts [GROUP [NAME...] | PLACE...] [--keep ...|--merge ...]",
		Short: "List saves that met one of somebody else, and settle them",
		Long: `List saves of a mount or its outbox that could not keep their name, because somebody else had
saved that name meanwhile: each is a file 'NAME (conflict ACCOUNT DATE TIME).EXT' beside
NAME. ` + placeHelp + ` Name NAME, or where
it has several conflicts the file of one.

Mine is what this account saved, theirs is the other save; where one account made both, mine
is the one in that file. --keep takes mine, theirs, or the save of an ACCOUNT. The save in that
file becomes the newest version of NAME, for one retrieval and one upload; then, as without
it, that file goes to the trash. --keep both gives it a name without the word conflict. Who
saved that file and the owner of the group can settle it, and every writer where the owner
lets every writer remove files.

--merge runs a command of the shell on files in memory, whose paths are in MINE and THEIRS
(that file and NAME where neither is mine) and BASE, and that writes MERGED. BASE is the version
that both began from: the record of that file names it. BASE is empty where the record names
none, or one that the history has no more: then a merge takes nothing for granted, and git
refuses it. When the command succeeds, what it wrote is uploaded as the newest version, and the
save goes to the trash; else nothing changes. It costs up to three retrievals and one upload.
--merge git is 'git merge-file'.

Nothing is uploaded over a version that was saved since the list. A service that compares no
versions records both saves under the name: svcfs history PATH.`,
		Example: "  svcfs conflicts\n  svcfs conflicts --keep mine team/plan.txt\n" +
			"  svcfs conflicts --merge git team/plan.txt\n" +
			"  svcfs conflicts team/plan.txt \\\n    --merge 'meld \"$MINE\" \"$BASE\" \"$THEIRS\" -o \"$MERGED\"'",
		Args: f.checkArgs,
		RunE: a.withPlaces(func(ctx context.Context, c *sdk.Client, places []place) error {
			a.sweepMerges()
			if f == (conflictFlags{}) {
				return a.listConflicts(ctx, c, places)
			}
			err := byGroup(places, func(group sdk.GroupID, paths []string) error {
				return a.settle(ctx, c, c.Group(group), paths, f)
			})
			if err == nil {
				a.untilShown(ctx, c, places)
			}
			return err
		}),
		ValidArgsFunction: a.completePlace,
	}
	cmd.Flags().StringVar(&f.keep, "keep", "", "settle: mine, theirs, both or an account")
	cmd.Flags().StringVar(&f.merge, "merge", "", "settle with this command of the shell; or git")
	return cmd
}

func (f *conflictFlags) checkArgs(cmd *cobra.Command, args []string) error {
	keeps, merges := cmd.Flags().Changed("keep"), cmd.Flags().Changed("merge")
	switch {
	case keeps && merges:
		return usage("give one of them", "both --keep and --merge were given")
	case keeps && f.keep == "":
		return usage("give one of: mine, theirs, both, or an account", "--keep is empty")
	case merges && f.merge == "":
		return usage("give a command of the shell, or git", "--merge is empty")
	case keeps || merges:
		return inGroups("a GROUP and at least one NAME")(cmd, args)
	}
	return nil
}

// conflict is a save under a name of its own.
type conflict struct {
	outbox.ConflictCopy
	copied sdk.Entry  // the save
	path   string     // of it
	theirs *sdk.Entry // newest version of the name; nil = the name is free
	base   *sdk.Entry // the version that the save was made upon; nil = none that can be read
	noBase string     // why there is none; "" = it was made upon none
}

// conflicts returns those of some names: of the saves themselves, or of the names that they were meant for. A file
// whose name tells of another account than its uploader is none: that would be taken for a save of that account.
func (l listing) conflicts(recorded []string) (list []conflict) {
	wanted := make(map[string]bool, len(recorded))
	for _, name := range recorded {
		wanted[name] = true
	}
	for _, name := range l.Names() {
		told, ok := outbox.ParseConflict(name)
		if !ok || !wanted[name] && !wanted[told.Name] {
			continue
		}
		i, _ := l.Newest(name)
		if l.Entries[i].Uploader != told.Account {
			continue
		}
		c := conflict{ConflictCopy: told, copied: l.Entries[i], path: l.Shown(name)}
		if at, is := l.Newest(told.Name); is {
			c.theirs = &l.Entries[at]
		}
		c.base, c.noBase = l.madeUpon(&c)
		list = append(list, c)
	}
	return list
}

// conflictsAt returns the conflicts that an argument names: also by a name that is free again.
func (l listing) conflictsAt(group sdk.GroupID, what string) ([]conflict, choice, error) {
	chosen, ok := l.choose(what)
	if !ok {
		chosen.names = []string{what}
	}
	found := l.conflicts(chosen.names)
	if ok || len(found) > 0 {
		return found, chosen, nil
	}
	if _, is := outbox.ParseConflict(what); is {
		return nil, chosen, refuse(exitNotFound, "see what is left with: svcfs conflicts "+
			shellWord(escapeName(string(group))),
			fmt.Errorf("%s in group %s is no conflict, or is settled already", escapeName(what),
				escapeName(string(group))))
	}
	return nil, chosen, l.absent(group, what)
}

// madeUpon returns the version that a save under a name of its own was made upon. The last record that says so counts:
// a program that went on with the file saved it again. Without a base why says what is known, "" = it was made upon
// none.
func (l listing) madeUpon(c *conflict) (base *sdk.Entry, why string) {
	name := c.copied.Named().Recorded
	var upon *sdk.Ref
	for _, e := range l.Entries {
		if e.Upon != nil && e.Uploader == c.Account && e.Named().Recorded == name {
			upon = e.Upon
		}
	}
	switch {
	case upon == nil:
		return nil, "no record says which version it was made upon"
	case *upon == "":
		return nil, ""
	}
	at := slices.IndexFunc(l.Entries, func(e sdk.Entry) bool { return e.Ref == *upon && lives(&e) })
	if at < 0 {
		return nil, "the version that it was made upon is gone"
	}
	return &l.Entries[at], ""
}

// listedConflict is a conflict in JSON output.
type listedConflict struct {
	Place   string        `json:"place"` // GROUP/PATH of the save
	Name    string        `json:"name"`  // that it was meant for
	Account sdk.AccountID `json:"account_id"`
	Saved   string        `json:"saved"` // by the clock of that machine
	Copy    listedEntry   `json:"copy"`
	Current *listedEntry  `json:"current"` // null: the name is free
	Base    *listedEntry  `json:"base"`    // that it was made upon; null: none that is known and there
}

// listConflicts lists the conflicts of places; none are all groups.
func (a *app) listConflicts(ctx context.Context, c *sdk.Client, places []place) error {
	places, err := orAllGroups(ctx, c, places)
	if err != nil {
		return err
	}
	docs := []listedConflict{}
	rows := [][]string{}
	err = byGroup(places, func(group sdk.GroupID, paths []string) error {
		list, err := listOf(ctx, c.Group(group))
		if err != nil {
			return err
		}
		for _, what := range paths {
			found, _, err := list.conflictsAt(group, what)
			if err != nil {
				return err
			}
			for _, one := range found {
				at := escapeName(string(group)) + "/" + one.path
				now := "the name is free"
				doc := listedConflict{Place: at, Name: escapeName(one.Name), Account: one.Account, Saved: one.Stamp,
					Copy: listed(one.copied, one.path)}
				if one.theirs != nil {
					now = "now by " + escapeName(string(one.theirs.Uploader)) + ", " + timeText(one.theirs.Time)
					current := listed(*one.theirs, list.Shown(one.Name))
					doc.Current = &current
				}
				if one.base != nil {
					base := listed(*one.base, shownName(one.base))
					doc.Base = &base
				}
				docs, rows = append(docs, doc), append(rows, []string{at, sizeText(one.copied), now})
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case a.asJSON:
		return a.printJSON(docs)
	case len(rows) == 0:
		a.ui.notice("there is no conflict")
		return nil
	}
	a.printTable(rows)
	one := "GROUP/FILE"
	if len(rows) == 1 {
		one = shellWord(rows[0][0])
	}
	a.ui.notice("settle one with --keep mine, theirs or both, or with --merge, as in: svcfs conflicts --merge git %s",
		one)
	return nil
}

// settle settles the conflicts that paths of a group name. All are found before the first is settled.
func (a *app) settle(ctx context.Context, c *sdk.Client, g sdk.Group, paths []string, f conflictFlags) error {
	list, err := listOf(ctx, g)
	if err != nil {
		return err
	}
	var all []conflict
	for _, what := range paths {
		found, chosen, err := list.conflictsAt(g.ID, what)
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return refuse(exitNotFound, "see them with: svcfs conflicts "+shellWord(escapeName(string(g.ID))),
				fmt.Errorf("%s in group %s has no conflict", escapeName(what), escapeName(string(g.ID))))
		case len(found) > 1 && (f.keep == keepMine || f.merge != "") && !chosen.whole && !chosen.many:
			return usage("name one of them, as svcfs conflicts lists them", escapeName(what)+" has "+
				plural(len(found), "conflict"))
		}
		all = append(all, found...)
	}
	for i := range all {
		if err := mayRemove(ctx, c, g, &all[i].copied); err != nil {
			return err
		}
	}
	for i := range all {
		if err := a.settleOne(ctx, c, g, list, &all[i], f); err != nil {
			return fmt.Errorf("%s: %w", all[i].path, err)
		}
	}
	return nil
}

// mayRemove refuses, before anything is uploaded, what the service would refuse after it: that the file of a conflict
// is removed or renamed by somebody else than who saved it, where only that account and the owner of the group do so.
func mayRemove(ctx context.Context, c *sdk.Client, g sdk.Group, copied *sdk.Entry) error {
	if copied.Uploader == c.Account() {
		return nil
	}
	owner, err := g.Owner(ctx)
	if err != nil || owner == c.Account() {
		return err
	}
	told, err := g.Settings().Trash(ctx)
	if err != nil || told.Who == wire.TrashWriters {
		return err
	}
	who := escapeName(string(copied.Uploader)) + ", who saved it,"
	if owner != copied.Uploader {
		who += " and " + escapeName(string(owner)) + ", who owns the group,"
	}
	return refuse(exitAuth, "nothing was changed; ask one of them to settle it",
		fmt.Errorf("only %s can settle %s", who, shownName(copied)))
}

// keepsCopy reports whether --keep means the save in the file of the conflict, not the one under the name. Mine is what
// the account saved; of two saves of one account it is the one in the file.
func (c *conflict) keepsCopy(keep string, account sdk.AccountID) (bool, error) {
	saver, named := c.copied.Uploader, sdk.AccountID("")
	if c.theirs != nil {
		named = c.theirs.Uploader
	}
	copyIsMine := saver == account || saver == named
	clear := copyIsMine || named == account || named == ""
	switch {
	case clear && (keep == keepMine || keep == keepTheirs):
		return (keep == keepMine) == copyIsMine, nil
	case saver != named && keep == string(saver):
		return true, nil
	case saver != named && keep == string(named):
		return false, nil
	case clear:
		whose := "or the account whose save it shall be"
		if saver != named && named != "" {
			whose = escapeName(string(saver)) + " or " + escapeName(string(named))
		}
		return false, usage("give one of: mine, theirs, both, "+whose, fmt.Sprintf("--keep cannot be %q", keep))
	}
	return false, usage(fmt.Sprintf("say whose: --keep %s, --keep %s, or both", escapeName(string(saver)),
		escapeName(string(named))), "neither save is of "+escapeName(string(account)))
}

// settleOne settles a conflict.
func (a *app) settleOne(ctx context.Context, c *sdk.Client, g sdk.Group, list listing, one *conflict,
	f conflictFlags) error {
	copies := list.chosen(choice{names: []string{one.copied.Named().Recorded}}, lives)[0]
	takesCopy := false
	if f.merge == "" && f.keep != keepBoth {
		var err error
		if takesCopy, err = one.keepsCopy(f.keep, c.Account()); err != nil {
			return err
		}
	}
	switch {
	case f.keep == keepBoth && one.theirs != nil:
		at := strings.LastIndex(one.copied.Name, " (conflict ") // a folder may be called so, too
		to := one.copied.Name[:at] + " (" + one.copied.Name[at+len(" (conflict "):]
		return a.renameSettled(ctx, g, list, copies, to)
	case one.theirs == nil && (takesCopy || f.keep == keepBoth || f.merge != ""):
		return a.renameSettled(ctx, g, list, copies, one.Name)
	case one.theirs == nil:
		return refuse(exitOther, "keep the other, or remove it with svcfs rm", errors.New("no other version is left"))
	case f.merge != "":
		merged, err := a.mergeConflict(ctx, g, one, c.Account(), f.merge)
		if err != nil {
			return err
		}
		if one.isSaved(c.Account(), sdk.ComputeHash([]byte(merged))) {
			return a.removeName(ctx, g, copies, false)
		}
		return a.saveSettled(ctx, c, g, one, copies, strings.NewReader(merged))
	case !takesCopy, one.isSaved(c.Account(), one.copied.Hash):
		return a.removeName(ctx, g, copies, false)
	}
	file, err := g.OpenEntry(ctx, one.copied)
	if err != nil {
		return err
	}
	defer file.Close()
	return a.saveSettled(ctx, c, g, one, copies, file)
}

// renameSettled gives the save a name that is free.
func (a *app) renameSettled(ctx context.Context, g sdk.Group, list listing, copies []sdk.Entry, to string) error {
	if list.has(to) {
		return inUse(to, "file")
	}
	return a.mvName(ctx, g, copies, to)
}

// isSaved reports whether the newest version is what the account would save, as after a command that could not remove
// the save any more.
func (c *conflict) isSaved(account sdk.AccountID, hash sdk.Digest) bool {
	t := c.theirs
	return t.Uploader == account && hash != sdk.Digest{} && t.Hash == hash &&
		(t.Attributes == nil || t.Attributes.Target == "")
}

// saveSettled uploads what a conflict became, as the version after theirs, and removes the save.
func (a *app) saveSettled(ctx context.Context, c *sdk.Client, g sdk.Group, one *conflict, copies []sdk.Entry,
	content io.Reader) error {
	o := sdk.PutOptions{Base: &one.theirs.Ref}
	if old := one.theirs.Attributes; old != nil && old.Executable && one.theirs.Uploader == c.Account() {
		o.Attributes.Executable = true
	}
	got, err := g.Put(ctx, one.Name, content, o)
	if err != nil {
		return err
	}
	r := receipt{Name: one.Name, CID: got.Ref, TransID: got.Tx, FileHash: hashText(got.Hash), Size: got.Size}
	if !got.Fee.IsZero() {
		r.Fee = got.Fee.Tokens()
	}
	if err := a.printReceipt(r, false); err != nil {
		return err
	}
	return a.removeName(ctx, g, copies, false)
}
