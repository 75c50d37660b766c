package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/line"
	"github.com/svcfs/svcfs/integration/proctest"
)

// E2: svcfs status tells how fast an upload is and how long it will take; an interrupt ends it.
func TestE2StatusTellsTheSpeed(t *testing.T) {
	w, alice, _ := team(t)
	w.url = "http://" + w.line(line.Shape{Up: 256 * kib}).Addr()
	m := alice.mount("m")
	m.lost = true
	cmd := exec.Command("sh", "-c", "head -c 6000000 /dev/urandom >"+m.path("team/big"))
	ok(t, cmd.Start())
	ended := inBackground(cmd.Wait)
	proctest.Eventually(t, "the status tells it", func() bool {
		out := alice.must("status", m.dir)
		return regexp.MustCompile(`pending +1 not uploaded, 1 being sent, .* left\n`).MatchString(out) &&
			regexp.MustCompile(`moving +[\d.]+ (KiB|KB|kB|MB)/s\n`).MatchString(out)
	})
	ok(t, cmd.Process.Signal(syscall.SIGKILL))
	if err := <-ended; err == nil {
		t.Error("it was not interrupted")
	}
	m.kill()
}

// The everyday work of programs on a line with a delay: so many requests, and no more bytes.
// make bench BENCH=network has the times.
func TestRequestsOnALine(t *testing.T) {
	proctest.Need(t, "mount")
	const files, names, content = 10, 200, 4 * kib
	w, alice, _ := team(t)
	src := w.mkdir("src")
	for i := range files {
		write(t, fmt.Sprintf("%s/file-%d", src, i), bytes.Repeat([]byte{byte(i)}, content))
	}
	many := w.mkdir("many")
	for i := range names {
		write(t, fmt.Sprintf("%s/name-%d", many, i), nil)
	}
	alice.must("put", "team", many)
	way := w.line(line.Shape{RoundTrip: 10 * time.Millisecond, Up: 2_500_000, Down: 12_500_000})
	w.url = "http://" + way.Addr()
	for _, tc := range []struct {
		name, known, script string
		requests            int64 // at most, with the looks of the mount itself, and without those that wait for events
		up, down            int64 // bytes, at most
	}{
		{"cp -r", "team", "cp -r " + src + " team/copy", files + 4, files * (content + 6*kib), files * 8 * kib},
		{"reading one after another", "team/copy", "cat team/copy/* >/dev/null", files + 5, (files + 5) * kib,
			files*(content+4*kib) + 16*kib},
		{"ls", "", "test $(ls team/many | wc -l) = 200", 6, 6 * kib, names*kib + 16*kib},
		{"ls -lR", "", "ls -lR team >/dev/null", 6, 6 * kib, (names+files)*kib + 16*kib},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := alice.mount("m")
			defer m.unmount()
			_, err := os.ReadDir(m.path(tc.known))
			ok(t, err)
			before := way.Moved()
			shell(t, m.dir, tc.script)
			proctest.Eventually(t, "nothing is pending", func() bool { return m.control("pending") == "" })
			now := way.Moved()
			requests, up, down := now.Turns-now.Watches-(before.Turns-before.Watches), now.Up-before.Up,
				now.Down-before.Down
			t.Logf("%d requests, %d bytes sent, %d fetched", requests, up, down)
			if requests > tc.requests || up > tc.up || down > tc.down {
				t.Errorf("%d requests, %d bytes sent and %d fetched; at most %d, %d and %d", requests, up, down,
					tc.requests, tc.up, tc.down)
			}
		})
	}
}

