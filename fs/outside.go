package fs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/svcfs/svcfs/sdk/confine"
	"golang.org/x/sys/unix"
)

// OutsideCommand is the one argument with which a program runs [ServeOutside].
const OutsideCommand = "outside-of-the-mount"

// Outside is a process that is started before the mounting process confines itself. It
// does the few things that a confined process cannot: unmount, and look at the programs
// that use the mount, and reads the account's key again when the service refuses it. It
// knows one directory and one place of a key, keeps no secret, and ends with the process
// that started it. Its methods are safe for concurrent use. A nil Outside does
// the same in this process.
type Outside struct {
	socket  int
	mounter *Outside // mounts and unmounts instead; nil = none, see [StartMounter]

	limit time.Duration // of the wait for an answer, of tests; 0 = outsideLimit
}

// outsideSetup is sent to an Outside once, at its start.
type outsideSetup struct {
	Dir string
	For *MountFor // it is a mounter
}

// Requests.
const (
	askMount   = "mount" // of a mounter
	askUnmount = "unmount"
	askDetach  = "detach"
	askHolders = "holders"
	askHeldBy  = "held by"
	askLoaded  = "loaded"
	askKilled  = "killed"

	askKeyPlace = "keep the place of the key"
	askKey      = "read the key"

	askTeller = "which thread tells of changes"
	askTell   = "tell of a change"
)

type outsideRequest struct {
	Do             string
	Opener, Caller uint32
	Ino            uint64
	Part           string
	Mount          mountRequest
	Place          []byte // of the key
	Tell           tellRequest
}

type outsideAnswer struct {
	Error   string
	Errno   syscall.Errno
	Yes     bool
	Holders []Holder
	Key     []byte
	Thread  uint32
	file    int // that goes with it, to be closed; 0 = none
}

// outsideError is an error of the other process, with its errno.
type outsideError struct {
	text  string
	errno syscall.Errno
}

func (e *outsideError) Error() string { return e.text }
func (e *outsideError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

const (
	// maxOutsideBytes bounds a request or an answer, in bytes.
	maxOutsideBytes = 64 << 10
	// outsideLimit bounds the wait for an answer, but for one that waits for programs.
	outsideLimit = helperLimit + 5*time.Second
	noLimit      = 0
)

// errOutside means that the process outside is gone or answers nonsense.
var errOutside = errors.New("the process outside of the mount does not answer")

// StartOutside makes the process for a mount on dir. It runs the program of this one
// with [OutsideCommand], before any secret is read. mounter is the descriptor of a
// [StartMounter] that this process was given, and now owns; -1 for none.
func StartOutside(dir string, mounter int) (*Outside, error) {
	o := &Outside{}
	if mounter >= 0 {
		o.mounter = &Outside{socket: mounter}
	}
	var err error
	if o.socket, err = startOutside(outsideSetup{Dir: dir}); err != nil {
		return nil, errors.Join(err, o.mounter.Close())
	}
	return o, nil
}

// startOutside runs the program and returns the socket to it; it is given files as
// descriptors 4 and up.
func startOutside(setup outsideSetup, files ...*os.File) (socket int, err error) {
	self, err := os.Executable()
	if err != nil {
		return -1, fmt.Errorf("find this program: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("start the process outside: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "outside")
	defer theirs.Close()
	cmd := exec.Command(self, OutsideCommand)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // where fusermount3 is looked for
	cmd.ExtraFiles = append([]*os.File{theirs}, files...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	raw, err := json.Marshal(setup)
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = errors.Join(unix.Sendmsg(pair[0], raw, nil, nil, 0), cmd.Process.Release())
	}
	if err != nil {
		_ = unix.Close(pair[0])
		return -1, fmt.Errorf("start the process outside: %w", err)
	}
	return pair[0], nil
}

// Close lets the process end.
func (o *Outside) Close() error {
	if o == nil {
		return nil
	}
	return errors.Join(unix.Close(o.socket), o.mounter.Close())
}

// ask sends a request with a socket of its own for the answer, so that a slow one
// holds up no other.
func (o *Outside) ask(r outsideRequest) (answer outsideAnswer, err error) {
	return o.askFor(r, cmp.Or(o.limit, outsideLimit))
}

// askFor is ask with a limit for the wait. Also without one it ends with the process outside.
func (o *Outside) askFor(r outsideRequest, wait time.Duration) (answer outsideAnswer, err error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return answer, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return answer, fmt.Errorf("%w: %w", errOutside, err)
	}
	defer unix.Close(pair[0])
	err = unix.Sendmsg(o.socket, raw, unix.UnixRights(pair[1]), nil, unix.MSG_NOSIGNAL)
	_ = unix.Close(pair[1])
	if err != nil {
		return answer, fmt.Errorf("%w: %w", errOutside, err)
	}
	limit := unix.NsecToTimeval(wait.Nanoseconds())
	if err := unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return answer, fmt.Errorf("%w: %w", errOutside, err)
	}
	raw, file, err := receive(pair[0])
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	clear(raw) // it may hold a key
	if err != nil {
		return answer, fmt.Errorf("%w: %w", errOutside, err)
	}
	answer.file = file
	if answer.Error != "" {
		return answer, &outsideError{answer.Error, answer.Errno}
	}
	return answer, nil
}

// receive reads one message and the file that came with it, -1 for none.
func receive(socket int) (raw []byte, file int, err error) {
	raw, rights := make([]byte, maxOutsideBytes), make([]byte, unix.CmsgSpace(4))
	for {
		n, rn, _, _, err := unix.Recvmsg(socket, raw, rights, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, -1, err
		}
		if n == 0 {
			return nil, -1, errOutside // its end is closed
		}
		return raw[:n], fileOf(rights[:rn]), nil
	}
}

