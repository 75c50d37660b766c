package tree

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

const (
	// watchedInterval is the time between looks at the ledger while the service announces
	// changes; after it, the mount has seen also a change whose event was lost.
	watchedInterval = 30 * time.Second
	// watchRestart is the time before a watch that ended is begun again.
	watchRestart = time.Minute
)

// watch applies the events of the service until the tree is closed. While there are none
// to have, poll does the work alone.
func (t *Tree) watch() {
	defer t.done.Done()
	for {
		if events, err := t.cfg.Watch(t.life, 0); err == nil {
			t.follow(events)
		}
		select {
		case <-t.life.Done():
			return
		case <-time.After(watchRestart):
		}
	}
}

// follow applies events until there are no more. It first lists the changes before them.
func (t *Tree) follow(events iter.Seq2[sdk.Event, error]) {
	t.noteReached(t.refresh(t.life))
	t.watched.Store(true)
	defer t.watched.Store(false)
	for e, err := range events {
		if err != nil {
			return // it ended; poll does the work until it is begun again
		}
		if err := t.applyEvent(t.life, e); err != nil {
			t.noteReached(err)
		}
	}
}

// applyEvent looks at the ledger where something happened.
func (t *Tree) applyEvent(ctx context.Context, e sdk.Event) error {
	switch e.Kind {
	case sdk.EventRegistered, sdk.EventAdded, sdk.EventJoined, sdk.EventRevoked, sdk.EventRole:
		if e.Account != t.remote.Account() {
			return nil
		}
		return t.refreshGroups(ctx)
	case sdk.EventAccepted, sdk.EventGroupDeleted:
		t.warnPending(e) // nothing waits any more
		return t.refreshGroups(ctx)
	case sdk.EventFolderRenamed, sdk.EventFolderMade, sdk.EventFolderRemoved, sdk.EventUploaded, sdk.EventDeleted,
		sdk.EventRenamed, sdk.EventRemoved, sdk.EventRestored, sdk.EventAttributes:
		t.mu.RLock()
		g := t.groups[e.Group]
		news := g != nil && g.loaded && !g.knows(e)
		t.mu.RUnlock()
		if !news || t.hasListed(ctx, g, e.Seq) {
			return nil
		}
		return t.refreshGroup(ctx, g, 0)
	case sdk.EventPending, sdk.EventKept:
		t.warnPending(e)
		return nil
	default:
		return nil
	}
}

// warnPending notes once that files of a group wait to be destroyed, until they are
// kept.
func (t *Tree) warnPending(e sdk.Event) {
	t.mu.Lock()
	g := t.groups[e.Group]
	warn := g != nil && !g.warned && e.Kind == sdk.EventPending
	if g != nil {
		g.warned = e.Kind == sdk.EventPending
	}
	t.mu.Unlock()
	if warn {
		_ = t.fail("destroy", g.dir.Path(), &Error{Class: ClassBusy,
			Err: errors.New(string(e.Account) + " asked to destroy files of this group; the service waits, and the " +
				"owner of the group can keep the files"),
			Hint: "List the files and their dates with: svcfs group pending GROUP"})
	}
}

// knows reports whether an event of a file is known already: most events are uploads of
// this mount. Needs Tree.mu.
func (g *group) knows(e sdk.Event) bool {
	known := g.view.Entry(e.Ref)
	return known != nil && known.ChangedSeq >= e.Seq
}

// hasListed reports whether g was listed up to a record already: one listing shows many
// uploads in a row.
func (t *Tree) hasListed(ctx context.Context, g *group, seq sdk.Seq) bool {
	if g.listing.enter(ctx) != nil {
		return false
	}
	defer g.listing.leave()
	return g.view.After() >= seq
}

// noteReached remembers whether the service answers. When the service is back, noteReached
// sends the content that waited.
func (t *Tree) noteReached(err error) {
	if was := t.reached.Swap(err == nil); was == (err == nil) || t.life.Err() != nil {
		return
	}
	t.log.Info("service reachable", "reachable", err == nil)
	if err == nil {
		t.queue.Again()
		t.retryPending(t.life)
	}
}
