package chain_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// The layout of service/LEDGER.md, byte by byte: a change breaks every
// history that was signed.
func TestHashesOfRecordsAreFixed(t *testing.T) {
	r := chain.Record{Seq: 2, TimeNS: 1700000000000000001, Tx: "ab", Kind: "register_group", Account: "alice.svc.testnet", Group: "team",
		Fee: "640000000000000000000000", Request: "0011223344556677", Prev: chain.Hash{0xaa},
		Chain: "group:team", Number: 1, Tags: []chain.Tag{{Name: "size", Value: "14"}, {Name: "type", Value: "text/plain"}}}
	sum := r.Sum()
	if got, want := hex.EncodeToString(sum[:]),
		"85cba049c783bc7fe36258f93c351690f6ad8e275fa87776c009bccb6a087469"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEveryFieldOfARecordIsHashed(t *testing.T) {
	base := chain.Record{TimeNS: 1, Tx: "t", Kind: "k", Account: "a", Group: "g", Ref: "r", FileHash: "f", Detail: "d", Fee: "0", Request: "q",
		Chain: "group:g", Number: 7, Tags: []chain.Tag{{Name: "size", Value: "1"}}}
	seen := map[chain.Hash]string{base.Sum(): "nothing"}
	for name, change := range map[string]func(*chain.Record){
		"time": func(r *chain.Record) { r.TimeNS++ }, "tx": func(r *chain.Record) { r.Tx = "x" }, "kind": func(r *chain.Record) { r.Kind = "x" },
		"account": func(r *chain.Record) { r.Account = "x" }, "group": func(r *chain.Record) { r.Group = "x" }, "ref": func(r *chain.Record) { r.Ref = "x" },
		"file hash": func(r *chain.Record) { r.FileHash = "x" }, "detail": func(r *chain.Record) { r.Detail = "x" }, "fee": func(r *chain.Record) { r.Fee = "1" },
		"request": func(r *chain.Record) { r.Request = "x" }, "chain": func(r *chain.Record) { r.Chain = "group:x" }, "number": func(r *chain.Record) { r.Number++ },
		"prev": func(r *chain.Record) { r.Prev[0]++ }, "tag value": func(r *chain.Record) { r.Tags = []chain.Tag{{Name: "size", Value: "2"}} },
		"tag name": func(r *chain.Record) { r.Tags = []chain.Tag{{Name: "sizf", Value: "1"}} }, "tags": func(r *chain.Record) { r.Tags = nil },
		"field edge": func(r *chain.Record) { r.Ref, r.FileHash = "rf", "" },
	} {
		r := base
		change(&r)
		if other, ok := seen[r.Sum()]; ok {
			t.Errorf("a change of %s gives the hash of a change of %s", name, other)
		}
		seen[r.Sum()] = name
	}
}

func TestTagsMustBeInOrder(t *testing.T) {
	for _, flat := range [][]string{{"a"}, {"b", "1", "a", "2"}, {"a", "1", "a", "2"}} {
		if _, err := chain.ParseTags(flat); err == nil {
			t.Errorf("%q was accepted", flat)
		}
	}
	want := []string{"a", "1", "b", ""}
	tags, err := chain.ParseTags(want)
	if got := chain.FlattenTags(tags); err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %q, %v", got, err)
	}
}

// A tree is a function of what is in it, every chain in it can be proven, and
// nothing else can.
func TestTreeProvesTheHeadsOfChains(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 11))
	places := map[string]chain.Place{}
	var tree chain.Tree
	for range 500 {
		name := chain.OfGroup(fmt.Sprint(random.IntN(200)))
		p := chain.Place{Number: places[name].Number + 1, Hash: chain.Hash{byte(random.IntN(256)), byte(random.IntN(256))}}
		before := tree
		root := before.Root()
		tree = tree.With(name, p)
		places[name] = p
		if before.Root() != root || tree.Root() == root {
			t.Fatal("a tree changed, or its successor did not")
		}
	}
	var again chain.Tree
	for name, p := range places { // in another order
		again = again.With(name, p)
	}
	if again.Root() != tree.Root() {
		t.Error("the order of insertion changed the root")
	}
	for name, p := range places {
		got, path, ok := tree.Find(name)
		if !ok || got != p || !chain.Contains(tree.Root(), name, p, path) {
			t.Fatalf("%s is not proven", name)
		}
		for what, lie := range map[string]bool{
			"number": chain.Contains(tree.Root(), name, chain.Place{Number: p.Number - 1, Hash: p.Hash}, path),
			"hash":   chain.Contains(tree.Root(), name, chain.Place{Number: p.Number, Hash: chain.Hash{1, 2, 3}}, path),
			"chain":  chain.Contains(tree.Root(), name+"x", p, path),
			"path":   chain.Contains(tree.Root(), name, p, path[:len(path)-1]),
			"longer": chain.Contains(tree.Root(), name, p, make([]chain.Hash, 257)),
		} {
			if lie {
				t.Errorf("%s: another %s is proven too", name, what)
			}
		}
	}
	if _, _, ok := tree.Find(chain.OfAccount("nobody")); ok {
		t.Error("found a chain that is not there")
	}
	if (chain.Tree{}).Root() != (chain.Hash{}) {
		t.Error("an empty tree has a root")
	}
}

