package sdk

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/internal/hosted"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// recording is what an upload in two requests needs to be recorded once: how it is finalized, and how its record is
// found after a lost answer.
type recording struct {
	c          *Client
	isOurs     bool // the dialect of the service is ours
	key        uploadKey
	base, upon string // of [options]
	size       int64  // of the plaintext, in bytes
	ticket     *ticket
	attrs      Attributes
	// attributes is what finalize sends. Uploads with other attributes have the same key:
	// a repetition is the same upload, and the attributes of the newest attempt count.
	attributes string
}

// record has the upload recorded. send is the finalize; record repeats it only with the same
// upload id. Afterwards the ticket is recorded, refused, gone or unsure.
func (u *recording) record(
	ctx context.Context, send func(context.Context, *wire.FinalizeUploadResult) error,
) (Receipt, error) {
	repeated := u.ticket.state == hosted.Unsure
	if !repeated { // a repeated finalize may return the record of the first
		u.ticket.after = u.c.memory.Group(string(u.key.group)).Number
	}
	u.ticket.mixed = u.ticket.mixed || repeated && u.ticket.attributes != u.attributes
	u.ticket.attributes = u.attributes
	u.ticket.state.Step(hosted.StepFinalize)
	var answer wire.FinalizeUploadResult
	finalize := func(ctx context.Context) error {
		err := send(ctx, &answer)
		if err != nil && isOutcomeUnknown(err) {
			u.ticket.state.Step(hosted.StepNoAnswer)
		}
		return err
	}
	kind := call.Once
	if u.isOurs { // it counts once for each id
		kind = call.Free
	}
	if err := u.c.calls.Repeat(ctx, kind, finalize); err != nil {
		return u.unanswered(ctx, err)
	}
	if repeated && u.isOurs && u.key.name != "" {
		err := u.c.Group(u.key.group).stillHas(ctx, u.key.name, Seq(answer.Seq))
		if errors.Is(err, errGone) {
			u.ticket.state.Step(hosted.StepUnknown)
		}
		if err != nil {
			return Receipt{}, err
		}
	}
	r, err := u.receipt(ctx, answer)
	if err != nil {
		u.ticket.state.Step(hosted.StepNoAnswer)
		return Receipt{}, u.c.receipts.unconfirmed("upload", "file may be recorded", err)
	}
	if u.ticket.mixed {
		if err := u.c.Group(u.key.group).settle(ctx, r.Ref, u.attrs); err != nil {
			u.ticket.state.Step(hosted.StepNoAnswer) // the next attempt settles again
			return Receipt{}, err
		}
	}
	u.ticket.state.Step(hosted.StepRecorded)
	if repeated {
		r.Number = 0
	}
	return r, nil
}

// unanswered settles a finalize without an answer. It looks in the ledger for the record.
func (u *recording) unanswered(ctx context.Context, err error) (Receipt, error) {
	if u.ticket.state != hosted.Unsure {
		u.ticket.state.Step(hosted.StepRefused)
		return Receipt{}, err
	}
	if u.isOurs && u.base != "" && codeOf(err) == wire.CodeHead { // it answers first what it has recorded
		u.ticket.state.Step(hosted.StepAbsent)
		return Receipt{}, err
	}
	if u.isOurs && isOutcomeUnknown(err) {
		return Receipt{}, err
	}
	r, found, lookErr := u.findRecorded(ctx, u.ticket.since)
	switch {
	case lookErr != nil:
		return Receipt{}, err
	case found:
		u.ticket.state.Step(hosted.StepRecorded)
		return r, nil
	case classify(err) == ErrNotFound:
		u.ticket.state.Step(hosted.StepUnknown)
	}
	return Receipt{}, err
}

// isOutcomeUnknown reports whether the service may have recorded the upload in spite of
// err.
func isOutcomeUnknown(err error) bool {
	var refused *call.Refusal
	if !errors.As(err, &refused) {
		return true
	}
	switch refused.Kind { // the hosted service refuses with status 500; its text has the reason
	case ErrInsufficient, ErrNotAuthorized, ErrUnauthenticated, ErrAudience:
		return false
	}
	return refused.Status >= 500 && refused.Code == "" || refused.Code == wire.CodeUnavailable ||
		refused.Code == wire.CodeInternal
}

