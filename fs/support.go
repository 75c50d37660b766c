package fs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// SupportError names a part that this machine lacks for mounting, with the next step.
type SupportError struct {
	Part string // "fuse", or the name of a program
	Err  error
	Hint string // the next step
}

// Error names the part that is lacking.
func (e *SupportError) Error() string {
	if e.Part == helperName {
		return e.Part + ": " + e.Err.Error()
	}
	return e.Err.Error()
}

// Unwrap returns the reason.
func (e *SupportError) Unwrap() error { return e.Err }

// CheckSupport checks that this machine can mount; otherwise the error is a
// [*SupportError].
func CheckSupport() error {
	if err := CheckDevice(); err != nil {
		return err
	}
	_, err := CheckHelper()
	return err
}

// CheckDevice reports why the kernel's fuse device cannot be used, as a
// [*SupportError].
func CheckDevice() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrPermission):
		return &SupportError{"fuse", errors.New("this user may not open /dev/fuse"),
			"let users mount: sudo chmod 666 /dev/fuse (most systems do), or run as root"}
	case err != nil:
		return &SupportError{"fuse", fmt.Errorf("the kernel's fuse device: %w", err),
			"run: modprobe fuse; in a container start it with --device /dev/fuse --cap-add SYS_ADMIN"}
	}
	return f.Close()
}

const (
	// helperName is the program that mounts and unmounts for an ordinary user.
	helperName = "fusermount3"
	// mountTable is the file that it reads before it unmounts; a chroot or a small
	// container may lack the file.
	mountTable = "/etc/mtab"
)

// CheckHelper finds the program that mounts and unmounts for an ordinary user, or
// reports as a [*SupportError] why it cannot be used. Root needs none, and gets ""
// where there is none.
func CheckHelper() (path string, err error) {
	path, err = helper()
	if os.Geteuid() == 0 {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(mountTable); err != nil {
		return "", &SupportError{helperName, errors.New("it cannot unmount, because " + mountTable + " is missing"),
			"run as root: ln -s /proc/self/mounts " + mountTable}
	}
	return path, nil
}

// helper finds the program, or returns a [*SupportError].
func helper() (string, error) {
	for _, name := range []string{helperName, "/bin/" + helperName} { // where go-fuse looks as well
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", &SupportError{helperName, errors.New("not installed: without it only root can mount"),
		"install it: apt-get install fuse3 (Debian, Ubuntu), dnf install fuse3 (Fedora), apk add fuse3 (Alpine)"}
}

// ErrAllowOther means that this machine does not let an ordinary user share a mount.
var ErrAllowOther = errors.New("/etc/fuse.conf does not allow --allow-other: an administrator adds the line " +
	"user_allow_other there")

// checkAllowOther refuses before mounting: the message of the helper would be less clear.
func checkAllowOther() error {
	text, err := os.ReadFile("/etc/fuse.conf")
	if err != nil {
		return ErrAllowOther
	}
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == "user_allow_other" {
			return nil
		}
	}
	return ErrAllowOther
}
