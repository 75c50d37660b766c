package sdk_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// askBlocks opens a file, reads its first block, then all, and tells what the blocks hold then.
func askBlocks(t *testing.T, g sdk.Group, e sdk.Entry, tell func([][]byte, error)) {
	t.Helper()
	b, err := g.OpenBlocks(t.Context(), e)
	if err != nil {
		tell(nil, err)
		return
	}
	defer b.Close()
	all := buffers(t, b.Layout().Blocks())
	if err = b.Read(t.Context(), 0, all[:1]); err == nil {
		err = b.Read(t.Context(), 0, all)
	}
	var list [][]byte
	for _, buf := range all {
		list = append(list, buf.Bytes())
	}
	tell(list, err)
}

// drain opens a file and returns all that it gives out.
func drain(t *testing.T, g sdk.Group, e sdk.Entry) ([]byte, error) {
	t.Helper()
	f, err := g.OpenEntry(t.Context(), e)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Threat 50: the record says which version a file has. No answer makes a client read it as another.
func TestThreat50NoWayDownOrUp(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	blocks := s.add(t, text(3*small))
	r, err := s.g.Put(t.Context(), "whole", bytes.NewReader([]byte("sealed whole")))
	if err != nil {
		t.Fatal(err)
	}
	whole := s.entry(t, r.Ref)
	b := buffer(t, 0)
	if _, err := s.g.OpenBlocks(t.Context(), whole); sdk.KindOf(err) != sdk.ErrInvalid || s.Hits(wire.PathTools+wire.OpPrepareRetrieve) != 0 {
		t.Errorf("blocks of a file that was sealed whole: %v", err)
	}
	before, err := s.c.Balance(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	hidden := blocks
	hidden.Content = sdk.Digest{} // the service left it out of the list
	if _, err := s.g.Retrieve(t.Context(), hidden, b); sdk.KindOf(err) != sdk.ErrUnsupported || b.Len() > 0 {
		t.Errorf("version 2 without a record of it: %v", err)
	}
	if after, err := s.c.Balance(t.Context(), ""); err != nil || after != before {
		t.Errorf("a refusal cost something: %v", err)
	}
	s.Disturb(wire.PathTools+wire.OpPrepareRetrieve, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked := `{"group_id":"shelf","ipfs_hash":"` + string(blocks.Ref) + `","formats":[1,2]}`
			other := httptest.NewRequest(http.MethodPost, r.URL.Path, strings.NewReader(asked))
			other.Header = r.Header
			next.ServeHTTP(w, other)
		})
	})
	for _, e := range []sdk.Entry{hidden, whole} {
		if _, err := s.g.Retrieve(t.Context(), e, b); sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), "recorded as an earlier one") || b.Len() > 0 {
			t.Errorf("version 2 in answer to version 1: %v", err)
		}
	}
}

// Threat 50: a file that says to have almost 2^53 bytes is opened, and takes no more memory than
// what is read of it. It is not retrieved.
func TestThreat50HugeFilesTakeNoMemory(t *testing.T) { // alone: it measures the memory of the process
	s := newShelf(t, testkit.Ours)
	e := s.entry(t, s.AddHuge(s.alice, s.g.ID, "huge"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f := s.open(t, e)
	for _, off := range []int64{0, 1 << 40, e.Size - 100} {
		if n, err := f.ReadAt(make([]byte, 100), off); n > 0 || err == nil {
			t.Errorf("%d bytes at %d: %v", n, off, err)
		}
	}
	if _, err := f.ReadAt(make([]byte, 100), e.Size); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	b := buffer(t, 0)
	for _, size := range []int64{e.Size, sdk.SizeUnknown} {
		e.Size = size
		if _, err := s.g.Retrieve(t.Context(), e, b); sdk.KindOf(err) != sdk.ErrTooLarge || b.Footprint() > 1<<20 {
			t.Errorf("retrieved into %d bytes: %v", b.Footprint(), err)
		}
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
}

// Threat 50: who may not read a file any more gets no further block of it; a token that ends is
// renewed; blocks that stand still are given up.
func TestThreat50EachReadIsAsked(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours, func(cfg *sdk.Config) { cfg.Timeout = 2 * time.Second })
	bob := s.Account("bob", "100")
	if _, err := s.g.Add(t.Context(), bob.ID); err != nil {
		t.Fatal(err)
	}
	content := text(8 * small)
	e := s.add(t, content)
	c := s.Client(t, bob)
	sdk.Far(c, false) // no block comes with the key
	g := c.Group("shelf")
	read := func(f *sdk.File, block int64) error {
		p := make([]byte, 10)
		n, err := f.ReadAt(p, block*small)
		if err == nil && !bytes.Equal(p, content[block*small:][:10]) || err != nil && n > 0 {
			t.Errorf("%d bytes of block %d: %q, %v", n, block, p, err)
		}
		return err
	}
	f, err := g.OpenEntry(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	refused := false
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !refused {
				refused = true
				answer(401, wire.Error{Error: "expired", Code: wire.CodeInvalidToken})(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	if err := read(f, 0); err != nil || !refused {
		t.Errorf("after the end of a token: %v", err)
	}
	s.Disturb(wire.PathBlocks+"*", nil)
	if _, err := s.g.Revoke(t.Context(), bob.ID); err != nil {
		t.Fatal(err)
	}
	if err := read(f, 2); sdk.KindOf(err) != sdk.ErrNotAuthorized {
		t.Errorf("after a revocation: %v", err)
	}
	mine := s.open(t, e)
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			slow := httptest.NewRecorder()
			next.ServeHTTP(slow, r)
			for name := range slow.Header() {
				w.Header()[name] = slow.Header()[name]
			}
			w.WriteHeader(slow.Code)
			_, _ = w.Write(slow.Body.Bytes()[:100])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
	})
	if err := read(mine, 4); sdk.KindOf(err) != sdk.ErrTimeout {
		t.Errorf("a body that stands still: %v", err)
	}
	s.Disturb(wire.PathBlocks+"*", nil)
	if err := read(mine, 4); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := s.g.Delete(t.Context(), e.Ref); err != nil {
		t.Fatal(err)
	}
	if err := read(mine, 6); sdk.KindOf(err) != sdk.ErrDeleted {
		t.Errorf("after a deletion: %v", err)
	}
}
