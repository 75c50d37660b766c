package sdk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/google/uuid"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/internal/hosted"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Retrieve gets a file into a buffer, for programs that manage buffers themselves, such as the
// mount. It resizes b, which stays the caller's. On success b holds the whole
// content, which is what e.Content commits to for a file of format version 2, whose e.Hash nobody compares, and
// else equals e.Hash; on error b is empty. [Config].MaxFileBytes bounds it; [Group.OpenBlocks] reads larger files of
// format version 2. fee is what the call was charged, zero if the service does not tell it.
//
// Retrieve costs one retrieve claim and needs the API key. Errors: those of [Group.Open].
func (g Group) Retrieve(ctx context.Context, e Entry, b *mem.Buffer,
	progress ...func(done, total int64)) (fee Amount, err error) {
	got, err := g.retrieve(ctx, e, b, last(progress))
	return got.fee, err
}

// deleted is the error for a file without a key.
func deleted() error {
	return &Error{Op: "check", Kind: ErrDeleted, Err: errors.New("the file was deleted and its key destroyed")}
}

// retrieved is the result of a retrieval, beside the content.
type retrieved struct {
	sealed format.Metadata
	fee    Amount
}

func (g Group) retrieve(ctx context.Context, e Entry, b *mem.Buffer,
	report func(done, total int64)) (retrieved, error) {
	b.Expect(max(e.Size, 0))
	got, err := g.c.retrieve(ctx, g.ID, e, b, report)
	b.Expect(0)
	if err != nil {
		_ = b.Resize(0) // wipes; shrinking cannot fail
		return retrieved{}, g.c.wrap("retrieve", g.ID, e.Ref, err)
	}
	return got, nil
}

func (c *Client) retrieve(ctx context.Context, g GroupID, e Entry, b *mem.Buffer,
	report func(done, total int64)) (retrieved, error) {
	if e.Content != (Digest{}) {
		return c.blocks.retrieve(ctx, g, e, b, report)
	}
	ctx = call.Bridging(ctx)
	if e.Deleted != nil && !e.Deleted.InTrash { // who may bring it back reads it
		return retrieved{}, deleted()
	}
	if e.Hash == (Digest{}) { // costs no claim: no content could match
		return retrieved{}, call.Malformed(errors.New("the ledger record has no readable hash"))
	}
	if err := checkSize(e.Size, c.cfg.MaxFileBytes); err != nil {
		return retrieved{}, err
	}
	speaks, err := c.caps.dialect(ctx)
	if err != nil {
		return retrieved{}, err
	}
	request := wire.PrepareRetrieveRequest{GroupID: string(g), IPFSHash: string(e.Ref), ClaimID: c.claims.take(e.Ref),
		Transfer: speaks.rawTransfer()}
	r := &retrieval{c: c, group: g, entry: e, report: report,
		sink: &hosted.Sink{Buf: b, Limit: c.cfg.mostSealed(e.Size), Recorded: e.Size != SizeUnknown}}
	got, err := r.run(ctx, request)
	if err != nil {
		c.claims.keep(e.Ref, request.ClaimID)
	}
	return got, err
}

// maxClaims is how many claim ids of failed retrievals are kept.
const maxClaims = 4096

// claims are the claim ids of retrievals that failed after they may have been charged.
type claims struct {
	mu  sync.Mutex
	ids map[Ref]string
}

// take returns the claim id of an earlier retrieval that failed, or a new one.
func (l *claims) take(ref Ref) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, ok := l.ids[ref]
	if !ok {
		return uuid.NewString()
	}
	delete(l.ids, ref)
	return id
}

func (l *claims) keep(ref Ref, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ids) >= maxClaims {
		clear(l.ids)
	}
	l.ids[ref] = id
}

