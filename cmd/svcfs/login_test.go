package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
)

// A key is asked for at a terminal without showing it; the end of the input and
// an interrupt end the question, and the terminal is as before.
func TestLoginAtATerminal(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		check       func(key sdk.Secret, err error) bool
	}{
		{"a key", "svc_sk_typed\n", func(key sdk.Secret, err error) bool {
			return err == nil && key.Reveal() == "svc_sk_typed"
		}},
		{"nothing", "\n", isEmptyKey},
		{"end of input", "\x04", isEmptyKey},
		{"interrupt", "", func(_ sdk.Secret, err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := openTerminal(t, 80)
			defer p.slave.Close()
			before, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			a := testApp(t, nil, "")
			a.stdin, a.ui = p.slave, newTerminal(p.slave, p.slave)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.typed == "" {
				cancel()
			} else if _, err := p.master.WriteString(tc.typed); err != nil {
				t.Fatal(err)
			}
			key, err := a.askKey(ctx, settings{account: "alice"}, "http://h")
			if !tc.check(key, err) {
				t.Errorf("%q, %v", key.Reveal(), err)
			}
			if after, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS); err != nil || *after != *before {
				t.Errorf("the terminal was left in another state: %v", err)
			}
		})
	}
}

func isEmptyKey(_ sdk.Secret, err error) bool {
	return exitCodeOf(err) == exitAuth && strings.Contains(err.Error(), "the API key from the terminal is empty") &&
		hintFor(err) != ""
}

// A key is in one store: which of two is valid, nobody could tell.
func TestAKeyIsInOneStore(t *testing.T) {
	home := t.TempDir()
	s := settings{account: "alice.svc.testnet"}
	const address = "http://127.0.0.1:1"
	var asked error
	ring := newKeyring(t, func() error { return asked })
	login := func(key string, toFile bool, says string) {
		t.Helper()
		a := testApp(t, map[string]string{"HOME": home}, "")
		var said strings.Builder
		a.keyring, a.ui = ring, newTerminal(io.Discard, &said)
		s.config.APIKey = sdk.NewSecret(key)
		_, err := a.storeKey(s, address, toFile)
		ok(t, err)
		if !strings.Contains(said.String(), says) || says == "" && said.String() != "" {
			t.Errorf("%s: it says %q, want %q", key, said.String(), says)
		}
		if asked != nil {
			return
		}
		var have []string
		for _, store := range a.keyStores() {
			got, err := store.Get(address, s.account)
			if !errors.Is(err, apikey.ErrNone) {
				ok(t, err)
				have = append(have, got.Reveal())
			}
		}
		if len(have) != 1 || have[0] != key {
			t.Errorf("%s was stored, the stores have %v", key, have)
		}
	}
	login("svc_sk_1", false, "")
	login("svc_sk_2", true, "is gone from: system keyring\n")
	login("svc_sk_3", true, "")
	login("svc_sk_4", false, "is gone from: "+filepath.Join(home, ".config/svcfs/keys")+"\n")
	asked = errors.New("it does not answer")
	login("svc_sk_5", true, "the system keyring could not be asked: it does not answer; a key may be left in it\n")
	asked = apikey.ErrNoBus
	login("svc_sk_6", true, "")
	login("svc_sk_7", false, "cannot take it: there is no session bus; an older key may be left in it\n")
}
