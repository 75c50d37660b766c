// Package proctest is what tests share: waiting for something, whole programs, a
// free port, and what a test may leave behind. It imports nothing of ours.
package proctest

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Hang is when what a test waits for hangs. It measures nothing: a busy machine is slow.
const Hang = 5 * time.Minute

// WaitFor is a function for shells: wait_for COMMAND repeats a command until it succeeds, and ends the shell when
// that hangs.
const WaitFor = `wait_for() {
	for _ in $(seq 3000); do if "$@"; then return; fi; sleep 0.1; done
	echo "waited in vain: $*" >&2; exit 97
}
`

// Eventually waits until check holds; what says, for a failure, what is waited for.
func Eventually(tb testing.TB, what string, check func() bool) {
	tb.Helper()
	eventually(tb, Hang, what, check)
}

// BeforeAWatchEnds is Eventually for news: the end of a watch, after which a client looks by itself, is none.
func BeforeAWatchEnds(tb testing.TB, what string, check func() bool) {
	tb.Helper()
	eventually(tb, 25*time.Second, what, check)
}

func eventually(tb testing.TB, patience time.Duration, what string, check func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; !check(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(pause)
	}
}

// FreePort returns a TCP port of the loopback interface that was free a moment ago.
func FreePort(tb testing.TB) string {
	tb.Helper()
	port, err := PickPort()
	if err != nil {
		tb.Fatal(err)
	}
	return strconv.Itoa(port)
}

// PickPort is FreePort outside of a test.
func PickPort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// MountsBelow lists the mounts on dir and below it.
func MountsBelow(dir string) []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	const mountPoint = 4 // of the fields, see proc(5)
	blanks := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var list []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) <= mountPoint {
			continue
		}
		at := blanks.Replace(fields[mountPoint])
		if at == dir || strings.HasPrefix(at, dir+"/") {
			list = append(list, at)
		}
	}
	return list
}

// UnmountBelow takes away what a failed test left mounted on dir and below it.
func UnmountBelow(dir string) {
	for _, mounted := range MountsBelow(dir) {
		if err := exec.Command("umount", "-l", mounted).Run(); err != nil {
			_ = exec.Command("fusermount3", "-uz", mounted).Run()
		}
	}
}
