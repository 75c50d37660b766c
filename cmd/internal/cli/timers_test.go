package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// serves is the first argument of the tests' program that serves.
const serves = "serves"

func TestMain(m *testing.M) {
	RelaxTimers(serves)
	if len(os.Args) > 1 && os.Args[1] == serves {
		os.Exit(tellTimers())
	}
	os.Exit(m.Run())
}

// tellTimers prints what the program is after RelaxTimers.
func tellTimers() int {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	name, err := os.ReadFile("/proc/self/comm")
	fmt.Println(slack, os.Getpid(), strings.TrimSpace(string(name)), os.Args[2:], os.Getenv(timersRelaxed), err)
	return 0
}

func TestRelaxTimersStartsAProgramAgain(t *testing.T) {
	cmd := exec.Command(os.Args[0], serves, "--flag", "a b")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	name := filepath.Base(os.Args[0])
	want := fmt.Sprintln(timerSlack.Nanoseconds(), cmd.Process.Pid, name[:min(len(name), 15)], "[--flag a b]", "", nil)
	if string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
}
