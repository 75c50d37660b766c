package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk"
)

// getFlags are the flags of get.
type getFlags struct {
	output string
	all    bool
	force  bool // replace files that differ
	hidden bool // of a folder: also hidden files of others
	jobs   int
}

func (a *app) getCommand() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get GROUP NAME... | PLACE... [-o FILE|FOLDER]",
		Short: "Fetch files, decrypt them here and verify them; costs one retrieval each",
		Long: `Fetch files, decrypt them here and verify them against the ledger; each costs one
retrieval. ` + placeHelp + `
The newest version of a name is fetched. The content of one file goes to standard output,
or with -o into a file (mode 0600) that appears only when it is complete and verified.
Several files, a folder, a pattern and a whole group go into the folder of -o.

A local file that is equal already costs nothing, so running the same command again
finishes an interrupted one; one that differs is kept unless --force is given. A file gets
the time that was recorded with it, and may be executed if that was recorded and you
uploaded the file.

A large file is not held in memory: its blocks are written as they come, each proven
before. The hash of the whole, where the ledger has it, is compared at the end: FILE
appears after that, and standard output has ended by then, so look at the exit code.

Of a folder or group, files with a hidden name, or in a hidden folder, that other
accounts uploaded come only with --hidden: shells, git and others obey such files. Links
are made as links, free; a link that another account uploaded only if its target is in
the folder.`,
		Example: "  svcfs get team report.pdf -o report.pdf\n  svcfs get team/notes/todo.txt | less\n" +
			"  svcfs get team docs '*.pdf' -o here\n  svcfs get team --all -o team\n" +
			"  svcfs get ~/groups/team/docs -o docs-of-today",
		Args: cobra.MinimumNArgs(1),
		PreRunE: first(func(args []string) error {
			places, err := placesOf(args)
			if err != nil {
				return err
			}
			return a.checkGet(f, places)
		}),
		RunE: a.withPlaces(func(ctx context.Context, c *sdk.Client, places []place) error {
			return a.get(ctx, c, places, f)
		}),
		ValidArgsFunction: a.completePlace,
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "file to write (default standard output), or folder")
	flags.BoolVar(&f.all, "all", false, "every file of the group, as without a NAME")
	flags.BoolVar(&f.force, "force", false, "replace local files that differ")
	flags.BoolVar(&f.hidden, "hidden", false, "of a folder, also hidden files of other accounts, such as .bashrc")
	flags.IntVarP(&f.jobs, "jobs", "j", defaultJobs, "files to fetch at a time; each takes memory")
	cli.Rare(flags, "all", "jobs")
	return cmd
}

// checkGet refuses a command line that cannot work, before a token is spent.
func (a *app) checkGet(f getFlags, places []place) error {
	isWhole := func(p place) bool { return p.path == "" }
	toFile := f.output != "" && f.output != "-"
	switch whole := slices.ContainsFunc(places, isWhole); {
	case f.jobs < 1:
		return usage("use --jobs 4", "--jobs must be 1 or more")
	case slices.ContainsFunc(places, func(p place) bool { return p.group == "" }):
		return usage("name a group, or files in one", "these are all groups")
	case f.all && !(whole && len(places) == 1):
		return usage("leave it out, or name a GROUP alone", "--all is for a whole group")
	case f.force && !toFile:
		return usage("add -o FILE, or leave it out", "--force is about a file that is there")
	case (whole || len(places) > 1) && !toFile:
		return usage("add -o FOLDER", "several files need a folder to write to")
	case a.asJSON && !toFile:
		return usage("add -o FILE", "--json prints a description, and the content would be in the way")
	case !toFile:
		return nil
	}
	info, err := os.Stat(f.output)
	switch {
	case err == nil && !info.IsDir() && (slices.ContainsFunc(places, isWhole) || len(places) > 1):
		return usage("name a folder", f.output+" is not a folder")
	case err == nil && !info.IsDir() && !info.Mode().IsRegular():
		return usage("name a file", f.output+" is not a regular file")
	}
	return nil
}

// fetched is what get prints as JSON, one document per file.
type fetched struct {
	Name     string  `json:"name"`
	Path     string  `json:"path"`
	CID      sdk.Ref `json:"cid"`
	FileHash string  `json:"file_hash"`
	Size     int64   `json:"size"`
	Fee      string  `json:"fee,omitempty"` // tokens, where the service tells
	State    string  `json:"state"`         // one of the states below
	Error    string  `json:"error,omitempty"`
}

// The states of a fetched file.
const (
	stateFetched = "fetched"
	stateEqual   = "equal"   // was there already
	stateKept    = "differs" // another one was there already, and stays
	stateHidden  = "hidden"  // of another account, and left out
	// a link of another account that leads out of the folder or to what is hidden, and was left out
	stateOutside = "outside"
	stateFailed  = "failed"
)

// wanted is a file to fetch.
type wanted struct {
	group sdk.Group
	entry sdk.Entry
	path  string // where it goes, below the folder of -o
	named bool   // by itself: it comes also if it is hidden
}

// fetchList is what a get fetches.
type fetchList struct {
	files []wanted
	whole bool              // not one file that was named
	taken map[string]string // reference by path
}

