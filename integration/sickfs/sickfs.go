// Package sickfs is a disk for tests that answers EIO to reads behind a place, once it is sick.
package sickfs

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/svcfs/svcfs/integration/proctest"
)

// Disk is a folder on such a disk.
type Disk struct {
	dir  string
	sick atomic.Int64
}

// New mounts a disk that is well, until the end of the test.
func New(t *testing.T) *Disk {
	t.Helper()
	proctest.Need(t, "mount")
	d := &Disk{dir: t.TempDir()}
	root, err := fs.NewLoopbackRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	top := &node{LoopbackNode: root.(*fs.LoopbackNode), disk: d}
	top.RootData.RootNode = top
	server, err := fs.Mount(d.dir, top, &fs.Options{MountOptions: fuse.MountOptions{FsName: "sick", DirectMount: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Dir is the folder.
func (d *Disk) Dir() string { return d.dir }

// Sicken has the disk fail for all bytes of a file behind a place; 0 = it is well.
func (d *Disk) Sicken(behind int64) { d.sick.Store(behind) }

type node struct {
	*fs.LoopbackNode
	disk *Disk
}

// WrapChild makes every file one of the disk.
func (n *node) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{LoopbackNode: ops.(*fs.LoopbackNode), disk: n.disk}
}

type file struct {
	fs.FileHandle
	disk *Disk
}

func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h, _, errno := n.LoopbackNode.Open(ctx, flags)
	return &file{h, n.disk}, fuse.FOPEN_DIRECT_IO, errno
}

func (f *file) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if at := f.disk.sick.Load(); at > 0 && off+int64(len(dest)) > at {
		if off >= at {
			return nil, syscall.EIO
		}
		dest = dest[:at-off]
	}
	return f.FileHandle.(fs.FileReader).Read(ctx, dest, off)
}
