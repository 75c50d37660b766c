package clitest

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
)

// CheckHelp fails for a help text of a command that does not fit into the columns of a terminal, or that
// shows a flag of the whole program again. It returns the page of the reference, which has all of them.
func CheckHelp(t *testing.T, root *cobra.Command) (page string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "# Commands of %s\n\nThis page is made from the help of each command: `%s help --all COMMAND`.\n", root.Name(), root.Name())
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
	return b.String()
}
