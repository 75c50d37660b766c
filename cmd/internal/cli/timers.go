package cli

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is how late the kernel may wake a thread whose time has come; its own default is
// 50 µs. A thread of the Go runtime looks every 20 µs for goroutines that block in a system
// call, as those of a mount and of a service do all the time, and by that default it wakes up
// every 70 µs: a sixth of their CPU. No timer of these programs is shorter than milliseconds.
const timerSlack = time.Millisecond

// timersRelaxed is in the environment of a program that [RelaxTimers] started again.
const timersRelaxed = "SVCFS_TIMERS_RELAXED"

// RelaxTimers starts this program again if its first argument is command, one that serves: in
// the same process, with the same arguments, and with the timer slack. A thread takes the
// slack over from the thread or the program that made it, and cannot give it to the threads
// of the Go runtime, which run before main does. Call it first in main. It returns where the
// program has started again, where its starter gave it the slack, and where that is not
// possible: such a program only takes more CPU.
func RelaxTimers(command string) {
	if len(os.Args) < 2 || os.Args[1] != command {
		return
	}
	if os.Getenv(timersRelaxed) != "" {
		_ = os.Unsetenv(timersRelaxed) // a valid name
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || time.Duration(before) >= timerSlack {
		return
	}
	self, err := os.Executable() // and not /proc/self/exe, which would be the name of the process
	if err != nil {
		return
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0); err != nil {
		return
	}
	_ = syscall.Exec(self, os.Args, append(os.Environ(), timersRelaxed+"=1")) // else on with this one
}
