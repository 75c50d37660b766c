package throttle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Threat 31: a caller has its part of the memory, and no more.
func TestThreat31PartsOfTheMemory(t *testing.T) { synctest.Test(t, partsOfTheMemory) }

func partsOfTheMemory(t *testing.T) {
	const mib = 1 << 20
	b := NewBytes(800 * mib)
	take := func(caller string, n int64, want bool) func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		release, ok := b.Wait(ctx, caller, n, 0)
		if ok != want {
			t.Fatalf("%s takes %d MiB: %v", caller, n/mib, ok)
		}
		return release
	}
	first := take("a", 60*mib, true)
	take("a", 41*mib, false)
	second := take("a", 40*mib, true)
	take("b", 100*mib, true)()
	first()
	second()
	large := take("a", 500*mib, true) // more than its part, but a single thing
	take("a", 1, false)
	take("b", 100*mib, true)()
	large()
	all := take("a", 5000*mib, true) // alone
	take("b", 1, false)
	all()
	for _, caller := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		defer take(caller, 100*mib, true)()
	}
	take("i", 1, false)

	b = NewBytes(40 * mib) // a little one
	for _, caller := range []string{"a", "b", "c"} {
		defer take(caller, 10*mib, true)()
		take(caller, 1, false)
	}
	defer take("d", 9*mib, true)()
}

// Threat 31: one thing that takes memory in steps waits for others, and never for itself.
func TestThreat31MemoryInSteps(t *testing.T) {
	b := NewBytes(100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is waited for
	var steps []func()
	for has := int64(0); has < 200; has += 20 {
		release, ok := b.Wait(t.Context(), "a", 20, has)
		if !ok {
			t.Fatalf("with %d of it", has)
		}
		if _, ok := b.Wait(ctx, "a", 10, 0); ok && has > 0 {
			t.Errorf("another thing of the caller is given with %d", has)
		}
		steps = append(steps, release)
	}
	for _, release := range steps {
		release()
	}
	if all, ok := b.Wait(t.Context(), "b", 100, 0); !ok || len(b.own.own) != 1 {
		t.Error("not all came back")
	} else {
		all()
	}
}

// Threat 31: slots are counted by caller, and forgotten when they are free.
func TestThreat31Slots(t *testing.T) {
	s := NewSlots[string](2)
	one, ok1 := s.Take("a")
	two, ok2 := s.Take("a")
	_, third := s.Take("a")
	other, ok3 := s.Take("b")
	if !ok1 || !ok2 || third || !ok3 {
		t.Fatal(ok1, ok2, third, ok3)
	}
	one()
	if _, ok := s.Take("a"); !ok {
		t.Error("a free slot is not given")
	}
	two()
	other()
}

// Threat 31: who waits for a slot of its own gets the next one that is free.
func TestThreat31WaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots[string](1)
		one, _ := s.Take("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, ok := s.Wait(ctx, "a"); ok {
			t.Error("one more than there are")
		}
		time.AfterFunc(time.Second, one)
		two, ok := s.Wait(t.Context(), "a")
		if !ok {
			t.Fatal("the free slot is not given")
		}
		if other, ok := s.Wait(t.Context(), "b"); ok {
			other()
		}
		if two(); len(s.own) != 0 {
			t.Errorf("%d callers are remembered", len(s.own))
		}
	})
}

// Threat 31: a caller waits for the cost of a large answer.
func TestThreat31LargeAnswersCount(t *testing.T) {
	l := New[string](1, 10)
	if !l.Allow("a") {
		t.Fatal("the first is refused")
	}
	l.Charge("a", 25)
	if l.Allow("a") || !l.Allow("b") {
		t.Error("what was charged does not count, or for others")
	}
}
