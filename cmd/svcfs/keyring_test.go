package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

// inKeyring names the variable that says: this is the child on a bus of its own.
const inKeyring = "SVCFS_TEST_KEYRING"

// The system keyring itself, on a session bus of its own.
func TestSystemKeyring(t *testing.T) {
	if os.Getenv(inKeyring) != "" {
		useKeyring(t)
		return
	}
	for program, pkg := range map[string]string{"dbus-run-session": "dbus-daemon", "gnome-keyring-daemon": "gnome-keyring"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is missing: apt-get install %s", program, pkg)
		}
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "dbus-run-session", "--", "sh", "-c",
		`printf secret | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1 && exec "$0" -test.run='^TestSystemKeyring$' -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), inKeyring+"=1", "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_RUNTIME_DIR="+home)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestSystemKeyring") {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "svc_sk_canary") {
			t.Errorf("the key lies open in %s", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func useKeyring(t *testing.T) {
	k := systemKeyring{processEnv()}
	const address, account = "https://files.example.org", sdk.AccountID("alice.svc.testnet")
	if _, err := k.get(address, account); !errors.Is(err, errNoKey) {
		t.Fatalf("empty: %v", err)
	}
	if err := k.set(address, account, sdk.NewSecret("svc_sk_canary")); err != nil {
		t.Fatal(err)
	}
	if got, err := k.get(address, account); err != nil || got != "svc_sk_canary" {
		t.Errorf("%d characters, %v", len(got), err)
	}
	for _, other := range []struct {
		address string
		account sdk.AccountID
	}{{"https://other.example.org", account}, {address, "bob.svc.testnet"}} {
		if _, err := k.get(other.address, other.account); !errors.Is(err, errNoKey) {
			t.Errorf("%v: %v", other, err)
		}
	}
	// It comes before the file.
	a := testApp(t, map[string]string{"HOME": t.TempDir(), envAccount: string(account), "SVC_AUTH_URL": address}, "")
	a.keyring = k
	s, err := a.loadSettings()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.resolveKey(t.Context(), &s); err != nil || s.config.APIKey.Reveal() != "svc_sk_canary" || s.key.String() != "system keyring (from svcfs login)" {
		t.Errorf("%v from %s", err, s.key)
	}
	if err := k.remove(address, account); err != nil {
		t.Fatal(err)
	}
	if err := k.remove(address, account); !errors.Is(err, errNoKey) {
		t.Errorf("twice: %v", err)
	}
}

// Without a session bus there is no keyring, and nothing is started to make one.
func TestNoKeyring(t *testing.T) {
	k := systemKeyring{environment{lookup: func(string) (string, bool) { return "", false }}}
	if err := k.set("https://files.example.org", "alice", sdk.NewSecret("x")); err == nil || errors.Is(err, errNoKey) {
		t.Errorf("%v", err)
	}
}
