package sdk

import (
	"context"
	"errors"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Config configures a [Client].
type Config struct {
	APIKey     Secret
	Network    string // "mainnet" (default) or "testnet"
	URL        string // one address of a self-hosted service: sets the three below
	AuthURL    string
	MCPURL     string
	RPCURL     string
	ContractID string

	InsecureHTTP bool          // allow http:// to hosts other than loopback
	MaxFileBytes int64         // largest plaintext handled, in bytes; 0 = DefaultMaxFileBytes
	Timeout      time.Duration // per metadata request; 0 = DefaultTimeout
}

const (
	DefaultMaxFileBytes int64 = 4 << 30
	DefaultTimeout            = 15 * time.Second
)

// Client speaks to the service for one account. Safe for concurrent use.
type Client struct{ pool *Pool }

var errSoon = errors.New("being written")

func New(account AccountID, cfg Config) (*Client, error) { return nil, errSoon }

func (c *Client) Account() AccountID       { return "" }
func (c *Client) NetworkInfo() NetworkInfo { return NetworkInfo{} }
func (c *Client) Pool() *Pool              { return c.pool }
func (c *Client) Close() error             { return nil }

// Capabilities asks once and remembers; a service without the path has none.
func (c *Client) Capabilities(ctx context.Context) (wire.Capabilities, error) {
	return wire.Capabilities{}, errSoon
}
func (c *Client) RefreshToken(ctx context.Context) error { return errSoon }
func (c *Client) AuthStatus(ctx context.Context, g GroupID) (AuthStatus, error) {
	return AuthStatus{}, errSoon
}
func (c *Client) Health(ctx context.Context) error                             { return errSoon }
func (c *Client) RegisterGroup(ctx context.Context, g GroupID) (string, error) { return "", errSoon }
func (c *Client) AddGroupMember(ctx context.Context, g GroupID, m AccountID) (string, error) {
	return "", errSoon
}
func (c *Client) RevokeGroupMember(ctx context.Context, g GroupID, m AccountID) (string, error) {
	return "", errSoon
}
func (c *Client) OwnedGroups(ctx context.Context) ([]GroupID, error)  { return nil, errSoon }
func (c *Client) MemberGroups(ctx context.Context) ([]GroupID, error) { return nil, errSoon }

// Groups merges OwnedGroups and MemberGroups, sorted by id. Free.
func (c *Client) Groups(ctx context.Context) ([]Group, error) { return nil, errSoon }
func (c *Client) GroupMembers(ctx context.Context, g GroupID) ([]AccountID, error) {
	return nil, errSoon
}

// Entries lists the file records of g whose ChangedSeq is larger than after, in
// that order; all of them, also deleted ones. A service without paging answers
// everything, which the caller merges by Ref. Free.
func (c *Client) Entries(ctx context.Context, g GroupID, after Seq) ([]Entry, error) {
	return nil, errSoon
}

// Retrieve fetches, decrypts and verifies e into b, which it resizes. Costs one
// retrieve claim. On error b is empty.
func (c *Client) Retrieve(ctx context.Context, e Entry, b *Buffer) (Plain, error) {
	return Plain{}, errSoon
}

// Upload seals b in place, sends and records it under name, and restores the
// plaintext before it returns, whatever the outcome. Costs one upload. Calling
// it again with the same content after an error never pays twice.
func (c *Client) Upload(ctx context.Context, g GroupID, name string, b *Buffer) (Receipt, error) {
	return Receipt{}, errSoon
}
func (c *Client) Balance(ctx context.Context, a AccountID) (Amount, error) { return Amount{}, errSoon }
func (c *Client) EstimateFee(ctx context.Context, action string) (Amount, error) {
	return Amount{}, errSoon
}
func (c *Client) GroupOwner(ctx context.Context, g GroupID) (AccountID, error) { return "", errSoon }
func (c *Client) GroupChecksum(ctx context.Context, g GroupID) (string, error) { return "", errSoon }
func (c *Client) IsAuthorized(ctx context.Context, g GroupID, a AccountID) (bool, error) {
	return false, errSoon
}
