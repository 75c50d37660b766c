package sdk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// Put makes format version 2 of what is larger than 4 MiB, of a known or unknown size, where
// service and group have it, and version 1 of all else.
func TestPutInBlocks(t *testing.T) {
	t.Parallel()
	large := noise(wire.WholeFileBytes + 9<<20 + 12_345)
	for _, tc := range []struct {
		name    string
		size    int64
		format  int // of the group
		unknown bool
		want    int // format version
	}{
		{"largest whole", wire.WholeFileBytes, 2, false, 1},
		{"largest whole, size unknown", wire.WholeFileBytes, 2, true, 1},
		{"smallest in blocks", wire.WholeFileBytes + 1, 2, false, 2},
		{"smallest in blocks, size unknown", wire.WholeFileBytes + 1, 2, true, 2},
		{"many parts", int64(len(large)), 2, false, 2},
		{"many parts, size unknown", int64(len(large)), 2, true, 2},
		{"group of version 1", int64(len(large)), 1, false, 1},
		{"group of version 1, size unknown", int64(len(large)), 1, true, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, g := chunkWorld(t)
			if tc.format == 1 {
				if _, err := g.Settings().Set(t.Context(), wire.GroupSettings{Format: 1}); err != nil {
					t.Fatal(err)
				}
			}
			content := large[:tc.size]
			var source io.Reader = bytes.NewReader(content)
			if tc.unknown {
				source = iotest.HalfReader(struct{ io.Reader }{source})
			}
			var done, total atomic.Int64
			r, err := g.Put(t.Context(), "f", source, sdk.PutOptions{Progress: func(d, all int64) { done.Store(d); total.Store(all) }, Attributes: sdk.Attributes{Executable: true}})
			if err != nil {
				t.Fatal(err)
			}
			e := newest(t, g, "f")
			if e.Ref != r.Ref || e.Hash != sdk.ComputeHash(content) || e.Size != tc.size || e.Content != r.Content || (tc.want == 2) != (r.Content != sdk.Digest{}) || !e.Attributes.Executable {
				t.Errorf("recorded %+v, receipt %+v", e, r)
			}
			if done.Load() != total.Load() || done.Load() < tc.size {
				t.Errorf("progress ended at %d of %d", done.Load(), total.Load())
			}
			if tc.want == 2 {
				if got := readBlocks(t, g, e); !bytes.Equal(got, content) {
					t.Error("other content comes back")
				}
			}
		})
	}
}

// What cannot be read or stored is an error, and nothing is recorded.
func TestPutInBlocksFails(t *testing.T) {
	t.Parallel()
	s, g := chunkWorld(t)
	broken := errors.New("the disk is broken")
	if _, err := g.Put(t.Context(), "f", io.MultiReader(bytes.NewReader(noise(12<<20)), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("broken source: %v", err)
	}
	limited := testkit.Start(t, testkit.Ours, testkit.MaxFileBytes(9<<20))
	small := limited.Client(t, limited.Account("alice", "100")).Group("g")
	if _, err := small.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := small.Put(t.Context(), "f", bytes.NewReader(make([]byte, 9<<20+1))); !errors.Is(err, sdk.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if _, err := small.Put(t.Context(), "f", struct{ io.Reader }{bytes.NewReader(make([]byte, 9<<20+1))}); !errors.Is(err, sdk.ErrTooLarge) {
		t.Errorf("too large, size unknown: %v", err)
	}
	s.Answer(wire.PathParts+"*", answer(http.StatusInsufficientStorage, wire.Error{Error: "the disk is full", Code: wire.CodeStorageFull}))
	if _, err := g.Put(t.Context(), "f", bytes.NewReader(noise(12<<20))); !errors.Is(err, sdk.ErrStorageFull) {
		t.Errorf("full: %v", err)
	}
	if s.Records() != 0 {
		t.Errorf("%d records", s.Records())
	}
}

// The answer to the finalize is lost for good: the next Put of the same content finds the record, and
// pays nothing.
func TestPutInBlocksPaysOnce(t *testing.T) {
	t.Parallel()
	s, g := chunkWorld(t)
	content := noise(5 << 20)
	s.Disturb(wire.PathSealed+"*", lost(4, 0))
	if _, err := g.Put(t.Context(), "f", bytes.NewReader(content)); !errors.Is(err, sdk.ErrUnavailable) {
		t.Fatalf("lost: %v", err)
	}
	r, err := g.Put(t.Context(), "f", bytes.NewReader(content))
	if err != nil || s.Records() != 1 || r.Ref != newest(t, g, "f").Ref {
		t.Errorf("%d records, %+v, %v", s.Records(), r, err)
	}
	if _, err := g.Put(t.Context(), "f", bytes.NewReader(content)); err != nil || s.Records() != 2 {
		t.Errorf("the same again: %d records, %v", s.Records(), err)
	}
}

// sentBytes counts what comes in the bodies of parts. With a limit it lets one part come at a time, and
// aborts each after limit bytes in all.
type sentBytes struct {
	bytes, limit atomic.Int64
	one          sync.Mutex
}

func (n *sentBytes) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if limit := n.limit.Load(); r.Method == http.MethodPut && limit > 0 {
			n.one.Lock()
			defer n.one.Unlock()
			if n.bytes.Load() > limit {
				panic(http.ErrAbortHandler)
			}
		}
		r.Body = countedBody{r.Body, n}
		next.ServeHTTP(w, r)
	})
}

