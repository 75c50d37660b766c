package sdk

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/internal/hosted"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Retrieve gets a file into a buffer, for programs that manage buffers themselves, such as the
// mount. It resizes b, which stays the caller's. On success b holds the whole
// content, which equals e.Hash, or is what e.Content commits to if no hash is recorded; on error b is
// empty. [Config].MaxFileBytes bounds it; [Group.OpenBlocks] reads larger files of format version 2. fee is what the call was charged, zero
// if the service does not tell it.
//
// Retrieve costs one retrieve claim and needs the API key. Errors: those of [Group.Open].
func (g Group) Retrieve(ctx context.Context, e Entry, b *mem.Buffer, progress ...Progress) (fee Amount, err error) {
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

func (g Group) retrieve(ctx context.Context, e Entry, b *mem.Buffer, report Progress) (retrieved, error) {
	b.Expect(max(e.Size, 0))
	got, err := g.c.retrieve(ctx, g.ID, e, b, report)
	b.Expect(0)
	if err != nil {
		_ = b.Resize(0) // wipes; shrinking cannot fail
		return retrieved{}, g.c.wrap("retrieve", g.ID, e.Ref, err)
	}
	return got, nil
}

func (c *Client) retrieve(ctx context.Context, g GroupID, e Entry, b *mem.Buffer, report Progress) (retrieved, error) {
	if e.Content != (Digest{}) {
		return c.retrieveBlocks(ctx, g, e, b, report)
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
	speaks, err := c.dialect(ctx)
	if err != nil {
		return retrieved{}, err
	}
	request := wire.PrepareRetrieveRequest{GroupID: string(g), IPFSHash: string(e.Ref), ClaimID: c.takeClaim(e.Ref),
		Transfer: speaks.rawTransfer()}
	sink := &hosted.Sink{Buf: b, Limit: c.mostSealed(e.Size), Recorded: e.Size != SizeUnknown}
	var answer retrieveAnswer
	ask := c.tool(wire.OpPrepareRetrieve, request, nil)
	ask.Wait, ask.Long, ask.Progress = call.AnswerTimes*c.cfg.Timeout, true, report
	ask.Answer = c.prepared(sink, &answer)
	// A repetition is free: our service charges a claim id once, and the hosted service charges
	// nothing for a retrieval.
	err = c.calls.Do(ctx, ask)
	var got retrieved
	if err == nil {
		got, err = c.openAnswer(ctx, e, answer, sink, report)
	}
	if err != nil {
		c.keepClaim(e.Ref, request.ClaimID)
	}
	return got, err
}

// maxClaims is how many claim ids of failed retrievals are kept.
const maxClaims = 4096

// takeClaim returns the claim id of an earlier retrieval that failed, or a new one.
func (c *Client) takeClaim(ref Ref) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	claim, ok := c.claims[ref]
	if !ok {
		return uuid.NewString()
	}
	delete(c.claims, ref)
	return claim
}

func (c *Client) keepClaim(ref Ref, claim string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.claims) >= maxClaims {
		clear(c.claims)
	}
	c.claims[ref] = claim
}

// mostSealed returns the largest sealed content of a file of size bytes, compressed or not.
// No more memory is allocated for it (threat 8).
func (c *Client) mostSealed(size int64) int64 {
	limit := c.cfg.MaxFileBytes
	if size != SizeUnknown {
		limit = min(limit, size+size/1000+deflateSlack)
	}
	return limit + format.TagBytes + 2 // two bytes that base64 padding may stand for
}

// deflateSlack is by how many bytes a zlib stream can be longer than short content.
const deflateSlack = 1 << 10

// retrieveAnswer is a PrepareRetrieveResult. Its data is not in it: the data went into a
// buffer while the answer was read.
type retrieveAnswer struct {
	wire.PrepareRetrieveResult
	inline bool
}

// prepared returns a reader of the answer to a prepare_retrieve. The data goes to sink.
func (c *Client) prepared(sink *hosted.Sink, answer *retrieveAnswer) func(*http.Response) error {
	return func(resp *http.Response) error {
		if err := sink.Reset(); err != nil {
			return err
		}
		document, inline, err := hosted.ScanAnswer(resp.Body, resp.ContentLength, sink)
		if err != nil {
			return err
		}
		answer.inline = inline
		return c.decodeResult(document, &answer.PrepareRetrieveResult)
	}
}

