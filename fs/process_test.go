package fs

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
)

// R5: a thread is named by its process.
func TestR5ThreadsAreNamedByTheirProcess(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := uint32(unix.Gettid())
	if int(thread) == os.Getpid() { // its name is the process's
		other := make(chan uint32)
		go func() {
			runtime.LockOSThread()
			other <- uint32(unix.Gettid())
			<-t.Context().Done()
		}()
		thread = <-other
	}
	comm := fmt.Sprintf("/proc/self/task/%d/comm", thread)
	name, err := os.ReadFile(comm)
	if err != nil {
		t.Fatal(err)
	}
	ok(t, os.WriteFile(comm, []byte("tumblerd"), 0))
	defer func() { _ = os.WriteFile(comm, name, 0) }()
	if pid, ok := processOf(thread); !ok || pid != os.Getpid() {
		t.Errorf("thread %d belongs to %d, %v; want %d", thread, pid, ok, os.Getpid())
	}
	want, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	if got := programName(thread); got != strings.TrimSpace(string(want)) {
		t.Errorf("named %q, want %q", got, want)
	}
	if _, ok := processOf(1 << 30); ok {
		t.Error("a thread that is not there belongs to a process")
	}
	var p processes
	for range 2 { // found, and found again
		if pid := p.of(thread); int(pid) != os.Getpid() {
			t.Errorf("thread %d belongs to %d, want %d", thread, pid, os.Getpid())
		}
		if pid := p.of(1 << 30); pid != 0 {
			t.Errorf("a thread that is not there belongs to %d", pid)
		}
		if pid := p.of(uint32(os.Getppid())); int(pid) != os.Getppid() {
			t.Errorf("thread %d belongs to %d", os.Getppid(), pid)
		}
	}
	if own := os.Getpid(); !isThreadOf(own, thread) || isThreadOf(os.Getppid(), thread) || isThreadOf(own, 1<<30) {
		t.Error("threads are taken for those of another process")
	}
	if mayBeKilled(thread) || !mayBeKilled(1<<30) {
		t.Error("a thread that lives may be killed, or one of which nothing is known may not")
	}
}

// R5: on a mount, the program that asks is known by its own name.
func TestR5CrawlersAreRefusedOnTheMount(t *testing.T) {
	m := mounting(t)
	m.put("f", "x")
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	crawler := place(t) + "/updatedb"
	if out, err := exec.Command("cp", cat, crawler).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if out, err := exec.Command(crawler, m.path("team/f")).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "Permission denied") {
		t.Errorf("a crawler reads %q, %v", out, err)
	}
	m.wantCharges(0, 0)
	if !strings.Contains(m.read(".svcfs/errors"), "updatedb makes previews") {
		t.Error("E1: the refusal is not noted")
	}
	if got := m.read("team/f"); got != "x" {
		t.Errorf("others read %q", got)
	}
	if out, err := exec.Command(crawler, m.path("team/f")).CombinedOutput(); err != nil || string(out) != "x" {
		t.Errorf("from memory: %q, %v", out, err)
	}
}

// W2: what children close that a program started with its own descriptor is one save.
func TestW2InheritedDescriptorsAreOneSave(t *testing.T) {
	m := mounting(t)
	for _, tc := range []struct{ script, want string }{
		{"{ /bin/echo a; /bin/echo b; } >f", "a\nb\n"},
		{"{ /bin/echo c; (/bin/echo d; exec /bin/echo e); } >f", "c\nd\ne\n"},
		{"for i in 1 2 3; do /bin/echo $i; done >f", "1\n2\n3\n"},
		{"/bin/echo x >f; wait", "x\n"},
		{"sh -c '/bin/echo y; /bin/echo z' >f", "y\nz\n"},
	} {
		before := m.must(order{Do: "counts"}).Counts.Uploads
		cmd := exec.Command("sh", "-c", tc.script)
		cmd.Dir = m.path("team")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", tc.script, err, out)
		}
		c := m.must(order{Do: "counts"})
		if got := m.read("team/f"); got != tc.want || c.Counts.Uploads != before+1 || len(c.Pending) != 0 {
			t.Errorf("%s: %q with %d uploads, pending %v", tc.script, got, c.Counts.Uploads-before, c.Pending)
		}
	}
}

// W2: so is it after the thread that opened the file has ended, as threads of Go and Java do.
func TestW2ThreadsThatOpenMayEnd(t *testing.T) {
	m := mounting(t)
	older, err := os.ReadDir("/proc/self/task")
	ok(t, err)
	var f *os.File
	opened, end := make(chan int), make(chan struct{})
	defer close(end)
	open := func() { // with a thread that ends with it, and that started no mount: it would end, too
		runtime.LockOSThread()
		thread := unix.Gettid()
		if slices.ContainsFunc(older, func(d os.DirEntry) bool { return d.Name() == strconv.Itoa(thread) }) {
			opened <- 0
			<-end
			return
		}
		var err error
		if f, err = os.Create(m.path("team/f")); err != nil {
			t.Error(err)
		}
		opened <- thread
	}
	thread := 0
	for thread == 0 {
		go open()
		thread = <-opened
	}
	proctest.Eventually(t, "the thread has ended", func() bool { return !isThreadOf(os.Getpid(), uint32(thread)) })
	child := exec.Command("/bin/echo", "a")
	child.Stdout = f
	ok(t, child.Run())
	if c := m.must(order{Do: "counts"}); c.Counts.Uploads != 0 {
		t.Errorf("the close of a child is %d uploads", c.Counts.Uploads)
	}
	ok(t, f.Close())
	if c := m.must(order{Do: "counts"}); c.Counts.Uploads != 1 || m.read("team/f") != "a\n" {
		t.Errorf("%d uploads", c.Counts.Uploads)
	}
}

