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
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// ticketLife is how long a service keeps an upload id.
	ticketLife = 300 * time.Second
	// keptTicket is how long the caller may take to come back after a lost answer,
	// such as a mount that waits for its service.
	keptTicket = 24 * time.Hour
	// keptKeys bounds the memory of file keys seen, to notice one handed out
	// twice, and that of references acknowledged.
	keptKeys = 100_000
)

// uploadKey names content on its way: the same content under the same name in
// the same group is the same upload, until it is recorded.
type uploadKey struct {
	group  GroupID
	name   string
	digest Digest
}

// ticket is an upload whose outcome is not known.
type ticket struct {
	id        string
	key       *format.Key
	uploadURL string    // path for raw transfer; "" when not offered
	since     time.Time // when the service issued it
	lost      time.Time // when an answer was last missed
	deflated  bool      // what is sealed is compressed
	put       bool      // the raw transfer was done
	unsure    bool      // a finalize without an answer: it may have been recorded
	gone      bool      // the service does not know the id, and nothing was recorded
	ahead     bool      // it was prepared before it was needed
	sent      bool      // a finalize was sent
	after     int64     // how many records the group had before that, as far as is known
}

// Upload is [Group.Put] of a buffer, for programs that hold their files in buffers
// as the mount does: the content is not copied. It is sealed in place, and plaintext
// again when Upload returns, whatever the outcome: meanwhile nobody may read b.
//
// Costs one upload; needs the API key, takes the options of, and errors are those of,
// [Group.Put].
func (g Group) Upload(ctx context.Context, name string, b *Buffer, opts ...Option) (Receipt, error) {
	o, err := resolve(opts, "Compress", "Progress")
	var receipt Receipt
	if err == nil {
		receipt, err = g.c.upload(ctx, g.ID, name, b, o)
	}
	return receipt, g.wrap("upload "+quote(name), err)
}

// upload uploads b and remembers that its record was told.
func (c *Client) upload(ctx context.Context, g GroupID, name string, b *Buffer, o options) (Receipt, error) {
	receipt, err := c.uploadOnce(ctx, g, name, b, o)
	if err != nil {
		return Receipt{}, err
	}
	c.acknowledge(receipt.Ref)
	return receipt, nil
}

func (c *Client) uploadOnce(ctx context.Context, g GroupID, name string, b *Buffer, o options) (Receipt, error) {
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return Receipt{}, err
	}
	if err := checkSize(b.Len(), c.maxUpload(caps)); err != nil {
		return Receipt{}, err
	}
	u := &uploading{c: c, caps: caps, key: uploadKey{g, name, b.Hash()}, buf: b, options: o}
	done, err := c.alone(ctx, u.key)
	if err != nil {
		return Receipt{}, err
	}
	defer done()
	if receipt, found, err := u.resume(ctx); found || err != nil {
		return receipt, err
	}
	release, err := u.pack()
	if err != nil {
		return Receipt{}, err
	}
	defer release()
	if u.ticket == nil && b.Len() <= wire.InlineBlobBytes {
		u.useAhead(ctx)
	}
	if u.ticket != nil {
		receipt, err := u.sealAndSend(ctx)
		if !u.ticket.gone {
			return receipt, err
		}
	}
	if err := u.prepare(ctx); err != nil {
		return Receipt{}, err
	}
	return u.sealAndSend(ctx)
}

