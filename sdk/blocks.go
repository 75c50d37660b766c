package sdk

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Blocks reads a file of format version 2 block by block. Each block that it gives out was
// proven to be in the file that the ledger recorded. It is safe for concurrent use.
type Blocks struct {
	c        *Client
	group    GroupID
	entry    Entry
	fee      Amount
	claim    string
	meta     format.Metadata
	layout   format.Layout
	manifest format.Manifest
	key      *format.Key // of the file, which wraps those of the parts
	dataURL  string
	tree     *blockTree
	received func(bytes int64) // bytes of sealed blocks; may be nil

	life   context.Context // ends with Close
	cancel context.CancelFunc
	use    sync.RWMutex // reads hold it, and Close waits for them

	start *blocksStart // may be nil

	mu   sync.Mutex
	etag string // of the first answer with one
}

var errNoBlocks = &Error{Op: "check format", Kind: ErrUnsupported,
	Err: errors.New("files of format version 2 are not supported")}

// OpenBlocks opens a file of format version 2 (its Content is not zero) and reads no block of
// it. A file of any size may be opened: [Config].MaxFileBytes does not bound it. The caller must close the result.
//
// ahead, if it is given, asks for the first block with the key, and for as many more as hold so many bytes more, up to
// 4 MiB in all, where the service is more than 20 ms away: a reader that begins there waits for one round trip instead
// of two. Who reads on best asks for [network.Traffic].Line bytes more. The blocks come while they are read; after 5
// seconds without a reader the rest is given up, and that costs the connection.
//
// It costs one retrieve claim, for all reads until Close; a failed call
// and the next call for the same file share a claim. It needs the API key and membership.
// Errors: those of [Group.Open], [ErrInvalid] for a file of another format version.
func (g Group) OpenBlocks(ctx context.Context, e Entry, ahead ...int64) (*Blocks, error) {
	b, err := g.c.blocks.open(ctx, g.ID, e, ahead...)
	if err != nil {
		return nil, g.c.wrap("open", g.ID, e.Ref, err)
	}
	return b, nil
}

// Entry returns the file's record. Local, free.
func (b *Blocks) Entry() Entry { return b.entry }

// Fee returns the fee of the claim. Local, free.
func (b *Blocks) Fee() Amount { return b.fee }

// Layout returns how the file is cut into blocks. Local, free.
func (b *Blocks) Layout() format.Layout { return b.layout }

// Footprint returns the memory that the list of the parts occupies, in bytes: at most 16 MiB. Local, free.
func (b *Blocks) Footprint() int64 { return int64(len(b.manifest)) * format.RunBytes }

// Read fetches consecutive blocks from first on with one request, and sets each buffer to the
// plaintext of one block. After a lost connection it asks for the blocks that are missing. On
// error all buffers are empty. Free: the claim was paid by OpenBlocks. Errors: [ErrCorrupt] for a
// block that is not the recorded one (with [ErrWrongContent] if the uploader made it so),
// [ErrNotAuthorized] and [ErrDeleted] if that happened since OpenBlocks, [ErrInvalid] for blocks
// that the file does not have, [ErrUnavailable], [ErrTimeout].
func (b *Blocks) Read(ctx context.Context, first int64, into []*mem.Buffer) error {
	err := b.read(ctx, first, into)
	if err != nil {
		for _, buf := range into {
			_ = buf.Resize(0) // wipes; shrinking cannot fail
		}
	}
	return b.c.wrap("read", b.group, b.entry.Ref, err)
}

func (b *Blocks) read(ctx context.Context, first int64, into []*mem.Buffer) error {
	for n, buf := range into {
		if i := first + int64(n); i < 0 || i >= b.layout.Blocks() {
			return &Error{Op: "check", Kind: ErrInvalid, Err: fmt.Errorf("block %d of a file of %d", i,
				b.layout.Blocks())}
		} else if err := buf.Resize(b.layout.Plain(i)); err != nil {
			return err
		}
	}
	return b.fetch(ctx, first, int64(len(into)), func(i int64) []byte { return into[i-first].Bytes() }, nil)
}

// Close ends reads in progress, and wipes the keys. No other method may be called after Close,
// but a second Close does nothing. The error is always nil.
func (b *Blocks) Close() error {
	b.cancel()
	b.use.Lock()
	defer b.use.Unlock()
	b.start.close()
	b.key.Wipe()
	return nil
}

