package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// On a terminal setup asks each question until its answer is good, and shows no key.
func TestSetupAtATerminal(t *testing.T) {
	s := testkit.Start(t, testkit.Ours)
	alice := s.Account("alice", "10")
	home := t.TempDir()
	p := openTerminal(t, 200)
	a := testApp(t, map[string]string{"HOME": home}, "")
	t.Setenv("PATH", "/nowhere") // no systemctl
	defer p.slave.Close()
	a.stdin, a.ui = p.slave, newTerminal(p.slave, p.slave)
	done := make(chan error, 1)
	go func() { done <- a.setup(t.Context(), "", true, false) }()
	at := 0 // what is shown before is seen
	wait := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(proctest.Hang); ; time.Sleep(5 * time.Millisecond) {
			mode, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
			ok(t, err)
			want := uint32(0) // setup shows what is typed
			if strings.Contains(text, "not shown") {
				want = unix.ICANON
			} else if strings.HasPrefix(text, "mount it") {
				want = unix.ICANON | unix.ECHO
			}
			if i := strings.Index(p.shown()[at:], text); i >= 0 && mode.Lflag&(unix.ICANON|unix.ECHO) == want {
				at += i + len(text)
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no %q on the terminal: %q", text, p.shown())
			}
		}
	}
	for _, step := range [][2]string{
		{"Service, its address or mainnet or testnet, or an invite: ", ""},
		{"Service, its address or mainnet or testnet, or an invite: ", "nowhere"},
		{"Service, its address or mainnet or testnet, or an invite: ", s.URL},
		{"Account: ", alice.Key.Reveal()},
		{"Account: ", string(alice.ID)}, {"(not shown): ", "svc_sk_wrong"}, {"Account: ", string(alice.ID)},
		{"(not shown): ", alice.Key.Reveal()},
		{"groups]: ", "relative"}, {"groups]: ", ""},
	} {
		wait(step[0])
		if _, err := p.master.WriteString(step[1] + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	wait("mount it with: svcfs mount --background " + filepath.Join(home, "groups"))
	ok(t, <-done)
	if strings.Contains(p.shown(), alice.Key.Reveal()) {
		t.Error("the key was shown")
	}
	if !strings.Contains(p.shown(), "'svcfs group join'") {
		t.Error("nothing says how to get to a group")
	}
	config, err := os.ReadFile(filepath.Join(home, ".config/svcfs/config"))
	if want := "SVC_ACCOUNT_ID=" + string(alice.ID) + "\nSVC_URL=" + s.URL + "\n"; err != nil ||
		string(config) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, config, want)
	}
}

// An account in the settings is not replaced without a word, and an invite that is pasted on a terminal is not shown.
func TestSetupKeepsTheAccountAndHidesTheInvite(t *testing.T) {
	home := t.TempDir()
	p := openTerminal(t, 200)
	a := testApp(t, map[string]string{"HOME": home}, "")
	a.stdin, a.ui = p.slave, newTerminal(p.slave, p.slave)
	path := filepath.Join(home, ".config/svcfs/config")
	ok(t, os.MkdirAll(filepath.Dir(path), 0o700))
	const before = "SVC_ACCOUNT_ID=alice.svc.testnet\nSVC_URL=http://127.0.0.1:1\n"
	ok(t, os.WriteFile(path, []byte(before), 0o600))
	invite := wire.Invite{URL: "http://127.0.0.1:1", Contract: "svc.testnet", LogKey: "x", Account: "bob.svc.testnet",
		Secret: "s"}.Text()
	done := make(chan error, 1)
	go func() { done <- a.setup(t.Context(), "", true, false) }()
	for _, step := range [][2]string{{`an invite \[http://127.0.0.1:1\]: $`, invite + "\n"},
		{`hint: .* svcfs setup --replace\r\nService.*: $`, "\x04"}} {
		p.until(step[0], func() {})
		_, err := p.master.WriteString(step[1])
		ok(t, err)
	}
	if <-done == nil {
		t.Error("the account was replaced")
	}
	_ = p.slave.Close()
	<-p.done
	if shown := p.shown(); strings.Contains(shown, invite) || !strings.Contains(shown, "svcfs-invite-…\r\n") ||
		!strings.Contains(shown, "has alice.svc.testnet at http://127.0.0.1:1 already") {
		t.Errorf("shown: %q", shown)
	}
	if config, err := os.ReadFile(path); err != nil || string(config) != before {
		t.Errorf("%v: %s", err, config)
	}
}

