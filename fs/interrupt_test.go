package fs

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

func TestE2StopsTellsSignalsApart(t *testing.T) {
	for name, c := range map[string]struct {
		pending, blocked, ignored, caught signalSet
		want                              bool
	}{
		"none":   {},
		"killed": {pending: signals(unix.SIGKILL), want: true},
		"killed, all caught": {pending: signals(unix.SIGKILL), blocked: ^signalSet(0), caught: ^signalSet(0),
			want: true},
		"interrupt":          {pending: signals(unix.SIGINT), want: true},
		"interrupt, caught":  {pending: signals(unix.SIGINT), caught: signals(unix.SIGINT), want: true},
		"interrupt, blocked": {pending: signals(unix.SIGINT), blocked: signals(unix.SIGINT)},
		"interrupt, ignored": {pending: signals(unix.SIGINT), ignored: signals(unix.SIGINT)},
		"the Go runtime":     {pending: signals(unix.SIGURG), caught: signals(unix.SIGURG)},
		"child":              {pending: signals(unix.SIGCHLD)},
		"window":             {pending: signals(unix.SIGWINCH), caught: signals(unix.SIGWINCH)},
		"profile, caught":    {pending: signals(unix.SIGPROF), caught: signals(unix.SIGPROF)},
		"profile, fatal":     {pending: signals(unix.SIGPROF), want: true},
		"user, caught":       {pending: signals(unix.SIGUSR1), caught: signals(unix.SIGUSR1)},
		"child and alarm":    {pending: signals(unix.SIGCHLD, unix.SIGALRM), caught: signals(unix.SIGALRM), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stops(c.pending, c.blocked, c.ignored, c.caught); got != c.want {
				t.Errorf("stops = %t", got)
			}
		})
	}
	if isToStop(uint32(os.Getpid())) {
		t.Error("this process is to stop")
	}
	if !isToStop(1<<31 - 1) {
		t.Error("a thread that is gone is to go on")
	}
}

// inThread does something in a thread of its own, whose number it tells.
func inThread(do func() error) (thread int, done <-chan error) {
	number, result := make(chan int), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		number <- unix.Gettid()
		result <- do()
	}()
	return <-number, result
}

