package vault_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// liar is a service that somebody took over, over a vault and a log: it asks for whatever it likes. The test knows what
// is true.
type liar struct {
	*opening
	random *rand.Rand
	tokens map[string]vaultwire.Secret
	claims map[string]*history // true chains of the accounts
	groups map[string]*history // true chains of the groups
	files  map[string]vaultwire.WrappedKey
	told   map[string][]chain.Record // of a group, what the vault was given
	parts  [][]byte
	logs   map[vaultwire.Placed]bool // records that came into the log since the vault began
	behind []chain.Record            // true records that the log lacks
	given  []needs                   // keys
	used   map[vaultwire.Placed]bool // claims for which a key was given
	asked  map[chain.Hash]bool       // hashes of records for which there is the word of the vault
}

// needs is the records that make a key a recorded one.
type needs []vaultwire.Placed

func placed(r chain.Record) vaultwire.Placed {
	return vaultwire.Placed{Chain: chain.Key(r.Chain), Place: chain.PlaceOf(&r)}
}

func newLiar(t *testing.T, seed uint64) *liar {
	t.Helper()
	direct := func(_ *testing.T, v *vault.Vault) vaultwire.Vault { return v }
	l := &liar{opening: openingWith(t, direct), random: rand.New(rand.NewPCG(seed, 1)),
		tokens: map[string]vaultwire.Secret{}, claims: map[string]*history{}, groups: map[string]*history{},
		files: map[string]vaultwire.WrappedKey{}, told: map[string][]chain.Record{}, used: map[vaultwire.Placed]bool{},
		asked: map[chain.Hash]bool{}}
	for _, name := range []string{"alice", "bob", "carol"} {
		l.tokens[name] = accountOf(t, l.Vault, name, l.clock).signsIn()
		l.claims[name] = &history{name: chain.OfAccount(name)}
	}
	for _, name := range []string{"a", "b"} {
		l.groups[name] = &history{name: chain.OfGroup(name), vouch: l.vouches}
		l.behind = append(l.behind, l.groups[name].adds(record(chain.KindRegister, "alice", "")))
		b := vaultwire.Binding{Group: name, Ref: "bafy1", Version: 1}
		wrapped, err := l.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Key: make([]byte, vaultwire.KeyBytes)})
		must(t, err)
		l.files[name] = vaultwire.WrappedKey{Binding: b, Wrapped: wrapped.Wrapped}
	}
	l.restarts()
	return l
}

// restarts begins with a new vault at the newest tree of the log.
func (l *liar) restarts() {
	inside, err := vault.New(l.t.Context(), l.from, vaultwire.Source{}, "", l.clock)
	must(l.t, err)
	l.Vault = inside
	must(l.t, last(l.Keep(l.t.Context(), vaultwire.Keep{Rows: l.rows})))
	tree := l.newest()
	edge, err := vaultwire.EdgeOf(tree.Records, l)
	must(l.t, err)
	must(l.t, last(l.Extend(l.t.Context(), vaultwire.Extension{Tree: tree, Edge: edge})))
	l.now = l.now.Add(time.Minute)
	l.logs, l.given, l.used = map[vaultwire.Placed]bool{}, nil, map[vaultwire.Placed]bool{}
	clear(l.told)
}

// vouches has the vault vouch for a record in a session of its account.
func (l *liar) vouches(r *chain.Record) {
	vouched(l.t, l, r, l.tokens[r.Account])
	l.asked[r.Sum()] = true
}

// copies gives a record the word of the vault for another one, or none.
func (l *liar) copies(r *chain.Record) {
	var words []string
	for _, h := range l.groups {
		for _, r := range h.records {
			words = append(words, r.Tag(chain.TagVouched))
		}
	}
	if word := pick(l, words...); word != "" {
		r.Tags = []chain.Tag{{Name: chain.TagVouched, Value: word}}
	}
}

func pick[T any](l *liar, list ...T) T { return list[l.random.IntN(len(list))] }

func (l *liar) account() string { return pick(l, "alice", "bob", "carol") }
func (l *liar) group() string   { return pick(l, "a", "b") }

// changes makes a true change of members.
func (l *liar) changes() {
	h, who := l.groups[l.group()], pick(l, "bob", "carol")
	kind := chain.KindAdd
	if l.members(h.records).Has[who] {
		kind = pick(l, chain.KindRevoke, chain.KindKeep)
	}
	l.behind = append(l.behind, h.adds(record(kind, "alice", who)))
}

// members are those that a chain has: what nobody asked for changes nothing.
func (l *liar) members(list []chain.Record) (m chain.Members) {
	for i := range list {
		if r := &list[i]; !r.LetsIn() || l.asked[r.Sum()] {
			_ = m.Apply(r)
		}
	}
	return m
}

// logsSome puts the oldest true records into the log.
func (l *liar) logsSome() {
	for range min(len(l.behind), 1+l.random.IntN(4)) {
		r := l.behind[0]
		l.logged(r)
		l.logs[placed(r)], l.behind = true, l.behind[1:]
		if told := l.told[r.Group]; r.Chain == chain.OfGroup(r.Group) && int64(len(told)) >= r.Number &&
			told[r.Number-1].Sum() != r.Sum() {
			delete(l.told, r.Group) // it was told another one
		}
	}
	l.parts = append(l.parts, l.part(l.group()))
}

