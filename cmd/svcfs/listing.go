package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/view"
)

// listing is the files of a group as a mount shows them.
type listing struct {
	view.Listing
	folders []string // recorded ones, in alphabetical order
}

// listOf lists the files of a group.
func listOf(ctx context.Context, g sdk.Group) (listing, error) {
	entries, err := g.Entries(ctx, sdk.ListOptions{Folders: true})
	return listingOf(entries), err
}

// walk visits what a path names in a large group, without the rest of it: a file, a folder with what is directly in it,
// or with deep all that is beneath it, or what a pattern matches, with all that is beneath it. See [view.Walk]. ok is
// false where the whole list is needed, see [sdk.Group.Children], also if there is nothing of the kind: it may be a
// reference, or have been removed. Then visit may have been called in vain.
func walk(ctx context.Context, g sdk.Group, what string, deep bool,
	visit func(path string, file *sdk.Entry) error) (ok bool, err error) {
	if strings.ContainsAny(what, `*?[`) {
		if _, err := g.Child(ctx, what); errors.Is(err, sdk.ErrNotFound) { // else it is the name of something
			return walkPattern(ctx, g, what, visit)
		}
	}
	err = view.Walk(ctx, g, what, func(path string, file *sdk.Entry) error {
		err := visit(path, file)
		if err == nil && file == nil && !deep {
			return fs.SkipDir
		}
		return err
	})
	if errors.Is(err, sdk.ErrNotFound) { // a file, perhaps
		var child sdk.Child
		if child, err = g.Child(ctx, what); err == nil && child.File != nil {
			err = visit(what, child.File)
		}
	} else if err == nil && what != "" {
		err = visit(what, nil)
	}
	if kind := sdk.KindOf(err); kind == sdk.ErrUnsupported || kind == sdk.ErrNotFound {
		return false, nil
	}
	return err == nil, err
}

// walkPattern is walk for a pattern.
func walkPattern(ctx context.Context, g sdk.Group, what string,
	visit func(path string, file *sdk.Entry) error) (ok bool, err error) {
	parts := strings.Split(what, "/")
	isPattern := func(part string) bool { return strings.ContainsAny(part, `*?[`) }
	folder := strings.Join(parts[:slices.IndexFunc(parts, isPattern)], "/")
	err = view.Walk(ctx, g, folder, func(path string, file *sdk.Entry) error {
		at := strings.SplitN(path, "/", len(parts)+1)
		n := min(len(at), len(parts))
		switch isIn := matches(strings.Join(parts[:n], "/"), strings.Join(at[:n], "/")); {
		case file == nil && !isIn:
			return fs.SkipDir
		case !isIn || n < len(parts):
			return nil
		}
		ok = true
		return visit(path, file)
	})
	if kind := sdk.KindOf(err); kind == sdk.ErrUnsupported || kind == sdk.ErrNotFound {
		return false, nil
	}
	return ok && err == nil, err
}

// placeList lists what paths name in a group: of a large one no more than [walk] visits, else all of it.
func placeList(ctx context.Context, g sdk.Group, paths []string, deep bool) (listing, error) {
	l, ok, err := partList(ctx, g, paths, deep)
	if !ok && err == nil {
		return listOf(ctx, g)
	}
	return l, err
}

// partList is placeList of a large group. ok is false where the whole list is needed.
func partList(ctx context.Context, g sdk.Group, paths []string, deep bool) (l listing, ok bool, err error) {
	var files []sdk.Entry
	for _, what := range paths {
		ok, err := walk(ctx, g, what, deep, func(path string, file *sdk.Entry) error {
			if file != nil {
				files = append(files, *file)
			} else {
				l.folders = append(l.folders, path)
			}
			return nil
		})
		if !ok || err != nil {
			return l, false, err
		}
	}
	slices.Sort(l.folders)
	l.Listing = view.Listing{Listing: names.List(files, (*sdk.Entry).Named), Entries: files}
	return l, true, nil
}

func listingOf(entries []sdk.Entry) listing {
	v := view.New()
	v.Apply(entries...)
	l := listing{Listing: v.List()}
	for e := range v.All() {
		if e.Folder && e.Deleted == nil {
			l.folders = append(l.folders, e.Name)
		}
	}
	slices.Sort(l.folders)
	return l
}

// trash is what is in the trash, as it would be shown.
func (l listing) trash() listing { return listing{Listing: l.Trash()} }

func lives(e *sdk.Entry) bool { return e.Deleted == nil }

func inTrash(e *sdk.Entry) bool { return e.Deleted != nil && e.Deleted.InTrash }

// shownName is the name that is shown for a record outside of a listing.
func shownName(e *sdk.Entry) string {
	f := e.Named()
	return names.Show(f.Recorded, f.Ref)
}

// listedEntry is a file record in JSON output.
type listedEntry struct {
	Name        string         `json:"name"` // as shown
	Size        *int64         `json:"size"` // null when unknown
	Uploader    sdk.AccountID  `json:"uploader"`
	Time        *time.Time     `json:"time"`
	CID         sdk.Ref        `json:"cid"`
	TransID     string         `json:"trans_id"`
	FileHash    string         `json:"file_hash"` // "" = not known
	Content     string         `json:"content,omitempty"`
	ContentType string         `json:"content_type,omitempty"`
	Modified    *time.Time     `json:"modified,omitempty"`
	Executable  bool           `json:"executable,omitempty"`
	Target      string         `json:"target,omitempty"`
	XAttrs      listedXAttrs   `json:"xattrs,omitempty"`
	Seq         sdk.Seq        `json:"seq,omitempty"`
	Deleted     *listedDeleted `json:"deleted,omitempty"`
}

// listedXAttrs are extended attributes by name.
type listedXAttrs map[string][]byte

type listedDeleted struct {
	Time   time.Time     `json:"time"`
	By     sdk.AccountID `json:"by"`
	Reason string        `json:"reason"`

	InTrash bool       `json:"in_trash,omitempty"`
	Until   *time.Time `json:"until,omitempty"` // the key is destroyed at this time
}

func listed(e sdk.Entry, name string) listedEntry {
	l := listedEntry{Name: name, Uploader: e.Uploader, CID: e.Ref, TransID: e.Tx,
		FileHash: hashText(e.Hash), Content: hashText(e.Content), ContentType: e.ContentType, Seq: e.Seq}
	if e.Size != sdk.SizeUnknown {
		l.Size = &e.Size
	}
	if !e.Time.IsZero() {
		utc := e.Time.UTC()
		l.Time = &utc
	}
	if a := e.Attributes; a != nil {
		l.Modified, l.Executable, l.Target = timeOrNil(a.ModTime), a.Executable, a.Target
		for name, value := range a.XAttrs {
			if l.XAttrs == nil {
				l.XAttrs = listedXAttrs{}
			}
			l.XAttrs[name] = []byte(value)
		}
	}
	if e.Deleted != nil {
		l.Deleted = &listedDeleted{e.Deleted.Time.UTC(), e.Deleted.By, e.Deleted.Reason, e.Deleted.InTrash,
			timeOrNil(e.Deleted.Until)}
	}
	return l
}

// hashText returns the hash of a file, "" when nobody knows it: the program that changed
// a large file did not have all of it.
func hashText(hash sdk.Digest) string {
	if hash == (sdk.Digest{}) {
		return ""
	}
	return hash.String()
}

func sizeText(e sdk.Entry) string {
	if e.Size == sdk.SizeUnknown {
		return "?"
	}
	return fmt.Sprint(e.Size)
}
