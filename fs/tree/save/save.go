package save

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Options are what all saves share.
type Options struct {
	Remote Remote
	Outbox Outbox // nil = a save waits for its record
	Budget *policy.Budget
	Pool   *mem.Pool
	Ours   bool // the service compares which version a save replaces
	// Claim opens a recorded version, which costs one claim.
	Claim func(ctx context.Context, from outbox.From) (Opened, error)
	// Guard does work while nobody may wait for it: a panic becomes an error.
	Guard func(work func() error) error
	// IsAway reports whether the service did not answer, and GoesOn whether another attempt goes on with what was sent.
	IsAway, GoesOn func(err error) bool
}

// Remote records content in one piece.
type Remote interface {
	Account() sdk.AccountID
	// Upload records one file. Costs one upload; never twice for one content upon one version, until another has the
	// name.
	Upload(ctx context.Context, g sdk.GroupID, name string, b *mem.Buffer, o sdk.PutOptions) (sdk.Receipt, error)
}

// Saver has content recorded, or keeps it in the outbox until it is. It is safe for concurrent use.
type Saver struct {
	*Queue
	opt   Options
	parts *semaphore.Weighted // on their way, of all files
}

// New returns a Saver.
func New(o Options) *Saver {
	return &Saver{NewQueue(o.Outbox, o.Budget), o, semaphore.NewWeighted(partsAtATime)}
}

// Save is one save: content is to be the newest version of a name.
type Save struct {
	Names
	Group     sdk.GroupID
	Name      string
	Temporary bool // nothing is uploaded under the name: the outbox alone may have it
	Now       bool // it goes past the outbox while the service answers; nothing of its group may wait
	Compared  bool // it is recorded only where the service compares which version it replaces: else [ErrNotCompared]
	Old       bool // the version that it replaces is known to be an old one
}

// Names is what a save asks of the names of its group.
type Names interface {
	// Base returns the version that the save replaces, "" for none.
	Base() sdk.Ref
	// Attributes returns those that the record is to have.
	Attributes() sdk.Attributes
	// Aside returns the name for a save that others overtook, and the version that it replaces there. n counts from 0.
	// An error is that of the save.
	Aside(ctx context.Context, n int) (name string, base sdk.Ref, err error)
	// NoAnswer remembers content that may be recorded under a name. Its hash is zero where nobody knows it.
	NoAnswer(name string, hash sdk.Digest)
}

// Made is what became of a save: a record, or what stands for it ([Entry]).
type Made struct {
	sdk.Receipt
	As       string    // the name that it has
	Began    time.Time // when it was begun
	Compared bool      // the service knew which version it replaces
}

func (m *Made) setAttributes(a sdk.Attributes) {
	m.Attributes = nil // the hosted service records none
	if !a.IsZero() {
		m.Attributes = &a
	}
}

// ErrTooLarge is the error of a temporary file that the outbox does not take.
var ErrTooLarge = errors.New("it is too large for the outbox")

// ErrNotCompared is the error of a save that would replace what it does not know.
var ErrNotCompared = errors.New("the service does not compare versions of it")

// mostConflicts is how many names are tried for one save.
const mostConflicts = 20

// Whole saves content in one piece. Recorded, it costs one upload.
func (s *Saver) Whole(ctx context.Context, w Save, whole *mem.Buffer) (Made, error) {
	record := func() (Made, error) {
		return s.record(ctx, w, nil, func(name string, o sdk.PutOptions) (sdk.Receipt, error) {
			r, err := s.opt.Remote.Upload(ctx, w.Group, name, whole, o)
			if err != nil {
				w.note(name, whole.Hash(), err)
			}
			return r, err
		})
	}
	if w.Now {
		if m, err := record(); err == nil || w.Compared || !s.opt.IsAway(err) {
			return m, err
		}
	}
	switch {
	case s.Takes(whole.Len()):
		m, err := s.put(ctx, w, outbox.Save{Content: whole.Bytes()})
		return s.unlessFull(ctx, w, m, err, record)
	case w.Temporary && s.IsOn():
		return Made{}, ErrTooLarge
	}
	if err := s.Before(ctx, w.Group); err != nil {
		return Made{}, err
	}
	return record()
}

