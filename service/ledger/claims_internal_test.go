package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Threat 78: an audit refuses a record by which an account was given the key of a file that it may not have read.
func TestThreat78AuditRefusesClaimsOfOthers(t *testing.T) {
	before := []chain.Record{
		{Kind: chain.KindCreateAccount, Account: "alice"}, {Kind: chain.KindCreateAccount, Account: "bob"},
		{Kind: chain.KindRegister, Account: "alice", Group: "g"},
		{Kind: chain.KindRegister, Account: "bob", Group: "h"},
		{Kind: chain.KindRecord, Account: "alice", Group: "g", Ref: "f", Detail: "a.txt"},
		{Kind: chain.KindAdd, Account: "alice", Group: "g", Detail: "bob"},
	}
	revoked := chain.Record{Kind: chain.KindRevoke, Account: "alice", Group: "g", Detail: "bob"}
	destroyed := chain.Record{Kind: chain.KindTombstone, Account: "alice", Group: "g", Ref: "f"}
	disabled := chain.Record{Kind: chain.KindDisable, Account: "bob"}
	claim := func(account, group, ref string) chain.Record {
		return chain.Record{Kind: chain.KindClaim, Account: account, Group: group, Ref: ref}
	}
	for name, tc := range map[string]struct {
		records []chain.Record
		want    string // "" = it is accepted
	}{
		"the owner":           {[]chain.Record{claim("alice", "g", "f")}, ""},
		"a member":            {[]chain.Record{claim("bob", "g", "f")}, ""},
		"nobody":              {[]chain.Record{claim("eve", "g", "f")}, "no such account"},
		"a file elsewhere":    {[]chain.Record{claim("bob", "h", "f")}, "no such file"},
		"a file of nobody":    {[]chain.Record{claim("bob", "g", "zz")}, "no such file"},
		"a group of others":   {[]chain.Record{claim("alice", "h", "f")}, "no member"},
		"a group of nobody":   {[]chain.Record{claim("alice", "i", "f")}, "no member"},
		"a member before":     {[]chain.Record{claim("bob", "g", "f"), revoked}, ""},
		"who was a member":    {[]chain.Record{revoked, claim("bob", "g", "f")}, "no member"},
		"a disabled account":  {[]chain.Record{disabled, claim("bob", "g", "f")}, "disabled"},
		"a destroyed file":    {[]chain.Record{destroyed, claim("bob", "g", "f")}, "no such file"},
		"the first of faults": {[]chain.Record{claim("eve", "g", "f"), claim("bob", "h", "f")}, "record 7:"},
	} {
		var s State
		for i, r := range append(before[:len(before):len(before)], tc.records...) {
			r.Seq = int64(i + 1)
			s.Apply(&chain.Row{Record: r})
		}
		switch {
		case tc.want == "" && s.claim != nil:
			t.Errorf("%s: %v", name, s.claim)
		case tc.want == "":
		default:
			err := s.Compare(t.Context(), nil)
			if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %q", name, err, tc.want)
			}
		}
	}
}
