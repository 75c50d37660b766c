package main

import (
	"context"
	"errors"

	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// nameAnswer is a file system that does nothing but answer: what go-fuse and the kernel cost by themselves.
const nameAnswer = "go-fuse, from memory"

const answerTransfer = 1 << 20 // bytes, as svcfs has it

// answer keeps all content on the heap of its process. Between two mounts the content lies in tmpfs.
func (w *world) answer() ([]*system, error) {
	store := filepath.Join(w.shm, "answer")
	s := &system{name: nameAnswer, root: w.path("answer"), stored: []string{store},
		note: "the floor of a mount: go-fuse with content in memory; nothing is fetched, decrypted or kept"}
	s.fill = func() error { return w.writeTo(store) }
	s.mount = func(dir string) *exec.Cmd { return exec.Command(os.Args[0], "answer", store, dir) }
	return w.chosen(s), nil
}

// answerMain mounts what is in a folder, and brings it back to the folder after the unmount.
func answerMain(store, dir string) error {
	root := &answerDir{}
	second := time.Second
	server, err := fusefs.Mount(dir, root, &fusefs.Options{
		MountOptions: fuse.MountOptions{FsName: "answer", MaxWrite: answerTransfer, MaxReadAhead: answerTransfer,
			ExplicitDataCacheControl: true,
			ExtraCapabilities:        fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_READDIRPLUS_AUTO},
		EntryTimeout: &second, AttrTimeout: &second,
		OnAdd: func(ctx context.Context) { root.load(ctx, store) },
	})
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		_ = server.Unmount()
	}()
	server.Wait()
	return root.save(store)
}

type answerDir struct{ fusefs.Inode }

var _ = (fusefs.NodeCreater)((*answerDir)(nil))
var _ = (fusefs.NodeMkdirer)((*answerDir)(nil))
var _ = (fusefs.NodeSymlinker)((*answerDir)(nil))
var _ = (fusefs.NodeUnlinker)((*answerDir)(nil))
var _ = (fusefs.NodeRmdirer)((*answerDir)(nil))
var _ = (fusefs.NodeRenamer)((*answerDir)(nil))

func (d *answerDir) load(ctx context.Context, dir string) {
	list, _ := os.ReadDir(dir) // a folder that cannot be read is empty, and its steps fail
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			child := &answerDir{}
			d.AddChild(e.Name(), d.NewPersistentInode(ctx, child, fusefs.StableAttr{Mode: syscall.S_IFDIR}), true)
			child.load(ctx, path)
			continue
		}
		file := &answerFile{}
		data, _ := os.ReadFile(path)
		file.put(data, 0)
		d.AddChild(e.Name(), d.NewPersistentInode(ctx, file, fusefs.StableAttr{}), true)
	}
}

func (d *answerDir) save(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, child := range d.Children() {
		var err error
		switch n := child.Operations().(type) {
		case *answerDir:
			err = n.save(filepath.Join(dir, name))
		case *answerFile:
			err = n.store(filepath.Join(dir, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Create makes a file.
func (d *answerDir) Create(ctx context.Context, name string, _, _ uint32, _ *fuse.EntryOut) (*fusefs.Inode,
	fusefs.FileHandle, uint32, syscall.Errno) {
	return d.NewPersistentInode(ctx, &answerFile{}, fusefs.StableAttr{}), nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Mkdir makes a folder.
func (d *answerDir) Mkdir(ctx context.Context, _ string, _ uint32, _ *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	return d.NewPersistentInode(ctx, &answerDir{}, fusefs.StableAttr{Mode: syscall.S_IFDIR}), 0
}

// Symlink makes a link.
func (d *answerDir) Symlink(ctx context.Context, target, _ string, _ *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	return d.NewPersistentInode(ctx, &fusefs.MemSymlink{Data: []byte(target)},
		fusefs.StableAttr{Mode: syscall.S_IFLNK}), 0
}

// Unlink, Rmdir and Rename need no more than go-fuse does by itself.
func (d *answerDir) Unlink(context.Context, string) syscall.Errno { return 0 }

// Rmdir removes a folder.
func (d *answerDir) Rmdir(context.Context, string) syscall.Errno { return 0 }

// Rename moves a name.
func (d *answerDir) Rename(context.Context, string, fusefs.InodeEmbedder, string, uint32) syscall.Errno {
	return 0
}

// answerFile has its content in pieces, so that a growing file is never copied.
type answerFile struct {
	fusefs.Inode
	mu     sync.Mutex
	pieces [][]byte // of answerTransfer bytes each
	size   int64
}

var _ = (fusefs.NodeOpener)((*answerFile)(nil))
var _ = (fusefs.NodeReader)((*answerFile)(nil))
var _ = (fusefs.NodeWriter)((*answerFile)(nil))
var _ = (fusefs.NodeGetattrer)((*answerFile)(nil))
var _ = (fusefs.NodeSetattrer)((*answerFile)(nil))
var _ = (fusefs.NodeFlusher)((*answerFile)(nil))
var _ = (fusefs.NodeFsyncer)((*answerFile)(nil))

// Open keeps what the kernel has of the file.
func (f *answerFile) Open(context.Context, uint32) (fusefs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Read answers from memory; what lies in one piece is not copied.
func (f *answerFile) Read(_ context.Context, _ fusefs.FileHandle, dest []byte, off int64) (fuse.ReadResult,
	syscall.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(int64(len(dest)), max(0, f.size-off))
	if at := off % answerTransfer; n > 0 && at+n <= answerTransfer {
		return fuse.ReadResultData(f.pieces[off/answerTransfer][at : at+n]), 0
	}
	dest = dest[:n]
	for got := int64(0); got < n; {
		got += int64(copy(dest[got:], f.pieces[(off+got)/answerTransfer][(off+got)%answerTransfer:]))
	}
	return fuse.ReadResultData(dest), 0
}

func (f *answerFile) Write(_ context.Context, _ fusefs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(data, off)
	return uint32(len(data)), 0
}

func (f *answerFile) put(data []byte, off int64) {
	end := off + int64(len(data))
	for f.size = max(f.size, end); int64(len(f.pieces))*answerTransfer < f.size; {
		f.pieces = append(f.pieces, make([]byte, answerTransfer))
	}
	for len(data) > 0 {
		n := copy(f.pieces[off/answerTransfer][off%answerTransfer:], data)
		data, off = data[n:], off+int64(n)
	}
}

// store writes the content into a file.
func (f *answerFile) store(path string) error {
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	for i, piece := range f.pieces {
		if _, err = to.Write(piece[:max(0, min(answerTransfer, f.size-int64(i)*answerTransfer))]); err != nil {
			break
		}
	}
	return errors.Join(err, to.Close())
}

// Getattr answers with the size alone.
func (f *answerFile) Getattr(_ context.Context, _ fusefs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	out.Size = uint64(f.size)
	return 0
}

// Setattr takes a size.
func (f *answerFile) Setattr(_ context.Context, _ fusefs.FileHandle, in *fuse.SetAttrIn,
	out *fuse.AttrOut) syscall.Errno {
	f.mu.Lock()
	defer f.mu.Unlock()
	if size, ok := in.GetSize(); ok {
		f.put(nil, int64(size))
		f.size = int64(size)
	}
	out.Size = uint64(f.size)
	return 0
}

// Flush and Fsync have nothing to do.
func (f *answerFile) Flush(context.Context, fusefs.FileHandle) syscall.Errno { return 0 }

// Fsync has nothing to do.
func (f *answerFile) Fsync(context.Context, fusefs.FileHandle, uint32) syscall.Errno { return 0 }
