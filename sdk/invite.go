package sdk

import (
	"context"
	"errors"
	"net/http"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/wire"
)

// RedeemInvite makes the account of an invite at its service, and returns the API key of the account, which is never
// shown again. The service must have the log key of the invite, which is pinned in cfg.StateDir from then on; before that
// nothing of the invite is sent. RedeemInvite takes addresses, contract and log key from the invite, and all else
// from cfg.
//
// It is free, and needs no API key. An invite works once: after a lost answer the operator replaces the key. Errors:
// [ErrNotAuthorized] when the invite was used or revoked or is too old, [ErrConflict] when the account exists,
// [ErrCorrupt] when the service is another one, [ErrRateLimited]. Only svcd has it.
func RedeemInvite(ctx context.Context, i wire.Invite, cfg Config) (key Secret, err error) {
	cfg.APIKey, cfg.NewKey = Secret{}, nil
	cfg.Network, cfg.AuthURL, cfg.MCPURL, cfg.RPCURL = "", "", "", ""
	cfg.URL, cfg.ContractID, cfg.LogKey = i.URL, i.Contract, i.LogKey
	var c *Client
	for _, dir := range []string{"", cfg.StateDir} { // a key that the service does not have is not pinned
		cfg.StateDir = dir
		if c, err = New(AccountID(i.Account), cfg); err != nil {
			return key, err
		}
		defer func(c *Client) { err = errors.Join(err, c.Close()) }(c)
		if _, err := c.CheckTrust(ctx); err != nil {
			return key, err
		}
	}
	var made wire.InviteResult
	err = c.calls.Do(ctx, call.Call{Kind: call.Once, Method: http.MethodPost, URL: c.cfg.AuthURL + wire.PathInvite,
		Request: wire.InviteRequest{Secret: i.Secret}, Answer: call.Document(&made)})
	if err == nil && (made.AccountID != i.Account || made.APIKey == "" || !call.FitsHeader(made.APIKey)) {
		err = call.Malformed(errors.New("it is not the account of the invite with a key"))
	}
	if err != nil {
		return key, c.wrap("redeem the invite", "", "", err)
	}
	return locked.NewSecret(made.APIKey), nil
}
