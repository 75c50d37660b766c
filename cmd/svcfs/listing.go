package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/sdk/wire"
)

// listOf lists the files of a group.
func listOf(ctx context.Context, g sdk.Group) (view.Listing, error) {
	entries, err := g.Entries(ctx)
	return view.Of(entries), err
}

func lives(e *sdk.Entry) bool { return e.Deleted == nil }

func inTrash(e *sdk.Entry) bool { return e.Deleted != nil && e.Deleted.InTrash }

// findEntry returns the file that what names: the file of that reference, else the
// newest living file that is shown or recorded under that name, else the newest living
// file whose hash begins so.
func findEntry(ctx context.Context, g sdk.Group, what string) (sdk.Entry, error) {
	list, err := listOf(ctx, g)
	if err != nil {
		return sdk.Entry{}, err
	}
	best, ok := list.Newest(list.Resolve(what))
	digits := strings.ToLower(what)
	for i, e := range list.Entries {
		if string(e.Ref) == what {
			return e, nil
		}
		isHash := len(digits) >= names.HashDigits && e.Deleted == nil && strings.HasPrefix(hashText(e.Hash), digits)
		if !ok && isHash && (best < 0 || list.Entries[best].Seq <= e.Seq) {
			best = i
		}
	}
	if best < 0 {
		return sdk.Entry{}, &sdk.Error{Op: "find " + strconv.Quote(what), Group: g.ID, Kind: sdk.ErrNotFound,
			Code: wire.CodeFileNotFound,
			Err:  errors.New("not found: no file of this name or reference")}
	}
	return list.Entries[best], nil
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
