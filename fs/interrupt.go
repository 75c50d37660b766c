package fs

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// signalPoll is the time between checks of a waiting program that got a signal: the
// kernel reports the first signal only.
const signalPoll = 50 * time.Millisecond

// patiently returns a context that ends when the calling program is to stop, not
// whenever any signal reaches it. The kernel reports every signal, and some
// arrive all the time: the Go runtime sends SIGURG to its own threads, children
// end, windows change their size. A close that failed for one of those would look
// like lost data. The caller must call done.
func patiently(ctx context.Context) (patient context.Context, done func()) {
	caller, ok := fuse.FromContext(ctx)
	if !ok {
		return ctx, func() {}
	}
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		tick := time.NewTicker(signalPoll)
		defer tick.Stop()
		for !isToStop(caller.Pid) {
			select {
			case <-tick.C:
			case <-patient.Done():
				return
			}
		}
		cancel()
	})
	return patient, func() {
		stop()
		cancel()
	}
}

// signalSet is a set of signals as proc(5) shows it: bit 0 is signal 1.
type signalSet uint64

func signals(list ...unix.Signal) (s signalSet) {
	for _, number := range list {
		s |= 1 << (number - 1)
	}
	return s
}

// isToStop reports whether a signal waits for the thread that ends its program,
// or that programs catch in order to stop. A thread that is gone is to stop.
func isToStop(thread uint32) bool {
	status, err := os.ReadFile(filepath.Join(procDir, strconv.FormatUint(uint64(thread), 10), "status"))
	if err != nil {
		return true
	}
	field := func(name string) signalSet {
		text, _ := procField(string(status), name)
		set, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return 0
		}
		return signalSet(set)
	}
	return stops(field("SigPnd")|field("ShdPnd"), field("SigBlk"), field("SigIgn"), field("SigCgt"))
}

func stops(pending, blocked, ignored, caught signalSet) bool {
	// By default these do nothing, or pause (signal(7)).
	harmless := signals(unix.SIGCHLD, unix.SIGCONT, unix.SIGURG, unix.SIGWINCH, unix.SIGSTOP, unix.SIGTSTP,
		unix.SIGTTIN, unix.SIGTTOU)
	// Caught, these still ask to stop the operation; others may mean anything.
	meant := signals(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGALRM)
	if pending&signals(unix.SIGKILL) != 0 { // the kernel turns any other fatal signal into it
		return true
	}
	pending &^= blocked | ignored
	return pending&^caught&^harmless != 0 || pending&caught&meant != 0
}
