package auth

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Threat 22: a wrong key is as much work as an unknown account, so that both take the
// same time: one look into the database, and one comparison, in constant time, of
// hashes of one length.
func TestThreat22UnknownAndWrongAreTheSameWork(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	accounts := NewAccounts(s, ledger.New(ledger.Fees{}, ledger.Bounds{}, time.Now), "svc.testnet", nil)
	id, key, err := accounts.Create(t.Context(), "alice", wire.Amount{})
	if err != nil {
		t.Fatal(err)
	}
	var work []string
	s.Observe(func(call string, _ time.Duration, _ error) { work = append(work, call) })
	accounts.equal = func(x, y []byte) int {
		work = append(work, fmt.Sprintf("compare %d and %d bytes", len(x), len(y)))
		return subtle.ConstantTimeCompare(x, y)
	}
	wrong := keyPrefix + strings.Repeat("A", 43)
	want := []string{"read", "compare 32 and 32 bytes"}
	for _, tc := range []struct{ name, id, key, code string }{
		{"a wrong key", id, wrong, wire.CodeInvalidKey},
		{"an unknown account", "absent.svc.testnet", wrong, wire.CodeAccountUnknown},
		{"the right key", id, key.Reveal(), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			work = nil
			_, err := accounts.CheckKey(t.Context(), tc.id, tc.key)
			if refused := (&fault.Error{}); tc.code != "" && (!errors.As(err, &refused) || refused.Code != tc.code) || tc.code == "" && err != nil {
				t.Errorf("answer %v, want %q", err, tc.code)
			}
			if !slices.Equal(work, want) {
				t.Errorf("work %q, want %q", work, want)
			}
		})
	}
}
