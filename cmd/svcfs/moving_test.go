package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// M3: what is left at the end of a mount is uploaded as long as bytes move, and no longer.
func TestM3DrainGoesOnWhileBytesMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moved atomic.Int64
		began := time.Now()
		ctx, cancel := whileMoving(t.Context(), drainLimit, moved.Load)
		defer cancel()
		for range 100 {
			time.Sleep(drainLimit - 2*time.Second)
			moved.Add(1)
		}
		synctest.Wait()
		if ctx.Err() != nil {
			t.Errorf("given up after %s, in which bytes moved", time.Since(began))
		}
		stopped := time.Now()
		<-ctx.Done()
		if took := time.Since(stopped); took < drainLimit-time.Second || took > drainLimit+2*time.Second {
			t.Errorf("given up %s after the last byte", took)
		}
		gone, end := context.WithCancel(t.Context())
		ctx, cancel = whileMoving(gone, drainLimit, moved.Load)
		defer cancel()
		end()
		<-ctx.Done()
	})
}
