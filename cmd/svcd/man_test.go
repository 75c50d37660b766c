package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli/clitest"
)

// What the documents call svcd is a command of it, with its flags.
func TestDocumentsNameRealCommands(t *testing.T) {
	clitest.CheckDocuments(t, root, newRoot(io.Discard, io.Discard))
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
		case !strings.Contains(string(page), ".SH SYNOPSIS"), cmd.Example != "" && !strings.Contains(string(page), ".SH EXAMPLE"):
			t.Errorf("%s lacks a section", name)
		}
		for _, child := range cmd.Commands() {
			check(child)
		}
	}
	check(newRoot(&strings.Builder{}, &strings.Builder{}))
}
