package main

import (
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/cmd/internal/cli/clitest"
)

// What the documents call svcd is a command of it, with its flags.
func TestDocumentsNameRealCommands(t *testing.T) {
	program := newRoot(io.Discard, io.Discard)
	cli.FitHelp(program)
	clitest.CheckDocuments(t, root, program)
}

var update = flag.Bool("update", false, "write the page of the reference anew")

// The help of every command fits into 80 columns, and the reference page has the whole of it.
func TestHelp(t *testing.T) {
	program := newRoot(io.Discard, io.Discard)
	cli.FitHelp(program)
	clitest.CheckHelp(t, program, filepath.Join(root, "docs", "reference", "svcd.md"), *update)
	out, _, code := execute(t, "help", "serve")
	if code != exitOK || !strings.Contains(out, "\nFlags for the data directory and the stores: svcd help\n") ||
		strings.Contains(out, "--master-key-command string") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// With --json a failure is one line of JSON on standard error, as svcfs tells it.
func TestFailureAsJSON(t *testing.T) {
	dir, _ := serving(t)
	for _, tc := range []struct {
		args string
		want cli.FailureDoc
	}{
		{"nosuch --json", cli.FailureDoc{Error: `unknown command "nosuch" for "svcd"`,
			Hint: "run 'svcd help' for the commands, 'svcd help COMMAND' for its flags", ExitCode: cli.ExitUsage}},
		{"account nosuch --json", cli.FailureDoc{Error: `unexpected "nosuch"`, Hint: "see: svcd account --help",
			ExitCode: cli.ExitUsage}},
		{"account list extra --json", cli.FailureDoc{Error: `unexpected "extra"`, Hint: "see: svcd account list --help",
			ExitCode: cli.ExitUsage}},
		{"doctor --json --public-url http://127.0.0.1:1",
			cli.FailureDoc{Error: "not all is well", Hint: "each finding with the state fail says what to do",
				ExitCode: cli.ExitOther}},
		{"account fund nobody 1 --json=true", cli.FailureDoc{Error: "unknown flag: --json",
			Hint: "run 'svcd account fund --help' for its flags", ExitCode: cli.ExitUsage}},
	} {
		_, errs, code := execute(t, append(strings.Fields(tc.args), "--data", dir)...)
		var got cli.FailureDoc
		if err := json.Unmarshal([]byte(errs), &got); err != nil || strings.Count(errs, "\n") != 1 || got != tc.want ||
			code != int(tc.want.ExitCode) {
			t.Errorf("svcd %s: exit code %d, %v: %s", tc.args, code, err, errs)
		}
	}
}

// Every command has a manual page, with its examples.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, "man", dir)
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case cmd.Hidden:
			if err == nil {
				t.Errorf("the hidden command has the page %s", name)
			}
			return
		case err != nil:
			t.Error(err)
		case !strings.Contains(string(page), ".SH SYNOPSIS"), cmd.Example != "" &&
			!strings.Contains(string(page), ".SH EXAMPLE"):
			t.Errorf("%s lacks a section", name)
		}
		for _, child := range cmd.Commands() {
			check(child)
		}
	}
	check(newRoot(&strings.Builder{}, &strings.Builder{}))
}
