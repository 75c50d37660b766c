package vaultwire

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

type (
	// Vouch asks for the word of the vault that a session of the account of a record asked for it.
	Vouch struct {
		Record chain.Record // as it is to be, but for [chain.TagVouched]
		Token  Secret       // of the session
		Asked  *Asked       // nil = the session is not sealed
	}
	// Asked is a request of a sealed session, with its proof.
	Asked struct {
		wire.ProvenRequest // its Token and its Body are not looked at
		JSON               []byte
	}
	// Vouched is the value of [chain.TagVouched].
	Vouched struct{ Word string }
	// LettingIn are records that let somebody in.
	LettingIn struct{ Records List[chain.Record] }
	// Unvouched are those among them, by their places, for which the vault did not vouch.
	Unvouched struct{ Places []int }
)

// Vouch implements [Vault].
func (c *Client) Vouch(ctx context.Context, q Vouch) (Vouched, error) {
	return call[Vouched](ctx, c, "vouch", q)
}

// Unvouched implements [Vault].
func (c *Client) Unvouched(ctx context.Context, q LettingIn) (Unvouched, error) {
	return call[Unvouched](ctx, c, "unvouched", q)
}

// InviteIDBytes is the size of the id of an invite, which is no secret.
const InviteIDBytes = 8

// InviteID returns the id of the invite that a request of a sealed session asks for, by its
// [wire.ProvenRequest.ForVault]: a request is good for one invite.
func InviteID(forVault []byte) string {
	sum := sha256.Sum256(append([]byte("svc-invite-1\n"), forVault...))
	return hex.EncodeToString(sum[:InviteIDBytes])
}

// AskedKind returns the kind of the records that a request to a path asks for, if the vault vouches for these, see
// [chain.Record.LetsIn]; "" = it asks for none.
func AskedKind(target string) string {
	_, op, _ := strings.Cut(target, wire.PathTools)
	switch op {
	case wire.OpAddGroupMember:
		return chain.KindAdd
	case wire.OpInviteToGroup:
		return chain.KindInvite
	case wire.OpCreateHackathonGroup:
		return chain.KindOpenJoin
	case wire.OpSetGroupSettings:
		return chain.KindKeys
	case wire.OpAcceptGroup:
		return chain.KindAccept
	}
	return ""
}
