package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

const bashCompletion = "/usr/share/bash-completion/bash_completion"

// completionWorld is a service with groups and files; it returns the
// environment of their owner.
func completionWorld(t *testing.T) []string {
	t.Helper()
	s, alice, c := newHosted(t, testkit.Ours)
	for _, g := range []sdk.GroupID{"team", "tests", "other"} {
		if _, err := c.Group(g).Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"quarterly figures.txt", "notes/today.txt", "it's $(touch pwned).txt"} {
		if _, err := c.Group("team").Put(t.Context(), name, bytes.NewReader([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TERM=xterm",
		envURL + "=" + s.URL, envAccount + "=" + string(alice.ID), envKey + "=" + alice.Key.Reveal()}
}

// typist is a shell on a terminal of its own.
type typist struct {
	*pseudoTerminal
	t *testing.T
}

func startTypist(t *testing.T, env []string, program string, args ...string) typist {
	t.Helper()
	proctest.Need(t, program)
	screen := openTerminal(t, 200)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(env, "PS1=ready> ")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen.slave, screen.slave, screen.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ok(t, cmd.Start())
	_ = screen.slave.Close()
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if left, _ := os.ReadDir(cmd.Dir); len(left) > 0 {
			t.Errorf("completion made files: %v", left)
		}
	})
	return typist{screen, t}
}

// typeKeys sends keys and waits until the terminal shows want after them.
func (s typist) typeKeys(keys, want string) {
	s.t.Helper()
	at := len(s.shown())
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the terminal shows %q", s.shown()[at:])
		}
	}()
	proctest.Eventually(s.t, fmt.Sprintf("after %q the terminal shows %q", keys, want),
		func() bool { return strings.Contains(s.shown()[at:], want) })
}

// clearInput is Ctrl-U: the line typed so far is forgotten.
const clearInput = "\x15"

// In a real bash the Tab key completes commands, groups and files as the
// service has them now.
func TestCompletionInBash(t *testing.T) {
	proctest.Need(t, bashCompletion)
	s := startTypist(t, completionWorld(t), "bash", "--norc", "--noprofile", "-i")
	s.typeKeys("source "+bashCompletion+"; source <(svcfs completion bash); echo do''ne\n", "done")
	s.typeKeys("svcfs ledg\t", "svcfs ledger ")
	s.typeKeys(clearInput+"svcfs get o\t", "svcfs get other ")
	s.typeKeys(clearInput+"svcfs get te\t\t", "tests")
	s.typeKeys(clearInput+"svcfs get team notes\t", "svcfs get team notes/today.txt ")
	s.typeKeys(clearInput+"svcfs get team quart\t", `svcfs get team quarterly\ figures.txt `)
	s.typeKeys(clearInput+"svcfs get team it\t", `svcfs get team it\'s\ \$\(touch\ pwned\).txt `)
	s.typeKeys("\x01echo \n", "it's $(touch pwned).txt\r\n")
}

func TestCompletionInZsh(t *testing.T) {
	s := startTypist(t, completionWorld(t), "zsh", "-f", "-i")
	s.typeKeys("autoload -U compinit && compinit -u -D; source <(svcfs completion zsh); echo do''ne\n", "done")
	s.typeKeys("svcfs ledg\t", "er")
	s.typeKeys(clearInput+"svcfs get o\t", "ther")
	s.typeKeys(clearInput+"svcfs get te\t\t", "tests")
	s.typeKeys(clearInput+"svcfs get team notes\t", "/today.txt")
	s.typeKeys(clearInput+"svcfs get team quart\t", `erly\ figures.txt`)
}

func TestCompletionInFish(t *testing.T) {
	proctest.Need(t, "fish")
	env := completionWorld(t)
	for line, want := range map[string]string{
		"svcfs ledg": "ledger", "svcfs get o": "other", "svcfs get te": "team\ntests",
		"svcfs get team notes": "notes/today.txt", "svcfs get team quart": "quarterly figures.txt",
	} {
		cmd := exec.CommandContext(t.Context(), "fish", "--no-config", "-c",
			`svcfs completion fish | source; complete -C "$TYPED"`)
		cmd.Env, cmd.Dir = append(env, "TYPED="+line), t.TempDir()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var got []string
		for offered := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSpace(offered), "\t")
			got = append(got, word)
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
