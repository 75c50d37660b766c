package wire_test

import (
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
)

// FuzzAmount: what is read as an amount is written the same, in yocto and in
// tokens.
func FuzzAmount(f *testing.F) {
	for _, seed := range []string{"0", "1", "640000000000000000000000", "340282366920938463463374607431768211455", "340282366920938463463374607431768211456", "-1", "1e3", "0.64", "1.", ".5", "", "007"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (wire.Amount, error){wire.ParseAmount, wire.ParseTokens} {
			a, err := parse(text)
			if err != nil {
				continue
			}
			if yocto, err := wire.ParseAmount(a.String()); err != nil || yocto != a {
				t.Errorf("%q is %s yocto, read again %s, %v", text, a, yocto, err)
			}
			if tokens, err := wire.ParseTokens(a.Tokens()); err != nil || tokens != a {
				t.Errorf("%q is %s tokens, read again %s, %v", text, a.Tokens(), tokens, err)
			}
		}
	})
}
