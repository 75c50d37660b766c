package sdk

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/wire"
)

// RedeemInvite makes the account of an invite at its service, and returns the API key of the account, which is never
// shown again. The service must have the log key of the invite, which is pinned in cfg.StateDir from then on; before
// that nothing of the invite is sent. RedeemInvite takes addresses, contract and log key from the invite, and all else
// from cfg.
//
// It is free, and needs no API key. An invite works once: after a lost answer the operator replaces the key. Errors:
// [ErrNotAuthorized] when the invite was used or revoked or is too old, [ErrConflict] when the account exists,
// [ErrCorrupt] when the service is another one, [ErrRateLimited]. A key that comes with an error is good: the account
// is made, and only what was seen of the service could not be saved. Only svcd has it.
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

// GroupInvite is an invite to a group that can be used.
type GroupInvite struct {
	ID      string
	Role    Role
	Expires time.Time
}

// Invite makes an invite: its text adds the account that gives it to [Client.UseInvite] to the group, with a role,
// once, within 7 days. "" makes a writer. Who has the text first is the member.
//
// Invite costs what [Group.Add] costs, and using it is free. Only the owner may call it; it needs the API key. Errors:
// [ErrUnsupported] at the hosted service, [ErrNotFound], [ErrNotAuthorized], [ErrInsufficient]. Only svcd has it.
func (g Group) Invite(ctx context.Context, role Role) (made GroupInvite, text Secret, err error) {
	var answer wire.MadeInvite
	err = g.c.change(ctx, wire.OpInviteToGroup, wire.MakeInviteRequest{GroupID: string(g.ID), Role: role}, &answer)
	if err == nil && (answer.ID == "" || answer.Secret == "") {
		err = call.Malformed(errors.New("an invite without a secret"))
	}
	var key string
	if err == nil {
		_, err = g.c.CheckTrust(ctx)
	}
	if err == nil {
		key, err = g.c.log.key(ctx)
	}
	if err != nil {
		return made, text, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("invite", err))
	}
	i := wire.Invite{URL: g.c.cfg.MCPURL, Contract: g.c.cfg.ContractID, LogKey: key, Group: string(g.ID),
		Secret: answer.Secret}
	return groupInvite(answer.GroupInvite), locked.NewSecret(i.Text()), nil
}

func groupInvite(i wire.GroupInvite) GroupInvite {
	return GroupInvite{ID: i.ID, Role: i.Role, Expires: parseTime(i.Expires)}
}

// Invites lists the invites of the group that can be used. Only the owner may call it. Free; it needs the API key.
// Errors: those of [Group.Invite]. Only svcd has it.
func (g Group) Invites(ctx context.Context) (list []GroupInvite, err error) {
	var answer []wire.GroupInvite
	if err := g.c.read(ctx, wire.OpGetGroupInvites, g.request(), &answer); err != nil {
		return nil, withCode(ErrNotAuthorized, wire.CodeOwnerOnly, g.wrap("list invites", err))
	}
	for _, i := range answer {
		list = append(list, groupInvite(i))
	}
	return list, nil
}

// RevokeInvite takes an invite back, by its id. Only the owner may call it. Free; it needs the API key. Errors: those
// of
// [Group.Invite], and [ErrNotAuthorized] when there is no such invite. Only svcd has it.
func (g Group) RevokeInvite(ctx context.Context, id string) (Change, error) {
	done, err := g.change(ctx, wire.OpRevokeGroupInvite, wire.EndInviteRequest{GroupID: string(g.ID), Invite: id},
		"Revoked invite "+quote(id))
	return done, g.wrap("revoke the invite", err)
}

// UseInvite adds the caller to the group of an invite, and returns the group.
//
// The service must have the log key of the invite, which is pinned from then on; before that the secret is not sent.
//
// UseInvite is free; it needs the API key. Errors: [ErrInvalid] for an invite of another service, [ErrNotAuthorized]
// when the invite was used or revoked or is too old, or the caller left the group or was revoked: only the owner adds
// it again; [ErrConflict] when it is a member, [ErrCorrupt] when the service has another log key than the invite. Only
// svcd has it.
func (c *Client) UseInvite(ctx context.Context, i wire.Invite) (GroupID, error) {
	if network.NormalAddress(i.URL) != network.NormalAddress(c.cfg.MCPURL) ||
		i.Contract != c.cfg.ContractID || i.Group == "" {
		return "", &Error{Op: "use the invite", Kind: ErrInvalid, Code: wire.CodeAddress,
			Err: errors.New("the invite is of another service, " + quote(i.URL) + ", or of no group")}
	}
	if err := c.log.isOf(ctx, i); err != nil {
		return "", c.wrap("use the invite", GroupID(i.Group), "", err)
	}
	var used wire.UsedInvite
	err := c.change(ctx, wire.OpUseGroupInvite, wire.UseInviteRequest{Secret: i.Secret}, &used)
	if err == nil && used.GroupID != i.Group {
		err = call.Malformed(errors.New("it is not the group of the invite"))
	}
	return GroupID(used.GroupID), c.wrap("use the invite", GroupID(i.Group), "", err)
}

// isOf checks that the service proves its lists with the log key of an invite, also where that key was replaced
// since. It pins the key of the invite where none is pinned.
func (l *signedLog) isOf(ctx context.Context, i wire.Invite) (err error) {
	t, err := l.c.CheckTrust(ctx)
	if err != nil || !t.Proves {
		return err
	}
	if t.Key == "" && l.c.cfg.LogKey == "" {
		cfg := l.c.cfg
		cfg.APIKey, cfg.NewKey, cfg.StateDir, cfg.LogKey = Secret{}, nil, "", i.LogKey
		asking, err := New(l.c.account, cfg) // a key that the service does not have is not pinned
		if err == nil {
			_, err = asking.CheckTrust(ctx)
			err = errors.Join(err, asking.Close())
		}
		if err != nil {
			return err
		}
		l.c.memory.Pin(i.LogKey)
		return nil
	}
	key, err := l.key(ctx)
	if err == nil && key != i.LogKey && !slices.Contains(l.c.memory.Earlier(), i.LogKey) {
		err = otherKey("the log key of the invite is not the one that this machine saw before")
	}
	return err
}
