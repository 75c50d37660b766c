package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

func (s *shelf) open(t testing.TB, e sdk.Entry, opts ...func(done, total int64)) *sdk.File {
	t.Helper()
	f, err := s.g.OpenEntry(t.Context(), e, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A file of format version 2 is a file like any other.
func TestBlockFileIsAFile(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	content := text(9*small + 100)
	e := s.add(t, content)
	if err := iotest.TestReader(s.open(t, e), content); err != nil {
		t.Error(err)
	}
	f := s.open(t, e)
	if info, err := f.Stat(); err != nil || info.Size() != int64(len(content)) || info.Name() != "film" || f.Entry().Hash != sdk.ComputeHash(content) {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := f.Seek(5, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if n, err := f.WriteTo(&out); err != nil || n != int64(len(content)-5) || !bytes.Equal(out.Bytes(), content[5:]) {
		t.Errorf("WriteTo: %d bytes, %v", n, err)
	}
	if n, err := f.WriteTo(&out); n != 0 || err != nil {
		t.Errorf("WriteTo at the end: %d bytes, %v", n, err)
	}
	if at, err := f.Seek(-3, io.SeekCurrent); err != nil || at != int64(len(content)-3) {
		t.Errorf("at %d, %v", at, err)
	}
	if _, err := f.Seek(-1, io.SeekStart); err == nil {
		t.Error("a negative position")
	}
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("a negative offset")
	}
	full := errors.New("full")
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if n, err := f.WriteTo(&narrow{left: small + 10, full: full}); n != small+10 || !errors.Is(err, full) {
		t.Errorf("a writer that is full: %d bytes, %v", n, err)
	}
	if rest, err := io.ReadAll(f); err != nil || !bytes.Equal(rest, content[small+10:]) {
		t.Errorf("the rest: %d bytes, %v", len(rest), err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	_, read := f.Read(make([]byte, 1))
	_, readAt := f.ReadAt(make([]byte, 1), 0)
	_, seek := f.Seek(0, io.SeekStart)
	_, write := f.WriteTo(&out)
	for what, err := range map[string]error{"Read": read, "ReadAt": readAt, "Seek": seek, "WriteTo": write, "Close": f.Close()} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
}

// narrow takes some bytes.
type narrow struct {
	left int64
	full error
}

func (w *narrow) Write(p []byte) (int, error) {
	if int64(len(p)) <= w.left {
		w.left -= int64(len(p))
		return len(p), nil
	}
	return int(w.left), w.full
}

// Reads at random places by many at once see the content; Close ends them.
func TestBlockFileServesManyAtOnce(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	content := text(300*small + 100)
	f := s.open(t, s.add(t, content))
	var readers sync.WaitGroup
	for n := range 6 {
		readers.Go(func() {
			if n == 0 {
				if all, err := io.ReadAll(f); err != nil || !bytes.Equal(all, content) {
					t.Errorf("all: %v", err)
				}
			}
			for range 60 {
				off := rand.Int64N(int64(len(content)))
				p := make([]byte, rand.Int64N(3*small))
				got, err := f.ReadAt(p, off)
				if want := content[off:min(int64(len(content)), off+int64(len(p)))]; !bytes.Equal(p[:got], want) || err != nil && err != io.EOF {
					t.Errorf("%d bytes at %d: %d, %v", len(p), off, got, err)
				}
			}
		})
	}
	readers.Wait()
	began := make(chan bool, 1)
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case began <- true:
			default:
			}
			<-r.Context().Done()
		})
	})
	readers.Go(func() {
		for off := int64(0); ; off += small {
			if _, err := f.ReadAt(make([]byte, 1), off%int64(len(content))); err != nil {
				if !errors.Is(err, fs.ErrClosed) {
					t.Errorf("a read while the file was closed: %v", err)
				}
				return
			}
		}
	})
	<-began
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	readers.Wait()
}

// Reads fetch what they need: one block at a random place, and nothing twice while it is in
// memory; a reader of it all fetches each block once, and has at most four requests under way.
func TestBlockFileFetchesWhatIsRead(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	content := text(700*small + 100)
	e := s.add(t, content)
	var flying, most, requests, bytes atomic.Int64
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			for n := flying.Add(1); n > most.Load(); {
				most.Store(n)
			}
			end := sync.OnceFunc(func() { flying.Add(-1) })
			defer end()
			var from, to int64
			if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
				t.Error(err)
			}
			bytes.Add(to + 1 - from)
			next.ServeHTTP(&lastByte{w, to + 1 - from, end}, r)
		})
	})
	f := s.open(t, e)
	for _, off := range []int64{300 * small, 300*small + 5, 100*small + 9, 300 * small, 100 * small} {
		if _, err := f.ReadAt(make([]byte, 4096), off); err != nil {
			t.Fatal(err)
		}
	}
	if requests.Load() != 2 || bytes.Load() != 2*(small+28) {
		t.Errorf("random reads: %d requests for %d bytes", requests.Load(), bytes.Load())
	}
	bytes.Store(0)
	for i := range int64(12) {
		if _, err := f.ReadAt(make([]byte, 10), (400+7*i)*small); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.ReadAt(make([]byte, 10), 400*small); err != nil || bytes.Load() != 12*(small+28) {
		t.Errorf("%d bytes for reads of 12 blocks, and of the first of them again: %v", bytes.Load(), err)
	}
	for name, read := range map[string]func(f *sdk.File) (int64, error){
		"WriteTo": func(f *sdk.File) (int64, error) { return f.WriteTo(io.Discard) },
		"Read": func(f *sdk.File) (int64, error) {
			return io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f})
		},
	} {
		f := s.open(t, e)
		most.Store(0)
		bytes.Store(0)
		requests.Store(0)
		if n, err := read(f); err != nil || n != int64(len(content)) {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
		if want := int64(len(content)) + 701*28; bytes.Load() != want || most.Load() > 4 || requests.Load() > 100 {
			t.Errorf("%s: %d bytes, want %d; %d requests, %d of them at once", name, bytes.Load(), want, requests.Load(), most.Load())
		}
	}
}

