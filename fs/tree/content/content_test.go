package content

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
)

// A step is taken without a mistake exactly when the table has it.
func TestStepsAreThoseOfTheTable(t *testing.T) {
	for from := Committed; from <= Sending; from++ {
		for to := Committed; to <= Sending; to++ {
			var m Machine
			m.now.Store(uint32(from))
			if err := m.Move(to); (err == nil) != from.leadsTo(to) || !m.Is(to) || m.IsStaged() != (to != Committed) {
				t.Errorf("from %s to %s: %v", from, to, err)
			}
		}
	}
}

const blockBytes = 4

// service is where the content of a version comes from; it counts what is asked.
type service struct {
	data       []byte
	blockBytes int64
	opens      int
	closed     bool
	wrong      error // of Check
	failed     []error
	short      bool  // blocks come without their last byte
	bytes      int64 // it occupies
}

func (s *service) Layout() format.Layout {
	return format.Layout{Size: int64(len(s.data)), BlockBytes: s.blockBytes}
}
func (s *service) Fee() sdk.Amount  { return sdk.Amount{} }
func (s *service) Footprint() int64 { return s.bytes }
func (s *service) Close() error     { s.closed = true; return nil }
func (s *service) Read(_ context.Context, first int64, into []*mem.Buffer) error {
	for n, buf := range into {
		i := first + int64(n)
		plain := s.data[i*s.blockBytes:][:s.Layout().Plain(i)]
		if s.short {
			plain = plain[1:]
		}
		if err := buf.Resize(int64(len(plain))); err != nil {
			return err
		}
		copy(buf.Bytes(), plain)
	}
	return nil
}
func (s *service) Open(context.Context, ...int64) (Blocks, error) { s.opens++; return s, nil }
func (s *service) Check() error                                   { return s.wrong }
func (s *service) Failed(err error)                               { s.failed = append(s.failed, err) }
func (s *service) Explain(_ context.Context, err error) error     { return err }

func newStore(t *testing.T, stagingBytes int64) *Store {
	t.Helper()
	s := NewStore(Options{CacheBytes: 1 << 20, Reopen: -1, Guard: func(work func() error) error { return work() },
		Staging: staging.Options{Pool: mem.NewPool(), Bytes: stagingBytes, WholeBytes: 8, BlockBytes: blockBytes}})
	t.Cleanup(s.Cache.Close)
	return s
}

// version returns a version, in blocks or whole, and where it comes from.
func version(data string, cut bool) (*sdk.Entry, *service) {
	e := &sdk.Entry{Group: "g", Ref: "r1", Size: int64(len(data))}
	if cut {
		e.Content = sdk.ComputeHash([]byte(data))
	}
	return e, &service{data: []byte(data), blockBytes: blockBytes}
}

