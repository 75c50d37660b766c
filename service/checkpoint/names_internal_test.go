package checkpoint

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// rootOf asks for the root of names of group g.
func rootOf(t *testing.T, f *following, s *store.Store) (root *chain.Hash, l *lag) {
	t.Helper()
	err := s.Read(t.Context(), func(tx *store.Tx) error {
		head, err := ledger.ChainEnd(t.Context(), tx, chain.OfGroup("g"))
		if err == nil {
			q := Question{Group: "g", Names: func(context.Context, *store.Tx, *chain.Names) error { return nil }}
			root, l, err = f.root(t.Context(), tx, q, head)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return root, l
}

func grow(t *testing.T, s *store.Store, records int) {
	t.Helper()
	l := ledger.New(nil, ledger.Bounds{}, time.Now)
	err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		for range records {
			r := chain.Record{Kind: chain.KindRegister, Account: "a", Group: "g"}
			if _, err := l.Append(t.Context(), tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A group whose names take long holds up no other; while it is read there is no root, and who asks waits for a while,
// or as long as it likes. A tree that is behind is brought up by itself.
func TestThreat31SlowNamesHoldUpNoOther(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	grow(t, s, 1)
	f := newFollowing(s, 0, slog.New(slog.DiscardHandler))
	defer f.end()
	if cap(f.slots) != leastJobs || cap(newFollowing(s, 1<<40, nil).slots) < 1000 {
		t.Errorf("there is room for %d", cap(f.slots))
	}
	for range leastJobs {
		f.slots <- struct{}{} // groups that take long
	}
	if root, l := rootOf(t, f, s); root != nil || l == nil {
		t.Error("a root without a tree")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.wait(gone, "g", lag{}); !errors.Is(err, context.Canceled) {
		t.Errorf("who does not wait: %v", err)
	}
	if first, again := f.start("g", lag{}), f.start("g", lag{}); first != again {
		t.Error("two tasks for one group")
	}
	if err := f.wait(t.Context(), "g", lag{}); err != nil {
		t.Error(err)
	}
	if root, _ := rootOf(t, f, s); root != nil {
		t.Error("a root without room for a task")
	}
	<-f.slots // one is enough
	<-f.start("g", lag{}).done
	if root, l := rootOf(t, f, s); root == nil || l != nil {
		t.Error("no root")
	}
	grow(t, s, 3*atOnce)
	if root, l := rootOf(t, f, s); root != nil || l == nil {
		t.Error("a question brings up a tree that is far behind")
	}
	if err := f.wait(t.Context(), "g", lag{}); err != nil {
		t.Error(err)
	}
	if root, _ := rootOf(t, f, s); root == nil {
		t.Error("no root after the tree was brought up")
	}
	f.end()
	if f.start("g", lag{}) != nil {
		t.Error("a task after the end")
	}
}
