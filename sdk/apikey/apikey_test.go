package apikey_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

const (
	canary  = "svc_sk_canary"
	address = "https://files.example.org"
	alice   = sdk.AccountID("alice.svc.testnet")
)

func file(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// Specification 5.6: every place a key may be, and every reason not to take it
// from there. No error shows what was read.
func TestSources(t *testing.T) {
	t.Setenv("TEST_KEY", canary)
	t.Setenv("TEST_EMPTY", "")
	closed := file(t, "closed", canary+"\nsecond line\n", 0o600)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte(canary), 0o600) }() // waits for the reader
	store := apikey.KeyFile(filepath.Join(t.TempDir(), "new", "keys"))
	if err := store.Set(address, alice, sdk.NewSecret(canary)); err != nil {
		t.Fatal(err)
	}
	stored := func(name, content string, mode os.FileMode) apikey.Source {
		return apikey.Stored(apikey.KeyFile(file(t, name, content, mode)), address, alice)
	}
	long := file(t, "long", strings.Repeat("x", 5000)+canary, 0o600)
	for _, tc := range []struct {
		name   string
		source apikey.Source
		from   string   // "" = no key comes from it
		want   sdk.Kind // then
		hint   string
	}{
		{"environment", apikey.Env("TEST_KEY"), "TEST_KEY", 0, ""},
		{"environment once", apikey.Env("TEST_KEY"), "", sdk.ErrUnauthenticated, "no key is stored"},
		{"empty variable", apikey.Env("TEST_EMPTY"), "", sdk.ErrUnauthenticated, "no key is stored"},
		{"file", apikey.File(closed), closed, 0, ""},
		{"pipe", apikey.File(pipe), pipe, 0, ""},
		{"file of others", apikey.File(file(t, "open", canary, 0o640)), "", sdk.ErrInvalid, "chmod 600 "},
		{"no file", apikey.File(closed + "x"), "", sdk.ErrInvalid, "no such file"},
		{"directory", apikey.File(t.TempDir()), "", sdk.ErrInvalid, "is a directory"},
		{"empty file", apikey.File(file(t, "empty", "\n"+canary, 0o600)), "", sdk.ErrUnauthenticated, "is empty"},
		{"two words", apikey.File(file(t, "words", "svc_sk "+canary, 0o600)), "", sdk.ErrInvalid, "characters that no key has"},
		{"control characters", apikey.File(file(t, "control", canary+"\x1b[2J", 0o600)), "", sdk.ErrInvalid, "characters that no key has"},
		{"command", apikey.Command("printf '"+canary+"\\nmore'", nil), "command", 0, ""},
		{"command fails", apikey.Command("echo "+canary+"; exit 3", nil), "", sdk.ErrUnauthenticated, "the key command"},
		{"command says nothing", apikey.Command("true", nil), "", sdk.ErrUnauthenticated, "is empty"},
		{"store", apikey.Stored(store, address, alice), store.Name(), 0, ""},
		{"store, another address", apikey.Stored(store, "https://other.example.org", alice), "", sdk.ErrUnauthenticated, "no key is stored"},
		{"store, another account", apikey.Stored(store, address, "bob"), "", sdk.ErrUnauthenticated, "no key is stored"},
		{"no store", apikey.Stored(apikey.KeyFile(closed+"x"), address, alice), "", sdk.ErrUnauthenticated, "no key is stored"},
		{"store of others", stored("keys", `{"`+address+`":{"`+string(alice)+`":"`+canary+`"}}`, 0o604), "", sdk.ErrInvalid, "chmod 600 "},
		{"damaged store", stored("keys", `{"`+canary, 0o600), "", sdk.ErrInvalid, "is damaged"},
		{"store of nothing", stored("keys", `null`, 0o600), "", sdk.ErrInvalid, "is damaged"},
		{"store with an empty key", stored("keys", `{"`+address+`":{"`+string(alice)+`":""}}`, 0o600), "", sdk.ErrUnauthenticated, "is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key, from, err := apikey.First(t.Context(), tc.source)
			if tc.from != "" {
				if err != nil || key.Reveal() != canary || from != tc.from {
					t.Errorf("from %q: %v", from, err)
				}
				return
			}
			if !key.IsZero() || sdk.KindOf(err) != tc.want || !strings.Contains(cmp.Or(ownfile.MendOf(err), err.Error()), tc.hint) {
				t.Errorf("kind %q: %v", sdk.KindOf(err), err)
			}
			if strings.Contains(fmt.Sprintf("%v %#v", err, err), canary) {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
	// Half a key would be refused by the service, in words that mislead.
	if key, err := apikey.ReadFile(long); !errors.Is(err, sdk.ErrInvalid) || !key.IsZero() || !strings.Contains(err.Error(), "longer than 4096 bytes") {
		t.Errorf("%d characters of a key, %v", len(key.Reveal()), err)
	}
}

// The first place that has a key counts; one that cannot be used is not passed
// over; what a command complains about is shown.
func TestFirst(t *testing.T) {
	nothing := func(context.Context) (sdk.Secret, string, error) { return sdk.Secret{}, "", apikey.ErrNone }
	open := apikey.File(file(t, "open", canary, 0o644))
	var said bytes.Buffer
	command := apikey.Command("echo locked >&2; echo "+canary, &said)
	if key, from, err := apikey.First(t.Context(), nothing, command, open); err != nil || key.Reveal() != canary || from != "command" || said.String() != "locked\n" {
		t.Errorf("from %q, said %q: %v", from, said.String(), err)
	}
	if _, _, err := apikey.First(t.Context(), nothing, open, command); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("an open file is passed over: %v", err)
	}
	if _, _, err := apikey.First(t.Context()); !errors.Is(err, apikey.ErrNone) || !errors.Is(err, sdk.ErrUnauthenticated) {
		t.Errorf("no source: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := apikey.First(ctx, command); err == nil {
		t.Error("a command runs after the end")
	}
}

// A store keeps what it has when a key is added, closed to others, and leaves
// nothing behind with the last one.
func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "keys")
	store := apikey.KeyFile(path)
	for account, key := range map[sdk.AccountID]string{alice: canary, "bob": "svc_sk_bob"} {
		if err := store.Set(address, account, sdk.NewSecret(key)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for account, key := range map[sdk.AccountID]string{alice: canary, "bob": "svc_sk_bob"} {
		if got, err := store.Get(address, account); err != nil || got.Reveal() != key {
			t.Errorf("%s: %v", account, err)
		}
		if err := store.Remove(address, account); err != nil {
			t.Error(err)
		}
		if err := store.Remove(address, account); !errors.Is(err, apikey.ErrNone) {
			t.Errorf("twice: %v", err)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 || left[0].Name() != "keys.lock" {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Processes that store keys at the same time keep those of each other.
func TestKeyFileIsChangedByOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	const accounts = 20
	var all sync.WaitGroup
	for i := range accounts {
		all.Go(func() {
			err := apikey.KeyFile(path).Set(address, sdk.AccountID(fmt.Sprint(i)), sdk.NewSecret(canary))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range accounts {
		if _, err := apikey.KeyFile(path).Get(address, sdk.AccountID(fmt.Sprint(i))); err != nil {
			t.Errorf("account %d: %v", i, err)
		}
	}
}

// FuzzParse: what is taken as an API key is one word, and is not shown otherwise.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{canary, "svc_sk canary\n", "", "\n", "canary\x00", " canary ", "canarü"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := apikey.Parse(text, "FILE")
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%v", err)
		}
		if err == nil && strings.ContainsFunc(key.Reveal(), unicode.IsSpace) {
			t.Errorf("key %q", key.Reveal())
		}
	})
}