func hold(t *testing.T, s *Store, e *sdk.Entry, known *Known, from *service) *Recorded {
	t.Helper()
	lease, err := s.Cache.Get(t.Context(), KeyOf(e), func(ctx context.Context, _ *cache.Room) (cache.Buffer, error) {
		if IsCut(e) {
			return s.Open(ctx, e, known, from)
		}
		buf, err := s.Pool.Get(int64(len(from.data)))
		if err == nil {
			copy(buf.Bytes(), from.data)
		}
		return buf, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.Hold(lease, known)
}

func wantBytes(t *testing.T, r *Recorded, want string) {
	t.Helper()
	got := make([]byte, len(want)+1)
	if n, err := r.ReadAt(t.Context(), nil, got, 0); err != nil || string(got[:n]) != want {
		t.Errorf("got %q, %v; want %q", got[:n], err, want)
	}
}

// change writes as a program does.
func change(t *testing.T, st *Stage, text string, off int64) error {
	t.Helper()
	for compare := true; ; compare = false {
		need := st.Needs(off, int64(len(text)), compare)
		if len(need) == 0 {
			return st.WriteAt([]byte(text), off)
		}
		under := st.Under().Again()
		if err := st.Fetch(t.Context(), under, need); err != nil {
			t.Fatal(err)
		}
		under.Release()
	}
}

// Recorded content reads the same, is changed and is recorded in turn, in blocks and whole.
func TestContentOfEachFormat(t *testing.T) {
	for name, cut := range map[string]bool{"whole": false, "in blocks": true} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, 1<<20)
			var known Known
			e, from := version("0123456789", cut)
			r := hold(t, s, e, &known, from)
			defer r.Release()
			if r.IsCut() != cut || r.Layout().Size != 10 || !r.IsReadable() {
				t.Errorf("cut %v, layout %+v, readable %v", r.IsCut(), r.Layout(), r.IsReadable())
			}
			wantBytes(t, r, "0123456789")
			if !known.IsCached(s, e) {
				t.Error("what was read is not in memory")
			}
			st, err := s.StageOn(r)
			if err != nil {
				t.Fatal(err)
			}
			if st.Replaces() || st.Differs() != !cut {
				t.Errorf("replaces %v, differs %v", st.Replaces(), st.Differs())
			}
			if err := change(t, st, "abc", 3); err != nil || !st.Replaces() {
				t.Errorf("replaces %v, %v", st.Replaces(), err)
			}
			got := make([]byte, 20)
			if n, err := st.ReadOver(t.Context(), st.Under(), nil, got, 0); err != nil || string(got[:n]) != "012abc6789" {
				t.Errorf("the stage has %q, %v", got[:n], err)
			}
			next, _ := version("012abc6789", true)
			next.Ref = "r2"
			saved := st.Settle(next, &known, nil, func() (Origin, Blocks) { return &service{data: []byte("012abc6789"), blockBytes: blockBytes}, nil })
			st.TakeUnder().Release()
			st.Release()
			wantBytes(t, saved, "012abc6789")
			saved.Close()
			wantBytes(t, r, "0123456789")
		})
	}
}

// All who have content in blocks open share one claim; with each block in memory there is none.
func TestOneClaim(t *testing.T) {
	s := newStore(t, 0)
	var known Known
	e, from := version("0123456789", true)
	for range 3 {
		r := hold(t, s, e, &known, from)
		again := r.Again()
		wantBytes(t, again, "0123456789")
		again.Release()
		r.Close()
	}
	if from.opens != 1 {
		t.Errorf("%d claims", from.opens)
	}
}

