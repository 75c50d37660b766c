package sdk

import (
	"context"
	"errors"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Pending is what is delayed in a group: destruction, and an offer to another owner.
type Pending struct {
	RetentionDays int64     // delayed retention window, in days
	RetentionAt   time.Time // when that window begins; zero = no window is delayed
	Files         int64     // delayed deletions of files
	FilesAt       time.Time // when the first of them happens; zero = none is delayed

	VersionsKeep wire.Keep // delayed setting, see [Settings.SetVersions]
	VersionsAt   time.Time // when that setting begins; zero = none is delayed
	Versions     int64     // older versions that go within the delay, by the present setting

	GroupAt    time.Time // when the group ends, see [Group.DeleteGroup]; zero = it stays
	OfferedTo  AccountID // the member that the group is offered to, see [Group.Offer]; "" = nobody
	OfferFrom  time.Time // from when on the member may accept
	OfferUntil time.Time // and until when
}

// Pending returns what is delayed. A service delays a change that would
// destroy many files by a time that its operator sets; [Settings.Keep] cancels that. Free.
// Members only; it needs the API key. Errors: [ErrUnsupported] at a service without delays,
// [ErrNotFound], [ErrNotAuthorized]. Only svcd has it.
func (s Settings) Pending(ctx context.Context) (Pending, error) {
	var told wire.PendingResult
	if err := s.g.c.read(ctx, wire.OpGetPending, s.g.request(), &told); err != nil {
		return Pending{}, s.g.wrap("ask what waits", err)
	}
	p := Pending{Files: told.Files, FilesAt: parseTime(told.FilesAt), GroupAt: parseTime(told.GroupAt)}
	if err := p.offer(told); err != nil {
		return Pending{}, s.g.wrap("ask what waits", err)
	}
	if told.RetentionDays != nil {
		p.RetentionDays, p.RetentionAt = *told.RetentionDays, parseTime(told.RetentionAt)
	}
	if told.VersionsKeep != "" {
		next, err := settingsOf(told.VersionsKeep, told.VersionsKeep, told.VersionsAt)
		if err != nil {
			return Pending{}, s.g.wrap("ask what waits", err)
		}
		p.VersionsKeep, p.VersionsAt = next.Next, next.NextAt
	}
	p.Versions = max(told.Versions, 0)
	return p, nil
}

// Keep cancels all delayed destruction, see [Settings.Pending], also that of the group, and makes a group that takes
// older versions away keep all versions, see [Settings.SetVersions]. It is free unless the operator
// set a price. Only the owner may call it; it needs the API key. Errors: [ErrUnsupported]
// at a service without delays, [ErrNotFound], [ErrNotAuthorized]. Only svcd has it.
func (s Settings) Keep(ctx context.Context) (Change, error) {
	done, err := s.g.change(ctx, wire.OpKeepFiles, s.g.request(), "Kept the files of group "+s.g.quoted())
	return done, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, s.g.wrap("keep files", err))
}

// offer fills in what a service tells of an offer.
func (p *Pending) offer(told wire.PendingResult) error {
	if told.OfferedTo == "" {
		return nil
	}
	p.OfferedTo = AccountID(told.OfferedTo)
	p.OfferFrom, p.OfferUntil = parseTime(told.OfferFrom), parseTime(told.OfferUntil)
	if p.OfferFrom.IsZero() || p.OfferUntil.IsZero() {
		return call.Malformed(errors.New("an offer without times"))
	}
	return nil
}
