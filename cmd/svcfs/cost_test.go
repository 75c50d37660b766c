package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
)

// A mount's prices are text from elsewhere: what is no price is refused, and so is
// a sum that cannot be counted.
func TestCostRefusesWhatIsNoPrice(t *testing.T) {
	most := "340282366920938.463463374607431768211455" // 2^128-1 yocto
	for _, tc := range []struct {
		name   string
		prices []string
		want   string
	}{
		{"nonsense", []string{"cheap"}, "ask the price of "},
		{"empty", []string{""}, "ask the price of "},
		{"negative", []string{"-1"}, "ask the price of "},
		{"more than fits", []string{strings.Repeat("9", maxPriceText+1)}, "ask the price of "},
		{"sum", []string{most, most}, "the sum of the prices is beyond what can be counted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var doc costDoc
			var total sdk.Amount
			var err error
			for _, price := range tc.prices {
				path := filepath.Join(t.TempDir(), "f")
				ok(t, os.WriteFile(path, nil, 0o600))
				ok(t, unix.Setxattr(path, "user.svcfs.price", []byte(price), 0))
				if err == nil {
					err = doc.add(path, &total)
				}
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) || exitCodeOf(err) != exitOther ||
				hintFor(err) == "" {
				t.Errorf("%v, exit %d, hint %q", err, exitCodeOf(err), hintFor(err))
			}
		})
	}
}

// Threat 18: a mount of another user is not believed which process serves it.
func TestThreat18MountsNameTheirOwnProcesses(t *testing.T) {
	program := filepath.Join(t.TempDir(), "svcfs-x")
	sleep, err := exec.LookPath("sleep")
	ok(t, err)
	content, err := os.ReadFile(sleep)
	ok(t, err)
	ok(t, os.WriteFile(program, content, 0o700))
	cmd := exec.Command(program, "1000")
	ok(t, cmd.Start())
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	status := &report.Status{PID: cmd.Process.Pid}
	for user, want := range map[int]bool{os.Geteuid(): true, os.Geteuid() + 1: false, -1: false, 0: true} {
		if got := (mountState{Status: status}).isServed(user); got != want {
			t.Errorf("a mount of user %d names a process of user %d: %v", user, os.Geteuid(), got)
		}
	}
	if (mountState{Status: &report.Status{PID: os.Getppid()}}).isServed(os.Geteuid()) || (mountState{}).isServed(0) {
		t.Error("a process that is not ours, or none")
	}
	if got := userOf(t.TempDir()); got != -1 {
		t.Errorf("user %d mounted a folder", got)
	}
}

// What a mount left for umount is read once; a damaged report is an error.
func TestTakeLeft(t *testing.T) {
	state := t.TempDir()
	a := testApp(t, map[string]string{"XDG_STATE_HOME": state}, "")
	if left, err := takeLeft(a.leftPath(1)); left != nil || err != nil {
		t.Errorf("without a report: %v, %v", left, err)
	}
	path := a.leftPath(1)
	ok(t, os.MkdirAll(filepath.Dir(path), 0o700))
	ok(t, os.WriteFile(path, []byte("damaged"), 0o600))
	_, err := takeLeft(path)
	if err == nil || !strings.HasPrefix(err.Error(), "read "+path+": ") || exitCodeOf(err) != exitOther ||
		hintFor(err) == "" {
		t.Errorf("%v, exit %d, hint %q", err, exitCodeOf(err), hintFor(err))
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the report is still there: %v", err)
	}
}
