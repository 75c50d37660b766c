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

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/trust"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Client acts for one account at one service. It is safe for concurrent use. Make one with
// [New], and end it with [Client.Close].
type Client struct {
	account AccountID
	cfg     Config
	calls   *call.Caller
	pool    *mem.Pool
	memory  *trust.Memory
	lists   *listMemory

	caps     *capabilities
	tools    tools
	rpc      rpc
	log      *signedLog
	vault    *vault
	sessions *sessions
	chains   *chains
	receipts receipts
	uploads  *uploader
	small    *sealedQueue
	blocks   *blockReader
	claims   claims
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
	c := &Client{account: account, cfg: cfg, memory: memory,
		lists: newListMemory(cfg.ListMemory), pool: mem.NewPool(), claims: claims{ids: make(map[Ref]string)}}
	c.caps, c.tools, c.rpc, c.log, c.vault = &capabilities{c: c}, tools{c}, rpc{c}, &signedLog{c: c}, &vault{c: c}
	c.sessions = &sessions{c: c}
	calls := cfg.calls(account)
	calls.Begin = c.sessions.begin
	c.calls = call.New(calls)
	c.chains, c.receipts = &chains{c: c, verified: make(map[GroupID]verified)}, receipts{c}
	c.uploads, c.small, c.blocks = newUploader(c), &sealedQueue{c: c, slowAfter: slowRequest}, &blockReader{c: c}
	c.calls.SetLimit(cfg.Limit)
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
		return c.log.distrust(err)
	}
	return &Error{Op: "close client", Kind: ErrOther, Code: wire.CodeState, Err: err}
}

// NetworkInfo returns the network, the contract and the addresses in use. It returns no
// other setting. Local, free. Specification 4.2 (getNetworkInfo).
func (c *Client) NetworkInfo() NetworkInfo {
	return NetworkInfo{Network: c.cfg.networkName(), ContractID: c.cfg.ContractID, RPCURL: c.cfg.RPCURL,
		MCPURL: c.cfg.MCPURL, AuthURL: c.cfg.AuthURL, AccountPage: c.cfg.hostedPage()}
}

// RefreshToken forces a new session token. It is rarely needed: every call refreshes a
// token that is about to expire. Free; needs the API key. Errors: [ErrUnauthenticated],
// [ErrNotFound] with the code [wire.CodeAccountUnknown] for an account that does not
// exist, [ErrUnavailable], [ErrTimeout]. Specification 4.2 (refreshToken).
func (c *Client) RefreshToken(ctx context.Context) error {
	return c.wrap("refresh token", "", "", c.calls.RefreshToken(ctx))
}