// E7: the address of the machine changed, so that the connections of before are silent for ever:
// names come from memory meanwhile, and the mount makes new connections by itself.
func TestE7ChangedAddress(t *testing.T) {
	proctest.Long(t)
	w, alice, bob := team(t)
	b := bob.mount("b")
	write(t, b.path("team/old"), []byte("old"))
	way := w.line(line.Shape{RoundTrip: 10 * time.Millisecond})
	w.url = "http://" + way.Addr()
	a := alice.mount("a")
	shell(t, a.dir, "cat team/old")
	made := way.Moved().Connections
	way.Forget()
	write(t, b.path("team/new"), []byte("new"))
	proctest.Eventually(t, "the new name shows", func() bool {
		if _, err := os.Stat(a.path("team/old")); err != nil {
			t.Errorf("a known name: %v", err)
		}
		_, err := os.Stat(a.path("team/new"))
		return err == nil
	})
	if got := string(read(t, a.path("team/new"))); got != "new" {
		t.Errorf("read %q", got)
	}
	write(t, a.path("team/saved"), []byte("saved"))
	if way.Moved().Connections == made {
		t.Error("no connection was made")
	}
}

// E7, E5, O3: the network asks for a sign-in while mounts are in use: each request gets a page of it, or is led to one.
// Names and what is in memory stay, the rest is the error of a network that is gone, and status and why say what to do.
// What was saved goes by itself once somebody has signed in, once.
func TestE7SignInPages(t *testing.T) {
	w, alice, bob := team(t)
	old := w.mkdir("old")
	for _, name := range []string{"known", "unknown"} {
		write(t, filepath.Join(old, name), []byte("old "+name))
	}
	alice.must("put", "team", old)
	answers := []string{
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>Welcome on board</html>",
		"HTTP/1.1 302 Found\r\nLocation: http://portal.example/\r\nConnection: close\r\n\r\n",
	}
	var ways []*line.Line
	behind := func(p *person, name string, options ...string) *mount {
		way := w.line(line.Shape{})
		ways = append(ways, way)
		w.url = "http://" + way.Addr()
		m := p.mount(name, append(options, "--patience", "0s")...)
		shell(t, m.dir, "cat team/old/known; ls team/old")
		return m
	}
	a, b := behind(alice, "a", "--outbox"), behind(bob, "b")
	for i, way := range ways {
		way.Intercept(answers[i])
	}
	write(t, a.path("team/of-a"), []byte("from a"))
	if err := os.WriteFile(b.path("team/of-b"), []byte("from b"), 0o600); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("a save without an outbox: %v", err)
	}
	for _, m := range []*mount{a, b} {
		if got := string(read(t, m.path("team/old/known"))); got != "old known" {
			t.Errorf("what is in memory reads %q", got)
		}
		if _, err := os.ReadFile(m.path("team/old/unknown")); !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("what is not in memory: %v", err)
		}
		if list, err := os.ReadDir(m.path("team/old")); err != nil || len(list) != 2 {
			t.Errorf("a listing of %d names, %v", len(list), err)
		}
	}
	for _, said := range []string{
		alice.must("status", a.dir), alice.must("why", a.path("team/old/unknown")),
		alice.must("why", a.path("team/of-a")),
		bob.must("status", b.dir), bob.must("why", b.path("team/old/unknown")), bob.must("why", b.path("team/of-b")),
	} {
		if !strings.Contains(said, "a sign-in page of the network answers instead of the service") ||
			!strings.Contains(said, "pen a browser and sign in") {
			t.Errorf("it is not said:\n%s", said)
		}
	}
	for _, way := range ways {
		way.Intercept("")
	}
	proctest.Eventually(t, "all is as if nothing had been", func() bool {
		return a.control("pending") == "" && b.control("pending") == "" &&
			!strings.Contains(alice.must("status", a.dir)+bob.must("status", b.dir), "sign-in")
	})
	for _, m := range []*mount{a, b} {
		if got := string(read(t, m.path("team/old/unknown"))); got != "old unknown" {
			t.Errorf("afterwards %q is read", got)
		}
	}
	if rows := alice.must("ledger", "team"); strings.Count(rows, "\n") != 4 || strings.Count(rows, "of-a") != 1 ||
		strings.Count(rows, "of-b") != 1 {
		t.Errorf("the records are\n%s", rows)
	}
}
