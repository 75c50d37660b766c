package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/internal/hosted"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Upload is [Group.Put] of a buffer, for programs that manage buffers themselves, such as the
// mount. b stays the caller's. Content that is no sealed upload, because it is larger than
// [wire.WholeFileBytes] or because the service takes none, is not copied: Upload encrypts it in
// place and decrypts it before it returns, with or without an error. Nothing else may read or
// write b meanwhile.
//
// The file is of format version 1, whatever its size: [Group.BeginBlocks] makes version 2. Upload
// costs one upload and needs the API key. Errors: those of [Group.Put].
func (g Group) Upload(ctx context.Context, name string, b *mem.Buffer, opts ...PutOptions) (Receipt, error) {
	receipt, err := g.c.uploads.upload(ctx, g.ID, name, b, asked(opts))
	return receipt, g.wrap("upload "+quote(name), err)
}

// upload uploads b and remembers that the caller knows the record.
func (u *uploader) upload(ctx context.Context, g GroupID, name string, b *mem.Buffer, o options) (Receipt, error) {
	ctx = call.Bridging(ctx)
	caps, err := u.c.Capabilities(ctx)
	if err != nil {
		return Receipt{}, err
	}
	limit, err := u.limit(caps, name, o)
	if err != nil {
		return Receipt{}, err
	}
	if err := checkSize(b.Len(), limit); err != nil {
		return Receipt{}, err
	}
	k := uploadKey{group: g, name: name, digest: b.Hash(), link: o.attrs.Target != "" && caps.Dialect.IsOurs()}
	done, err := u.exclusive(ctx, k)
	if err != nil {
		return Receipt{}, err
	}
	defer done()
	var receipt Receipt
	if caps.TakesSealed() && name != "" && b.Len() <= wire.WholeFileBytes {
		receipt, err = u.uploadSealed(ctx, k, b.Bytes(), o)
	} else {
		receipt, err = u.uploadPrepared(ctx, caps, k, b, o)
	}
	if err != nil {
		return Receipt{}, err
	}
	u.reported(receipt.Ref)
	return receipt, nil
}

// uploadSealed uploads content in one request. An earlier attempt with an unknown outcome is sent
// again under its id, so that the service records it once.
func (u *uploader) uploadSealed(ctx context.Context, k uploadKey, content []byte, o options) (Receipt, error) {
	if s := u.takeSealed(k, o.base, false); s != nil {
		var r Receipt
		err := s.outcome(s.encryptAgain(u.c.pool, content))
		if err == nil {
			s.progress = o.progress
			r, err = u.c.small.recordAgain(ctx, s, o.attrs)
		}
		u.ended(k, s, err)
		if !errors.Is(err, errGone) {
			return r, err
		}
	}
	s, err := u.seal(ctx, k, content, o)
	var r Receipt
	if err == nil {
		r, _, err = u.c.small.record(ctx, s, o.attrs, false)
	}
	if s != nil {
		u.ended(k, s, err)
	}
	return r, err
}

// uploadPrepared uploads to a service without sealed uploads, or what is too large for one.
func (u *uploader) uploadPrepared(ctx context.Context, caps wire.Capabilities, k uploadKey, b *mem.Buffer,
	o options) (Receipt, error) {
	up := &uploading{buf: b, compress: o.compress, progress: o.progress,
		recording: recording{c: u.c, isOurs: caps.Dialect.IsOurs(), key: k, base: o.base, upon: o.upon,
			size: b.Len(), attrs: o.attrs}}
	if err := up.useAttributes(); err != nil {
		return Receipt{}, err
	}
	return up.run(ctx)
}

// MaxUpload returns the size of the largest file that can be uploaded, in plaintext bytes:
// the limit of the service and, unless it has files of format version 2, that of
// Config.MaxFileBytes. A group that stays with version 1 has both limits. Free; no
// authentication. Errors: those of [Client.Capabilities].
func (c *Client) MaxUpload(ctx context.Context) (int64, error) {
	speaks, err := c.caps.dialect(ctx)
	if err != nil {
		return 0, err
	}
	return speaks.maxUpload(), nil
}

// maxWhole returns the size of the largest file of format version 1, in bytes.
func (u *uploader) maxWhole(caps wire.Capabilities) int64 {
	if caps.MaxFileBytes <= 0 {
		return u.c.cfg.MaxFileBytes
	}
	return min(u.c.cfg.MaxFileBytes, caps.MaxFileBytes)
}

// limit returns the size of the largest upload in one piece, in bytes. It refuses a base that nothing would compare.
func (u *uploader) limit(caps wire.Capabilities, name string, o options) (int64, error) {
	if o.base != "" && (!caps.Dialect.IsOurs() || name == "") {
		return 0, errNoBase
	}
	return u.maxWhole(caps), nil
}

// maxBlocks returns the size of the largest file of format version 2, in bytes.
func maxBlocks(caps wire.Capabilities) int64 {
	if limit := cmp.Or(caps.MaxBlocksBytes, caps.MaxFileBytes); limit > 0 {
		return limit
	}
	return math.MaxInt64
}

// checkSize returns [ErrTooLarge] if size is over a limit, both in bytes.
func checkSize(size, limit int64) error {
	if size > limit {
		return &Error{Op: "check size", Kind: ErrTooLarge,
			Err: fmt.Errorf("the file has %d bytes, and %d are allowed", size, limit)}
	}
	return nil
}

