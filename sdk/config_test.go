package sdk_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/network"
)

// Both worlds: the hosted networks without any address, a service of one's own
// by one, and each address alone (specification 2.7, wire protocol 1 and 8.1).
func TestWhereTheServiceIs(t *testing.T) {
	t.Parallel()
	const hosted = "https://5a5223f7d1bfe777433c496b9d52ff851e927259-8000.dstack-prod5.phala.network"
	for name, tc := range map[string]struct {
		cfg  sdk.Config
		want sdk.NetworkInfo
	}{
		"nothing": {sdk.Config{}, sdk.NetworkInfo{Network: sdk.Mainnet, ContractID: "nova-sdk.near", RPCURL: "https://rpc.mainnet.near.org", MCPURL: hosted, AuthURL: "https://nova-sdk.com", AccountPage: "https://nova-sdk.com"}},
		"testnet": {sdk.Config{Network: sdk.Testnet},
			sdk.NetworkInfo{Network: sdk.Testnet, ContractID: "nova-sdk-7.testnet", RPCURL: "https://rpc.testnet.near.org", MCPURL: hosted, AuthURL: "https://testnet.nova-sdk.com", AccountPage: "https://testnet.nova-sdk.com"}},
		"testnet by its contract, as the JavaScript SDK has it": {sdk.Config{ContractID: "nova-sdk-6.testnet", RPCURL: "https://rpc.testnet.near.org"},
			sdk.NetworkInfo{Network: sdk.Testnet, ContractID: "nova-sdk-6.testnet", RPCURL: "https://rpc.testnet.near.org", MCPURL: hosted, AuthURL: "https://nova-sdk.com", AccountPage: "https://nova-sdk.com"}},
		"one address": {sdk.Config{URL: "https://files.example.org/"},
			sdk.NetworkInfo{Network: sdk.Testnet, ContractID: "svc.testnet", RPCURL: "https://files.example.org/rpc", MCPURL: "https://files.example.org", AuthURL: "https://files.example.org"}},
		"one address with a path": {sdk.Config{URL: "https://example.org/files", ContractID: "svc.near"},
			sdk.NetworkInfo{Network: sdk.Mainnet, ContractID: "svc.near", RPCURL: "https://example.org/files/rpc", MCPURL: "https://example.org/files", AuthURL: "https://example.org/files"}},
		"each alone": {sdk.Config{AuthURL: "https://a.example", MCPURL: "https://m.example", RPCURL: "https://r.example/testnet", ContractID: "c"},
			sdk.NetworkInfo{Network: sdk.Testnet, ContractID: "c", RPCURL: "https://r.example/testnet", MCPURL: "https://m.example", AuthURL: "https://a.example"}},
		"one address and one alone": {sdk.Config{URL: "https://files.example.org", RPCURL: "https://r.example"},
			sdk.NetworkInfo{Network: sdk.Testnet, ContractID: "svc.testnet", RPCURL: "https://r.example", MCPURL: "https://files.example.org", AuthURL: "https://files.example.org"}},
	} {
		c, err := sdk.New("alice.near", tc.cfg)
		if err != nil || c.NetworkInfo() != tc.want {
			t.Errorf("%s: %+v, %v", name, c.NetworkInfo(), err)
		}
	}
	for id, key := range map[sdk.AccountID]string{"alice.near": "svc_sk_read_with_its_line\n", "alice\r\nX-Evil: 1": "svc_sk_x", "alice ": ""} {
		if _, err := sdk.New(id, sdk.Config{APIKey: sdk.NewSecret(key)}); !errors.Is(err, sdk.ErrInvalid) || strings.Contains(err.Error(), "svc_sk") {
			t.Errorf("account %q: %v", id, err)
		}
	}
	if _, err := sdk.New("alice.near", sdk.Config{Network: "moon"}); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("an unknown network: %v", err)
	}
}

// The key of an account of a self-hosted service goes to nobody else because an address is missing.
func TestLocalAccountNeedsAnAddress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg     sdk.Config
		refused bool
	}{
		"no address":       {sdk.Config{}, true},
		"one of two":       {sdk.Config{AuthURL: "https://a.example"}, true},
		"rpc alone":        {sdk.Config{RPCURL: "https://r.example"}, true},
		"its address":      {sdk.Config{URL: "https://a.example"}, false},
		"each address":     {sdk.Config{AuthURL: "https://a.example", MCPURL: "https://m.example"}, false},
		"a hosted network": {sdk.Config{Network: sdk.Testnet}, false},
	} {
		_, err := sdk.New(account, tc.cfg)
		if (err != nil) != tc.refused || tc.refused && (!errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), "no address")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sdk.New("alice.files.example.org", sdk.Config{}); err == nil || !strings.Contains(err.Error(), "no address") {
		t.Errorf("an account named after the host of a service: %v", err)
	}
	for _, hosted := range []sdk.AccountID{"alice.testnet", "alice.near", "98793cd91a3f870fb126f66285808c7e094afcfc4eda8a970f6648cdf0dbd6de"} {
		if _, err := sdk.New(hosted, sdk.Config{}); err != nil {
			t.Errorf("an account of the hosted network: %v", err)
		}
	}
}

func TestNormalAddress(t *testing.T) {
	for text, want := range map[string]string{
		"https://Files.Example.org:443/": "https://files.example.org", "HTTP://127.0.0.1:80//": "http://127.0.0.1", "http://[::1]:80": "http://[::1]",
		"https://files.example.org:8443/Path/": "https://files.example.org:8443/Path", "https://files.example.org:80": "https://files.example.org:80", "files.example.org/": "files.example.org",
	} {
		if got := network.NormalAddress(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	c, err := sdk.New("alice.svc.testnet", sdk.Config{URL: "https://Files.Example.org:443/"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if at := c.NetworkInfo(); at.MCPURL != "https://files.example.org" || at.RPCURL != "https://files.example.org/rpc" {
		t.Errorf("%+v", at)
	}
}

// E9: a limit that is too low is refused, and changes nothing.
func TestE9LimitIsChecked(t *testing.T) {
	t.Parallel()
	cfg := sdk.Config{URL: "https://a.example", Limit: network.Limit{Down: 2 << 20, Up: network.LeastLimit}}
	c, err := sdk.New("alice.near", cfg)
	if err != nil {
		t.Fatal(err)
	}
	for l, refused := range map[network.Limit]bool{{Up: network.LeastLimit - 1}: true, {Down: -1}: true, {}: false, {Down: 1 << 40}: false} {
		before := c.Limit()
		if err := c.SetLimit(l); refused != errors.Is(err, sdk.ErrInvalid) || !refused && err != nil {
			t.Errorf("%v: %v", l, err)
		}
		if refused {
			l = before
		}
		if got := c.Limit(); got != l {
			t.Errorf("the limit is %v, want %v", got, l)
		}
	}
	cfg.Limit.Down = 1
	if _, err := sdk.New("alice.near", cfg); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("a client with a limit of a byte a second: %v", err)
	}
}
