package ledger

import (
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// In names the chain of a group, and those of accounts, for a write.
func In(group string, accounts ...string) store.Chains {
	return By(accounts...).And(store.Named(chain.OfGroup(group)))
}

// By names the chains of accounts, for a write.
func By(accounts ...string) store.Chains {
	names := make([]string, len(accounts))
	for i, account := range accounts {
		names[i] = chain.OfAccount(account)
	}
	return store.Named(names...)
}

// requireNamed refuses a chain that a write does not name: an error of the program.
func requireNamed(tx *store.Tx, name string) error {
	if tx.Chains().Has(name) {
		return nil
	}
	return fmt.Errorf("the write does not name the chain %q, and changes it", name)
}
