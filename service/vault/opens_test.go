package vault_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// reader is the chain of who retrieves in these tests.
const reader = "account:reader"

// claimed asks for the key of a file as for a retrieval of an account with a session.
func claimed(w vaultwire.WrappedKey, token vaultwire.Secret) vaultwire.OpenFile {
	return vaultwire.OpenFile{WrappedKey: w, Token: token, Claim: chain.Record{Kind: chain.KindClaim,
		Account: "reader", Chain: reader, Group: w.Binding.Group, Ref: w.Binding.Ref}}
}

// account is an account with an API key.
type account struct {
	vaultwire.Vault
	t          *testing.T
	name       string
	now        func() time.Time
	credential vaultwire.Credential
	key        vaultwire.Secret
	asked      int64 // requests
}

func accountOf(t *testing.T, v vaultwire.Vault, name string, now func() time.Time) *account {
	t.Helper()
	made, err := v.MakeKey(t.Context(), vaultwire.MakeKey{Account: name})
	must(t, err)
	taken, err := v.TakeKey(t.Context(), vaultwire.TakeKey{Held: made.Held, Record: made1(name)})
	must(t, err)
	return &account{v, t, name, now, made.Credential, taken.Key, 0}
}

// made1 is the record of the first key of an account.
func made1(name string) chain.Record {
	return chain.Record{Kind: chain.KindCreateAccount, Account: name, Chain: chain.OfAccount(name), Number: 1}
}

// asks is the question for a token, without what says that the account may have it.
func (a *account) asks() vaultwire.IssueToken {
	return vaultwire.IssueToken{Credential: a.credential, Claims: vaultwire.Claims{Account: a.name, Generation: 3,
		Address: "http://s", Issued: a.now(), Expires: a.now().Add(time.Hour)}}
}

// signsIn returns a token for the API key in the clear.
func (a *account) signsIn() vaultwire.Secret {
	a.t.Helper()
	q := a.asks()
	q.Key = a.key
	made, err := a.IssueToken(a.t.Context(), q)
	must(a.t, err)
	return made.Text
}

// opening asks a vault for the key of a file, under a clock.
type opening struct {
	vaultwire.Vault
	t    *testing.T
	now  time.Time
	rows []vaultwire.Row
	from vaultwire.Source

	asks   vaultwire.OpenFile
	claims int64        // that were made
	hashes []chain.Hash // of the records of the log
	tree   chain.Tree
	ends   map[string]chain.Place
	made   map[int64]chain.Hash // of the newest claim of a number
}

func openingWith(t *testing.T, w way) *opening {
	t.Helper()
	o := &opening{t: t, now: time.Now(), ends: map[string]chain.Place{}, made: map[int64]chain.Hash{}}
	o.Vault, o.rows, o.from = started(t, w, o.clock)
	file := vaultwire.WrappedKey{Binding: vaultwire.Binding{Group: "g", Ref: "bafy1", Version: 1}}
	wrapped, err := o.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: file.Binding,
		Key: bytes.Repeat([]byte{7}, vaultwire.KeyBytes)})
	must(t, err)
	file.Wrapped = wrapped.Wrapped
	o.asks = claimed(file, accountOf(t, o.Vault, "reader", func() time.Time { return o.now }).signsIn())
	follow(t, o.Vault, registered("g"))
	o.opens(o.claim(1)) // before it follows the log
	o.records("account:first", chain.Hash{1})
	group := registered("g")
	o.records(group.Chain, group.Body())
	follow(t, o.Vault, group)
	o.opens(o.claim(1)) // its record may have been in the log before
	o.now = o.now.Add(30 * time.Second)
	return o
}

func (o *opening) clock() time.Time { return o.now }

// registered is the first record of the chain of a group of the reader.
func registered(group string) chain.Record {
	return chain.Record{Kind: chain.KindRegister, Account: "reader", Group: group, Chain: chain.OfGroup(group),
		Number: 1}
}