type countedBody struct {
	io.ReadCloser
	n *sentBytes
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if limit := b.n.limit.Load(); b.n.bytes.Add(int64(n)) > limit && limit > 0 {
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// resumeWorld is a file, and what sends it in one process after another.
type resumeWorld struct {
	*testing.T
	s     *testkit.Server
	a     testkit.Account
	count sentBytes
	path  string
	dir   string

	kept int64
	why  error
	told bool
}

func newResumeWorld(t *testing.T, size int64) *resumeWorld {
	t.Helper()
	w := &resumeWorld{T: t, s: testkit.Start(t, testkit.Ours), path: filepath.Join(t.TempDir(), "film"), dir: filepath.Join(t.TempDir(), "state")}
	w.a = w.s.Account("alice", "100")
	if _, err := w.s.Client(t, w.a).Group("g").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.write(noise(size))
	w.s.Disturb(wire.PathParts+"*", w.count.watch)
	return w
}

func (w *resumeWorld) write(content []byte) {
	if err := os.WriteFile(w.path, content, 0o600); err != nil {
		w.Fatal(err)
	}
}

// put sends the file as a new process does. limit is after how many bytes the service fails, 0 = never.
func (w *resumeWorld) put(limit int64) (sdk.Receipt, sdk.Group, error) {
	w.Helper()
	g := w.s.Client(w.T, w.a, func(c *sdk.Config) { c.Timeout = time.Minute }).Group("g")
	f, err := os.Open(w.path)
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	w.count.bytes.Store(0)
	w.count.limit.Store(limit)
	w.kept, w.why, w.told = 0, nil, false
	r, err := g.Resume(w.Context(), "film", f, w.dir, func(kept int64, why error) {
		if w.told {
			w.Error("told twice")
		}
		w.kept, w.why, w.told = kept, why, true
	})
	return r, g, err
}

// files lists the folder of the states.
func (w *resumeWorld) files() []string {
	list, err := filepath.Glob(filepath.Join(w.dir, "*"))
	if err != nil {
		w.Fatal(err)
	}
	return list
}

func (w *resumeWorld) check(r sdk.Receipt, g sdk.Group, err error, records int) {
	w.Helper()
	content, readErr := os.ReadFile(w.path)
	if err != nil || readErr != nil || w.s.Records() != records || r.Hash != sdk.ComputeHash(content) {
		w.Fatalf("%d records, %+v, %v", w.s.Records(), r, err)
	}
	if got := readBlocks(w.T, g, newest(w.T, g, "film")); !bytes.Equal(got, content) {
		w.Error("other content comes back")
	}
	if left := w.files(); len(left) != 0 {
		w.Errorf("left: %v", left)
	}
}

// A Put that another process began goes on where that one was.
func TestPutResumes(t *testing.T) {
	t.Parallel()
	const size = 24<<20 - 4321 // three parts, of which any may come first
	w := newResumeWorld(t, size)
	if _, _, err := w.put(12 << 20); err == nil || w.told {
		t.Fatalf("told %t, %v", w.told, err)
	}
	if state := w.files(); len(state) != 2 {
		t.Fatalf("the state is %v", state)
	} else if raw, err := os.ReadFile(state[0]); err != nil || bytes.Contains(raw, []byte("film")) {
		t.Errorf("the state names the file: %s, %v", raw, err)
	}
	r, g, err := w.put(0)
	if w.why != nil || w.kept != 8<<20 || w.count.bytes.Load() > size+size/1000-w.kept {
		t.Errorf("kept %d, sent %d, %v", w.kept, w.count.bytes.Load(), w.why)
	}
	w.check(r, g, err, 1)
}

// A part that arrived after its process ended is not sent again.
func TestPutResumesWithPartsThatArrived(t *testing.T) {
	t.Parallel()
	const size = 24<<20 - 4321
	w := newResumeWorld(t, size)
	w.s.Disturb(wire.PathParts+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				next.ServeHTTP(httptest.NewRecorder(), r)
			}
			panic(http.ErrAbortHandler)
		})
	})
	if _, _, err := w.put(0); err == nil {
		t.Fatal("the first upload did not fail")
	}
	w.s.Disturb(wire.PathParts+"*", w.count.watch)
	r, g, err := w.put(0)
	if w.why != nil || w.kept < 8<<20-4321 || w.count.bytes.Load() > size+size/1000-w.kept {
		t.Errorf("kept %d, sent %d, %v", w.kept, w.count.bytes.Load(), w.why)
	}
	w.check(r, g, err, 1)
}

