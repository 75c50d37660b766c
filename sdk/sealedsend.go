package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

// SendSealed has uploads recorded, in their order, and returns what became of each, in the same
// order. One that is refused keeps none of the others from being recorded. One alone is one
// request; small ones travel together, up to [wire.MaxSealedBatch] in one request.
//
// After an error with an unknown outcome, such as [ErrUnavailable] or [ErrTimeout], send the
// same upload again, or after a restart another one of the same save: it is recorded and paid once, and the
// receipt is the first one, even if the file was deleted since. If the vault's epoch ended, SendSealed seals
// the key anew. Each receipt is verified.
//
// Each costs one upload. SendSealed needs the API key and membership. Errors: those of
// [Group.Put]; [ErrConflict] with [wire.CodeHead] if another version became the newest, see
// [PutOptions].Base; [ErrConflict] with [wire.CodeEpoch] if the epoch ended and the key of the file is not
// in memory: no key opens the upload any more; [ErrConflict] with [wire.CodeSpent] if the
// service says that the id was used for another upload, which only a faulty service does;
// [ErrInvalid] for an upload of another account, or one without ciphertext. Only svcd has it.
func (c *Client) SendSealed(ctx context.Context, uploads ...*Sealed) []saving.Sent[Receipt] {
	ctx = call.Bridging(ctx)
	if c.vault.isOld() {
		_, _ = c.vault.newer(ctx) // for the next Seal; what is sealed is sent as it is
	}
	out := make([]saving.Sent[Receipt], len(uploads))
	for from := 0; from < len(uploads); {
		n := batchOf(uploads[from:])
		c.small.sendTogether(ctx, uploads[from:from+n], out[from:from+n])
		from += n
	}
	for i, s := range uploads {
		out[i].Err = c.wrap("upload "+quote(s.Name()), s.Group(), "", out[i].Err)
	}
	return out
}

// batchOf returns how many of the first uploads travel in one request.
func batchOf(list []*Sealed) int {
	bytes := int64(0)
	for i, s := range list {
		if bytes += s.frameBytes(); i == wire.MaxSealedBatch || i > 0 && (!s.isSmall() || !list[0].isSmall() ||
			bytes > wire.MaxSealedBatchBytes) {
			return i
		}
	}
	return len(list)
}

// sendTogether sends uploads in one request. What the request leaves open is sent again alone.
func (q *sealedQueue) sendTogether(ctx context.Context, list []*Sealed, out []saving.Sent[Receipt]) {
	if len(list) == 1 {
		out[0].Receipt, out[0].Err = q.sendAlone(ctx, list[0])
		return
	}
	batch := make([]*queued, len(list))
	for i, s := range list {
		batch[i] = &queued{s: s}
	}
	_ = q.c.calls.Repeat(ctx, call.Free, func(ctx context.Context) error {
		return q.sendBatch(ctx, batch) // each has its own error
	})
	for i, w := range batch {
		var refused *call.Refusal
		switch {
		case codeOf(w.err) == wire.CodeEpoch, errors.As(w.err, &refused) && refused.IsTemporary():
			out[i].Receipt, out[i].Err = q.sendAlone(ctx, w.s)
		case w.err != nil:
			out[i].Err = w.s.outcome(w.err)
		default:
			out[i].Receipt, out[i].Err = q.receipt(ctx, w.s, w.answer)
		}
	}
}

// sendAlone sends one upload.
func (q *sealedQueue) sendAlone(ctx context.Context, s *Sealed) (Receipt, error) {
	r, _, err := q.answer(ctx, s)
	return r, err
}

// record sends an upload, and makes sure that the record has these attributes, if it is that of an earlier
// attempt.
func (q *sealedQueue) record(ctx context.Context, s *Sealed, a Attributes, repeated bool) (Receipt,
	wire.FinalizeUploadResult, error) {
	r, answer, err := q.answer(ctx, s)
	if err == nil && !s.attributes().Equal(a) { // of the earlier attempt, or not offered
		if err = q.c.Group(s.Group()).settle(ctx, r.Ref, a); err != nil {
			return Receipt{}, answer, s.mayBeRecorded(err) // the next attempt settles again
		}
	}
	if repeated {
		r.Number = 0
	}
	return r, answer, err
}

