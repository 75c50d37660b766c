package main

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/outbox/outboxtest"
)

// stepsOfATree is what a tree was told.
type stepsOfATree struct{ steps chan string }

func (s stepsOfATree) Told(i outbox.Item, _ sdk.Receipt) { s.steps <- i.State }
func (s stepsOfATree) AddWaiting()                       { s.steps <- "all" }

// The outbox sends while the mount is still being made.
func TestO7StepsBeforeThereIsATreeAreTold(t *testing.T) {
	m := &mountOutbox{settled: make(chan struct{})}
	early := make(chan struct{})
	go func() {
		m.told(outbox.Item{State: outbox.Conflict.String()}, sdk.Receipt{})
		close(early)
	}()
	select {
	case <-early:
		t.Error("a step was told to nobody")
	case <-time.After(50 * time.Millisecond): // a fault may pass here, and is found below
	}
	tree := stepsOfATree{make(chan string, 2)}
	m.attach(tree)
	<-early
	if got, want := []string{<-tree.steps, <-tree.steps},
		[]string{"all", outbox.Conflict.String()}; !slices.Equal(got, want) {
		t.Errorf("the tree was told %q, want %q", got, want)
	}
}

func TestOutboxOfAFailedMountEnds(t *testing.T) {
	o, err := outbox.New(filepath.Join(t.TempDir(), "outbox"), outbox.Config{Remote: &outboxtest.Service{}})
	ok(t, err)
	m := &mountOutbox{Outbox: o, settled: make(chan struct{})}
	early := make(chan struct{})
	go func() {
		m.told(outbox.Item{}, sdk.Receipt{})
		close(early)
	}()
	ok(t, m.end())
	<-early
}
