package proof_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// history is a ledger with its log, held in memory.
type history struct {
	t         testing.TB
	rows      []chain.Row
	hashes    []tlog.Hash
	signer    note.Signer
	key       string
	size      int // of the checkpoint; 0 = all rows
	tile      func(path string, raw []byte) []byte
	fetches   map[string]int
	unreached string // path that cannot be fetched
}

const origin = "files.example.org/svc.testnet"

// newHistory has n rows, every third in the group "team".
func newHistory(t testing.TB, n int, change ...func(*chain.Row)) *history {
	t.Helper()
	h := &history{t: t, fetches: map[string]int{}}
	h.setKey('k', origin)
	for i := range n {
		r := chain.Row{Record: chain.Record{Seq: int64(i + 1), TimeNS: int64(i) + 1e18, Tx: fmt.Sprint("tx", i), Kind: "record_transaction", Account: "alice.svc.testnet",
			Group: []string{"team", "other", "third"}[i%3], Ref: fmt.Sprint("ref", i), Fee: "39", Request: "r"}}
		for _, f := range change {
			f(&r)
		}
		if i > 0 {
			r.Prev = h.rows[i-1].Hash
		}
		r.Hash = r.Sum()
		h.rows = append(h.rows, r)
		hashes, err := tlog.StoredHashesForRecordHash(int64(i), tlog.RecordHash(r.Hash[:]), h)
		if err != nil {
			t.Fatal(err)
		}
		h.hashes = append(h.hashes, hashes...)
	}
	return h
}

func (h *history) setKey(seed byte, name string) {
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(seed), ed25519.SeedSize)))
	var err error
	if h.key, err = note.NewEd25519VerifierKey(name, private.Public().(ed25519.PublicKey)); err != nil {
		h.t.Fatal(err)
	}
	v, err := note.NewVerifier(h.key)
	if err != nil {
		h.t.Fatal(err)
	}
	h.signer = signer{v, private}
}

type signer struct {
	note.Verifier
	key ed25519.PrivateKey
}

func (s signer) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.key, text), nil }

func (h *history) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		out[i] = h.hashes[x]
	}
	return out, nil
}

func (h *history) team() []chain.Row {
	var rows []chain.Row
	for _, r := range h.rows {
		if r.Group == "team" {
			rows = append(rows, r)
		}
	}
	return rows
}

var errUnreached = errors.New("connection refused")

func (h *history) fetch(_ context.Context, path string) ([]byte, error) {
	if path == h.unreached {
		return nil, errUnreached
	}
	switch {
	case path == "key":
		return []byte(h.key + "\n"), nil
	case path == "checkpoint":
		return h.checkpoint(fmt.Sprintf("%s\n%d\n%s\n", h.signer.Name(), h.signed(), h.root())), nil
	}
	tile, err := tlog.ParseTilePath(strings.Replace(path, "tile/", "tile/8/", 1))
	if err != nil {
		return nil, err
	}
	raw, err := tlog.ReadTileData(tile, h)
	if err == nil && h.tile != nil {
		raw = h.tile(path, raw)
	}
	return raw, err
}

func (h *history) signed() int64 {
	if h.size > 0 {
		return int64(h.size)
	}
	return int64(len(h.rows))
}

func (h *history) root() tlog.Hash {
	root, err := tlog.TreeHash(h.signed(), h)
	if err != nil {
		h.t.Fatal(err)
	}
	return root
}

func (h *history) checkpoint(text string) []byte {
	raw, err := note.Sign(&note.Note{Text: text}, h.signer)
	if err != nil {
		h.t.Fatal(err)
	}
	return raw
}

func (h *history) log() *proof.Log {
	log, err := proof.NewLog(h.key, proof.Witness{})
	if err != nil {
		h.t.Fatal(err)
	}
	return log
}

// check checks as a client does that knows the key of the first history.
func (h *history) check(before proof.Checkpoint, rows []chain.Row) (proof.Checkpoint, error) {
	return proof.Checker{Fetch: h.fetch, Log: newHistory(h.t, 0).log()}.Check(h.t.Context(), before, rows)
}