// The layout of the tree in service/LEDGER.md: checkpoints were signed over such roots.
func TestRootsOfTheTreeAreFixed(t *testing.T) {
	var tree chain.Tree
	for i, want := range []string{
		"fe4f64cccff81225901cec628268e921ffddbf0a0f2cf5bfbff7fcc38a2846af",
		"0ffa7eaa13c0e38622737dc57e547061d32be6fc1cda16ee4dec89481e671fc4",
		"91d2f242b58a2dc73f3bb018c99b4f130df095eb0cffef38b62aeef05cf2215b",
	} {
		tree = tree.With(chain.OfGroup(fmt.Sprint(i)), chain.Place{Number: int64(i + 1), Hash: chain.Hash{byte(i)}})
		root := tree.Root()
		if got := hex.EncodeToString(root[:]); got != want {
			t.Errorf("%d chains have the root %s, want %s", i+1, got, want)
		}
	}
}

func TestStatementsDoNotRunTogether(t *testing.T) {
	s := chain.Statement{Origin: "host/contract", Chain: chain.OfGroup("a\nb"), Place: chain.Place{Number: 3}, TimeNS: 5}
	seen := map[string]bool{string(s.HeadText("n")): true}
	for _, text := range []string{string(s.HeadText("m")), string(s.ReceiptText()), string(s.HeadText("")),
		string(s.NamesText("n", chain.Hash{})), string(s.NamesText("n", chain.Hash{1}))} {
		if seen[text] {
			t.Errorf("two statements have the text %q", text)
		}
		seen[text] = true
	}
	if strings.Count(string(s.HeadText("n")), "\n") != 7 {
		t.Error("a name adds lines")
	}
}

func BenchmarkSum(b *testing.B) {
	r := chain.Record{TimeNS: 1, Tx: strings.Repeat("t", 64), Kind: "record_transaction", Account: "alice.svc.testnet", Group: "team", Ref: strings.Repeat("r", 150),
		FileHash: strings.Repeat("f", 64), Detail: "notes/today.txt", Fee: "39000000000000000000000", Request: "0011223344556677", Chain: "group:team", Number: 7}
	for b.Loop() {
		r.Sum()
	}
}

// FuzzTreePart: whatever bytes are read as a part of a tree, what is moved in it does not panic, and a part that is
// read has the root of the tree it is of.
func FuzzTreePart(f *testing.F) {
	tree, keys := chain.Tree{}, []chain.Hash{}
	for i := range 9 {
		name := fmt.Sprint("group:", i)
		tree = tree.With(name, chain.Place{Number: int64(i)})
		keys = append(keys, chain.Key(name))
		f.Add(tree.Part(keys[i/2:]))
	}
	f.Add(append(bytes.Repeat([]byte{3}, 257), 0))
	f.Add(append(append(bytes.Repeat([]byte{3}, 256), 1), bytes.Repeat([]byte{1}, 600)...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		part, err := chain.ParseTreePart(raw)
		if err != nil {
			return
		}
		before, ok := part.Root()
		if !ok {
			t.Error("it is beyond itself")
		}
		for _, key := range keys {
			at := part.End(key)
			at.Number++
			part.Move(key, at)
		}
		if after, ok := part.Root(); ok && after == before {
			t.Error("it has the same root after a change")
		}
	})
}
