// Package sdk is the client of the encrypted group file service, hosted or
// self-hosted. The client encrypts and decrypts files; the service sees
// ciphertext. The client compares content with the hash in the ledger before it
// returns the content.
//
//	c, err := sdk.New("alice.svc.testnet", sdk.Config{URL: "https://files.example.org", APIKey: sdk.NewSecret(key)})
//	g := c.Group("team")
//	receipt, err := g.Put(ctx, "report.pdf", file)
//	f, err := g.Open(ctx, "report.pdf")
//	files, err := g.Files(ctx)
//
// Every call that asks the service takes a context, returns an [*Error], and says
// in its documentation whether it costs tokens. The client follows no redirects
// and bounds every answer. It repeats a request only where a repetition cannot be
// charged twice.
//
// The operations of the specification, and the names in this package:
//
//	upload                   [Group.Put]
//	retrieve                 [Group.Open]
//	registerGroup            [Group.Register]
//	addGroupMember           [Group.Add]
//	joinGroup                [Group.Join]
//	revokeGroupMember        [Group.Revoke]
//	authStatus               [Client.AuthStatus]
//	isAuthorized             [Group.IsAuthorized]
//	getGroupOwner            [Group.Owner]
//	getGroupChecksum         [Group.Checksum]
//	getTransactionsForGroup  [Group.List]
//	getOwnedGroups           [Client.OwnedGroups]
//	getMemberGroups          [Client.MemberGroups]
//	getGroupMembers          [Group.Members]
//	getBalance               [Client.Balance]
//	estimateFee              [Client.EstimateFee]
//	refreshToken             [Client.RefreshToken]
//	getNetworkInfo           [Client.NetworkInfo]
//	computeHash              [ComputeHash]
//	computeHashAsync         [ComputeHashReader]
package sdk

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/trust"
	"github.com/svcfs/svcfs/sdk/wire"
	"golang.org/x/sync/singleflight"
)

// Client acts for one account at one service. It is safe for concurrent use. Make one with
// [New], and end it with [Client.Close].
type Client struct {
	account AccountID
	cfg     Config
	calls   *call.Caller
	pool    *mem.Pool
	uploads *uploader
	small   sealedQueue
	asking  singleflight.Group // the request for capabilities
	scratch sync.Pool          // *[]byte for sealed blocks
	claims  claims

	memory *trust.Memory
	lists  *listMemory
	mu     sync.Mutex
	caps   *wire.Capabilities   // nil until asked
	chains map[GroupID]verified // how far the chain of each group was verified

	vaultKey *vaultKey  // nil until it was verified
	opened   *openedLog // nil until trustedLog made one
}

// New makes a client. It sends nothing and costs nothing. Errors: [ErrInvalid] for a wrong
// setting, [ErrOther] when the file in Config.StateDir cannot be read.
func New(account AccountID, cfg Config) (*Client, error) {
	refuse := func(code string, err error) (*Client, error) {
		return nil, &Error{Op: "configure client", Kind: ErrInvalid, Code: code, Err: err}
	}
	if account == "" {
		return refuse("", errors.New("no account id"))
	}
	if !call.FitsHeader(string(account)) || !call.FitsHeader(cfg.APIKey.Reveal()) {
		return refuse("", errors.New("the account id or the API key holds a space, a line break or a control "+
			"character"))
	}
	if err := cfg.checkKeys(); err != nil {
		return refuse(wire.CodeVerifierKey, err)
	}
	if err := cfg.Limit.Check(); err != nil {
		return refuse("", err)
	}
	cfg, err := cfg.resolve(account)
	if err != nil {
		return refuse(wire.CodeAddress, err)
	}
	memory, err := trust.Open(cfg.stateFile(account), cfg.of(account))
	if err != nil {
		return nil, &Error{Op: "configure client", Kind: ErrOther, Code: wire.CodeState, Err: err}
	}
	c := &Client{account: account, cfg: cfg, memory: memory, calls: call.New(cfg.calls(account)),
		lists: newListMemory(cfg.ListMemory), pool: mem.NewPool(), claims: claims{ids: make(map[Ref]string)},
		chains: make(map[GroupID]verified)}
	c.calls.SetLimit(cfg.Limit)
	c.uploads, c.small.c, c.small.slowAfter = newUploader(c), c, slowRequest
	return c, nil
}

// Account returns the account that the client acts for.
func (c *Client) Account() AccountID { return c.account }

