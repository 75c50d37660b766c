package sdk_test

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Threat 6: CheckTrust says what the next list would say, and names what to do.
func TestThreat6CheckTrust(t *testing.T) {
	d := sdktest.NewDeceit(t, sdktest.Liar{})
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
		log  *sdktest.Log
		hint string
	}{
		"a restored backup": {shorter, "accept-rollback."},
		"another key":       {d.Log().Rekeyed(nil), "--forget-key"},
	} {
		d.Show(tc.log)
		_, err := c.CheckTrust(t.Context())
		if sdk.KindOf(err) != sdk.KindCorrupt || !strings.Contains(sdk.HintOf(err), tc.hint) {
			t.Errorf("%s: %v, hint %q", name, err, sdk.HintOf(err))
		}
	}
}
