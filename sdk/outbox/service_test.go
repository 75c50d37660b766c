package outbox_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// served is a service with a group of two members.
type served struct {
	t      *testing.T
	server *testkit.Server
	alice  outbox.Service
	bob    outbox.Service
	who    testkit.Account
	asked  sync.RWMutex                  // read while a request about parts is answered
	bytes  atomic.Int64                  // of parts that were sent
	after  atomic.Pointer[func(n int64)] // called behind each part, with the sum
	// the session that sent the newest part, and one of which no part counts
	session, ended atomic.Pointer[string]
}

func newServed(t *testing.T) *served {
	t.Helper()
	s := &served{t: t, server: testkit.Start(t, testkit.Ours)}
	s.who = s.server.Account("alice", "100")
	s.alice = outbox.NewService(s.server.Client(t, s.who))
	s.bob = outbox.NewService(s.server.Client(t, s.server.Account("bob", "100")))
	g := s.alice.Group("g")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Add(t.Context(), s.bob.Account()); err != nil {
		t.Fatal(err)
	}
	s.server.Disturb(wire.PathParts+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.asked.RLock()
			defer s.asked.RUnlock()
			next.ServeHTTP(w, r)
			session := r.Header.Get("Authorization")
			if ended := s.ended.Load(); r.Method == http.MethodPut && (ended == nil || *ended != session) {
				s.session.Store(&session)
				n := s.bytes.Add(r.ContentLength)
				if after := s.after.Load(); after != nil {
					(*after)(n)
				}
			}
		})
	})
	return s
}

// random is content that does not repeat.
func random(n int) []byte {
	content := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	return content
}

// upload is a save of content in blocks, of which some changed; nil = all of them.
func (s *served) upload(name string, content []byte, changed format.Extents, from sdk.Ref) *outbox.Upload {
	s.t.Helper()
	key, err := format.RandomKey()
	if err != nil {
		s.t.Fatal(err)
	}
	save, err := s.alice.NewSave("g")
	if err != nil {
		s.t.Fatal(err)
	}
	save.Key, save.Mark = key, sdk.ComputeHash(content)
	l := format.Layout{Size: int64(len(content)), BlockBytes: format.BlockBytes}
	u := &outbox.Upload{Save: save, Group: "g", Name: name,
		Size: l.Size, Large: &outbox.LargeUpload{Layout: l, Changed: changed, Keep: func(saving.Part) {},
			Read: func(i int64, into []byte) (int, error) { return copy(into, content[i*l.BlockBytes:]), nil }}}
	if from != "" {
		u.Base, u.Large.From = &from, outbox.From{Group: "g", Ref: from}
	}
	if changed == nil {
		u.Large.Changed, u.Hash = format.Extents{{First: 0, Count: l.Blocks()}}, sdk.ComputeHash(content)
	}
	return u
}

func (s *served) send(by outbox.Service, u *outbox.Upload) sdk.Receipt {
	s.t.Helper()
	sent := by.Send(s.t.Context(), []*outbox.Upload{u})
	if sent[0].Err != nil {
		s.t.Fatal(sent[0].Err)
	}
	return sent[0].Receipt
}

