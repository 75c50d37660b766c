package sdk_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

const smallBlock = format.MinBlockBytes

// chunkWorld is a service that offers format version 2, with a group and a client.
func chunkWorld(t testing.TB, changes ...func(*sdk.Config)) (*testkit.Server, sdk.Group) {
	t.Helper()
	s := testkit.Start(t, testkit.Ours)
	patience := func(cfg *sdk.Config) { cfg.Timeout = time.Minute }
	c := s.Client(t, s.Account("alice", "100"), append([]func(*sdk.Config){patience}, changes...)...)
	g := c.Group("g")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, g
}

// noise returns n bytes that no two places share.
func noise(n int64) []byte {
	content := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	return content
}

// blocksOf returns a source of blocks.
func blocksOf(content []byte, blockBytes int64) func(int64, []byte) (int, error) {
	return func(i int64, into []byte) (int, error) { return copy(into, content[i*blockBytes:]), nil }
}

// begin begins an upload, which ends with the test.
func begin(t testing.TB, g sdk.Group, base *sdk.Blocks) *sdk.BlockUpload {
	t.Helper()
	u, err := g.BeginBlocks(t.Context(), base, smallBlock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Abandon)
	return u
}

func extents(first, count int64) format.Extents { return format.Extents{{First: first, Count: count}} }

