package sdk_test

import (
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// What a look at the ledger costs is told before it is made, and is what it costs.
func TestReadPriceIsWhatReadingCosts(t *testing.T) {
	t.Parallel()
	for _, flavour := range []testkit.Dialect{testkit.Hosted, testkit.Ours} {
		t.Run(flavour.String(), func(t *testing.T) {
			s := testkit.Start(t, flavour)
			alice := s.Client(t, s.Account("alice", "10"))
			if _, err := alice.Group("private").Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := alice.Group("open").OpenJoin(t.Context(), time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			for _, g := range []sdk.GroupID{"private", "open", ""} {
				price, err := alice.Group(g).ReadPrice(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if paid := flavour != testkit.Ours && g != "open"; price.IsZero() == paid {
					t.Errorf("reading %q is said to cost %s", g, price.Tokens())
				}
				before, err := alice.Balance(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				if g == "" {
					_, err = alice.Groups(t.Context())
				} else {
					_, err = alice.Group(g).Entries(t.Context())
				}
				after, balanceErr := alice.Balance(t.Context(), "")
				if err != nil || balanceErr != nil {
					t.Fatal(err, balanceErr)
				}
				if cost, ok := before.Sub(after); !ok || cost.Cmp(price) != 0 {
					t.Errorf("reading %q cost %s, and was said to cost %s", g, cost.Tokens(), price.Tokens())
				}
			}
		})
	}
}
