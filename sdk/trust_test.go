package sdk_test

import (
	"errors"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/testkit"
)

// Threat 6: CheckTrust says what the next list would say, and what the service did.
func TestThreat6CheckTrust(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	dir := t.TempDir()
	c := remembering(t, d, dir)
	if trust, err := c.CheckTrust(t.Context()); err != nil || trust.Key != "" {
		t.Errorf("a client that saw nothing: %+v, %v", trust, err)
	}
	listed(t, c, d.Group, 4)
	if trust, err := c.CheckTrust(t.Context()); err != nil || trust.Key != d.Log().VerifierKey() || trust.Size == 0 {
		t.Errorf("an honest service: %+v, %v", trust, err)
	}
	shorter := d.Log().Rewritten(func(r *chain.Record) bool { return r.Seq < 4 })
	for name, tc := range map[string]struct {
		log  *testkit.Log
		code string
	}{
		"a restored backup": {shorter, wire.CodeHistory},
		"another key":       {d.Log().Rekeyed(nil), wire.CodeLogKey},
	} {
		d.Show(tc.log)
		_, err := c.CheckTrust(t.Context())
		var refused *sdk.Error
		if !errors.As(err, &refused) || refused.Kind != sdk.ErrCorrupt || refused.Code != tc.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}
