package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// Threat 78: keys that were given out without a record are told, also to a program, after what was checked.
func TestThreat78KeysWithoutARecordAreTold(t *testing.T) {
	s := testkit.Start(t, testkit.Ours)
	g := s.Client(t, s.Account("alice", "10")).Group("team")
	_, err := g.Register(t.Context())
	ok(t, err)
	passed := time.Duration(0)
	verifies := func(code exitCode, want string) {
		t.Helper()
		passed += wire.RecordedWithin
		s.SetClock(passed)
		_, err := g.Put(t.Context(), "a.txt", strings.NewReader("a")) // the next checkpoint
		ok(t, err)
		for _, asJSON := range []bool{false, true} {
			var out bytes.Buffer
			home := func(string) (string, bool) { return t.TempDir(), true }
			a := newApp(strings.NewReader(""), &out, new(bytes.Buffer), environment{lookup: home})
			a.asJSON = asJSON
			if err := a.verifyLedger(t.Context(), g); exitCodeOf(err) != code {
				t.Errorf("%v, exit code %d, want %d", err, exitCodeOf(err), code)
			}
			if shown := out.String(); !strings.Contains(shown, want) && !asJSON ||
				!strings.Contains(shown, `"unrecorded": `) && asJSON {
				t.Errorf("%s, want %s", shown, want)
			}
		}
	}
	verifies(exitOK, "each for a record of the ledger")
	verifies(exitOK, "0 in the clear, each for a record of the ledger") // a vault that follows the log counts soon
	s.OpensInSilence()
	verifies(exitProof, "1 in the clear, 1 of them without a record in the ledger")
}
