package outbox

import (
	"errors"
	"slices"
	"testing"
)

// Threat 52: ends that stand upon each other, which nobody but a forger writes, hold up no start.
func TestThreat52ForgedEnds(t *testing.T) {
	for _, ends := range [][2]string{{"x", "x"}, {"x", "y"}} {
		d := newMemDisk()
		s, _ := mustOpen(t, d)
		mustAdd(t, s, saved("a", ""), saved("c", ends[0]))
		mustAdd(t, s, endOf(Clear{ID: ends[0], After: ends[1]}, ""), endOf(Clear{ID: ends[1], After: ends[0]}, ""))
		mustAdd(t, s, saved("d", ends[1]))
		_, items := mustOpen(t, d)
		if !slices.Equal(idsOf(items), []string{"a", "c", "d"}) {
			t.Errorf("items %v", idsOf(items))
		}
		for _, c := range items {
			if c.After != "" {
				t.Errorf("%s stands upon %s", c.ID, c.After)
			}
		}
	}
}

// Threat 52: where somebody used up the positions, a save is refused that the next start would not believe.
func TestThreat52PositionsUsedUp(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	mustAdd(t, s, newItem("a"))
	if err := d.Changed(func(c *Clear) { c.Position = maxPosition }); err != nil {
		t.Fatal(err)
	}
	s, _ = mustOpen(t, d)
	if err := s.add(t.Context(), newItem("b")); !errors.Is(err, errUsedUp) {
		t.Errorf("a save that the next start does not have: %v", err)
	}
	if err := s.forget(t.Context(), Clear{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	s, _ = mustOpen(t, d)
	mustAdd(t, s, newItem("c"))
	if _, items := mustOpen(t, d); !slices.Equal(idsOf(items), []string{"c"}) {
		t.Errorf("items %v", idsOf(items))
	}
}
