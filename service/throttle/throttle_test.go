package throttle

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestEachCallerHasItsOwnBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := New[string](2, 3)
		for i := range 5 {
			if would := th.Would("a"); would != (i < 3) || th.Allow("a") != would {
				t.Errorf("time %d: would be allowed %v", i, would)
			}
		}
		if !th.Would("b") || !th.Allow("b") {
			t.Error("another caller is refused")
		}
		time.Sleep(time.Second)
		allowed := 0
		for th.Allow("a") {
			allowed++
		}
		if allowed != 2 {
			t.Errorf("after a second %d times, want 2", allowed)
		}
	})
}

// Threat 31: the memory of made-up callers is bounded. While resting callers can be
// forgotten instead, no refused caller is.
func TestThreat31Memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := New[int](1, 2)
		for c := range maxCallers - 1 {
			th.Allow(c)
		}
		time.Sleep(time.Minute)
		busy := maxCallers
		for th.Allow(busy) {
		}
		th.Allow(busy + 1)
		if len(th.callers) != 2 || th.Would(busy) {
			t.Errorf("%d callers are remembered, the refused one %v", len(th.callers), !th.Would(busy))
		}
		for c := range 5 * maxCallers {
			th.Allow(-c)
		}
		if len(th.callers) > maxCallers {
			t.Errorf("%d callers are remembered", len(th.callers))
		}
	})
}
