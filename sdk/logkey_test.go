package sdk_test

import (
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// Threat 6: another key of the log is believed when the key before it and the key
// itself signed that, and never otherwise: by a client that runs, by one that
// remembers, and by one whose user gave the key before.
func TestThreat6LogKeyReplaced(t *testing.T) {
	t.Parallel()
	both := func(before, after note.Signer) []note.Signer { return []note.Signer{before, after} }
	for name, tc := range map[string]struct {
		signers  func(before, after note.Signer) []note.Signer
		believed bool
	}{
		"both signed":           {both, true},
		"the key before alone":  {func(before, _ note.Signer) []note.Signer { return []note.Signer{before} }, false},
		"the key itself alone":  {func(_, after note.Signer) []note.Signer { return []note.Signer{after} }, false},
		"nobody says it at all": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := testkit.NewWorld(t, testkit.OnHistory, false)
			dir, first := t.TempDir(), d.Log().VerifierKey()
			withKey := func(c *sdk.Config) { c.LogKey = first }
			running, required := remembering(t, d, dir), remembering(t, d, "", withKey)
			listed(t, running, d.Group, 4)
			listed(t, required, d.Group, 4)
			d.Show(d.Log().Rekeyed(tc.signers))
			second := remembering(t, d, dir, withKey)
			for who, c := range map[string]*sdk.Client{"running": running, "with the key": required, "remembering": second} {
				entries, err := c.Group(d.Group).Entries(t.Context())
				if tc.believed && (err != nil || len(entries) != 4) || !tc.believed && sdk.KindOf(err) != sdk.ErrCorrupt {
					t.Errorf("%s: %d entries, %v", who, len(entries), err)
				}
			}
			if !tc.believed {
				return
			}
			d.Show(d.Log().Rekeyed(both)) // and a second time
			for range 2 {
				c := remembering(t, d, dir, withKey)
				listed(t, c, d.Group, 4)
				if trust, err := c.Trust(t.Context()); err != nil || trust.Key != d.Log().VerifierKey() {
					t.Errorf("believes the key %q, %v", trust.Key, err)
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
			listed(t, running, d.Group, 4)
			if err := running.Close(); err != nil {
				t.Errorf("the two clients disagree: %v", err)
			}
			late := remembering(t, d, "", withKey) // was not there for the first change
			listed(t, late, d.Group, 4)
		})
	}
}
