package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
)

// E6: from where a running mount reads a key again, and by which rules.
func TestE6PlacesOfKeys(t *testing.T) {
	home := t.TempDir()
	a := newApp(strings.NewReader(""), io.Discard, io.Discard, environment{lookup: func(name string) (string, bool) {
		return map[string]string{"HOME": home}[name], name == "HOME"
	}})
	s := settings{account: "alice.svc.testnet", config: sdk.Config{URL: "http://127.0.0.1:1"}}
	address, err := s.address()
	ok(t, err)
	file, open, link := filepath.Join(home, "key"), filepath.Join(home, "open"), filepath.Join(home, "link")
	store := apikey.KeyFile(filepath.Join(home, ".config/svcfs/keys"))
	ok(t, errors.Join(os.WriteFile(file, []byte("svc_sk_one\n"), 0o600),
		os.WriteFile(open, []byte("svc_sk_two\n"), 0o644), os.Symlink(file, link),
		store.Set(address, s.account, sdk.NewSecret("svc_sk_stored")),
		store.Set(address, "bob.svc.testnet", sdk.NewSecret("svc_sk_bob"))))
	for _, tc := range []struct {
		from        keySource
		key, refuse string // both "": it is not read again
	}{
		{keySource{kind: envKey, value: "svc_sk_env"}, "", ""},
		{keySource{kind: envKeyCommand, value: "echo svc_sk_command"}, "", ""},
		{keySource{kind: envKeyFile, value: "-"}, "", ""},
		{keySource{kind: envKeyFile, value: "/dev/fd/0"}, "", ""},
		{keySource{kind: envKeyFile, value: os.DevNull}, "", ""},
		{keySource{kind: envKeyFile, value: file}, "svc_sk_one", ""},
		{keySource{kind: envKeyFile, value: open}, "", "chmod 600 " + open},
		{keySource{kind: envKeyFile, value: link}, "", "symbolic link"},
		{keySource{kind: store.Name(), via: "svcfs login"}, "svc_sk_stored", ""},
	} {
		s.key = tc.from
		place := a.keyPlace(s)
		if strings.Contains(place, "svc_sk_") || (place == "") != (tc.key == "" && tc.refuse == "") {
			t.Errorf("%+v: the place is %q", tc.from, place)
		}
		if place == "" {
			continue
		}
		key, err := readKeyAgain([]byte(place))
		if string(key) != tc.key || tc.refuse == "" && err != nil || tc.refuse != "" &&
			(err == nil || !strings.Contains(err.Error(), tc.refuse)) {
			t.Errorf("%+v: got %q, %v", tc.from, key, err)
		}
	}
}
