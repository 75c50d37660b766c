package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
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
	go func() { done <- a.setup(t.Context(), "", true) }()
	at := 0 // what is shown before is seen
	wait := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(proctest.Hang); ; time.Sleep(5 * time.Millisecond) {
			mode, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
			ok(t, err)
			hides := mode.Lflag&unix.ECHO == 0
			if i := strings.Index(p.shown()[at:], text); i >= 0 && hides == strings.Contains(text, "not shown") {
				at += i + len(text)
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no %q on the terminal: %q", text, p.shown())
			}
		}
	}
	for _, step := range [][2]string{
		{"Service, its address or mainnet or testnet, or an invite: ", ""}, {"Service, its address or mainnet or testnet, or an invite: ", "nowhere"}, {"Service, its address or mainnet or testnet, or an invite: ", s.URL},
		{"Account: ", string(alice.ID)}, {"(not shown): ", "svc_sk_wrong"}, {"Account: ", string(alice.ID)}, {"(not shown): ", alice.Key.Reveal()},
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
	config, err := os.ReadFile(filepath.Join(home, ".config/svcfs/config"))
	if want := "SVC_ACCOUNT_ID=" + string(alice.ID) + "\nSVC_URL=" + s.URL + "\n"; err != nil || string(config) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, config, want)
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
		} else if _, err := p.master.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		if err := a.setup(ctx, "", true); err == nil {
			t.Errorf("%q: no error", typed)
		}
		cancel()
		_, _ = p.master.WriteString("\n") // ends the read
		_ = p.slave.Close()
	}
}
