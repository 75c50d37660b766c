// Package powerfs is a file system for tests that loses its power. A [Disk] is mounted
// like any other; it keeps the files in memory and records every operation that a disk
// must make durable. [Disk.Lose] then writes what a disk may hold when the power goes
// behind any of them:
//
//   - What was synced is there. fsync and fdatasync make the content of a file durable,
//     and fsync of a folder makes the names in it durable: its own name is in the folder
//     above it.
//   - What was not synced is there, or not, or in part. Content comes in pages of 4 KiB,
//     in any order, and a page may be torn between sectors of 512 bytes. A file may have
//     its new length and zeros. Names come in any order, but one after another for one
//     name and one file. A rename is there or not: never both names, never none.
//
// That is what ext4 and XFS may do and POSIX allows; both are kinder in places. A program
// that is right here needs none of their kindness.
//
// A test loads a program with work, notes [Disk.Position] when the program has promised
// something, and later, for many positions, starts the program on what Lose writes: what
// was promised up to that position must be there.
//
//	disk := powerfs.New(t)
//	store := open(disk.Dir())
//	must(store.Save(item))
//	promised := disk.Position()
//	must(store.Close())
//	for position := promised; position <= disk.Position(); position++ {
//		dir := t.TempDir()
//		must(disk.Lose(position, seed, dir))
//		must(open(dir).Has(item))
//	}
//
// A seed and a position choose one state; the same pair chooses the same. Several seeds
// at one position are several losses of power at one moment. Seed 0 is the worst for
// promises: nothing is there that was not synced. Owners, modes and times are
// those of the end, and access lists and extended attributes are refused. The kernel does
// not tell a file system of this kind of syncfs and sync: they make nothing durable, and
// [Disk.SyncAll] stands for them.
package powerfs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/svcfs/svcfs/integration/proctest"
)

const (
	// believed is how long the kernel believes names and attributes: only it changes them.
	believed = time.Hour
	// maxWrite is the largest write that is one operation, in bytes.
	maxWrite = 1 << 20
	// blocks is the size of the disk, in pages, as statfs tells it.
	blocks = 1 << 26
	// maxName is the longest name, in bytes.
	maxName = 255
)

// Disk is a mounted file system that records. It is safe for concurrent use.
type Disk struct {
	dir string

	mu      sync.Mutex
	objects map[uint64]*object
	root    *object
	log     []op
}

// object is a file, a folder or a symbolic link as programs see it.
type object struct {
	id       uint64
	mode     uint32 // type and permissions
	links    uint32
	content  []byte             // of a file, or where a link points
	names    map[string]*object // of a folder
	modified time.Time
}

// New mounts an empty disk and takes it away with the test. Programs that use it must
// have ended before. It skips the test where nothing can be mounted.
func New(tb testing.TB) *Disk {
	tb.Helper()
	proctest.Need(tb, "mount")
	d := &Disk{dir: tb.TempDir(), objects: map[uint64]*object{}}
	d.root = d.add(syscall.S_IFDIR|0o700, nil)
	keep := believed
	server, err := fs.Mount(d.dir, &node{d: d, o: d.root}, &fs.Options{
		EntryTimeout: &keep, AttrTimeout: &keep, NullPermissions: true, UID: uint32(os.Geteuid()),
		GID: uint32(os.Getegid()), RootStableAttr: &fs.StableAttr{Ino: d.root.id},
		MountOptions: fuse.MountOptions{FsName: "powerfs", Name: "powerfs", DirectMount: true, MaxWrite: maxWrite},
	})
	if err != nil {
		tb.Fatalf("mount a disk that loses its power: %v", err)
	}
	tb.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			tb.Errorf("unmount the disk: %v", err)
			_ = errors.Join(exec.Command("umount", "-l", d.dir).Run())
		}
		// testing keeps what cleanups hold until the parent of the test ends: thousands of disks would fill the memory.
		server = nil
		d.locked(func() { d.objects, d.root, d.log = nil, nil, nil })
	})
	return d
}

// Dir is where the disk is mounted.
func (d *Disk) Dir() string { return d.dir }

// Position returns how many operations were recorded so far. What a program promised
// before the call must hold after each loss of power at this position or behind it.
func (d *Disk) Position() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

// SyncAll makes everything durable, as syncfs does on other file systems.
func (d *Disk) SyncAll() { d.locked(func() { d.record(op{kind: syncedAll}) }) }