// uploading is an upload of format version 1 in progress.
type uploading struct {
	recording
	buf  *mem.Buffer // the content
	body *mem.Buffer // what is encrypted: buf, or the compressed content

	compress bool
	progress func(done, total int64)
}

// run uploads with the ticket of an earlier attempt, else with a new one.
func (u *uploading) run(ctx context.Context) (Receipt, error) {
	if receipt, found, err := u.resume(ctx); found || err != nil {
		return receipt, err
	}
	release, err := u.pack()
	if err != nil {
		if u.ticket != nil {
			err = u.ended(err)
		}
		return Receipt{}, err
	}
	defer release()
	if u.ticket != nil {
		receipt, err := u.sealAndSend(ctx)
		if u.ticket.state != hosted.Gone {
			return receipt, err
		}
	}
	request := wire.PrepareUploadRequest{GroupID: string(u.key.group), Filename: u.key.name, Size: u.body.Len() +
		format.Overhead}
	if u.ticket, err = u.c.uploads.prepare(ctx, u.isOurs, request); err != nil {
		return Receipt{}, err
	}
	if u.ticket.base = u.base; u.isOurs {
		u.ticket.upon = u.upon
	}
	return u.sealAndSend(ctx)
}

// resume settles an earlier attempt with the same content. done means that the attempt was
// recorded.
func (u *uploading) resume(ctx context.Context) (r Receipt, done bool, err error) {
	t := u.c.uploads.takeTicket(u.key, u.base)
	if t == nil {
		return Receipt{}, false, nil
	}
	if time.Since(t.since) < ticketLife && u.isOurs {
		u.ticket = t // the finalize is repeated with the same id
		return Receipt{}, false, nil
	}
	if r, done, err = u.findRecorded(ctx, t.since); err != nil {
		u.c.uploads.remember(unanswered{key: u.key, ticket: t})
		return Receipt{}, false, unsure{err}
	}
	t.key.Wipe()
	return r, done, nil
}

// sealAndSend encrypts in place, sends, and decrypts in place.
func (u *uploading) sealAndSend(ctx context.Context) (receipt Receipt, err error) {
	u.ticket.compressed = u.body != u.buf
	size := u.buf.Len()
	defer func() { err = u.ended(err) }()
	b, err := hosted.Seal(u.ticket.key, u.body.Bytes())
	if err != nil {
		return Receipt{}, err
	}
	receipt, err = u.send(ctx, b, size) // when it returns, nothing reads the memory any more
	if restoreErr := b.Restore(); restoreErr != nil {
		u.buf.Changed()
		return Receipt{}, unsure{fmt.Errorf("restore the content after sending it: %w", restoreErr)}
	}
	return receipt, err
}

// ended remembers an upload without an answer, and wipes the key of any other. It says so of the error.
func (u *uploading) ended(err error) error {
	if u.ticket.state != hosted.Unsure {
		u.ticket.key.Wipe()
		return err
	}
	u.ticket.lost = time.Now()
	u.c.uploads.remember(unanswered{key: u.key, ticket: u.ticket})
	return unsure{err}
}

// send transfers the blob and has it recorded. It repeats requests only with the same
// upload id. Afterwards the ticket is recorded, refused, gone or unsure.
func (u *uploading) send(ctx context.Context, b *hosted.Blob, size int64) (Receipt, error) {
	raw := u.ticket.uploadURL != "" && b.Size() > wire.InlineBlobBytes
	if raw && u.ticket.state == hosted.Issued {
		put := call.Call{Method: http.MethodPut, Path: u.ticket.uploadURL, Long: true, Progress: u.progress,
			Body: &call.Body{Length: b.Size(), Open: b.Reader, Read: b.RestoreAhead}}
		if err := u.c.calls.Do(ctx, put); err != nil {
			u.ticket.state.Step(hosted.StepRefused)
			return Receipt{}, err
		}
		u.ticket.state.Step(hosted.StepStored)
	}
	return u.record(ctx, func(ctx context.Context, answer *wire.FinalizeUploadResult) error {
		return u.finalize(ctx, b, size, raw, answer)
	})
}

// finalize has the upload recorded, and sends the blob with it unless it was sent raw.
func (u *uploading) finalize(ctx context.Context, b *hosted.Blob, size int64, raw bool,
	answer *wire.FinalizeUploadResult) error {
	facts := format.NewMetadata(size, contentType(u.key.name), u.key.name)
	if facts.Attributes = u.attributes; u.key.link {
		facts.ContentType = format.TypeSymlink
	}
	if u.ticket.compressed {
		facts.Compression = format.CompressionDeflate
	}
	meta, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	head, err := json.Marshal(wire.FinalizeUploadRequest{UploadID: u.ticket.id, FileHash: u.key.digest.String(),
		Salt: u.salt(), Format: meta, Versioned: u.isOurs, Base: u.base, Upon: u.ticket.upon})
	if err != nil {
		return err
	}
	send := call.Call{Kind: call.Once, Path: wire.PathTools + wire.OpFinalizeUpload, Long: true,
		Answer: u.c.tools.result(call.MaxAnswer, answer)}
	if raw {
		send.Body = hosted.Body(head, nil)
	} else {
		send.Body, send.Progress = hosted.Body(head, b), u.progress
	}
	return u.c.calls.Do(ctx, send)
}

func contentType(name string) string {
	kind, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name)))
	if err != nil {
		return "application/octet-stream"
	}
	return kind
}
