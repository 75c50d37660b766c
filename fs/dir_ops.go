package fs

import (
	"context"
	"sync"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// Lookup finds a name. Free.
func (n *dirNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	then, tells := n.asks(ctx, name)
	if then != nil {
		return n.lookupToTell(ctx, then, out)
	}
	ctx, done := patiently(ctx)
	defer done()
	n.m.knowDir(n)
	node, err := n.d.Lookup(ctx, name)
	if err != nil {
		return nil, errno(err)
	}
	if !node.Attr().Control && !tells {
		n.m.use()
	}
	return n.child(ctx, node, out), 0
}

// OpendirHandle takes a snapshot of the names. Free.
func (n *dirNode) OpendirHandle(ctx context.Context, _ uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	n.m.knowDir(n)
	attr := n.d.Attr()
	if n.m.isStranger(ctx, attr, toRead) {
		return nil, 0, unix.EACCES
	}
	if !attr.Control {
		n.m.use()
	}
	h := &dirHandle{n: n}
	if no := h.snapshot(ctx); no != 0 {
		return nil, 0, no
	}
	return h, 0, 0
}

// dirHandle is an open directory: the names as they were at opendir or
// rewinddir, so that a listing neither repeats nor skips a name while others
// come and go.
type dirHandle struct {
	n *dirNode

	mu   sync.Mutex
	list []fuse.DirEntry
	next int
}

func (h *dirHandle) snapshot(ctx context.Context) syscall.Errno {
	ctx, done := patiently(ctx)
	defer done()
	entries, err := h.n.d.Entries(ctx)
	if err != nil {
		return errno(err)
	}
	list := make([]fuse.DirEntry, 0, len(entries)+2)
	list = append(list, fuse.DirEntry{Name: ".", Mode: fuse.S_IFDIR, Ino: h.n.StableAttr().Ino},
		fuse.DirEntry{Name: "..", Mode: fuse.S_IFDIR, Ino: h.n.parentIno()})
	for _, e := range entries {
		attr := stable(e.Node.Attr())
		list = append(list, fuse.DirEntry{Name: e.Name, Mode: attr.Mode, Ino: attr.Ino})
	}
	for i := range list {
		list[i].Off = uint64(i + 1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list, h.next = list, 0
	return 0
}

// parentIno is the inode number of "..". The root is its own parent: programs find the
// number of the directory beneath the mount without this process.
func (n *dirNode) parentIno() uint64 {
	if parent, _ := n.d.Parent(); parent != nil {
		return parent.Attr().Ino
	}
	return n.StableAttr().Ino
}

// Readdirent returns the next name, or nil at the end.
func (h *dirHandle) Readdirent(context.Context) (*fuse.DirEntry, syscall.Errno) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next >= len(h.list) {
		return nil, 0
	}
	e := h.list[h.next]
	h.next++
	return &e, 0
}

// seeking has every answer to a listing begin with [dirHandle.Seekdir]. go-fuse would else go on with names that
// it kept of the answer before, and loses some where that was of the other kind, with attributes or without.
type seeking struct{ fuse.RawFileSystem }

// seeks is set in the offset of what go-fuse is asked for: it differs from all that go-fuse knows then.
const seeks = 1 << 62

func (s seeking) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	from := *in
	from.Offset |= seeks
	return s.RawFileSystem.ReadDir(cancel, &from, out)
}

func (s seeking) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	from := *in
	from.Offset |= seeks
	return s.RawFileSystem.ReadDirPlus(cancel, &from, out)
}

