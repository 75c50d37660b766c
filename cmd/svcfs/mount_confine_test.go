package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/sdk/confine"
	"github.com/svcfs/svcfs/sdk/trust"
)

// envConfined is the folder in which this test binary acts as a confined mount.
const envConfined = "SVCFS_TEST_CONFINED"

// actConfined confines itself as a mount does and tells what it can still do.
func actConfined(home string) int {
	a := newApp(os.Stdin, os.Stdout, os.Stderr, environment{lookup: func(name string) (string, bool) {
		if name != "HOME" {
			return "", false
		}
		return home, true
	}})
	log := filepath.Join(home, "logs", "mount.log")
	l, err := openLogFile(log, 10)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if err := a.confine(mountPlan{flags: &mountFlags{logFile: log}}); err != nil {
		fmt.Println(err)
		return 1
	}
	try := func(what string, err error) {
		word := "done"
		switch {
		case errors.Is(err, os.ErrPermission):
			word = "refused"
		case err != nil:
			word = err.Error()
		}
		fmt.Printf("%s: %s\n", what, word)
	}
	read := func(path string) error {
		_, err := os.ReadFile(path)
		return err
	}
	state, config := filepath.Join(home, ".local/state/svcfs"), filepath.Join(home, ".config/svcfs")
	try("a private file", read(filepath.Join(home, "private")))
	try("a list of the home", func() error { _, err := os.ReadDir(home); return err }())
	try("a new file at home", os.WriteFile(filepath.Join(home, "new"), nil, 0o600))
	try("the keys", read(filepath.Join(config, "keys")))
	try("new settings", os.WriteFile(filepath.Join(config, "new"), nil, 0o600))
	try("a program", exec.Command("/bin/true").Run())
	try("a mount", syscall.Mount("x", home, "tmpfs", 0, ""))
	_, first := l.Write([]byte("first line\n"))
	_, second := l.Write([]byte("second line\n")) // puts the first aside
	try("a log put aside", errors.Join(first, second, read(log), read(log+".1")))
	memory, err := trust.Open(filepath.Join(state, "trust-x.json"), trust.Of{})
	if err == nil {
		memory.Pin("key")
		err = memory.Close()
	}
	try("what was seen", err)
	try("a file of the state", errors.Join(os.WriteFile(filepath.Join(state, ".new"), []byte("x"), 0o600),
		os.Rename(filepath.Join(state, ".new"), filepath.Join(state, "left")), read(filepath.Join(state, "left")),
		os.Remove(filepath.Join(state, "left"))))
	try("name resolution", read("/etc/hosts"))
	try("processes", read("/proc/self/status"))
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "NoNewPrivs") {
			fmt.Print(line)
		}
	}
	return 0
}

// Threat 19: what a mount may still do once it is up.
func TestThreat19ConfinedMountOpensOnlyItsOwn(t *testing.T) {
	home := t.TempDir()
	keys := filepath.Join(home, ".config/svcfs/keys")
	if err := errors.Join(os.MkdirAll(filepath.Dir(keys), 0o700), os.Mkdir(filepath.Join(home, "logs"), 0o700),
		os.WriteFile(keys, []byte("x"), 0o600),
		os.WriteFile(filepath.Join(home, "private"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), envConfined+"="+home)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	refused := []string{"a private file", "a list of the home", "a new file at home", "the keys", "new settings",
		"a program"}
	if os.Geteuid() == 0 {
		refused = append(refused, "a mount") // others may never
	}
	if _, err := confine.Supported(); err != nil {
		t.Log("no landlock here: only no_new_privs is tested")
		refused = nil
	}
	for _, what := range refused {
		if !strings.Contains(out.String(), what+": refused\n") {
			t.Errorf("%s is not refused", what)
		}
	}
	for _, what := range []string{"a log put aside", "what was seen", "a file of the state", "name resolution",
		"processes"} {
		if !strings.Contains(out.String(), what+": done\n") {
			t.Errorf("%s does not work", what)
		}
	}
	if !strings.Contains(out.String(), "NoNewPrivs:\t1\n") {
		t.Error("it can gain rights")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
