package fs

import (
	"context"
	"maps"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// xattrPrefix is the namespace of our own attributes (A2).
const xattrPrefix = "user.svcfs."

// Getxattr answers from memory.
func (n *fileNode) Getxattr(_ context.Context, attr string, dest []byte) (uint32, syscall.Errno) {
	if !strings.HasPrefix(attr, xattrPrefix) {
		return 0, unix.ENODATA // programs ask for security and ACL names all the time
	}
	value, ok := n.f.Xattrs()[attr]
	if !ok {
		return 0, unix.ENODATA
	}
	return copyOut(dest, []byte(value))
}

// Listxattr names our own attributes.
func (n *fileNode) Listxattr(_ context.Context, dest []byte) (uint32, syscall.Errno) {
	var list []byte
	for _, name := range slices.Sorted(maps.Keys(n.f.Xattrs())) {
		list = append(append(list, name...), 0)
	}
	return copyOut(dest, list)
}

// copyOut follows the protocol of xattr calls: too little room answers ERANGE
// with the size that is needed; go-fuse tells the size to who asked with none.
func copyOut(dest, value []byte) (uint32, syscall.Errno) {
	if len(dest) < len(value) {
		return uint32(len(value)), unix.ERANGE
	}
	return uint32(copy(dest, value)), 0
}

// Setxattr succeeds without effect, as copying tools expect (W10): they also set
// what they found on a file of ours.
func (n *fileNode) Setxattr(context.Context, string, []byte, uint32) syscall.Errno { return 0 }

// Removexattr succeeds without effect (W10).
func (n *fileNode) Removexattr(context.Context, string) syscall.Errno { return 0 }

// Getxattr: directories have none.
func (n *dirNode) Getxattr(context.Context, string, []byte) (uint32, syscall.Errno) {
	return 0, unix.ENODATA
}

// Setxattr succeeds without effect, as copying tools expect (W10).
func (n *dirNode) Setxattr(context.Context, string, []byte, uint32) syscall.Errno { return 0 }

// Removexattr succeeds without effect (W10).
func (n *dirNode) Removexattr(context.Context, string) syscall.Errno { return 0 }
