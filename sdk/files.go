package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
)

// List lists the file records of the group, deleted ones included, in the order of
// their ChangedSeq: all, or with [Since] those that changed since. A service without
// paging answers all of them every time, in upload order; the caller merges by Ref.
// An error ends the list and stands alone: what came before it was verified.
//
// From a service with the extension "chains" an entry is built from records whose
// hashes were computed here, which are all that the service signed for the group,
// in a history that continues the one seen before; else the error is [ErrCorrupt],
// and no entry is listed. Any other service is believed.
//
// Rows are hostile input. A field of the wrong JSON type makes the whole answer
// [ErrCorrupt]. A row without a reference is left out. A row whose hash cannot
// be read has a zero Hash: no content matches it, so it cannot be retrieved. A
// negative size is [SizeUnknown].
//
// Free at a service of one's own, else see [Group.ReadPrice]. Needs the API key, and
// membership or an open group. Errors: [ErrNotFound], [ErrNotAuthorized],
// [ErrUnavailable], [ErrTimeout]. Specification 4.2 (getTransactionsForGroup), wire
// protocol 4.4.
func (g Group) List(ctx context.Context, opts ...Option) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		entries, err := g.Entries(ctx, opts...)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for i := range entries {
			if !yield(entries[i], nil) {
				return
			}
		}
	}
}

// Entries is [Group.List] as a slice, which belongs to the caller. It takes the option
// [Since]. Free, needs the API key, and errors, like it.
func (g Group) Entries(ctx context.Context, opts ...Option) ([]Entry, error) {
	o, err := resolve(opts, "Since")
	if err != nil {
		return nil, g.wrap("list", err)
	}
	entries, err := g.c.entries(ctx, g.ID, o.since)
	return entries, g.wrap("list", err)
}

// Stat returns the newest living file of a name: of the record that has it, else of the
// one that a mount shows so ([names.Listing.Resolve]). Free, needs the API key, and
// errors, like [Group.List]; [ErrNotFound] when there is none.
func (g Group) Stat(ctx context.Context, name string) (Entry, error) {
	entries, err := g.Entries(ctx)
	if err != nil {
		return Entry{}, err
	}
	list := names.List(entries, (*Entry).Named)
	i, ok := list.Newest(name)
	if !ok {
		i, ok = list.Newest(list.Resolve(name))
	}
	if !ok {
		return Entry{}, g.absent("name " + quote(name))
	}
	return entries[i], nil
}

// statRef returns the file of a reference, which may be of an older version of a name,
// or deleted.
func (g Group) statRef(ctx context.Context, ref Ref) (Entry, error) {
	entries, err := g.Entries(ctx)
	if err != nil {
		return Entry{}, err
	}
	for _, e := range slices.Backward(entries) {
		if e.Ref == ref {
			return e, nil
		}
	}
	return Entry{}, g.absent("reference " + quoteRef(ref))
}

func (g Group) absent(what string) error {
	return &Error{Op: "find", Group: g.ID, Kind: ErrNotFound, Code: wire.CodeFileNotFound, Err: errors.New("not found: no file of this " + what)}
}

// Put reads r to its end and uploads that as name. It returns only after the service
// acknowledged the record. It takes the options [Compress] and [Progress].
//
// The content is held in memory once, outside the garbage-collected heap, because a
// file is sealed as a whole. More than the largest allowed file is [ErrTooLarge]
// without reading on. A reader with a Len or a Stat method, such as an *os.File, saves
// making room piece by piece.
//
// Costs one upload. After an error whose outcome is unknown, calling it again with
// the same content finds out first: nobody pays twice. Needs the API key and
// membership. Errors: those of r, which can be tested with errors.Is,
// [ErrNotAuthorized], [ErrInsufficient], [ErrTooLarge], [ErrStorageFull],
// [ErrUnavailable], [ErrTimeout], [ErrCorrupt] when the service acknowledges
// something else. Specification 4.3 (upload).
func (g Group) Put(ctx context.Context, name string, r io.Reader, opts ...Option) (Receipt, error) {
	receipt, err := g.put(ctx, name, r, opts)
	return receipt, g.wrap("upload "+quote(name), err)
}