func TestW15TellsOfKill(t *testing.T) {
	stat := func(name string, flags, code int) string {
		return fmt.Sprintf("12 (%s) Z 1 12 1 0 -1 %d %s %d\n", name, flags, strings.Repeat("0 ", 42), code)
	}
	for _, tc := range []struct {
		what, stat string
		want       bool
	}{
		{"killed", stat("cat", 0x400404, 9), true},
		{"killed, with a core", stat("cat", 0x400604, 128|11), true},
		{"a name that looks like more", stat("a) R 1 2 (b", 0x404, 15), true},
		{"left", stat("cat", 0x400004, 0), false},
		{"left with an error", stat("cat", 0x400004, 1<<8), false},
		{"left beside a thread", stat("cat", 0x404, 1<<8), false},
		{"of another user", stat("cat", 0x404, 0), false},
		{"nothing", "", false},
		{"short", "12 (cat) Z 1", false},
	} {
		if got := tellsOfKill(tc.stat); got != tc.want {
			t.Errorf("%s: %v", tc.what, got)
		}
	}
}

// W2: the last process that has the file open saves it, also when the process that opened
// it is gone or has closed it.
func TestW2OrphanedDescriptorsAreSaved(t *testing.T) {
	m := mounting(t)
	for _, script := range []string{
		"(exec 5>f; (read x <go; /bin/echo late >&5) & ) ; echo >go",             // opener ended
		"exec 5>f; (read x <go; /bin/echo late >&5) & exec 5>&-; echo >go; wait", // opener closed
	} {
		dir := place(t)
		cmd := exec.Command("sh", "-c", "mkfifo go; ln -s "+m.path("team/f")+" f; "+script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", script, err, out)
		}
		proctest.Eventually(t, script, func() bool {
			return len(m.must(order{Do: "counts"}).Pending) == 0 && m.read("team/f") == "late\n"
		})
		m.write("team/f", "other\n")
	}
}

// W2: a process that reads a file which a child still writes does not keep the child's
// close from saving it.
func TestW2ReadersDoNotHoldUpTheSave(t *testing.T) {
	m := mounting(t)
	cmd := exec.Command("bash", "-c", "exec 5>f 6<f; coproc sh -c 'read x; exec /bin/echo late >&5' 5>&5; exec 5>&-; "+
		"echo go >&${COPROC[1]}; wait; echo closed; read x")
	cmd.Dir = m.path("team")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ok(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "closed\n" {
		t.Errorf("said %q, %v", line, err)
	}
	if a := m.must(order{Do: "counts"}); a.Counts.Uploads != 1 || len(a.Pending) != 0 {
		t.Errorf("%d uploads, pending %v", a.Counts.Uploads, a.Pending)
	}
	if err := errors.Join(in.Close(), ignoreExit(cmd.Wait())); err != nil {
		t.Error(err)
	}
	if got := m.read("team/f"); got != "late\n" {
		t.Errorf("f holds %q", got)
	}
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// W2: another thread than the one that opened the file closes it, and gets the error.
func TestW2ClosingThreadIsTold(t *testing.T) {
	m := mounting(t)
	kind := sdk.ErrUnavailable
	m.must(order{Do: "fail", Name: "upload", Kind: &kind})
	runtime.LockOSThread() // so that the goroutine below runs on another
	defer runtime.UnlockOSThread()
	f, err := os.Create(m.path("team/f"))
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() {
		if _, err := f.WriteString("x"); err != nil {
			closed <- err
		}
		closed <- f.Close()
	}()
	wantErrno(t, "close", <-closed, unix.EHOSTUNREACH)
	m.must(order{Do: "fail", Name: "upload"})
}

// BenchmarkProcessOf finds the process of a thread that is not its first, with and without the memory of the
// process that was found last.
func BenchmarkProcessOf(b *testing.B) {
	threads := make(chan uint32)
	go func() {
		runtime.LockOSThread()
		threads <- uint32(unix.Gettid())
		<-b.Context().Done()
	}()
	thread := <-threads
	if int(thread) == os.Getpid() {
		b.Skip("the first thread")
	}
	b.Run("asked anew", func(b *testing.B) {
		for b.Loop() {
			processOf(thread)
		}
	})
	b.Run("asked again", func(b *testing.B) {
		var p processes
		for b.Loop() {
			p.of(thread)
		}
	})
}
