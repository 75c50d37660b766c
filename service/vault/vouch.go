package vault

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// The vault vouches for records that let somebody in: a session of the account asked for them. Its word is in the
// record, and is bound to all that comes before it in the chain: it lasts as long as the record does, and is good at no
// other place.

// vouchLife is how long before or after the time of its proof a request is vouched for: a write may wait.
const vouchLife = wire.ProofLife + time.Minute

const vouchDomain = "svc-vouch-1\n"

// Vouch implements [vaultwire.Vault].
func (v *Vault) Vouch(_ context.Context, q vaultwire.Vouch) (a vaultwire.Vouched, err error) {
	r := &q.Record
	s, err := v.sessionOf(q.Token)
	switch {
	case err != nil:
		return a, err
	case s.Account != r.Account, r.Chain != chain.OfGroup(r.Group), r.Number < 1, !r.LetsIn(),
		r.Tag(chain.TagVouched) != "", s.sealed != nil && !v.isAsked(q, s):
		return a, fmt.Errorf("a record of kind %.40q in the chain %.80q: %w", r.Kind, r.Chain, vaultwire.ErrNotVouched)
	}
	k, err := v.newest(vaultwire.PurposeCredentials)
	if err == nil {
		a.Word = base64.RawURLEncoding.EncodeToString(vouchMAC(k, r))
	}
	return a, err
}

// Unvouched implements [vaultwire.Vault].
func (v *Vault) Unvouched(_ context.Context, q vaultwire.LettingIn) (a vaultwire.Unvouched, err error) {
	for i := range q.Records {
		if !v.isVouched(&q.Records[i]) {
			a.Places = append(a.Places, i)
		}
	}
	return a, nil
}

// isVouched reports whether a session asked for a record that lets somebody in.
func (v *Vault) isVouched(r *chain.Record) bool {
	word, err := base64.RawURLEncoding.DecodeString(r.Tag(chain.TagVouched))
	for _, k := range v.versions(vaultwire.PurposeCredentials) {
		if err == nil && hmac.Equal(word, vouchMAC(k, r)) {
			return true
		}
	}
	return false
}

func vouchMAC(k serviceKey, r *chain.Record) []byte {
	mac := hmac.New(sha256.New, k.raw.Slice())
	hash := r.Unvouched().Sum()
	mac.Write(append([]byte(vouchDomain), hash[:]...))
	return mac.Sum(nil)
}

// isAsked reports whether the session sent the request now, and the request asks for the record.
func (v *Vault) isAsked(q vaultwire.Vouch, s session) bool {
	if q.Asked == nil {
		return false
	}
	p, body := q.Asked.ProvenRequest, sha256.Sum256(q.Asked.JSON)
	p.Token, p.Body = string(q.Token), &body
	return p.IsForVault(s.sealed.VouchKey()) && v.now().Sub(time.Unix(0, p.Time)).Abs() <= vouchLife &&
		vaultwire.AskedKind(p.Target) == q.Record.Kind && asksFor(q.Asked, &q.Record)
}

// asksFor reports whether a request for records of a kind asks for a record of that kind.
func asksFor(a *vaultwire.Asked, r *chain.Record) bool {
	asks := func(to any) bool { return json.Unmarshal(a.JSON, to) == nil }
	switch r.Kind {
	case chain.KindInvite:
		var req wire.GroupRequest
		id, _, _ := strings.Cut(r.Detail, " ")
		return asks(&req) && req.GroupID == r.Group && id == vaultwire.InviteID(a.ForVault)
	case chain.KindAdd:
		var req wire.AddMemberRequest
		return asks(&req) && req.GroupID == r.Group && isNamed(req.MemberID, r)
	case chain.KindOpenJoin:
		var req wire.OpenJoinRequest
		until, _, _ := strings.Cut(r.Detail, " ")
		return asks(&req) && req.GroupID == r.Group && sameTime(req.ExpiresAt, until)
	case chain.KindKeys:
		var req wire.SetGroupSettingsRequest
		return asks(&req) && req.GroupID == r.Group && req.Keys == r.Detail
	}
	var req wire.GroupRequest // of who accepts the group
	return asks(&req) && req.GroupID == r.Group
}

// isNamed reports whether a request names the member of a record: by its id, or by its name where it has the domain of
// the owner.
func isNamed(name string, r *chain.Record) bool {
	id := strings.ToLower(strings.TrimSpace(name))
	if _, domain, ok := strings.Cut(r.Account, "."); ok && !strings.Contains(id, ".") {
		id += "." + domain
	}
	return id == r.Detail
}

func sameTime(a, b string) bool {
	x, err := strconv.ParseInt(a, 10, 64)
	y, other := strconv.ParseInt(b, 10, 64)
	return err == nil && other == nil && x == y
}
