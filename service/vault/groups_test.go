package vault_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// history is a chain.
type history struct {
	name    string
	records []chain.Record
	vouch   func(*chain.Record) // has the vault vouch for a record that lets somebody in; nil = it does not
}

func (o *opening) historyOf(group string) *history {
	return &history{name: chain.OfGroup(group), vouch: vouching(o.t, o.Vault, o.clock, o.asks.Token)}
}

// vouching has a vault vouch for records in sessions of their accounts, which send API keys in the clear. reader is
// that of the reader; nil = it begins one, too.
func vouching(t *testing.T, v vaultwire.Vault, now func() time.Time, reader vaultwire.Secret) func(*chain.Record) {
	tokens := map[string]vaultwire.Secret{"reader": reader}
	return func(r *chain.Record) {
		t.Helper()
		if tokens[r.Account] == nil {
			tokens[r.Account] = accountOf(t, v, r.Account, now).signsIn()
		}
		vouched(t, v, r, tokens[r.Account])
	}
}

// vouched has a vault vouch for a record in a session.
func vouched(t *testing.T, v vaultwire.Vault, r *chain.Record, token vaultwire.Secret) {
	t.Helper()
	a, err := v.Vouch(t.Context(), vaultwire.Vouch{Record: *r, Token: slices.Clone(token)})
	must(t, err)
	tag := chain.Tag{Name: chain.TagVouched, Value: a.Word}
	at, _ := slices.BinarySearchFunc(r.Tags, tag, func(a, b chain.Tag) int { return strings.Compare(a.Name, b.Name) })
	r.Tags = slices.Insert(slices.Clone(r.Tags), at, tag)
}

// adds appends a record, and returns it.
func (h *history) adds(r chain.Record) chain.Record {
	if group, ok := strings.CutPrefix(h.name, chain.OfGroup("")); ok {
		r.Group = group
	}
	r.Chain, r.Number = h.name, int64(len(h.records)+1)
	r.Seq = 10 * r.Number
	if r.Number > 1 {
		r.Prev = h.records[r.Number-2].Sum()
	}
	if r.LetsIn() && h.vouch != nil {
		h.vouch(&r)
	}
	h.records = append(h.records, r)
	return r
}

func (h *history) and(r chain.Record) *history {
	h.adds(r)
	return h
}

// with is another history that begins as this one.
func (h *history) with(n int) *history { return &history{h.name, slices.Clone(h.records[:n]), h.vouch} }

// logged puts a record into the log.
func (o *opening) logged(r chain.Record) {
	o.t.Helper()
	o.records(r.Chain, r.Body())
}

func (o *opening) part(group string) []byte {
	return o.tree.Part([]chain.Hash{chain.Key(chain.OfGroup(group))})
}

// reads asks for the key of a file of g for the reader, and for nothing if it is not to be paid.
func (o *opening) reads() error {
	q := o.claim(1)
	_, err := o.OpenFile(o.t.Context(), q)
	return err
}

func record(kind, account, detail string) chain.Record {
	return chain.Record{Kind: kind, Account: account, Detail: detail}
}

// Threat 83: the key of a file is given to members alone, as the chain of the group in the log says, and not any more
// once the log has a revocation.
func TestThreat83KeysAreGivenToMembers(t *testing.T) { onEachWay(t, keysAreGivenToMembers) }

