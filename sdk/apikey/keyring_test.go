package apikey_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
)

// inKeyring names the variable that says: this is the child on a bus of its own.
const inKeyring = "SVCFS_TEST_KEYRING"

// The system keyring itself, on a session bus of its own.
func TestSystemKeyring(t *testing.T) {
	if os.Getenv(inKeyring) != "" {
		useKeyring(t)
		return
	}
	proctest.Need(t, "dbus-run-session", "gnome-keyring-daemon")
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "dbus-run-session", "--", "sh", "-c",
		`printf secret | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1 && exec "$0" -test.run='^TestSystemKeyring$' -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), inKeyring+"=1", "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_RUNTIME_DIR="+home)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestSystemKeyring") {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the keyring that ends takes its sockets along
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "svc_sk_canary") {
			t.Errorf("the key lies open in %s", path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func useKeyring(t *testing.T) {
	k := apikey.Keyring(nil)
	const address, account = "https://files.example.org", sdk.AccountID("alice.svc.testnet")
	if _, err := k.Get(address, account); !errors.Is(err, apikey.ErrNone) {
		t.Fatalf("empty: %v", err)
	}
	if err := k.Set(address, account, sdk.NewSecret("svc_sk_canary")); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Get(address, account); err != nil || got.Reveal() != "svc_sk_canary" {
		t.Errorf("%d characters, %v", len(got.Reveal()), err)
	}
	for _, other := range []struct {
		address string
		account sdk.AccountID
	}{{"https://other.example.org", account}, {address, "bob.svc.testnet"}} {
		if _, err := k.Get(other.address, other.account); !errors.Is(err, apikey.ErrNone) {
			t.Errorf("%v: %v", other, err)
		}
	}
	file := apikey.KeyFile(filepath.Join(t.TempDir(), "keys"))
	if err := file.Set(address, account, sdk.NewSecret("svc_sk_filed")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ key, from string }{{"svc_sk_canary", "system keyring"}, {"svc_sk_filed", file.Name()}} {
		key, from, err := apikey.First(t.Context(), apikey.Stored(k, address, account), apikey.Stored(file, address, account))
		if err != nil || key.Reveal() != want.key || from != want.from {
			t.Errorf("from %s: %v; want %s", from, err, want.from)
		}
		err = k.Remove(address, account)
		if gone := want.key == "svc_sk_filed"; err != nil && (!gone || !errors.Is(err, apikey.ErrNone)) || err == nil && gone {
			t.Errorf("remove: %v", err)
		}
	}
}

// Without a session bus there is no keyring, and nothing is started to make one.
func TestNoKeyring(t *testing.T) {
	k := apikey.Keyring(func(string) string { return "" })
	if err := k.Set("https://files.example.org", "alice", sdk.NewSecret("x")); err == nil || errors.Is(err, apikey.ErrNone) {
		t.Errorf("set: %v", err)
	}
	if _, err := k.Get("https://files.example.org", "alice"); !errors.Is(err, apikey.ErrNone) {
		t.Errorf("get: %v", err)
	}
}
