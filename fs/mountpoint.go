package fs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

// Reasons of a [*MountpointError].
var (
	ErrDeadMount     = errors.New("a mount that crashed is still there")
	ErrMounted       = errors.New("something is mounted there already")
	ErrNotDirectory  = errors.New("it is not a directory")
	ErrNotEmpty      = errors.New("the directory is not empty")
	ErrNoMountpoint  = errors.New("there is no such directory")
	ErrNotAccessible = errors.New("this user may not write there")
	ErrOwnState      = errors.New("svcfs keeps its own files there")
)

// MountpointError is the reason why a directory cannot be mounted on, with the next step.
type MountpointError struct {
	Dir  string
	Err  error  // one of the reasons above, or an error of the system
	Hint string // the next step
}

// Error returns the directory and the reason.
func (e *MountpointError) Error() string { return e.Dir + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *MountpointError) Unwrap() error { return e.Err }

// CheckMountpoint refuses a directory that cannot or should not be mounted on
// (M1). It asks for no secret, changes nothing, and does not wait for a mount that
// does not answer. keepOut are directories of svcfs itself: state, configuration.
// A refusal is a [*MountpointError].
func CheckMountpoint(dir string, keepOut ...string) error {
	full, err := Resolve(dir)
	if err != nil {
		return refuseSystem(dir, err)
	}
	points, err := mountpoints()
	if err != nil {
		return refuseSystem(dir, err)
	}
	if at, ok := mountAt(points, full); ok && at.Type != autoFS {
		return refuseMounted(dir, at)
	}
	if err := checkDirectory(dir); err != nil {
		return err
	}
	for _, own := range keepOut {
		if overlaps(full, own) {
			return &MountpointError{dir, ErrOwnState, "Name a directory outside " + own + "."}
		}
	}
	return nil
}

// Resolve makes dir absolute without symbolic links. It asks nothing of a mount on dir
// itself.
func Resolve(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil {
		return "", err
	}
	full = filepath.Join(parent, filepath.Base(full))
	if target, err := os.Readlink(full); err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join(parent, target)
		}
		return filepath.EvalSymlinks(target)
	}
	return full, nil
}

func refuseSystem(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return &MountpointError{dir, ErrDeadMount, "Clean it with: fusermount3 -uz -- " + ownfile.ShellWord(dir)}
	case errors.Is(err, os.ErrNotExist):
		return &MountpointError{dir, ErrNoMountpoint, "Make it with: mkdir -p -- " + ownfile.ShellWord(dir)}
	case errors.Is(err, os.ErrPermission):
		return &MountpointError{dir, ErrNotAccessible, "Name a directory of yours."}
	case errors.Is(err, syscall.ENOTDIR):
		return &MountpointError{dir, ErrNotDirectory, "Name an empty directory."}
	default:
		return &MountpointError{dir, err, "Name an empty directory of yours."}
	}
}

func refuseMounted(dir string, at MountInfo) error {
	if isDead(at.Dir) {
		return &MountpointError{dir, ErrDeadMount, "Clean it with: fusermount3 -uz -- " + ownfile.ShellWord(dir)}
	}
	if at.isOurs() {
		return &MountpointError{dir, ErrMounted,
			"It is a mount of ours; end it with: svcfs umount " + ownfile.ShellWord(dir)}
	}
	return &MountpointError{dir, ErrMounted, "Name another directory."}
}

// probeLimit is how long a mount may take to show that it lives.
const probeLimit = 2 * time.Second

// isDead reports a mount whose process is gone. A mount that does not answer in time
// is not dead: its process is still there.
func isDead(dir string) bool {
	answer := make(chan error, 1)
	go func() {
		var st unix.Stat_t
		answer <- unix.Stat(dir, &st)
	}()
	select {
	case err := <-answer:
		return errors.Is(err, unix.ENOTCONN)
	case <-time.After(probeLimit):
		return false
	}
}

func checkDirectory(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return refuseSystem(dir, err)
	case !info.IsDir():
		return &MountpointError{dir, ErrNotDirectory, "Name an empty directory."}
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return refuseSystem(dir, err)
	}
	if len(names) > 0 {
		return &MountpointError{dir, ErrNotEmpty, "Name an empty directory: its files would be hidden."}
	}
	if unix.Access(dir, unix.W_OK) != nil && !isOwn(info) { // one of our own that a mount closed can be opened
		return &MountpointError{dir, ErrNotAccessible, "Name a directory of yours."}
	}
	return nil
}

// isOwn reports whether this user may change the mode.
func isOwn(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// mayWrite are the permissions to write to a directory.
const mayWrite = 0o222

// covered is the directory under a mount. Once it is mounted on, no user may write to it,
// also after the mount has ended: a program that saves late is refused, and leaves no
// plaintext on the disk (M7). Modes do not stop root, so root's directories stay as they
// are.
type covered struct {
	dir    *os.File // nil: the mode stays
	before os.FileMode
}

// coverable opens dir, and lets its owner write to it, which fusermount3 wants.
func coverable(dir string) (covered, error) {
	if os.Geteuid() == 0 {
		return covered{}, nil
	}
	if points, err := mountpoints(); err == nil {
		if at, _ := mountAt(points, dir); at.Type == autoFS { // any look at it waits until it is mounted on
			return covered{}, nil
		}
	}
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrPermission) {
		return covered{}, nil // root's directory, and root mounts for this user
	}
	if err != nil {
		return covered{}, err
	}
	info, err := f.Stat()
	if err != nil || !isOwn(info) {
		return covered{}, errors.Join(err, f.Close())
	}
	if err := f.Chmod(info.Mode() | 0o200); err != nil { // such as on vfat
		return covered{}, f.Close()
	}
	return covered{f, info.Mode()}, nil
}

// close takes the permission to write away once the mount is there, and else
// gives the directory its mode back.
func (c covered) close(mounted bool) error {
	if c.dir == nil {
		return nil
	}
	mode := c.before
	if mounted {
		mode &^= mayWrite
	}
	return errors.Join(c.dir.Chmod(mode), c.dir.Close())
}

// overlaps reports whether one of the two directories lies in the other.
func overlaps(full, own string) bool {
	own, err := Resolve(own)
	if err != nil {
		return false // not there, so nothing is kept there
	}
	return within(full, own) || within(own, full)
}

func within(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, strings.TrimSuffix(parent, "/")+"/")
}
