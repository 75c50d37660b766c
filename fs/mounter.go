package fs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

// MountFor limits a mounter: it mounts on one directory, once, for one user.
type MountFor struct {
	Dir              string
	UID, GID         uint32 // user and group whose processes may enter
	AllowOther       bool   // other users may be let in, also without user_allow_other in /etc/fuse.conf
	ReadOnly, NoExec bool   // set, also when the request does not ask for it
}

// mountRequest holds the options of a mount.
type mountRequest struct {
	Source                       string
	AllowOther, ReadOnly, NoExec bool
}

// Descriptors of a mounter's program, after the socket.
const (
	mounterDir    = 4 // the directory, closed once it is mounted on
	mounterParent = 5 // the folder in which the directory lies
)

// StartMounter starts a process that stays root, mounts for a user who may not mount, and
// unmounts again. The process reads no file of the user's and does nothing else. The caller
// gives the returned socket to the user's process, which passes it to [StartOutside]. When
// all have closed the socket, the mounter unmounts a mount that is still there, and ends.
// The directory must be the user's, or root's where no other user can put a link in its
// way: give it as root named it. Check it with [CheckMountpoint] before.
func StartMounter(m MountFor) (*os.File, error) {
	named := m.Dir
	fail := func(err error) (*os.File, error) {
		return nil, fmt.Errorf("mount %s: %w", named, err)
	}
	var err error
	if m.Dir, err = Resolve(named); err != nil {
		return fail(err)
	}
	parent, err := os.OpenFile(filepath.Dir(m.Dir), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fail(err)
	}
	defer parent.Close()
	at, err := unix.Openat(int(parent.Fd()), filepath.Base(m.Dir),
		unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	dir := os.NewFile(uintptr(at), m.Dir)
	defer dir.Close()
	if err := checkMountpointOwner(dir, named, m.UID); err != nil {
		return fail(err)
	}
	if _, err := dir.Readdirnames(1); !errors.Is(err, io.EOF) { // a link may have come in between
		return fail(errors.Join(ErrNotEmpty, err))
	}
	socket, err := startOutside(outsideSetup{Dir: m.Dir, For: &m}, dir, parent)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(socket), "mounter"), nil
}

// checkMountpointOwner refuses a directory that a link of the user's may have led to:
// root would hide its files from everybody.
func checkMountpointOwner(dir *os.File, named string, uid uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	if st.Uid == uid {
		return nil
	}
	return ownfile.CheckFolders(filepath.Join(named, "."+fsType)) // the directory itself, too
}

// mounts reports whether another process mounts for this one.
func (o *Outside) mounts() bool { return o != nil && o.mounter != nil }

// mount has the mounter mount, and returns the descriptor to serve it on.
func (o *Outside) mount(r mountRequest) (fd int, err error) {
	answer, err := o.mounter.ask(outsideRequest{Do: askMount, Mount: r})
	if err != nil {
		return -1, err
	}
	if answer.file < 0 {
		return -1, errOutside
	}
	return answer.file, nil
}

// mounter is the state of a mounter's process.
type mounter struct {
	may   MountFor
	place string // the mountpoint, by the open folder it lies in

	mu   sync.Mutex
	done bool // it mounted, or failed to, and has closed the directory
	id   int  // of the mount in /proc, 0 before there is one
}

func newMounter(may MountFor) *mounter {
	unix.CloseOnExec(mounterDir)
	unix.CloseOnExec(mounterParent)
	return &mounter{may: may, place: fmt.Sprintf("/proc/self/fd/%d/%s", mounterParent, filepath.Base(may.Dir))}
}

// answer carries a request out.
func (m *mounter) answer(r outsideRequest) outsideAnswer {
	m.mu.Lock()
	defer m.mu.Unlock()
	var a outsideAnswer
	var err error
	switch r.Do {
	case askMount:
		a.file, err = m.mount(r.Mount)
	case askUnmount:
		err = retryBusy(func() error { return m.unmount(0) })
	case askDetach:
		err = m.unmount(unix.MNT_DETACH)
	default:
		err = unix.EPERM
	}
	if err != nil {
		return failure(err)
	}
	return a
}

func (m *mounter) mount(r mountRequest) (fd int, err error) {
	if m.done {
		return 0, unix.EPERM
	}
	if r.AllowOther && !m.may.AllowOther {
		if err := checkAllowOther(); err != nil {
			return 0, err
		}
	}
	if !strings.HasPrefix(r.Source, sourcePrefix) {
		return 0, unix.EINVAL
	}
	var flags uintptr = unix.MS_NOSUID | unix.MS_NODEV
	if r.ReadOnly || m.may.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	if r.NoExec || m.may.NoExec {
		flags |= unix.MS_NOEXEC
	}
	if err := m.checkPlace(); err != nil {
		return 0, err
	}
	if fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return 0, fmt.Errorf("open /dev/fuse: %w", err)
	}
	data := fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d,max_read=%d", fd, unix.S_IFDIR, m.may.UID,
		m.may.GID, maxTransfer)
	if r.AllowOther {
		data += ",allow_other,default_permissions"
	}
	err = unix.Mount(r.Source, fmt.Sprintf("/proc/self/fd/%d", mounterDir), "fuse."+fsType, flags, data)
	if err == nil {
		if m.id, err = m.shown(); err != nil {
			err = errors.Join(err, unix.Unmount(m.place, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW))
		}
	}
	_ = unix.Close(mounterDir)
	m.done = true
	if err != nil {
		_ = unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// checkPlace refuses a directory that lost its name: no user would find the mount to
// unmount it.
func (m *mounter) checkPlace() error {
	now, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", mounterDir))
	if err != nil {
		return err
	}
	place, err := m.path()
	if err == nil && now != place {
		err = unix.ESTALE
	}
	return err
}

// path returns the place as the kernel names it now. It does not look at the place
// itself: that would wait where systemd mounts on demand.
func (m *mounter) path() (string, error) {
	parent, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", mounterParent))
	return filepath.Join(parent, filepath.Base(m.place)), err
}

// unmount takes away the mount that this process made, and no other.
func (m *mounter) unmount(flags int) error {
	id, err := m.shown()
	if err != nil {
		return err
	}
	if m.id == 0 || id != m.id {
		return unix.EINVAL // the kernel's error where nothing is mounted
	}
	return unix.Unmount(m.place, flags|unix.UMOUNT_NOFOLLOW)
}

// end unmounts what the user's process left mounted when it was killed. Root may not
// enter the mount, and so could not find out later that it is dead.
func (m *mounter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.unmount(unix.MNT_DETACH) // mostly gone already
}

// shown returns the number of the mount that shows at the place, 0 without one.
func (m *mounter) shown() (int, error) {
	place, err := m.path()
	if err != nil {
		return 0, err
	}
	points, err := mountpoints()
	if err != nil {
		return 0, err
	}
	at, _ := mountAt(points, place)
	return at.ID, nil
}