// What cannot go on begins anew, and says why.
func TestPutResumesNot(t *testing.T) {
	t.Parallel()
	const size = 12 << 20
	for name, tc := range map[string]struct {
		between func(*resumeWorld)
		want    error
		says    string
	}{
		"changed file": {func(w *resumeWorld) { w.write(append(noise(size), 1)) }, sdk.ErrConflict, "changed since"},
		"same size": {func(w *resumeWorld) {
			content := noise(size)
			content[5]++
			w.write(content)
		}, sdk.ErrConflict, "changed since"},
		"gone": {func(w *resumeWorld) {
			w.s.Disturb(wire.PathParts+"*", func(next http.Handler) http.Handler {
				return w.count.watch(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodGet {
						answer(200, wire.PartsResult{Parts: []wire.Part{}})(rw, r)
						return
					}
					next.ServeHTTP(rw, r)
				}))
			})
		}, sdk.ErrNotFound, "given the upload up"},
		"another key": {func(w *resumeWorld) {
			w.s.Answer(wire.PathTools+wire.OpOpenJournalKey, func(rw http.ResponseWriter, r *http.Request) {
				var asked wire.OpenJournalKeyRequest
				other, err := format.RandomKey()
				if err = errors.Join(err, json.NewDecoder(r.Body).Decode(&asked)); err != nil {
					panic(err)
				}
				answer(200, map[string]any{"result": wire.OpenJournalKeyResult{SealedKey: w.s.SealFor(r, asked.GroupID,
					format.JournalRef(asked.Journal), other)}})(rw, r)
			})
		}, sdk.ErrCorrupt, "another key"},
		"key sealed for an epoch of before": {func(w *resumeWorld) {
			w.s.Answer(wire.PathTools+wire.OpOpenJournalKey, answer(409, wire.Error{Error: "the key was sealed for epoch 1", Code: wire.CodeEpoch}))
		}, sdk.ErrConflict, "epoch"},
		"journal that ended": {func(w *resumeWorld) {
			w.s.Answer(wire.PathTools+wire.OpOpenJournalKey, answer(409, wire.Error{Error: "the journal has ended",
				Code: wire.CodeJournalEnded}))
		}, sdk.ErrNotFound, "given the upload up"},
		"damaged": {func(w *resumeWorld) {
			if err := os.WriteFile(w.files()[0], []byte("{"), 0o600); err != nil {
				w.Fatal(err)
			}
		}, sdk.ErrOther, "state of the upload"},
		"others may write": {func(w *resumeWorld) {
			if err := os.Chmod(w.files()[0], 0o666); err != nil {
				w.Fatal(err)
			}
		}, sdk.ErrOther, "others may"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newResumeWorld(t, size)
			if _, _, err := w.put(10 << 20); err == nil {
				t.Fatal("the first upload did not fail")
			}
			tc.between(w)
			r, g, err := w.put(0)
			if !w.told || w.kept != 0 || !errors.Is(w.why, tc.want) || !strings.Contains(w.why.Error(), tc.says) {
				t.Errorf("told %t, kept %d, %v", w.told, w.kept, w.why)
			}
			w.check(r, g, err, 1)
		})
	}
}