// Whose account an invite makes is said before anything is made of it.
func TestSetupSaysWhoseInviteItIs(t *testing.T) {
	p := openTerminal(t, 200)
	a := testApp(t, map[string]string{"HOME": t.TempDir()}, "")
	a.stdin, a.ui = p.slave, newTerminal(p.slave, p.slave)
	invite := wire.Invite{URL: "http://127.0.0.1:1", Contract: "svc.testnet", LogKey: "x", Account: "bob.svc.testnet",
		Secret: "s"}.Text()
	done := make(chan error, 1)
	go func() { done <- a.setup(t.Context(), "", true, false) }()
	for _, step := range [][2]string{
		{`an invite: $`, invite + "\n"},
		{`the invite makes account bob\.svc\.testnet at http://127\.0\.0\.1:1/?\S*\r\nFolder .*: $`, "\x04"},
	} {
		p.until(step[0], func() {})
		_, err := p.master.WriteString(step[1])
		ok(t, err)
	}
	if <-done == nil {
		t.Error("the account was made")
	}
	_ = p.slave.Close()
	<-p.done
}

// What is required of the log of a service stays in the settings, and does not come along to another service.
func TestSetupKeepsWhatIsRequiredOfTheLog(t *testing.T) {
	const key = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
	const witness = "witness.example/1+a10c19f4+BAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	const was, other = "http://127.0.0.1:1", "http://127.0.0.1:2"
	pins := "SVC_LOG_KEY=" + key + "\nSVC_WITNESS=" + witness + "\nSVC_WITNESS_AGE=1h0m0s\n"
	for _, tc := range []struct {
		name, before, now string
		flags             settingFlags
		want              string
		dropped           int
	}{
		{"given at the first time", "", was, settingFlags{logKey: key, witness: witness, witnessAge: "1h"}, pins, 0},
		{"the same service", "SVC_URL=" + was + "/\n" + pins, was, settingFlags{}, pins, 0},
		{"the first service", pins, was, settingFlags{}, pins, 0},
		{"another service", "SVC_URL=" + was + "\n" + pins, other, settingFlags{}, "", 3},
		{"another service with the same witness", "SVC_URL=" + was + "\n" + pins, other, settingFlags{witness: witness},
			"SVC_WITNESS=" + witness + "\n", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := testApp(t, map[string]string{}, "")
			a.flags = tc.flags
			a.flags.config = writeFile(t, "config", tc.before, 0o600)
			old, err := a.settingsWithoutKey(a.flags.config)
			ok(t, err)
			s, err := a.closedSettings()
			ok(t, err)
			q := &setupSteps{a: a, s: s, old: old}
			ok(t, q.takeInvite(wire.Invite{URL: tc.now, Contract: "svc.testnet", LogKey: "x",
				Account: "bob.svc.testnet", Secret: "s"}.Text()))
			text, err := q.configText(a.flags.config)
			ok(t, err)
			want := "SVC_ACCOUNT_ID=bob.svc.testnet\nSVC_URL=" + tc.now + "\nSVC_CONTRACT_ID=svc.testnet\n" + tc.want
			if string(text) != want || len(q.unpinned) != tc.dropped {
				t.Errorf("%s\nwant\n%s\n%q end", text, want, q.unpinned)
			}
		})
	}
}

// fakeKeyring is a keyring that has its keys in a file.
type fakeKeyring struct {
	apikey.Store
	asked func() error // before a key is changed
}

func newKeyring(t *testing.T, asked func() error) fakeKeyring {
	return fakeKeyring{apikey.KeyFile(filepath.Join(t.TempDir(), "keyring")), asked}
}

func (fakeKeyring) Name() string { return "system keyring" }

func (k fakeKeyring) Set(address string, account sdk.AccountID, key sdk.Secret) error {
	return cmp.Or(k.asked(), k.Store.Set(address, account, key))
}

func (k fakeKeyring) Remove(address string, account sdk.AccountID) error {
	return cmp.Or(k.asked(), k.Store.Remove(address, account))
}

