package sdk

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Upload is [Group.Put] of a buffer, without a copy of the content, for programs that
// manage buffers themselves, such as the mount. b stays the caller's. Upload encrypts the
// content in place and decrypts it before it returns, with or without an error. Nothing
// else may read or write b meanwhile.
//
// Upload costs one upload, needs the API key, and takes the options of [Group.Put]. Errors:
// those of [Group.Put].
func (g Group) Upload(ctx context.Context, name string, b *mem.Buffer, opts ...Option) (Receipt, error) {
	o, err := resolve(opts, "Compress", "Progress", "WithAttributes")
	var receipt Receipt
	if err == nil {
		receipt, err = g.c.upload(ctx, g.ID, name, b, o)
	}
	return receipt, g.wrap("upload "+quote(name), err)
}

// upload uploads b and remembers that the caller knows the record.
func (c *Client) upload(ctx context.Context, g GroupID, name string, b *mem.Buffer, o options) (Receipt, error) {
	ctx = bridging(ctx)
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return Receipt{}, err
	}
	if err := checkSize(b.Len(), c.maxUpload(caps)); err != nil {
		return Receipt{}, err
	}
	u := &uploading{c: c, caps: caps, key: uploadKey{group: g, name: name, digest: b.Hash()}, buf: b, options: o}
	if err := u.useAttributes(); err != nil {
		return Receipt{}, err
	}
	done, err := c.uploads.exclusive(ctx, u.key)
	if err != nil {
		return Receipt{}, err
	}
	defer done()
	receipt, err := u.run(ctx)
	if err != nil {
		return Receipt{}, err
	}
	c.uploads.reported(receipt.Ref)
	return receipt, nil
}

// MaxUpload returns the size of the largest file that can be uploaded, in plaintext bytes:
// the smaller limit of Config.MaxFileBytes and of the service. Free; no authentication.
// Errors: those of [Client.Capabilities].
func (c *Client) MaxUpload(ctx context.Context) (int64, error) {
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return 0, err
	}
	return c.maxUpload(caps), nil
}

func (c *Client) maxUpload(caps wire.Capabilities) int64 {
	if caps.MaxFileBytes <= 0 {
		return c.cfg.MaxFileBytes
	}
	return min(c.cfg.MaxFileBytes, caps.MaxFileBytes)
}

// checkSize returns [ErrTooLarge] if size is over a limit, both in bytes.
func checkSize(size, limit int64) error {
	if size > limit {
		return &Error{Op: "check size", Kind: ErrTooLarge, Err: fmt.Errorf("the file has %d bytes, and %d are allowed", size, limit)}
	}
	return nil
}

// uploading is an upload in progress.
type uploading struct {
	c      *Client
	caps   wire.Capabilities
	key    uploadKey
	buf    *mem.Buffer // the content
	body   *mem.Buffer // what is encrypted: buf, or the compressed content
	ticket *ticket
	// attributes is what finalize sends. Uploads with other attributes have the same key:
	// a repetition is the same upload, and the attributes of the newest attempt count.
	attributes string
	options
}

func (u *uploading) offers(feature string) bool { return offered(u.caps, feature) }

// run uploads with the ticket of an earlier attempt, else with a prefetched ticket, else
// with a new one.
func (u *uploading) run(ctx context.Context) (Receipt, error) {
	if receipt, found, err := u.resume(ctx); found || err != nil {
		return receipt, err
	}
	release, err := u.pack()
	if err != nil {
		return Receipt{}, err
	}
	defer release()
	if u.ticket == nil && u.buf.Len() <= wire.InlineBlobBytes {
		u.ticket = u.c.uploads.prefetched(ctx, u.caps, u.key.group)
	}
	if u.ticket != nil {
		receipt, err := u.sealAndSend(ctx)
		if u.ticket.state != uploadGone {
			return receipt, err
		}
	}
	request := wire.PrepareUploadRequest{GroupID: string(u.key.group), Filename: u.key.name, Size: u.body.Len() + format.Overhead}
	if u.ticket, err = u.c.uploads.prepare(ctx, u.caps, request); err != nil {
		return Receipt{}, err
	}
	return u.sealAndSend(ctx)
}