func (d *Disk) locked(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// record is called with the lock, as are the functions below.
func (d *Disk) record(o op) { d.log = append(d.log, o) }

func (d *Disk) add(mode uint32, content []byte) *object {
	o := &object{id: uint64(len(d.objects) + 1), mode: mode, content: content, modified: time.Now()}
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		o.names, o.links = map[string]*object{}, 1
	}
	d.objects[o.id] = o
	return o
}

// name gives o a name in a folder.
func (d *Disk) name(folder *object, name string, o *object) {
	folder.names[name] = o
	o.links++
	d.record(op{kind: named, names: []change{{folder.id, name, o.id}}})
}

// node is what the kernel knows of an object.
type node struct {
	fs.Inode
	d *Disk
	o *object
}

var (
	_ = (fs.NodeLookuper)((*node)(nil))
	_ = (fs.NodeGetattrer)((*node)(nil))
	_ = (fs.NodeSetattrer)((*node)(nil))
	_ = (fs.NodeReaddirer)((*node)(nil))
	_ = (fs.NodeMkdirer)((*node)(nil))
	_ = (fs.NodeCreater)((*node)(nil))
	_ = (fs.NodeMknoder)((*node)(nil))
	_ = (fs.NodeSymlinker)((*node)(nil))
	_ = (fs.NodeReadlinker)((*node)(nil))
	_ = (fs.NodeLinker)((*node)(nil))
	_ = (fs.NodeUnlinker)((*node)(nil))
	_ = (fs.NodeRmdirer)((*node)(nil))
	_ = (fs.NodeRenamer)((*node)(nil))
	_ = (fs.NodeOpener)((*node)(nil))
	_ = (fs.NodeReader)((*node)(nil))
	_ = (fs.NodeWriter)((*node)(nil))
	_ = (fs.NodeAllocater)((*node)(nil))
	_ = (fs.NodeFsyncer)((*node)(nil))
	_ = (fs.NodeStatfser)((*node)(nil))
)

// child returns the kernel's node of an object, with its attributes.
func (n *node) child(ctx context.Context, o *object, out *fuse.EntryOut) *fs.Inode {
	o.describe(&out.Attr)
	return n.NewInode(ctx, &node{d: n.d, o: o}, fs.StableAttr{Mode: o.mode & syscall.S_IFMT, Ino: o.id})
}

func (o *object) describe(a *fuse.Attr) {
	a.Ino, a.Mode, a.Size, a.Nlink = o.id, o.mode, uint64(len(o.content)), o.links
	a.Blksize, a.Blocks = pageBytes, (a.Size+sectorBytes-1)/sectorBytes
	a.Uid, a.Gid = uint32(os.Geteuid()), uint32(os.Getegid())
	a.SetTimes(&o.modified, &o.modified, &o.modified)
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	o := n.o.names[name]
	if o == nil {
		return nil, syscall.ENOENT
	}
	return n.child(ctx, o, out), 0
}

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.d.locked(func() { n.o.describe(&out.Attr) })
	return 0
}

func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if mode, ok := in.GetMode(); ok {
		n.o.mode = n.o.mode&syscall.S_IFMT | mode&^syscall.S_IFMT
	}
	if size, ok := in.GetSize(); ok {
		o := op{kind: resized, file: n.o.id, size: int64(size)}
		n.o.content, n.o.modified = o.apply(n.o.content), time.Now()
		n.d.record(o)
	}
	if at, ok := in.GetMTime(); ok {
		n.o.modified = at
	}
	n.o.describe(&out.Attr)
	return 0
}

func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	var list []fuse.DirEntry
	for name, o := range n.o.names {
		list = append(list, fuse.DirEntry{Name: name, Mode: o.mode & syscall.S_IFMT, Ino: o.id})
	}
	return fs.NewListDirStream(list), 0
}

// make adds an object to the folder, unless the name is taken.
func (n *node) make(ctx context.Context, name string, mode uint32, content []byte, out *fuse.EntryOut) (*fs.Inode,
	syscall.Errno) {
	if len(name) > maxName {
		return nil, syscall.ENAMETOOLONG
	}
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if n.o.names[name] != nil {
		return nil, syscall.EEXIST
	}
	o := n.d.add(mode, content)
	n.d.name(n.o, name, o)
	return n.child(ctx, o, out), 0
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.make(ctx, name, syscall.S_IFDIR|mode, nil, out)
}