// While the keyring asks the user, the key that an invite gave and the settings are kept: a process that ends then
// loses nothing.
func TestSetupKeepsTheKeyBeforeItAsksTheKeyring(t *testing.T) {
	s := testkit.Start(t, testkit.Ours)
	balance, err := wire.ParseTokens("3")
	ok(t, err)
	_, invite, err := s.Service.Invite(t.Context(), "bob", balance, s.URL)
	ok(t, err)
	home := t.TempDir()
	a := testApp(t, map[string]string{"HOME": home}, "")
	t.Setenv("PATH", "/nowhere") // no systemctl
	whoami := func() error {
		later := testApp(t, map[string]string{"HOME": home}, "")
		c, _, err := later.client(t.Context())
		if err == nil {
			_, err = c.AuthStatus(t.Context())
			err = errors.Join(err, c.Close())
		}
		return err
	}
	meanwhile := errors.New("the keyring is not asked")
	a.keyring = newKeyring(t, func() error {
		meanwhile = whoami()
		return nil
	})
	ok(t, a.setup(t.Context(), invite.Text(), false, false))
	if meanwhile != nil {
		t.Error(meanwhile)
	}
}

// What is typed is shown and can be taken back; of an invite all is taken back at once.
func TestTypingIsShown(t *testing.T) {
	for typed, want := range map[string][2]string{
		"abX\x7fc\n":   {"abc\n", "abX\b \bc\n"},
		"\x7fé\x08è\n": {"è\n", "é\b \bè\n"},
		"a\x1b[Db\x1b[1;5Cc\x1b[3~d\x1bOPe\x1b[[Af\x1bxg\n": {"abcdefg\n", "abcdefg\n"},
		"svc_sk_ab\n":         {"svc_sk_ab\n", "svc_sk_…\n"},
		"ab\x15c\x1b\n":       {"c\n", "ab\b \b\b \bc\n"},
		" svcfs-invite-eyJ\n": {" svcfs-invite-eyJ\n", " svcfs-invite-…\n"},
		"svcfs-invite-eyJ\x7fabc\nnext\n\x04": {"abc\nnext\n",
			"svcfs-invite-…" + strings.Repeat("\b \b", 14) + "abc\nnext\n"},
	} {
		var shown strings.Builder
		got, err := io.ReadAll(&typing{from: strings.NewReader(typed), to: &shown})
		if err != nil || string(got) != want[0] || shown.String() != want[1] {
			t.Errorf("%q: %v, read %q, shown %q", typed, err, got, shown.String())
		}
	}
}

// An interrupt and the end of the input end a question.
func TestSetupStops(t *testing.T) {
	for _, typed := range []string{"\x04", ""} {
		p := openTerminal(t, 80)
		a := testApp(t, map[string]string{"HOME": t.TempDir()}, "")
		a.stdin, a.ui = p.slave, newTerminal(p.slave, p.slave)
		ctx, cancel := context.WithTimeout(t.Context(), proctest.Hang)
		if typed == "" {
			cancel()
		} else {
			go func() {
				p.until("an invite: $", func() {})
				_, _ = p.master.WriteString(typed)
			}()
		}
		if err := a.setup(ctx, "", true, false); err == nil {
			t.Errorf("%q: no error", typed)
		}
		cancel()
		_, _ = p.master.WriteString("\n") // ends the read
		_ = p.slave.Close()
	}
}

// Threat 75: what is written into the settings is read as the same values and as nothing else, or refused.
func TestThreat75SettingsAreWhatWasMeant(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	writes := func(s sdk.Config, account string) error {
		return (&setupSteps{s: settings{account: sdk.AccountID(account), config: s}}).writeConfig(path)
	}
	for _, bad := range []string{"svc.testnet\nSVC_API_KEY_COMMAND=x", "a\r\nb", "'quoted'", " padded "} {
		for what, err := range map[string]error{
			"account":  writes(sdk.Config{URL: "http://s"}, bad),
			"contract": writes(sdk.Config{URL: "http://s", ContractID: bad}, "a"),
			"address":  writes(sdk.Config{URL: bad}, "a"),
		} {
			if err == nil {
				t.Errorf("the %s %q is taken", what, bad)
			}
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
	if err := writes(sdk.Config{URL: "http://s", ContractID: "a=b"}, "a"); err != nil {
		t.Error(err)
	}
	if _, err := sdk.New("a", sdk.Config{URL: "http://s", ContractID: "svc.testnet\nx"}); err == nil {
		t.Error("a contract of two lines")
	}
}