// resume settles an earlier attempt with the same content. done means that the attempt was
// recorded.
func (u *uploading) resume(ctx context.Context) (r Receipt, done bool, err error) {
	t := u.c.uploads.unsure(u.key)
	if t == nil {
		return Receipt{}, false, nil
	}
	if time.Since(t.since) < ticketLife && u.offers(wire.CapIdempotentFinalize) {
		u.ticket = t // the finalize is repeated with the same id
		return Receipt{}, false, nil
	}
	if r, done, err = u.findRecorded(ctx, t.since); err != nil {
		return Receipt{}, false, err
	}
	u.c.uploads.forget(u.key)
	return r, done, nil
}

// findRecorded looks in the ledger for a record of the same content by this account that no
// caller knows yet.
func (u *uploading) findRecorded(ctx context.Context, since time.Time) (Receipt, bool, error) {
	c, k := u.c, u.key
	var entries []Entry
	err := c.repeatInGap(ctx, isUnsent, func() (err error) { // the list may be charged
		entries, err = c.entries(notBridging(ctx), k.group, 0)
		return err
	})
	if err != nil {
		return Receipt{}, false, err
	}
	const clockSkew = 5 * time.Minute
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		if e.Hash == k.digest && e.isLink() == k.link && e.Uploader == c.account && e.Deleted == nil && (e.Name == "" || e.Name == k.name) && !c.uploads.wasReported(e.Ref) &&
			(e.Time.IsZero() || e.Time.After(since.Add(-clockSkew))) {
			if err := u.settleFound(ctx, &e); err != nil {
				return Receipt{}, false, err
			}
			r := Receipt{Ref: e.Ref, Tx: e.Tx, Hash: e.Hash, Size: u.buf.Len(), Seq: e.Seq, Time: e.Time}
			if r.Time.IsZero() {
				r.Time = time.Now()
			}
			return r, true, nil
		}
	}
	return Receipt{}, false, nil
}

// sealAndSend encrypts in place, sends, and decrypts in place.
func (u *uploading) sealAndSend(ctx context.Context) (Receipt, error) {
	u.ticket.compressed = u.body != u.buf
	size := u.buf.Len()
	b, err := seal(u.ticket.key, u.body.Bytes())
	if err != nil {
		return Receipt{}, err
	}
	receipt, err := u.send(ctx, b, size) // when it returns, nothing reads the memory any more
	if u.ticket.state == uploadUnsure {
		u.c.uploads.remember(u.key, u.ticket)
	}
	if restoreErr := b.restore(); restoreErr != nil {
		u.buf.Changed()
		return Receipt{}, fmt.Errorf("restore the content after sending it: %w", restoreErr)
	}
	if u.ticket.state != uploadUnsure {
		u.c.uploads.forget(u.key)
		u.ticket.key.Wipe()
	}
	return receipt, err
}

// send transfers the blob and has it recorded. It repeats requests only with the same
// upload id. Afterwards the ticket is recorded, refused, gone or unsure.
func (u *uploading) send(ctx context.Context, b *blob, size int64) (Receipt, error) {
	raw := u.ticket.uploadURL != "" && b.size() > wire.InlineBlobBytes
	if raw && u.ticket.state == uploadIssued {
		if err := u.c.retry(ctx, func(ctx context.Context) error { return u.put(ctx, b) }); err != nil {
			u.ticket.refused(err)
			return Receipt{}, err
		}
		u.ticket.step(stepStored)
	}
	if u.ticket.state != uploadUnsure { // a repeated finalize may return the record of the first
		u.ticket.after = u.c.memory.Group(string(u.key.group)).Number
	}
	u.ticket.mixed = u.ticket.mixed || u.ticket.state == uploadUnsure && u.ticket.attributes != u.attributes
	u.ticket.attributes = u.attributes
	u.ticket.step(stepFinalize)
	var answer wire.FinalizeUploadResult
	finalize := func(ctx context.Context) error {
		err := u.finalize(ctx, b, size, raw, &answer)
		if err != nil && isOutcomeUnknown(err) {
			u.ticket.step(stepNoAnswer)
		}
		return err
	}
	var err error
	if u.offers(wire.CapIdempotentFinalize) {
		err = u.c.retry(ctx, finalize)
	} else {
		err = finalize(ctx)
	}
	if err != nil {
		return u.unanswered(ctx, err)
	}
	r, err := u.receipt(ctx, answer, size)
	if err != nil {
		u.ticket.step(stepNoAnswer)
		return Receipt{}, u.c.unconfirmed("upload", "file may be recorded", err)
	}
	if u.ticket.mixed {
		if err := u.settle(ctx, r.Ref); err != nil {
			u.ticket.step(stepNoAnswer) // the next attempt settles again
			return Receipt{}, err
		}
	}
	u.ticket.step(stepRecorded)
	return r, nil
}