// findRecorded looks in the ledger for a record of the same content by this account that no
// caller knows yet.
func (u *recording) findRecorded(ctx context.Context, since time.Time) (Receipt, bool, error) {
	c, k := u.c, u.key
	var entries []Entry
	err := c.calls.Repeat(ctx, call.Once, func(ctx context.Context) (err error) { // the list may be charged
		entries, err = c.entries(call.NotBridging(ctx), k.group, listing{})
		return err
	})
	if err != nil {
		return Receipt{}, false, err
	}
	const clockSkew = 5 * time.Minute
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		if e.Hash == k.digest && e.Content == (Digest{}) && e.isLink() == k.link && e.Uploader == c.account &&
			e.Deleted == nil && (e.Name == "" || e.Name == k.name) && !c.uploads.wasReported(e.Ref) &&
			(e.Time.IsZero() || e.Time.After(since.Add(-clockSkew))) {
			if err := u.settleFound(ctx, &e); err != nil {
				return Receipt{}, false, err
			}
			e.Size, e.Number = u.size, 0
			if e.Time.IsZero() {
				e.Time = time.Now()
			}
			return Receipt{Entry: e}, true, nil
		}
	}
	return Receipt{}, false, nil
}

// unconfirmed returns the error for a change that the service confirmed without proof.
// maybe says what became of it.
func (rs receipts) unconfirmed(change, maybe string, err error) error {
	kind := classify(err)
	var own *Error
	if errors.As(err, &own) {
		kind = own.Kind
	}
	return &Error{Op: "check the receipt", Kind: kind, Code: wire.CodeReceipt, Unsure: true,
		Err: rs.c.calls.Scrubbed(fmt.Errorf("the service confirmed the %s without proof, so that the %s or not: %w",
			change, maybe, call.WithoutURL(err)))}
}

// receipt checks the confirmation of the service.
func (u *recording) receipt(ctx context.Context, a wire.FinalizeUploadResult) (Receipt, error) {
	sent := Entry{Group: u.key.group, Name: u.key.name, Hash: u.key.digest, Size: u.size,
		Upon: versionOf(u.ticket.upon)}
	sent.Commitment = commitment(u.ticket.salt, sent)
	if !u.ticket.mixed {
		sent.Attributes = &Attributes{} // none were sent, so none may be recorded
		if u.attributes != "" {
			sent.Attributes = &u.attrs
		}
	}
	return u.c.uploads.receipt(ctx, sent, u.ticket.after, u.isOurs, a)
}

// commitment is what the record of an upload has, if its salt is the one that was sent.
func commitment(salt [chain.SaltBytes]byte, sent Entry) Digest {
	o := chain.Opening{Salt: salt, Size: sent.Size, Hash: chain.Hash(sent.Hash)}
	d, _ := parseDigest(o.Commitment()) // is one
	return d
}

// repeatedContent is the content tag of the record of an earlier upload of the same save, whose parts had other keys.
func repeatedContent(sent Entry, row *wire.TransactionRow) Digest {
	if sent.Content == (Digest{}) || row.Content == nil {
		return sent.Content
	}
	content, err := parseDigest(*row.Content)
	if err != nil {
		return sent.Content // does not fit
	}
	return content
}

// salt is what a finalize sends to a service of ours.
func (u *recording) salt() string {
	if !u.isOurs {
		return ""
	}
	return hex.EncodeToString(u.ticket.salt[:])
}

// receipt checks the confirmation of the service (threat 13): what was sent is recorded, as one
// of the records that follow the first after of the group. Nil attributes may be any.
func (u *uploader) receipt(ctx context.Context, sent Entry, after int64, proves bool,
	a wire.FinalizeUploadResult) (Receipt, error) {
	ref := a.Location
	if ref == "" {
		ref = a.CID
	}
	digest, err := recordedHash(a.FileHash)
	if err != nil || digest != sent.Hash || ref == "" {
		return Receipt{}, call.Malformed(errors.New("it confirms another file than the one sent"))
	}
	sent.Ref, sent.Tx, sent.Uploader = Ref(ref), strings.Trim(a.TransID, `"`), u.c.account
	sent.Seq, sent.ChangedSeq, sent.Time = Seq(a.Seq), Seq(a.Seq), parseTime(a.Time)
	if sent.Time.IsZero() {
		sent.Time = time.Now()
	}
	r := Receipt{Entry: sent}
	r.Attributes = nil // the hosted service records none
	if proves {
		if a.Record == nil || a.Record.Timestamp == nil || a.Seq != a.Record.Seq ||
			!parseTime(*a.Record.Timestamp).Equal(sent.Time) || sent.Tx != a.Record.TransID {
			return Receipt{}, call.Malformed(errors.New("its receipt is for another record"))
		}
		if a.Repeated {
			sent.Content = repeatedContent(sent, a.Record)
		}
		if r.Entry, err = u.c.receipts.ofUpload(ctx, sent, after, a); err != nil {
			return Receipt{}, err
		}
	}
	if a.Fee != "" {
		if r.Fee, err = wire.ParseAmount(a.Fee); err != nil {
			return Receipt{}, call.Malformed(err)
		}
	}
	u.changed(sent.Group, sent.Name)
	return r, nil
}
