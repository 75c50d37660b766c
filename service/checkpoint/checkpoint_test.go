package checkpoint_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
	"github.com/svcfs/svcfs/service/witness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledgerOf makes a database with n records.
func ledgerOf(t testing.TB, n int) (*store.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	appendRows(t, s, n)
	return s, dir
}

func appendRows(t testing.TB, s *store.Store, n int) {
	t.Helper()
	l := ledger.New(nil, ledger.Bounds{}, time.Now)
	err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		for i := range n {
			if _, err := l.Append(t.Context(), tx, chain.Record{Kind: "nothing that a table holds",
				Account: "alice.svc.testnet", Group: fmt.Sprint("g", i%100)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// settled says that every record has its place, and keeps who wants to know of commits.
type settled struct {
	told func()
	now  func() time.Time // the clock of its log; nil = the real one
}

func (*settled) Settle(context.Context) error { return nil }

func (s *settled) OnCommit(f func()) { s.told = f }

// keyOf is a key of the log in the memory of the test.
type keyOf ed25519.PrivateKey

func (k keyOf) Public() ed25519.PublicKey {
	return ed25519.PrivateKey(k).Public().(ed25519.PublicKey)
}

func (keyOf) Version() int64 { return 1 }

func (keyOf) Unvouched(context.Context, vaultwire.LettingIn) (a vaultwire.Unvouched, err error) {
	return a, nil
}

func (keyOf) Follow(context.Context, vaultwire.Follow) (vaultwire.Followed, error) {
	return vaultwire.Followed{}, vaultwire.ErrNotFollowing
}

func (k keyOf) Sign(_ context.Context, q vaultwire.Sign) (s vaultwire.Signed, err error) {
	text, err := q.Text(nil, s.Opens, time.Now())
	s.Signature = ed25519.Sign(ed25519.PrivateKey(k), text)
	return s, err
}

func open(t testing.TB, s *store.Store, dir string) *checkpoint.Log {
	t.Helper()
	return openWith(t, s, dir, new(settled))
}

func openWith(t testing.TB, s *store.Store, dir string, places *settled) *checkpoint.Log {
	t.Helper()
	return openAt(t, s, dir, places, &following{keyOf: theKey()})
}

func theKey() keyOf { return keyOf(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))) }

func openAt(t testing.TB, s *store.Store, dir string, places *settled, key checkpoint.Key) *checkpoint.Log {
	t.Helper()
	return openFor(t, s, dir, places, key, nil)
}

func openFor(t testing.TB, s *store.Store, dir string, places *settled, key checkpoint.Key,
	w *witness.Client) *checkpoint.Log {
	t.Helper()
	keys := func(context.Context, *store.Tx) ([]checkpoint.Key, error) { return []checkpoint.Key{key}, nil }
	now := places.now
	if now == nil {
		now = time.Now
	}
	l := checkpoint.New(s, dir, checkpoint.Origin("files.example.org", "svc.testnet"), keys, places, w,
		64<<20, slog.New(slog.DiscardHandler), now)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Trees that grow in steps of any size, over pages and tiles, are the tree that
// an audit computes at once.
func TestTreesGrowInSteps(t *testing.T) {
	s, dir := ledgerOf(t, 0)
	l := open(t, s, dir)
	size := int64(0)
	for _, step := range []int{0, 1, 1, 254, 1, 4096, 3} {
		appendRows(t, s, step)
		size += int64(step)
		if step%2 == 1 { // as after a restart
			l = open(t, s, dir)
		}
		if err := l.Update(t.Context()); err != nil {
			t.Fatalf("%d records: %v", size, err)
		}
		got, err := l.Audit(t.Context(), checkpoint.FilesAtOnce)
		if err != nil || got.Records != size || got.Signed != size {
			t.Fatalf("%d records: audit %+v, %v", size, got, err)
		}
	}
}

// A log that runs stops where an earlier state of the ledger was brought back under it, which may have grown since.
func TestLedgerBecomesShorter(t *testing.T) {
	for _, more := range []int{0, 1, 2, 3} {
		s, dir := ledgerOf(t, 12)
		l := open(t, s, dir)
		if err := l.Update(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
			return tx.Do(t.Context(), "shorten", "DROP TRIGGER ledger_no_delete; DELETE FROM ledger WHERE seq > 10")
		})
		if err != nil {
			t.Fatal(err)
		}
		appendRows(t, s, more)
		err = l.Update(t.Context())
		if more == 2 { // nothing is signed before the next row
			appendRows(t, s, 1)
			err = l.Update(t.Context())
		}
		if !errors.Is(err, checkpoint.ErrContradiction) || l.Signed() != 12 ||
			!strings.Contains(err.Error(), "row 12") {
			t.Errorf("2 rows less and %d more: %d are signed, %v", more, l.Signed(), err)
		}
	}
}

// While a process commits, its log signs without waiting for the next look of an idle one.
func TestCommitsAreFollowed(t *testing.T) {
	s, dir := ledgerOf(t, 1)
	places := new(settled)
	l := openWith(t, s, dir, places)
	l.LookSeldom()
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.Run(ctx)
	}()
	for n := range int64(3) {
		proctest.Eventually(t, "the newest record is signed", func() bool { return l.Signed() == n+1 })
		appendRows(t, s, 1)
		places.told()
	}
	stop()
	<-over
}

// A passing fault does not stop the checkpoints.
func TestFaultsThatPass(t *testing.T) {
	s, dir := ledgerOf(t, 5)
	l := open(t, s, dir)
	tree := filepath.Join(dir, checkpoint.Dir)
	if err := os.WriteFile(tree, nil, 0o600); err != nil { // where the folder should be
		t.Fatal(err)
	}
	if err := l.Update(t.Context()); err == nil {
		t.Error("an update without a folder succeeded")
	}
	if err := os.Remove(tree); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Update(gone); err == nil {
		t.Error("an update without time succeeded")
	}
	if err := l.Update(t.Context()); err != nil || l.Problem() != nil {
		t.Errorf("it did not recover: %v, %v", err, l.Problem())
	}
}

// Run ends with its context and signs the records that come meanwhile.
func TestRun(t *testing.T) {
	s, dir := ledgerOf(t, 5)
	l := open(t, s, dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	proctest.Eventually(t, "all is signed", func() bool {
		got, err := l.Audit(t.Context(), checkpoint.FilesAtOnce)
		return err == nil && got.Signed == 5
	})
	cancel()
	<-done
}

// BenchmarkUpdate: the first tree over 100 000 records, the comparison after a
// restart, one more record, and an audit.
func BenchmarkUpdate(b *testing.B) {
	s, dir := ledgerOf(b, 100_000)
	update := func(l *checkpoint.Log) {
		if err := l.Update(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			if err := os.RemoveAll(filepath.Join(dir, checkpoint.Dir)); err != nil {
				b.Fatal(err)
			}
			update(open(b, s, dir))
		}
	})
	b.Run("restart", func(b *testing.B) {
		for b.Loop() {
			update(open(b, s, dir))
		}
	})
	l := open(b, s, dir)
	update(l)
	b.Run("one more", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			appendRows(b, s, 1)
			b.StartTimer()
			update(l)
		}
	})
	b.Run("nothing new", func(b *testing.B) {
		for b.Loop() {
			update(l)
		}
	})
	b.Run("audit", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.Audit(b.Context(), checkpoint.FilesAtOnce); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Whatever path is asked for, the answer is a tile of the signed tree or 404.
func TestAnyTilePath(t *testing.T) {
	s, dir := ledgerOf(t, 300)
	l := open(t, s, dir)
	if err := l.Update(t.Context()); err != nil {
		t.Fatal(err)
	}
	handler := l.Handler(func(w http.ResponseWriter, _ *http.Request, err error) {
		w.WriteHeader(fault.Of(err).Status())
	})
	part := rapid.OneOf(rapid.SampledFrom([]string{"0", "1", "2", "7", "63", "64", "-1", "8", "entries", "data", "000",
		"001", "002", "x000", "x999", "999",
		"000.p", "001.p", "44", "45", "255", "256", "..", ""}), rapid.StringMatching(`[-x.p0-9]{1,24}`))
	rapid.Check(t, func(t *rapid.T) {
		path := strings.Join(rapid.SliceOfN(part, 1, 8).Draw(t, "path"), "/")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tlog/tile/x", nil)
		r.URL.Path = "/tlog/tile/" + path
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		switch {
		case w.Code == http.StatusNotFound, w.Code >= 300 && w.Code < 400: // the router cleans ..
		case w.Code != http.StatusOK || w.Body.Len() == 0 || w.Body.Len() > 256*34:
			t.Errorf("%q: %d, %d bytes", path, w.Code, w.Body.Len())
		}
	})
}
