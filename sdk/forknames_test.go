package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/testkit"
)

// twoNames is a group with docs/a and docs/b, which alice reads in parts and remembers.
func twoNames(t *testing.T) (s *testkit.Server, again func() *sdk.Client) {
	t.Helper()
	s = testkit.Start(t, testkit.Ours)
	alice, dir := s.Account("alice", "1000"), t.TempDir()
	again = func() *sdk.Client {
		return s.Client(t, alice, func(cfg *sdk.Config) { cfg.SmallGroup, cfg.StateDir = -1, dir })
	}
	g := again().Group("g")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	putText(t, g, "docs/a")
	putText(t, g, "docs/b")
	return s, again
}

// hideB is a root of names without docs/b.
func hideB(l *testkit.Log, living *chain.Replay) []chain.Record {
	living.Drop("docs/b", l.Uploaded("docs/b", 1))
	return nil
}

func mustContradict(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, sdk.ErrCorrupt) || errorCode(err) != wire.CodeHistory ||
		!strings.Contains(err.Error(), "two histories: as the names of one group") {
		t.Errorf("%s: %v", what, err)
	}
}

// Threat 76: a service that hid a name with a signed root, and is honest to who verifies the ledger later, is found: by
// any program of the account, and it stays refused until the history is forgotten.
func TestThreat76OneRootForAQuestionAndAnotherToVerify(t *testing.T) {
	t.Parallel()
	t.Run("at once", func(t *testing.T) { rootForAQuestion(t, 1<<30) })
	t.Run("in shares", func(t *testing.T) { rootForAQuestion(t, 3000) })
}

func rootForAQuestion(t *testing.T, share int64) {
	s, client := twoNames(t)
	again := func() *sdk.Client {
		c := client()
		sdk.SetShare(c, share)
		return c
	}
	s.TellNames(hideB)
	liedTo := again()
	if _, err := liedTo.Group("g").Child(t.Context(), "docs/b"); !errors.Is(err, sdk.ErrNotFound) {
		t.Fatalf("the lie is not told: %v", err)
	}
	s.TellNames(nil)
	for i := range 5 { // the chain goes on
		putText(t, liedTo.Group("g"), fmt.Sprint("docs/more ", i))
	}
	if err := liedTo.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := again().Group("g").Verify(t.Context())
	mustContradict(t, "verified", err)
	c := again()
	g := c.Group("g")
	_, err = g.Verify(t.Context())
	mustContradict(t, "verified again", err)
	_, err = g.Child(t.Context(), "docs/b")
	mustContradict(t, "asked once more", err)
	if err := c.AcceptRollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// Threat 76: two questions at one place of the chain get the same root of names, or the second is refused.
func TestThreat76TwoRootsForTwoQuestions(t *testing.T) {
	t.Parallel()
	s, again := twoNames(t)
	g := again().Group("g")
	for range 2 {
		if c, err := g.Child(t.Context(), "docs/b"); err != nil || c.File == nil {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if _, err := g.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.TellNames(hideB)
	_, err := g.Child(t.Context(), "docs/b")
	mustContradict(t, "a name", err)
	_, err = g.Entries(t.Context())
	mustContradict(t, "a list", err)
}

// Threat 76: a version that the service invented passes no Stat and no Open, though a signed root of names has it: its
// record is not in the log, or has no place there.
func TestThreat76InventedVersionIsInNoLog(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	honest, _ := inParts(t, s)
	putText(t, honest, "docs/b")
	g := s.Client(t, s.Account("bob", "1000"), func(cfg *sdk.Config) { cfg.SmallGroup = -1 }).Group("g")
	if _, err := honest.Add(t.Context(), "bob.svc.testnet"); err != nil {
		t.Fatal(err)
	}
	if e, err := honest.Stat(t.Context(), "docs/b"); err != nil || e.Name != "docs/b" {
		t.Fatalf("%+v, %v", e, err)
	}
	told := testkit.OpeningFor("pay Mallory")
	r := chain.Record{Tx: "tx", TimeNS: 1, Kind: chain.KindRecord, Account: "alice.svc.testnet", Group: "g",
		Ref: "bafyinvented", FileHash: told.Commitment(), Detail: "docs/b", Fee: "0",
		Chain: chain.OfGroup("g"), Number: 9}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	s.TellNames(func(l *testkit.Log, living *chain.Replay) []chain.Record {
		if asked++; asked == 5 {
			cancel()
		}
		l.Know(told)
		if r.Seq > 0 {
			r.Seq = l.Uploaded("docs/b", 1).Number
		}
		living.Put("docs/b", chain.Living{Ref: r.Ref, Place: chain.PlaceOf(&r)})
		return []chain.Record{r}
	})
	if c, err := g.Child(t.Context(), "docs/b"); err != nil || c.File == nil || c.File.Ref != "bafyinvented" {
		t.Fatalf("the lie is not told: %+v, %v", c, err)
	}
	r.Seq = 1
	for what, try := range map[string]func() error{
		"stat": func() error { return second(g.Stat(t.Context(), "docs/b")) },
		"open": func() error { return second(g.Open(t.Context(), "docs/b")) },
	} {
		if err := try(); !errors.Is(err, sdk.ErrCorrupt) ||
			!strings.Contains(err.Error(), "another record was signed") {
			t.Errorf("%s: %v", what, err)
		}
	}
	r.Seq = 0
	if e, err := g.Stat(ctx, "docs/b"); !errors.Is(err, sdk.ErrCanceled) {
		t.Errorf("without a place: %+v, %v", e, err)
	}
}

// Threat 8: empty pages of a folder come to an end, also where the service proves each of them.
func TestThreat8EmptyPagesEnd(t *testing.T) {
	t.Parallel()
	s, again := twoNames(t)
	s.TellEmptyPages(10)
	list, err := again().Group("g").Children(t.Context(), "")
	if !errors.Is(err, sdk.ErrCorrupt) || !strings.Contains(err.Error(), "have no end") || len(list) > 0 {
		t.Errorf("%d children, %v", len(list), err)
	}
	if n := s.Hits(partPath); n > 300 {
		t.Errorf("%d pages were read", n)
	}
}

// Threat 76: a version whose record is of another group is refused, also where the signed root of names has its hash.
func TestThreat76RecordOfAnotherGroup(t *testing.T) {
	t.Parallel()
	s, again := twoNames(t)
	told := testkit.OpeningFor("of another group")
	r := chain.Record{Seq: 1, Tx: "tx", TimeNS: 1, Kind: chain.KindRecord, Account: "alice.svc.testnet", Group: "h",
		Ref: "bafyother", FileHash: told.Commitment(), Detail: "docs/b", Fee: "0", Chain: chain.OfGroup("h"), Number: 9}
	s.TellNames(func(l *testkit.Log, living *chain.Replay) []chain.Record {
		l.Know(told)
		living.Put("docs/b", chain.Living{Ref: r.Ref, Place: chain.PlaceOf(&r)})
		return []chain.Record{r}
	})
	c, err := again().Group("g").Child(t.Context(), "docs/b")
	if !errors.Is(err, sdk.ErrCorrupt) || !strings.Contains(err.Error(), "does not prove the record") {
		t.Errorf("%+v, %v", c, err)
	}
}