// The service may cut a file in another way than the client that saved it: it is opened anew, so.
func TestCutInAnotherWay(t *testing.T) {
	s := newStore(t, 1<<20)
	var known Known
	e, from := version("0123456789", true)
	from.blockBytes = 5
	st, err := s.NewStage(false, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.WriteAt(from.data, 0); err != nil {
		t.Fatal(err)
	}
	r := st.Settle(e, &known, nil, func() (Origin, Blocks) { return from, nil })
	st.Release()
	defer r.Release()
	wantBytes(t, r, "0123456789")
	for i := range int64(3) {
		s.Cache.Drop(KeyOf(e).BlockOf(i, blockBytes))
	}
	wantBytes(t, r, "0123456789")
	if _, l := r.Latest(); l.BlockBytes != 5 || from.opens != 1 {
		t.Errorf("blocks of %d bytes after %d claims", l.BlockBytes, from.opens)
	}
}

// nothing is a buffer of no bytes.
type nothing struct{}

func (nothing) Bytes() []byte    { return nil }
func (nothing) Footprint() int64 { return 0 }
func (nothing) Release()         {}

// To hold content in blocks takes the same memory whatever else is cached.
func TestHoldBesideManyOthers(t *testing.T) {
	s := newStore(t, 0)
	for i := range int64(10_000) {
		s.Cache.Add(cache.Key{Group: "g"}.BlockOf(i, blockBytes), nothing{}).Release()
	}
	e, from := version("0123456789", true)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := hold(t, s, e, new(Known), from)
	runtime.ReadMemStats(&after)
	r.Release()
	if used := after.TotalAlloc - before.TotalAlloc; used > 100_000 {
		t.Errorf("it took %d bytes", used)
	}
}

// A request of an open file that ended says so, and not that the caller gave up: the reader goes on with the next.
func TestFetchOfEndedSource(t *testing.T) {
	s := newStore(t, 0)
	e, from := version("0123456789", true)
	buf, err := s.Open(t.Context(), e, new(Known), from)
	if err != nil {
		t.Fatal(err)
	}
	src := buf.(*Source)
	src.opening <- struct{}{} // another request opens the file
	src.Release()
	if _, err := src.Fetch(t.Context(), 0, 1); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
}

// Content that is taken away, wrong or too short shows no byte.
func TestErrorsOfRecordedContent(t *testing.T) {
	for name, cut := range map[string]bool{"whole": false, "in blocks": true} {
		t.Run("taken, "+name, func(t *testing.T) {
			s := newStore(t, 1<<20)
			e, from := version("0123456789", cut)
			r := hold(t, s, e, new(Known), from)
			defer r.Release()
			s.Cache.Purge(func(k cache.Key) bool { return k.IsOf(KeyOf(e)) })
			_, err := r.ReadAt(t.Context(), nil, make([]byte, 1), 0)
			if _, staged := s.StageOn(r); !errors.Is(err, ErrTaken) || !errors.Is(staged, ErrTaken) || r.IsReadable() {
				t.Errorf("read: %v, staged: %v", err, staged)
			}
		})
	}
	t.Run("wrong", func(t *testing.T) {
		s := newStore(t, 0)
		e, from := version("0123456789", true)
		from.wrong = errors.New("it was wrong before")
		if _, err := s.Open(t.Context(), e, new(Known), from); !errors.Is(err, from.wrong) || from.opens != 0 {
			t.Errorf("%v after %d claims", err, from.opens)
		}
	})
	t.Run("short", func(t *testing.T) {
		s := newStore(t, 0)
		e, from := version("0123456789", true)
		from.short = true
		r := hold(t, s, e, new(Known), from)
		defer r.Release()
		var damaged *Damaged
		if _, err := r.ReadAt(t.Context(), nil, make([]byte, 1), 0); !errors.As(err, &damaged) {
			t.Error(err)
		}
	})
}

// A change for which there is no room leaves the content as it was (W12).
func TestNoRoom(t *testing.T) {
	s := newStore(t, 8)
	st, err := s.NewStage(false, true)
	if err != nil || !st.Replaces() {
		t.Fatal(st, err)
	}
	defer st.Release()
	if err := st.WriteAt([]byte("abc"), 0); err != nil {
		t.Fatal(err)
	}
	var room *NoRoom
	var full *staging.Full
	if err := st.WriteAt(bytes.Repeat([]byte("x"), 1<<20), 0); !errors.As(err, &room) || !errors.As(err, &full) {
		t.Errorf("write: %v", err)
	}
	if st.Len() != 3 {
		t.Errorf("%d bytes", st.Len())
	}
}

// Content in blocks stays open for a while after programs closed it, a few files at a time.
func TestClosedContentStaysOpen(t *testing.T) {
	s := newStore(t, 0)
	s.opt.Reopen = 1 << 62
	var all []*service
	for i := range MostReopened + 1 {
		e, from := version("0123456789", true)
		e.Ref = sdk.Ref(rune('a' + i))
		hold(t, s, e, new(Known), from).Close()
		all = append(all, from)
	}
	for i, from := range all {
		if from.closed != (i == 0) {
			t.Errorf("closed: %v, of file %d", from.closed, i)
		}
	}
}

// A file in many parts counts as what its list occupies, and few such files stay open after programs closed them.
func TestListsOfPartsCount(t *testing.T) {
	s := newStore(t, 0)
	s.opt.Reopen = 1 << 62
	const each = MostReopenedBytes / 2
	var all []*service
	for i := range 4 {
		e, from := version("0123456789", true)
		e.Ref, from.bytes = sdk.Ref(rune('a'+i)), each
		held := hold(t, s, e, new(Known), from)
		if got := s.Cache.Stats().Bytes; got < each {
			t.Errorf("%d bytes count", got)
		}
		held.Close()
		all = append(all, from)
	}
	for i, from := range all {
		if from.closed != (i < 3) {
			t.Errorf("closed: %v, of file %d", from.closed, i)
		}
	}
}
