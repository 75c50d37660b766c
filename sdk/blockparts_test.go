package sdk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// puts notes which blocks were sent, and lets between answer the request with a number, from 0.
type puts struct {
	mu      sync.Mutex
	blocks  []string // of each PUT
	between map[int]func(next http.Handler) http.Handler
}

func (p *puts) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := next
		if r.Method == http.MethodPut {
			p.mu.Lock()
			if f := p.between[len(p.blocks)]; f != nil {
				h = f(next)
			}
			p.blocks = append(p.blocks, r.URL.Query().Get("blocks"))
			p.mu.Unlock()
		}
		h.ServeHTTP(w, r)
	})
}

// sent returns which blocks were sent; requests that were given up may still come.
func (p *puts) sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.blocks)
}

// unanswered does the work, and breaks the connection instead of the answer.
func unanswered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
}

// cutAfter lets only so many bytes of the body through.
func cutAfter(n int64) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return unanswered(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, n), cutReader{}))
			next.ServeHTTP(w, r)
		}))
	}
}

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// cutAndThen is cutAfter, with another end instead of a broken connection.
func cutAndThen(n int64, end http.Handler) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, n), cutReader{}))
			next.ServeHTTP(httptest.NewRecorder(), r)
			end.ServeHTTP(w, r)
		})
	}
}

// storedAndThen does the work, and gives another answer.
func storedAndThen(answer func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			answer(nil).ServeHTTP(w, r)
		})
	}
}

// tooSlow is the answer to a body that stood still.
var tooSlow = answer(http.StatusRequestTimeout, wire.Error{Error: "too slow", Code: wire.CodeUnavailable})

func refused(status int, code string) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler { return answer(status, wire.Error{Error: "no", Code: code}) }
}

const sealedSmall = smallBlock + format.Overhead

// What arrived is not sent again, and nothing is believed that was not sent.
func TestPartsThatAreCut(t *testing.T) {
	t.Parallel()
	type handlers = map[int]func(http.Handler) http.Handler
	swap := func(from, to string) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler { return rewritten(next, from, to) }
	}
	for _, tc := range []struct {
		name    string
		between handlers
		want    []string // blocks of each PUT
		list    func(http.Handler) http.Handler
		err     error
	}{
		{"all well", nil, []string{"0-63"}, nil, nil},
		{"answer lost", handlers{0: unanswered}, []string{"0-63"}, nil, nil},
		{"cut", handlers{0: cutAfter(5*sealedSmall + 77)}, []string{"0-63", "0-63"}, nil, nil},
		{"cut before the last byte", handlers{0: cutAfter(64*sealedSmall - 1)}, []string{"0-63", "0-63"}, nil, nil},
		{"cut twice", handlers{0: cutAfter(5 * sealedSmall), 1: cutAfter(9)}, []string{"0-63", "0-63", "0-15", "16-33", "34-53", "54-63"}, nil, nil},
		{"too slow", handlers{0: cutAndThen(5*sealedSmall+77, tooSlow)}, []string{"0-63", "0-63"}, nil, nil},
		{"busy", handlers{0: refused(429, wire.CodeRateLimited)}, []string{"0-63", "0-63"}, nil, nil},
		{"full", handlers{0: refused(507, wire.CodeStorageFull)}, []string{"0-63"}, nil, sdk.ErrStorageFull},
		{"gone", handlers{0: refused(404, wire.CodeUploadUnknown)}, []string{"0-63"}, nil, sdk.ErrNotFound},
		{"id taken", handlers{0: refused(412, wire.CodePartExists)}, []string{"0-63", "0-63"}, nil, nil},
		{"stored, and id taken", handlers{0: storedAndThen(refused(412, wire.CodePartExists))}, []string{"0-63"}, nil, nil},
		{"another tag", handlers{0: swap(`"etag":"`, `"etag":"00`)}, []string{"0-63"}, nil, sdk.ErrCorrupt},
		{"other blocks", handlers{0: swap(`"blocks":"0-63"`, `"blocks":"0-62"`)}, []string{"0-63"}, nil, sdk.ErrCorrupt},
		{"more blocks", handlers{0: swap(`"blocks":"0-63"`, `"blocks":"0-64"`)}, []string{"0-63"}, nil, sdk.ErrCorrupt},
		{"another id", handlers{0: swap(`"id":"`, `"id":"zz`)}, []string{"0-63"}, nil, sdk.ErrCorrupt},
		{"a lie in the list", handlers{0: unanswered}, []string{"0-63"}, swap(`"etag":"`, `"etag":"00`), sdk.ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, g := chunkWorld(t)
			p := &puts{between: tc.between}
			s.Disturb(wire.PathParts+"*", func(next http.Handler) http.Handler {
				list := next
				if tc.list != nil {
					list = tc.list(next)
				}
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet {
						list.ServeHTTP(w, r)
						return
					}
					p.watch(next).ServeHTTP(w, r)
				})
			})
			content := noise(64 * smallBlock)
			u := begin(t, g, nil)
			err := u.PutPart(t.Context(), extents(0, 64), blocksOf(content, smallBlock))
			if !errors.Is(err, tc.err) || tc.err == nil && err != nil {
				t.Fatalf("%v, want %v", err, tc.err)
			}
			if !slices.Equal(p.blocks, tc.want) {
				t.Errorf("sent %q, want %q", p.blocks, tc.want)
			}
			if tc.err == nil {
				finishAndCompare(t, g, u, content)
			}
		})
	}
}