// wantContent reads a file as bob.
func (s *served) wantContent(ref sdk.Ref, want []byte) {
	s.t.Helper()
	entries, err := s.bob.Group("g").Entries(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	at := slices.IndexFunc(entries, func(e sdk.Entry) bool { return e.Ref == ref })
	if at < 0 {
		s.t.Fatalf("there is no record %s", ref)
	}
	b, err := s.bob.Group("g").OpenBlocks(s.t.Context(), entries[at])
	if err != nil {
		s.t.Fatal(err)
	}
	defer b.Close()
	if n := b.Layout().Size; n != int64(len(want)) {
		s.t.Fatalf("it holds %d bytes, want %d", n, len(want))
	}
	pool := mem.NewPool()
	rest := want
	for i := range b.Layout().Blocks() {
		buf, err := pool.Get(0)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := b.Read(s.t.Context(), i, []*mem.Buffer{buf}); err != nil {
			s.t.Fatal(err)
		}
		if !bytes.HasPrefix(rest, buf.Bytes()) {
			s.t.Fatalf("it holds other bytes in block %d", i)
		}
		rest = rest[len(buf.Bytes()):]
		buf.Release()
	}
	if len(rest) > 0 {
		s.t.Errorf("it holds %d bytes, want %d", len(want)-len(rest), len(want))
	}
}

// O1: of a changed large file only the changed blocks are sent, where the version that has the others is one's own.
func TestO1ChangedBlocksAreSentAlone(t *testing.T) {
	s := newServed(t)
	content := random(20<<20 + 7)
	first := s.send(s.alice, s.upload("film", content, nil, ""))
	s.wantContent(first.Ref, content)
	s.bytes.Store(0)
	content = append(content, random(100)...) // the last block grows
	content[5*format.BlockBytes] ^= 1
	content[60*format.BlockBytes] ^= 1
	last := (format.Layout{Size: int64(len(content)), BlockBytes: format.BlockBytes}).Blocks() - 1
	second := s.send(s.alice, s.upload("film", content,
		format.Extents{{First: 5, Count: 1}, {First: 60, Count: 1}, {First: last, Count: 1}}, first.Ref))
	s.wantContent(second.Ref, content)
	if n := s.bytes.Load(); n > 3*(format.BlockBytes+format.Overhead) {
		t.Errorf("%d bytes were sent", n)
	}
	var claims atomic.Int64
	s.server.Disturb(wire.PathTools+wire.OpPrepareRetrieve, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			claims.Add(1)
			next.ServeHTTP(w, r)
		})
	})
	for range 3 { // what was saved here needs no claim to be changed
		content[7*format.BlockBytes]++
		second = s.send(s.alice, s.upload("film", content, format.Extents{{First: 7, Count: 1}}, second.Ref))
	}
	if n := claims.Load(); n != 0 {
		t.Errorf("%d claims", n)
	}
	s.wantContent(second.Ref, content)
	s.alice.Forget("g")
	content[7*format.BlockBytes]++
	s.send(s.alice, s.upload("film", content, format.Extents{{First: 7, Count: 1}}, second.Ref))
	if n := claims.Load(); n != 2 { // that of wantContent, and one more
		t.Errorf("%d claims once it is closed", n)
	}
}

// O1: of a version of somebody else the service takes no blocks over: all are sent, with the hash of the content.
func TestO1ChangedLargeFileOfOthers(t *testing.T) {
	s := newServed(t)
	content := random(10 << 20)
	theirs := s.send(s.bob, s.upload("film", content, nil, ""))
	content[3*format.BlockBytes] ^= 1
	r := s.send(s.alice, s.upload("film", content, format.Extents{{First: 3, Count: 1}}, theirs.Ref))
	s.wantContent(r.Ref, content)
	if r.Hash != sdk.ComputeHash(content) {
		t.Error("its hash is another")
	}
}

// What is read of the version below a save is in memory no longer than the save is sent.
func TestO1UnchangedBlocksLeaveMemory(t *testing.T) {
	s := newServed(t)
	content := random(16 << 20)
	ref := s.send(s.bob, s.upload("film", content, nil, "")).Ref
	before := mapped(t)
	for i := range 5 {
		content[3*format.BlockBytes]++
		theirs := s.upload(fmt.Sprint("film", i), content, format.Extents{{First: 3, Count: 1}}, "")
		theirs.Large.From = outbox.From{Group: "g", Ref: ref}
		s.send(s.alice, theirs)
	}
	if grown := mapped(t) - before; grown > 48<<20 {
		t.Errorf("%d MiB of files stay in memory", grown>>20)
	}
}

// mapped returns how much memory for the plaintext of files this process has mapped, in bytes.
func mapped(t *testing.T) (sum int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	var kilobytes int64
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "Size: %d kB", &kilobytes); err == nil {
			continue
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && slices.Contains(strings.Fields(flags), "dd") {
			sum += kilobytes << 10
		}
	}
	return sum
}

// O1, O8: where the version that has the unchanged blocks is gone, the save is refused, and says so.
func TestO1VersionThatIsGone(t *testing.T) {
	s := newServed(t)
	content := random(5 << 20)
	u := s.upload("film", content, format.Extents{{First: 0, Count: 1}}, "nowhere")
	if sent := s.alice.Send(t.Context(), []*outbox.Upload{u}); sdk.KindOf(sent[0].Err) != sdk.ErrNotFound {
		t.Errorf("%v", sent[0].Err)
	}
}

