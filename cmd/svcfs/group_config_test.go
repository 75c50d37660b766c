package main

import (
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// What one answer of the service has is asked once, however many settings are shown of it.
func TestGroupConfigAsksOnce(t *testing.T) {
	s, _, c := newHosted(t, testkit.Ours)
	g := c.Group("team")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ok(t, testApp(t, nil, "").showSettings(t.Context(), g, groupSettings()))
	for _, op := range []string{wire.OpGetGroupSettings, wire.OpGetTrash} {
		if hits := s.Hits(wire.PathTools + op); hits != 1 {
			t.Errorf("%s is asked %d times", op, hits)
		}
	}
}
