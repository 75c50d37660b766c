package fs

import (
	"context"
	"encoding/binary"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// Files of other accounts belong to Options.ForeignUID (A5), and yet the mounting
// user reads, writes and renames them. Without AllowOther there is no other user, and
// the kernel leaves the question to this package. With it the kernel decides by mode and by
// an access list (acl(5)), which names the mounting user: a list, because the
// group's bits would let everybody of the group in.

// nobody is the user that by convention owns nothing and runs little.
const nobody = 65534

// defaultForeignUID is nobody, or the number before for a mount by nobody.
func defaultForeignUID(mounting uint32) uint32 {
	if mounting == nobody {
		return nobody - 1
	}
	return nobody
}

// isForeign reports whether another user than the mounting one is shown as owner.
func (m *mounted) isForeign(a tree.Attr) bool { return a.Foreign && !m.opt.OwnAll }

func (m *mounted) owner(a tree.Attr) fuse.Owner {
	if m.isForeign(a) {
		return fuse.Owner{Uid: m.opt.ForeignUID, Gid: m.opt.GID}
	}
	return fuse.Owner{Uid: m.opt.UID, Gid: m.opt.GID}
}

// Access answers access(2) and chdir(2) where the kernel does not check. Then there is
// only the mounting user, for whom the owner's bits count, also at files that show another
// owner; and root, which reads and writes all, and runs a file that any user may run.
func (n *node) Access(ctx context.Context, mask uint32) syscall.Errno {
	return n.m.access(ctx, n.shows.Attr(), mask)
}

func (m *mounted) access(ctx context.Context, a tree.Attr, mask uint32) syscall.Errno {
	mode := m.mode(a)
	may := mode >> 6
	if caller, ok := fuse.FromContext(ctx); ok && caller.Uid == 0 {
		may = toRead | toWrite
		if a.Dir || mode&anyRun != 0 {
			may |= toRun
		}
	}
	if mask &= rwx; may&mask != mask {
		return unix.EACCES
	}
	return 0
}

// isStranger reports whether a process runs as the owner that is shown of other
// accounts' files, and asks for more than others may have. To the kernel that user is the
// owner; here it has no right of its own. want is in bits of others.
func (m *mounted) isStranger(ctx context.Context, a tree.Attr, want uint32) bool {
	caller, ok := fuse.FromContext(ctx)
	mayAll := !(a.Link && want == asOwner) // a link has the mode 0777
	return ok && m.listed(a) && caller.Uid == m.opt.ForeignUID && !(mayAll && m.mode(a)&want == want)
}

// Permissions in bits of others.
const (
	toRead  = 0o4
	toWrite = 0o2
	toRun   = 0o1
	rwx     = toRead | toWrite | toRun
	anyRun  = 0o111    // of owner, group and others
	asOwner = permBits // to chmod and chown; no umask leaves others so much
)

// toOpen returns the permissions that opening a file takes.
func toOpen(flags tree.OpenFlags) (bits uint32) {
	if flags.Read {
		bits |= toRead
	}
	if flags.Write || flags.Truncate {
		bits |= toWrite
	}
	return bits
}

// lists reports whether the kernel asks for access lists.
func (m *mounted) lists() bool { return m.opt.AllowOther && !m.opt.OwnAll }

// listed reports whether an access list goes with the mode.
func (m *mounted) listed(a tree.Attr) bool { return m.lists() && a.Foreign }

// aclName is the attribute in which the kernel looks for an access list.
const aclName = "system.posix_acl_access"

// Tags of acl(5), in the order in which a list has them.
const (
	aclVersion  = 2
	aclUserObj  = 0x01
	aclUser     = 0x02
	aclGroupObj = 0x04
	aclMask     = 0x10
	aclOther    = 0x20
	aclNoID     = 0xffffffff
)

// acl gives the mounting user the owner's permissions.
func (m *mounted) acl(a tree.Attr) []byte {
	perm := m.perm(a)
	owner := perm >> 6 & rwx
	list := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range []struct{ tag, perm, id uint32 }{
		{aclUserObj, owner, aclNoID}, {aclUser, owner, m.opt.UID}, {aclGroupObj, perm >> 3 & rwx, aclNoID},
		{aclMask, m.mode(a) >> 3 & rwx, aclNoID}, {aclOther, perm & rwx, aclNoID},
	} {
		list = binary.LittleEndian.AppendUint16(list, uint16(e.tag))
		list = binary.LittleEndian.AppendUint16(list, uint16(e.perm))
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	return list
}

// isOwnList reports a list as [mounted.acl] makes them, for whatever mode: copying tools
// set what they found on another file of the mount.
func (m *mounted) isOwnList(list []byte) bool {
	const head, entry = 4, 8
	if len(list) < head {
		return false
	}
	for list = list[head:]; len(list) >= entry; list = list[entry:] {
		switch binary.LittleEndian.Uint16(list) {
		case aclUserObj, aclGroupObj, aclMask, aclOther:
		case aclUser:
			if binary.LittleEndian.Uint32(list[4:]) != m.opt.UID {
				return false
			}
		default: // a group
			return false
		}
	}
	return len(list) == 0
}

// getACL answers for the access list.
func (m *mounted) getACL(a tree.Attr, dest []byte) (uint32, syscall.Errno) {
	if !m.listed(a) || a.Link {
		return 0, unix.ENODATA
	}
	return copyOut(dest, m.acl(a))
}
