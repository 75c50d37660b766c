package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command has --json, JSON.md has it, and json.txtar a golden example.
func TestEveryCommandHasJSON(t *testing.T) {
	text, err := os.ReadFile("JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/script/json.txtar")
	if err != nil {
		t.Fatal(err)
	}
	a := newApp(strings.NewReader(""), io.Discard, io.Discard,
		environment{lookup: func(string) (string, bool) { return "", false }})
	seen := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if !sub.Hidden {
				check(sub)
			}
		}
		if cmd.HasSubCommands() {
			return
		}
		seen++
		name := strings.TrimPrefix(cmd.CommandPath(), "svcfs ")
		if cmd.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", name)
		}
		if !strings.Contains(string(text), "`"+cmd.Name()) && !strings.Contains(string(text), "`"+name) {
			t.Errorf("JSON.md does not mention %s", name)
		}
		if !strings.Contains(string(golden), "svcfs "+name+" ") {
			t.Errorf("json.txtar does not run %s", name)
		}
	}
	check(a.rootCommand())
	if seen < 24 {
		t.Errorf("%d commands", seen)
	}
}