// O3: what arrived of a large save before its process ended is not sent again, of a changed one neither.
func TestO3LargeSaveGoesOn(t *testing.T) {
	for _, changed := range []bool{false, true} {
		s := newServed(t)
		content := random(80 << 20)
		var u *outbox.Upload
		if changed {
			first := s.send(s.alice, s.upload("film", content, nil, ""))
			other := bytes.Clone(content)
			for i := 0; i < len(other); i += int(format.BlockBytes) {
				other[i] ^= 1
			}
			content = other
			l := format.Layout{Size: int64(len(content)), BlockBytes: format.BlockBytes}
			u = s.upload("film", content, format.Extents{{First: 0, Count: l.Blocks() - 1}}, first.Ref)
			content[len(content)-int(format.BlockBytes)] ^= 1 // the last block is as it was
			s.bytes.Store(0)
		} else {
			u = s.upload("film", content, nil, "")
		}
		var mu sync.Mutex
		var kept []saving.Part
		u.Large.Keep = func(p saving.Part) {
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, p)
		}
		ctx, cancel := withTimeout(t, 1<<40)
		enough := func(n int64) {
			if n > 70<<20 {
				cancel()
			}
		}
		s.after.Store(&enough)
		if sent := s.alice.Send(ctx, []*outbox.Upload{u}); sent[0].Err == nil {
			t.Fatal("it was sent as a whole")
		}
		s.after.Store(nil)
		s.asked.Lock() // what was cut is no request of the next process, also if it arrives late
		s.ended.Store(s.session.Load())
		s.bytes.Store(0)
		s.asked.Unlock()
		mu.Lock()
		u.Large.Sent = slices.Clone(kept)
		mu.Unlock()
		again := outbox.NewService(s.server.Client(t, s.who)) // another process
		r := s.send(again, u)
		s.wantContent(r.Ref, content)
		var arrived int64
		for _, p := range u.Large.Sent {
			blocks, err := format.ParseExtents(p.Blocks, u.Large.Layout.Blocks())
			if err != nil {
				t.Fatal(err)
			}
			arrived += blocks.Blocks()
		}
		rest := (u.Large.Changed.Blocks() - arrived) * (format.BlockBytes + format.Overhead)
		if n := s.bytes.Load(); arrived < 128 || n > rest { // 32 MiB: what was on its way may be lost
			t.Errorf("changed %v: %d blocks had arrived, and %d bytes were sent again, want %d", changed, arrived, n, rest)
		}
		if twice := s.send(again, u); twice.Ref != r.Ref { // its answer was lost
			t.Errorf("it was recorded as %s and %s", r.Ref, twice.Ref)
		}
	}
}

// O9: a small save that is sent again, sealed anew, gets the first receipt, also after the file was destroyed; another
// save under its id is refused.
func TestO9SentAgainUnderItsID(t *testing.T) {
	s := newServed(t)
	pool := mem.NewPool()
	small := func(u *outbox.Upload, content string) *outbox.Upload {
		buf, err := pool.Get(int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		copy(buf.Bytes(), content)
		u.Large, u.Content, u.Size, u.Hash = nil, buf, int64(len(content)), sdk.ComputeHash([]byte(content))
		u.Save.Mark = u.Hash
		return u
	}
	u := small(s.upload("a", []byte("x"), nil, ""), "content")
	first := s.send(s.alice, u)
	if again := s.send(s.alice, u); again.Ref != first.Ref {
		t.Errorf("it is recorded as %s and %s", first.Ref, again.Ref)
	}
	if _, err := s.alice.Group("g").Delete(t.Context(), first.Ref); err != nil {
		t.Fatal(err)
	}
	if again := s.send(s.alice, u); again.Ref != first.Ref {
		t.Errorf("destroyed: it is recorded as %s and %s", first.Ref, again.Ref)
	}
	if sent := s.alice.Send(t.Context(), []*outbox.Upload{small(u, "other content")}); sent[0].Err == nil {
		t.Errorf("another save got %v", sent[0].Receipt.Ref)
	}
}
