package ledger

import (
	"encoding/hex"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
)

// The layout of service/LEDGER.md, byte by byte: a change of it breaks every
// history that was signed. Package sdk/proof has the same vector.
func TestHashOfARecordIsFixed(t *testing.T) {
	fee, err := wire.ParseTokens("0.64")
	if err != nil {
		t.Fatal(err)
	}
	r := Record{Seq: 2, TimeNS: 1700000000000000001, TxID: "ab", Kind: KindRegister, Account: "alice.svc.testnet", Group: "team",
		Fee: fee, Request: "0011223344556677", Prev: [32]byte{0xaa}}
	const want = "9acc7bc2cf243bc8d292c28f9919c2c84361550bdfce651fd1be6c1402cb9c1c"
	sum := r.hash()
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
