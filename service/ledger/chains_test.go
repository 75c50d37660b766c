package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// A record of a chain, and a change of a balance, is refused unless the write named the chain.
func TestWritesNameTheirChains(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l := ledger.New(ledger.DefaultFees(), ledger.Bounds{}, time.Now)
	group := chain.Record{Kind: chain.KindRename, Account: "a", Group: "g"}
	account := chain.Record{Kind: chain.KindRotateKey, Account: "a"}
	claim := chain.Record{Kind: chain.KindClaim, Account: "a", Group: "g"}
	for _, c := range []struct {
		name   string
		chains store.Chains
		record chain.Record
		lacks  string
	}{
		{"the group", ledger.In("g"), group, ""},
		{"a group and accounts", ledger.In("g", "b", "a"), claim, ""},
		{"everything", store.Everything(), group, ""},
		{"everything and a group", ledger.In("x").And(store.Everything()), account, ""},
		{"none", store.Chains{}, group, "group:g"},
		{"only the account", ledger.By("a"), group, "group:g"},
		{"another group", ledger.In("h", "a"), group, "group:g"},
		{"only the group", ledger.In("g"), claim, "account:a"},
		{"another account", ledger.In("g", "b"), account, "account:a"},
	} {
		err := s.Write(t.Context(), c.chains, func(tx *store.Tx) error {
			_, err := l.Append(t.Context(), tx, c.record)
			return err
		})
		if c.lacks == "" && err != nil ||
			c.lacks != "" && (err == nil || !strings.Contains(err.Error(), `does not name the chain "`+c.lacks+`"`)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	fund := func(named string) error {
		return s.Write(t.Context(), ledger.By(named), func(tx *store.Tx) error {
			if err := tx.Do(t.Context(), "insert account", `INSERT INTO accounts
				(id, credential, key_generation, balance, created_ns) VALUES ('c', x'00', 1, '0', 1)`); err != nil {
				return err
			}
			_, err := l.Fund(t.Context(), tx, "c", wire.Amount{})
			return err
		})
	}
	if err := fund("d"); err == nil || !strings.Contains(err.Error(), `"account:c"`) {
		t.Errorf("a balance of another account: %v", err)
	}
	if err := fund("c"); err != nil {
		t.Error(err)
	}
}
