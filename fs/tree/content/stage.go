package content

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/blocks"
	"github.com/svcfs/svcfs/sdk/mem"
)

// Stage is the copy of a content that programs change. Its bytes are safe for concurrent use; the rest is guarded by
// the lock of the file.
type Stage struct {
	*staging.Content
	store    *Store
	under    *Recorded // that the content in blocks stands on; nil = none
	kept     int64     // length of the recorded content
	replaces bool
}

// NewStage returns an empty stage. replaces means that there is recorded content which is gone from it. Where uncut,
// it never is in blocks.
func (s *Store) NewStage(uncut, replaces bool) (*Stage, error) {
	make := s.Staging.New
	if uncut {
		make = s.Staging.NewWhole
	}
	c, err := make()
	if err != nil {
		return nil, noRoom(err)
	}
	return &Stage{Content: c, store: s, replaces: replaces}, nil
}

// StageOn returns a stage that equals recorded content: of format version 2 it fetches nothing, else it copies all.
func (s *Store) StageOn(r *Recorded) (*Stage, error) {
	if r.source != nil {
		under := r.Again()
		if under == nil {
			return nil, ErrTaken
		}
		l := under.Layout()
		return &Stage{Content: s.Staging.NewOn(l), store: s, under: under, kept: l.Size}, nil
	}
	st, err := s.NewStage(false, false)
	if err != nil {
		return nil, err
	}
	st.kept = r.Layout().Size
	if err := st.copyFrom(r); err != nil {
		st.Release()
		return nil, err
	}
	return st, nil
}

// copyStep is how much is copied at a time, in bytes.
const copyStep = 1 << 20

// copyFrom copies content that is whole into the empty stage.
func (s *Stage) copyFrom(r *Recorded) error {
	if err := s.Content.Resize(s.kept); err != nil {
		return noRoom(err)
	}
	if whole := s.Whole(); whole != nil {
		if _, err := r.lease.ReadAt(whole.Bytes(), 0); err != nil {
			return ErrTaken
		}
		return nil
	}
	step, err := s.store.Pool.Get(copyStep)
	if err != nil {
		return noRoom(err)
	}
	defer step.Release()
	for off := int64(0); off < s.kept; off += copyStep {
		n, err := r.lease.ReadAt(step.Bytes(), off)
		if err != nil {
			return ErrTaken
		}
		if err := s.Content.WriteAt(step.Bytes()[:n], off); err != nil {
			return noRoom(err)
		}
	}
	return nil
}

// Replaces reports whether recorded content was overwritten, or cut off.
func (s *Stage) Replaces() bool { return s.replaces }

// Under returns the recorded content in blocks that the stage stands on, which stays the stage's; nil = none.
func (s *Stage) Under() *Recorded { return s.under }

// TakeUnder is Under for the end of the stage: the caller releases it.
func (s *Stage) TakeUnder() *Recorded {
	under := s.under
	s.under = nil
	return under
}

// Needs returns the blocks that must be here before n bytes from off on are written, or with n = 0 before the length
// becomes off. With compare it adds those that are replaced as a whole, where they are in memory and need not be
// fetched: they tell whether the bytes are those that were recorded (W3).
func (s *Stage) Needs(off, n int64, compare bool) []int64 {
	missing := s.Missing(off, n)
	if !compare || s.under == nil {
		return missing
	}
	key, bytes := s.under.source.key, s.Layout().BlockBytes
	for _, i := range s.Replaced(off, n) {
		if !slices.Contains(missing, i) && s.store.Cache.Contains(key.BlockOf(i, bytes)) {
			missing = append(missing, i)
		}
	}
	return missing
}

// Fetch fetches blocks that a change needs, from what the stage stands on; under is held by the caller. No lock may
// be held.
func (s *Stage) Fetch(ctx context.Context, under *Recorded, list []int64) error {
	layout := under.Layout()
	buf, err := s.store.Pool.Get(layout.BlockBytes)
	if err != nil {
		return noRoom(err)
	}
	defer buf.Release()
	for _, i := range list {
		plain := buf.Bytes()[:layout.Plain(i)]
		if n, err := under.ReadAt(ctx, nil, plain, i*layout.BlockBytes); err != nil || n < len(plain) {
			return cmp.Or(err, ErrTaken)
		}
		if err := noRoom(s.Fetched(i, plain)); err != nil {
			return err
		}
	}
	return nil
}

// WriteAt writes all of p, or on error nothing. [Stage.Needs] must have returned none.
func (s *Stage) WriteAt(p []byte, off int64) error {
	if err := s.Content.WriteAt(p, off); err != nil {
		return noRoom(err)
	}
	s.replaces = s.replaces || off < s.kept
	return nil
}

// Resize sets the length, or on error changes nothing. [Stage.Needs] must have returned none.
func (s *Stage) Resize(size int64) error {
	if err := s.Content.Resize(size); err != nil {
		return noRoom(err)
	}
	s.replaces = s.replaces || size < s.kept
	return nil
}

// ReadOver reads into p what the stage has from off on, and the rest from what it stands on, which the caller holds;
// under may be nil. n < len(p) only at the end of the content. It waits for blocks that are not in memory: no lock
// may be held. rd is that of [Recorded.View]. [ErrEnded]: the stage was released.
func (s *Stage) ReadOver(ctx context.Context, under *Recorded, rd *blocks.Reader, p []byte, off int64) (n int,
	err error) {
	n, rest, err := s.ReadAt(p, off)
	if errors.Is(err, staging.ErrReleased) {
		return 0, ErrEnded
	}
	if err != nil {
		return 0, err
	}
	for _, part := range rest {
		if under == nil {
			return 0, ErrTaken
		}
		got, err := under.ReadAt(ctx, rd, p[part.From:part.To], off+part.From)
		if err != nil || int64(got) < part.To-part.From {
			return 0, cmp.Or(err, ErrTaken)
		}
	}
	return n, nil
}

// Settle turns the stage into the recorded content of e, and keeps in memory what is there of it (R3). whole is the
// content where it was joined to one piece; it takes it over. The result is held; nil if the content is in blocks, and
// open is nil. Then the caller ends what the stage stands on, and releases the stage.
func (s *Stage) Settle(e *sdk.Entry, known *Known, whole *mem.Buffer, open func() (Origin, Blocks)) *Recorded {
	if whole == nil {
		whole = s.TakeWhole()
	}
	key, layout, cached := KeyOf(e), s.Layout(), s.store.Cache
	if whole != nil {
		return s.store.Hold(cached.Add(key, whole), known)
	}
	s.takeOver(e)
	s.GiveBlocks(func(i int64, buf *mem.Buffer) { cached.Add(key.BlockOf(i, layout.BlockBytes), buf).Release() })
	known.shape.Store(&shape{key: key, layout: layout})
	if open == nil {
		return nil
	}
	origin, blocks := open()
	source := s.store.newSource(e, known, origin, known.shape.Load())
	source.blocks = blocks
	return s.store.Hold(cached.Add(key, source), known)
}

// takeOver keeps in memory what is there of the blocks that e took over from the version before.
func (s *Stage) takeOver(e *sdk.Entry) {
	if s.under == nil {
		return
	}
	from, to, bytes := s.under.source.key, KeyOf(e), s.Layout().BlockBytes
	for i := range s.Layout().Blocks() {
		if s.IsBased(i) {
			s.store.Cache.Move(from.BlockOf(i, bytes), to.BlockOf(i, bytes))
		}
	}
}
