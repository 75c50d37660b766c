package sdk_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// small is the smallest block, in bytes.
const small = format.MinBlockBytes

// shelf is a service with a group, and one account in it.
type shelf struct {
	*testkit.Server
	alice testkit.Account
	c     *sdk.Client
	g     sdk.Group
}

func newShelf(t testing.TB, flavour testkit.Dialect, changes ...func(*sdk.Config)) *shelf {
	t.Helper()
	s := &shelf{Server: testkit.Start(t, flavour)}
	s.alice = s.Account("alice", "100")
	s.c = s.Client(t, s.alice, changes...)
	sdk.Far(s.c, false) // also on a busy machine
	s.g = s.c.Group("shelf")
	if _, err := s.g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// add records content in blocks of 64 KiB.
func (s *shelf) add(t testing.TB, content []byte) sdk.Entry {
	t.Helper()
	return s.entry(t, s.AddBlocks(s.alice, s.g.ID, "film", content, small))
}

func (s *shelf) entry(t testing.TB, ref sdk.Ref) sdk.Entry {
	t.Helper()
	list, err := s.g.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(e sdk.Entry) bool { return e.Ref == ref })
	if at < 0 {
		t.Fatal("the file is not listed")
	}
	return list[at]
}

func (s *shelf) openBlocks(t testing.TB, e sdk.Entry) *sdk.Blocks {
	t.Helper()
	b, err := s.g.OpenBlocks(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// text returns content that differs everywhere.
func text(size int64) []byte {
	content := make([]byte, size)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(content)
	return content
}

func buffers(t testing.TB, n int64) []*mem.Buffer {
	t.Helper()
	pool := mem.NewPool()
	list := make([]*mem.Buffer, n)
	for i := range list {
		b, err := pool.Get(0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Release)
		list[i] = b
	}
	return list
}

// buffersHold reports whether buffers hold a content, and together no more.
func buffersHold(list []*mem.Buffer, content []byte) bool {
	for _, b := range list {
		rest, is := bytes.CutPrefix(content, b.Bytes())
		if !is {
			return false
		}
		content = rest
	}
	return len(content) == 0
}

// Files of all shapes are read whole and in parts. An open costs one claim, and reads cost
// nothing; a read is one request, and a tile at most where the open did not bring it.
func TestBlocksAreRead(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1, small - 1, small, small + 1, 5*small + 17, 256 * small, 256*small + 1, 600*small + 3} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s := newShelf(t, testkit.Ours)
			content := text(size)
			e := s.add(t, content)
			before, err := s.c.Balance(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			b := s.openBlocks(t, e)
			n := b.Layout().Blocks()
			all := buffers(t, n)
			if err := b.Read(t.Context(), 0, all); err != nil || !buffersHold(all, content) {
				t.Fatalf("all: %v", err)
			}
			for range 5 {
				first := rand.Int64N(n)
				some := buffers(t, 1+rand.Int64N(min(n-first, 9)))
				want := content[first*small : min(size, (first+int64(len(some)))*small)]
				if err := b.Read(t.Context(), first, some); err != nil || !buffersHold(some, want) {
					t.Fatalf("%d blocks from %d on: %v", len(some), first, err)
				}
			}
			after, err := s.c.Balance(t.Context(), "")
			if paid, _ := before.Sub(after); err != nil || paid != b.Fee() || paid.IsZero() {
				t.Errorf("paid %v for an open of %v: %v", paid, b.Fee(), err)
			}
			if err := b.Read(t.Context(), n, buffers(t, 1)); sdk.KindOf(err) != sdk.ErrInvalid {
				t.Errorf("a block that is not there: %v", err)
			}
		})
	}
}

// The first byte takes two round trips: the open, and the block; a block in the middle of a
// large file one more at the same time, and its neighbours none.
func TestFirstByteTakesTwoRoundTrips(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	e := s.add(t, text(1000*small))
	var asked []string
	var mu sync.Mutex
	s.Disturb("/*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, strings.SplitAfterN(r.URL.Path, "/", 4)[2]+r.Header.Get("Range"))
			next.ServeHTTP(w, r)
		})
	})
	b := s.openBlocks(t, e)
	for _, step := range []struct {
		block int64
		want  []string
	}{
		{0, []string{"blocks/bytes=0-65563", "prepare_retrieve"}},
		{999, []string{"blocks/bytes=65498436-65563999"}},
		{300, []string{"blocks/bytes=19669200-19734763", "tiles/"}},
		{301, []string{"blocks/bytes=19734764-19800327"}},
		{299, []string{"blocks/bytes=19603636-19669199"}},
	} {
		if err := b.Read(t.Context(), step.block, buffers(t, 1)); err != nil {
			t.Fatal(err)
		}
		slices.Sort(asked)
		if !slices.Equal(asked, step.want) {
			t.Errorf("block %d: asked %q", step.block, asked)
		}
		asked = nil
	}
}