// A part that stands still is sent once more, and then no more.
func TestPartsThatStandStill(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stands int // of the first parts
		err    error
	}{
		"once":  {1, nil},
		"twice": {2, sdk.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := chunkWorld(t, func(cfg *sdk.Config) { cfg.Timeout = 2 * time.Second })
			over := make(chan struct{})
			wait := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over; panic(http.ErrAbortHandler) })
			p := &puts{between: map[int]func(http.Handler) http.Handler{}}
			for i := range tc.stands {
				p.between[i] = cutAndThen(5*sealedSmall, wait)
			}
			s.Disturb(wire.PathParts+"*", p.watch)
			content := noise(64 * smallBlock)
			u := begin(t, g, nil)
			err := u.PutPart(t.Context(), extents(0, 64), blocksOf(content, smallBlock))
			close(over)
			if !errors.Is(err, tc.err) || tc.err == nil && err != nil {
				t.Fatalf("%v, want %v", err, tc.err)
			}
			if sent := p.sent(); !slices.Equal(sent, []string{"0-63", "0-63"}) {
				t.Errorf("sent %q", sent)
			}
			if tc.err == nil {
				finishAndCompare(t, g, u, content)
			}
		})
	}
}

// finishAndCompare records an upload and reads it back.
func finishAndCompare(t *testing.T, g sdk.Group, u *sdk.BlockUpload, content []byte) {
	t.Helper()
	r, err := u.Finish(t.Context(), "f", int64(len(content)), sdk.ComputeHash(content))
	if err != nil {
		t.Fatal(err)
	}
	e := newest(t, g, "f")
	if got := readBlocks(t, g, e); e.Ref != r.Ref || !bytes.Equal(got, content) {
		t.Error("other content comes back")
	}
}

// The same blocks again are another part, and the later one counts, also when a connection is cut.
func TestPartsThatAreSentAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		between map[int]func(http.Handler) http.Handler
		want    []string
	}{
		"all well":    {nil, []string{"0-9", "0-9", "3"}},
		"answer lost": {map[int]func(http.Handler) http.Handler{1: unanswered}, []string{"0-9", "0-9", "3"}},
		"cut":         {map[int]func(http.Handler) http.Handler{1: cutAfter(3 * sealedSmall)}, []string{"0-9", "0-9", "0-9", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g := chunkWorld(t)
			p := &puts{between: tc.between}
			s.Disturb(wire.PathParts+"*", p.watch)
			content := noise(10 * smallBlock)
			u := begin(t, g, nil)
			for _, e := range []format.Extents{extents(0, 10), extents(0, 10), extents(3, 1)} {
				if err := u.PutPart(t.Context(), e, blocksOf(content, smallBlock)); err != nil {
					t.Fatal(err)
				}
				content[3*smallBlock]++
				if e.Blocks() == 1 {
					content[3*smallBlock]--
				}
			}
			if !slices.Equal(p.blocks, tc.want) {
				t.Errorf("sent %q, want %q", p.blocks, tc.want)
			}
			finishAndCompare(t, g, u, content)
		})
	}
}

// The service lost parts: what it lacks is sent again, from a file that can be read again.
// A file that changes meanwhile is not recorded with a hash that is not its own.
func TestBlocksMissing(t *testing.T) {
	t.Parallel()
	t.Run("file stays", func(t *testing.T) { blocksMissing(t, false) })
	t.Run("file changes", func(t *testing.T) { blocksMissing(t, true) })
}