func fileOf(rights []byte) int {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return -1
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(files) == 0 {
		return -1
	}
	for _, more := range files[1:] { // there is room for two
		_ = unix.Close(more)
	}
	return files[0]
}

// unmount unmounts dir; lazily, also while programs use the mount.
func (o *Outside) unmount(dir string, lazily bool) error {
	switch {
	case o == nil && lazily:
		return UnmountLazily(dir)
	case o == nil:
		return unmount(dir)
	case o.mounter != nil:
		return o.mounter.unmount(dir, lazily)
	}
	do := askUnmount
	if lazily {
		do = askDetach
	}
	_, err := o.ask(outsideRequest{Do: do})
	return err
}

// holders is [Holders].
func (o *Outside) holders(dir string) []Holder {
	if o == nil {
		return Holders(dir)
	}
	answer, err := o.ask(outsideRequest{Do: askHolders})
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(answer.Holders, func(h Holder) bool { return h.PID == os.Getpid() })
}

// isHeldBy is [isHeldBy].
func (o *Outside) isHeldBy(opener, caller uint32, ino uint64) bool {
	if o == nil {
		return isHeldBy(opener, caller, ino)
	}
	if isThreadOf(int(opener), caller) { // such as a program with threads: most ask for nothing else
		return false
	}
	answer, err := o.ask(outsideRequest{Do: askHeldBy, Opener: opener, Caller: caller, Ino: ino})
	return err == nil && answer.Yes
}

// hasLoaded is [hasLoaded].
func (o *Outside) hasLoaded(thread uint32, part string) bool {
	if o == nil {
		return hasLoaded(thread, part)
	}
	answer, err := o.ask(outsideRequest{Do: askLoaded, Caller: thread, Part: part})
	return err == nil && answer.Yes
}

// isKilled is [isKilled].
func (o *Outside) isKilled(thread uint32) bool {
	if o == nil {
		return isKilled(thread)
	}
	if !mayBeKilled(thread) { // as nearly always
		return false
	}
	answer, err := o.ask(outsideRequest{Do: askKilled, Caller: thread})
	return err == nil && answer.Yes
}

// ServeOutside is the program of an [Outside]; its socket is descriptor 3. It
// returns when the other end is closed. readKey may be nil: then no key is read again.
func ServeOutside(readKey ReadKey) error {
	const socket = 3
	if err := confine.Harden(); err != nil {
		return err
	}
	// A service manager, or a shell, ends all processes at once; the mount goes first.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
	unix.CloseOnExec(socket)
	raw, _, err := receive(socket)
	if err != nil {
		return fmt.Errorf("not started by a mount: %w", err)
	}
	var setup outsideSetup
	if err := json.Unmarshal(raw, &setup); err != nil {
		return fmt.Errorf("not started by a mount: %w", err)
	}
	keys, told := &keeper{read: readKey}, newTold(setup.Dir)
	answer, end := func(r outsideRequest) outsideAnswer {
		switch r.Do {
		case askKeyPlace, askKey:
			return keys.answer(r)
		case askTeller, askTell:
			return told.answer(r)
		}
		return setup.answer(r)
	}, func() {}
	if setup.For != nil {
		m := newMounter(*setup.For)
		answer, end = m.answer, m.end
	}
	for {
		raw, reply, err := receive(socket)
		if err != nil {
			end() // the mount's process has ended
			return nil
		}
		var r outsideRequest
		if reply < 0 {
			continue
		}
		if json.Unmarshal(raw, &r) != nil {
			_ = unix.Close(reply)
			continue
		}
		go func() {
			defer unix.Close(reply)
			send(reply, answer(r))
		}()
	}
}

func send(socket int, answer outsideAnswer) {
	var rights []byte
	if answer.file > 0 {
		rights = unix.UnixRights(answer.file)
		defer unix.Close(answer.file)
	}
	raw, err := json.Marshal(answer)
	clear(answer.Key)
	if err != nil {
		return
	}
	defer clear(raw)
	_ = unix.Sendmsg(socket, raw, rights, nil, unix.MSG_NOSIGNAL) // the other process may be gone
}

func failure(err error) outsideAnswer {
	a := outsideAnswer{Error: err.Error()}
	_ = errors.As(err, &a.Errno)
	return a
}

// answer carries a request out.
func (s outsideSetup) answer(r outsideRequest) outsideAnswer {
	var err error
	switch r.Do {
	case askUnmount:
		err = unmount(s.Dir)
	case askDetach:
		err = UnmountLazily(s.Dir)
	case askHolders:
		return outsideAnswer{Holders: Holders(s.Dir)}
	case askHeldBy:
		return outsideAnswer{Yes: isHeldBy(r.Opener, r.Caller, r.Ino)}
	case askLoaded:
		return outsideAnswer{Yes: hasLoaded(r.Caller, r.Part)}
	case askKilled:
		return outsideAnswer{Yes: isKilled(r.Caller)}
	}
	if err != nil {
		return failure(err)
	}
	return outsideAnswer{}
}

// unmountTries is how often a mount is found busy before that is believed: the
// kernel closes files a moment after programs do.
const unmountTries = 5

func unmount(dir string) error {
	return retryBusy(func() error {
		if os.Geteuid() == 0 {
			return unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
		}
		err := runHelper("-u", "--", dir)
		points, listErr := mountpoints()
		if errors.As(err, new(*exec.ExitError)) && listErr == nil && isMounted(points, dir) {
			return &outsideError{err.Error(), unix.EBUSY} // the helper ran, and gives no other reason
		}
		return err
	})
}

func retryBusy(unmount func() error) (err error) {
	for try := range unmountTries {
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
		if err = unmount(); err == nil {
			return nil
		}
	}
	return err
}
