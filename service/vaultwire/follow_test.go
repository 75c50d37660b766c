package vaultwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// ledger is a log as its owner has it.
type ledger struct {
	hashes []tlog.Hash
	n      int64
	chains chain.Tree
	ends   map[string]chain.Place
	names  map[chain.Hash]string // of the chains
}

func (l *ledger) ReadHashes(indexes []int64) (list []tlog.Hash, err error) {
	for _, i := range indexes {
		list = append(list, l.hashes[i])
	}
	return list, nil
}

func newLedger() *ledger {
	return &ledger{ends: map[string]chain.Place{}, names: map[chain.Hash]string{}}
}

// add adds records to chains, and returns how they extend the tree.
func (l *ledger) add(names ...string) (e Extension, err error) {
	before, keys := l.chains, []chain.Hash{}
	for _, name := range names {
		r := chain.Record{Chain: name, Tx: fmt.Sprint(l.n), Number: l.ends[name].Number + 1, Prev: l.ends[name].Hash}
		at := chain.PlaceOf(&r)
		more, err := tlog.StoredHashesForRecordHash(l.n, tlog.RecordHash(at.Hash[:]), l)
		if err != nil {
			return e, err
		}
		l.hashes, l.n = append(l.hashes, more...), l.n+1
		l.ends[name], l.names[chain.Key(name)] = at, name
		l.chains, keys = l.chains.With(name, at), append(keys, chain.Key(name))
		e.Records = AppendRecord(e.Records, &r)
	}
	root, err := tlog.TreeHash(l.n, l)
	if err != nil {
		return e, err
	}
	e.Tree, e.Chains = Tree{Records: l.n, Root: chain.Hash(root), Chains: l.chains.Root()}, before.Part(keys)
	e.Edge, err = EdgeOf(l.n, l)
	return e, err
}

// begins is an extension for a vault that follows nothing yet.
func begins(e Extension) Extension { return Extension{Tree: e.Tree, Edge: e.Edge} }

// nothing is a log without records that is followed.
func nothing(t rapid.TB) Log {
	l, _, err := (Log{}).Extended(Extension{Tree: NoRecords()})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Whatever records come, of whichever chains, who began at any place, or before the first record, has the tree of all.
func TestLogFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger()
		name := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprint("group:", rapid.IntRange(0, 12).Draw(t, "chain"))
		})
		logs := []Log{nothing(t)}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			e, err := l.add(rapid.SliceOfN(name, 1, 9).Draw(t, "records")...)
			if err != nil {
				t.Fatal(err)
			}
			logs = append(logs, Log{})
			for i := range logs {
				given := Extension{Tree: e.Tree, Records: e.Records, Chains: e.Chains}
				if logs[i].Tree == (Tree{}) {
					given = begins(e)
				}
				next, placed, err := logs[i].Extended(given)
				if err != nil || next.Tree != e.Tree || len(given.Records) != len(placed)*recordBytes {
					t.Fatalf("%+v, %v", next, err)
				}
				for _, r := range placed[max(0, len(placed)-1):] {
					if p, _, ok := l.chains.Find(l.names[r.Chain]); !ok || p != r.Place {
						t.Fatalf("the last record is at %+v, and its chain ends at %+v", r, p)
					}
				}
				logs[i] = next
			}
		}
	})
}

