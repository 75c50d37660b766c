package fs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/fs/tree"
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

// A node that is forgotten late takes none along that the kernel asked for meanwhile. It takes those along in whose
// place it was.
func TestForgettingKeepsLaterNodes(t *testing.T) {
	m := &mounted{notifier: newNotifier()}
	f, d := new(tree.File), new(tree.Dir)
	first, second := m.embedder(f).(*fileNode), m.embedder(f).(*fileNode)
	m.knowFile(first)
	m.knowFile(second)
	m.forgetFile(first)
	if len(m.files[f]) != 1 || m.files[f][0] != second {
		t.Errorf("%d nodes of the file are known", len(m.files[f]))
	}
	m.knowFile(first)
	m.forgetFile(second)
	if len(m.files) != 0 {
		t.Error("the file is known for ever")
	}
	old, now := m.embedder(d).(*dirNode), m.embedder(d).(*dirNode)
	m.knowDir(now)
	if m.forgetDir(old); m.dirs[d] != now {
		t.Error("the folder is not known any more")
	}
}
