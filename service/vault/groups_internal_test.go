package vault

import (
	"fmt"
	"testing"

	"github.com/svcfs/svcfs/format"
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

// Threat 83: what names of members and invites take is counted as they come and go, so that it is bounded.
func TestThreat83NamesAreCounted(t *testing.T) {
	gs, err := newGroups()
	if err != nil {
		t.Fatal(err)
	}
	v := &Vault{groups: gs}
	record := func(n int64, kind, detail string) chain.Record {
		return chain.Record{Kind: kind, Account: "alice", Group: "g", Chain: "group:g", Number: n, Detail: detail}
	}
	var list []chain.Record
	for i, r := range []chain.Record{record(1, chain.KindRegister, ""), record(2, chain.KindRevoke, "bob"),
		record(3, chain.KindEndInvite, "i1")} {
		if i > 0 {
			r.Prev = list[i-1].Sum()
		}
		list = append(list, r)
	}
	follows := func(r chain.Record, want int) {
		t.Helper()
		if _, err := v.Follow(t.Context(), vaultwire.Follow{Group: "g", Records: []chain.Record{r}}); err != nil {
			t.Fatal(err)
		}
		if got := gs.taken - groupCost - len("group:g"); got != want {
			t.Errorf("after record %d: names take %d bytes, want %d", r.Number, got, want)
		}
	}
	const alice, bob, i1 = nameCost + len("alice"), nameCost + len("bob"), nameCost + len("i1")
	follows(list[0], alice)
	g, _ := gs.known.Peek(chain.Key("group:g"))
	g.Has["bob"], g.Invites = true, []string{"i1"} // as if they had been asked for
	follows(list[1], alice+i1)
	follows(list[2], alice+i1) // the id of what is over is kept
	gs.forget(chain.Key("group:g"))
	if gs.taken != 0 {
		t.Errorf("%d bytes of no group", gs.taken)
	}
}

// Threat 77: what svcd says of groups takes no more memory than there is, however long the names are.
func TestThreat77GroupsHaveBoundedMemory(t *testing.T) {
	gs, err := newGroups()
	if err != nil {
		t.Fatal(err)
	}
	v := &Vault{groups: gs}
	for i := range 40 {
		group := fmt.Sprint("g", i)
		r := chain.Record{Kind: chain.KindRegister, Account: "alice", Group: group, Chain: chain.OfGroup(group),
			Number: 1}
		list := []chain.Record{r}
		for n := range 900 {
			r = chain.Record{Kind: chain.KindJoin, Account: fmt.Sprintf("%01000d", n), Group: group, Chain: r.Chain,
				Number: r.Number + 1, Prev: r.Sum()}
			list = append(list, r)
		}
		follow := func(some []chain.Record) {
			q := vaultwire.Follow{Group: group, Records: some}
			if a, err := v.Follow(t.Context(), q); err != nil || len(a.Refused) > 0 {
				t.Fatalf("%+v, %v", a, err)
			}
		}
		follow(list[:1])
		g, _ := gs.known.Peek(chain.Key(r.Chain))
		g.Joinable = true // as if somebody had asked for it
		follow(list[1:])
	}
	if took := 900 * 1000 * gs.known.Len(); took > maxGroupsBytes || took < maxGroupsBytes/2 {
		t.Errorf("%d groups are kept, whose names have %d bytes", gs.known.Len(), took)
	}
}

// Threat 77: so it is for a group that begins from a state.
func TestThreat77GroupsOfStatesAreCounted(t *testing.T) {
	gs, err := newGroups()
	if err != nil {
		t.Fatal(err)
	}
	v := &Vault{groups: gs, keys: []serviceKey{newServiceKey(vaultwire.Key{Purpose: vaultwire.PurposeCredentials})}}
	has := map[string]bool{}
	for i := range 100 {
		has[fmt.Sprint(i)] = true
	}
	state, err := v.sealState(groupState{Chain: chain.OfGroup("g"), Members: chain.Members{Owner: "1", Has: has}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Follow(t.Context(), vaultwire.Follow{Group: "g", State: state}); err != nil {
		t.Fatal(err)
	}
	if least := groupCost + 100*nameCost; gs.taken < least {
		t.Errorf("a group of 100 members takes %d bytes, want %d", gs.taken, least)
	}
}

// Threat 77: so it is where members leave again, and where the log comes to have what was said beyond it.
func TestThreat77GroupsKeepNothingThatEnded(t *testing.T) {
	g := &group{name: "group:g"}
	r := chain.Record{Kind: chain.KindRegister, Account: "alice", Chain: g.name, Group: "g", Number: 1}
	next := func(kind, account string) {
		if refused, err := g.add(&r, true, true); refused || err != nil {
			t.Fatalf("record %d is refused: %v", r.Number, err)
		}
		r = chain.Record{Kind: kind, Account: account, Detail: account, Chain: g.name, Group: "g", Number: r.Number + 1,
			Prev: r.Sum()}
	}
	next(chain.KindJoin, "1")
	g.Joinable = true
	for i := range 1000 {
		next(chain.KindRevoke, fmt.Sprint(i+1))
		next(chain.KindJoin, fmt.Sprint(i+2))
	}
	if got := cap(g.beyond); got < 2001 || g.size() < 2001*beyondCost {
		t.Errorf("%d records beyond the log take %d bytes", got, g.size())
	}
	for i := range 1000 {
		next(chain.KindJoin, fmt.Sprint(i+3))
	}
	many := g.size()
	for i := range 1000 {
		next(chain.KindRevoke, fmt.Sprint(i+2))
	}
	gs, err := newGroups()
	if err != nil {
		t.Fatal(err)
	}
	key := chain.Key(g.name)
	gs.known.Add(key, g)
	var came []vaultwire.Placed
	for _, hash := range g.beyond {
		came = append(came, vaultwire.Placed{Chain: key, Place: chain.Place{Hash: hash}})
	}
	gs.extends(vaultwire.Tree{}, came)
	if few := g.size(); few > many/50 || g.most > 20 || cap(g.beyond) > 0 {
		t.Errorf("%d bytes are left of %d, room for %d members and %d records", few, many, g.most, cap(g.beyond))
	}
}

// A secret that is used while its epoch is forgotten does not stay.
func TestForgottenSecretDoesNotStay(t *testing.T) {
	k := newServiceKey(vaultwire.Key{Purpose: vaultwire.PurposeUploads, Version: 1})
	for kept, keys := range [][]serviceKey{nil, {k}} {
		v := &Vault{keys: keys, secrets: map[int64]*format.VaultSecret{}}
		if _, err := v.secret(k); err != nil || len(v.secrets) != kept {
			t.Errorf("%d secrets stay of %d keys, %v", len(v.secrets), kept, err)
		}
	}
}
