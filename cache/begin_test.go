package cache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// begun is one load of several keys that a test ends.
type begun struct {
	first, n int
	ctx      context.Context
	end      chan error
}

// begin begins to load blocks from one on, of 10 bytes each.
func begin(t *testing.T, s *Store, from, to int64, loads *[]*begun) (upTo int, l *Loading) {
	t.Helper()
	var keys []Key
	for i := from; i < to; i++ {
		keys = append(keys, key("f").BlockOf(i, 64<<10))
	}
	upTo, l = s.Begin(t.Context(), keys, 10, func(ctx context.Context, first, n int) ([]Buffer, error) {
		b := &begun{first, n, ctx, make(chan error)}
		*loads = append(*loads, b)
		if err := <-b.end; err != nil {
			return nil, err
		}
		bufs := make([]Buffer, n)
		for i := range bufs {
			bufs[i] = content("0123456789")
		}
		return bufs, nil
	})
	synctest.Wait()
	return upTo, l
}

func TestBlocksAreLoadedTogetherAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100)
		defer s.Close()
		var loads []*begun
		if n, l := begin(t, s, 4, 6, &loads); n != 2 || l == nil {
			t.Fatalf("began %d", n)
		}
		if n, _ := begin(t, s, 0, 10, &loads); n != 4 { // 4 is on its way
			t.Fatalf("began %d, want 4", n)
		}
		if n, l := begin(t, s, 5, 6, &loads); n != 1 || l != nil {
			t.Errorf("%d, %v: what is on its way is begun again", n, l)
		}
		if n, _ := begin(t, s, 5, 20, &loads); n != 5 || loads[2].first != 1 || loads[2].n != 4 { // room for four
			t.Errorf("began %d, load of %d from %d", n, loads[2].n, loads[2].first)
		}
		var lease *Lease
		go func() { lease, _ = s.Get(t.Context(), key("f").BlockOf(5, 64<<10), nil) }()
		synctest.Wait()
		for _, b := range loads {
			b.end <- nil
		}
		synctest.Wait()
		if st := s.Stats(); st.Entries != 10 || st.Bytes != 100 {
			t.Errorf("%+v", st)
		}
		if got, err := text(lease); got != "0123456789" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		s.Drop(key("f").BlockOf(5, 64<<10))
		s.Drop(key("f").BlockOf(6, 64<<10))
		if got, err := text(lease); got != "0123456789" || err != nil || s.Contains(key("f").BlockOf(6, 64<<10)) {
			t.Errorf("%q, %v; dropped what is leased, or kept what is not", got, err)
		}
		lease.Release()
		if s.Contains(key("f").BlockOf(5, 64<<10)) {
			t.Error("what was dropped stays")
		}
		s.wantSettled(t)
		if n := s.Purge(func(k Key) bool { return k.IsOf(key("f")) }); n != 8 {
			t.Errorf("purged %d blocks, want 8", n)
		}
	})
}

func TestBlocksThatNobodyWantsAreNotLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100)
		defer s.Close()
		var loads []*begun
		_, alone := begin(t, s, 0, 2, &loads)
		_, joined := begin(t, s, 2, 4, &loads)
		_, purged := begin(t, s, 4, 6, &loads)
		_, fails := begin(t, s, 6, 8, &loads)
		wait := func(i int64) *opening {
			o := &opening{}
			go func() { o.lease, o.err = s.Get(t.Context(), key("f").BlockOf(i, 64<<10), nil); o.done = true }()
			synctest.Wait()
			return o
		}
		got := []*opening{wait(3), wait(4), wait(6), wait(7)}
		alone.GiveUp()
		joined.GiveUp()
		s.Purge(func(k Key) bool { return k == key("f").BlockOf(5, 64<<10) })
		for i, cancelled := range []bool{true, false, true, false} {
			if (loads[i].ctx.Err() != nil) != cancelled {
				t.Errorf("load %d: cancelled is not %v", i, cancelled)
			}
		}
		broken := errors.New("broken")
		for i, err := range []error{context.Canceled, nil, nil, broken} {
			loads[i].end <- err
		}
		synctest.Wait()
		wantOpen(t, "oEEE", got...)
		if !errors.Is(got[1].err, ErrPurged) || !errors.Is(got[2].err, broken) {
			t.Error(got[1].err, got[2].err)
		}
		if !fails.IsDone() || !purged.IsDone() {
			t.Error("loads that ended are not done")
		}
		purged.GiveUp()
		fails.GiveUp()
		got[0].lease.Release()
		s.wantSettled(t)
		if n := s.Stats().Entries; n != 2 {
			t.Errorf("%d entries, want the two that were waited for and given up", n)
		}
	})
}
