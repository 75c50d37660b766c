package vaulttest

import (
	"context"
	"time"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Reader is an account with a session.
type Reader struct {
	Account string
	Token   []byte
}

// NewReader makes an API key with a vault, and a session with it.
func NewReader(ctx context.Context, v vaultwire.Vault, now time.Time) (r Reader, err error) {
	r.Account = "reader"
	made, err := v.MakeKey(ctx, vaultwire.MakeKey{Account: r.Account})
	if err != nil {
		return r, err
	}
	key, err := v.TakeKey(ctx, vaultwire.TakeKey{Held: made.Held, Record: chain.Record{Kind: chain.KindRotateKey,
		Account: r.Account, Chain: chain.OfAccount(r.Account), Number: 1}})
	if err != nil {
		return r, err
	}
	token, err := v.IssueToken(ctx, vaultwire.IssueToken{Claims: vaultwire.Claims{Account: r.Account, Address: "a",
		Issued: now, Expires: now.Add(time.Hour)}, Credential: made.Credential, Key: key.Key})
	r.Token = token.Text
	return r, err
}

// Claimed asks for the key of a file as for a retrieval at a time.
func (r Reader) Claimed(w vaultwire.WrappedKey, at time.Time) vaultwire.OpenFile {
	return vaultwire.OpenFile{WrappedKey: w, Token: r.Token, Claim: chain.Record{Kind: chain.KindClaim,
		Account: r.Account, Chain: chain.OfAccount(r.Account), Number: 1, Group: w.Binding.Group, Ref: w.Binding.Ref,
		TimeNS: at.UnixNano()}}
}

// Register gives a vault that follows no log a group of a reader.
func (r Reader) Register(ctx context.Context, v vaultwire.Vault, group string) error {
	_, err := v.Follow(ctx, vaultwire.Follow{Group: group, Records: []chain.Record{{Kind: chain.KindRegister,
		Account: r.Account, Group: group, Chain: chain.OfGroup(group), Number: 1}}})
	return err
}

// OpenFile opens the key of a file with a vault that follows no log.
func OpenFile(ctx context.Context, v vaultwire.Vault, w vaultwire.WrappedKey) (vaultwire.OpenedFile, error) {
	r, err := NewReader(ctx, v, time.Now())
	if err != nil {
		return vaultwire.OpenedFile{}, err
	}
	if err := r.Register(ctx, v, w.Binding.Group); err != nil {
		return vaultwire.OpenedFile{}, err
	}
	return v.OpenFile(ctx, r.Claimed(w, time.Now()))
}
