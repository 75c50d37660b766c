package fs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// R4: a refresh ends when the kernel has got the notices, or when it waited long enough for a
// folder that a program holds.
func TestR4SettleWaitsForTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNotifier()
		held := make(chan struct{})
		k.workers.Go(func() { deliver(k, k.names, func(nameNotice) { <-held }) })
		k.mu.Lock()
		k.names[nameNotice{name: "f"}] = struct{}{}
		k.wake.Broadcast()
		k.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if k.Settle(ctx); !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Error("it did not wait for the notice")
		}
		go func() {
			time.Sleep(time.Minute)
			close(held)
		}()
		k.Settle(t.Context())
		k.mu.Lock()
		if !k.isQuiet() {
			t.Error("it ended before the notice was delivered")
		}
		k.mu.Unlock()
		k.stop()
	})
}