// follow gives a vault the records of a group.
func follow(t *testing.T, v vaultwire.Vault, list ...chain.Record) {
	t.Helper()
	_, err := v.Follow(t.Context(), vaultwire.Follow{Group: list[0].Group, Records: list})
	must(t, err)
}

// claim is the question for another retrieval, whose record has a number of its chain.
func (o *opening) claim(number int64) vaultwire.OpenFile {
	q := o.asks
	o.claims++
	q.Claim.Tx, q.Claim.Number, q.Claim.Prev = fmt.Sprint(o.claims), number, o.made[number-1]
	o.made[number] = q.Claim.Sum()
	return q
}

func (o *opening) opens(q vaultwire.OpenFile) {
	o.t.Helper()
	_, err := o.OpenFile(o.t.Context(), q)
	must(o.t, err)
}

// ReadHashes computes the hashes of the tree.
func (o *opening) ReadHashes(indexes []int64) (list []tlog.Hash, err error) {
	var all []tlog.Hash
	stored := tlog.HashReaderFunc(func(indexes []int64) (list []tlog.Hash, err error) {
		for _, i := range indexes {
			list = append(list, all[i])
		}
		return list, nil
	})
	for i, h := range o.hashes {
		add, err := tlog.StoredHashesForRecordHash(int64(i), tlog.RecordHash(h[:]), stored)
		must(o.t, err)
		all = append(all, add...)
	}
	return stored(indexes)
}

// records puts a record into the log, at the end of a chain.
func (o *opening) records(name string, body chain.Hash) {
	o.t.Helper()
	key, before := chain.Key(name), o.ends[name]
	at := chain.Place{Number: before.Number + 1, Hash: chain.Link(before.Hash, body)}
	e := vaultwire.Extension{Records: slices.Concat(key[:], body[:]), Chains: o.tree.Part([]chain.Hash{key})}
	o.tree, o.hashes, o.ends[name] = o.tree.With(name, at), append(o.hashes, at.Hash), at
	e.Tree = o.newest()
	if e.Tree.Records == 1 { // a vault begins with the first tree
		e.Edge, e.Records = e.Tree.Root[:], nil
	}
	_, err := o.Extend(o.t.Context(), e)
	must(o.t, err)
}

// newest is the tree of the log.
func (o *opening) newest() vaultwire.Tree {
	o.t.Helper()
	n := int64(len(o.hashes))
	root, err := tlog.TreeHash(n, o)
	must(o.t, err)
	return vaultwire.Tree{Records: n, Root: chain.Hash(root), Chains: o.tree.Root()}
}

// says is what the next checkpoint says.
func (o *opening) says(keys, inClear, unrecorded int64) {
	o.t.Helper()
	tree, err := o.NewestTree(o.t.Context(), vaultwire.Nothing{})
	must(o.t, err)
	signed, err := o.Sign(o.t.Context(), vaultwire.Sign{Version: 1, Origin: "o", Tree: &tree})
	must(o.t, err)
	if c := signed.Opens; c.Keys != keys || c.Clear != inClear || c.Unrecorded != unrecorded {
		o.t.Errorf("%+v, want %d keys, %d in the clear, %d unrecorded", c, keys, inClear, unrecorded)
	}
}

// Threat 78: a vault gives out the key of a file for the record of a retrieval of that file alone, and once.
func TestThreat78NoKeyWithoutAClaim(t *testing.T) { onEachWay(t, noKeyWithoutAClaim) }