func (n *node) Create(ctx context.Context, name string, _ uint32, mode uint32, out *fuse.EntryOut) (*fs.Inode,
	fs.FileHandle, uint32, syscall.Errno) {
	child, errno := n.make(ctx, name, syscall.S_IFREG|mode, nil, out)
	return child, nil, fuse.FOPEN_KEEP_CACHE, errno
}

// Mknod makes sockets, which no loss of power leaves.
func (n *node) Mknod(ctx context.Context, name string, mode uint32, _ uint32, out *fuse.EntryOut) (*fs.Inode,
	syscall.Errno) {
	if mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return nil, syscall.EOPNOTSUPP
	}
	return n.make(ctx, name, mode, nil, out)
}

func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.make(ctx, name, syscall.S_IFLNK|0o777, []byte(target), out)
}

func (n *node) Readlink(context.Context) ([]byte, syscall.Errno) { return n.o.content, 0 }

func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode,
	syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if n.o.names[name] != nil {
		return nil, syscall.EEXIST
	}
	o := target.(*node).o
	n.d.name(n.o, name, o)
	return n.child(ctx, o, out), 0
}

func (n *node) Unlink(_ context.Context, name string) syscall.Errno { return n.remove(name, false) }

func (n *node) Rmdir(_ context.Context, name string) syscall.Errno { return n.remove(name, true) }

func (n *node) remove(name string, folder bool) syscall.Errno {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	o := n.o.names[name]
	switch {
	case o == nil:
		return syscall.ENOENT
	case folder && o.names == nil:
		return syscall.ENOTDIR
	case !folder && o.names != nil:
		return syscall.EISDIR
	case len(o.names) > 0:
		return syscall.ENOTEMPTY
	}
	delete(n.o.names, name)
	o.links--
	n.d.record(op{kind: named, names: []change{{n.o.id, name, 0}}})
	return 0
}

func (n *node) Rename(_ context.Context, name string, parent fs.InodeEmbedder, newName string,
	flags uint32) syscall.Errno {
	const noReplace, exchange = 1, 2 // RENAME_…, see rename(2)
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	to := parent.(*node).o
	o, old := n.o.names[name], to.names[newName]
	switch {
	case o == nil:
		return syscall.ENOENT
	case flags&^(noReplace|exchange) != 0:
		return syscall.EINVAL
	case old != nil && flags&noReplace != 0:
		return syscall.EEXIST
	case old == o:
		return 0
	case flags&exchange != 0:
		if old == nil {
			return syscall.ENOENT
		}
		n.o.names[name], to.names[newName] = old, o
		n.d.record(op{kind: named, names: []change{{n.o.id, name, old.id}, {to.id, newName, o.id}}})
		return 0
	case old != nil && len(old.names) > 0:
		return syscall.ENOTEMPTY
	case old != nil:
		old.links--
	}
	delete(n.o.names, name)
	to.names[newName] = o
	n.d.record(op{kind: named, names: []change{{n.o.id, name, 0}, {to.id, newName, o.id}}})
	return 0
}

func (n *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0 // the pages of a file that is mapped stay
}

func (n *node) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if off >= int64(len(n.o.content)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(dest[:copy(dest, n.o.content[off:])]), 0
}

func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	o := op{kind: written, file: n.o.id, off: off, data: append([]byte(nil), data...)}
	n.o.content, n.o.modified = o.apply(n.o.content), time.Now()
	n.d.record(o)
	return uint32(len(data)), 0
}

func (n *node) Allocate(_ context.Context, _ fs.FileHandle, off, size uint64, mode uint32) syscall.Errno {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if mode != 0 {
		return syscall.EOPNOTSUPP
	}
	o := op{kind: resized, file: n.o.id, size: max(int64(off+size), int64(len(n.o.content)))}
	n.o.content = o.apply(n.o.content)
	n.d.record(o)
	return 0
}

func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	n.d.locked(func() { n.d.record(op{kind: synced, file: n.o.id}) })
	return 0
}

func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Frsize, out.NameLen = pageBytes, pageBytes, maxName
	out.Blocks, out.Bfree, out.Bavail = blocks, blocks, blocks
	out.Files, out.Ffree = blocks, blocks
	return 0
}
