package service

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A part that hangs, even one that ignores its context, delays no caller longer than a
// second, is asked once, and is the only one that is down.
func TestHealthOfAHangingPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		release := make(chan struct{})
		h := &health{log: slog.New(slog.DiscardHandler), parts: map[string]func(context.Context) error{
			"database": func(context.Context) error { return nil },
			"blobs": func(context.Context) error {
				asked.Add(1)
				<-release
				return nil
			},
		}}
		start := time.Now()
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				if state := h.check(t.Context()); state["blobs"] != partDown || state["database"] != partOK {
					t.Errorf("while it hangs: %v", state)
				}
			})
		}
		callers.Wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("the callers waited %s", took)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the part was asked %d times at once", n)
		}
		close(release)
		synctest.Wait()
		time.Sleep(healthAge)
		if state := h.check(t.Context()); state["blobs"] != partOK || state["database"] != partOK {
			t.Errorf("after it: %v", state)
		}
	})
}

// An answer is repeated for a second, so that asking often costs nothing.
func TestHealthIsAskedOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		down := errors.New("down")
		h := &health{log: slog.New(slog.DiscardHandler), parts: map[string]func(context.Context) error{
			"database": func(context.Context) error { asked++; return down },
		}}
		for range 100 {
			if state := h.check(t.Context()); state["database"] != partDown {
				t.Errorf("%v", state)
			}
			time.Sleep(healthAge / 50)
		}
		if asked != 2 {
			t.Errorf("asked %d times in two seconds", asked)
		}
	})
}