// Close closes idle connections, unless Config.Transport made them, wipes the keys of uploads
// without an answer, and saves what this client saw of the service. Calls in progress
// continue. Errors: [ErrCorrupt] when the service showed another client another history,
// [ErrOther] when the file in Config.StateDir could not be written.
func (c *Client) Close() error {
	c.uploads.close()
	c.calls.Close()
	err := c.memory.Close()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, trust.ErrContradiction):
		return c.distrust(err)
	}
	return &Error{Op: "close client", Kind: ErrOther, Code: wire.CodeState, Err: err}
}

// NetworkInfo returns the network, the contract and the addresses in use. It returns no
// other setting. Local, free. Specification 4.2 (getNetworkInfo).
func (c *Client) NetworkInfo() NetworkInfo {
	return NetworkInfo{Network: c.cfg.networkName(), ContractID: c.cfg.ContractID, RPCURL: c.cfg.RPCURL,
		MCPURL: c.cfg.MCPURL, AuthURL: c.cfg.AuthURL, AccountPage: c.cfg.hostedPage()}
}

// Capabilities returns which dialect the service speaks, and its limits. A service without the
// path, or with something else there, speaks that of the hosted one. The first call asks the
// service, later calls are local; after an error the next call asks again. Free, no
// authentication. Errors: [ErrUnavailable], [ErrTimeout], [ErrRateLimited], and [ErrCorrupt] when
// the service no longer speaks the dialect that it spoke before.
func (c *Client) Capabilities(ctx context.Context) (wire.Capabilities, error) {
	c.mu.Lock()
	known := c.caps
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	var caps wire.Capabilities
	err := c.calls.Repeat(ctx, call.Free, func(ctx context.Context) (err error) {
		caps, err = c.sharedCapabilities(ctx)
		return err
	})
	return caps, c.wrap("ask capabilities", "", "", err)
}

// sharedCapabilities asks once for all callers that wait. Each of them repeats it by itself.
func (c *Client) sharedCapabilities(ctx context.Context) (wire.Capabilities, error) {
	asked := c.asking.DoChan("", func() (any, error) {
		return c.askCapabilities(call.NotBridging(context.WithoutCancel(ctx)))
	})
	select {
	case r := <-asked:
		caps, _ := r.Val.(wire.Capabilities)
		return caps, r.Err
	case <-ctx.Done():
		return wire.Capabilities{}, call.Ended(ctx)
	}
}

// askCapabilities asks, and keeps the answer for later calls. An answer that makes no sense
// counts as that of the hosted service, unless the service must prove what it lists.
func (c *Client) askCapabilities(ctx context.Context) (wire.Capabilities, error) {
	var caps wire.Capabilities
	err := c.calls.Do(ctx, call.Call{Kind: call.Once, Method: http.MethodGet, URL: c.cfg.MCPURL + wire.PathCapabilities,
		Answer: call.Document(&caps)})
	if errors.Is(err, call.ErrPage) && !c.demandsProofs() { // a service without this path may have a page for all
		err = call.Malformed(errors.New(call.ErrPage.Error()))
	}
	var refused *call.Refusal
	isRefused := errors.As(err, &refused)
	switch kind := classify(err); {
	case kind == ErrUnavailable, kind == ErrTimeout, kind == ErrCanceled, kind == ErrRateLimited,
		isRefused && refused.IsTemporary():
		return wire.Capabilities{}, err
	}
	if err != nil {
		caps = wire.Capabilities{}
		lacksPath := isRefused && refused.Status == http.StatusNotFound
		if !lacksPath && c.demandsProofs() { // a fault
			return caps, err
		}
	}
	if err := c.checkDialect(caps.Dialect); err != nil {
		return wire.Capabilities{}, err
	}
	if !isRefused || refused.Status < http.StatusInternalServerError { // after a fault the next call asks again
		c.mu.Lock()
		c.caps = &caps
		c.mu.Unlock()
	}
	return caps, nil
}

// RefreshToken forces a new session token. It is rarely needed: every call refreshes a
// token that is about to expire. Free; needs the API key. Errors: [ErrUnauthenticated],
// [ErrNotFound] with the code [wire.CodeAccountUnknown] for an account that does not
// exist, [ErrUnavailable], [ErrTimeout]. Specification 4.2 (refreshToken).
func (c *Client) RefreshToken(ctx context.Context) error {
	return c.wrap("refresh token", "", "", c.calls.RefreshToken(ctx))
}

// Price returns the price of an action, see [Client.EstimateFee], if an earlier answer
// of the service holds it. Local, free.
func (c *Client) Price(action string) (Amount, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.caps == nil {
		return Amount{}, false
	}
	fee, err := wire.ParseAmount(c.caps.Fees[action])
	return fee, err == nil
}
