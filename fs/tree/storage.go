package tree

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// storageAge is how old the answer of statfs may be before the service is asked again.
const storageAge = 10 * time.Second

// storageWait is how long statfs waits for that. A service that does not answer in
// this time makes nobody wait again before storageAge is over.
const storageWait = 250 * time.Millisecond

// storage remembers what the service said of the room for files, of the account
// under "" and of groups.
type storage struct {
	mu    sync.Mutex
	known map[sdk.GroupID]*room
}

type room struct {
	told  bool
	said  sdk.Storage
	asked time.Time
}

// roomOf is the room that is known for a group, or else for the account. The
// service is asked in the background when that is old.
func (t *Tree) roomOf(g sdk.GroupID) (said sdk.Storage, told bool) {
	if t.cfg.Storage == nil {
		return said, false
	}
	if answered := t.refreshRoom(g); answered != nil {
		select {
		case <-answered:
		case <-time.After(storageWait):
		}
	}
	t.storage.mu.Lock()
	defer t.storage.mu.Unlock()
	for _, name := range []sdk.GroupID{g, ""} {
		if r := t.storage.known[name]; r != nil && r.told {
			return r.said, true
		}
	}
	return said, false
}

// refreshRoom asks the service if that is due, and returns what is closed when it
// has answered, or nil.
func (t *Tree) refreshRoom(g sdk.GroupID) <-chan struct{} {
	t.storage.mu.Lock()
	defer t.storage.mu.Unlock()
	r := t.storage.known[g]
	if r == nil {
		r = &room{}
		t.storage.known[g] = r
	}
	if t.now().Sub(r.asked) < storageAge || t.life.Err() != nil || !t.reached.Load() {
		return nil
	}
	r.asked = t.now()
	answered := make(chan struct{})
	t.done.Go(func() { t.askRoom(g, r, answered) })
	return answered
}

// askRoom asks the service. What fails stays as it was.
func (t *Tree) askRoom(g sdk.GroupID, r *room, answered chan<- struct{}) {
	defer close(answered)
	ctx, cancel := context.WithTimeout(t.life, t.cfg.MetadataTimeout)
	defer cancel()
	said, err := t.cfg.Storage(ctx, g)
	t.storage.mu.Lock()
	defer t.storage.mu.Unlock()
	if err == nil {
		r.said, r.told = said, true
	}
}

// StatFS is what statfs shows.
type StatFS struct{ TotalBytes, FreeBytes, Files, FreeFiles int64 }

// shownCapacity is the size that a mount claims where the service states none:
// copy programs refuse to start when they see less than they need.
const shownCapacity int64 = 1 << 40

// StatFS answers from memory, for a node: what its group keeps and may still take,
// in the root the account; free is never above total (A3).
func (t *Tree) StatFS(n Node) StatFS {
	t.mu.RLock()
	var s StatFS
	var used int64
	for _, g := range t.groups {
		s.Files += int64(len(g.byRef))
		for _, e := range g.byRef {
			used += max(e.Size, 0)
		}
	}
	g := groupOf(n)
	t.mu.RUnlock()
	s.FreeFiles = 1 << 30
	said, told := t.roomOf(g)
	if !told || said.Left < 0 {
		used = max(used, said.Bytes)
		s.TotalBytes = max(shownCapacity, 2*min(used, math.MaxInt64/2))
		s.FreeBytes = max(0, s.TotalBytes-used)
		return s
	}
	s.FreeBytes = min(said.Left, math.MaxInt64/2)
	s.TotalBytes = s.FreeBytes + min(said.Bytes, math.MaxInt64/2)
	return s
}

// groupOf is the group of a node, "" for none. Needs Tree.mu.
func groupOf(n Node) sdk.GroupID {
	var g *group
	switch n := n.(type) {
	case *Dir:
		g = n.group
	case *File:
		g = n.group
	}
	if g == nil {
		return ""
	}
	return g.id
}
