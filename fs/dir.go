package fs

import (
	"context"
	"syscall"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// dirNode shows a directory of the tree to the kernel.
type dirNode struct {
	gofs.Inode
	m *mounted
	d *tree.Dir
}

// child makes the kernel's inode for a node of the tree and fills out.
func (n *dirNode) child(ctx context.Context, node tree.Node, out *fuse.EntryOut) *gofs.Inode {
	attr := node.Attr()
	n.m.fill(attr, &out.Attr)
	return n.NewInode(ctx, n.m.embedder(node), stable(attr))
}

func stable(attr tree.Attr) gofs.StableAttr {
	mode := uint32(fuse.S_IFREG)
	if attr.Dir {
		mode = fuse.S_IFDIR
	}
	return gofs.StableAttr{Mode: mode, Ino: attr.Ino, Gen: attr.Gen}
}

// Lookup finds a name. Free.
func (n *dirNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	node, err := n.d.Lookup(ctx, name)
	if err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, node, out), 0
}

// Readdir lists the names as they are now. Free.
func (n *dirNode) Readdir(ctx context.Context) (gofs.DirStream, syscall.Errno) {
	entries, err := n.d.Entries(ctx)
	if err != nil {
		return nil, errno(err)
	}
	list := make([]fuse.DirEntry, 0, len(entries))
	for _, e := range entries {
		attr := e.Node.Attr()
		list = append(list, fuse.DirEntry{Name: e.Name, Mode: stable(attr).Mode, Ino: attr.Ino})
	}
	return gofs.NewListDirStream(list), 0
}

// Getattr answers from memory.
func (n *dirNode) Getattr(_ context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.m.fill(n.d.Attr(), &out.Attr)
	return 0
}

// Setattr keeps mode and times for this mount (W10).
func (n *dirNode) Setattr(_ context.Context, _ gofs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if !n.m.sameOwner(in) {
		return unix.EPERM
	}
	if mode, ok := in.GetMode(); ok {
		n.d.SetMode(mode & permBits)
	}
	if mtime, ok := in.GetMTime(); ok {
		n.d.SetTimes(mtime)
	}
	n.m.fill(n.d.Attr(), &out.Attr)
	return 0
}

// Create makes or opens a file for writing.
func (n *dirNode) Create(ctx context.Context, name string, flags uint32, mode uint32, out *fuse.EntryOut) (*gofs.Inode, gofs.FileHandle, uint32, syscall.Errno) {
	f, h, err := n.d.Create(ctx, name, flags&unix.O_EXCL != 0, openFlags(ctx, flags))
	if err != nil {
		return nil, nil, 0, errno(err)
	}
	if perm := mode & permBits; perm != n.m.filePerm() {
		f.SetMode(perm)
	}
	inode := n.child(ctx, f, out)
	return inode, n.m.opened(f, h, inode), openMode(h), 0
}

// Mkdir makes a folder, or registers a group where that is allowed (N5).
func (n *dirNode) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	d, err := n.d.Mkdir(ctx, name)
	if err != nil {
		return nil, errno(err)
	}
	return n.child(ctx, d, out), 0
}

// Rmdir removes an empty folder of this mount.
func (n *dirNode) Rmdir(ctx context.Context, name string) syscall.Errno {
	return errno(n.d.Rmdir(ctx, name))
}

// Unlink removes staged and scratch files (W9).
func (n *dirNode) Unlink(ctx context.Context, name string) syscall.Errno {
	return errno(n.d.Unlink(ctx, name))
}

// Rename moves a name; see [tree.Dir.Rename].
func (n *dirNode) Rename(ctx context.Context, name string, newParent gofs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := newParent.EmbeddedInode().Operations().(*dirNode)
	if !ok || flags&^unix.RENAME_NOREPLACE != 0 {
		return unix.EINVAL
	}
	return errno(n.d.Rename(ctx, name, to.d, newName, flags&unix.RENAME_NOREPLACE != 0))
}