// newest returns the newest record of a name.
func newest(t testing.TB, g sdk.Group, name string) sdk.Entry {
	t.Helper()
	e, err := g.Stat(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// readBlocks reads a whole file of format version 2.
func readBlocks(t testing.TB, g sdk.Group, e sdk.Entry) []byte {
	t.Helper()
	return contentOf(t, openBlocks(t, g, e))
}

// contentOf reads an open file to its end, and closes it.
func contentOf(t testing.TB, b *sdk.Blocks) []byte {
	t.Helper()
	defer b.Close()
	pool := mem.NewPool()
	content := make([]byte, 0, b.Layout().Size)
	for i := range b.Layout().Blocks() {
		buf, err := pool.Get(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Read(t.Context(), i, []*mem.Buffer{buf}); err != nil {
			t.Fatal(err)
		}
		content = append(content, buf.Bytes()...)
		buf.Release()
	}
	return content
}

func openBlocks(t testing.TB, g sdk.Group, e sdk.Entry) *sdk.Blocks {
	t.Helper()
	b, err := g.OpenBlocks(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// Parts go in any order, at the same time, and again; the file is what was sent last.
func TestBlockUpload(t *testing.T) {
	t.Parallel()
	s, g := chunkWorld(t)
	content := noise(200*smallBlock + 12_345)
	u := begin(t, g, nil)
	if u.TakesOver() || u.PartBlocks() != 64 {
		t.Fatalf("takes over %t, %d blocks a part", u.TakesOver(), u.PartBlocks())
	}
	put := func(e format.Extents, content []byte) {
		if err := u.PutPart(t.Context(), e, blocksOf(content, smallBlock)); err != nil {
			t.Error(err)
		}
	}
	wrong := noise(201 * smallBlock)[1000:]
	put(extents(0, 64), wrong) // replaced as a whole
	put(extents(100, 7), wrong)
	put(format.Extents{{First: 3, Count: 2}, {First: 9, Count: 1}}, wrong)
	put(extents(0, 64), content)
	var all sync.WaitGroup
	for _, e := range []format.Extents{extents(128, 73), extents(64, 36), extents(107, 21), {{First: 100, Count: 3}, {First: 104, Count: 3}}} {
		all.Go(func() { put(e, content) })
	}
	all.Wait()
	put(extents(103, 1), content)
	if missing := u.Missing(int64(len(content))); missing != nil {
		t.Fatalf("missing %s", missing)
	}
	r, err := u.Finish(t.Context(), "f", int64(len(content)), sha256.Sum256(content))
	if err != nil {
		t.Fatal(err)
	}
	again, err := u.Finish(t.Context(), "f", int64(len(content)), sha256.Sum256(content))
	if err != nil || again != r || s.Records() != 1 {
		t.Errorf("again: %+v, %v; %d records", again, err, s.Records())
	}
	e := newest(t, g, "f")
	if e.Ref != r.Ref || e.Content != r.Content || e.Hash != r.Hash || e.Size != r.Size || r.Content == (sdk.Digest{}) {
		t.Errorf("recorded %+v, receipt %+v", e, r)
	}
	if got := readBlocks(t, g, e); !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d come back, or others", len(got), len(content))
	}
	if err := u.PutPart(t.Context(), extents(0, 1), blocksOf(content, smallBlock)); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("a part after the end: %v", err)
	}
}

// A new version takes over what did not change, by runs, groups and single blocks.
func TestBlockUploadTakesOver(t *testing.T) {
	t.Parallel()
	s, g := chunkWorld(t)
	content := noise(259*smallBlock + 99)
	record := func(u *sdk.BlockUpload, size int64, hash sdk.Digest) (sdk.Receipt, error) {
		return u.Finish(t.Context(), "f", size, hash)
	}
	first := begin(t, g, nil)
	if err := first.PutPart(t.Context(), extents(0, 260), blocksOf(content, smallBlock)); err != nil {
		t.Fatal(err)
	}
	if _, err := record(first, int64(len(content)), sdk.ComputeHash(content)); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct {
		name  string
		size  int64
		sends format.Extents
		knows bool
	}{
		{"append within a block", 259*smallBlock + 5000, extents(259, 1), true},
		{"append blocks", 261*smallBlock + 1, extents(259, 3), false},
		{"change here and there", 261*smallBlock + 1, format.Extents{{First: 0, Count: 1}, {First: 140, Count: 2}, {First: 261, Count: 1}}, false},
		{"cut", 256*smallBlock - 1, extents(255, 1), false},
	} {
		t.Run(change.name, func(t *testing.T) {
			base := openBlocks(t, g, newest(t, g, "f"))
			u := begin(t, g, base)
			if !u.TakesOver() {
				t.Fatal("nothing is taken over")
			}
			next := append(bytes.Clone(content[:min(change.size, int64(len(content)))]), make([]byte, max(0, change.size-int64(len(content))))...)
			for _, x := range change.sends {
				_, _ = rand.NewChaCha8([32]byte{2}).Read(next[x.First*smallBlock : min((x.First+x.Count)*smallBlock, change.size)])
			}
			if missing := u.Missing(change.size); base.Layout().Size != change.size && (missing.Blocks() == 0 || missing.Blocks() > change.sends.Blocks()) {
				t.Errorf("missing %s before", missing)
			}
			if err := u.PutPart(t.Context(), change.sends, blocksOf(next, smallBlock)); err != nil {
				t.Fatal(err)
			}
			var hash sdk.Digest
			if change.knows {
				hash = sdk.ComputeHash(next)
			}
			r, err := record(u, change.size, hash)
			if err != nil {
				t.Fatal(err)
			}
			e := newest(t, g, "f")
			if e.Ref != r.Ref || e.Hash != hash {
				t.Errorf("recorded %+v, receipt %+v", e, r)
			}
			claims := s.Hits(wire.PathTools + wire.OpPrepareRetrieve)
			opened := u.Opened()
			if opened == nil || u.Opened() != nil {
				t.Fatal("what was recorded is not open, or twice")
			}
			if got := contentOf(t, opened); !bytes.Equal(got, next) {
				t.Error("other content is open after it was recorded")
			}
			if n := s.Hits(wire.PathTools+wire.OpPrepareRetrieve) - claims; n != 0 {
				t.Errorf("reading it asked for %d claims", n)
			}
			if got := readBlocks(t, g, e); !bytes.Equal(got, next) {
				t.Error("other content comes back")
			}
			content = next
		})
	}
}

// What cannot be recorded says why, and nothing is.
func TestBlockUploadRefuses(t *testing.T) {
	t.Parallel()
	s, g := chunkWorld(t)
	content := noise(3 * smallBlock)
	u := begin(t, g, nil)
	broken := errors.New("the disk is broken")
	for name, read := range map[string]func(int64, []byte) (int, error){
		"error":        func(int64, []byte) (int, error) { return 0, broken },
		"end of input": func(int64, []byte) (int, error) { return 0, errors.Join(broken, context.DeadlineExceeded) },
		"empty":        func(int64, []byte) (int, error) { return 0, nil },
		"short": func(i int64, into []byte) (int, error) {
			return len(into) - 1 + int(i), nil // the first of two
		},
	} {
		err := u.PutPart(t.Context(), extents(0, 2), read)
		if (name == "error" || name == "end of input") != errors.Is(err, broken) || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := u.PutPart(t.Context(), extents(0, 3), blocksOf(content[:2*smallBlock+9], smallBlock)); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"shorter": 2*smallBlock + 8, "longer": 3 * smallBlock, "more blocks": 5 * smallBlock} {
		if _, err := u.Finish(t.Context(), "f", size, sdk.ComputeHash(content)); !errors.Is(err, sdk.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := u.Finish(t.Context(), "f", 2*smallBlock+9, sdk.Digest{}); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("no hash: %v", err)
	}
	if s.Records() != 0 {
		t.Errorf("%d records", s.Records())
	}
	u.Abandon()
	if err := u.PutPart(t.Context(), extents(0, 1), blocksOf(content, smallBlock)); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("after the end: %v", err)
	}
}

// An upload without an answer that was surely not recorded, because another version came, is recorded under another
// name with the parts that are there.
func TestBlockUploadThatWasOvertaken(t *testing.T) {
	t.Parallel()
	s, g := chunkWorld(t)
	content := noise(3 * smallBlock)
	u := begin(t, g, nil)
	if err := u.PutPart(t.Context(), extents(0, 3), blocksOf(content, smallBlock)); err != nil {
		t.Fatal(err)
	}
	finish := func(name string) (sdk.Receipt, error) {
		return u.Finish(t.Context(), name, int64(len(content)), sdk.ComputeHash(content),
			sdk.PutOptions{Base: new(sdk.Ref(""))})
	}
	s.DisturbUploads(cut)
	if _, err := finish("f"); sdk.KindOf(err) != sdk.ErrUnavailable {
		t.Fatal(err)
	}
	s.DisturbUploads(nil)
	_, err := finish("g")
	if wantUnsure(t, "before the outcome is known", err, true); !errors.Is(err, sdk.ErrInvalid) {
		t.Error(err)
	}
	if _, err := g.Put(t.Context(), "f", bytes.NewReader([]byte("of another"))); err != nil {
		t.Fatal(err)
	}
	if _, err := finish("f"); codeOf(err) != wire.CodeHead {
		t.Fatal(err)
	}
	if _, err := finish("g"); err != nil {
		t.Fatal(err)
	}
	if got := readBlocks(t, g, newest(t, g, "g")); !bytes.Equal(got, content) || s.Records() != 2 {
		t.Errorf("%d records, and %d bytes come back", s.Records(), len(got))
	}
}

// A service that records other blocks, another key or another size than those sent is found out by its
// own receipt.
func TestReceiptOfBlocks(t *testing.T) {
	t.Parallel()
	s, g := chunkWorld(t)
	content := noise(3 * smallBlock)
	u := begin(t, g, nil)
	if err := u.PutPart(t.Context(), extents(0, 3), blocksOf(content, smallBlock)); err != nil {
		t.Fatal(err)
	}
	s.Disturb(wire.PathSealed+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, s.NewHead(r, "alice."+testkit.ContractID, func(h *wire.SealedHead) {
				at := bytes.Index(h.Format, []byte(`"key_check":"`)) + len(`"key_check":"`)
				h.Format[at] = map[bool]byte{true: '1', false: '0'}[h.Format[at] == '0'] // another hex digit
			}))
		})
	})
	_, err := u.Finish(t.Context(), "f", int64(len(content)), sdk.ComputeHash(content))
	if !errors.Is(err, sdk.ErrCorrupt) || codeOf(err) != wire.CodeReceipt || s.Records() != 1 {
		t.Errorf("%v, code %s, %d records", err, codeOf(err), s.Records())
	}
	wantUnsure(t, "a receipt that proves nothing", err, true)
}

