package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/svcfs/svcfs/sdk"
)

// maxNameBytes is the longest name a file system takes.
const maxNameBytes = 255

// getAll fetches the newest version of every file into the folder of -o. One
// that fails does not stop the others.
func (a *app) getAll(ctx context.Context, c *sdk.Client, group sdk.GroupID, f getFlags) error {
	entries, err := allEntries(ctx, c, group)
	if err != nil {
		return err
	}
	entries = current(entries)
	if err := os.MkdirAll(f.output, 0o700); err != nil {
		return refuse(exitUsage, "name a folder you can write", err)
	}
	dir, err := os.OpenRoot(f.output)
	if err != nil {
		return refuse(exitUsage, "name a folder you can write", err)
	}
	defer dir.Close()
	var total int64
	for _, e := range entries {
		total += max(e.Size, 0)
	}
	g := &getting{app: a, client: c, dir: dir, files: &wholeFiles{dir: dir}, output: f.output, bar: a.newBar("fetching", len(entries), total, f.asJSON), takenBy: make(map[string]string)}
	defer a.ui.progress("")
	paths := make([]string, len(entries))
	for i, e := range entries {
		paths[i] = g.claim(e)
	}
	work := func(ctx context.Context, i int) (outcome, error) { return g.one(ctx, entries[i], paths[i]), ctx.Err() }
	if err := inOrder(ctx, f.jobs, len(entries), work, func(o outcome) error { return g.took(o, f.asJSON) }); err != nil {
		if ctx.Err() != nil {
			return interruption("run the same command again: what is complete is not fetched twice")
		}
		return err
	}
	if !f.asJSON {
		a.ui.printf("%s fetched, %d equal already, %d failed\n", plural(g.fetched, "file"), g.equal, g.failed)
	}
	if g.first != nil {
		hint := "run the same command again: what is complete is not fetched twice"
		if step := diskStep(g.first); step != "" {
			hint = step + ", then " + hint
		}
		return refuse(exitCodeOf(g.first), hint, fmt.Errorf("%s of %d not fetched, first: %w", plural(g.failed, "file"), len(entries), g.first))
	}
	return nil
}

// getting is one run of get --all.
type getting struct {
	*app
	client  *sdk.Client
	dir     *os.Root // everything is written below it, whatever the names say
	files   *wholeFiles
	output  string
	bar     *bar
	takenBy map[string]string // path below dir → recorded name

	fetched, equal, failed int
	first                  error
}

// outcome is what became of one file.
type outcome struct {
	doc fetched
	err error
}

// claim returns where a file goes; "" when another has the place already.
func (g *getting) claim(e sdk.Entry) string {
	path := localPath(entryName(e))
	if _, taken := g.takenBy[path]; taken {
		return ""
	}
	g.takenBy[path] = entryName(e)
	return path
}

// localPath makes a recorded name, which anybody may have chosen, a relative
// path that stays below its folder: a component that means something else to the
// system is shown in percent form.
func localPath(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		switch part {
		case "":
			parts[i] = "%2F"
		case ".", "..":
			parts[i] = strings.ReplaceAll(part, ".", "%2E")
		default:
			parts[i] = escapeName(part)
		}
	}
	return filepath.Join(parts...)
}

// one fetches a file unless an equal one is there.
func (g *getting) one(ctx context.Context, e sdk.Entry, path string) outcome {
	ctx, flying := g.bar.start(ctx, entryName(e), e.Size)
	defer flying.end()
	doc := fetched{Name: escapeName(entryName(e)), Path: filepath.Join(g.output, path), CID: e.Ref, FileHash: e.Hash.String(), Size: e.Size, State: stateEqual}
	if path == "" {
		doc.Path = ""
		return outcome{doc, errors.New("another file has the same name on this system")}
	}
	same, size, err := g.holds(path, e.Hash)
	if err != nil {
		return outcome{doc, err}
	}
	if same {
		doc.Size = size
		return outcome{doc: doc}
	}
	b, err := g.client.Pool().Get(0)
	if err != nil {
		return outcome{doc, err}
	}
	defer b.Release()
	plain, err := g.client.Retrieve(ctx, e, b)
	if err != nil {
		return outcome{doc, err}
	}
	if parent := filepath.Dir(path); parent != "." {
		if err := g.dir.MkdirAll(parent, 0o700); err != nil {
			return outcome{doc, err}
		}
	}
	if err := g.files.write(path, b.Bytes()); err != nil {
		return outcome{doc, err}
	}
	return outcome{doc: fetchedFrom(e, plain, doc.Path)}
}

// holds reports whether path is a file with that hash. Something that is not a
// file is an error: it is not replaced.
func (g *getting) holds(path string, want sdk.Digest) (bool, int64, error) {
	for _, part := range strings.Split(path, string(filepath.Separator)) {
		if len(part) > maxNameBytes {
			return false, 0, fmt.Errorf("a name of %d bytes does not fit into this file system", len(part))
		}
	}
	info, err := g.dir.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	if !info.Mode().IsRegular() {
		return false, 0, fmt.Errorf("%s is there already and is not a file", filepath.Join(g.output, path))
	}
	f, err := g.dir.Open(path)
	if err != nil {
		return false, 0, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return false, 0, err
	}
	return sdk.Digest(sum.Sum(nil)) == want, info.Size(), nil
}

// took counts and tells one outcome.
func (g *getting) took(o outcome, asJSON bool) error {
	switch {
	case o.err != nil:
		g.failed++
		o.doc.State, o.doc.Error = stateFailed, escapeText(o.err.Error())
		if g.first == nil {
			g.first = o.err
		}
	case o.doc.State == stateEqual:
		g.equal++
	default:
		g.fetched++
	}
	if asJSON {
		return g.printJSON(o.doc)
	}
	if o.err != nil {
		g.ui.notice("%s: %v", o.doc.Name, o.err)
	}
	return nil
}
