package vault_test

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// sealedSession is a sealed session of an account.
type sealedSession struct {
	*account
	token vaultwire.Secret
	*format.Session
}

func (a *account) signsInSealed(rows []vaultwire.Row) sealedSession {
	a.t.Helper()
	q := a.asks()
	opening, session := a.opening(rows, nil)
	q.Opening = opening
	made, err := a.IssueToken(a.t.Context(), q)
	must(a.t, err)
	return sealedSession{a, made.Text, session}
}

// asks is the question for the word of the vault, for a record that a request of the session asks for.
func (s sealedSession) asks(r chain.Record, op string, request any) vaultwire.Vouch {
	s.t.Helper()
	s.asked++ // no request has the proof of another one
	body, err := json.Marshal(request)
	must(s.t, err)
	sum := sha256.Sum256(body)
	p := wire.ProvenRequest{Method: "POST", Target: "/below" + wire.PathTools + op, Token: string(s.token),
		Time: s.now().UnixNano() + s.asked, Body: &sum}
	proven, err := p.CheckProof(s.RequestKey(), p.Prove(wire.ProofKeys{Service: s.RequestKey(), Vault: s.VouchKey()}))
	must(s.t, err)
	proven.Token, proven.Body = "", nil
	return vaultwire.Vouch{Record: r, Token: slices.Clone(s.token),
		Asked: &vaultwire.Asked{ProvenRequest: proven, JSON: body}}
}

// invites is the question for the word of the vault, for an invite to group g that a request for one to a group asks
// for.
func (s sealedSession) invites(to string) vaultwire.Vouch {
	s.t.Helper()
	q := s.asks(lettingIn(chain.KindInvite, s.name, "", 2), wire.OpInviteToGroup, wire.GroupRequest{GroupID: to})
	q.Record.Detail = vaultwire.InviteID(q.Asked.ForVault) + " writer 7"
	return q
}

// lettingIn is a record of a group at a number.
func lettingIn(kind, account, detail string, number int64, tags ...chain.Tag) chain.Record {
	return chain.Record{Kind: kind, Account: account, Group: "g", Detail: detail, Chain: chain.OfGroup("g"),
		Number: number, Tags: tags}
}

// Threat 84: in a sealed session the vault vouches for what a request of the session asks for, and for nothing else.
func TestThreat84VaultVouchesForWhatIsAsked(t *testing.T) { onEachWay(t, vaultVouchesForWhatIsAsked) }

