package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
)

// allEntries lists every record of a group, one per reference, in upload order.
func allEntries(ctx context.Context, g sdk.Group) ([]sdk.Entry, error) {
	listed, err := g.Entries(ctx)
	if err != nil {
		return nil, err
	}
	at := make(map[sdk.Ref]int, len(listed))
	entries := make([]sdk.Entry, 0, len(listed))
	for _, e := range listed {
		if i, seen := at[e.Ref]; seen {
			entries[i] = e
			continue
		}
		at[e.Ref] = len(entries)
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(x, y sdk.Entry) int { return int(min(max(x.Seq-y.Seq, -1), 1)) })
	return entries, nil
}

// listing is the files of a group as a mount shows them.
type listing struct {
	*names.Listing
	entries []sdk.Entry // all of the group
}

func listingOf(entries []sdk.Entry) listing {
	return listing{names.List(entries, (*sdk.Entry).Named), entries}
}

// trashListingOf is the files of a group in its trash, as they would be shown.
func trashListingOf(entries []sdk.Entry) listing {
	trash := slices.DeleteFunc(slices.Clone(entries), func(e sdk.Entry) bool { return !inTrash(&e) })
	return listing{names.List(trash, func(e *sdk.Entry) names.File {
		f := e.Named()
		f.Deleted = false
		return f
	}), trash}
}

func lives(e *sdk.Entry) bool { return e.Deleted == nil }

func inTrash(e *sdk.Entry) bool { return e.Deleted != nil && e.Deleted.InTrash }

// current returns the newest living entry of each name, by name, and the path that
// each is shown under.
func (l listing) current() (list []sdk.Entry, paths []string) {
	for _, name := range l.Names() {
		i, _ := l.Newest(name)
		list, paths = append(list, l.entries[i]), append(paths, l.Shown(name))
	}
	return list, paths
}

// findEntry returns the file that what names: the file of that reference, else the
// newest living file that is shown or recorded under that name, else the newest living
// file whose hash begins so.
func findEntry(ctx context.Context, g sdk.Group, what string) (sdk.Entry, error) {
	entries, err := g.Entries(ctx)
	if err != nil {
		return sdk.Entry{}, err
	}
	list := listingOf(entries)
	best, ok := list.Newest(list.Resolve(what))
	digits := strings.ToLower(what)
	for i, e := range entries {
		if string(e.Ref) == what {
			return e, nil
		}
		isHash := len(digits) >= names.HashDigits && e.Deleted == nil && strings.HasPrefix(hashText(e.Hash), digits)
		if !ok && isHash && (best < 0 || entries[best].Seq <= e.Seq) {
			best = i
		}
	}
	if best < 0 {
		return sdk.Entry{}, &sdk.Error{Op: "find " + strconv.Quote(what), Group: g.ID, Kind: sdk.ErrNotFound,
			Code: wire.CodeFileNotFound,
			Err:  errors.New("not found: no file of this name or reference")}
	}
	return entries[best], nil
}

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
