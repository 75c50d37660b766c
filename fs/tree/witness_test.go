package tree

import (
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// Threat 6, E2: while the required witness signs nothing, a mount lists nothing new and says which witness it
// is. What it listed before is there, and can be read; once the witness signs again, so is the rest.
func TestThreat6WitnessIsAway(t *testing.T) {
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	w := testkit.NewWitness("witness.example/1")
	age := time.Duration(0)
	w.Clock = func() time.Time { return time.Now().Add(-age) }
	shown := d.Log()
	shown.Cosign = w.Cosign
	c := d.Client(t, d.Bob, func(c *sdk.Config) { c.Witness = w.VerifierKey() })
	now := time.Now()
	m := &mounted{grow(t, Config{Remote: Client{c}, Ours: true, RefreshInterval: time.Hour, EmptyDelay: time.Hour, reopen: -1, clock: func() time.Time { return now }}, nil), t, nil}
	want := m.names("/board")
	age = 11 * time.Minute
	if _, err := d.Client(t, d.Alice).Group(d.Group).Put(t.Context(), "new.txt", strings.NewReader("new")); err != nil {
		t.Fatal(err)
	}
	g := m.groups[d.Group]
	if err := g.list.Refresh(t.Context(), 0); !isAway(err) || !strings.Contains(err.Error(), "witness.example/1") {
		t.Errorf("a listing: %v", err)
	}
	m.wantNames("/board", want...)
	m.wantContent("/board/payroll.txt", "version 2")
	age = 0
	if err := g.list.Refresh(t.Context(), 0); err != nil {
		t.Error(err)
	}
	m.wantContent("/board/new.txt", "new")
}