// Threat 77: records that are missing, changed, in another chain or order, or of another tree extend no log, and
// nothing that is no part of a tree is taken for one.
func TestThreat77LogIsExtendedByItsRecordsAlone(t *testing.T) {
	l := newLedger()
	first, err := l.add("group:a", "group:b", "group:c", "group:d", "group:a")
	if err != nil {
		t.Fatal(err)
	}
	log, _, err := (Log{}).Extended(begins(first))
	if err != nil {
		t.Fatal(err)
	}
	before := l.chains
	e, err := l.add("group:a", "group:e", "group:a")
	if err != nil {
		t.Fatal(err)
	}
	whole, a := before.Part([]chain.Hash{chain.Key("group:a"), chain.Key("group:e")}), chain.Key("group:a")
	forged := func(raw []byte, r chain.Record) Extension { // with the root that follows from a part
		part, err := chain.ParseTreePart(raw)
		if err != nil {
			t.Fatal(err)
		}
		at := chain.PlaceOf(&r)
		part.Move(chain.Key(r.Chain), at)
		grown := Log{Tree: log.Tree, edge: slices.Clone(log.edge)}
		grown.add(tlog.RecordHash(at.Hash[:]))
		grown.Tree.Root = chain.Hash(grown.root())
		grown.Tree.Chains, _ = part.Root()
		return Extension{Tree: grown.Tree, Chains: raw, Records: AppendRecord(nil, &r)}
	}
	fewer := chain.Tree{}.With("group:a", chain.Place{Number: 2}).Part([]chain.Hash{a})
	bytes := func(change func(raw []byte) []byte) []byte { return change(slices.Clone(e.Records)) }
	for what, bad := range map[string]Extension{
		"no records":          {Tree: e.Tree, Chains: e.Chains},
		"records of no tree":  {Tree: log.Tree, Records: e.Records, Chains: e.Chains},
		"no part":             {Tree: e.Tree, Records: e.Records},
		"a part of one chain": {Tree: e.Tree, Records: e.Records, Chains: before.Part([]chain.Hash{a})},
		"the part after": {Tree: e.Tree, Records: e.Records,
			Chains: l.chains.Part([]chain.Hash{a, chain.Key("group:e")})},
		"a part and more":        {Tree: e.Tree, Records: e.Records, Chains: append(slices.Clone(whole), 0)},
		"a part that breaks off": {Tree: e.Tree, Records: e.Records, Chains: whole[:len(whole)-1]},
		"a tree of fewer chains": forged(fewer, chain.Record{Chain: "group:a", Number: 3}),
		"a chain that is hidden": forged(before.Part(nil), chain.Record{Chain: "group:b", Number: 1}),
		"many records":           {Tree: e.Tree, Records: make([]byte, recordBytes*(MostRecords+1)), Chains: e.Chains},
		"half a record":          {Tree: e.Tree, Records: e.Records[:len(e.Records)-1], Chains: e.Chains},
		"one record less":        {Tree: e.Tree, Records: e.Records[recordBytes:], Chains: e.Chains},
		"another hash": {Tree: e.Tree, Chains: e.Chains, Records: bytes(func(raw []byte) []byte {
			raw[len(raw)-1]++
			return raw
		})},
		"another order": {Tree: e.Tree, Chains: e.Chains, Records: bytes(func(raw []byte) []byte {
			return append(raw[recordBytes:], raw[:recordBytes]...)
		})},
		// Its first record follows the end of the chain, so that the tree has no other history of the group.
		"another chain of a group": forged(whole, chain.Record{Chain: "group:a", Number: 3, Prev: chain.Hash{1}}),
		"a chain from its start":   forged(whole, chain.Record{Chain: "group:a", Number: 1}),
		"other chains": {Tree: Tree{e.Tree.Records, e.Tree.Root, first.Tree.Chains}, Records: e.Records,
			Chains: e.Chains},
		"another root": {Tree: Tree{e.Tree.Records, first.Tree.Root, e.Tree.Chains}, Records: e.Records,
			Chains: e.Chains},
		"another size": {Tree: Tree{e.Tree.Records + 1, e.Tree.Root, e.Tree.Chains}, Records: e.Records,
			Chains: e.Chains},
		"a shorter one": {Tree: Tree{1, e.Tree.Root, e.Tree.Chains}, Records: e.Records,
			Chains: e.Chains, Edge: e.Edge},
		"its edge":      {Tree: e.Tree, Edge: e.Edge},
		"the same size": {Tree: Tree{first.Tree.Records, first.Tree.Root, e.Tree.Chains}, Edge: first.Edge},
		"more than any": {Tree: Tree{1<<62 + 1, e.Tree.Root, e.Tree.Chains}, Records: e.Records, Chains: e.Chains},
	} {
		if next, _, err := log.Extended(bad); !errors.Is(err, ErrNotFollowing) || next.Tree != log.Tree {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, bad := range map[string]Extension{
		"less than nothing": {Tree: Tree{Records: -1}},
		"no records":        {Tree: Tree{Chains: chain.Key("group:a")}},
		"no edge":           {Tree: first.Tree},
		"records":           first,
		"another edge":      {Tree: first.Tree, Edge: e.Edge},
		"a longer edge":     {Tree: first.Tree, Edge: append(slices.Clone(first.Edge), first.Edge...)},
		"more than any":     {Tree: Tree{Records: 1 << 62}, Edge: make([]byte, 32)},
	} {
		if _, _, err := (Log{}).Extended(bad); !errors.Is(err, ErrNotFollowing) {
			t.Errorf("at first, %s: %v", what, err)
		}
	}
	for what, bad := range map[string]Extension{
		"no records":          {Tree: first.Tree, Chains: []byte{0}},
		"records and an edge": {Tree: first.Tree, Records: first.Records, Chains: []byte{0}, Edge: first.Edge},
		"chains of nothing":   {Tree: Tree{Root: NoRecords().Root, Chains: first.Tree.Chains}, Chains: []byte{0}},
		"chains before":       {Tree: first.Tree, Records: first.Records, Chains: whole},
	} {
		if _, _, err := nothing(t).Extended(bad); !errors.Is(err, ErrNotFollowing) {
			t.Errorf("after no records, %s: %v", what, err)
		}
	}
	if next, _, err := log.Extended(e); err != nil || next.Tree != e.Tree {
		t.Errorf("%+v, %v", next, err)
	}
}

// The records of one step fit into a frame, with what they touch of a hundred thousand chains.
func TestExtensionFitsIntoAFrame(t *testing.T) {
	tree, keys := chain.Tree{}, []chain.Hash{}
	e := Extension{Edge: make([]byte, 32*48)}
	for i := range 100_000 {
		name := fmt.Sprint("group:", i)
		tree = tree.With(name, chain.Place{Number: int64(i)})
		if i%(100_000/MostRecords) == 0 && len(keys) < MostRecords {
			keys, e.Records = append(keys, chain.Key(name)), AppendRecord(e.Records, &chain.Record{Chain: name})
		}
	}
	e.Chains = tree.Part(keys)
	raw, err := json.Marshal(e)
	// Each doubling of the chains is a hash more for each of the records: up to a million million of them.
	doublings := 4 * 33 * MostRecords * 24 / 3
	if err != nil || len(keys) != MostRecords || len(raw)+doublings > MaxFrameBytes {
		t.Errorf("%d records take %d bytes, %v", len(keys), len(raw), err)
	}
}