// The process ends between the record and the answer: the next finds the record.
func TestPutResumesRecorded(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t, 5<<20)
	w.s.Disturb(wire.PathSealed+"*", lost(4, 0))
	if _, _, err := w.put(0); err == nil {
		t.Fatal("the answer was not lost")
	}
	r, g, err := w.put(0)
	if w.count.bytes.Load() != 0 || w.why != nil || w.kept != 5<<20 {
		t.Errorf("%d bytes were sent again, %d kept, %v", w.count.bytes.Load(), w.kept, w.why)
	}
	w.check(r, g, err, 1)
}

// A service that fails while the next process looks for the record has not said that there is none: the one after that
// finds it.
func TestPutResumesRecordedAfterAnError(t *testing.T) {
	t.Parallel()
	fails := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut { // of a part
				next.ServeHTTP(rw, r)
				return
			}
			answer(http.StatusInternalServerError, "broken")(rw, r)
		})
	}
	for _, path := range []string{wire.PathParts + "*", wire.PathTools + wire.OpOpenJournalKey,
		wire.PathTools + wire.OpGetGroupTransactions} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := newResumeWorld(t, 5<<20)
			w.s.Disturb(wire.PathSealed+"*", lost(4, 0))
			if _, _, err := w.put(0); err == nil {
				t.Fatal("the answer was not lost")
			}
			w.s.Disturb(path, fails)
			_, _, err := w.put(0)
			if wantUnsure(t, "it looks for the record", err, true); w.told || w.s.Records() != 1 {
				t.Fatalf("%d records, told %t, %v", w.s.Records(), w.told, err)
			}
			w.s.Disturb(path, nil)
			r, g, err := w.put(0)
			if w.why != nil || w.kept != 5<<20 {
				t.Errorf("%d kept, %v", w.kept, w.why)
			}
			w.check(r, g, err, 1)
		})
	}
	t.Run("epoch that ended", func(t *testing.T) {
		t.Parallel()
		w := newResumeWorld(t, 5<<20)
		w.s.Disturb(wire.PathSealed+"*", lost(4, 0))
		if _, _, err := w.put(0); err == nil {
			t.Fatal("the answer was not lost")
		}
		w.s.Answer(wire.PathTools+wire.OpOpenJournalKey, answer(409, wire.Error{Error: "the key was sealed for epoch 1",
			Code: wire.CodeEpoch}))
		r, g, err := w.put(0)
		w.check(r, g, err, 1)
	})
}

// An upload that was never finished is not recorded, also where the service refuses the next process.
func TestPutResumesAfterARefusal(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t, 5<<20)
	if _, _, err := w.put(1 << 20); err == nil {
		t.Fatal("the first upload did not fail")
	}
	opens := wire.PathTools + wire.OpOpenJournalKey
	w.s.Disturb(opens, refuses(wire.CodeNotAuthorized))
	_, _, err := w.put(0)
	if wantUnsure(t, "it goes on", err, false); w.told || len(w.files()) != 2 {
		t.Fatalf("told %t, %v, left: %v", w.told, err, w.files())
	}
	w.s.Disturb(opens, nil)
	r, g, err := w.put(0)
	w.check(r, g, err, 1)
}