// mostSealed returns the largest sealed content of a file of size bytes, compressed or not.
// No more memory is allocated for it (threat 8).
func (c Config) mostSealed(size int64) int64 {
	limit := c.MaxFileBytes
	if size != SizeUnknown {
		limit = min(limit, size+size/1000+deflateSlack)
	}
	return limit + format.TagBytes + 2 // two bytes that base64 padding may stand for
}

// deflateSlack is by how many bytes a zlib stream can be longer than short content.
const deflateSlack = 1 << 10

// retrieval is a retrieval of a file of format version 1.
type retrieval struct {
	c      *Client
	group  GroupID
	entry  Entry
	report func(done, total int64)
	sink   *hosted.Sink
	// answer is without its data, which went into the sink while the answer was read. inline means that there was some.
	answer wire.PrepareRetrieveResult
	inline bool
}

// run asks for the file, and opens it. A repetition is free: our service charges a claim id once, and the hosted
// service charges nothing for a retrieval.
func (r *retrieval) run(ctx context.Context, request wire.PrepareRetrieveRequest) (retrieved, error) {
	ask := r.c.tools.call(wire.OpPrepareRetrieve, request, nil)
	ask.Wait, ask.Long, ask.Progress, ask.Answer = call.AnswerTimes*r.c.cfg.Timeout, true, r.report, r.read
	if err := r.c.calls.Do(ctx, ask); err != nil {
		return retrieved{}, err
	}
	return r.open(ctx)
}

// read reads the answer to a prepare_retrieve.
func (r *retrieval) read(resp *http.Response) error {
	if err := r.sink.Reset(); err != nil {
		return err
	}
	document, inline, err := hosted.ScanAnswer(resp.Body, resp.ContentLength, r.sink)
	if err != nil {
		return err
	}
	r.inline = inline
	return r.c.tools.decode(document, &r.answer)
}

// open gets the ciphertext into the buffer, decrypts it there, and verifies the content.
func (r *retrieval) open(ctx context.Context) (retrieved, error) {
	meta, err := format.ParseMetadata(r.answer.Format)
	if err != nil {
		return retrieved{}, err
	}
	if meta.Version == format.VersionBlocks { // the ledger says which files are: no way down or up
		return retrieved{},
			call.Malformed(errors.New("format version 2 of a file that the ledger recorded as an earlier one"))
	}
	key, err := r.c.sessions.keyIn(r.answer.Key, r.answer.SealedKey, r.group, r.entry.Ref)
	if err != nil {
		return retrieved{}, err
	}
	defer key.Wipe()
	if err := r.fetch(ctx, meta); err != nil {
		return retrieved{}, err
	}
	b, limit := r.sink.Buf, r.c.cfg.MaxFileBytes
	plain, err := format.Open(key, r.sink.Nonce[:], b.Bytes())
	if err != nil {
		return retrieved{}, err
	}
	if err := b.Resize(int64(len(plain))); err != nil {
		return retrieved{}, err
	}
	if err := checkSize(b.Len(), limit); err != nil {
		return retrieved{}, err
	}
	if meta.Compression == format.CompressionDeflate {
		if err := r.inflate(meta, limit); err != nil {
			return retrieved{}, err
		}
	}
	return r.verify(meta)
}

// fetch gets the ciphertext, unless the answer had it.
func (r *retrieval) fetch(ctx context.Context, meta format.Metadata) error {
	recorded := r.entry.Size
	switch {
	case r.inline:
		return nil
	case r.answer.DataURL == "":
		return call.Malformed(errors.New("no encrypted data"))
	case meta.Compression == "" && recorded != SizeUnknown && r.answer.DataSize != recorded+format.Overhead:
		return call.Malformed(fmt.Errorf("data of %d bytes, and the ledger recorded a file of %d", r.answer.DataSize,
			recorded))
	}
	return r.fetchBlob(ctx, r.answer.DataURL, r.answer.DataSize)
}