// From far away a reader that begins at the start waits for one round trip: the first blocks come with the key,
// once. Nearby, and without the option, nobody asks for them.
func TestR9FirstBlockComesWithTheKey(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	content := text(3*small + 7)
	e := s.add(t, content)
	var requests atomic.Int64
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			next.ServeHTTP(w, r)
		})
	})
	for _, tc := range []struct {
		far  bool
		opts []int64
		read int64
		want int64 // requests for blocks
	}{
		{true, []int64{1 << 20}, 1, 0}, {true, []int64{1 << 20}, 4, 0},
		{true, []int64{0}, 1, 0}, {true, []int64{-1}, 1, 0},
		{true, nil, 1, 1}, {false, []int64{1 << 20}, 1, 1},
	} {
		sdk.Far(s.c, tc.far)
		b, err := s.g.OpenBlocks(t.Context(), e, tc.opts...)
		if err != nil {
			t.Fatal(err)
		}
		requests.Store(0)
		all := buffers(t, tc.read)
		err = b.Read(t.Context(), 0, all)
		if err != nil || !buffersHold(all, content[:min(tc.read*small, e.Size)]) || requests.Load() != tc.want {
			t.Errorf("%+v: %d requests, %v", tc, requests.Load(), err)
		}
		if err := b.Read(t.Context(), 0, all[:1]); err != nil || requests.Load() != tc.want+1 {
			t.Errorf("%+v, again: %v", tc, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What comes behind the answer to an open is used as far as it is the file's: a service that breaks off is asked
// for the rest, and one that lies is found out.
func TestR9BlocksBehindTheAnswerAreProven(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	content := text(4*small + 7)
	e := s.add(t, content)
	sdk.Far(s.c, true)
	whole := int(small + format.Overhead)
	count := func(n string) func(head, blocks []byte) []byte {
		return func(head, blocks []byte) []byte {
			return append(append(bytes.Replace(head, []byte(`"first_blocks":5`), []byte(`"first_blocks":`+n), 1), '\n'), blocks...)
		}
	}
	var requests atomic.Int64
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			next.ServeHTTP(w, r)
		})
	})
	for name, tc := range map[string]struct {
		change   func(head, blocks []byte) []byte
		requests int64
		open     sdk.Kind // of the open
		read     sdk.Kind
	}{
		"as it is":              {count("5"), 0, 0, 0},
		"fewer":                 {count("3"), 1, 0, 0},
		"none":                  {count("0"), 1, 0, 0},
		"cut in the last block": {func(head, blocks []byte) []byte { return slices.Concat(head, []byte{'\n'}, blocks[:len(blocks)-1]) }, 1, 0, 0},
		"cut in a block":        {func(head, blocks []byte) []byte { return slices.Concat(head, []byte{'\n'}, blocks[:3*whole/2]) }, 1, 0, 0},
		"more bytes":            {func(head, blocks []byte) []byte { return slices.Concat(head, []byte{'\n'}, blocks, blocks) }, 0, 0, 0},
		"another order": {func(head, b []byte) []byte {
			return slices.Concat(head, []byte{'\n'}, b[whole:2*whole], b[:whole], b[2*whole:])
		}, 0, 0, sdk.ErrCorrupt},
		"too many blocks":  {count("6"), 0, sdk.ErrCorrupt, 0},
		"fewer than none":  {count("-1"), 0, sdk.ErrCorrupt, 0},
		"no end of a head": {func(head, _ []byte) []byte { return bytes.Repeat(head, 2<<20/len(head)) }, 0, sdk.ErrCorrupt, 0},
		"no JSON":          {func(_, blocks []byte) []byte { return append([]byte("{\n"), blocks...) }, 0, sdk.ErrCorrupt, 0},
	} {
		s.Disturb(wire.PathTools+wire.OpPrepareRetrieve, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				honest := httptest.NewRecorder()
				next.ServeHTTP(honest, r)
				head, blocks, _ := bytes.Cut(honest.Body.Bytes(), []byte{'\n'})
				w.Header().Set("Content-Type", honest.Header().Get("Content-Type"))
				_, _ = w.Write(tc.change(bytes.Clone(head), blocks))
			})
		})
		requests.Store(0)
		b, err := s.g.OpenBlocks(t.Context(), e, 1<<20)
		if err != nil || tc.open != 0 {
			if sdk.KindOf(err) != tc.open {
				t.Errorf("%s: open: %v", name, err)
			}
			continue
		}
		all := buffers(t, 5)
		err = b.Read(t.Context(), 0, all)
		if sdk.KindOf(err) != tc.read || err == nil && !buffersHold(all, content) || requests.Load() != tc.requests {
			t.Errorf("%s: %d requests, %v", name, requests.Load(), err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What does not come with the answer to an open is asked for while the blocks of the answer arrive.
func TestR9WhatIsBehindTheAnswerDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	content := text(8*small + 7)
	e := s.add(t, content)
	sdk.Far(s.c, true)
	asked := make(chan struct{})
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(asked) // once: twice panics
			next.ServeHTTP(w, r)
		})
	})
	s.Disturb(wire.PathTools+wire.OpPrepareRetrieve, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			honest := httptest.NewRecorder()
			next.ServeHTTP(honest, r)
			all := honest.Body.Bytes()
			w.Header().Set("Content-Type", honest.Header().Get("Content-Type"))
			_, _ = w.Write(all[:len(all)-1])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-asked:
			case <-r.Context().Done():
			}
			_, _ = w.Write(all[len(all)-1:])
		})
	})
	b, err := s.g.OpenBlocks(t.Context(), e, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := buffers(t, 9)
	if err := b.Read(ctx, 0, all); err != nil || !buffersHold(all, content) {
		t.Error(err)
	}
}