// alone waits while the same content is on its way under the same name: two
// callers must not share a ticket.
func (c *Client) alone(ctx context.Context, k uploadKey) (done func(), err error) {
	for {
		c.mu.Lock()
		busy := c.sending[k]
		if busy == nil {
			mine := make(chan struct{})
			c.sending[k] = mine
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				delete(c.sending, k)
				c.mu.Unlock()
				close(mine)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// MaxUpload returns the size of the largest file that can be uploaded, in plaintext
// bytes: the smaller of [Config].MaxFileBytes and what the service takes. Free. Errors
// are those of [Client.Capabilities].
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

// checkSize refuses size bytes of content beyond a limit.
func checkSize(size, limit int64) error {
	if size > limit {
		return &Error{Op: "check size", Kind: KindTooLarge, Err: fmt.Errorf("the file has %d bytes, allowed are %d", size, limit)}
	}
	return nil
}

// uploading is one upload under way.
type uploading struct {
	c      *Client
	caps   wire.Capabilities
	key    uploadKey
	buf    *Buffer // the content
	body   *Buffer // what is sealed: the content, or compressed
	ticket *ticket
	options
}

func (u *uploading) offers(feature string) bool { return offered(u.caps, feature) }

// resume finds out about an earlier attempt with the same content.
func (u *uploading) resume(ctx context.Context) (r Receipt, done bool, err error) {
	u.c.mu.Lock()
	t := u.c.unfinished[u.key]
	u.c.mu.Unlock()
	if t == nil {
		return Receipt{}, false, nil
	}
	if time.Since(t.since) < ticketLife && u.offers(wire.CapIdempotentFinalize) {
		u.ticket = t // repeats the finalize under its id
		return Receipt{}, false, nil
	}
	if r, done, err = u.findRecorded(ctx, t.since); err != nil {
		return Receipt{}, false, err
	}
	u.forget()
	return r, done, nil
}

func (u *uploading) forget() {
	u.c.mu.Lock()
	defer u.c.mu.Unlock()
	delete(u.c.unfinished, u.key)
}

// acknowledge remembers which records were told to a caller: the same content
// uploaded again is another record.
func (c *Client) acknowledge(ref Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.receipts) >= keptKeys {
		clear(c.receipts) // those that are looked for are minutes old
	}
	c.receipts[ref] = struct{}{}
}

func (c *Client) acknowledged(ref Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.receipts[ref]
	return known
}

// findRecorded looks for our own row of the same content in the ledger, one
// that no caller was told of.
func (u *uploading) findRecorded(ctx context.Context, since time.Time) (Receipt, bool, error) {
	c, k := u.c, u.key
	entries, err := c.entries(ctx, k.group, 0)
	if err != nil {
		return Receipt{}, false, err
	}
	const clockSkew = 5 * time.Minute
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		if e.Hash == k.digest && e.Uploader == c.account && e.Deleted == nil && (e.Name == "" || e.Name == k.name) && !c.acknowledged(e.Ref) &&
			(e.Time.IsZero() || e.Time.After(since.Add(-clockSkew))) {
			r := Receipt{Ref: e.Ref, Tx: e.Tx, Hash: e.Hash, Size: u.buf.Len(), Seq: e.Seq, Time: e.Time}
			if r.Time.IsZero() {
				r.Time = time.Now()
			}
			return r, true, nil
		}
	}
	return Receipt{}, false, nil
}

// prepare asks for an upload id and the file's key.
func (u *uploading) prepare(ctx context.Context) error {
	request := wire.PrepareUploadRequest{GroupID: string(u.key.group), Filename: u.key.name, Size: u.body.Len() + format.Overhead}
	t, err := u.c.askTicket(ctx, u.caps, request)
	if err == nil {
		t.deflated = u.body != u.buf
		u.ticket = t
	}
	return err
}

// useAhead takes the ticket that was prepared ahead, if any, and has the next one
// prepared while this upload is on its way.
func (u *uploading) useAhead(ctx context.Context) {
	if t := u.c.takeTicket(ctx, u.key.group); t != nil {
		t.deflated, t.ahead = u.body != u.buf, true
		u.ticket = t
	}
	u.c.prepareAhead(ctx, u.caps, u.key.group)
}

// askTicket prepares an upload. An upload id that nobody uses costs nothing: the
// request may be repeated.
func (c *Client) askTicket(ctx context.Context, caps wire.Capabilities, request wire.PrepareUploadRequest) (*ticket, error) {
	var answer wire.PrepareUploadResult
	if err := c.read(ctx, wire.OpPrepareUpload, request, &answer); err != nil {
		return nil, err
	}
	if answer.UploadID == "" {
		return nil, malformed(errors.New("no upload id"))
	}
	key, err := format.ParseKey(answer.Key)
	if err != nil {
		return nil, malformed(err)
	}
	if err := c.noteKey(key, answer.UploadID); err != nil {
		return nil, err
	}
	t := &ticket{id: answer.UploadID, key: key, since: time.Now()}
	if offered(caps, wire.CapRaw) {
		t.uploadURL = answer.UploadURL
	}
	return t, nil
}

// noteKey refuses a key that was handed out for another upload: two files under
// one key would be one nonce collision away from each other (threat 11).
func (c *Client) noteKey(key *format.Key, uploadID string) error {
	print := key.Fingerprint()
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, ok := c.seenKeys[print]; ok && other != uploadID {
		return malformed(errors.New("it hands out the key of another upload"))
	}
	if len(c.seenKeys) >= keptKeys {
		clear(c.seenKeys)
	}
	c.seenKeys[print] = uploadID
	return nil
}

// sealAndSend encrypts in place, sends, and decrypts in place again.
func (u *uploading) sealAndSend(ctx context.Context) (Receipt, error) {
	size := u.buf.Len()
	b, err := seal(u.ticket.key, u.body.Bytes())
	if err != nil {
		return Receipt{}, err
	}
	receipt, err := u.send(ctx, b, size) // ends every loan of the memory
	if err != nil && u.ticket.ahead && !u.ticket.unsure && classify(err) == KindNotFound {
		u.ticket.gone = true // forgotten since; the upload begins once more
	}
	if err != nil && u.ticket.unsure {
		u.remember()
	}
	if restoreErr := b.restore(); restoreErr != nil {
		u.buf.forgetHash(true)
		return Receipt{}, fmt.Errorf("restore the content after sending it: %w", restoreErr)
	}
	if err == nil || !u.ticket.unsure {
		u.forget()
		u.ticket.key.Wipe()
	}
	return receipt, err
}

// send transfers the blob and has it recorded, repeating only under the upload
// id.
func (u *uploading) send(ctx context.Context, b *blob, size int64) (Receipt, error) {
	raw := u.ticket.uploadURL != "" && b.size() > wire.InlineBlobBytes
	if raw && !u.ticket.put {
		if err := u.c.retry(ctx, func(ctx context.Context) error { return u.put(ctx, b) }); err != nil {
			return Receipt{}, err
		}
		u.ticket.put = true
	}
	if !u.ticket.sent { // repeated, it may be answered with what was recorded the first time
		u.ticket.sent, u.ticket.after = true, u.c.memory.Group(string(u.key.group)).Number
	}
	var answer wire.FinalizeUploadResult
	finalize := func(ctx context.Context) error {
		err := u.finalize(ctx, b, size, raw, &answer)
		if err != nil && isOutcomeUnknown(err) {
			u.ticket.unsure = true // and stays so: a later refusal says nothing about this one
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
		u.ticket.unsure = true
		return Receipt{}, u.c.unconfirmed(err)
	}
	return r, nil
}

// unanswered looks in the ledger when a finalize may have been recorded although
// its answer did not arrive.
func (u *uploading) unanswered(ctx context.Context, err error) (Receipt, error) {
	if !u.ticket.unsure || u.offers(wire.CapIdempotentFinalize) && isOutcomeUnknown(err) {
		return Receipt{}, err
	}
	r, found, lookErr := u.findRecorded(ctx, u.ticket.since)
	if lookErr != nil {
		return Receipt{}, err
	}
	if found {
		return r, nil
	}
	if classify(err) == KindNotFound {
		u.ticket.unsure, u.ticket.gone = false, true
	}
	return Receipt{}, err
}

// remember keeps the ticket, because no answer came.
func (u *uploading) remember() {
	u.c.mu.Lock()
	defer u.c.mu.Unlock()
	u.ticket.lost = time.Now()
	for k, t := range u.c.unfinished {
		if time.Since(t.lost) > keptTicket {
			delete(u.c.unfinished, k)
		}
	}
	u.c.unfinished[u.key] = u.ticket
}

// isOutcomeUnknown reports failures after which the service may have recorded
// the upload all the same.
func isOutcomeUnknown(err error) bool {
	var answered *answerError
	if !errors.As(err, &answered) {
		return true
	}
	switch answered.kind { // the hosted service refuses with status 500, and words that say why
	case KindInsufficient, KindNotAuthorized, KindUnauthenticated, KindAudience:
		return false
	}
	return answered.status >= 500 && answered.code == "" || answered.code == wire.CodeUnavailable || answered.code == wire.CodeInternal
}

// put sends the ciphertext as it is.
func (u *uploading) put(ctx context.Context, b *blob) error {
	body := outgoing{kind: "application/octet-stream", length: b.size(), open: b.reader, read: b.restoreAhead, sent: u.progress}
	return u.c.authorized(ctx, func(token Secret) error {
		return u.c.transfer(ctx, http.MethodPut, u.ticket.uploadURL, token, body, func(_ *http.Response, in io.Reader) error {
			_, err := io.Copy(io.Discard, io.LimitReader(in, maxErrorBytes))
			return err
		})
	})
}

// finalize has the upload recorded. The base64 form is written while it is sent:
// the nonce is a multiple of three bytes long, so its base64 and that of the
// rest join without a seam.
func (u *uploading) finalize(ctx context.Context, b *blob, size int64, raw bool, answer *wire.FinalizeUploadResult) error {
	facts := format.NewMetadata(size, contentType(u.key.name), u.key.name)
	if u.ticket.deflated {
		facts.Compression = format.CompressionDeflate
	}
	meta, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	head, err := json.Marshal(wire.FinalizeUploadRequest{UploadID: u.ticket.id, FileHash: u.key.digest.String(), Format: meta})
	if err != nil {
		return err
	}
	body := jsonBody(head)
	if !raw {
		body = outgoing{kind: body.kind, length: finalizeLength(head, b), open: func() io.Reader { return finalizeBody(head, b) }, sent: u.progress}
	}
	if u.c.generationA.Load() {
		return u.postFinalize(ctx, wire.PathFinalizeGenA, body, answer)
	}
	err = u.postFinalize(ctx, wire.PathTools+wire.OpFinalizeUpload, body, answer)
	if !mayLackPath(err) {
		return err
	}
	// Generation A has another path, and nothing was carried out yet.
	otherErr := u.postFinalize(ctx, wire.PathFinalizeGenA, body, answer)
	if mayLackPath(otherErr) {
		return err
	}
	var refused *answerError
	u.c.generationA.Store(otherErr == nil || errors.As(otherErr, &refused) && !isOutcomeUnknown(otherErr))
	return otherErr
}

// mayLackPath reports an answer that a service without the path gives.
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
			return u.c.unwrap(answered, answer)
		})
	})
}