// lastByte calls end before it writes the last byte of an answer: the client may send its next request once it has
// that byte.
type lastByte struct {
	http.ResponseWriter
	left int64
	end  func()
}

func (l *lastByte) Write(b []byte) (int, error) {
	if l.left -= int64(len(b)); l.left <= 0 {
		l.end()
	}
	return l.ResponseWriter.Write(b)
}

// Blocks that were proven are given out whatever hash their uploader recorded: the record commits to them.
func TestProvenContentNeedsNoHash(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	content := text(5*small + 7)
	e := s.add(t, content)
	e.Hash[3] ^= 1
	if all, err := io.ReadAll(s.open(t, e)); err != nil || !bytes.Equal(all, content) {
		t.Errorf("ReadAll gave %d bytes: %v", len(all), err)
	}
	b := buffer(t, 0)
	if _, err := s.g.Retrieve(t.Context(), e, b); err != nil || !bytes.Equal(b.Bytes(), content) {
		t.Errorf("Retrieve gave %d bytes: %v", b.Len(), err)
	}
}

// A file of format version 2 is retrieved whole up to the limit of what is held in memory, and opened
// beyond it.
func TestLimitBoundsWhatIsHeld(t *testing.T) {
	t.Parallel()
	content := text(5*small + 7)
	s := newShelf(t, testkit.Ours, func(cfg *sdk.Config) { cfg.MaxFileBytes = int64(len(content)) })
	e := s.add(t, content)
	b := buffer(t, 0)
	if fee, err := s.g.Retrieve(t.Context(), e, b); err != nil || !bytes.Equal(b.Bytes(), content) || fee.IsZero() {
		t.Errorf("Retrieve: %v", err)
	}
	e = s.add(t, append(content, 0))
	asked := s.Hits(wire.PathTools + wire.OpPrepareRetrieve)
	if _, err := s.g.Retrieve(t.Context(), e, b); sdk.KindOf(err) != sdk.ErrTooLarge || b.Len() != 0 || s.Hits(wire.PathTools+wire.OpPrepareRetrieve) != asked {
		t.Errorf("Retrieve beyond the limit: %v", err)
	}
	if all, err := io.ReadAll(s.open(t, e)); err != nil || len(all) != len(content)+1 {
		t.Errorf("open beyond the limit: %v", err)
	}
}

// Received bytes are reported, and the context of the open ends the reads.
func TestBlockFileReportsAndIsCanceled(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	e := s.add(t, text(20*small))
	var last, total int64
	ctx, cancel := context.WithCancel(t.Context())
	f, err := s.g.OpenEntry(ctx, e, func(d, all int64) { last, total = d, all })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(io.Discard, f); err != nil || last != total || total != 20*(small+28) {
		t.Errorf("%d of %d bytes reported: %v", last, total, err)
	}
	cancel()
	if _, err := f.ReadAt(make([]byte, 1), 3); sdk.KindOf(err) != sdk.ErrCanceled {
		t.Errorf("a read after the end of the context: %v", err)
	}
}

// A jump ends the requests ahead of a sequential reader that nobody waits for.
func TestJumpDropsWhatIsFetchedAhead(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	content := text(100 * small)
	f := s.open(t, s.add(t, content))
	p := make([]byte, small)
	if _, err := f.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	dropped := make(chan bool, 8)
	var asked sync.WaitGroup
	asked.Add(1)
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Range"), fmt.Sprintf("bytes=%d-", 2*(small+28))) { // ahead of block 1
				asked.Done()
				<-r.Context().Done()
				dropped <- true
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	if _, err := f.ReadAt(p, small); err != nil {
		t.Fatal(err)
	}
	asked.Wait()
	if _, err := f.ReadAt(p, 50*small); err != nil || !bytes.Equal(p, content[50*small:][:small]) {
		t.Errorf("after the jump: %v", err)
	}
	<-dropped
	s.Disturb(wire.PathBlocks+"*", nil)
	if _, err := f.ReadAt(p, 2*small); err != nil || !bytes.Equal(p, content[2*small:][:small]) {
		t.Errorf("back again: %v", err)
	}
}
