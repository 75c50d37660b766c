package clitest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
)

// CheckHelp fails for a help text of a command that does not fit into the columns of a terminal, or that
// shows a flag of the whole program again. It compares the page of the reference in file, which has all of them,
// or with update writes it anew.
func CheckHelp(t *testing.T, root *cobra.Command, file string, update bool) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# Commands of %s\n\nThis page is made from the help of each command: `%s help --all COMMAND`.\n",
		root.Name(), root.Name())
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "completion" {
			return
		}
		text := cli.HelpText(cmd, true)
		for line := range strings.SplitSeq(text, "\n") {
			if utf8.RuneCountInString(line) > cli.HelpColumns {
				t.Errorf("help of %s: a line is too long: %s", cmd.CommandPath(), line)
			}
		}
		if cmd.HasParent() && strings.Contains(text, "--config string") {
			t.Errorf("help of %s has the flags of the program", cmd.CommandPath())
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s```\n", cmd.CommandPath(), text)
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
	if update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != b.String() {
		t.Errorf("%s is not what the help says, %v: run this test with -update", file, err)
	}
}