// The answer is lost with its process, and another content has the name meanwhile: the record of before is no newest
// version.
func TestPutResumesRecordedAndReplaced(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t, 5<<20)
	w.s.Disturb(wire.PathSealed+"*", lost(4, 0))
	_, g, err := w.put(0)
	if err == nil {
		t.Fatal("the answer was not lost")
	}
	if _, err := g.Put(t.Context(), "film", strings.NewReader("another")); err != nil {
		t.Fatal(err)
	}
	r, g, err := w.put(0)
	if w.kept != 0 || !errors.Is(w.why, sdk.ErrNotFound) {
		t.Errorf("%d kept, %v", w.kept, w.why)
	}
	w.check(r, g, err, 3)
}

// A service that says of the parts what the state file does not is not believed.
func TestPutResumesOnlyOwnParts(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t, 24<<20)
	w.s.Disturb(wire.PathParts+"*", func(next http.Handler) http.Handler {
		return w.count.watch(next)
	})
	if _, _, err := w.put(18 << 20); err == nil {
		t.Fatal("the first upload did not fail")
	}
	number := regexp.MustCompile("[0-9]+")
	elsewhere := func(block string) string {
		i, err := strconv.Atoi(block)
		if err != nil {
			t.Error(err)
		}
		return strconv.Itoa(i ^ 32)
	}
	w.s.Disturb(wire.PathParts+"*", func(next http.Handler) http.Handler {
		return w.count.watch(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				next.ServeHTTP(rw, r)
				return
			}
			into := &answerText{ResponseWriter: rw}
			next.ServeHTTP(into, r)
			_, _ = io.WriteString(rw, regexp.MustCompile(`"blocks":"[^"]*"`).ReplaceAllStringFunc(into.text.String(),
				func(field string) string { return number.ReplaceAllStringFunc(field, elsewhere) }))
		}))
	})
	r, g, err := w.put(0)
	if w.kept != 0 || w.why != nil {
		t.Errorf("kept %d, %v", w.kept, w.why)
	}
	w.check(r, g, err, 1)
}

// rewritten replaces text in the answers of a handler, see [strings.NewReplacer].
func rewritten(next http.Handler, fromTo ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		into := &answerText{ResponseWriter: w}
		next.ServeHTTP(into, r)
		_, _ = io.WriteString(w, strings.NewReplacer(fromTo...).Replace(into.text.String()))
	})
}

type answerText struct {
	http.ResponseWriter
	text strings.Builder
}

// WriteHeader tells no length: that of the answer changes.
func (w *answerText) WriteHeader(status int) {
	w.Header().Del("Content-Length")
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerText) Write(p []byte) (int, error) { return w.text.Write(p) }

// Two processes that send one file do not share an upload, and old states go.
func TestResumeFolder(t *testing.T) {
	t.Parallel()
	w := newResumeWorld(t, 12<<20)
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 130 {
		path := filepath.Join(w.dir, "upload-"+strings.Repeat("0", 29)+string(rune('a'+i%26))+string(rune('a'+i/26))+"0.json")
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(-9*24*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	other := filepath.Join(w.dir, "trust-1.json")
	if err := os.WriteFile(other, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var inner error
	w.s.Disturb(wire.PathSealed+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.s.Disturb(wire.PathSealed+"*", nil)
			if _, _, err := w.put(0); err != nil { // another process meanwhile
				t.Error(err)
			}
			inner = w.why
			next.ServeHTTP(rw, r)
		})
	})
	if _, _, err := w.put(0); err != nil {
		t.Fatal(err)
	}
	if inner == nil || !strings.Contains(inner.Error(), "another process") {
		t.Errorf("the other process was told %v", inner)
	}
	if left := w.files(); len(left) != 65+1 || w.s.Records() != 2 {
		t.Errorf("%d files are left, %d records", len(left), w.s.Records())
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}
