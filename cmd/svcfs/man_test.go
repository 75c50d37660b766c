package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/cmd/internal/cli/clitest"
)

// What the documents call svcfs is a command of it, with its flags.
func TestDocumentsNameRealCommands(t *testing.T) {
	a := newApp(strings.NewReader(""), io.Discard, io.Discard,
		environment{lookup: func(string) (string, bool) { return "", false }})
	root := a.rootCommand()
	strictDefaults(root)
	clitest.CheckDocuments(t, filepath.Join("..", ".."), root)
}

// Every command has a manual page with its synopsis and, where its help has
// one, an example.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	a := newApp(strings.NewReader(""), io.Discard, io.Discard,
		environment{lookup: func(string) (string, bool) { return "", false }})
	if code := a.execute(t.Context(), []string{"man", dir}); code != exitOK {
		t.Fatal(code)
	}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
		}
		for _, section := range []string{".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"} {
			if !strings.Contains(string(page), section) {
				t.Errorf("%s: no %s", cmd.CommandPath(), section)
			}
		}
		if cmd.Short == "" {
			t.Errorf("%s has no summary", cmd.CommandPath())
		}
		if cmd.HasParent() && cmd.ValidArgsFunction == nil && !strings.Contains(cmd.Use, "PATH") {
			t.Errorf("a shell offers files to %q", cmd.UseLine())
		}
		if cmd.Example == "" && cmd.RunE != nil {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		if cmd.Example != "" && !strings.Contains(string(page), ".SH EXAMPLE") {
			t.Errorf("%s: the page has no example", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(a.rootCommand())
	if _, err := os.Stat(filepath.Join(dir, "svcfs-man.1")); err == nil {
		t.Error("the hidden command has a page")
	}
}

// The help of every command fits into 80 columns, and says where the flags are that it leaves out. The
// reference page has the whole of it.
func TestHelp(t *testing.T) {
	a := newApp(strings.NewReader(""), io.Discard, io.Discard,
		environment{lookup: func(string) (string, bool) { return "", false }})
	root := a.rootCommand()
	strictDefaults(root)
	clitest.CheckHelp(t, root, "../../docs/reference/svcfs.md", *update)
	for _, tc := range []struct{ command, some, all string }{{"mount", "--budget string", "--umask"},
		{"", "--account string", "--witness-age"}} {
		cmd, _, err := root.Find(strings.Fields(tc.command))
		ok(t, err)
		short, long := cli.HelpText(cmd, false), cli.HelpText(cmd, true)
		if !strings.Contains(short, tc.some) || strings.Contains(short, tc.all+" ") ||
			!strings.Contains(long, tc.all+" ") ||
			!strings.Contains(short, strings.TrimSpace("more flags: svcfs help --all "+tc.command)) {
			t.Errorf("svcfs help %s:\n%s", tc.command, short)
		}
	}
}
