// Package ownfile opens the files that a program obeys or keeps secrets in: keys,
// settings, its own state. The rules are those of ssh. A file belongs to root or
// to the user who runs the program, no other user may write to it, and it is no
// symbolic link. For root, no other user may be able to replace the file, so that
// every folder above it is checked too.
//
// The check is made on the opened file, never on a name that another user could
// give to another file in between.
package ownfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kind is the purpose of a file.
type Kind int

// Kinds of files.
const (
	Settings Kind = iota // other users may read it
	Secret               // only its owner may read it
	// Managed is a secret that another program keeps, such as the key of a certificate.
	// Programs that renew certificates put the key behind a symbolic link and let a group
	// read it, so that both are allowed.
	Managed
)

// EnvCredentials is the environment variable with the folder in which systemd gives a
// service its secrets.
const EnvCredentials = "CREDENTIALS_DIRECTORY"

// SecretKind returns the kind of a file with a secret: Managed for a credential that
// systemd gave to this service alone, else Secret. systemd grants access by an access list,
// which shows as a permission of the group.
func SecretKind(path string) Kind {
	if dir := os.Getenv(EnvCredentials); dir != "" && filepath.Dir(path) == filepath.Clean(dir) {
		return Managed
	}
	return Secret
}

// The reasons of an [*Error].
var (
	ErrOwner    = errors.New("it belongs to another user")
	ErrWritable = errors.New("others may write to it")
	ErrReadable = errors.New("others may read it")
	ErrLink     = errors.New("it is a symbolic link")
)

// Error says why a file is refused, and which command corrects that.
type Error struct {
	Path   string // the file, or a folder above it
	Reason error  // one of the reasons above
	Detail string // such as "mode 0644"
	Mend   string // command line for sh that corrects it
}

// Error returns the file and the reason.
func (e *Error) Error() string {
	text := e.Path + " is not used: " + e.Reason.Error()
	if e.Detail != "" {
		text += " (" + e.Detail + ")"
	}
	return text
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// MendOf returns the command that corrects what err refused, or "".
func MendOf(err error) string {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.Mend
	}
	return ""
}

// Open opens the file at path for reading; the caller closes it. A refusal is an [*Error].
// A missing file is [fs.ErrNotExist]. A path such as /dev/fd/3, which a shell makes for
// <(…), stands for a file that the program inherited: a pipe is accepted without a check.
func Open(path string, kind Kind) (*os.File, error) {
	if fd, ok := descriptor(path); ok {
		return openGiven(fd, path, kind)
	}
	path = filepath.Clean(path) // the form that CheckFolders uses
	if err := CheckFolders(path); err != nil {
		return nil, err
	}
	flags := unix.O_RDONLY | unix.O_CLOEXEC
	if kind != Managed {
		flags |= unix.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, syscall.ELOOP) && isLink(path) {
		return nil, &Error{path, ErrLink, "", "cp --remove-destination -- \"$(readlink -f " + quote(path) + ")\" " +
			quote(path)}
	}
	if err != nil {
		return nil, err
	}
	if err := Check(f, kind); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Read returns the content of the file at path. A file longer than limit bytes is an error.
// Read refuses what [Open] refuses.
func Read(path string, kind Kind, limit int64) ([]byte, error) {
	f, err := Open(path, kind)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, limit)
	}
	return raw, nil
}

// Check refuses an open file that breaks the rules, with an [*Error].
func Check(f *os.File, kind Kind) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil // the system has no owners of files
	}
	return judge(f.Name(), info.Mode(), int(st.Uid), kind)
}

// judge checks the owner and the mode of a file.
func judge(path string, mode fs.FileMode, owner int, kind Kind) error {
	me := os.Geteuid()
	if owner != 0 && owner != me {
		return notMine(path, owner)
	}
	if !mode.IsRegular() {
		kind = Settings // the content of a pipe is gone after one read
	}
	var bad fs.FileMode
	var mend string
	switch {
	case kind == Secret && owner == me:
		bad, mend = 0o077, "chmod 600 "
	case kind == Settings:
		bad, mend = 0o022, "chmod go-w "
	default: // root may let a group of this user read a secret of root's
		bad, mend = 0o027, "chmod g-w,o-rwx "
	}
	reason := ErrReadable
	switch {
	case mode.Perm()&bad == 0:
		return nil
	case mode.Perm()&0o022 != 0:
		reason = ErrWritable
	}
	return &Error{path, reason, fmt.Sprintf("mode %04o", mode.Perm()), mend + quote(path)}
}

// notMine returns the reason for a wrong owner: root must act as the owner, other users
// must own the file. To give the file to root would take it from the program that it is for.
func notMine(path string, owner int) error {
	detail := fmt.Sprintf("uid %d", owner)
	if os.Geteuid() == 0 {
		name := "'#" + strconv.Itoa(owner) + "'"
		if u, err := user.LookupId(strconv.Itoa(owner)); err == nil {
			name = quote(u.Username)
		}
		return &Error{path, ErrOwner, detail, "sudo -u " + name + " " + filepath.Base(os.Args[0]) +
			" …  # as the owner of " + quote(path)}
	}
	return &Error{path, ErrOwner, detail, "sudo chown " + strconv.Itoa(os.Geteuid()) + " " + quote(path)}
}

// maxLinks bounds the symbolic links in a path, as the kernel does.
const maxLinks = 40

// CheckFolders refuses, for root only, a path on which another user could put another file:
// through a folder or link that is not root's, or a folder in which others may write and
// remove files of other users.
func CheckFolders(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, rest := "/", strings.Split(filepath.Dir(full), "/")
	for links := 0; ; {
		if err := checkFolder(at); err != nil {
			return err
		}
		if len(rest) == 0 {
			return nil
		}
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		if err != nil { // no link; opening the file reports what is missing
			at = next
			continue
		}
		if err := checkFolder(next); err != nil {
			return err
		}
		if links++; links > maxLinks {
			return &os.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
}

// checkFolder checks one folder, or one link to a folder.
func checkFolder(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if st.Uid != 0 {
		return notMine(dir, int(st.Uid))
	}
	if info.IsDir() && info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return &Error{dir, ErrWritable, fmt.Sprintf("mode %04o", info.Mode().Perm()), "chmod go-w " + quote(dir)}
	}
	return nil
}

// descriptor returns the number of the open file that a path such as /dev/fd/3 stands for.
func descriptor(path string) (fd int, ok bool) {
	if path == "/dev/stdin" {
		return 0, true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, found := strings.CutPrefix(path, dir); found {
			fd, err := strconv.Atoi(number)
			return fd, err == nil && fd >= 0
		}
	}
	return 0, false
}

// openGiven opens a file that the program inherited. Anything but a pipe must keep the
// rules.
func openGiven(fd int, path string, kind Kind) (*os.File, error) {
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(again), path)
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = Check(f, kind)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// quote is ShellWord for a path, which no command takes for a flag.
func quote(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return ShellWord(path)
}

// ShellWord returns a text as one word of a shell, for a command that a message names.
func ShellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("/._-+,:=@%", r)
	}
	if text != "" && text[0] != '-' && !strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