func blocksMissing(t *testing.T, changes bool) {
	s, g := chunkWorld(t)
	content := noise(12 << 20)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &puts{}
	if changes {
		p.between = map[int]func(http.Handler) http.Handler{2: func(next http.Handler) http.Handler {
			other, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = other.WriteAt(make([]byte, 1<<20), 10<<20)
				_ = other.Close()
			}
			if err != nil {
				t.Error(err)
			}
			return next
		}}
	}
	var once sync.Once
	s.Disturb(wire.PathParts+"*", func(next http.Handler) http.Handler {
		return p.watch(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				rewritten(next, `"blocks":"32-47","etag":"`, `"blocks":"32-47","etag":"00`).ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		}))
	})
	s.Disturb(wire.PathSealed+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			lost := false
			once.Do(func() { lost = true })
			if lost {
				answer(409, wire.Error{Error: "blocks 32-47", Code: wire.CodeMissing})(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = g.Put(t.Context(), "f", f)
	if changes {
		if !errors.Is(err, sdk.ErrConflict) || len(p.blocks) != 3 || s.Records() != 0 {
			t.Errorf("%v, sent %q, %d records", err, p.blocks, s.Records())
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(p.blocks) != 3 || s.Records() != 1 {
		t.Errorf("sent %q, %d records", p.blocks, s.Records())
	}
	if got := readBlocks(t, g, newest(t, g, "f")); !bytes.Equal(got, content) {
		t.Error("other content comes back")
	}
}

// Nothing is taken over from a base of another account, or with other blocks, and from one that the service refuses.
func TestBaseThatIsUnusable(t *testing.T) {
	t.Parallel()
	s, g := chunkWorld(t)
	carol := s.Account("carol", "100")
	content := noise(4 * smallBlock)
	u := begin(t, g, nil)
	if err := u.PutPart(t.Context(), extents(0, 4), blocksOf(content, smallBlock)); err != nil {
		t.Fatal(err)
	}
	finishAndCompare(t, g, u, content)
	base := openBlocks(t, g, newest(t, g, "f"))

	other := begin(t, g, base)
	if _, err := other.Finish(t.Context(), "another name", int64(len(content)), sdk.Digest{}); !errors.Is(err, sdk.ErrConflict) ||
		codeOf(err) != wire.CodeBase {
		t.Errorf("another name: %v", err)
	}
	if err := other.PutPart(t.Context(), extents(0, 4), blocksOf(content, smallBlock)); err != nil { // all blocks are those of the upload
		t.Fatal(err)
	}
	if _, err := other.Finish(t.Context(), "another name", int64(len(content)), sdk.ComputeHash(content)); err != nil {
		t.Errorf("all blocks sent: %v", err)
	}

	if _, err := g.Add(t.Context(), carol.ID); err != nil {
		t.Fatal(err)
	}
	hers := s.Client(t, carol).Group("g")
	if v := begin(t, hers, openBlocks(t, hers, base.Entry())); v.TakesOver() {
		t.Error("blocks of another uploader are taken over")
	}
	large, err := g.BeginBlocks(t.Context(), base, 2*smallBlock)
	if err != nil || large.TakesOver() {
		t.Errorf("blocks of another size are taken over, %v", err)
	}
	late := begin(t, g, base)
	if _, err := g.Delete(t.Context(), base.Entry().Ref); err != nil {
		t.Fatal(err)
	}
	if _, err := late.Finish(t.Context(), "f", int64(len(content)), sdk.Digest{}); codeOf(err) != wire.CodeBase {
		t.Errorf("deleted meanwhile: %v", err)
	}
}

func codeOf(err error) string {
	var e *sdk.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Lines appended to a large file one by one, and small changes at random places, send the blocks that
// changed and little more.
func TestSmallChangesSendLittle(t *testing.T) {
	t.Parallel()
	var sent sentBytes
	s, g := chunkWorld(t)
	s.Disturb("*", sent.watch)
	content := noise(8<<20 + 1000)
	s.AddBlocks(testkit.Account{ID: "alice." + testkit.ContractID}, g.ID, "log", content, format.BlockBytes)
	for i := range 20 {
		e := newest(t, g, "log")
		base := openBlocks(t, g, e)
		size := base.Layout().Size
		changed := format.Extents{{First: size / format.BlockBytes, Count: 1}}
		if i%2 == 0 {
			content = fmt.Appendf(content, "line %d\n", i)
		} else {
			at := int64(i) * 400_009
			copy(content[at:], noise(4096))
			changed = nil
			for block := at / format.BlockBytes; block <= (at+4095)/format.BlockBytes; block++ {
				changed = changed.Add(block)
			}
		}
		u, err := g.BeginBlocks(t.Context(), base, 0)
		if err != nil || !u.TakesOver() {
			t.Fatalf("takes over %t, %v", u.TakesOver(), err)
		}
		if err := u.PutPart(t.Context(), changed, blocksOf(content, format.BlockBytes)); err != nil {
			t.Fatal(err)
		}
		before := sent.bytes.Load()
		if _, err := u.Finish(t.Context(), "log", int64(len(content)), sdk.Digest{}); err != nil {
			t.Fatal(err)
		}
		if finish := sent.bytes.Load() - before; finish > 24<<10 {
			t.Errorf("finish %d sent %d bytes", i, finish)
		}
		_ = base.Close()
		u.Abandon()
	}
	if most := int64(20 * (2*format.BlockBytes + 24<<10)); sent.bytes.Load() > most {
		t.Errorf("%d bytes were sent, more than %d", sent.bytes.Load(), most)
	}
	t.Logf("20 changes sent %d KiB", sent.bytes.Load()>>10)
	if got := readBlocks(t, g, newest(t, g, "log")); !bytes.Equal(got, content) {
		t.Error("other content comes back")
	}
}
