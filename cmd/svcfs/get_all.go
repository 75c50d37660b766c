package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

// getAll fetches files into the folder of -o. One that fails does not stop the others.
func (a *app) getAll(ctx context.Context, c *sdk.Client, files []wanted, f getFlags) error {
	if err := ownfile.MakeFolder(f.output); err != nil {
		return refuse(exitUsage, "name a folder you can write", err)
	}
	dir, err := os.OpenRoot(f.output)
	if err != nil {
		return refuse(exitUsage, "name a folder you can write", err)
	}
	defer dir.Close()
	var total int64
	for i := range files {
		total += max(files[i].entry.Size, 0)
	}
	g := &getting{app: a, account: c.Account(), dir: dir, files: &wholeFiles{dir: dir}, flags: f,
		bar: a.newBar("fetching", len(files), total), links: map[string]bool{}}
	for i := range files {
		g.links[files[i].path] = linkOf(&files[i].entry) != ""
	}
	defer a.ui.progress("")
	work := func(ctx context.Context, i int) (outcome, error) { return g.one(ctx, &files[i]), ctx.Err() }
	err = inOrder(ctx, f.jobs, len(files), work, g.took)
	if unsynced := g.files.sync(); err == nil && unsynced != nil {
		err = localFault(unsynced, "name a folder on a disk that works", f.output)
	}
	if err != nil {
		if ctx.Err() != nil {
			return interruption("run the same command again: what is complete is not fetched twice")
		}
		return err
	}
	if !a.asJSON {
		a.ui.printf("%s fetched, %d equal already, %d failed", plural(g.fetched, "file"), g.equal, g.failed)
		if g.kept > 0 {
			a.ui.printf(", %d kept that differ (--force replaces them)", g.kept)
		}
		if g.hidden > 0 {
			a.ui.printf(", %d hidden left out, of other accounts (--hidden brings them)", g.hidden)
		}
		if g.outside > 0 {
			a.ui.printf(", %d links left out, of other accounts, that lead out of the folder", g.outside)
		}
		a.ui.printf("\n")
	}
	if g.first != nil {
		hint := "run the same command again: what is complete is not fetched twice"
		if step := diskStep(g.first); step != "" {
			hint = step + ", then " + hint
		}
		return refuse(exitCodeOf(g.first), hint, fmt.Errorf("%s of %d not fetched, first: %w",
			plural(g.failed, "file"), len(files), g.first))
	}
	return nil
}

// getting is one run of get into a folder.
type getting struct {
	*app
	account sdk.AccountID // who fetches
	dir     *os.Root      // everything is written below it, whatever the names say
	files   *wholeFiles
	flags   getFlags
	bar     *bar

	links map[string]bool // paths that are links in the listing

	fetched, equal, kept, hidden, outside, failed int
	first                                         error
}

// outcome is what became of one file.
type outcome struct {
	doc fetched
	err error
}

// isHidden reports whether a path has a component that file managers, and people,
// do not see.
func isHidden(path string) bool {
	return strings.HasPrefix(path, ".") || strings.Contains(path, "/.")
}

// one fetches a file unless one is there: an equal one, or a different one without
// --force. Hidden ones of others that were not named are for --hidden.
func (g *getting) one(ctx context.Context, file *wanted) outcome {
	e, path := file.entry, file.path
	flying := g.bar.start(path, e.Size)
	defer flying.end()
	doc := fetched{Name: path, Path: filepath.Join(g.flags.output, path), CID: e.Ref, FileHash: hashText(e.Hash),
		Size: e.Size, State: stateEqual}
	if isHidden(path) && e.Uploader != g.account && !g.flags.hidden && !file.named {
		doc.Path, doc.State = "", stateHidden
		return outcome{doc: doc}
	}
	if target := linkOf(&e); target != "" {
		return g.link(e, path, target, doc)
	}
	if e.Uploader != g.account {
		if problem := g.crossesLink(filepath.Dir(path)); problem != "" { // it leads where isHidden does not look
			return outcome{doc, fmt.Errorf("%s, and the file is of %s: put a folder in the place of the link, or "+
				"fetch the file alone with svcfs get", problem, escapeName(string(e.Uploader)))}
		}
	}
	there, same, err := holds(g.dir, path, &e)
	if err != nil {
		return outcome{doc, err}
	}
	if there != nil {
		if same {
			doc.Size = there.Size()
			return outcome{doc: doc}
		}
		if doc.State = stateKept; !g.flags.force {
			return outcome{doc: doc}
		}
	}
	return g.download(ctx, file, flying, doc)
}

