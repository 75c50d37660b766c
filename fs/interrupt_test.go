package fs

import (
	"os"
	"os/signal"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// closing closes a file in a thread of its own, whose number it tells.
func closing(f *os.File) (thread int, done <-chan error) {
	number, result := make(chan int), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		number <- unix.Gettid()
		result <- f.Close()
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
			thread, done := closing(f)
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
	number, result := make(chan int), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		number <- unix.Gettid()
		fd, err := unix.Open(m.path("other"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		result <- err
	}()
	thread := <-number
	m.waitFor(1)
	for range 2 {
		ok(t, unix.Tgkill(os.Getpid(), thread, unix.SIGURG))
	}
	// Whether it fails shows once the service answers, or the listing has waited enough.
	time.Sleep(4 * signalPoll)
	m.must(order{Do: "stall", Name: "entries"})
	if err := inTime(t, "opening the folder", func() error { return <-result }); err != nil {
		t.Errorf("opening the folder: %v", err)
	}
}
