package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
)

const rootIno = 1

// freeInode is inodeOf for a new file or folder, unless another had that number in this
// mount: a program may have it open still. Needs Tree.mu.
func (t *Tree) freeInode(path string, gen uint64) uint64 {
	ino := inodeOf(path)
	if _, given := t.given[ino]; given {
		ino = inodeOf(path + "\x00" + strconv.FormatUint(gen, 10))
	}
	return ino
}

// spend keeps the number of name in d from what gets that name after n. Other numbers come
// no second time. Needs Tree.mu.
func (d *Dir) spend(name string, n Node) {
	if ino := inodeOf(join(d.path(), name)); ino == inode(n) {
		d.t.given[ino] = struct{}{}
		d.t.held += givenBytes
	}
}

// unspend takes back spend for a file that nobody had open. Needs Tree.mu.
func (t *Tree) unspend(ino uint64) {
	if _, given := t.given[ino]; given {
		delete(t.given, ino)
		t.held -= givenBytes
	}
}

// inode returns the number of a file or folder.
func inode(n Node) uint64 {
	switch n := n.(type) {
	case *File:
		return n.ino
	case *Dir:
		return n.ino
	}
	return 0
}

// inodeOf gives a path the same inode number in every mount (A4). Nobody can choose a name
// that has the number of another: programs would take the two for one file.
func inodeOf(path string) uint64 {
	sum := sha256.Sum256([]byte(path))
	ino := binary.LittleEndian.Uint64(sum[:])
	if ino <= rootIno || ino == math.MaxUint64 { // the library's own
		ino = rootIno + 1
	}
	return ino
}

// NodeOf returns the file or folder with an inode number, and a name that it has; nil when
// no name shows one. It looks at every name of the mount.
func (t *Tree) NodeOf(ino uint64) Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.root.nodeOf(ino)
}

// nodeOf needs Tree.mu.
func (d *Dir) nodeOf(ino uint64) Node {
	if d.ino == ino {
		return d
	}
	for _, names := range []map[string]Node{d.children, d.hidden} {
		for _, n := range names {
			if beneath, ok := n.(*Dir); ok {
				if found := beneath.nodeOf(ino); found != nil {
					return found
				}
			} else if inode(n) == ino {
				return n
			}
		}
	}
	return nil
}