func vaultVouchesForWhatIsAsked(t *testing.T, w way) {
	now := time.Now()
	clock := func() time.Time { return now }
	v, rows, _ := started(t, w, clock)
	alice := accountOf(t, v, "alice.svc", clock)
	session := alice.signsInSealed(rows)
	vouches := func(what string, q vaultwire.Vouch, want error) {
		t.Helper()
		_, err := v.Vouch(t.Context(), q)
		is(t, what, err, want)
	}
	bob := lettingIn(chain.KindAdd, "alice.svc", "bob.svc", 2)
	addsBob := wire.AddMemberRequest{GroupID: "g", MemberID: " Bob "}
	window := lettingIn(chain.KindOpenJoin, "alice.svc", "90 reader", 2)
	opens := wire.OpenJoinRequest{GroupID: "g", ExpiresAt: "90"}
	keysOf := func(keys string) wire.SetGroupSettingsRequest {
		return wire.SetGroupSettingsRequest{GroupID: "g", GroupSettings: wire.GroupSettings{Keys: keys}}
	}
	anyKeys := lettingIn(chain.KindKeys, "alice.svc", wire.KeysAny, 2)
	vouches("a member by its name", session.asks(bob, wire.OpAddGroupMember, addsBob), nil)
	vouches("a member by its id", session.asks(bob, wire.OpAddGroupMember,
		wire.AddMemberRequest{GroupID: "g", MemberID: "bob.svc"}), nil)
	vouches("a window", session.asks(window, wire.OpCreateHackathonGroup, opens), nil)
	vouches("an invite", session.invites("g"), nil)
	vouches("keys in the clear", session.asks(anyKeys, wire.OpSetGroupSettings, keysOf(wire.KeysAny)), nil)
	elsewhere := bob
	elsewhere.Group = "h"
	for what, q := range map[string]vaultwire.Vouch{
		"another member": session.asks(lettingIn(chain.KindAdd, "alice.svc", "eve.svc", 2), wire.OpAddGroupMember,
			addsBob),
		"of another domain": session.asks(lettingIn(chain.KindAdd, "alice.svc", "bob.evil", 2), wire.OpAddGroupMember,
			addsBob),
		"another group": session.asks(bob, wire.OpAddGroupMember,
			wire.AddMemberRequest{GroupID: "h", MemberID: "bob.svc"}),
		"another chain": session.asks(elsewhere, wire.OpAddGroupMember,
			wire.AddMemberRequest{GroupID: "h", MemberID: "bob.svc"}),
		"another operation": session.asks(bob, wire.OpRevokeGroupMember, addsBob),
		"another change":    session.asks(window, wire.OpAddGroupMember, addsBob),
		"another time": session.asks(lettingIn(chain.KindOpenJoin, "alice.svc", "91", 2), wire.OpCreateHackathonGroup,
			opens),
		"another setting":            session.asks(anyKeys, wire.OpSetGroupSettings, keysOf(wire.KeysSealed)),
		"another group to invite to": session.invites("h"),
		"another invite": session.asks(lettingIn(chain.KindInvite, "alice.svc", "id writer 7", 2), wire.OpInviteToGroup,
			wire.GroupRequest{GroupID: "g"}),
		"another account": session.asks(lettingIn(chain.KindAdd, "bob.svc", "bob.svc", 2), wire.OpAddGroupMember,
			addsBob),
		"no number": session.asks(lettingIn(chain.KindAdd, "alice.svc", "bob.svc", 0), wire.OpAddGroupMember, addsBob),
		"what lets nobody in": session.asks(lettingIn(chain.KindRevoke, "alice.svc", "bob.svc", 2),
			wire.OpAddGroupMember, addsBob),
		"a word already": session.asks(lettingIn(chain.KindAdd, "alice.svc", "bob.svc", 2,
			chain.Tag{Name: chain.TagVouched, Value: "x"}), wire.OpAddGroupMember, addsBob),
		"the use of an invite": session.asks(lettingIn(chain.KindAdd, "alice.svc", "bob.svc", 2,
			chain.Tag{Name: chain.TagInvite, Value: "id"}), wire.OpAddGroupMember, addsBob),
		"no request": {Record: bob, Token: slices.Clone(session.token)},
	} {
		vouches(what, q, vaultwire.ErrNotVouched)
	}
	for what, change := range map[string]func(*vaultwire.Vouch){
		"another body":    func(q *vaultwire.Vouch) { q.Asked.JSON = append(q.Asked.JSON, ' ') },
		"another path":    func(q *vaultwire.Vouch) { q.Asked.Target = wire.PathTools + wire.OpAddGroupMember },
		"another method":  func(q *vaultwire.Vouch) { q.Asked.Method = "PUT" },
		"no proof":        func(q *vaultwire.Vouch) { q.Asked.ForVault = nil },
		"another time":    func(q *vaultwire.Vouch) { q.Asked.Time++ },
		"another session": func(q *vaultwire.Vouch) { q.Token = alice.signsInSealed(rows).token },
		"the key of the service": func(q *vaultwire.Vouch) {
			p := q.Asked.ProvenRequest
			sum := sha256.Sum256(q.Asked.JSON)
			p.Token, p.Body = string(session.token), &sum
			forged, err := p.CheckProof(session.RequestKey(), p.Prove(wire.ProofKeys{Service: session.RequestKey(),
				Vault: session.RequestKey()}))
			must(t, err)
			q.Asked.ForVault = forged.ForVault
		},
	} {
		q := session.asks(bob, wire.OpAddGroupMember, addsBob)
		change(&q)
		vouches(what, q, vaultwire.ErrNotVouched)
	}
	q := session.invites("g")
	vouches("a write that is tried again", q, nil)
	q.Record.Number, q.Record.Prev = 3, chain.Hash{1}
	vouches("it has another place by now", q, nil)
	q.Record.Detail = "other writer 7"
	vouches("another invite for the same request", q, vaultwire.ErrNotVouched)
	q = session.asks(bob, wire.OpAddGroupMember, addsBob)
	now = now.Add(3 * time.Minute)
	vouches("later", q, nil)
	now = now.Add(time.Second)
	vouches("too late", q, vaultwire.ErrNotVouched)
	vouches("a session in the clear", vaultwire.Vouch{Record: bob, Token: alice.signsIn()}, nil)
	ahead := alice.asks()
	ahead.Key, ahead.Issued, ahead.Expires = alice.key, now.Add(time.Hour), now.Add(2*time.Hour)
	if _, err := v.IssueToken(t.Context(), ahead); err == nil {
		t.Error("a token of a time to come, by which the client would date its proofs")
	}
}