// Blocks saves content in blocks. Recorded, it costs one upload.
func (s *Saver) Blocks(ctx context.Context, w Save, b *Sender) (Made, error) {
	record := func() (Made, error) { return s.recordBlocks(ctx, w, b) }
	if b.last != (attempt{}) { // it was sent without the outbox, and may be recorded already
		if err := s.Before(ctx, w.Group); err != nil {
			return Made{}, err
		}
		return record()
	}
	if !s.IsOn() || w.Now {
		return record()
	}
	large := b.changed()
	m, err := s.put(ctx, w, outbox.Save{Large: large})
	if err != nil {
		if large.Release != nil {
			large.Release()
		}
		return s.unlessFull(ctx, w, m, err, record)
	}
	if opened, err := s.Open(&m.Entry, s.BaseOf(b.under.Again())); err == nil { // else who reads opens it
		b.opened = opened
	}
	return m, nil
}

// put puts a save into the outbox.
func (s *Saver) put(ctx context.Context, w Save, what outbox.Save) (m Made, err error) {
	base := w.Base()
	what.Group, what.Name, what.Base, what.Attributes = w.Group, w.Name, &base, w.Attributes()
	what.Temporary = w.Temporary
	item, err := s.Put(ctx, what)
	if err != nil {
		return m, err
	}
	m = Made{Receipt: sdk.Receipt{Entry: *Entry(item, s.opt.Remote.Account())}, As: w.Name}
	m.setAttributes(what.Attributes)
	return m, nil
}

// unlessFull is what became of a save that was put into the outbox. While that is full, it is recorded without, after
// what waits of the group.
func (s *Saver) unlessFull(ctx context.Context, w Save, m Made, put error, record func() (Made, error)) (Made, error) {
	if !errors.Is(put, outbox.ErrFull) || w.Temporary {
		return m, put
	}
	err := s.Before(ctx, w.Group)
	if err == nil {
		m, err = record()
	}
	if err != nil && (errors.Is(err, outbox.ErrAway) || s.opt.IsAway(err)) {
		err = fmt.Errorf("%w, and the service is away", put)
	}
	return m, err
}

// record makes a record of content with the attributes of the moment, and pays for it. do is told under which name and,
// where the service compares it, which version the save replaces: others may have saved the name meanwhile (W11). Under
// a name of its own the record says which version of the other it was made upon. It begins with an attempt that got no
// answer.
func (s *Saver) record(ctx context.Context, w Save, unsure *tried,
	do func(name string, o sdk.PutOptions) (sdk.Receipt, error)) (Made, error) {
	m, o := Made{As: w.Name, Began: s.opt.Budget.Now()}, sdk.PutOptions{Attributes: w.Attributes()}
	upon := w.Base()
	if s.opt.Ours {
		o.Base = &upon
	}
	upload := func() error {
		return s.opt.Budget.Spend("upload", func() (fee sdk.Amount, err error) {
			m.Receipt, err = do(m.As, o)
			return m.Fee, err
		})
	}
	var err error
	switch {
	case w.Compared && !s.opt.Ours:
		return m, ErrNotCompared
	case unsure != nil:
		m.As, o.Base, o.Upon = unsure.name, unsure.base, unsure.upon
		err = upload()
	case w.Old:
		err = &sdk.Error{Op: "upload", Group: w.Group, Kind: sdk.ErrConflict, Code: wire.CodeHead,
			Err: errors.New("the name has a newer version")}
	default:
		err = upload()
	}
	for n := 0; hasCode(err, wire.CodeHead) && n < mostConflicts; n++ {
		name, replaced, aside := w.Aside(ctx, n)
		if aside != nil {
			return m, aside
		}
		if name != w.Name && outbox.IDOf(upon) == "" {
			o.Upon = &upon
		} else if replaced != "" { // a save from here
			upon = replaced
		}
		m.As, o.Base = name, &replaced
		err = upload()
	}
	m.Compared = o.Base != nil
	m.setAttributes(o.Attributes)
	return m, err
}

// note remembers content that may be recorded under a name, and reports whether it may.
func (w Save) note(name string, hash sdk.Digest, err error) bool {
	e := (*sdk.Error)(nil)
	unsure := err != nil && (!errors.As(err, &e) || e.Unsure)
	if unsure {
		w.NoAnswer(name, hash)
	}
	return unsure
}

func hasCode(err error, code string) bool {
	var e *sdk.Error
	return errors.As(err, &e) && e.Code == code
}