// Seekdir continues at an offset that Readdirent returned. 0 is rewinddir after some were read: it shows the names as
// they are now.
func (h *dirHandle) Seekdir(ctx context.Context, off uint64) syscall.Errno {
	off &^= seeks
	h.mu.Lock()
	rewinds := off == 0 && h.next > 0
	h.mu.Unlock()
	if rewinds {
		return h.snapshot(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if off > uint64(len(h.list)) {
		return unix.EINVAL
	}
	h.next = int(off)
	return 0
}

// Fsyncdir records the empty files that still wait (W5); all other names were
// recorded when the program closed the file.
func (h *dirHandle) Fsyncdir(ctx context.Context, _ uint32) syscall.Errno {
	ctx, done := patiently(ctx)
	defer done()
	return errno(h.n.d.Fsync(ctx))
}

// Create makes or opens a file for writing. Nothing is sent.
func (n *dirNode) Create(ctx context.Context, name string, flags uint32, mode uint32,
	out *fuse.EntryOut) (*gofs.Inode, gofs.FileHandle, uint32, syscall.Errno) {
	if then, tells := n.asks(ctx, name); tells {
		inode, no := n.makeToTell(ctx, then, out)
		return inode, toldHandle{}, fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH, no
	}
	if n.m.isStranger(ctx, n.d.Attr(), toWrite) {
		return nil, nil, 0, unix.EACCES
	}
	ctx, done := patiently(ctx)
	defer done()
	want := n.m.openFlags(ctx, flags)
	f, h, err := n.d.Create(ctx, name, flags&unix.O_EXCL != 0, want)
	if err != nil {
		return nil, nil, 0, errno(err)
	}
	f.SetFirstMode(mode & permBits)
	inode := n.child(ctx, f, out)
	if node, ok := inode.Operations().(*fileNode); ok {
		n.m.knowFile(node)
	}
	fh := n.m.newHandle(h, want)
	return inode, fh, n.m.openReply(fh, want), 0
}

// Mkdir makes a folder, or registers a group where that is allowed (N5).
func (n *dirNode) Mkdir(ctx context.Context, name string, mode uint32,
	out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if then, tells := n.asks(ctx, name); tells {
		return n.makeToTell(ctx, then, out)
	}
	if n.m.isStranger(ctx, n.d.Attr(), toWrite) {
		return nil, unix.EACCES
	}
	ctx, done := patiently(ctx)
	defer done()
	d, err := n.d.Mkdir(ctx, name)
	if err != nil {
		return nil, errno(err)
	}
	d.SetMode(mode & permBits)
	return n.child(ctx, d, out), 0
}

// Rmdir removes an empty folder of this mount.
func (n *dirNode) Rmdir(ctx context.Context, name string) syscall.Errno {
	if then, tells := n.asks(ctx, name); tells {
		return removeToTell(then)
	}
	if n.m.isStranger(ctx, n.d.Attr(), toWrite) {
		return unix.EACCES
	}
	ctx, done := patiently(ctx)
	defer done()
	return errno(n.d.Rmdir(ctx, name))
}

// Unlink removes a file, or puts an uploaded one into the trash (W9).
func (n *dirNode) Unlink(ctx context.Context, name string) syscall.Errno {
	if then, tells := n.asks(ctx, name); tells {
		return removeToTell(then)
	}
	if n.m.isStranger(ctx, n.d.Attr(), toWrite) {
		return unix.EACCES
	}
	ctx, done := patiently(ctx)
	defer done()
	return errno(n.d.Unlink(ctx, name))
}

// Rename moves a name; see [tree.Dir.Rename]. Two names cannot be exchanged in
// one step: the service records one upload at a time.
func (n *dirNode) Rename(ctx context.Context, name string, newParent gofs.InodeEmbedder, newName string,
	flags uint32) syscall.Errno {
	ctx, done := patiently(ctx)
	defer done()
	if flags&^unix.RENAME_NOREPLACE != 0 {
		return n.m.refuse(tree.ClassInvalid, "rename", n.path(name),
			"only plain renames and those that replace nothing are supported", "Rename in several steps.")
	}
	to, ok := newParent.EmbeddedInode().Operations().(*dirNode)
	if !ok {
		return unix.ENOTDIR
	}
	if n.m.isStranger(ctx, n.d.Attr(), toWrite) || n.m.isStranger(ctx, to.d.Attr(), toWrite) {
		return unix.EACCES
	}
	child := n.GetChild(name)
	err := n.d.Rename(ctx, name, to.d, newName, flags&unix.RENAME_NOREPLACE != 0)
	if err == nil && child != nil {
		n.m.renamed(child, to, newName)
	}
	return errno(err)
}

// Link gives a file a second name where the tree allows it (N5).
func (n *dirNode) Link(ctx context.Context, target gofs.InodeEmbedder, name string,
	out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	node, ok := target.EmbeddedInode().Operations().(*fileNode)
	if !ok {
		return nil, unix.EPERM
	}
	if n.m.isStranger(ctx, n.d.Attr(), toWrite) {
		return nil, unix.EACCES
	}
	ctx, done := patiently(ctx)
	defer done()
	if err := n.d.Link(ctx, node.f, name); err != nil {
		return nil, errno(err)
	}
	n.m.fillEntry(node.f.Attr(), out)
	return node.EmbeddedInode(), 0
}

// copyHint is the next step after a refused special file.
const copyHint = "Copy the file that is meant, for example with: cp -L"

// Symlink makes a symbolic link where the service records links (N6).
func (n *dirNode) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if then, tells := n.asks(ctx, name); tells {
		return n.makeToTell(ctx, then, out)
	}
	if n.m.isStranger(ctx, n.d.Attr(), toWrite) {
		return nil, unix.EACCES
	}
	ctx, done := patiently(ctx)
	defer done()
	f, err := n.d.Symlink(ctx, target, name)
	if err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, f, out), 0
}

// Readlink answers from memory. The kernel asks every time, so that a link of another
// account ends at once where it has become unsafe (N6).
func (n *fileNode) Readlink(context.Context) ([]byte, syscall.Errno) {
	target, err := n.f.Readlink()
	return []byte(target), errno(err)
}

// Mknod makes an empty regular file, as tar does before it sets attributes. Device
// nodes, pipes and sockets are refused at once (N5).
func (n *dirNode) Mknod(ctx context.Context, name string, mode, _ uint32,
	out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if kind := mode & unix.S_IFMT; kind != unix.S_IFREG && kind != 0 {
		return nil, n.m.refuse(tree.ClassByDesign, "mknod", n.path(name),
			"the ledger holds files, not devices, pipes or sockets", copyHint)
	}
	inode, handle, _, no := n.Create(ctx, name, unix.O_WRONLY|unix.O_EXCL, mode, out)
	if no != 0 {
		return nil, no
	}
	fh := handle.(*fileHandle)
	no = fh.Flush(ctx) // it is empty, and waits (W5)
	_ = fh.Release(ctx)
	return inode, no
}
