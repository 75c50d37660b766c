package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// AuthStatus asks the service whether it accepts the API key, and for which account. It is
// free and needs the API key. Errors: [ErrUnauthenticated], [ErrNotFound] for an account
// that does not exist, [ErrUnavailable], [ErrTimeout]. Specification 4.2 (authStatus).
func (c *Client) AuthStatus(ctx context.Context) (AuthStatus, error) { return c.authStatus(ctx, "") }

// SealAPIKey has the service take the API key of the caller sealed alone from now on, as this client sends it: neither
// the service nor who reads its traffic sees the key. Other programs that send it in the clear, and the account page,
// cannot sign in any more, until the operator makes another key. It is free and needs the API key. Errors:
// [ErrUnsupported] at a service without sealed sessions.
func (c *Client) SealAPIKey(ctx context.Context) error {
	return c.wrap("seal API key", "", "", c.change(ctx, wire.OpSealAPIKey, struct{}{}, nil))
}

func (c *Client) authStatus(ctx context.Context, g GroupID) (AuthStatus, error) {
	request := wire.GroupRequest{GroupID: string(g)}
	if g == "" {
		request.GroupID = "default"
	}
	var a wire.AuthStatusResult
	if err := c.read(ctx, wire.OpAuthStatus, request, &a); err != nil {
		return AuthStatus{}, c.wrap("ask status", g, "", err)
	}
	return AuthStatus{
		Authenticated: a.Authenticated, Account: AccountID(a.AccountID), Group: GroupID(a.GroupID),
		Authorized: a.AuthorizedForGroup != nil && *a.AuthorizedForGroup, Role: a.Role,
		Detail: c.calls.Scrub(a.AuthError),
	}, nil
}

// Groups lists the groups that the caller owns or belongs to, sorted by id. It sends two
// requests at once. It is free and needs the API key. Errors: those of
// [Client.OwnedGroups].
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	var owned, member []Group
	both, groupCtx := errgroup.WithContext(ctx)
	both.Go(func() (err error) { owned, err = c.OwnedGroups(groupCtx); return err })
	both.Go(func() (err error) { member, err = c.MemberGroups(groupCtx); return err })
	if err := both.Wait(); err != nil {
		return nil, err
	}
	merged := make(map[GroupID]Group, len(member))
	for _, g := range slices.Concat(member, owned) {
		merged[g.ID] = g
	}
	delete(merged, "")
	list := slices.AppendSeq(make([]Group, 0, len(merged)), maps.Values(merged))
	slices.SortFunc(list, func(a, b Group) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return list, nil
}

// OwnedGroups lists the groups that the caller owns. It is free on a self-hosted service
// and on the hosted main network; elsewhere see [Client.ReadPrice]. It needs the API key.
// The names are hostile input. Errors: [ErrUnauthenticated], [ErrUnavailable],
// [ErrTimeout], [ErrCorrupt] when the answer is no list. Specification 4.2
// (getOwnedGroups).
func (c *Client) OwnedGroups(ctx context.Context) ([]Group, error) {
	return c.groupList(ctx, wire.OpGetOwnedGroups, true)
}

// MemberGroups lists the groups that the caller belongs to. Groups that the caller owns are
// among them; their field Owned is not set. The price is that of [Client.OwnedGroups]:
// mostly free. It needs the API key. Errors: those of [Client.OwnedGroups]. Specification
// 4.2 (getMemberGroups).
func (c *Client) MemberGroups(ctx context.Context) ([]Group, error) {
	return c.groupList(ctx, wire.OpGetMemberGroups, false)
}

// maxGroups bounds a list of groups, whose pages may have no end.
const maxGroups = 1_000_000

// groupList lists groups. It asks page by page where the service has pages.
func (c *Client) groupList(ctx context.Context, op string, owned bool) ([]Group, error) {
	list, err := c.groupPages(ctx, op)
	if err != nil {
		return nil, c.wrap("list groups", "", "", err)
	}
	groups := make([]Group, len(list.names))
	for i, id := range list.names {
		groups[i] = Group{ID: id, Owned: owned, Role: list.role(i), c: c}
	}
	return groups, nil
}

func (c *Client) groupPages(ctx context.Context, op string) (all roleList[GroupID], err error) {
	speaks, err := c.caps.dialect(ctx)
	if err != nil {
		return all, err
	}
	request := wire.NamesRequest{Limit: speaks.namesPage()}
	held := int64(0)
	defer func() { _ = c.lists.hold(-held) }()
	for {
		var page roleList[GroupID]
		if err := c.read(ctx, op, request, &page); err != nil {
			return all, err
		}
		size := int64(0)
		for _, name := range page.names {
			size += nameBytes + int64(len(name))
		}
		held += size
		if err := c.lists.hold(size); err != nil {
			return all, err
		}
		all.names, all.roles = append(all.names, page.names...), append(all.roles, page.roles...)
		if !page.more || len(page.names) == 0 {
			break
		}
		last := string(page.names[len(page.names)-1])
		if last == request.After || len(all.names) >= maxGroups {
			return all, call.Malformed(errors.New("the list has no end"))
		}
		request.After = last
	}
	if len(all.roles) != 0 && len(all.roles) != len(all.names) {
		return all, call.Malformed(errors.New("the list lacks a role for some name"))
	}
	return all, nil
}

// Health asks once whether the service is up. It is free and needs no authentication.
// Errors: [ErrUnavailable], [ErrTimeout], [ErrCorrupt] when something other than the
// service answers.
func (c *Client) Health(ctx context.Context) error {
	var any json.RawMessage
	return c.wrap("ask health", "", "", c.calls.Do(ctx, call.Call{Kind: call.Once, Method: http.MethodGet,
		URL: c.cfg.MCPURL + wire.PathHealth, Answer: call.Document(&any)}))
}
