package sdk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/trust"
)

// Addresses of the hosted service.
const (
	hostedAuthURL   = "https://nova-sdk.com"
	hostedMCPURL    = "https://5a5223f7d1bfe777433c496b9d52ff851e927259-8000.dstack-prod5.phala.network"
	testnetAuthURL  = "https://testnet.nova-sdk.com"
	mainnetRPCURL   = "https://rpc.mainnet.near.org"
	testnetRPCURL   = "https://rpc.testnet.near.org"
	mainnetContract = "nova-sdk.near"
	testnetContract = "nova-sdk-7.testnet"
	// selfHostedContract is the default contract id of a self-hosted service.
	selfHostedContract = "svc.testnet"
)

const defaultMaxFileBytes int64 = 4 << 30

// Config configures a [Client]. The zero value means the hosted service on the main
// network, without a key. Without a key only reads that need no authentication work.
type Config struct {
	APIKey Secret // the zero value = none
	// NewKey returns the API key that the account has now, from where the key is kept; nil =
	// APIKey never changes. The client asks when the service refuses the key it has, once for
	// all calls that wait, and at most every two seconds. A key that the service refuses for
	// this account is not taken. The error must hold no key.
	NewKey  func(context.Context) (Secret, error)
	Network string // Mainnet (default) or Testnet; chooses the hosted addresses
	// URL is the address of a self-hosted service. It is the default of AuthURL and MCPURL,
	// and URL + "/rpc" is the default of RPCURL.
	URL        string
	AuthURL    string // server that exchanges an API key for a session token
	MCPURL     string // server of the operations
	RPCURL     string // JSON-RPC of the ledger: the whole address
	ContractID string // account of the ledger contract

	// LogKey is the verifier key of the service's log, from its operator. With LogKey, a
	// service without proofs is refused. "" trusts the first key that the service shows.
	LogKey string
	// Witness is the verifier key of a witness (c2sp.org/tlog-cosignature) that must have
	// signed every checkpoint, not long ago. "" requires no witness.
	Witness string
	// WitnessAge is how old the signature of the witness may be, at most 24 hours; 0 = 10 minutes.
	// With an older one lists are [ErrUnavailable]: the service may show an old history.
	WitnessAge time.Duration
	// StateDir is a folder with a small file for each service and account. The file
	// remembers what the service showed, as numbers and keyed hashes (see package trust),
	// so that every later client holds the service to it. "" remembers in memory, until
	// Close.
	StateDir string

	InsecureHTTP bool // allow http:// to hosts other than loopback
	// MaxFileBytes is the largest plaintext, in bytes, of a file that is held in memory whole;
	// 0 = 4 GiB. Files of format version 2 are not held: [Group.Open] opens those of any size.
	MaxFileBytes int64
	// ListMemory is how much memory the records of groups may take, in bytes, in lists that are
	// read at the same time, that the client keeps for later ones, and that the caller counts
	// with [Client.HoldList]; 0 = [DefaultListMemory]. A list beyond it is [ErrTooLarge]. At a
	// service that proves what it lists, records that are not proven yet take 32 MiB more at most.
	ListMemory int64
	// SpoolDir is a folder on a disk, which is made if it does not exist. There [Group.Verify] keeps what it needs of a
	// group whose files do not fit into half of ListMemory, some 150 bytes of each: sealed, in a file without a name,
	// while it runs. "" = that of [os.TempDir].
	SpoolDir string
	// SmallGroup is the longest chain of a group that is always read as a whole, in records, also where a part is asked
	// for: see [Group.Children]. 0 = [DefaultSmallGroup], negative = none.
	SmallGroup int64
	Timeout    time.Duration // for a request without file content; 0 = 15 s

	// Patience is how long an upload or a retrieval goes on trying while connections to
	// the service are refused or break, counted from the first of them. The wait ends
	// with the call's context. With 0 it tries four times at most, within a second.
	Patience time.Duration

	// Limit is how fast the requests and answers of the client may travel, see [Client.SetLimit]; the zero value =
	// as fast as the line is.
	Limit network.Limit

	// Transport sends the requests, which carry the key and session tokens. It must not
	// change the bodies of requests. Redirects are never followed. nil is a transport of
	// the client's own, which uses the environment's proxy for https only.
	Transport http.RoundTripper
}

