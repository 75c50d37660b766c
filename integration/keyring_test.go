package integration

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// desktopSession starts a session bus with an unlocked keyring for the programs of a world, until the test ends. It
// returns the folder of the keyring.
func (w *world) desktopSession() string {
	w.t.Helper()
	proctest.Need(w.t, "gnome-keyring-daemon")
	home := w.mkdir("desktop")
	w.sessionBus("printf secret | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1",
		"XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_RUNTIME_DIR="+home)
	return home
}

// sessionBus starts a session bus for the programs of a world, runs a command of a shell in it, and returns its
// address and what ends it. It ends with the test.
func (w *world) sessionBus(command string, env ...string) (address string, end func()) {
	w.t.Helper()
	proctest.Need(w.t, "dbus-run-session")
	cmd := exec.Command("dbus-run-session", "--", "sh", "-c",
		command+` && echo "$DBUS_SESSION_BUS_ADDRESS" && exec cat`)
	cmd.Env = w.env(env...)
	in, err := cmd.StdinPipe()
	ok(w.t, err)
	out, err := cmd.StdoutPipe()
	ok(w.t, err)
	cmd.Stderr = w.log
	ok(w.t, cmd.Start())
	end = sync.OnceFunc(func() {
		_ = in.Close() // cat ends, and the session with it
		_ = cmd.Wait()
	})
	w.t.Cleanup(end)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.t.Fatalf("the session said %q, %v\n%s", line, err, w.log)
	}
	address = strings.TrimSpace(line)
	w.vars = append(w.vars, "DBUS_SESSION_BUS_ADDRESS="+address)
	return address, end
}

// O9, O12: with a keyring the names of what waits are known behind a kill of the mount: to svcfs outbox list
// while the service is away, and to the next mount while the service gives no keys. Nothing readable of
// them is on the disk, nor is the key.
func TestO9NamesFromTheKeyring(t *testing.T) {
	w, alice, _ := team(t)
	session := w.desktopSession()
	target, err := url.Parse(w.url)
	ok(t, err)
	var locked atomic.Bool // the vault gives no keys, and records nothing
	proxy := httputil.NewSingleHostReverseProxy(target)
	service := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		vault := r.URL.Path == wire.PathTools+wire.OpOpenJournalKey ||
			r.URL.Path == wire.PathTools+wire.OpFinalizeUploads || strings.HasPrefix(r.URL.Path, wire.PathSealed)
		if locked.Load() && vault {
			out.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(out, r)
	}))
	t.Cleanup(service.Close)
	w.url = service.URL
	content := bytes.Repeat([]byte("canary of the content\n"), 100)

	a := alice.mount("a", "--outbox")
	_, err = os.ReadDir(a.path("team"))
	ok(t, err)
	locked.Store(true)
	write(t, a.path("team/canary-name"), content)
	a.kill()
	w.stop()
	list, code := alice.try("outbox", "list")
	if code != 0 || !strings.Contains(list, " /team/canary-name ") {
		t.Errorf("with the service away: exit %d\n%s", code, list)
	}
	vars := w.vars
	w.vars = nil
	if list, code := alice.try("outbox", "list"); code != 0 || strings.Contains(list, "canary") ||
		!strings.Contains(list, "names of what waits are not known while") || strings.Count(list, "\n") != 2 {
		t.Errorf("without a keyring: exit %d\n%s", code, list)
	}
	w.vars = vars
	w.start()
	w.url = service.URL

	m := alice.mount("m", "--outbox")
	proctest.Eventually(t, "the name shows", func() bool {
		names, err := os.ReadDir(m.path("team"))
		return err == nil && len(names) == 1 && names[0].Name() == "canary-name"
	})
	if info, err := os.Stat(m.path("team/canary-name")); err != nil || info.Size() != int64(len(content)) {
		t.Errorf("stat: %v, %v", info, err)
	}
	if text, err := os.ReadFile(m.path("team/canary-name")); err == nil {
		t.Errorf("without its key %d bytes were read", len(text))
	}
	for _, needle := range []string{"canary-name", "canary of"} {
		for file := range filesWith(t, w, []byte(needle)) {
			if rel, err := filepath.Rel(w.data, file); err == nil && !strings.HasPrefix(rel, "..") {
				continue // the service's
			}
			t.Errorf("%q is in %s", needle, file)
		}
	}
	if files, err := os.ReadDir(session); err != nil || len(files) == 0 {
		t.Errorf("the keyring has no file: %v", err)
	}
	locked.Store(false)
	if out, code := alice.try("sync", m.dir); code != 0 {
		t.Fatalf("sync: %s", out)
	}
	if got := read(t, m.path("team/canary-name")); !bytes.Equal(got, content) {
		t.Errorf("it holds %d bytes", len(got))
	}
}