// unanswered settles a finalize without an answer. It looks in the ledger for the record.
func (u *uploading) unanswered(ctx context.Context, err error) (Receipt, error) {
	if u.ticket.state != uploadUnsure {
		u.ticket.refused(err)
		return Receipt{}, err
	}
	if u.offers(wire.CapIdempotentFinalize) && isOutcomeUnknown(err) {
		return Receipt{}, err
	}
	r, found, lookErr := u.findRecorded(ctx, u.ticket.since)
	switch {
	case lookErr != nil:
		return Receipt{}, err
	case found:
		u.ticket.step(stepRecorded)
		return r, nil
	case classify(err) == ErrNotFound:
		u.ticket.step(stepUnknown)
	}
	return Receipt{}, err
}

// isOutcomeUnknown reports whether the service may have recorded the upload in spite of
// err.
func isOutcomeUnknown(err error) bool {
	var answered *answerError
	if !errors.As(err, &answered) {
		return true
	}
	switch answered.kind { // the hosted service refuses with status 500; its text has the reason
	case ErrInsufficient, ErrNotAuthorized, ErrUnauthenticated, ErrAudience:
		return false
	}
	return answered.status >= 500 && answered.code == "" || answered.code == wire.CodeUnavailable || answered.code == wire.CodeInternal
}

// put sends the ciphertext as raw bytes.
func (u *uploading) put(ctx context.Context, b *blob) error {
	body := outgoing{kind: "application/octet-stream", length: b.size(), open: b.reader, read: b.restoreAhead, sent: u.progress}
	return u.c.authorized(ctx, func(token Secret) error {
		return u.c.transfer(ctx, http.MethodPut, u.ticket.uploadURL, token, body, func(_ *http.Response, in io.Reader) error {
			_, err := io.Copy(io.Discard, io.LimitReader(in, maxErrorBytes))
			return err
		})
	})
}

// finalize has the upload recorded. It encodes the ciphertext to base64 while it sends. The
// nonce has a multiple of three bytes, so that the base64 of nonce and ciphertext can be
// joined.
func (u *uploading) finalize(ctx context.Context, b *blob, size int64, raw bool, answer *wire.FinalizeUploadResult) error {
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
	head, err := json.Marshal(wire.FinalizeUploadRequest{UploadID: u.ticket.id, FileHash: u.key.digest.String(), Format: meta, Versioned: u.offers(wire.CapVersions)})
	if err != nil {
		return err
	}
	body := jsonBody(head)
	if !raw {
		body = outgoing{kind: body.kind, length: finalizeLength(head, b), open: func() io.Reader { return finalizeBody(head, b) }, sent: u.progress}
	}
	if u.c.uploads.generationA.Load() {
		return u.postFinalize(ctx, wire.PathFinalizeGenA, body, answer)
	}
	err = u.postFinalize(ctx, wire.PathTools+wire.OpFinalizeUpload, body, answer)
	if !mayLackPath(err) {
		return err
	}
	// Generation A has another path; a service without the first path carried out nothing.
	otherErr := u.postFinalize(ctx, wire.PathFinalizeGenA, body, answer)
	if mayLackPath(otherErr) {
		return err
	}
	var refused *answerError
	u.c.uploads.generationA.Store(otherErr == nil || errors.As(otherErr, &refused) && !isOutcomeUnknown(otherErr))
	return otherErr
}