// resolve sets defaults and checks every address. The key of an account of a self-hosted service does not
// go to the hosted one because an address was forgotten.
func (c Config) resolve(account AccountID) (Config, error) {
	if isLocal(account) && c.Network == "" && c.URL == "" && (c.AuthURL == "" || c.MCPURL == "") {
		return c, fmt.Errorf("%s is an account of a self-hosted service, and no address of that service is given",
			quote(string(account)))
	}
	hosted := Config{AuthURL: hostedAuthURL, MCPURL: hostedMCPURL, RPCURL: mainnetRPCURL, ContractID: mainnetContract}
	switch c.Network {
	case "", Mainnet:
	case Testnet:
		hosted.AuthURL, hosted.RPCURL, hosted.ContractID = testnetAuthURL, testnetRPCURL, testnetContract
	default:
		return c, fmt.Errorf("network %s: want %s or %s", quote(c.Network), Mainnet, Testnet)
	}
	if c.URL != "" {
		base := strings.TrimRight(c.URL, "/")
		hosted = Config{AuthURL: base, MCPURL: base, RPCURL: base + "/rpc", ContractID: selfHostedContract}
	}
	for _, f := range []struct{ field, fallback *string }{
		{&c.AuthURL, &hosted.AuthURL}, {&c.MCPURL, &hosted.MCPURL}, {&c.RPCURL, &hosted.RPCURL},
		{&c.ContractID, &hosted.ContractID},
	} {
		if *f.field == "" {
			*f.field = *f.fallback
		}
	}
	for _, address := range []*string{&c.AuthURL, &c.MCPURL, &c.RPCURL} {
		checked, err := c.checkAddress(*address)
		if err != nil {
			return c, err
		}
		*address = checked
	}
	if !call.FitsHeader(c.ContractID) {
		return c, fmt.Errorf("contract %s: no contract has such a name", quote(c.ContractID))
	}
	if c.MaxFileBytes <= 0 {
		c.MaxFileBytes = defaultMaxFileBytes
	}
	if c.SmallGroup == 0 {
		c.SmallGroup = DefaultSmallGroup
	}
	if c.ListMemory <= 0 {
		c.ListMemory = DefaultListMemory
	}
	if c.SpoolDir == "" {
		c.SpoolDir = os.TempDir()
	}
	if c.Timeout <= 0 {
		c.Timeout = call.DefaultTimeout
	}
	return c, nil
}

// isLocal reports whether the account is one of a self-hosted service: its name ends in the default contract of those,
// or in the host of one. Names at the hosted service end in .near or .testnet, or have no dot.
func isLocal(account AccountID) bool {
	name := string(account)
	return strings.HasSuffix(name, "."+selfHostedContract) ||
		strings.Contains(name, ".") && !strings.HasSuffix(name, ".near") && !strings.HasSuffix(name, ".testnet")
}

// calls says how an account calls the service.
func (c Config) calls(account AccountID) call.Config {
	return call.Config{Account: string(account), Key: c.APIKey, NewKey: c.NewKey, AuthURL: c.AuthURL, URL: c.MCPURL,
		Timeout: c.Timeout, Patience: c.Patience, Transport: c.Transport, ReadError: readError}
}

// checkKeys checks the verifier keys.
func (c Config) checkKeys() error {
	if c.LogKey != "" {
		if err := proof.CheckKey(c.LogKey); err != nil {
			return fmt.Errorf("the required log key: %w", err)
		}
	}
	if err := c.witness().Check(); err != nil {
		return fmt.Errorf("the required witness: %w", err)
	}
	return nil
}

func (c Config) witness() proof.Witness { return proof.Witness{Key: c.Witness, Age: c.WitnessAge} }

// stateFile returns the path of the file that remembers what an account saw of the service,
// "" for none.
func (c Config) stateFile(account AccountID) string {
	if c.StateDir == "" {
		return ""
	}
	return filepath.Join(c.StateDir, c.of(account).FileName(c.ContractID))
}

// of says which account at which service a file is of.
func (c Config) of(account AccountID) trust.Of {
	return trust.Of{Service: c.MCPURL, Account: string(account)}
}

func (c Config) checkAddress(address string) (string, error) {
	u, err := url.Parse(address)
	if host := hostOf(address); host != "" {
		scheme := "https://"
		if call.IsLoopback(host) {
			scheme = "http://"
		}
		return "", fmt.Errorf("address %s: did you mean %s?", quote(address), quote(scheme+address))
	}
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("address %s: want https://host[:port][/path]", quote(address))
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("a service address holds a user name, a query or a fragment: leave them out")
	}
	switch u.Scheme {
	case "https":
	case "http":
		if !c.InsecureHTTP && !call.IsLoopback(u.Hostname()) {
			return "", fmt.Errorf("address %s sends keys over plain http: use https", quote(address))
		}
	default:
		return "", fmt.Errorf("address %s: want https://", quote(address))
	}
	return network.NormalAddress(address), nil
}

// hostOf returns the host of an address that lacks its scheme, such as files.example.org:8443, "" for any other text.
func hostOf(address string) string {
	u, err := url.Parse("https://" + address)
	if err != nil || strings.Contains(address, "://") || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	return u.Hostname()
}

// hostedPage returns the web page of the hosted service, "" at a self-hosted service.
func (c Config) hostedPage() string {
	if c.AuthURL == hostedAuthURL || c.AuthURL == testnetAuthURL {
		return c.AuthURL
	}
	return ""
}

// networkName returns the network by the rules of the JavaScript SDK.
func (c Config) networkName() string {
	switch {
	case strings.HasSuffix(c.ContractID, ".testnet"):
		return Testnet
	case strings.HasSuffix(c.ContractID, ".near"):
		return Mainnet
	case strings.Contains(c.RPCURL, Testnet):
		return Testnet
	default:
		return Mainnet
	}
}