// leaves returns the proven leaves of blocks.
func (b *Blocks) leaves(ctx context.Context, first, count int64) ([]format.Hash, error) {
	list := make([]format.Hash, 0, count)
	for i := first; i < first+count; {
		group, err := b.tree.group(ctx, i/groupLeaves)
		if err != nil {
			return nil, err
		}
		from := i % groupLeaves
		to := min(from+first+count-i, int64(len(group)))
		list = append(list, group[from:to]...)
		i += to - from
	}
	return list, nil
}

// groupRoots returns the proven roots of the complete groups of 256 leaves.
func (b *Blocks) groupRoots(ctx context.Context) ([]format.Hash, error) {
	return b.tree.groupRoots(ctx)
}

// partKey unwraps the key of the part of a run. The caller wipes it.
func (b *Blocks) partKey(run *format.Run) (*format.Key, error) {
	key, err := format.UnwrapKey(b.key, run.Key)
	if err != nil { // the record commits to the file key and to the wrapped one
		return nil, fmt.Errorf("%w: the key of blocks %d to %d cannot be unwrapped: %w", ErrWrongContent, run.First,
			run.First+run.Count-1, err)
	}
	return key, nil
}

// blockReader opens files in blocks.
type blockReader struct {
	c       *Client
	scratch sync.Pool // *[]byte for sealed blocks
}

// open asks for a file of format version 2 and checks the answer.
func (br *blockReader) open(ctx context.Context, g GroupID, e Entry, ahead ...int64) (*Blocks, error) {
	ctx = call.Bridging(ctx)
	if e.Deleted != nil && !e.Deleted.InTrash { // who may bring it back reads it
		return nil, deleted()
	}
	if e.Content == (Digest{}) {
		return nil, &Error{Op: "check", Kind: ErrInvalid,
			Err: errors.New("the file is not of format version 2: retrieve it whole")}
	}
	if err := br.c.caps.needOurs(ctx, "read files of format version 2"); err != nil {
		return nil, err
	}
	request := wire.PrepareRetrieveRequest{GroupID: string(g), IPFSHash: string(e.Ref), Transfer: wire.TransferRaw,
		ClaimID: br.c.claims.take(e.Ref), Formats: []int{format.Version, format.VersionBlocks}}
	if len(ahead) > 0 && br.c.calls.IsFar() {
		request.FirstBytes = startBytes(last(ahead))
	}
	var answer wire.PrepareRetrieveResult
	var behind io.ReadCloser
	ask := br.c.tools.call(wire.OpPrepareRetrieve, request, &answer)
	ask.Wait = call.AnswerTimes * br.c.cfg.Timeout
	if request.FirstBytes > 0 {
		ask = br.withBlocks(ask, &answer, &behind)
	}
	err := br.c.calls.Do(ctx, ask)
	var b *Blocks
	if err == nil {
		if b, err = br.check(ctx, g, e, answer); err == nil && behind != nil {
			err = b.startsWith(behind, answer.FirstBlocks, request.FirstBytes)
		}
	}
	if err != nil {
		if behind != nil {
			_ = behind.Close()
		}
		br.c.claims.keep(e.Ref, request.ClaimID)
		return nil, err
	}
	b.claim = request.ClaimID
	return b, nil
}

// startsWith takes over the blocks behind an answer, which takes most bytes at most. On error b is closed.
func (b *Blocks) startsWith(behind io.ReadCloser, blocks, most int64) error {
	if blocks < 0 || blocks > b.layout.Blocks() || blocks > 0 &&
		b.layout.Offset(blocks-1)+b.layout.Sealed(blocks-1) > most {
		_ = b.Close()
		return call.Malformed(fmt.Errorf("%d blocks come with it, and blocks of %d bytes were asked for", blocks, most))
	}
	if blocks == 0 {
		_ = behind.Close()
		return nil
	}
	b.start = newBlocksStart(b.layout, blocks, behind, func() { _ = behind.Close() })
	return nil
}

// retrieve retrieves a file of format version 2 into a buffer.
func (br *blockReader) retrieve(ctx context.Context, g GroupID, e Entry, buf *mem.Buffer,
	report func(done, total int64)) (retrieved, error) {
	if err := checkSize(e.Size, br.c.cfg.MaxFileBytes); err != nil { // before it is paid for
		return retrieved{}, err
	}
	b, err := br.open(ctx, g, e, br.c.Traffic().Line)
	if err != nil {
		return retrieved{}, err
	}
	defer b.Close()
	b.reportTo(report)
	l := b.layout
	if err := checkSize(l.Size, br.c.cfg.MaxFileBytes); err != nil {
		return retrieved{}, err
	}
	if err := buf.Resize(l.Size); err != nil {
		return retrieved{}, err
	}
	into := func(i int64) []byte { return buf.Bytes()[i*l.BlockBytes:][:l.Plain(i)] }
	if err := b.fetch(ctx, 0, l.Blocks(), into, nil); err != nil {
		return retrieved{}, err
	}
	return retrieved{sealed: b.meta, fee: b.fee}, nil
}