func (g Group) put(ctx context.Context, name string, r io.Reader, opts []Option) (Receipt, error) {
	o, err := resolve(opts, "Compress", "Progress")
	if err != nil {
		return Receipt{}, err
	}
	b, err := g.c.pool.Get(0)
	if err != nil {
		return Receipt{}, err
	}
	defer b.Release()
	if err := g.c.fill(ctx, b, r, lengthOf(r)); err != nil {
		return Receipt{}, err
	}
	return g.c.upload(ctx, g.ID, name, b, o)
}

// lengthOf tells how much is left in r, 0 when r does not say.
func lengthOf(r io.Reader) int64 {
	switch r := r.(type) {
	case interface{ Len() int }:
		return int64(r.Len())
	case interface {
		io.Seeker
		Stat() (fs.FileInfo, error)
	}:
		info, err := r.Stat()
		if err != nil || !info.Mode().IsRegular() {
			return 0
		}
		if at, err := r.Seek(0, io.SeekCurrent); err == nil {
			return max(info.Size()-at, 0)
		}
	}
	return 0
}

// fillStep is how much room is made at least for what comes next, in bytes.
const fillStep = 64 << 10

// fill reads r to its end into b, expecting about expected bytes.
func (c *Client) fill(ctx context.Context, b *mem.Buffer, r io.Reader, expected int64) error {
	limit, err := c.MaxUpload(ctx)
	if err != nil {
		return err
	}
	if err := checkSize(expected, limit); err != nil {
		return err
	}
	if err := b.Resize(expected + 1); err != nil {
		return err
	}
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := checkSize(n, limit); err != nil {
			return err
		}
		if n == b.Len() {
			if err := b.Resize(n + max(fillStep, n/2)); err != nil {
				return err
			}
		}
		got, err := r.Read(b.Bytes()[n:])
		n += int64(got)
		if err == io.EOF { // an error that wraps it is no end: see io.Reader
			return b.Resize(n)
		}
		if err != nil {
			return fmt.Errorf("read the content: %w", err)
		}
	}
}

// Open retrieves the newest living file of a name: all of it, verified. It takes the
// option [Progress]. The caller closes the file, which gives back its memory.
//
// Costs one retrieve claim; repeated internally only where that is free. A call that
// failed and the next one for the same file share a claim, so that a service which
// knows claim ids charges once. Needs the API key and membership. Errors: those of
// [Group.Stat], [ErrDeleted], [ErrInsufficient], [ErrTooLarge], [ErrCorrupt],
// [ErrUnavailable], [ErrTimeout]. Specification 4.3 (retrieve).
func (g Group) Open(ctx context.Context, name string, opts ...Option) (*File, error) {
	return g.open(ctx, opts, func() (Entry, error) { return g.Stat(ctx, name) })
}

// OpenRef is [Group.Open] of the file of a reference, also of an older version. Costs
// one retrieve claim; needs the API key, and errors, like it.
func (g Group) OpenRef(ctx context.Context, ref Ref, opts ...Option) (*File, error) {
	return g.open(ctx, opts, func() (Entry, error) { return g.statRef(ctx, ref) })
}

// OpenEntry is [Group.Open] of a file that was listed; it does not list again. Costs
// one retrieve claim; needs the API key, and errors, like it.
func (g Group) OpenEntry(ctx context.Context, e Entry, opts ...Option) (*File, error) {
	return g.open(ctx, opts, func() (Entry, error) { return e, nil })
}

// open retrieves what find returns.
func (g Group) open(ctx context.Context, opts []Option, find func() (Entry, error)) (*File, error) {
	o, err := resolve(opts, "Progress")
	if err != nil {
		return nil, g.wrap("open", err)
	}
	e, err := find()
	if err != nil {
		return nil, err
	}
	b, err := g.c.pool.Get(0)
	if err != nil {
		return nil, g.c.wrap("retrieve", g.ID, e.Ref, err)
	}
	got, err := g.retrieve(ctx, e, b, o)
	if err != nil {
		b.Release()
		return nil, err
	}
	return newFile(e, got, b), nil
}