const encryptedField = `,"encrypted_data":"`

func finalizeLength(head []byte, b *blob) int64 {
	encoded := base64.StdEncoding.EncodedLen(format.NonceBytes) + base64.StdEncoding.EncodedLen(int(b.size())-format.NonceBytes)
	return int64(len(head) - 1 + len(encryptedField) + encoded + len(`"}`))
}

// finalizeBody is head, which is a JSON object, with encrypted_data added.
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

// unconfirmed is the error of an upload that the service acknowledged without
// proving it.
func (c *Client) unconfirmed(err error) error {
	kind := classify(err)
	var own *Error
	if errors.As(err, &own) {
		kind = own.Kind
	}
	return &Error{Op: "check the receipt", Kind: kind, Code: wire.CodeReceipt,
		Err: c.scrubbed(fmt.Errorf("the service says that it recorded the file, but does not prove it, so the file may be recorded or not: %w", withoutURL(err)))}
}

// receipt checks what was acknowledged (threat 13).
func (u *uploading) receipt(ctx context.Context, a wire.FinalizeUploadResult, size int64) (Receipt, error) {
	ref := a.Location
	if ref == "" {
		ref = a.CID
	}
	digest, err := ParseDigest(a.FileHash)
	if err != nil || digest != u.key.digest || ref == "" {
		return Receipt{}, malformed(errors.New("it acknowledges another file than the one that was sent"))
	}
	r := Receipt{Ref: Ref(ref), Tx: TxID(strings.Trim(a.TransID, `"`)), Hash: digest, Size: size, Seq: Seq(a.Seq), Time: parseTime(a.Time)}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	if u.offers(wire.CapChains) {
		if a.Record == nil || a.Record.Timestamp == nil || a.Seq != a.Record.Seq || !parseTime(*a.Record.Timestamp).Equal(r.Time) || string(r.Tx) != a.Record.TransID {
			return Receipt{}, malformed(errors.New("its receipt is of another record"))
		}
		if err := u.c.checkReceipt(ctx, u.key.group, u.key.name, u.ticket.after, Entry{Ref: r.Ref, Hash: digest, Size: size}, a); err != nil {
			return Receipt{}, err
		}
	}
	if a.Fee != "" {
		if r.Fee, err = ParseAmount(a.Fee); err != nil {
			return Receipt{}, malformed(err)
		}
	}
	return r, nil
}
