package main

import (
	"regexp"
	"testing"
)

// Columns of the list are in line, and a name does nothing to a terminal.
func TestAccountListIsATable(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"al", "a-much-longer-name"} {
		mustRun(t, "account", "create", name, "--data", dir)
	}
	if out := mustRun(t, "account", "list", "--data", dir); !regexp.MustCompile(`(?m)^al\.\S+ {2,}\S+ +0 bytes$`).MatchString(out) {
		t.Errorf("not a table:\n%s", out)
	}
	if got := printable("a\x1b[2J\tb"); got != `a\x1b[2J\tb` {
		t.Errorf("shown as %q", got)
	}
}
