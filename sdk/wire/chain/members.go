package chain

import (
	"fmt"
	"slices"
	"strings"
)

// maxInvites bounds the invites of a group that are known, and those that are over: a service has no more than a
// thousand that are good.
const maxInvites = 1 << 12

// Members is who belongs to a group, and how they may have keys of its files, as the records of its chain say. The zero
// value is before the first record.
type Members struct {
	Owner    string          `json:",omitempty"` // "" = the group is not there yet, or has ended
	Has      map[string]bool `json:",omitempty"` // all members, and the owner
	Joinable bool            `json:",omitempty"` // accounts may join; until when is not looked at
	OfferTo  string          `json:",omitempty"` // who may accept the group; "" = nobody
	Sealed   bool            `json:",omitempty"` // keys of files are given in sealed sessions alone
	// Invites are the ids of those that were not used or taken back, the oldest first. Until when they are good is not
	// looked at: the clocks of services differ, and none may keep somebody out whom another one let in.
	Invites []string `json:",omitempty"`
	// Over are the ids of those that were used or taken back, the oldest first: none of them is made again.
	Over []string `json:",omitempty"`
}

// KeysSealed is the detail of a record of [KindKeys] by which keys of files are given in sealed sessions alone.
const KeysSealed = "sealed"

// LetsIn reports whether a record of a group lets somebody in, makes another owner, or gives keys to more programs: a
// session of its account has asked for it, see [TagVouched]. Who uses an invite is let in by the record of the invite,
// and who joins by that of the window.
func (r *Record) LetsIn() bool {
	switch r.Kind {
	case KindAdd:
		return r.Tag(TagInvite) == ""
	case KindInvite:
		return r.Group != ""
	case KindKeys:
		return r.Detail != KeysSealed
	}
	return r.Kind == KindOpenJoin || r.Kind == KindAccept
}

// Apply applies the next record of the chain. It refuses one that its account may not make, because it changes who may
// have keys.
func (m *Members) Apply(r *Record) error {
	if !m.allow(r) {
		return fmt.Errorf("record %d of the chain %q: %q may not make a record of the kind %s", r.Number, r.Chain,
			r.Account, r.Kind)
	}
	switch r.Kind {
	case KindRegister:
		*m = Members{Owner: r.Account, Has: map[string]bool{r.Account: true}}
	case KindAdd:
		m.Has[r.Detail] = true
		m.endInvite(r.Tag(TagInvite))
	case KindInvite:
		m.Invites = appendBounded(m.Invites, strings.Clone(inviteOf(r))) // without the rest of the detail
	case KindEndInvite:
		m.endInvite(r.Detail)
	case KindJoin:
		m.Has[r.Account] = true
	case KindRevoke:
		delete(m.Has, r.Detail)
		if m.OfferTo == r.Detail {
			m.OfferTo = ""
		}
	case KindOpenJoin, KindCloseJoin:
		m.Joinable = r.Kind == KindOpenJoin
	case KindOffer:
		m.OfferTo, _, _ = strings.Cut(r.Detail, " ")
	case KindAccept:
		m.Owner, m.OfferTo, m.Invites, m.Over = r.Account, "", nil, appendBounded(m.Over, m.Invites...)
	case KindKeys:
		m.Sealed = r.Detail == KeysSealed
	case KindDeleteGroup:
		*m = Members{}
	}
	return nil
}

func (m *Members) endInvite(id string) {
	if slices.Contains(m.Invites, id) {
		m.Invites = slices.DeleteFunc(m.Invites, func(open string) bool { return open == id })
		m.Over = appendBounded(m.Over, id)
	}
}

// inviteOf returns the id of the invite that a record of it names.
func inviteOf(r *Record) string {
	id, _, _ := strings.Cut(r.Detail, " ")
	return id
}

// appendBounded appends ids of invites, and drops the oldest beyond maxInvites.
func appendBounded(list []string, ids ...string) []string {
	list = append(list, ids...)
	return slices.Delete(list, 0, max(0, len(list)-maxInvites))
}

// allow reports whether the account of a record may make it. Records of other kinds are allowed to all, and so is an
// offer, which the service itself makes where the owner is disabled.
func (m *Members) allow(r *Record) bool {
	isOwner := m.Owner != "" && r.Account == m.Owner
	switch r.Kind {
	case KindRegister:
		return r.Number == 1 && r.Account != ""
	case KindAdd:
		return isOwner && (r.LetsIn() || slices.Contains(m.Invites, r.Tag(TagInvite)))
	case KindInvite:
		return isOwner && !slices.Contains(m.Over, inviteOf(r))
	case KindEndInvite, KindOpenJoin, KindCloseJoin, KindKeys, KindDeleteGroup:
		return isOwner
	case KindJoin:
		return m.Owner != "" && m.Joinable
	case KindRevoke:
		return (isOwner || r.Account == r.Detail) && r.Detail != m.Owner
	case KindAccept:
		return m.Has[r.Account] && m.OfferTo == r.Account
	}
	return true
}