func noKeyWithoutAClaim(t *testing.T, w way) {
	o := openingWith(t, w)
	for name, change := range map[string]func(*chain.Record){
		"no record":                 func(r *chain.Record) { *r = chain.Record{} },
		"a record of another kind":  func(r *chain.Record) { r.Kind = chain.KindRecord },
		"a record of nobody":        func(r *chain.Record) { r.Account, r.Chain = "", chain.OfAccount("") },
		"a record in another chain": func(r *chain.Record) { r.Chain = chain.OfAccount("other") },
		"a record of another group": func(r *chain.Record) { r.Group = "h" },
		"a record of another file":  func(r *chain.Record) { r.Ref = "bafy2" },
		"a record of who has another session": func(r *chain.Record) {
			r.Account, r.Chain = "other", chain.OfAccount("other")
		},
	} {
		q := o.claim(1)
		change(&q.Claim)
		_, err := o.OpenFile(t.Context(), q)
		is(t, name, err, vaultwire.ErrNoClaim)
	}
	var refused *vaultwire.TokenError
	for name, token := range map[string]vaultwire.Secret{"no session": nil,
		"a session of nobody": o.asks.Token[:len(o.asks.Token)-1]} {
		q := o.claim(1)
		q.Token = token
		if _, err := o.OpenFile(t.Context(), q); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := o.claim(1)
	other.Wrapped = append([]byte{1}, other.Wrapped...)
	_, err := o.OpenFile(t.Context(), other)
	is(t, "a wrapped key that does not open", err, vaultwire.ErrNotOpened)
	o.says(0, 0, 0)

	first := o.claim(1)
	o.opens(first)
	_, err = o.OpenFile(t.Context(), first)
	is(t, "a record again", err, vaultwire.ErrNoClaim)
	o.records(reader, first.Claim.Body())
	_, err = o.OpenFile(t.Context(), first)
	is(t, "a record again that is in the log", err, vaultwire.ErrNoClaim)
	second := o.claim(2)
	o.records(reader, second.Claim.Body()) // before its key is asked for
	o.opens(second)
	_, err = o.OpenFile(t.Context(), second)
	is(t, "a record again that was in the log first", err, vaultwire.ErrNoClaim)
	o.now = o.now.Add(wire.RecordedWithin)
	o.says(2, 2, 0)
}

// Threat 78: each checkpoint says how many keys were given out for records that the log lacks, until it has them where
// they belong.
func TestThreat78UnrecordedKeysAreCounted(t *testing.T) { onEachWay(t, unrecordedKeysAreCounted) }

func unrecordedKeysAreCounted(t *testing.T, w way) {
	o := openingWith(t, w)
	first, silent := o.claim(1), o.claim(2)
	o.opens(first)
	o.opens(silent)
	o.now = o.now.Add(wire.RecordedWithin - time.Second)
	o.says(2, 2, 0)
	o.records(reader, first.Claim.Body())
	o.now = o.now.Add(time.Second)
	o.says(2, 2, 1)
	o.records("account:throwaway", silent.Claim.Body())
	o.says(2, 2, 1)
	forged := vaultwire.Extension{
		Records: vaultwire.AppendRecord(nil, &silent.Claim)}
	forged.Tree, _ = o.NewestTree(t.Context(), vaultwire.Nothing{})
	_, err := o.Extend(t.Context(), forged) // a record of no tree
	is(t, "a record beside the log", err, vaultwire.ErrNotFollowing)
	o.says(2, 2, 1)
	o.records("account:throwaway", chain.Hash{2})
	o.records(reader, silent.Claim.Body()) // who wrote it cannot take it back
	o.says(2, 2, 0)
}

// Threat 78: a vault whose records do not come remembers that there were more than it has room for.
func TestThreat78ManyUnrecordedKeysAreCounted(t *testing.T) {
	o := openingWith(t, func(_ *testing.T, v *vault.Vault) vaultwire.Vault { return v })
	const most = 1 << 16
	first, last := o.claim(1), o.claim(2)
	o.opens(first)
	for range most - 1 {
		o.opens(o.claim(2))
	}
	o.opens(last)
	o.now = o.now.Add(wire.RecordedWithin)
	o.says(most+1, most+1, most+1)
	o.records(reader, first.Claim.Body())
	o.records(reader, last.Claim.Body())
	o.says(most+1, most+1, most)
}