// verified is what a client remembers after an honest check.
func (h *history) verified() proof.Checkpoint {
	h.t.Helper()
	c, err := h.check(proof.Checkpoint{}, h.team())
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func TestHonestHistoryOfEverySize(t *testing.T) {
	for _, n := range []int{1, 2, 3, 255, 256, 257, 512, 513, 700} {
		h := newHistory(t, n)
		now, err := h.check(newHistory(t, (n+1)/2).verified(), h.team())
		if err != nil || now.N != int64(n) {
			t.Fatalf("%d rows: %d, %v", n, now.N, err)
		}
		if _, err := h.check(now, h.team()); err != nil {
			t.Errorf("%d rows, again: %v", n, err)
		}
	}
}

func TestNoRowsAndEmptyLedger(t *testing.T) {
	for _, n := range []int{0, 5} {
		h := newHistory(t, n)
		now, err := h.check(proof.Checkpoint{}, nil)
		if err != nil || now.N != int64(n) {
			t.Errorf("%d rows: %d, %v", n, now.N, err)
		}
		if _, err = newHistory(t, n+3).check(now, newHistory(t, n+3).team()); err != nil {
			t.Errorf("after %d rows: %v", n, err)
		}
	}
}

// Each lie of a service is refused and names the first bad row where there is
// one. The client saw 60 rows before, unless it is new.
func TestThreat6HistoriesThatAreRefused(t *testing.T) {
	edit := func(seq int64) func(*chain.Row) {
		return func(r *chain.Row) {
			if r.Seq == seq {
				r.Detail = "edited"
			}
		}
	}
	for _, tc := range []struct {
		name  string
		now   *history
		rows  func(h *history) []chain.Row // nil = all
		fresh bool                         // a client that saw nothing before
		row   int64
		text  string
	}{
		{name: "altered row", now: newHistory(t, 90), row: 7, text: "content",
			rows: func(h *history) []chain.Row { l := h.team(); l[2].Fee = "0"; return l }},
		{name: "altered row, hash recomputed", now: newHistory(t, 90), row: 7, text: "another record was signed", fresh: true,
			rows: func(h *history) []chain.Row { l := h.team(); l[2].Fee = "0"; l[2].Hash = l[2].Sum(); return l }},
		{name: "altered row, hash recomputed, seen before", now: newHistory(t, 90), row: 7, text: "another record was signed",
			rows: func(h *history) []chain.Row { l := h.team(); l[2].Fee = "0"; l[2].Hash = l[2].Sum(); return l }},
		{name: "row twice", now: newHistory(t, 90), row: 7, text: "listed after",
			rows: func(h *history) []chain.Row { return append(h.team()[:3:3], h.team()[2]) }},
		{name: "rows swapped", now: newHistory(t, 90), row: 4, text: "listed after",
			rows: func(h *history) []chain.Row { l := h.team(); l[1], l[2] = l[2], l[1]; return l }},
		{name: "row of place zero", now: newHistory(t, 90), row: 0, text: "listed after", fresh: true,
			rows: func(h *history) []chain.Row {
				l := h.team()[:1]
				l[0].Seq = 0
				l[0].Hash = l[0].Sum()
				return l
			}},
		{name: "smaller tree", now: newHistory(t, 59), row: 60, text: "ends before it"},
		{name: "forked tree, row of the group", now: newHistory(t, 90, edit(7)), row: 0, text: "forked"},
		{name: "forked tree, row of another group", now: newHistory(t, 90, edit(8)), row: 0, text: "forked"},
		{name: "forked tree behind the group's rows", now: newHistory(t, 90, edit(60)), row: 0, text: "forked"},
		{name: "forked tree of the same length", now: newHistory(t, 60, edit(59)), row: 0, text: "forked"},
		{name: "rows of a fork in the honest tree", now: newHistory(t, 90), row: 7, text: "another record was signed", fresh: true,
			rows: func(*history) []chain.Row { return newHistory(t, 90, edit(7)).team() }},
		{name: "other key", now: func() *history { h := newHistory(t, 90); h.setKey('x', origin); return h }(), text: "not signed with the key"},
		{name: "other log", now: func() *history { h := newHistory(t, 90); h.setKey('k', "elsewhere/svc.testnet"); return h }(), text: "not signed with the key"},
		{name: "garbage tiles", text: "do not give the signed root", now: func() *history {
			h := newHistory(t, 90)
			h.tile = func(_ string, raw []byte) []byte { raw[40] ^= 1; return raw }
			return h
		}()},
		{name: "short tiles", text: "do not give the signed root", fresh: true, now: func() *history {
			h := newHistory(t, 600)
			h.tile = func(_ string, raw []byte) []byte { return raw[1:] }
			return h
		}()},
		{name: "empty tiles", text: "do not give the signed root", fresh: true, now: func() *history {
			h := newHistory(t, 90)
			h.tile = func(string, []byte) []byte { return nil }
			return h
		}()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rows := tc.now.team()
			if tc.rows != nil {
				rows = tc.rows(tc.now)
			}
			var before proof.Checkpoint
			if !tc.fresh {
				before = newHistory(t, 60).verified()
			}
			_, err := tc.now.check(before, rows)
			var refused *proof.Refusal
			if !errors.As(err, &refused) || refused.Row != tc.row || !strings.Contains(refused.Text, tc.text) {
				t.Errorf("got %v, want row %d and %q", err, tc.row, tc.text)
			}
		})
	}
}