// openAnswer gets the ciphertext into the buffer, decrypts it there, and verifies the
// content.
func (c *Client) openAnswer(ctx context.Context, e Entry, a retrieveAnswer, sink *hosted.Sink,
	report Progress) (retrieved, error) {
	meta, err := format.ParseMetadata(a.Format)
	if err != nil {
		return retrieved{}, err
	}
	if meta.Version == format.VersionBlocks { // the ledger says which files are: no way down or up
		return retrieved{},
			call.Malformed(errors.New("format version 2 of a file that the ledger recorded as an earlier one"))
	}
	key, err := format.ParseKey(a.Key)
	if err != nil {
		return retrieved{}, call.Malformed(err)
	}
	defer key.Wipe()
	switch {
	case a.inline:
	case a.DataURL == "":
		err = call.Malformed(errors.New("no encrypted data"))
	case meta.Compression == "" && e.Size != SizeUnknown && a.DataSize != e.Size+format.Overhead:
		err = call.Malformed(fmt.Errorf("data of %d bytes, and the ledger recorded a file of %d", a.DataSize, e.Size))
	default:
		err = c.fetchBlob(ctx, a.DataURL, a.DataSize, sink, report)
	}
	if err != nil {
		return retrieved{}, err
	}
	b := sink.Buf
	plain, err := format.Open(key, sink.Nonce[:], b.Bytes())
	if err != nil {
		return retrieved{}, err
	}
	if err := b.Resize(int64(len(plain))); err != nil {
		return retrieved{}, err
	}
	if err := checkSize(b.Len(), c.cfg.MaxFileBytes); err != nil {
		return retrieved{}, err
	}
	if meta.Compression == format.CompressionDeflate {
		if e.Size != SizeUnknown && meta.OriginalSize != e.Size {
			return retrieved{}, fmt.Errorf("%w: it has %d bytes, and the ledger recorded %d", ErrWrongContent, meta.OriginalSize, e.Size)
		}
		err := inflate(meta, b, c.cfg.MaxFileBytes)
		if errors.Is(err, format.ErrCorrupt) { // its uploader sealed it like this
			err = fmt.Errorf("%w: %w", ErrWrongContent, err)
		}
		if err != nil {
			return retrieved{}, err
		}
	}
	return c.verify(e, meta, a.Fee, b)
}

// verify compares the content with the ledger. The tag proves that the bytes are unchanged;
// only the hash proves that they are this file.
func (c *Client) verify(e Entry, meta format.Metadata, fee string, b *mem.Buffer) (retrieved, error) {
	if hash := ComputeHash(b.Bytes()); hash != e.Hash {
		return retrieved{}, fmt.Errorf("%w: its hash is %s, and the ledger recorded %s", ErrWrongContent, hash, e.Hash)
	}
	if e.Size != SizeUnknown && e.Size != b.Len() {
		return retrieved{}, fmt.Errorf("%w: it has %d bytes, and the ledger recorded %d", ErrWrongContent, b.Len(), e.Size)
	}
	got := retrieved{sealed: meta}
	if fee != "" {
		var err error
		if got.fee, err = wire.ParseAmount(fee); err != nil {
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
func (c *Client) fetchBlob(ctx context.Context, target string, size int64, sink *hosted.Sink, report Progress) error {
	if most := sink.Limit + format.NonceBytes; size < format.Overhead || size > most {
		return call.Malformed(fmt.Errorf("data of %d bytes: want %d to %d", size, format.Overhead, most))
	}
	if err := sink.Reset(); err != nil {
		return err
	}
	etag := "" // of the bytes in the sink
	return c.calls.Resume(ctx, call.Free, sink.Arrived, func(ctx context.Context) error {
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
				return call.Malformed(fmt.Errorf("data of %d bytes, and %d were announced", resp.ContentLength, size-from))
			}
			etag = resp.Header.Get("Etag")
			return sink.Read(resp.Body, size)
		}
		return c.calls.Do(ctx, get)
	})
}
