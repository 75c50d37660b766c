package checkpoint_test

import (
	"context"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// following is a key in a vault that follows the log.
type following struct {
	keyOf
	tree         vaultwire.Tree
	asked, signs func() // called once, before the answer; nil = nothing
	always       func() // called before each answer
}

func (f *following) NewestTree(context.Context) (vaultwire.Tree, error) {
	once(&f.asked)
	if f.always != nil {
		f.always()
	}
	return f.tree, nil
}

func (f *following) Sign(ctx context.Context, q vaultwire.Sign) ([]byte, error) {
	once(&f.signs)
	if err := q.Tree.Follows(f.tree, q.Proof); err != nil {
		return nil, err
	}
	f.tree = *q.Tree
	return f.keyOf.Sign(ctx, q)
}

func once(f *func()) {
	if now := *f; now != nil {
		*f = nil
		now()
	}
}

// Two processes at one vault sign as they come: who was overtaken, at whatever step, reads on and signs all.
func TestTwoLogsAtOneVault(t *testing.T) {
	s, dir := ledgerOf(t, 5)
	key := &following{keyOf: theKey()}
	one, two := openAt(t, s, dir, new(settled), key), openAt(t, s, t.TempDir(), new(settled), key)
	update := func(l *checkpoint.Log, want int64) {
		t.Helper()
		if err := l.Update(t.Context()); err != nil || key.tree.Records != want {
			t.Fatalf("%d records are signed, want %d: %v", key.tree.Records, want, err)
		}
	}
	update(one, 5)
	update(two, 5)
	five := key.tree
	appendRows(t, s, 3)
	update(one, 8)
	update(two, 8)
	eight := key.tree
	overtake := func() {
		appendRows(t, s, 1)
		if err := one.Update(t.Context()); err != nil {
			t.Error(err)
		}
	}
	appendRows(t, s, 1)
	key.signs = overtake
	update(two, 10)
	appendRows(t, s, 1)
	key.asked = overtake
	update(two, 12)
	appendRows(t, s, 1)
	key.tree, key.signs = five, func() { key.tree = eight } // another one signs fewer than this one has
	update(two, 13)
	key.always = func() {
		f := key.always
		key.always = nil
		overtake()
		key.always = f
	}
	appendRows(t, s, 1)
	if err := two.Update(t.Context()); err == nil || !two.Behind() {
		t.Errorf("it is overtaken for ever: %v", err)
	}
	key.always = nil
	update(two, key.tree.Records)
}

// A ledger that lacks what the vault signed, or has something else there, is not signed any more.
func TestThreat77AnotherLedgerIsNotSigned(t *testing.T) {
	for what, n := range map[string]int{"an earlier state": 3, "other records": 7} {
		s, dir := ledgerOf(t, 5)
		key := &following{keyOf: theKey()}
		if err := openAt(t, s, dir, new(settled), key).Update(t.Context()); err != nil {
			t.Fatal(err)
		}
		other, dir := ledgerOf(t, n)
		l := openAt(t, other, dir, new(settled), key)
		err := l.Update(t.Context())
		if err == nil || !strings.Contains(err.Error(), "restart svcvault") || !l.Behind() || key.tree.Records != 5 {
			t.Errorf("%s: %v, and %d records are signed", what, err, key.tree.Records)
		}
		key.tree = vaultwire.Tree{} // svcvault was restarted
		if err := l.Update(t.Context()); err != nil || l.Behind() || key.tree.Records != int64(n) {
			t.Errorf("%s, on purpose: %v, and %d records are signed", what, err, key.tree.Records)
		}
	}
}