// A connection that breaks again and again costs the blocks that had not arrived, and no more.
func TestBrokenConnectionsFetchOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	content := text(40*small + 5)
	e := s.add(t, content)
	var requests, sent atomic.Int64
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cut := &cutWriter{ResponseWriter: w, left: rand.Int64N(6 * small), sent: &sent}
			requests.Add(1)
			next.ServeHTTP(cut, r)
		})
	})
	b := s.openBlocks(t, e)
	all := buffers(t, b.Layout().Blocks())
	for try := 0; ; try++ {
		err := b.Read(t.Context(), 0, all)
		if err == nil {
			break
		}
		if try > 10 || sdk.KindOf(err) != sdk.ErrUnavailable { // four cuts in one block may happen
			t.Fatal(err)
		}
	}
	if !buffersHold(all, content) {
		t.Error("other content")
	}
	if n := requests.Load(); n < 5 || sent.Load() > int64(len(content))+n*7*small {
		t.Errorf("%d bytes in %d requests", sent.Load(), n)
	}
}

// Transfers that stand still go on where they were while blocks arrive. Once none does they end, after one more try.
func TestReadsThatStandStill(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	content := text(40*small + 5)
	e := s.add(t, content)
	over := make(chan struct{})
	defer close(over)
	var requests atomic.Int64
	var moves atomic.Bool
	moves.Store(true)
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			left := int64(0)
			if moves.Load() {
				left = 15 * (small + format.Overhead)
			}
			requests.Add(1)
			next.ServeHTTP(&stuckWriter{w, left, over}, r)
		})
	})
	c := s.Client(t, s.alice, func(cfg *sdk.Config) { cfg.Timeout = time.Second })
	b, err := c.Group(e.Group).OpenBlocks(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	all := buffers(t, b.Layout().Blocks())
	if err := b.Read(t.Context(), 0, all); err != nil || !buffersHold(all, content) || requests.Load() != 3 {
		t.Errorf("%v, %d requests", err, requests.Load())
	}
	moves.Store(false)
	if err := b.Read(t.Context(), 0, all); sdk.KindOf(err) != sdk.ErrTimeout || requests.Load() != 5 {
		t.Errorf("nothing moves: %v, %d requests", err, requests.Load())
	}
}

// stuckWriter sends some bytes, and then nothing until it is over.
type stuckWriter struct {
	http.ResponseWriter
	left int64
	over chan struct{}
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	n, _ := w.ResponseWriter.Write(p[:min(int64(len(p)), w.left)])
	if w.left -= int64(n); w.left == 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		<-w.over
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// cutWriter breaks the connection after some bytes.
type cutWriter struct {
	http.ResponseWriter
	left int64
	sent *atomic.Int64
}

func (w *cutWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > w.left {
		n, _ := w.ResponseWriter.Write(p[:w.left])
		w.sent.Add(int64(n))
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	w.left -= int64(len(p))
	w.sent.Add(int64(len(p)))
	return w.ResponseWriter.Write(p)
}