// tells gives the vault the chain of a group, true or not.
func (l *liar) tells() {
	group := l.group()
	h := l.groups[group]
	list := slices.Clone(h.records)
	switch l.random.IntN(6) {
	case 0: // an earlier chain
		list = list[:1+l.random.IntN(len(list))]
	case 1: // a chain of its own
		own := h.with(max(1, len(list)-l.random.IntN(3)))
		own.vouch = pick(l, l.vouches, l.copies) // in a session whose token is known, or not
		own.adds(record(chain.KindAdd, pick(l, "alice", "carol"), "carol"))
		list = own.records
	case 2: // a chain without a record
		at := l.random.IntN(len(list))
		list = slices.Delete(list, at, at+1)
	case 3: // the chain of another group
		list = slices.Clone(l.groups[l.group()].records)
	}
	q := vaultwire.Follow{Group: group, Chains: l.part(group), Records: list}
	if l.random.IntN(3) == 0 && len(l.parts) > 0 {
		q.Chains = pick(l, l.parts...)
	}
	if _, err := l.Follow(l.t.Context(), q); err != nil {
		delete(l.told, group) // it asks for all again
		return
	}
	for _, r := range list {
		if r.Number > int64(len(l.told[group])) {
			l.told[group] = append(l.told[group], r)
		}
	}
}

// asksForAKey asks for a key, in a session and for a record of its choice.
func (l *liar) asksForAKey() {
	group, by, signedIn := l.group(), l.account(), l.account()
	if l.random.IntN(2) == 0 {
		signedIn = by
	}
	h := l.claims[by]
	claim := record(pick(l, chain.KindClaim, chain.KindClaim, chain.KindClaim, chain.KindRecord), by, "")
	claim.Group, claim.Ref = group, pick(l, "bafy1", "bafy1", "bafy1", "bafy2")
	q := vaultwire.OpenFile{WrappedKey: l.files[group], Token: slices.Clone(l.tokens[signedIn])}
	switch l.random.IntN(4) {
	case 0: // a record that is nowhere
		q.Claim = h.with(len(h.records)).adds(claim)
	case 1: // one that was used
		if len(h.records) == 0 {
			return
		}
		q.Claim = pick(l, h.records...)
	default:
		q.Claim = h.adds(claim)
		l.behind = append(l.behind, q.Claim)
	}
	_, err := l.OpenFile(l.t.Context(), q)
	isTrue := q.Claim.Kind == chain.KindClaim && q.Claim.Account == signedIn && q.Claim.Group == group &&
		q.Claim.Ref == "bafy1"
	at := placed(q.Claim)
	told := l.told[group]
	if err != nil {
		if isTrue && !l.used[at] && len(told) >= l.lengthOf(group) && l.members(told).Has[signedIn] {
			l.t.Errorf("%s was not given a key of %s: %v", signedIn, group, err)
		}
		return
	}
	if !isTrue || l.used[at] || !l.members(told).Has[signedIn] || len(told) < l.lengthOf(group) {
		l.t.Errorf("a key of %s was given to %s for %+v, by %d records", group, signedIn, q.Claim, len(told))
	}
	l.used[at] = true
	n := needs{}
	if !l.logs[at] {
		n = append(n, at)
	}
	if len(told) > l.lengthOf(group) {
		n = append(n, placed(told[len(told)-1]))
	}
	l.given = append(l.given, n)
}

// lengthOf is how many records of a group the log has.
func (l *liar) lengthOf(group string) int { return int(l.ends[chain.OfGroup(group)].Number) }

// extendsWrongly gives the vault another log than that which there is.
func (l *liar) extendsWrongly() {
	e := vaultwire.Extension{Tree: l.newest(), Chains: l.part(l.group())}
	h := l.groups[l.group()]
	other := h.with(1 + l.random.IntN(len(h.records))).adds(record(chain.KindAdd, "alice", "carol"))
	switch e.Records = vaultwire.AppendRecord(nil, &other); l.random.IntN(3) {
	case 0:
		e.Tree.Records++
	case 1:
		e.Tree.Records--
		e.Records = nil
	default:
		e.Tree.Chains = chain.Hash{1}
	}
	if _, err := l.Extend(l.t.Context(), e); !errors.Is(err, vaultwire.ErrNotFollowing) {
		l.t.Errorf("another log: %v", err)
	}
}

// Threat 83: whatever a service says that was taken over, a key is given out to members alone, in a session of theirs,
// for the record of a retrieval, and each checkpoint tells for how many of them the log lacks records.
func TestThreat83WhateverTheServiceSays(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			l := newLiar(t, seed)
			keys := 0
			for range 400 {
				switch n := l.random.IntN(100); {
				case n < 10:
					l.changes()
				case n < 25:
					l.logsSome()
				case n < 50:
					l.tells()
				case n < 94:
					l.asksForAKey()
				case n < 98:
					l.extendsWrongly()
				default:
					keys += len(l.given)
					l.restarts()
				}
				if t.Failed() {
					return
				}
			}
			for len(l.behind) > 0 {
				l.logsSome()
			}
			l.now = l.now.Add(wire.RecordedWithin)
			lacking := int64(0)
			for _, n := range l.given {
				if slices.ContainsFunc(n, func(r vaultwire.Placed) bool { return !l.logs[r] }) {
					lacking++
				}
			}
			l.says(int64(len(l.given)), int64(len(l.given)), lacking)
			if keys+len(l.given) == 0 {
				t.Error("no key was given out")
			}
		})
	}
}
