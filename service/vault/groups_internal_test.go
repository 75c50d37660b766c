package vault

import (
	"fmt"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Threat 83: what a vault knows of chains that moved is not forgotten sooner because of questions about others, so that
// an earlier tree proves no end of a chain that moved since.
func TestThreat83EarlierTreeOfAChainThatMoved(t *testing.T) {
	gs, err := newGroups()
	if err != nil {
		t.Fatal(err)
	}
	var tree chain.Tree
	n := int64(0)
	gs.begins(vaultwire.Tree{})
	log := func(names ...string) {
		var list []vaultwire.Placed
		for _, name := range names {
			n++
			end, _, _ := tree.Find(name)
			end = chain.Place{Number: end.Number + 1, Hash: chain.Key(fmt.Sprint(n))}
			tree = tree.With(name, end)
			list = append(list, vaultwire.Placed{Chain: chain.Key(name), Place: end})
		}
		gs.extends(vaultwire.Tree{Records: n, Chains: tree.Root()}, list)
	}
	others := func(from, to int) {
		for ; from < to; from++ {
			var names []string
			for range min(vaultwire.MostRecords, to-from) {
				names = append(names, fmt.Sprint("account:", from))
				from++
			}
			from--
			log(names...)
		}
	}
	log("group:x", "group:g")
	key := chain.Key("group:g")
	part, had := tree.Part([]chain.Hash{key}), n
	log("group:g") // the revocation
	others(0, maxMoved/2)
	if _, err := gs.endOf(chain.Key("group:x"), nil); err != nil {
		t.Fatal(err)
	}
	others(maxMoved/2, maxMoved-1)
	if n-had != maxMoved {
		t.Fatalf("%d records", n-had)
	}
	if end, err := gs.endOf(key, part); err != nil || end.Number != 2 {
		t.Errorf("the chain ends at %+v, %v", end, err)
	}
	log("account:one more")
	if end, err := gs.endOf(key, part); err == nil {
		t.Errorf("the chain ends at %+v, by a tree from long before", end)
	}
}
