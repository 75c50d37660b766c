package blocks_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/blocks"
	"github.com/svcfs/svcfs/sdk/mem"
)

const blockBytes = 1 << 10

var errAway = errors.New("away")

// shelf is a source that counts what is fetched.
type shelf struct {
	pool    *mem.Pool
	content []byte

	mu       sync.Mutex
	fetched  map[int64]int
	requests int
	flying   int
	most     int
	fail     error
	stall    chan struct{} // nil = nothing waits
}

func newShelf(t *testing.T, blocks int) *shelf {
	t.Helper()
	content := make([]byte, blocks*blockBytes-7)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(content)
	return &shelf{pool: mem.NewPool(), content: content, fetched: map[int64]int{}}
}

func (s *shelf) Layout() format.Layout {
	return format.Layout{Size: int64(len(s.content)), BlockBytes: blockBytes}
}

func (s *shelf) Fetch(ctx context.Context, first int64, count int) ([]cache.Buffer, error) {
	s.mu.Lock()
	s.requests++
	s.flying++
	s.most = max(s.most, s.flying)
	fail, stall := s.fail, s.stall
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flying--
	}()
	if stall != nil {
		select {
		case <-stall:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fail != nil {
		return nil, fail
	}
	var got []cache.Buffer
	for i := first; i < first+int64(count); i++ {
		buf, err := s.pool.Get(s.Layout().Plain(i))
		if err != nil {
			return nil, err
		}
		copy(buf.Bytes(), s.content[i*blockBytes:])
		got = append(got, buf)
		s.mu.Lock()
		s.fetched[i]++
		s.mu.Unlock()
	}
	return got, nil
}

func (s *shelf) open(t *testing.T, memory int64) *blocks.File {
	t.Helper()
	m := &blocks.Memory{Store: cache.New(memory), Ahead: memory / 4}
	t.Cleanup(m.Store.Close)
	return &blocks.File{Memory: m, Key: cache.Key{Group: "g", Ref: "r"}, Source: s}
}

func (s *shelf) wants(t *testing.T, f *blocks.File, r *blocks.Reader, off, n int64) {
	t.Helper()
	v, err := f.View(t.Context(), r, make([]byte, n), off)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Done()
	want := s.content[min(off, int64(len(s.content))):min(off+n, int64(len(s.content)))]
	if !bytes.Equal(v.Bytes, want) {
		t.Fatalf("%d bytes at %d are others", n, off)
	}
}

// Reads at random places, within a block and across blocks, give the content, also beside each other.
func TestRandomReads(t *testing.T) {
	t.Parallel()
	s := newShelf(t, 50)
	f := s.open(t, 20*mem.FootprintOf(blockBytes))
	var readers sync.WaitGroup
	for seed := range uint64(4) {
		readers.Go(func() {
			r := &blocks.Reader{}
			defer r.Leave()
			random := rand.New(rand.NewPCG(seed, 7))
			for range 300 {
				s.wants(t, f, r, random.Int64N(51*blockBytes), random.Int64N(4*blockBytes))
			}
		})
	}
	readers.Wait()
	if n := f.Memory.AheadNow(); n != 0 {
		t.Errorf("%d bytes count as ahead of readers that left", n)
	}
}

// A reader in order fetches each block once, with at most some requests at a time; one that was said to read all asks for
// what is ahead from its first read on.
func TestReadingInOrder(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		s := newShelf(t, 200)
		f := s.open(t, 1<<30)
		r := &blocks.Reader{Whole: whole}
		for off := int64(0); off < int64(len(s.content)); off += blockBytes / 2 {
			s.wants(t, f, r, off, blockBytes/2)
		}
		r.Leave()
		for i := range int64(200) {
			if s.fetched[i] != 1 {
				t.Errorf("block %d was fetched %d times", i, s.fetched[i])
			}
		}
		if s.requests > 60 || s.most > blocks.AheadRequests+1 {
			t.Errorf("%d requests, %d at a time", s.requests, s.most)
		}
	}
}

// A failed fetch is the error of who asked for the block; what was begun for later and fails is fetched again.
func TestFailedFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, 50)
		f := s.open(t, 1<<30)
		s.fail = errAway
		if _, err := f.Lend(t.Context(), nil, 0, 10); !errors.Is(err, errAway) {
			t.Errorf("a read of a source that is away: %v", err)
		}
		s.fail = nil
		r := &blocks.Reader{}
		defer r.Leave()
		s.wants(t, f, r, 0, blockBytes/2)
		s.mu.Lock()
		s.fail, s.stall = errAway, make(chan struct{})
		s.mu.Unlock()
		s.wants(t, f, r, blockBytes/2, blockBytes/2) // begins to fetch ahead
		synctest.Wait()
		s.mu.Lock()
		s.fail = nil
		close(s.stall)
		s.stall = nil
		s.mu.Unlock()
		s.wants(t, f, r, blockBytes, 10)
	})
}

// Who gives up leaves; the block comes for others.
func TestCancelledRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t, 5)
		f := s.open(t, 1<<30)
		s.stall = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := f.Lend(ctx, nil, 0, 10); !errors.Is(err, context.Canceled) {
				t.Errorf("a read that was given up: %v", err)
			}
		})
		both.Go(func() { s.wants(t, f, nil, 0, 10) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(s.stall)
		both.Wait()
		if s.requests != 1 {
			t.Errorf("%d requests for one block", s.requests)
		}
	})
}

// Reads outside the file are empty.
func TestReadsOutsideTheFile(t *testing.T) {
	t.Parallel()
	s := newShelf(t, 2)
	f := s.open(t, 1<<20)
	for _, off := range []int64{-1, int64(len(s.content)), 1 << 40} {
		if v, err := f.View(t.Context(), nil, make([]byte, 10), off); err != nil || len(v.Bytes) != 0 {
			t.Errorf("at %d: %d bytes, %v", off, len(v.Bytes), err)
		}
		if v, err := f.Lend(t.Context(), nil, off, 10); err != nil || len(v.Bytes) != 0 {
			t.Errorf("at %d: %d bytes are lent, %v", off, len(v.Bytes), err)
		}
	}
	if s.requests != 0 {
		t.Errorf("%d requests", s.requests)
	}
}
