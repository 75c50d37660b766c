package tree

import "github.com/svcfs/svcfs/sdk"

// What names cost beside their uploads, in bytes, with their places in maps.
const (
	groupBytes   = 6 << 10 // a group without files, with its control directory
	nameBytes    = 800     // a name, and the file that shows it
	pastBytes    = 900     // its directories in history and trash, once somebody looked there
	versionBytes = 700     // a file there
	givenBytes   = 64      // an entry of Tree.given
)

func groupFootprint(id sdk.GroupID) int64 { return groupBytes + 4*int64(len(id)) }

// footprint returns about how much memory a name takes.
func (v *versions) footprint() int64 { return nameBytes + 2*int64(len(v.raw)) }

// hold needs Tree.mu.
func (g *group) hold(bytes int64) {
	if g.gone { // it was given back with the group
		return
	}
	g.held += bytes
	g.dir.t.held += bytes
}

// countHeld has the client count what is held. It counts too what this mount saved, whose
// records nobody may refuse. Needs Tree.mu.
func (t *Tree) countHeld() {
	now := t.held + t.texts.Load()
	_ = t.remote.HoldList(now - t.counted)
	t.counted = now
}

// roomFor refuses a listing for which there is no memory. The mount stays as it is.
func (t *Tree) roomFor(g *group, listed []sdk.Entry) error {
	need := int64(0)
	t.mu.RLock()
	for i := range listed {
		e := &listed[i]
		need += e.Footprint()
		if known := g.byRef[e.Ref]; known != nil {
			need -= known.Footprint()
		} else if g.names[recordedName(e)] == nil {
			need += nameBytes
		}
	}
	t.mu.RUnlock()
	if err := t.hasRoom(need); err != nil {
		return wrapRemote("list", g.dir.Path(), err)
	}
	return nil
}

// hasRoom returns an error if there is no memory for so many bytes. Whoever uses them counts them.
func (t *Tree) hasRoom(bytes int64) error {
	if bytes <= 0 {
		return nil
	}
	err := t.remote.HoldList(bytes)
	_ = t.remote.HoldList(-bytes)
	return err
}