// Threat 84: the word of the vault is good for one record at one place of one chain, so that nobody whom the owner
// revoked is let in by it again, and nobody by an invite that was used or taken back. What nobody asked for changes
// nothing, and who is a member stays one.
func TestThreat84NobodyIsLetInUnasked(t *testing.T) { onEachWay(t, nobodyIsLetInUnasked) }

func nobodyIsLetInUnasked(t *testing.T, w way) {
	o := openingWith(t, w)
	h := o.historyOf("g")
	h.adds(registered("g"))
	adds := h.adds(record(chain.KindAdd, "reader", "bob"))
	invited := func(id, by string) chain.Record { return record(chain.KindInvite, by, id+" writer 9") }
	uses := func(id, by, who string) chain.Record {
		r := record(chain.KindAdd, by, who)
		r.Tags = []chain.Tag{{Name: chain.TagInvite, Value: id}}
		return r
	}
	h.and(record(chain.KindRevoke, "reader", "bob")).and(invited("i1", "reader")).and(invited("i2", "reader")).
		and(uses("i1", "reader", "carol")).and(record(chain.KindEndInvite, "reader", "i2")).
		and(invited("i3", "reader")).and(record(chain.KindAdd, "reader", "dora")).
		and(record(chain.KindOffer, "reader", "dora 1 2"))
	gives := func(list ...chain.Record) (vaultwire.Followed, error) {
		return o.Follow(t.Context(), vaultwire.Follow{Group: "g", Records: list})
	}
	forgets := func() {
		t.Helper()
		_, err := gives(chain.Record{Number: 1 << 40})
		is(t, "no chain", err, vaultwire.ErrNotFollowing)
	}
	next := func(r chain.Record, isVouched bool) chain.Record {
		own := h.with(len(h.records))
		if !isVouched {
			own.vouch = nil
		}
		return own.adds(r)
	}
	changesNothing := func(what string, r chain.Record) {
		t.Helper()
		forgets()
		if a, err := gives(append(slices.Clone(h.records), r)...); err != nil || !slices.Equal(a.Refused,
			[]int64{r.Number}) {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
		is(t, what+": a member reads", o.reads(), nil)
		o.made = map[int64]chain.Hash{}
	}
	again := record(chain.KindAdd, "reader", "bob")
	again.Tags = adds.Tags
	moved := next(record(chain.KindAdd, "reader", "eve"), false)
	other := *moved.Unvouched()
	other.Prev[0]++
	vouched(t, o.Vault, &other, o.asks.Token)
	moved.Tags = other.Tags
	noWord := record(chain.KindAdd, "reader", "eve")
	noWord.Tags = []chain.Tag{{Name: chain.TagVouched, Value: "!"}}
	changesNothing("a member", next(record(chain.KindAdd, "reader", "eve"), false))
	changesNothing("with no word", next(noWord, false))
	changesNothing("with the word of before", next(again, false))
	changesNothing("with the word for after another record", moved)
	changesNothing("a window", next(record(chain.KindOpenJoin, "reader", "1"), false))
	changesNothing("keys in the clear", next(record(chain.KindKeys, "reader", "any"), false))
	changesNothing("an invite", next(invited("i4", "reader"), false))
	changesNothing("who accepts without having asked", next(record(chain.KindAccept, "dora", ""), false))
	changesNothing("an invite by a member", next(invited("i4", "carol"), true))
	changesNothing("a used invite", next(uses("i1", "reader", "eve"), true))
	changesNothing("a taken back invite", next(uses("i2", "reader", "eve"), true))
	changesNothing("a used invite that is made again", next(invited("i1", "reader"), true))
	changesNothing("a taken back invite that is made again", next(invited("i2", "reader"), true))
	changesNothing("an invite of nowhere", next(uses("i9", "reader", "eve"), true))
	changesNothing("who joins", next(record(chain.KindJoin, "eve", ""), true))
	ofNoGroup := next(invited("i4", "reader"), false)
	ofNoGroup.Group = ""
	changesNothing("an invite to no group", ofNoGroup)
	h.adds(record(chain.KindAccept, "dora", ""))
	changesNothing("an invite of the owner before", next(uses("i3", "dora", "eve"), true))
}