func keysAreGivenToMembers(t *testing.T, w way) {
	o := openingWith(t, w)
	is(t, "a member", o.reads(), nil)
	h := o.historyOf("h")
	o.logged(h.adds(record(chain.KindRegister, "alice", "")))
	o.asks.Binding.Group, o.asks.Claim.Group = "h", "h"
	wrapped, err := o.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: o.asks.Binding,
		Key: make([]byte, vaultwire.KeyBytes)})
	must(t, err)
	o.asks.Wrapped = wrapped.Wrapped
	is(t, "a group that the vault does not know", o.reads(), vaultwire.ErrNotFollowed)
	gives := func(list ...chain.Record) error {
		_, err := o.Follow(t.Context(), vaultwire.Follow{Group: "h", Chains: o.part("h"), Records: list})
		return err
	}
	is(t, "its chain", gives(h.records...), nil)
	is(t, "who is no member", o.reads(), vaultwire.ErrNoMember)
	_, err = o.Check(t.Context(), vaultwire.Check{WrappedKey: o.asks.WrappedKey, Token: o.asks.Token})
	is(t, "who is no member, before it is paid", err, vaultwire.ErrNoMember)
	is(t, "a record by who is not the owner", gives(h.with(1).adds(record(chain.KindAdd, "reader", "reader"))), nil)
	is(t, "who made itself a member", o.reads(), vaultwire.ErrNoMember)
	other := h.with(1).and(record(chain.KindKeep, "alice", "")).adds(record(chain.KindKeep, "x", ""))
	is(t, "another chain", gives(other), vaultwire.ErrNotFollowing)
	is(t, "a group that a lie was told of", o.reads(), vaultwire.ErrNotFollowed)
	added := h.adds(record(chain.KindAdd, "alice", "reader"))
	is(t, "the chain goes on beyond the log", gives(h.records...), nil)
	is(t, "a member that was just added", o.reads(), nil)
	o.logged(added)
	is(t, "a member that the log has", o.reads(), nil)
	sealed := h.adds(record(chain.KindKeys, "alice", chain.KeysSealed))
	is(t, "keys come sealed alone", gives(sealed), nil)
	is(t, "a session in the clear", o.reads(), vaultwire.ErrSealedOnly)
	inClear := h.adds(record(chain.KindKeys, "alice", "any"))
	is(t, "keys come in the clear again", gives(inClear), nil)
	is(t, "a session in the clear again", o.reads(), nil)
	o.logged(sealed)
	o.logged(inClear)
	revoked := h.adds(record(chain.KindRevoke, "alice", "reader"))
	o.logged(revoked)
	is(t, "a chain whose end was not shown", o.reads(), vaultwire.ErrNotFollowed)
	is(t, "another end", gives(h.with(4).adds(record(chain.KindKeep, "alice", ""))), vaultwire.ErrNotFollowing)
	is(t, "the beginning again", gives(h.records[:4]...), nil)
	is(t, "a chain without its end", o.reads(), vaultwire.ErrNotFollowed)
	is(t, "its end", gives(revoked), nil)
	is(t, "who was revoked", o.reads(), vaultwire.ErrNoMember)
}

// Threat 83: the log has to have the records by which the vault took somebody for a member, or each checkpoint says
// that it lacks some.
func TestThreat83InventedMembersAreCounted(t *testing.T) { onEachWay(t, inventedMembersAreCounted) }

func inventedMembersAreCounted(t *testing.T, w way) {
	o := openingWith(t, w)
	h := o.historyOf("g")
	h.and(registered("g")).and(record(chain.KindRevoke, "reader", "x"))
	h.records[0] = registered("g")
	invented := h.with(1).adds(record(chain.KindOpenJoin, "reader", "1"))
	must(t, last(o.Follow(t.Context(), vaultwire.Follow{Group: "g", Records: []chain.Record{invented}})))
	q := o.claim(1)
	o.opens(q)
	o.records(reader, q.Claim.Body())
	o.now = o.now.Add(wire.RecordedWithin)
	o.says(1, 1, 1)
	other := h.with(1).adds(record(chain.KindKeep, "reader", ""))
	o.logged(other)
	o.says(1, 1, 1)
	is(t, "what was invented beyond the log is not what came", o.reads(), vaultwire.ErrNotFollowed)
}

func last[T any](_ T, err error) error { return err }

// Threat 83: who starts a vault anew, or has it forget a group, cannot have it take an earlier chain, or another one,
// for the newest.
func TestThreat83VaultWantsTheNewestChain(t *testing.T) { onEachWay(t, vaultWantsTheNewestChain) }

