package fs

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// inode is the number that stat shows of a name.
func (m *mount) inode(name string) uint64 {
	m.t.Helper()
	info, err := os.Stat(m.path(name))
	ok(m.t, err)
	return info.Sys().(*syscall.Stat_t).Ino
}

func inodeOf(t *testing.T, f *os.File) uint64 {
	t.Helper()
	info, err := f.Stat()
	ok(t, err)
	return info.Sys().(*syscall.Stat_t).Ino
}

// output collects what a program prints.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) has(text string) func() bool {
	return func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return strings.Contains(o.text.String(), text)
	}
}

// remembers makes the kernel believe what it knows until it is told otherwise.
func remembers(p *plan) { p.Watches, p.Options.Timeout = true, time.Hour }

// A4: programs that follow a name see that another account replaced the file, at once; who
// has the file open keeps the old one.
func TestA4ReplacedFileOnAMount(t *testing.T) {
	m := mounting(t, remembers)
	m.put("f", "one\n")
	before := m.inode("team/f")
	old, err := os.Open(m.path("team/f"))
	ok(t, err)
	defer old.Close()
	var printed output
	tail := exec.Command("tail", "-F", "-s", "0.1", "-n", "+1", m.path("team/f"))
	tail.Env, tail.Stdout, tail.Stderr = append(os.Environ(), "LC_ALL=C"), &printed, &printed
	tail.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ok(t, tail.Start())
	defer func() { _ = tail.Process.Kill(); _ = tail.Wait() }()
	proctest.Eventually(t, "tail shows the first version", printed.has("one\n"))

	m.put("f", "one\ntwo\n") // longer, as if it had grown
	m.must(order{Do: "settle"})
	after := m.inode("team/f")
	if after == before || inodeOf(t, old) != before {
		t.Errorf("the name has number %d and had %d; the open file has %d", after, before, inodeOf(t, old))
	}
	if got, err := io.ReadAll(old); string(got) != "one\n" || err != nil {
		t.Errorf("the open file reads %q, %v", got, err)
	}
	proctest.Eventually(t, "tail shows the second version", printed.has("two\n"))
	proctest.Eventually(t, "tail sees another file", printed.has("has been replaced"))

	for _, content := range []string{"three", "", "four"} {
		m.write("team/f", content)
		if m.inode("team/f") != after {
			t.Errorf("saving %q here gave the file another number", content)
		}
	}
	m.must(order{Do: "settle"})
	ok(t, os.Rename(m.path("team/f"), m.path("team/f~")))
	if m.inode("team/f~") != after {
		t.Error("a rename here gave the file another number")
	}
}

// A4: a file that was open while others replaced it, and is saved then, is the file again.
func TestA4SaveOfAReplacedFileOnAMount(t *testing.T) {
	m := mounting(t, remembers)
	m.put("f", "one")
	f, err := os.OpenFile(m.path("team/f"), os.O_RDWR, 0)
	ok(t, err)
	defer f.Close()
	m.put("f", "two")
	m.must(order{Do: "settle"})
	if m.inode("team/f") == inodeOf(t, f) {
		t.Error("two files have one number")
	}
	_, err = f.WriteAt([]byte("1"), 0)
	ok(t, err)
	ok(t, f.Sync())
	m.must(order{Do: "settle"})
	if got := m.read("team/f"); got != "1ne" || m.inode("team/f") != inodeOf(t, f) {
		t.Errorf("the name shows %q, of another file", got)
	}
}

// A4: a removed file that is open, and what has its name since, are two files.
func TestA4RemovedFileIsAnotherOnAMount(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Ours = true })
	m.write("team/uploaded", "one")
	m.write("team/only-here.tmp", "one")
	for _, name := range []string{"team/uploaded", "team/only-here.tmp"} {
		f, err := os.Open(m.path(name))
		ok(t, err)
		defer f.Close()
		ok(t, os.Remove(m.path(name)))
		m.write(name, "two")
		if m.inode(name) == inodeOf(t, f) {
			t.Errorf("%s has the number of the removed file, which is open", name)
		}
	}
}