// A close survives signals that mean nothing, and ends with those that do.
func TestE2HarmlessSignalsDoNotEndAClose(t *testing.T) {
	m := mounting(t)
	for _, c := range []struct {
		name   string
		signal unix.Signal
		fails  bool
	}{{"the Go runtime", unix.SIGURG, false}, {"window", unix.SIGWINCH, false}, {"user", unix.SIGUSR1, false},
		{"terminate", unix.SIGTERM, true}} {
		t.Run(c.name, func(t *testing.T) {
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, c.signal)
			defer signal.Stop(caught)
			f, err := os.Create(m.path("team/" + c.name))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("text"); err != nil {
				t.Fatal(err)
			}
			m.must(order{Do: "stall", Name: "upload", On: true})
			thread, done := inThread(f.Close)
			m.waitFor(1)
			ok(t, unix.Tgkill(os.Getpid(), thread, c.signal))
			if c.fails {
				wantErrno(t, "close", inTime(t, "close", func() error { return <-done }), unix.EINTR)
				m.must(order{Do: "stall", Name: "upload"})
				return
			}
			ok(t, unix.Tgkill(os.Getpid(), thread, c.signal))
			select {
			case err := <-done:
				t.Errorf("close ended while the upload stands still: %v", err)
			case <-time.After(4 * signalPoll):
			}
			m.must(order{Do: "stall", Name: "upload"})
			if err := inTime(t, "close", func() error { return <-done }); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// Nor does a listing end with a signal that means nothing: the thread of a Go program that
// reads a folder gets some all the time.
func TestE2HarmlessSignalsDoNotEndAListing(t *testing.T) {
	m := mounting(t)
	m.must(order{Do: "member", Group: "other", On: true})
	m.refresh()
	m.must(order{Do: "stall", Name: "entries", On: true})
	thread, done := inThread(func() error {
		fd, err := unix.Open(m.path("other"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	})
	m.waitFor(1)
	for range 2 {
		ok(t, unix.Tgkill(os.Getpid(), thread, unix.SIGURG))
	}
	// Whether it fails shows once the service answers, or the listing has waited enough.
	time.Sleep(4 * signalPoll)
	m.must(order{Do: "stall", Name: "entries"})
	if err := inTime(t, "opening the folder", func() error { return <-done }); err != nil {
		t.Errorf("opening the folder: %v", err)
	}
}

// Nor do calls of other kinds that wait.
func TestE2HarmlessSignalsEndNothingThatWaits(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGUSR1)
	defer signal.Stop(caught)
	m := mounting(t)
	m.must(order{Do: "put", Group: "team", Name: "old", Data: []byte("hello"), Size: 5})
	m.must(order{Do: "made folder", Group: "team", Name: "folder"})
	m.refresh()
	m.write("team/x.tmp", "text")
	open := func(name string, flags int) int {
		fd, err := unix.Open(m.path("team/"+name), flags|unix.O_CLOEXEC, 0o600)
		ok(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	late, saved := open("old", unix.O_WRONLY), open("saved", unix.O_WRONLY|unix.O_CREAT)
	_, err := unix.Write(saved, []byte("text"))
	ok(t, err)
	beside := open("saved", unix.O_RDWR)
	save := func() <-chan error {
		second, err := unix.Dup(saved)
		ok(t, err)
		_, closed := inThread(func() error { return unix.Close(second) })
		m.waitFor(1)
		return closed
	}
	none := func() <-chan error { return nil }
	for _, c := range []struct {
		name  string
		stall string
		first func() <-chan error
		call  uintptr
		do    func() error
	}{
		{"a first write", "retrieve", none, unix.SYS_PWRITE64, func() error { return pwrite(late) }},
		{"a read beside a save", "upload", save, unix.SYS_PREAD64, func() error {
			_, err := unix.Pread(beside, make([]byte, 4), 0)
			return err
		}},
		{"a write beside a save", "upload", func() <-chan error {
			ok(t, pwrite(beside))
			return save()
		}, unix.SYS_PWRITE64, func() error { return pwrite(beside) }},
		{"link", "upload", none, unix.SYS_LINKAT, func() error {
			return unix.Link(m.path("team/x.tmp"), m.path("team/real"))
		}},
		{"rmdir", "remove folder", none, unix.SYS_UNLINKAT, func() error {
			return unix.Unlinkat(unix.AT_FDCWD, m.path("team/folder"), unix.AT_REMOVEDIR)
		}},
	} {
		m.must(order{Do: "stall", Name: c.stall, On: true})
		first := c.first()
		thread, done := inThread(c.do)
		m.interrupt(thread, c.call, done)
		m.must(order{Do: "stall", Name: c.stall})
		if err := inTime(t, c.name, func() error { return <-done }); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if first != nil {
			ok(t, <-first)
		}
	}
}

func pwrite(fd int) error {
	_, err := unix.Pwrite(fd, []byte("TEXT"), 0)
	return err
}

// interrupt sends a signal to a thread that waits in a system call, and returns once the mount knows of it.
func (m *mount) interrupt(thread int, call uintptr, done <-chan error) {
	m.t.Helper()
	status := func(file, begin string) func() bool {
		return func() bool {
			text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/%s", thread, file))
			return len(done) > 0 || err == nil && strings.Contains(string(text), begin)
		}
	}
	number := fmt.Sprintf("%d 0x", call)
	proctest.Eventually(m.t, "the call waits", status("syscall", number))
	_ = unix.Tgkill(os.Getpid(), thread, unix.SIGUSR1) // it may have ended
	proctest.Eventually(m.t, "the kernel tells the mount", status("status", "State:\tD"))
	var st unix.Statfs_t
	ok(m.t, unix.Statfs(m.dir, &st)) // is read after the interruption
}