// inflate replaces compressed content by the original content.
func (r *retrieval) inflate(meta format.Metadata, limit int64) error {
	if recorded := r.entry.Size; recorded != SizeUnknown && meta.OriginalSize != recorded {
		return fmt.Errorf("%w: it has %d bytes, and the ledger recorded %d", ErrWrongContent, meta.OriginalSize,
			recorded)
	}
	err := inflate(meta, r.sink.Buf, limit)
	if errors.Is(err, format.ErrCorrupt) { // its uploader sealed it like this
		err = fmt.Errorf("%w: %w", ErrWrongContent, err)
	}
	return err
}

// verify compares the content with the ledger. The tag proves that the bytes are unchanged;
// only the hash proves that they are this file.
func (r *retrieval) verify(meta format.Metadata) (retrieved, error) {
	e, b := r.entry, r.sink.Buf
	if hash := ComputeHash(b.Bytes()); hash != e.Hash {
		return retrieved{}, fmt.Errorf("%w: its hash is %s, and the ledger recorded %s", ErrWrongContent, hash, e.Hash)
	}
	if e.Size != SizeUnknown && e.Size != b.Len() {
		return retrieved{}, fmt.Errorf("%w: it has %d bytes, and the ledger recorded %d", ErrWrongContent, b.Len(),
			e.Size)
	}
	got := retrieved{sealed: meta}
	if r.answer.Fee != "" {
		var err error
		if got.fee, err = wire.ParseAmount(r.answer.Fee); err != nil {
			return retrieved{}, call.Malformed(err)
		}
	}
	return got, nil
}

// inflate replaces the compressed content of b by the original content, of at most limit
// bytes.
func inflate(meta format.Metadata, b *mem.Buffer, limit int64) error {
	size, err := format.InflatedSize(meta, limit)
	if err != nil {
		return err
	}
	compressed, err := b.Copy()
	if err != nil {
		return err
	}
	defer compressed.Release()
	// A zlib stream expands at most about 1032-fold. No memory is allocated for a size
	// beyond that.
	if size > 1100*(compressed.Len()+1) {
		return call.Malformed(errors.New("original_size is larger than the compressed content can hold"))
	}
	if err := b.Resize(size); err != nil {
		return err
	}
	return format.Inflate(b.Bytes(), compressed.Bytes())
}

// fetchBlob reads a raw transfer of exactly size bytes.
func (r *retrieval) fetchBlob(ctx context.Context, target string, size int64) error {
	sink, report := r.sink, r.report
	if most := sink.Limit + format.NonceBytes; size < format.Overhead || size > most {
		return call.Malformed(fmt.Errorf("data of %d bytes: want %d to %d", size, format.Overhead, most))
	}
	if err := sink.Reset(); err != nil {
		return err
	}
	etag := "" // of the bytes in the sink
	return r.c.calls.Resume(ctx, call.Free, sink.Arrived, func(ctx context.Context) error {
		get := call.Call{Kind: call.Once, Method: http.MethodGet, Path: target, Long: true, Progress: report}
		from := sink.Arrived()
		if etag == "" {
			from = 0
		} else if from > 0 {
			get.Header = http.Header{"Range": {fmt.Sprintf("bytes=%d-", from)}, "If-Range": {etag}}
			if report != nil {
				get.Progress = func(done, total int64) { report(from+done, from+total) }
			}
		}
		get.Answer = func(resp *http.Response) error {
			want := fmt.Sprintf("bytes %d-%d/%d", from, size-1, size)
			if resp.StatusCode != http.StatusPartialContent || from == 0 || resp.Header.Get("Content-Range") != want {
				from = 0 // all of it
				if err := sink.Reset(); err != nil {
					return err
				}
			}
			if resp.ContentLength >= 0 && resp.ContentLength != size-from {
				return call.Malformed(fmt.Errorf("data of %d bytes, and %d were announced", resp.ContentLength,
					size-from))
			}
			etag = resp.Header.Get("Etag")
			return sink.Read(resp.Body, size)
		}
		return r.c.calls.Do(ctx, get)
	})
}
