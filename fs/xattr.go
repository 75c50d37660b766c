package fs

import (
	"context"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

const (
	// xattrPrefix is the namespace of our own attributes (A2).
	xattrPrefix = "user.svcfs."
	// userPrefix is the namespace in which there are attributes at all.
	userPrefix = "user."
)

// Getxattr answers from memory.
func (n *fileNode) Getxattr(_ context.Context, attr string, dest []byte) (uint32, syscall.Errno) {
	if attr == aclName && n.m.lists() {
		return n.m.getACL(n.f.Attr(), dest)
	}
	if !strings.HasPrefix(attr, xattrPrefix) {
		return 0, noXattr(attr)
	}
	value, ok := n.f.Xattrs()[attr]
	if !ok {
		return 0, unix.ENODATA
	}
	return copyOut(dest, []byte(value))
}

// noXattr answers for an attribute that is never there. Programs ask every file
// for security labels, capabilities and ACLs. A program such as ls that gets "not
// supported" asks no more on this device.
func noXattr(attr string) syscall.Errno {
	if strings.HasPrefix(attr, userPrefix) {
		return unix.ENODATA
	}
	return unix.EOPNOTSUPP
}

// Listxattr names our own attributes.
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

// Setxattr succeeds without effect, as copying tools expect (W10): they also set
// the attributes that they found on a file of a mount. It refuses what gives rights to
// somebody.
func (n *node) Setxattr(_ context.Context, attr string, value []byte, _ uint32) syscall.Errno {
	if err := n.shows.Changeable("set attribute"); err != nil {
		return errno(err)
	}
	if n.m.grants(attr, value) {
		return unix.EOPNOTSUPP
	}
	return 0
}

// grants reports an attribute that gives rights to somebody and is not kept: an access
// list, or the capabilities of a program.
func (m *mounted) grants(attr string, value []byte) bool {
	switch attr {
	case "security.capability", "system.posix_acl_default":
		return true
	case aclName:
		return !m.lists() || !m.isOwnList(value)
	default:
		return false
	}
}

// Removexattr succeeds without effect (W10).
func (n *node) Removexattr(context.Context, string) syscall.Errno {
	return errno(n.shows.Changeable("remove attribute"))
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