// A checkpoint that does not hold yet what is listed, as while a witness is away, is
// no lie; one of fewer records than were seen is.
func TestCheckpointBehindTheList(t *testing.T) {
	h := newHistory(t, 90)
	h.size = 80
	var refused *proof.Refusal
	if _, err := h.check(newHistory(t, 60).verified(), h.team()); !errors.Is(err, proof.ErrUnsigned) || errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
	h.size = 59
	if _, err := h.check(newHistory(t, 60).verified(), h.team()); !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
}

// A checkpoint that is signed but makes no sense is refused, whatever is in it.
func TestThreat6CheckpointsThatMakeNoSense(t *testing.T) {
	h := newHistory(t, 3)
	root := h.root().String()
	for _, text := range []string{"", "\n", origin + "\n", origin + "\n3\n", origin + "\n-1\n" + root + "\n", origin + "\n03\n" + root + "\n",
		origin + "\nthree\n" + root + "\n", origin + "\n3\nAAAA\n", origin + "\n9223372036854775808\n" + root + "\n",
		origin + "\n3\n" + root + "\nsvc-opens 1 2 3\n", origin + "\n3\n" + root + "\nsvc-opens 1 2 3 -4\n",
		origin + "\n3\n" + root + "\nsvc-opens 1 2 3 4 \n",
		origin + "\n3\n" + root + "\nsvc-opens 1 2 3 4\nsvc-opens 1 2 3 4\n",
		"elsewhere\n3\n" + root + "\n", origin + "\n9223372036854775807\n" + root + "\n", origin + "\n0\n" + root + "\n"} {
		fetch := func(ctx context.Context, path string) ([]byte, error) {
			if path == "checkpoint" {
				if text == "" {
					return []byte("no note at all"), nil
				}
				return h.checkpoint(text), nil
			}
			if strings.HasPrefix(path, "tile/") && path != "tile/0/000.p/3" { // of no tree there is
				return make([]byte, 32), nil
			}
			return h.fetch(ctx, path)
		}
		_, err := proof.Checker{Fetch: fetch, Log: h.log()}.Check(t.Context(), proof.Checkpoint{}, h.team())
		var refused *proof.Refusal
		if !errors.As(err, &refused) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Lines that other programs add to a checkpoint are allowed by its format.
func TestCheckpointWithExtensions(t *testing.T) {
	h := newHistory(t, 3)
	fetch := func(ctx context.Context, path string) ([]byte, error) {
		if path == "checkpoint" {
			return h.checkpoint(fmt.Sprintf("%s\n3\n%s\nextension line\n", origin, h.root())), nil
		}
		return h.fetch(ctx, path)
	}
	if _, err := (proof.Checker{Fetch: fetch, Log: h.log()}).Check(t.Context(), proof.Checkpoint{}, h.team()); err != nil {
		t.Error(err)
	}
}

// A service that does not answer is not called a liar.
func TestUnreachableIsNotARefusal(t *testing.T) {
	for _, path := range []string{"checkpoint", "tile/0/000.p/3"} {
		h := newHistory(t, 3)
		h.unreached = path
		_, err := h.check(proof.Checkpoint{}, h.team())
		var refused *proof.Refusal
		if !errors.Is(err, errUnreached) || errors.As(err, &refused) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A log that signs anything at all neither panics, nor hangs, nor is believed.
func FuzzCheckpoint(f *testing.F) {
	h := newHistory(f, 3)
	root := h.root().String()
	for _, text := range []string{origin + "\n3\n" + root + "\n", origin + "\n3\n" + root + "\nmore\n", origin + "\n281474976710656\n" + root + "\n", "\n\n\n"} {
		f.Add(text, []byte{1})
	}
	f.Fuzz(func(t *testing.T, text string, tile []byte) {
		raw, err := note.Sign(&note.Note{Text: text}, h.signer)
		if err != nil {
			return // it cannot be signed
		}
		fetch := func(ctx context.Context, path string) ([]byte, error) {
			if path == "checkpoint" {
				return raw, nil
			}
			if strings.HasPrefix(path, "tile/") {
				return tile, nil
			}
			return h.fetch(ctx, path)
		}
		if _, err := (proof.Checker{Fetch: fetch, Log: h.log()}).Check(t.Context(), proof.Checkpoint{}, h.team()); err == nil {
			t.Errorf("%q was believed", text)
		}
	})
}

// FuzzTiles: one byte of one tile that is fetched, or its end, is enough to be
// refused.
func FuzzTiles(f *testing.F) {
	h := newHistory(f, 600)
	var mu sync.Mutex // tiles are fetched side by side
	var paths []string
	_, err := proof.Checker{Log: h.log(), Fetch: func(ctx context.Context, path string) ([]byte, error) {
		if strings.HasPrefix(path, "tile/") {
			mu.Lock()
			paths = append(paths, path)
			mu.Unlock()
		}
		return h.fetch(ctx, path)
	}}.Check(f.Context(), proof.Checkpoint{}, h.team())
	if err != nil || len(paths) < 3 {
		f.Fatalf("%q, %v", paths, err)
	}
	slices.Sort(paths)
	f.Add(0, 0, byte(1), 0)
	f.Add(1, 8191, byte(0x80), 0)
	f.Add(2, 5, byte(0), 32)
	f.Add(3, 0, byte(0), -32)
	f.Fuzz(func(t *testing.T, which, at int, change byte, cut int) {
		changed := false
		fetch := func(ctx context.Context, path string) ([]byte, error) {
			raw, err := h.fetch(ctx, path)
			if err != nil || path != paths[uint(which)%uint(len(paths))] {
				return raw, err
			}
			whole := slices.Clone(raw)
			raw[uint(at)%uint(len(raw))] ^= change
			if cut > 0 {
				raw = raw[:len(raw)-min(cut, len(raw))]
			} else {
				raw = append(raw, make([]byte, min(-(cut+1)+1, 1<<16))...)
			}
			changed = !slices.Equal(raw, whole)
			return raw, nil
		}
		_, err := proof.Checker{Fetch: fetch, Log: h.log()}.Check(t.Context(), proof.Checkpoint{}, h.team())
		var refused *proof.Refusal
		if changed != errors.As(err, &refused) || !changed && err != nil {
			t.Errorf("changed: %v, %v", changed, err)
		}
	})
}