// Uploads without an answer keep their keys only as long as they may be sent again.
func TestKeptUploadsAreWiped(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(c *sdk.Client){
		"too many": func(c *sdk.Client) {
			for i := range sdk.KeptManifests {
				sdk.KeepManifest(c, fmt.Sprint(i))
			}
		},
		"closed": func(c *sdk.Client) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := testkit.Start(t, testkit.Ours)
			c := s.Client(t, s.Account("alice", "100"))
			kept := sdk.KeepManifest(c, "f")
			if !kept.HasKey() {
				t.Fatal("it was wiped at once")
			}
			ends(c)
			if kept.HasKey() {
				t.Error("its key is in memory still")
			}
		})
	}
}

// An upload that is given up while it is finished is recorded as it was sent, or not at all.
func TestAbandonWhileFinishing(t *testing.T) {
	t.Parallel()
	_, g := chunkWorld(t)
	content := noise(40 * smallBlock)
	for range 8 {
		u := begin(t, g, nil)
		if err := u.PutPart(t.Context(), extents(0, 40), blocksOf(content, smallBlock)); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(u.Abandon)
		_, err := u.Finish(t.Context(), "f", int64(len(content)), sdk.ComputeHash(content))
		both.Wait()
		if err != nil && !errors.Is(err, sdk.ErrInvalid) {
			t.Fatal(err)
		}
		if err == nil && !bytes.Equal(readBlocks(t, g, newest(t, g, "f")), content) {
			t.Fatal("other content comes back")
		}
	}
}