// Link is refused by the tree.
func (n *dirNode) Link(ctx context.Context, target gofs.InodeEmbedder, name string, _ *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	f, ok := target.EmbeddedInode().Operations().(*fileNode)
	if !ok {
		return nil, unix.EPERM
	}
	if err := n.d.Link(ctx, f.f, name); err != nil {
		return nil, errno(err)
	}
	return nil, unix.EPERM
}

// Symlink is refused at once: the ledger has no links (N5).
func (n *dirNode) Symlink(_ context.Context, _, name string, _ *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	return nil, n.refuse("symlink", name, "the ledger holds files, not symbolic links")
}

// Mknod is refused at once: no device nodes, pipes or sockets (N5).
func (n *dirNode) Mknod(_ context.Context, name string, _, _ uint32, _ *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	return nil, n.refuse("mknod", name, "the ledger holds files, not devices, pipes or sockets")
}

type refusal string

func (r refusal) Error() string { return string(r) }

func (n *dirNode) refuse(op, name, text string) syscall.Errno {
	n.m.tree.Note(&tree.Error{Class: tree.ClassByDesign, Op: op, Path: n.d.Path() + "/" + name, Err: refusal(text), Hint: "Copy the file itself."})
	return unix.EPERM
}

// statfsBlock is the block size statfs shows, in bytes.
const statfsBlock = 4096

// Statfs answers from memory (A3).
func (n *dirNode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	s := n.m.tree.StatFS()
	out.Bsize, out.Frsize, out.NameLen = statfsBlock, statfsBlock, 255
	out.Blocks, out.Bfree = uint64(s.TotalBytes/statfsBlock), uint64(s.FreeBytes/statfsBlock)
	out.Bavail = out.Bfree
	out.Files, out.Ffree = uint64(s.Files+s.FreeFiles), uint64(s.FreeFiles)
	return 0
}

// Getxattr: directories have none.
func (n *dirNode) Getxattr(context.Context, string, []byte) (uint32, syscall.Errno) {
	return 0, unix.ENODATA
}

// Setxattr succeeds without effect, as copying tools expect (W10).
func (n *dirNode) Setxattr(_ context.Context, attr string, _ []byte, _ uint32) syscall.Errno {
	return ignoredXattr(attr)
}

// Removexattr succeeds without effect.
func (n *dirNode) Removexattr(_ context.Context, attr string) syscall.Errno {
	return ignoredXattr(attr)
}

// fill writes what stat shows.
func (m *mounted) fill(a tree.Attr, out *fuse.Attr) {
	out.Ino, out.Size, out.Blocks, out.Nlink = a.Ino, uint64(a.Size), uint64(a.Blocks), a.Nlink
	out.Owner = fuse.Owner{Uid: m.opt.UID, Gid: m.opt.GID}
	out.Mode, out.Blksize = m.mode(a), statfsBlock
	mtime, ctime := a.Mtime, a.Ctime
	if mtime.IsZero() {
		mtime, ctime = time.Unix(0, 0), time.Unix(0, 0)
	}
	out.SetTimes(&mtime, &mtime, &ctime)
}

const permBits = 0o777

func (m *mounted) filePerm() uint32 { return 0o666 &^ m.opt.Umask }

// mode returns type and permissions: 0600 and 0700 unless --umask or chmod says
// otherwise, without write bits where nothing can be written.
func (m *mounted) mode(a tree.Attr) uint32 {
	kind, perm := uint32(fuse.S_IFREG), m.filePerm()
	if a.Dir {
		kind, perm = fuse.S_IFDIR, permBits&^m.opt.Umask
	}
	if a.Mode != 0 {
		perm = a.Mode & permBits
	}
	if a.ReadOnly {
		perm &^= 0o222
	}
	return kind | perm
}

// sameOwner reports whether a chown changes nothing: there is one owner.
func (m *mounted) sameOwner(in *fuse.SetAttrIn) bool {
	uid, setsUID := in.GetUID()
	gid, setsGID := in.GetGID()
	return (!setsUID || uid == m.opt.UID) && (!setsGID || gid == m.opt.GID)
}
