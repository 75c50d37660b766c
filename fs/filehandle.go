package fs

import (
	"context"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// LookupNode finds a file or folder by its inode number: a program has it in a handle of
// name_to_handle_at(2), also after the kernel forgot the file (R8). The kernel compares the
// generation.
func (n *dirNode) LookupNode(ctx context.Context, ino uint64, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	found := n.m.tree.NodeOf(ino)
	if found == nil {
		return nil, unix.ESTALE
	}
	return n.child(ctx, found, out), 0
}

// LookupParent finds the folder of a folder that was found by its number.
func (n *dirNode) LookupParent(ctx context.Context, out *fuse.EntryOut) (*gofs.Inode, string, syscall.Errno) {
	return n.m.parentOf(ctx, &n.node, out)
}

// LookupParent finds the folder of a file that was found by its number.
func (n *fileNode) LookupParent(ctx context.Context, out *fuse.EntryOut) (*gofs.Inode, string, syscall.Errno) {
	return n.m.parentOf(ctx, &n.node, out)
}

func (m *mounted) parentOf(ctx context.Context, n *node, out *fuse.EntryOut) (*gofs.Inode, string, syscall.Errno) {
	parent, name := n.shows.Parent()
	if parent == nil {
		return nil, "", unix.ESTALE
	}
	attr := parent.Attr()
	inode := n.NewInode(ctx, m.embedder(parent), stable(attr))
	if d, ok := inode.Operations().(*dirNode); ok {
		m.meetDir(d)
	}
	m.fillEntry(attr, out)
	return inode, name, 0
}

var (
	_ gofs.NodeLookupNoder    = (*dirNode)(nil)
	_ gofs.NodeLookupParenter = (*dirNode)(nil)
	_ gofs.NodeLookupParenter = (*fileNode)(nil)
	_ tree.Node               = (*tree.File)(nil)
)