// recordAgain is record for the content of an earlier call, which got no answer. The error is errGone if it was
// recorded then, and has its name no more.
func (q *sealedQueue) recordAgain(ctx context.Context, s *Sealed, a Attributes) (Receipt, error) {
	r, answer, err := q.record(ctx, s, a, true)
	if err != nil || !answer.Repeated {
		return r, err
	}
	return r, q.c.Group(s.Group()).stillHas(ctx, s.Name(), r.Seq)
}

// stillHas returns errGone if no version of a name is that of a record or a later one.
func (g Group) stillHas(ctx context.Context, name string, seq Seq) error {
	e, err := g.Stat(ctx, name)
	switch {
	case KindOf(err) == ErrNotFound || err == nil && e.Seq < seq:
		return errGone
	case err != nil:
		return unsure{err}
	}
	return nil
}

// errGone means that an upload was recorded, and removed or renamed since.
var errGone = errors.New("the version was recorded, and is gone")

// answer sends one upload until it has an answer, and again with its key sealed anew if the epoch ended. The
// answer is checked.
func (q *sealedQueue) answer(ctx context.Context, s *Sealed) (r Receipt, answer wire.FinalizeUploadResult, err error) {
	try := func() error {
		return q.c.calls.Repeat(ctx, call.Free, func(ctx context.Context) (err error) {
			if s.isSmall() {
				answer, err = q.send(ctx, s)
				return err
			}
			return q.put(ctx, s, &answer)
		})
	}
	if err = call.Ended(ctx); err == nil { // else nothing is sent
		err = try()
	}
	if codeOf(err) == wire.CodeEpoch && s.hasKey() {
		vault, vaultErr := q.c.vault.newer(ctx)
		if vaultErr == nil {
			vaultErr = s.sealKey(vault)
		}
		if err = vaultErr; err == nil {
			err = try()
		}
	}
	if err == nil {
		r, err = q.receipt(ctx, s, answer)
	}
	return r, answer, s.outcome(err)
}

// receipt checks the confirmation of an upload.
func (q *sealedQueue) receipt(ctx context.Context, s *Sealed, a wire.FinalizeUploadResult) (Receipt, error) {
	s.mu.Lock()
	attrs := s.attrs
	sent := Entry{Group: GroupID(s.head.GroupID), Name: s.facts.Filename, Size: s.size, Content: s.contentID,
		Attributes: &attrs, Upon: versionOf(s.head.Upon)}
	sent.Hash, _ = parseDigest(s.head.FileHash) // checked, as the salt
	salt, _ := parseDigest(s.head.Salt)
	sent.Commitment = commitment(salt, sent)
	// The history may have been forgotten since, see AcceptRollback.
	after := min(s.after, q.c.memory.Group(s.head.GroupID).Number)
	s.mu.Unlock()
	r, err := q.c.uploads.receipt(ctx, sent, after, true, a)
	if err != nil {
		return Receipt{}, s.mayBeRecorded(q.c.receipts.unconfirmed("upload", "file may be recorded", err))
	}
	return r, nil
}

// isSmall reports whether the upload may travel with others.
func (s *Sealed) isSmall() bool {
	return s.contentID == (Digest{}) && s.blobSize() <= wire.SealedBatchBlob
}

// frameBytes returns about how long the frame is, in bytes: never less.
func (s *Sealed) frameBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head.BlobSize + int64(len(s.head.Format)) + 6*int64(len(s.head.GroupID)) + int64(len(s.head.SealedKey)) +
		1<<10
}

// frame returns the beginning of the frame, and where its ciphertext is.
func (q *sealedQueue) frame(s *Sealed) (head []byte, cipher io.Reader, err error) {
	if err := q.own(s); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cipher, err = s.reader(); err != nil {
		return nil, nil, err
	}
	head, err = wire.AppendFrameHead(nil, &s.head)
	if errors.Is(err, wire.ErrFrame) { // a long name or many attributes
		err = &Error{Op: "check", Kind: ErrTooLarge, Err: err}
	}
	return head, cipher, err
}

// reader reads the ciphertext. Needs mu.
func (s *Sealed) reader() (io.Reader, error) {
	if s.cipher == nil {
		return nil, errNoCipher
	}
	return io.NewSectionReader(s.cipher, 0, s.head.BlobSize), nil
}

// noteOutcome notes whether the upload may be recorded in spite of err, the answer to a request.
func (s *Sealed) noteOutcome(err error) {
	if err != nil && !call.IsUnsent(err) && isOutcomeUnknown(err) {
		_ = s.mayBeRecorded(err)
	}
}

