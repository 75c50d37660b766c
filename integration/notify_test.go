package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/svcfs/svcfs/integration/proctest"
)

// shownMessages is the part of a desktop that shows notifications.
type shownMessages struct {
	mu   sync.Mutex
	list []string // title, body
}

func (s *shownMessages) GetCapabilities() ([]string, *dbus.Error) {
	return []string{"body", "body-markup"}, nil
}

func (s *shownMessages) Notify(_ string, _ uint32, _, title, body string, _ []string, hints map[string]dbus.Variant,
	_ int32) (uint32, *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, fmt.Sprint(hints["desktop-entry"].Value(), "\n", title, "\n", body))
	return uint32(len(s.list)), nil
}

func (s *shownMessages) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.list...)
}

// showMessages is a desktop on the bus at address.
func showMessages(t *testing.T, address string) *shownMessages {
	t.Helper()
	conn, err := dbus.Connect(address)
	ok(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s := &shownMessages{}
	ok(t, conn.Export(s, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"))
	_, err = conn.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue)
	ok(t, err)
	return s
}

// svcfs notify tells each kind of failure once, in the words of a desktop, and asks the service for
// nothing. One runs in a session, and it ends with the session; without a session it ends at once.
func TestNotify(t *testing.T) {
	w, alice, bob := team(t)
	if out, code := alice.try("notify"); code != 0 || out != "svcfs: there is no session bus: nothing to do\n" {
		t.Errorf("without a session: exit %d, %q", code, out)
	}
	address, end := w.sessionBus("true")
	desktop := showMessages(t, address)
	fee := strings.Fields(alice.must("fee", "upload"))[0]
	a, b := alice.mount("a", "--budget", fee), bob.mount("b")
	a.lost = true                                                // what is beyond her budget
	cmd := alice.command("notify", "--interval", "100ms", w.dir) // other tests have mounts, too
	out := &safeBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	ok(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	told := func(title string, rest ...string) {
		t.Helper()
		proctest.Eventually(t, "a message: "+title, func() bool {
			for _, m := range desktop.all() {
				if strings.HasPrefix(m, "svcfs\n"+title+"\n") {
					for _, text := range rest {
						if !strings.Contains(m, text) {
							t.Errorf("no %q in\n%s", text, m)
						}
					}
					return true
				}
			}
			return false
		})
	}

	write(t, a.path("team/f"), []byte("base"))
	told("Most of the budget is spent", "“"+a.dir+"”: "+fee+" of "+fee+" tokens are spent", "svcfs cost "+a.dir)
	if err := os.WriteFile(a.path("team/<b>&"), []byte("too much"), 0o600); err == nil {
		t.Error("saved beyond the budget")
	}
	told("A save is not uploaded", "“"+a.path("team/&lt;b&gt;&amp;")+"”", "Mount again with a larger --budget",
		"svcfs why "+a.dir)

	read(t, b.path("team/f"))
	f, err := os.OpenFile(b.path("team/f"), os.O_WRONLY, 0)
	ok(t, err)
	_, err = f.Write([]byte("bob's"))
	ok(t, err)
	src := w.mkdir("src") + "/f"
	write(t, src, []byte("alice's"))
	alice.must("put", "team", src)
	ok(t, f.Close())
	told("Somebody else saved the same file", "“"+b.path("team/f")+"”", "See both, and settle it")

	if out, code := alice.try("notify"); code != 0 ||
		out != "svcfs: another svcfs notify runs in this session: nothing to do\n" {
		t.Errorf("a second one: exit %d, %q", code, out)
	}
	ledger := alice.must("ledger", "team", "--json")
	alice.must("group", "revoke", "team", "bob.svc.testnet")
	proctest.Eventually(t, "bob sees no group", func() bool {
		list, err := os.ReadDir(b.dir)
		return err == nil && len(list) == 0
	})
	told("You are no longer a member of a group", "“"+b.path("team")+"”", "Ask the owner of the group")
	if got := alice.must("ledger", "team", "--json"); strings.Count(got, "upload") != strings.Count(ledger, "upload") ||
		strings.Count(got, "retrieve") != strings.Count(ledger, "retrieve") {
		t.Errorf("the looks are in the ledger:\n%s", got)
	}

	c := alice.mount("c")
	proctest.Eventually(t, "the mount is known", func() bool { return strings.Contains(alice.must("status"), c.dir) })
	b.kill()
	told("A mount died", "“"+b.dir+"”", "svcfs mount "+b.dir)
	c.unmount() // in order: nobody is told
	ok(t, cmd.Process.Signal(syscall.Signal(0)))
	end()
	if err := cmd.Wait(); err != nil || out.String() != "" {
		t.Errorf("behind the end of the session: %v, %q", err, out)
	}
	if list := desktop.all(); len(list) != 5 {
		t.Errorf("%d messages, want each kind once:\n%s", len(list), strings.Join(list, "\n\n"))
	}
}

// What the package svcfs-desktop gives to desktops is what they expect.
func TestDesktopEntries(t *testing.T) {
	proctest.Need(t, "desktop-file-validate")
	entries, err := filepath.Glob("../packaging/desktop/*.desktop")
	if err != nil || len(entries) < 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if out, err := exec.Command("desktop-file-validate", entries...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