func vaultWantsTheNewestChain(t *testing.T, w way) {
	o := openingWith(t, w)
	h := o.historyOf("k")
	h.and(record(chain.KindRegister, "alice", "")).and(record(chain.KindAdd, "alice", "reader"))
	for _, r := range h.records {
		o.logged(r)
	}
	before, withReader := o.part("k"), h.with(2)
	for n := range 600 { // so that there is a state
		o.logged(h.adds(record(chain.KindKeep, "alice", fmt.Sprint(n))))
	}
	follow := func(v vaultwire.Vault, q vaultwire.Follow) (vaultwire.Followed, error) {
		q.Group = "k"
		return v.Follow(t.Context(), q)
	}
	a, err := follow(o.Vault, vaultwire.Follow{Records: h.records, Keep: true})
	if err != nil || len(a.State) == 0 || a.Seq != 6020 {
		t.Fatalf("%+v, %v", a, err)
	}
	state := a.State
	o.logged(h.adds(record(chain.KindRevoke, "alice", "reader")))

	inside, err := vault.New(t.Context(), o.from, vaultwire.Source{}, "", o.clock) // as after a restart
	must(t, err)
	second := w(t, inside)
	_, err = second.Keep(t.Context(), vaultwire.Keep{Rows: o.rows})
	must(t, err)
	tree, err := o.NewestTree(t.Context(), vaultwire.Nothing{})
	must(t, err)
	edge, err := vaultwire.EdgeOf(tree.Records, o)
	must(t, err)
	must(t, last(second.Extend(t.Context(), vaultwire.Extension{Tree: tree, Edge: edge})))
	asks := func(what string, q vaultwire.Follow, want error) {
		t.Helper()
		_, err := follow(second, q)
		is(t, what, err, want)
	}
	asks("no proof", vaultwire.Follow{State: state}, vaultwire.ErrNotFollowing)
	asks("an earlier tree", vaultwire.Follow{State: state, Chains: before}, vaultwire.ErrNotFollowing)
	asks("a part of another chain", vaultwire.Follow{State: state, Chains: o.part("g")}, vaultwire.ErrNotFollowing)
	asks("another chain", vaultwire.Follow{Chains: o.part("k"),
		Records: withReader.and(record(chain.KindKeep, "alice", "x")).with(603 - 600).records}, nil)
	q := o.asks
	q.Binding.Group, q.Claim.Group = "k", "k"
	wrapped, err := second.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: q.Binding,
		Key: make([]byte, vaultwire.KeyBytes)})
	must(t, err)
	q.Wrapped = wrapped.Wrapped
	_, err = second.OpenFile(t.Context(), q)
	is(t, "another chain that is shorter", err, vaultwire.ErrNotFollowed)
	asks("the rest of the chain upon another one", vaultwire.Follow{Records: h.records[3:]}, vaultwire.ErrNotFollowing)
	for what, bad := range map[string][]byte{"changed": append(slices.Clone(state[:len(state)-1]), 0),
		"short": state[:20], "of nothing": {}} {
		a, err := follow(second, vaultwire.Follow{Chains: o.part("k"), State: bad})
		if err != nil || a.Seq != 0 {
			t.Errorf("a state that is %s: %+v, %v", what, a, err)
		}
		// what is known of the chain begins with its first record, until it is forgotten
		asks("a lie", vaultwire.Follow{Records: []chain.Record{{Number: 1}}}, vaultwire.ErrNotFollowing)
	}
	a, err = follow(second, vaultwire.Follow{Chains: o.part("k"), State: state})
	if err != nil || a.Seq != 6020 {
		t.Errorf("a state: %+v, %v", a, err)
	}
	_, err = second.OpenFile(t.Context(), q)
	is(t, "a state without what came since", err, vaultwire.ErrNotFollowed)
	asks("what came since", vaultwire.Follow{Records: h.records[602:]}, nil)
	_, err = second.OpenFile(t.Context(), q)
	is(t, "who was revoked since", err, vaultwire.ErrNoMember)
}

// Threat 83: what a service says of groups and accounts takes no more memory than their number.
func TestThreat83NamesAreBounded(t *testing.T) {
	o := openingWith(t, func(_ *testing.T, v *vault.Vault) vaultwire.Vault { return v })
	long := strings.Repeat("x", 2000)
	follow := func(v vaultwire.Vault, group string, list ...chain.Record) ([]int64, error) {
		a, err := v.Follow(t.Context(), vaultwire.Follow{Group: group, Chains: o.part(group), Records: list})
		return a.Refused, err
	}
	changesNothing := func(what string, v vaultwire.Vault, list []chain.Record, want ...int64) {
		t.Helper()
		if refused, err := follow(v, list[0].Group, list...); err != nil || !slices.Equal(refused, want) {
			t.Errorf("%s: %v, %v", what, refused, err)
		}
	}
	_, err := follow(o.Vault, long)
	is(t, "a long name of a group", err, vaultwire.ErrNotFollowing)
	h := o.historyOf("h").and(record(chain.KindRegister, "alice", ""))
	changesNothing("a long name of a member", o.Vault, h.and(record(chain.KindAdd, "alice", long)).records, 2)
	changesNothing("a long name of an account", o.Vault,
		o.historyOf("l").and(record(chain.KindRegister, long, "")).records, 1)
	_, err = o.MakeKey(t.Context(), vaultwire.MakeKey{Account: long})
	is(t, "a credential of a long name", err, vaultwire.ErrCredential)
	unfollowed, _, _ := started(t, func(_ *testing.T, v *vault.Vault) vaultwire.Vault { return v }, o.clock)
	many := &history{name: chain.OfGroup("i"), vouch: vouching(t, unfollowed, o.clock, nil)}
	many.adds(record(chain.KindRegister, "alice", ""))
	for i := range 1<<14 + 2 {
		many.adds(record(chain.KindAdd, "alice", fmt.Sprint("m", i)))
	}
	invites := &history{name: chain.OfGroup("j"), vouch: many.vouch}
	invites.adds(record(chain.KindRegister, "alice", ""))
	for i := range 1<<12 + 1 {
		invites.adds(record(chain.KindInvite, "alice", fmt.Sprint(i, " writer 9")))
	}
	for _, id := range []string{"0", "1"} {
		r := record(chain.KindAdd, "alice", "eve")
		r.Tags = []chain.Tag{{Name: chain.TagInvite, Value: id}}
		invites.adds(r)
	}
	changesNothing("the oldest of more invites than a group has", unfollowed, invites.records, 1<<12+3)
	changesNothing("more members than a group has", unfollowed, many.records, 1<<14+2, 1<<14+3)
}