// reportTo reports the bytes of sealed blocks as they arrive.
func (b *Blocks) reportTo(report func(done, total int64)) {
	if report == nil {
		return
	}
	var mu sync.Mutex
	var done int64
	b.received = func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		done += n
		report(done, b.layout.SealedBytes())
	}
}

// check compares an answer with the record.
func (br *blockReader) check(ctx context.Context, g GroupID, e Entry,
	a wire.PrepareRetrieveResult) (*Blocks, error) {
	meta, err := format.ParseMetadata(a.Format)
	if err != nil {
		return nil, err
	}
	if meta.Version != format.VersionBlocks {
		return nil, call.Malformed(fmt.Errorf("format version %d of a file that the ledger recorded as version 2",
			meta.Version))
	}
	b := &Blocks{c: br.c, group: g, entry: e, meta: meta, layout: meta.Layout(), dataURL: a.DataURL}
	if a.DataURL == "" || a.TilesURL == "" || a.DataSize != b.layout.SealedBytes() {
		return nil, call.Malformed(fmt.Errorf("data of %d bytes, and the blocks have %d; or an address is missing",
			a.DataSize, b.layout.SealedBytes()))
	}
	raw, err := br.fetchManifest(ctx, a, b.layout)
	if err != nil {
		return nil, err
	}
	if Digest(meta.Content(format.ManifestSum(raw))) != e.Content {
		return nil, call.Malformed(errors.New(
			"size, root, manifest or key check are not those that the ledger recorded"))
	}
	// From here on the record commits to all but the key.
	if e.Size != SizeUnknown && e.Size != b.layout.Size {
		return nil, fmt.Errorf("%w: it has %d bytes, and the ledger recorded %d", ErrWrongContent, b.layout.Size,
			e.Size)
	}
	if b.manifest, err = format.ParseManifest(raw, b.layout.Blocks()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrongContent, err)
	}
	if a.Fee != "" {
		if b.fee, err = wire.ParseAmount(a.Fee); err != nil {
			return nil, call.Malformed(err)
		}
	}
	b.life, b.cancel = context.WithCancel(context.Background())
	if b.tree, err = br.newTree(b.life, b.layout.Blocks(), meta.Root, a); err != nil {
		return nil, err
	}
	if b.key, err = br.c.sessions.keyIn(a.Key, a.SealedKey, g, e.Ref); err != nil {
		return nil, err
	}
	if check, err := format.KeyCheck(b.key); err != nil || check != meta.KeyCheck {
		b.key.Wipe()
		return nil, call.Malformed(errors.New("the key is not the one that the ledger's record commits to"))
	}
	return b, nil
}

// fetchManifest returns the manifest of an answer, or asks for it.
func (br *blockReader) fetchManifest(ctx context.Context, a wire.PrepareRetrieveResult,
	l format.Layout) (raw []byte, err error) {
	if a.Manifest != "" {
		if raw, err = base64.StdEncoding.Strict().DecodeString(a.Manifest); err != nil {
			return nil, call.Malformed(errors.New("the manifest is not base64"))
		}
		return raw, nil
	}
	if a.ManifestURL == "" {
		return nil, call.Malformed(errors.New("it has no manifest"))
	}
	most := format.MaxManifestBytes / format.RunBytes * int64(format.RunBytes)
	if blocks := l.Blocks(); blocks < most/format.RunBytes {
		most = blocks * format.RunBytes
	}
	return br.fetchSmall(ctx, call.Call{Path: a.ManifestURL}, most)
}

// fetchSmall returns the answer to a call, of at most so many bytes. Free, and repeated after temporary faults.
func (br *blockReader) fetchSmall(ctx context.Context, from call.Call, most int64) (raw []byte, err error) {
	from.Method, from.Long = http.MethodGet, true
	from.Answer = func(resp *http.Response) (err error) {
		raw, err = call.ReadBounded(resp, most)
		return err
	}
	err = br.c.calls.Do(ctx, from)
	return raw, err
}
