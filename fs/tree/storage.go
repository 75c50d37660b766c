package tree

import (
	"math"

	"github.com/svcfs/svcfs/sdk"
)

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
	said, known := t.look.Storage(g)
	if !known || said.Left < 0 {
		used = max(used, said.Bytes)
		s.TotalBytes = max(shownCapacity, 2*min(used, math.MaxInt64/2))
		s.FreeBytes = max(0, s.TotalBytes-used)
		return s
	}
	s.FreeBytes = max(0, min(said.Left, math.MaxInt64/2)-t.unrecorded.bytes(g))
	s.TotalBytes = min(said.Left, math.MaxInt64/2) + min(said.Bytes, math.MaxInt64/2)
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
