package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
)

// getFlags are the flags of get.
type getFlags struct {
	output string
	all    bool
	force  bool // replace files that differ
	hidden bool // with all: also hidden files of others
	jobs   int
}

func (a *app) getCommand() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get GROUP REF|NAME",
		Short: "Fetch a file, decrypt it here and verify it; costs one retrieval",
		Long: `Fetch a file, decrypt it here and verify it against the ledger; costs one
retrieval. NAME means the newest version of that name. The content goes to
standard output, or with -o into a file (mode 0600) that appears only when it
is complete and verified. A FILE that is equal already costs nothing; one that differs
is kept unless --force is given. FILE gets the time that was recorded with the file, and may
be executed if that was recorded and you uploaded the file.

A large file is not held in memory: its blocks are written as they come, each proven
before. The hash of the whole, where the ledger has it, is compared at the end: FILE
appears after that, and standard output has ended by then, so look at the exit code.

With --all the newest version of every file of the group goes into the folder
of -o. Local files that are equal already cost nothing, so running the same
command again finishes an interrupted one. Local files that differ are kept
unless --force is given. Files with a hidden
name, or in a hidden folder, that other accounts uploaded come only with
--hidden: shells, git and others obey such files. Links are made as links, free; a
link that another account uploaded only if its target is in the folder.`,
		Example: "  svcfs get team report.pdf -o report.pdf\n  svcfs get team notes/todo.txt | less\n" +
			"  svcfs get team --all -o team\n  svcfs get team --all --force -o team",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.all {
				return exactly(1, "one GROUP, with --all,")(cmd, args)
			}
			return exactly(2, "a GROUP and a REF or NAME")(cmd, args)
		},
		PreRunE: first(func([]string) error { return a.checkGet(f) }),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			g := c.Group(sdk.GroupID(args[0]))
			if f.all {
				return a.getAll(ctx, c, g, f)
			}
			return a.get(ctx, c, g, args[1], f)
		}),
		ValidArgsFunction: a.completeGroupThen(a.completeName),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "file to write (default standard output), or folder with --all")
	flags.BoolVar(&f.all, "all", false, "every file of the group, into the folder of -o")
	flags.BoolVar(&f.force, "force", false, "replace local files that differ")
	flags.BoolVar(&f.hidden, "hidden", false, "with --all, also hidden files of other accounts, such as .bashrc")
	flags.IntVarP(&f.jobs, "jobs", "j", defaultJobs, "with --all, files to fetch at a time; each takes memory")
	return cmd
}

// checkGet refuses a command line that cannot work, before a token is spent.
func (a *app) checkGet(f getFlags) error {
	toFile := f.output != "" && f.output != "-"
	switch {
	case f.jobs < 1:
		return usage("use --jobs 4", "--jobs must be 1 or more")
	case f.hidden && !f.all:
		return usage("add --all, or leave it out: a file that is named comes in any case", "--hidden is for --all")
	case f.force && !toFile:
		return usage("add -o FILE, or leave it out", "--force is about a file that is there")
	case f.all && !toFile:
		return usage("add -o DIR", "--all needs a folder to write to")
	case a.asJSON && !toFile:
		return usage("add -o FILE", "--json prints a description, and the content would be in the way")
	case !toFile:
		return nil
	}
	info, err := os.Stat(f.output)
	if f.all {
		if err == nil && !info.IsDir() {
			return usage("name a folder", f.output+" is not a folder")
		}
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return usage("name a file", f.output+" is not a regular file")
	}
	if _, err := os.Stat(filepath.Dir(f.output)); err != nil {
		return refuse(exitUsage, "create the folder first", err)
	}
	return nil
}

// fetched is what get prints as JSON, with --all one document per file.
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

func (a *app) get(ctx context.Context, c *sdk.Client, g sdk.Group, what string, f getFlags) error {
	entry, err := findEntry(ctx, g, what)
	if err != nil {
		return err
	}
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
	file, err := openFor(ctx, g, entry, flying)
	if err != nil {
		return err
	}
	defer file.Close()
	err = (&wholeFiles{dir: dir}).write(name, downloadOf(ctx, file, flying), marksOf(&entry, c.Account()), f.force)
	if errors.Is(err, os.ErrExist) && !f.force { // it came meanwhile
		return differs(f.output)
	}
	if err != nil {
		return localFault(err, "name a file in a folder that you may write to and that has room", f.output)
	}
	a.ui.progress("")
	return a.printFetched(fetchedFrom(entry, file, f.output))
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
