package fs

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// node is what directories and files have in common.
type node struct {
	gofs.Inode
	m     *mounted
	shows tree.Node
	made  uint64 // counts the nodes: a later one took the place of those of the same inode
}

// dirNode shows a directory of the tree to the kernel.
type dirNode struct {
	node
	d *tree.Dir
}

// fileNode shows a file of the tree to the kernel. Committed content never
// changes under it: a newer upload of the name from elsewhere is another node.
type fileNode struct {
	node
	f    *tree.File
	size sync.Once // the kernel was told of it: see tellSize
}

// fileHandle is an open file.
type fileHandle struct {
	h      *tree.Handle
	opener uint32 // process that opened it for writing; 0 = read-only or unknown

	outside *Outside
}

// newHandle remembers the process that opened the file if it can be written through h. The thread may end before.
func (m *mounted) newHandle(h *tree.Handle, flags tree.OpenFlags) *fileHandle {
	fh := &fileHandle{h: h, outside: m.opt.Outside}
	if flags.Write && flags.Caller.Process != nil {
		fh.opener = flags.Caller.Process()
	}
	return fh
}

// embedder makes the kernel side of a node of the tree. go-fuse recognises by inode number and
// generation that it knows the node, once it has the answer, and then uses the old one.
func (m *mounted) embedder(n tree.Node) gofs.InodeEmbedder {
	made := m.nodes.Add(1)
	if d, ok := n.(*tree.Dir); ok {
		return &dirNode{node: node{m: m, shows: d, made: made}, d: d}
	}
	return &fileNode{node: node{m: m, shows: n, made: made}, f: n.(*tree.File)}
}

// child makes the kernel's inode for a node of the tree and fills out.
func (n *dirNode) child(ctx context.Context, node tree.Node, out *fuse.EntryOut) *gofs.Inode {
	attr := node.Attr()
	inode := n.NewInode(ctx, n.m.embedder(node), stable(attr))
	if d, ok := inode.Operations().(*dirNode); ok {
		n.m.meetDir(d) // before its owner is read, so that a change is not missed
		attr = node.Attr()
	}
	n.m.fillEntry(attr, out)
	return inode
}

func stable(attr tree.Attr) gofs.StableAttr {
	mode := uint32(fuse.S_IFREG)
	switch {
	case attr.Dir:
		mode = fuse.S_IFDIR
	case attr.Link:
		mode = fuse.S_IFLNK
	}
	return gofs.StableAttr{Mode: mode, Ino: attr.Ino, Gen: attr.Gen}
}

// OnForget ends notifications: the kernel has forgotten the inode.
func (n *dirNode) OnForget() { n.m.forgetDir(n) }

// OnForget ends notifications: the kernel has forgotten the inode and its pages.
func (n *fileNode) OnForget() { n.m.forgetFile(n) }

// refuse notes a refusal that this package decides and returns its errno (E1).
func (m *mounted) refuse(class tree.Class, op, path, text, hint string) syscall.Errno {
	m.tree.Note(&tree.Error{Class: class, Op: op, Path: path, Err: errors.New(text), Hint: hint})
	return errnoOf(class)
}

// path returns the place of name in the directory, below the mount.
func (n *dirNode) path(name string) string {
	return strings.TrimSuffix(n.d.Path(), "/") + "/" + name
}

// openFlags translates the flags of open(2).
func (m *mounted) openFlags(ctx context.Context, flags uint32) tree.OpenFlags {
	access := flags & unix.O_ACCMODE
	of := tree.OpenFlags{Read: access != unix.O_WRONLY, Write: access != unix.O_RDONLY,
		Append: flags&unix.O_APPEND != 0, Truncate: flags&unix.O_TRUNC != 0, NoAtime: flags&unix.O_NOATIME != 0,
		NoWait: flags&unix.O_NONBLOCK != 0}
	if caller, ok := fuse.FromContext(ctx); ok {
		of.Caller = tree.Caller{PID: caller.Pid, Name: sync.OnceValue(func() string { return programName(caller.Pid) }),
			Process: sync.OnceValue(func() uint32 { return m.processes.of(caller.Pid) }),
			Thread:  func() string { return threadName(caller.Pid) },
			Loaded:  func(library string) bool { return m.opt.Outside.hasLoaded(caller.Pid, library) }}
	}
	return of
}
