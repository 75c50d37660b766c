package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/svcfs/internal/desktop"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

func (a *app) lsCommand() *cobra.Command {
	var show columns
	cmd := &cobra.Command{
		Use:   "ls [GROUP [NAME...] | PLACE...]",
		Short: "List the files of a group, or the groups of this account",
		Long: `List the groups of this account, or what is in a group or in a folder of it. ` + placeHelp + `

Folders end with a slash; -R lists what is in them, too. With --trash, and with --json,
everything is listed, without folders. Of a group with more than 1,000 records only
the folders that are asked for are read, and proven against the names that the service
signed; --trash needs all records.`,
		Example: "  svcfs ls\n  svcfs ls -l team\n  svcfs ls -Rh team/docs\n  svcfs ls team '*.pdf'\n" +
			"  svcfs ls team --json\n  svcfs ls --trash team\n" +
			"  svcfs ls --ref team\n  svcfs ls --ref --notify ~/groups/team/report.pdf",
		Args: cobra.ArbitraryArgs,
		RunE: a.withPlaces(func(ctx context.Context, c *sdk.Client, places []place) error {
			ofAll := func(p place) bool { return p.group == "" }
			switch {
			case len(places) > 0 && !slices.ContainsFunc(places, ofAll):
				return a.ls(ctx, c, places, show)
			case show.trash:
				return usage("name a group, for example: svcfs ls --trash team", "ls --trash wants a GROUP")
			case show.ref:
				return usage("name a group, for example: svcfs ls --ref team", "ls --ref wants a GROUP")
			}
			return a.listGroups(ctx, c, show.long)
		}),
		ValidArgsFunction: a.completePlace,
	}
	flags := cmd.Flags()
	flags.Bool("help", false, "help for ls") // without -h
	flags.BoolVarP(&show.long, "long", "l", false,
		"also size, uploader and time, * of a program, and the target of a link; "+
			"of groups role, owner and how long files are kept")
	flags.BoolVarP(&show.all, "recursive", "R", false, "also what is in folders")
	flags.BoolVarP(&show.human, "human-readable", "h", false, "sizes as 1.5 MiB")
	flags.BoolVar(&show.trash, "trash", false, "list the removed files of GROUP that can be brought back; with -l "+
		"also size, who removed them and until when they stay")
	flags.BoolVar(&show.ref, "ref", false,
		"the reference of each file before its name; with --notify it goes into the clipboard")
	return a.offerNotify(cmd, func(ctx context.Context, path string) (desktop.Message, error) {
		if !show.ref || show.trash || show.long {
			return desktop.Message{}, usage("for example: svcfs ls --ref --notify PATH",
				"ls --notify tells the reference of a file alone")
		}
		return a.answerReference(ctx, path)
	})
}

// columns are what svcfs ls prints of which files.
type columns struct{ long, ref, human, all, trash bool }

// ls lists what places name.
func (a *app) ls(ctx context.Context, c *sdk.Client, places []place, show columns) error {
	var rows [][]string
	docs := []listedEntry{}
	several := slices.ContainsFunc(places, func(p place) bool { return p.group != places[0].group })
	err := byGroup(places, func(group sdk.GroupID, paths []string) error {
		list, err := listFor(ctx, c.Group(group), paths, show, a.asJSON)
		if err != nil {
			return err
		}
		if show.trash {
			list = list.trash()
		}
		before := ""
		if several {
			before = escapeName(string(group)) + "/"
		}
		for _, path := range paths {
			chosen, ok := list.choose(path)
			if !ok && !list.hasFolder(path) {
				return list.absent(group, path)
			}
			if a.asJSON {
				docs = append(docs, list.docs(chosen)...)
				continue
			}
			rows = append(rows, list.rows(chosen, path, before, show)...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.printJSON(docs)
	}
	a.printTable(rows)
	return nil
}

// listFor lists what ls shows of paths in a group.
func listFor(ctx context.Context, g sdk.Group, paths []string, show columns, asJSON bool) (listing, error) {
	if show.trash {
		return listOf(ctx, g)
	}
	return placeList(ctx, g, paths, show.all || asJSON)
}

// hasFolder reports whether a recorded folder is shown so.
func (l listing) hasFolder(shown string) bool {
	return slices.ContainsFunc(l.folders, func(f string) bool { return names.Show(f, "") == shown })
}

// one returns the entry that a choice shows for a name, and its path.
func (l listing) one(c choice, name string) (e *sdk.Entry, path string) {
	i, _ := l.Newest(name)
	if c.ref != "" {
		i = slices.IndexFunc(l.Entries, func(e sdk.Entry) bool { return e.Ref == c.ref })
	}
	return &l.Entries[i], cmp.Or(l.Shown(name), shownName(&l.Entries[i]))
}

func (l listing) docs(c choice) []listedEntry {
	return each(c.names, func(name string) listedEntry {
		e, path := l.one(c, name)
		return listed(*e, path)
	})
}

// rows are the rows of a choice in the table of ls: a folder is one row, unless all is listed.
func (l listing) rows(c choice, what, before string, show columns) (rows [][]string) {
	shown := make(map[string]bool) // folders
	folder := func(path string) {
		if !shown[path] {
			shown[path] = true
			rows = append(rows, show.row("-", before+path+"/", "-", "-", "-"))
		}
	}
	for _, name := range c.names {
		e, path := l.one(c, name)
		parts := strings.Split(path, "/")
		if at := c.depth + 2; !show.all && !show.trash && c.ref == "" && len(parts) > at {
			folder(strings.Join(parts[:at], "/"))
			continue
		}
		rows = append(rows, show.file(e, before+path))
	}
	if show.all || c.many || c.ref != "" {
		return rows
	}
	for _, f := range l.folders { // empty ones
		path := names.Show(f, "")
		if rest, in := strings.CutPrefix(path, what+"/"); what == "" || in {
			if what == "" {
				rest = path
			}
			first, _, _ := strings.Cut(rest, "/")
			folder(strings.TrimPrefix(what+"/"+first, "/"))
		}
	}
	slices.SortStableFunc(rows, func(x, y []string) int { return cmp.Compare(x[len(x)-1], y[len(y)-1]) })
	return rows
}

// file is the row of a file.
func (c columns) file(e *sdk.Entry, path string) []string {
	size := sizeText(*e)
	if c.human && e.Size != sdk.SizeUnknown {
		size = roughSize(e.Size)
	}
	switch {
	case c.trash:
		return c.row(string(e.Ref), path, size, escapeName(string(e.Deleted.By)), untilText(e.Deleted.Until))
	case c.long:
		path += attributesMark(e)
	}
	return c.row(string(e.Ref), path, size, escapeName(string(e.Uploader)), timeText(e.Time))
}

// row is a row of the table.
func (c columns) row(ref, name string, long ...string) []string {
	var row []string
	if c.ref {
		row = append(row, escapeName(ref))
	}
	if c.long {
		row = append(row, long...)
	}
	return append(row, name)
}

func untilText(until time.Time) string {
	if until.IsZero() {
		return "until the owner destroys it"
	}
	return "until " + timeText(until)
}