// download fetches a file that is not here, or that is to be replaced.
func (g *getting) download(ctx context.Context, file *wanted, flying *flight, doc fetched) outcome {
	e, path := file.entry, file.path
	open, err := openFor(ctx, file.group, e, flying)
	if err != nil {
		return outcome{doc, err}
	}
	defer open.Close()
	if parent := filepath.Dir(path); parent != "." {
		if err := g.dir.MkdirAll(parent, 0o700); err != nil {
			return outcome{doc, err}
		}
	}
	if err := g.files.write(path, downloadOf(ctx, open, flying), marksOf(&e, g.account), g.flags.force); err != nil {
		if errors.Is(err, os.ErrExist) && !g.flags.force { // it came meanwhile
			doc.State = stateKept
			return outcome{doc: doc}
		}
		return outcome{doc, err}
	}
	return outcome{doc: fetchedFrom(e, open, doc.Path)}
}

// link makes a symbolic link, unless the same one is there, or something different without
// --force. The record has the target: the service is not asked for the content.
func (g *getting) link(e sdk.Entry, path, target string, doc fetched) outcome {
	if e.Uploader != g.account {
		if problem := g.leadsOut(path, target); problem != "" {
			doc.Path, doc.State = "", stateOutside
			g.ui.notice("left out, a link of %s: %s: %s", escapeName(string(e.Uploader)), problem, path)
			return outcome{doc: doc}
		}
	}
	if info, err := g.dir.Lstat(path); err == nil && info.IsDir() {
		return outcome{doc, fmt.Errorf("%s is there already and is a folder", doc.Path)}
	}
	if there, err := g.dir.Readlink(path); err == nil && there == target {
		return outcome{doc: doc}
	}
	if parent := filepath.Dir(path); parent != "." {
		if err := g.dir.MkdirAll(parent, 0o700); err != nil {
			return outcome{doc, err}
		}
	}
	doc.State = stateFetched
	err := g.files.link(path, target, g.flags.force)
	if errors.Is(err, os.ErrExist) {
		doc.State, err = stateKept, nil
	}
	return outcome{doc, err}
}

// leadsOut returns why a link of another account is not made at a path, "" if it may be.
// Whoever follows it must stay in the folder, whatever the links on the way are or become:
// so ".." may only come first, and nothing on the way may be a link. Nor may it show what is
// hidden under a name that is not.
func (g *getting) leadsOut(link, target string) string {
	if strings.HasPrefix(target, "/") {
		return "its target is an absolute path"
	}
	at, below := filepath.Dir(link), false
	if problem := g.crossesLink(at); problem != "" {
		return problem
	}
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == "" || part == ".":
		case part == ".." && below:
			return "its target goes up again"
		case part == ".." && at == ".":
			return "its target is outside"
		case part == "..":
			at = filepath.Dir(at)
		default:
			at, below = filepath.Join(at, part), true
		}
	}
	if at != "." && isHidden(at) && !g.flags.hidden {
		return "its target is hidden (--hidden brings the link)"
	}
	return g.crossesLink(at)
}

// crossesLink says which component of a path is a link, "" if none is.
func (g *getting) crossesLink(at string) string {
	for ; at != "."; at = filepath.Dir(at) {
		info, err := g.dir.Lstat(at)
		if g.links[at] || err == nil && info.Mode()&os.ModeSymlink != 0 {
			return "it leads over the link " + escapeText(at)
		}
	}
	return ""
}

// holds tells of the file at path in dir, nil when there is none, and whether it has the content of
// e: the hash, or, where nobody knows that, size and time. The hash of a file in blocks is what its uploader
// says: where that is wrong, the file that is here stays. Something that is not a file is an error: it is not replaced.
func holds(dir *os.Root, path string, e *sdk.Entry) (there os.FileInfo, same bool, err error) {
	info, err := dir.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		return nil, false, fmt.Errorf("%s is there already and is not a file", filepath.Join(dir.Name(), path))
	}
	if e.Hash == (sdk.Digest{}) || !mayEqual(e, info.Size()) {
		return info, looksEqual(e, info.Size(), info.ModTime()), nil
	}
	f, err := dir.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	hash, err := sdk.ComputeHashReader(f)
	return info, hash == e.Hash, err
}

// took counts and tells one outcome.
func (g *getting) took(o outcome) error {
	switch {
	case o.err != nil:
		g.failed++
		o.doc.State, o.doc.Error = stateFailed, escapeText(o.err.Error())
		if g.first == nil {
			g.first = o.err
		}
	case o.doc.State == stateEqual:
		g.equal++
	case o.doc.State == stateKept:
		g.kept++
	case o.doc.State == stateHidden:
		g.hidden++
	case o.doc.State == stateOutside:
		g.outside++
	default:
		g.fetched++
	}
	if g.asJSON {
		return g.printJSON(o.doc)
	}
	if o.err != nil {
		g.ui.notice("%s: %v", o.doc.Name, o.err)
	}
	return nil
}
