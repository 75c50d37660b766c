package tree

import "testing"

// The rows of the table are what saves send.
func TestWaysOfASave(t *testing.T) {
	const whole = 100
	scenes := [len(ways)]struct {
		change  func(m *mounted, h *Handle)
		when    commitWhen
		uploads int
		blocks  int // that are sent
		attrs   int
	}{
		wayNothing: {change: func(m *mounted, h *Handle) { m.write(h, string(noise(whole)), 0) }, attrs: 1},
		wayLater:   {change: func(m *mounted, h *Handle) { ok(m.t, h.f.Truncate(m.t.Context(), 0, h)) }},
		wayWhole:   {change: func(m *mounted, h *Handle) { m.write(h, "changed", 0) }, uploads: 1},
		wayBlocks: {change: func(m *mounted, h *Handle) { ok(m.t, put(m.t, h, noise(3*block), 0)) }, uploads: 1,
			blocks: 3},
		wayChanges: {change: func(m *mounted, h *Handle) {
			ok(m.t, put(m.t, h, noise(3*block), 0))
			flush(m.t, h)
			ok(m.t, put(m.t, h, []byte("changed"), block))
		}, uploads: 2, blocks: 4},
		wayAttributes: {change: func(_ *mounted, h *Handle) { h.f.SetMode(0o755) }, attrs: 1},
	}
	for w, scene := range scenes {
		t.Run(way(w).String(), func(t *testing.T) {
			world, _, _ := largeWorld(1)
			world.Put("g", "bob", "small", noise(whole))
			m := mount(t, world, "bob", keeps)
			h := m.open("/g/small", OpenFlags{Read: true, Write: true})
			defer h.Release()
			scene.change(m, h)
			s, err := h.f.quiet(t.Context())
			ok(t, err)
			h.f.mu.Unlock()
			if way(w) != wayAttributes {
				if got, _ := (&saving{h.f, s, h.f.groupNow(), "small"}).way(commitOnClose); got != way(w) {
					t.Errorf("it goes the way %q", got)
				}
			}
			flush(t, h)
			m.KeepAttributes(t.Context())
			if _, uploads := world.Charged(); uploads != scene.uploads || world.BlocksSent() != scene.blocks {
				t.Errorf("%d uploads and %d blocks were sent, want %d and %d", uploads, world.BlocksSent(), scene.uploads,
					scene.blocks)
			}
			m.wantRequests(scene.attrs)
			if row := ways[w]; row.name == "" || row.when == "" || row.sends == "" {
				t.Error("the table has no such row")
			}
		})
	}
}