// add adds what an argument names in a group.
func (f *fetchList) add(g sdk.Group, list listing, what string) error {
	chosen, ok := list.choose(what)
	if !ok {
		return list.absent(g.ID, what)
	}
	isNamed := !chosen.whole && !chosen.many
	f.whole = f.whole || !isNamed
	for _, name := range chosen.names {
		e, shown := list.one(chosen, name)
		parts := strings.Split(shown, "/")
		path, ref := strings.Join(parts[max(min(chosen.depth, len(parts)-1), 0):], "/"), string(e.Ref)
		switch other, isTaken := f.taken[path]; {
		case !isTaken:
			f.taken[path], f.files = ref, append(f.files, wanted{g, *e, path, isNamed})
		case other != ref:
			return usage("fetch them one after the other, each into its -o",
				"two of these files would be "+path)
		}
	}
	return nil
}

// get fetches what places name.
func (a *app) get(ctx context.Context, c *sdk.Client, places []place, f getFlags) error {
	to := fetchList{whole: len(places) > 1, taken: map[string]string{}}
	err := byGroup(places, func(group sdk.GroupID, paths []string) error {
		list, err := placeList(ctx, c.Group(group), paths, true)
		if err != nil {
			return err
		}
		for _, what := range paths {
			if err := to.add(c.Group(group), list, what); err != nil {
				return err
			}
		}
		return nil
	})
	switch toFile := f.output != "" && f.output != "-"; {
	case err != nil:
		return err
	case to.whole && !toFile:
		return usage("add -o FOLDER", "several files need a folder to write to")
	case to.whole:
		return a.getAll(ctx, c, to.files, f)
	case f.hidden:
		return usage("leave it out: a file that is named comes in any case",
			"--hidden is for a folder, or a whole group")
	case toFile:
		if info, err := os.Stat(f.output); err == nil && info.IsDir() {
			f.output = filepath.Join(f.output, to.files[0].path)
		}
		if _, err := os.Stat(filepath.Dir(f.output)); err != nil {
			return refuse(exitUsage, "create the folder first", err)
		}
	}
	return a.getOne(ctx, c, to.files[0], places[0].path, f)
}

// getOne fetches one file, to standard output or into a file. what is how it was named.
func (a *app) getOne(ctx context.Context, c *sdk.Client, file wanted, what string, f getFlags) error {
	g, entry := file.group, file.entry
	if f.output == "" || f.output == "-" {
		return a.getOut(ctx, g, entry, what)
	}
	dir, err := os.OpenRoot(filepath.Dir(f.output))
	if err != nil {
		return refuse(exitOther, "name a file in a folder that you may read and write", err)
	}
	defer dir.Close()
	name := filepath.Base(f.output)
	switch there, same, err := holds(dir, name, &entry); {
	case err != nil:
		return localFault(err, "name a file that you may read", f.output)
	case same:
		return a.printFetched(fetched{Name: shownName(&entry), Path: f.output, CID: entry.Ref,
			FileHash: hashText(entry.Hash), Size: there.Size(), State: stateEqual})
	case there != nil && !f.force:
		return differs(f.output)
	}
	progress := a.newBar("fetching", 1, max(entry.Size, 0))
	defer a.ui.progress("")
	flying := progress.start(what, entry.Size)
	defer flying.end()
	open, err := openFor(ctx, g, entry, flying)
	if err != nil {
		return err
	}
	defer open.Close()
	files := &wholeFiles{dir: dir}
	err = files.write(name, downloadOf(ctx, open, flying), marksOf(&entry, c.Account()), f.force)
	if errors.Is(err, os.ErrExist) && !f.force { // it came meanwhile
		return differs(f.output)
	}
	if err == nil {
		err = files.sync()
	}
	if err != nil {
		return localFault(err, "name a file in a folder that you may write to and that has room", f.output)
	}
	a.ui.progress("")
	return a.printFetched(fetchedFrom(entry, open, f.output))
}

// getOut writes a file to standard output.
func (a *app) getOut(ctx context.Context, g sdk.Group, entry sdk.Entry, what string) error {
	progress := a.newBar("fetching", 1, max(entry.Size, 0))
	defer a.ui.progress("")
	flying := progress.start(what, entry.Size)
	defer flying.end()
	file, err := openFor(ctx, g, entry, flying)
	if err != nil {
		return err
	}
	defer file.Close()
	content := downloadOf(ctx, file, flying)
	a.ui.progress("")
	progress.hidden = progress.hidden || isTerminal(a.ui.out) // the content stands there
	if _, err := content.WriteTo(a.ui.out); err != nil {
		return localFault(err, "make room there, or name a file with -o", "standard output")
	}
	return nil
}

// differs refuses to replace a file.
func differs(file string) error {
	return refuse(exitUsage, "add --force to replace it, or name another file",
		fmt.Errorf("%s is there already, with other content", file))
}

// printFetched describes a file that is there now, as JSON; else there is nothing to say.
func (a *app) printFetched(f fetched) error {
	if !a.asJSON {
		return nil
	}
	return a.printJSON(f)
}

func fetchedFrom(e sdk.Entry, file *sdk.File, path string) fetched {
	got := fetched{Name: shownName(&e), Path: path, CID: e.Ref, FileHash: hashText(e.Hash), Size: file.Entry().Size,
		State: stateFetched}
	if fee := file.Fee(); !fee.IsZero() {
		got.Fee = fee.Tokens()
	}
	return got
}