// mayLackPath reports whether err is the answer of a service without the path.
func mayLackPath(err error) bool {
	var refused *answerError
	return errors.As(err, &refused) && refused.status == http.StatusNotFound && refused.code == ""
}

func (u *uploading) postFinalize(ctx context.Context, path string, body outgoing, answer *wire.FinalizeUploadResult) error {
	return u.c.authorized(ctx, func(token Secret) error {
		return u.c.transfer(ctx, http.MethodPost, path, token, body, func(resp *http.Response, in io.Reader) error {
			answered, err := readBounded(in, resp.ContentLength, maxAnswerBytes)
			if err != nil {
				return err
			}
			return u.c.decodeResult(answered, answer)
		})
	})
}

const encryptedField = `,"encrypted_data":"`

func finalizeLength(head []byte, b *blob) int64 {
	encoded := base64.StdEncoding.EncodedLen(format.NonceBytes) + base64.StdEncoding.EncodedLen(int(b.size())-format.NonceBytes)
	return int64(len(head) - 1 + len(encryptedField) + encoded + len(`"}`))
}

// finalizeBody returns head, a JSON object, with the field encrypted_data added.
func finalizeBody(head []byte, b *blob) io.Reader {
	return io.MultiReader(bytes.NewReader(head[:len(head)-1]), strings.NewReader(encryptedField),
		&base64Reader{src: b.nonce[:]}, &base64Reader{src: b.mem}, strings.NewReader(`"}`))
}

func contentType(name string) string {
	kind, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name)))
	if err != nil {
		return "application/octet-stream"
	}
	return kind
}

// unconfirmed returns the error for a change that the service confirmed without proof.
// maybe says what became of it.
func (c *Client) unconfirmed(change, maybe string, err error) error {
	kind := classify(err)
	var own *Error
	if errors.As(err, &own) {
		kind = own.Kind
	}
	return &Error{Op: "check the receipt", Kind: kind, Code: wire.CodeReceipt,
		Err: c.scrubbed(fmt.Errorf("the service confirmed the %s without proof, so that the %s or not: %w", change, maybe, withoutURL(err)))}
}

// receipt checks the confirmation of the service (threat 13).
func (u *uploading) receipt(ctx context.Context, a wire.FinalizeUploadResult, size int64) (Receipt, error) {
	ref := a.Location
	if ref == "" {
		ref = a.CID
	}
	digest, err := parseDigest(a.FileHash)
	if err != nil || digest != u.key.digest || ref == "" {
		return Receipt{}, malformed(errors.New("it confirms another file than the one sent"))
	}
	r := Receipt{Ref: Ref(ref), Tx: strings.Trim(a.TransID, `"`), Hash: digest, Size: size, Seq: Seq(a.Seq), Time: parseTime(a.Time)}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	if u.offers(wire.CapChains) {
		if a.Record == nil || a.Record.Timestamp == nil || a.Seq != a.Record.Seq || !parseTime(*a.Record.Timestamp).Equal(r.Time) || r.Tx != a.Record.TransID {
			return Receipt{}, malformed(errors.New("its receipt is for another record"))
		}
		sent := Entry{Ref: r.Ref, Hash: digest, Size: size}
		if !u.ticket.mixed {
			sent.Attributes = &Attributes{} // none were sent, so none may be recorded
			if u.attributes != "" {
				sent.Attributes = &u.attrs
			}
		}
		if err := u.c.checkReceipt(ctx, u.key.group, u.key.name, u.ticket.after, sent, a); err != nil {
			return Receipt{}, err
		}
	}
	if a.Fee != "" {
		if r.Fee, err = wire.ParseAmount(a.Fee); err != nil {
			return Receipt{}, malformed(err)
		}
	}
	return r, nil
}
