package sdk_test

import (
	"bytes"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// A refused upload is never taken for one whose answer was lost: neither for an
// equal record of an earlier run, nor for a path that is missing.
func TestRefusedUploadIsNotFoundInTheLedger(t *testing.T) {
	t.Parallel()
	for _, flavour := range []testkit.Dialect{testkit.Hosted, testkit.Ours} {
		t.Run(flavour.String(), func(t *testing.T) {
			s, owner := world(t, flavour)
			poor := s.Account("poor", "0.05")
			if _, err := owner.Group("g").Add(t.Context(), poor.ID); err != nil {
				t.Fatal(err)
			}
			upload := func() error { // each run of a program is a client of its own
				c := s.Client(t, poor)
				_, err := c.Group("g").Put(t.Context(), "f", bytes.NewReader([]byte("the same content")))
				return err
			}
			if err := upload(); err != nil {
				t.Fatal(err)
			}
			if err := upload(); sdk.KindOf(err) != sdk.ErrInsufficient {
				t.Errorf("%v", err)
			}
			if n := s.Records(); n != 1 {
				t.Errorf("%d records", n)
			}
		})
	}
}