// mayBeRecorded notes that the upload may be recorded in spite of err, and says so of it.
func (s *Sealed) mayBeRecorded(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsure = true
	return unsure{err}
}

// outcome says of err, the answer to the newest request, whether the upload may be recorded by any.
func (s *Sealed) outcome(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || !s.unsure {
		return err
	}
	switch codeOf(err) {
	case wire.CodeMissing, wire.CodeBase, wire.CodeHead, wire.CodeSpent, wire.CodeUnsupported:
		return err // a service of ours answers first what it has recorded
	}
	return unsure{err}
}

// put sends one upload in a request of its own.
func (q *sealedQueue) put(ctx context.Context, s *Sealed, answer *wire.FinalizeUploadResult) error {
	head, _, err := q.frame(s)
	if err != nil {
		return err
	}
	body := call.Body{Length: int64(len(head)) + s.blobSize(), Open: func() io.Reader {
		s.mu.Lock()
		defer s.mu.Unlock()
		cipher, err := s.reader() // where it is by now
		if err != nil {
			return call.FailingReader{Err: err}
		}
		return io.MultiReader(bytes.NewReader(head), cipher)
	}}
	err = q.c.calls.Do(ctx, call.Call{Kind: call.Once, Method: http.MethodPut, Path: wire.PathSealed + s.id(),
		Body: &body,
		Long: true, Progress: s.progress, Answer: q.c.tools.result(call.MaxAnswer, answer)})
	s.noteOutcome(err)
	return s.sensible(err)
}

// sendBatch sends uploads in one request. Each of batch without an error gets its answer or its
// error; the result is the error of the request.
func (q *sealedQueue) sendBatch(ctx context.Context, batch []*queued) error {
	var readers []io.Reader
	var sent []*queued
	length := int64(0)
	for _, w := range batch {
		head, cipher, err := q.frame(w.s)
		if err != nil {
			w.err = err
			continue
		}
		readers = append(readers, bytes.NewReader(head), cipher)
		length += int64(len(head)) + w.s.blobSize()
		sent = append(sent, w)
	}
	if len(sent) == 0 {
		return nil
	}
	body := call.Body{Length: length, Open: func() io.Reader {
		for _, r := range readers {
			if _, err := r.(io.Seeker).Seek(0, io.SeekStart); err != nil {
				return call.FailingReader{Err: err}
			}
		}
		return io.MultiReader(readers...)
	}}
	var answer wire.FinalizeUploadsResult
	err := q.c.calls.Do(ctx, call.Call{Kind: call.Once, Path: wire.PathTools + wire.OpFinalizeUploads, Body: &body,
		Long: true, Answer: q.c.tools.result(call.MaxAnswer, &answer)})
	if err == nil && len(answer.Uploads) != len(sent) {
		err = call.Malformed(fmt.Errorf("%d answers to %d uploads", len(answer.Uploads), len(sent)))
	}
	for i, w := range sent {
		if w.err = err; err == nil {
			w.answer, w.err = q.answerOf(w.s, &answer.Uploads[i])
		}
		w.s.noteOutcome(w.err)
	}
	return err
}

// answerOf returns the answer to one upload of a batch.
func (q *sealedQueue) answerOf(s *Sealed, a *wire.SealedAnswer) (wire.FinalizeUploadResult, error) {
	switch {
	case a.ID != s.id():
		return wire.FinalizeUploadResult{}, call.Malformed(errors.New("its answer is for another upload"))
	case a.Error != nil && a.Result == nil && a.Status/100 > 2:
		refused := newRefusal(a.Status, a.Error.Code, a.Error.Error)
		refused.Text = q.c.calls.Scrub(refused.Text)
		return wire.FinalizeUploadResult{}, s.sensible(refused)
	case a.Error != nil || a.Result == nil:
		return wire.FinalizeUploadResult{}, call.Malformed(errors.New("its answer is neither a record nor a refusal"))
	}
	return *a.Result, nil
}

// sensible refuses a refusal that has no reason.
func (s *Sealed) sensible(err error) error {
	if _, bound := s.base(); codeOf(err) == wire.CodeHead && !bound {
		return call.Malformed(errors.New("it says that the newest version is another one, and the upload named none"))
	}
	return err
}
