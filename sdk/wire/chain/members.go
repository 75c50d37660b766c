package chain

import (
	"fmt"
	"strings"
)

// Members is who belongs to a group, and how they may have keys of its files, as the records of its chain say. The zero
// value is before the first record.
type Members struct {
	Owner    string          `json:",omitempty"` // "" = the group is not there yet, or has ended
	Has      map[string]bool `json:",omitempty"` // all members, and the owner
	Joinable bool            `json:",omitempty"` // accounts may join; until when is not looked at
	OfferTo  string          `json:",omitempty"` // who may accept the group; "" = nobody
	Sealed   bool            `json:",omitempty"` // keys of files are given in sealed sessions alone
}

// KeysSealed is the detail of a record of [KindKeys] by which keys of files are given in sealed sessions alone.
const KeysSealed = "sealed"

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
		m.Owner, m.OfferTo = r.Account, ""
	case KindKeys:
		m.Sealed = r.Detail == KeysSealed
	case KindDeleteGroup:
		*m = Members{}
	}
	return nil
}

// allow reports whether the account of a record may make it. Records of other kinds are allowed to all, and so is an
// offer, which the service itself makes where the owner is disabled.
func (m *Members) allow(r *Record) bool {
	isOwner := m.Owner != "" && r.Account == m.Owner
	switch r.Kind {
	case KindRegister:
		return r.Number == 1 && r.Account != ""
	case KindAdd, KindOpenJoin, KindCloseJoin, KindKeys, KindDeleteGroup:
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
