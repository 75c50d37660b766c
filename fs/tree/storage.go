package tree

import (
	"context"
	"math"
	"time"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/sdk"
)

// storageAge is how old the answer of statfs may be before the service is asked again.
const storageAge = 10 * time.Second

// storageWait is how long statfs waits for the service. After a service has not answered
// in this time, no program waits again before storageAge is over.
const storageWait = 250 * time.Millisecond

// room is the last answer of the service about the space for files: of a group, or under ""
// of the account. By Tree.mu.
type room struct {
	known   bool
	said    sdk.Storage
	askedAt time.Time
	asking  *look.Asking
}

// roomOf returns the room that is known for a group, or else for the account. When the
// answer is old, the service is asked in the background.
func (t *Tree) roomOf(g sdk.GroupID) (said sdk.Storage, known bool) {
	if t.cfg.Storage == nil {
		return said, false
	}
	if a := t.askRoom(g); a != nil {
		select {
		case <-a.Done:
		case <-time.After(storageWait):
		}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, name := range []sdk.GroupID{g, ""} {
		if r := t.rooms[name]; r != nil && r.known {
			return r.said, true
		}
	}
	return said, false
}

// askRoom asks the service if that is due, else it returns nil. An answer that fails
// changes nothing.
func (t *Tree) askRoom(g sdk.GroupID) *look.Asking {
	t.mu.Lock()
	r := t.rooms[g]
	if r == nil {
		r = &room{}
		t.rooms[g] = r
	}
	due := t.now().Sub(r.askedAt) >= storageAge && t.life.Err() == nil && t.look.Reached()
	if due {
		r.askedAt = t.now()
	}
	t.mu.Unlock()
	if !due {
		return nil
	}
	return t.look.Begin(&r.asking, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, t.cfg.MetadataTimeout)
		defer cancel()
		said, err := t.cfg.Storage(ctx, g)
		t.mu.Lock()
		defer t.mu.Unlock()
		if err == nil {
			r.said, r.known = said, true
		}
		return err
	}, nil)
}

// StatFS is the answer to statfs.
type StatFS struct{ TotalBytes, FreeBytes, Files, FreeFiles int64 }

// shownCapacity is the size that a mount claims where the service states none:
// copying programs do not start when they see less room than they need.
const shownCapacity int64 = 1 << 40

// StatFS answers from memory, for a node: the bytes that its group stores and may still
// store, in the root those of the account. What programs wrote and the service does not have is
// not free any more. Free is never above total (A3).
func (t *Tree) StatFS(n Node) StatFS {
	t.mu.RLock()
	var s StatFS
	var used int64
	for _, g := range t.groups {
		s.Files += int64(g.view.Len() + len(g.waiting))
		for _, e := range g.waiting {
			used += max(e.Size, 0)
		}
		for e := range g.view.All() {
			used += max(e.Size, 0)
		}
	}
	g := groupOf(n)
	t.mu.RUnlock()
	s.FreeFiles = 1 << 30
	said, known := t.roomOf(g)
	if !known || said.Left < 0 {
		used = max(used, said.Bytes)
		s.TotalBytes = max(shownCapacity, 2*min(used, math.MaxInt64/2))
		s.FreeBytes = max(0, s.TotalBytes-used)
		return s
	}
	s.FreeBytes = max(0, min(said.Left, math.MaxInt64/2)-t.unstored(g))
	s.TotalBytes = min(said.Left, math.MaxInt64/2) + min(said.Bytes, math.MaxInt64/2)
	return s
}

// unstored returns the bytes that programs wrote and the service does not have, in a group or
// with "" in all.
func (t *Tree) unstored(g sdk.GroupID) (sum int64) {
	for _, f := range t.stagedFiles() {
		if !f.isKind(fileReal) || g != "" && f.groupNow().id != g {
			continue
		}
		f.mu.Lock()
		if f.stage != nil && !f.now.Is(content.Copied) {
			sum += f.stage.Unstored()
		}
		f.mu.Unlock()
	}
	return sum
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
