package fs

import (
	"context"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree"
)

// Getxattr answers from memory.
func (n *fileNode) Getxattr(ctx context.Context, attr string, dest []byte) (uint32, syscall.Errno) {
	if attr == aclName && n.m.lists() {
		return n.m.getACL(n.f.Attr(), dest)
	}
	if strings.HasPrefix(attr, format.AttributePrefix) && n.m.isStranger(ctx, n.f.Attr(), toRead) {
		return 0, unix.EACCES
	}
	if value, ok := n.f.Xattr(attr); ok {
		return copyOut(dest, []byte(value))
	}
	if !strings.HasPrefix(attr, format.ReservedPrefix) {
		return 0, noXattr(attr)
	}
	value, ok := n.f.OwnXattrs()[attr]
	if !ok {
		return 0, unix.ENODATA
	}
	return copyOut(dest, []byte(value))
}

// noXattr answers for an attribute that is never there. Programs ask every file
// for security labels, capabilities and ACLs. A program such as ls that gets "not
// supported" asks no more on this device.
func noXattr(attr string) syscall.Errno {
	if strings.HasPrefix(attr, format.AttributePrefix) {
		return unix.ENODATA
	}
	return unix.EOPNOTSUPP
}

// Listxattr names our own attributes, and those that programs set.
func (n *fileNode) Listxattr(ctx context.Context, dest []byte) (uint32, syscall.Errno) {
	if caller, ok := fuse.FromContext(ctx); ok {
		n.f.AttributesAsked(caller.Pid)
	}
	if n.f.IsLink() {
		return 0, 0 // as on Linux: links have none of the namespace user
	}
	var list []byte
	for _, name := range slices.Sorted(maps.Keys(n.f.Xattrs())) {
		list = append(append(list, name...), 0)
	}
	return copyOut(dest, list)
}

// copyOut follows the protocol of xattr calls: too little room answers ERANGE
// with the size that is needed. go-fuse returns the size to a caller without room.
func copyOut(dest, value []byte) (uint32, syscall.Errno) {
	if len(dest) < len(value) {
		return uint32(len(value)), unix.ERANGE
	}
	return uint32(copy(dest, value)), 0
}

// Setxattr refuses all that nothing would keep (W10): access lists, capabilities, labels,
// and the attributes of directories. An access list that the mount itself shows (A5) changes nothing.
func (n *node) Setxattr(_ context.Context, attr string, value []byte, _ uint32) syscall.Errno {
	if err := n.shows.Changeable("set attribute"); err != nil {
		return errno(err)
	}
	if attr == aclName && n.m.lists() && n.m.isOwnList(value) {
		return 0
	}
	return unix.EOPNOTSUPP
}

// Setxattr keeps attributes of the namespace user (W16).
func (n *fileNode) Setxattr(ctx context.Context, attr string, value []byte, flags uint32) syscall.Errno {
	if !strings.HasPrefix(attr, format.AttributePrefix) {
		return n.node.Setxattr(ctx, attr, value, flags)
	}
	if n.m.isStranger(ctx, n.f.Attr(), toWrite) {
		return unix.EACCES
	}
	how := tree.XattrSet
	switch flags {
	case unix.XATTR_CREATE:
		how = tree.XattrCreate
	case unix.XATTR_REPLACE:
		how = tree.XattrReplace
	}
	return errno(n.f.SetXattr(attr, string(value), how))
}

// Removexattr succeeds outside the namespace user: there is none, or it is an access list,
// which follows from the mode.
func (n *node) Removexattr(_ context.Context, attr string) syscall.Errno {
	if err := n.shows.Changeable("remove attribute"); err != nil {
		return errno(err)
	}
	if strings.HasPrefix(attr, format.AttributePrefix) && !strings.HasPrefix(attr, format.ReservedPrefix) {
		return unix.ENODATA
	}
	return 0
}

// Removexattr removes attributes of the namespace user. Those that the mount makes stay: rsync
// -X wants all to go that the original lacks.
func (n *fileNode) Removexattr(ctx context.Context, attr string) syscall.Errno {
	if !strings.HasPrefix(attr, format.AttributePrefix) || strings.HasPrefix(attr, format.ReservedPrefix) {
		return n.node.Removexattr(ctx, attr)
	}
	if n.m.isStranger(ctx, n.f.Attr(), toWrite) {
		return unix.EACCES
	}
	return errno(n.f.RemoveXattr(attr))
}

// Getxattr: directories have none but an access list, and where looking at the
// ledger costs, its price (A2).
func (n *dirNode) Getxattr(_ context.Context, attr string, dest []byte) (uint32, syscall.Errno) {
	if attr == aclName && n.m.lists() {
		return n.m.getACL(n.d.Attr(), dest)
	}
	if price, ok := n.d.LookPrice(); ok && attr == tree.PriceAttribute {
		return copyOut(dest, []byte(price.Tokens()))
	}
	return 0, noXattr(attr)
}
