package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
)

// NamedFile is a file of a group under the name that a mount and svcfs ls show. The record, with the name as it was
// recorded, is in Entry.
type NamedFile struct {
	Name  string // a path with / between its parts, which is safe as a path below a folder
	Entry Entry  // of the newest version; for [Group.OpenEntry]
}

// Files lists the files of the group as a mount and svcfs ls show them, by name: the newest version of each name, and
// nothing that was removed. [Group.List] has all records.
//
// Names are safe, and no two are the same: where recorded names collide, or are no path, a name gets a suffix. Price,
// needs and errors are like those of [Group.List].
func (g Group) Files(ctx context.Context) ([]NamedFile, error) {
	entries, err := g.Entries(ctx)
	if err != nil {
		return nil, err
	}
	list := names.List(entries, (*Entry).Named)
	files := make([]NamedFile, 0, len(entries))
	for _, name := range list.Names() {
		i, _ := list.Newest(name)
		files = append(files, NamedFile{list.Shown(name), entries[i]})
	}
	slices.SortFunc(files, func(a, b NamedFile) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// List lists the file records of the group in the order of ChangedSeq, deleted ones
// included. With [ListOptions].Since it lists only records that changed since. A service without paging
// answers all records each time, in upload order; then the caller merges by Ref. An error
// ends the list and comes without an entry. All entries before it are verified.
//
// From a service of ours, List computes the hash of every record, and
// checks that the records are all that the service signed for the group and continue the
// history seen before. Otherwise the error is [ErrCorrupt], and List yields no entry.
// Records of the hosted service are believed.
//
// Names are hostile input. A field of the wrong JSON type makes the whole answer
// [ErrCorrupt]. A row without a reference is left out. A row without a readable hash has a
// zero Hash; it cannot be retrieved, because no content matches it. A negative size becomes
// [SizeUnknown].
//
// List is free at a self-hosted service; elsewhere see [Group.ReadPrice]. It needs the API
// key, and membership or an open group. Errors: [ErrNotFound], [ErrNotAuthorized],
// [ErrUnavailable], [ErrTimeout]. Specification 4.2 (getTransactionsForGroup), wire
// protocol 4.4.
func (g Group) List(ctx context.Context, opts ...ListOptions) iter.Seq2[Entry, error] {
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

// Entries is [Group.List] as a slice, which belongs to the caller. Price, needs and errors are like those of
// [Group.List].
func (g Group) Entries(ctx context.Context, opts ...ListOptions) ([]Entry, error) {
	o := last(opts)
	entries, err := g.c.entries(ctx, g.ID, listing{since: o.Since, folders: o.Folders})
	return entries, g.wrap("list", err)
}

// News lists what changed since a caller listed, with folders, for a program that keeps a view of the group: package
// view has one. known is what lists of this client, and the answers to its changes, told. Where News goes on after the
// newest list, it reads only new records, and checks them against what is known of the files before. It reads known
// while it lists. Price, needs and errors are like those of [Group.List].
//
// After returns the largest ChangedSeq that a list told, 0 = there was none; Entry returns the newest row of a file or
// folder, nil = it is not known. Beneath returns the living files beneath a folder, with the folders that are recorded
// there, and the folder itself; all is false if there may be others.
func (g Group) News(ctx context.Context, known interface {
	After() Seq
	Entry(ref Ref) *Entry
	Beneath(folder string) (list []*Entry, all bool)
}) ([]Entry, error) {
	entries, err := g.c.entries(ctx, g.ID, listing{since: known.After(), known: known, folders: true})
	return entries, g.wrap("list", err)
}

// listing is what a list shall hold.
type listing struct {
	since   Seq
	known   knownFiles // nil = nothing
	folders bool
}

// knownFiles is what a caller knows of a group, see [Group.News].
type knownFiles interface {
	After() Seq
	knownPart
}

// knownPart is what a caller knows of a part of a group, see [Group.Changes].
type knownPart interface {
	Entry(ref Ref) *Entry
	Beneath(folder string) (list []*Entry, all bool)
}

// Stat returns the newest living file with a name: the newest with that recorded name, else
// the file that a mount shows under that name ([names.Listing.Resolve]). In a group of more than 1,000 records
// it asks for that name alone where it can, and believes the names that the service signed, see [Group.Children]. Then
// it proves that the log of the service holds the record of the file, with tiles of the log, which are asked for at
// once: whoever invents a version shows it to all who read the log. It waits up to 10 s for a record that no signed
// checkpoint holds yet. The price is that of [Group.List]; Stat retrieves nothing. It needs the API key. Errors: those
// of [Group.List], [ErrNotFound] when there is no such file.
func (g Group) Stat(ctx context.Context, name string) (Entry, error) {
	child, err := g.c.chains.recorded(ctx, g.ID, name)
	switch kind := KindOf(err); {
	case err == nil && child.File != nil:
		return *child.File, nil
	case err == nil: // a folder, and no file
		return Entry{}, g.absent("name " + quote(name))
	case kind != ErrUnsupported:
		return Entry{}, g.wrap("find", err)
	}
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

// statRef returns the file with a reference. The file may be an older version of its name,
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
	return &Error{Op: "find", Group: g.ID, Kind: ErrNotFound, Code: wire.CodeFileNotFound,
		Err: errors.New("not found: no file of this " + what)}
}

// Put reads r to its end and uploads the content under name. It returns once the service
// has confirmed the record.
//
// Content of more than [wire.WholeFileBytes] becomes a file of format version 2 where the service and
// the group have that. It is read and sent in parts, four at a time, and takes at most 64 MiB of
// memory, whatever its size, which need not be known; it is not compressed. A lost connection
// costs what was under way.
//
// Any other content is in memory once as a whole, outside the garbage-collected heap. Put stops
// reading after the largest allowed size, see [Client.MaxUpload]. If r has a Len or a Stat method,
// as an *os.File has, Put allocates the memory at once.
//
// The upload is the newest version of its name. Where the owner of the group chose so,
// later uploads of the name end it, see [Settings.SetVersions].
//
// Where the service takes sealed uploads, content of up to [wire.WholeFileBytes] is one request,
// and small uploads that are made while another one is under way travel together in the next
// request, each with an answer of its own.
//
// Put costs one upload. After an error with an unknown outcome, call Put again with the
// same content and Base: it sends the same upload again, or looks for the record first, so that the
// upload is paid once. Where the version is gone meanwhile, this client has another change of the name recorded, or
// other content has an unknown outcome there, the call is another upload: its content is the newest.
// Put needs the API key and membership. Errors: those of r, which errors.Is finds,
// [ErrNotAuthorized], [ErrInsufficient], [ErrTooLarge], [ErrStorageFull], [ErrUnavailable],
// [ErrTimeout], those of PutOptions.Base, with which it is [ErrUnsupported] at the hosted service,
// and [ErrCorrupt] when the service confirms something else. Specification 4.3
// (upload).
func (g Group) Put(ctx context.Context, name string, r io.Reader, opts ...PutOptions) (Receipt, error) {
	receipt, err := g.put(call.Bridging(ctx), name, r, asked(opts))
	return receipt, g.wrap("upload "+quote(name), err)
}

// Resume is [Group.Put] that goes on where an earlier Resume of a large *os.File stopped, in this process or another:
// with the same service, account, group, name and file, which must be unchanged by size, times and inode. What the
// service has already is not sent again; the file is read once from its beginning all the same, for its hash. Without a
// large file, or without format version 2, Resume is Put.
//
// dir is a folder, which is made if it does not exist. While the upload is not recorded, a file in it, with mode 0600,
// says how far it has come: the id of the upload, its key, sealed to the vault of the service, size, times and inode of
// the file, and hashes, but no name and no content. Who has the file learns the key only from the service, as this
// account and as a member. The file is removed when the upload was recorded. Files of uploads that the service gave up,
// after 24 hours without a part, go by and by; at most 100 stay.
//
// told, if it is not nil, is called at most once, before anything is sent, if there was an earlier attempt, or if dir
// cannot be used. kept is how many bytes of the content the service has already, all of them if the earlier attempt was
// recorded and is the newest version still. why is nil if the upload goes on; else it says why it begins anew:
// [ErrConflict] = the file changed since, or the vault opens its key no more, [ErrNotFound] = the service has given the
// upload up, or the name has another version since; other errors = dir cannot be
// used, or another process is sending the file, so that this one could not be resumed.
func (g Group) Resume(ctx context.Context, name string, r io.Reader, dir string, told func(kept int64, why error),
	opts ...PutOptions) (Receipt, error) {
	o := asked(opts)
	o.resume = resume{dir: dir, told: told}
	receipt, err := g.put(call.Bridging(ctx), name, r, o)
	return receipt, g.wrap("upload "+quote(name), err)
}

func (g Group) put(ctx context.Context, name string, r io.Reader, o options) (Receipt, error) {
	caps, err := g.c.Capabilities(ctx)
	if err != nil {
		return Receipt{}, err
	}
	limit, err := g.c.uploads.limit(caps, name, o)
	if err != nil {
		return Receipt{}, err
	}
	size := lengthOf(r)
	isWhole := !g.c.caps.dialectOf(caps).hasBlocks()
	if !isWhole && size > wire.WholeFileBytes {
		receipt, err := g.putBlocks(ctx, name, r, nil, size, o)
		if err != errNoBlocks {
			return receipt, err
		}
		isWhole = true
	}
	b, err := g.c.pool.Get(0)
	if err != nil {
		return Receipt{}, err
	}
	defer b.Release()
	if !isWhole {
		more, err := fill(ctx, b, r, size, wire.WholeFileBytes)
		if err == nil && more {
			var receipt Receipt
			if receipt, err = g.putBlocks(ctx, name, r, b, 0, o); err != errNoBlocks {
				return receipt, err
			}
			isWhole, err = true, nil
		}
		if err != nil {
			return Receipt{}, err
		}
	}
	if isWhole {
		if err := checkSize(size, limit); err != nil {
			return Receipt{}, err
		}
		if _, err := fill(ctx, b, r, size, limit); err != nil {
			return Receipt{}, err
		}
	}
	return g.c.uploads.upload(ctx, g.ID, name, b, o)
}

// lengthOf returns how many bytes are left in r, 0 if r does not tell.
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

// fillStep is the smallest step by which a buffer grows, in bytes.
const fillStep = 64 << 10

// fill appends what r has to b, which it sizes for expected bytes first. If that is more than most
// bytes, it stops, with more set; then b holds some bytes more.
func fill(ctx context.Context, b *mem.Buffer, r io.Reader, expected, most int64) (more bool, err error) {
	n := b.Len()
	if expected <= most {
		if err := b.Resize(max(n, expected) + 1); err != nil {
			return false, err
		}
	}
	for n <= most {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if n == b.Len() {
			if err := b.Resize(n + max(fillStep, n/2)); err != nil {
				return false, err
			}
		}
		got, err := r.Read(b.Bytes()[n:])
		n += int64(got)
		if err == io.EOF { // not errors.Is: a wrapped io.EOF is a failure, see io.Reader
			return n > most, b.Resize(n)
		}
		if err != nil {
			return false, fmt.Errorf("read the content: %w", err)
		}
	}
	return true, b.Resize(n)
}

// Open opens the newest living file with a name, see [Group.Stat], and retrieves and verifies all of
// it, unless it is of format version 2, which is fetched as it is read, see [File]. The caller must
// close the file, which frees its memory. progress, if it is given, is told how many bytes of the content arrived, as
// [PutOptions].Progress is; they are not verified yet. Of a file of format version 2 the bytes of all reads are
// counted, which may fetch a block again.
//
// Open costs one retrieve claim. It repeats a request only where that is free. A failed
// call and the next call for the same file share a claim id, so that a service that knows
// claim ids charges once. Open needs the API key and membership. Errors: those of
// [Group.Stat], [ErrDeleted], [ErrInsufficient], [ErrTooLarge], [ErrCorrupt],
// [ErrUnavailable], [ErrTimeout]. Specification 4.3 (retrieve).
func (g Group) Open(ctx context.Context, name string, progress ...func(done, total int64)) (*File, error) {
	return g.open(ctx, last(progress), func() (Entry, error) { return g.Stat(ctx, name) })
}

// OpenRef is [Group.Open] for a reference, which may be of an older version. It costs one
// retrieve claim and needs the API key. Errors: those of [Group.Open].
func (g Group) OpenRef(ctx context.Context, ref Ref, progress ...func(done, total int64)) (*File, error) {
	return g.open(ctx, last(progress), func() (Entry, error) { return g.statRef(ctx, ref) })
}

// OpenEntry is [Group.Open] for a listed file, without another list. It costs one retrieve
// claim and needs the API key. Errors: those of [Group.Open].
func (g Group) OpenEntry(ctx context.Context, e Entry, progress ...func(done, total int64)) (*File, error) {
	return g.open(ctx, last(progress), func() (Entry, error) { return e, nil })
}

// open retrieves the file that find returns.
func (g Group) open(ctx context.Context, report func(done, total int64), find func() (Entry, error)) (*File, error) {
	e, err := find()
	if err != nil {
		return nil, err
	}
	if e.Content != (Digest{}) {
		return g.openBlockFile(ctx, e, report)
	}
	b, err := g.c.pool.Get(0)
	if err != nil {
		return nil, g.c.wrap("retrieve", g.ID, e.Ref, err)
	}
	got, err := g.retrieve(ctx, e, b, report)
	if err != nil {
		b.Release()
		return nil, err
	}
	return newFile(g.c, e, got, b), nil
}
