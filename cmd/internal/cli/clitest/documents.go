// Package clitest tests what both command lines have in common.
package clitest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// CheckDocuments looks for every command of the program in the Markdown files below the
// folder sources, in code blocks and between backticks: it and its flags must exist. The
// changelog is left out, because it tells of earlier versions.
func CheckDocuments(t *testing.T, sources string, root *cobra.Command) {
	t.Helper()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	found := 0
	err := filepath.WalkDir(sources, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != sources && (strings.HasPrefix(d.Name(), ".") ||
			slices.Contains([]string{"bin", "dist", "node_modules"}, d.Name())):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md" || d.Name() == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(path)
		for _, line := range commands(string(text), root.Name()) {
			found++
			if wrong := check(root, line); wrong != "" {
				t.Errorf("%s: %s: %s", path, line, wrong)
			}
		}
		return err
	})
	if err != nil || found < 50 {
		t.Errorf("found %d commands of %s: %v", found, root.Name(), err)
	}
}

var (
	block  = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```")
	inline = regexp.MustCompile("`([^`]+)`")
	shell  = regexp.MustCompile(`\\\n|"[^"]*"|'[^']*'|\$\([^)]*\)|\s#.*|[|;&<>()]+|\n|[^\s|;&<>()]+`)
)

// commands returns the command lines of the program in a Markdown text.
func commands(text, program string) (lines []string) {
	take := func(code string) {
		var words []string
		end := func() {
			if i := slices.Index(words, program); i == 0 || i > 0 && startsCommand(words[i-1]) {
				lines = append(lines, strings.Join(words[i:], " "))
			}
			words = nil
		}
		for _, word := range shell.FindAllString(code, -1) {
			switch {
			case word == "\n" || strings.HasPrefix(strings.TrimSpace(word), "#") || strings.Trim(word, "|;&<>()") == "":
				end()
			case word != "\\\n":
				words = append(words, word)
			}
		}
		end()
	}
	for _, found := range block.FindAllStringSubmatch(text, -1) {
		if found[1] == "console" || found[1] == "sh" {
			take(found[2])
		}
	}
	for _, found := range inline.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		if strings.HasPrefix(found[1], program+" ") && !strings.HasSuffix(found[1], "-…") {
			take(found[1])
		}
	}
	return lines
}

// startsCommand tells whether a command may follow the word: a prompt, a variable, sudo.
func startsCommand(word string) bool {
	return slices.Contains([]string{"$", "sudo", "if", "until", "!"}, word) || strings.Contains(word, "=")
}

// check parses a line as the program would. Placeholders stand for values of any type, so
// only names count.
func check(root *cobra.Command, line string) string {
	words := strings.Fields(line)[1:]
	command, rest, err := root.Find(words)
	if err != nil {
		return err.Error()
	}
	if command.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") &&
		!strings.Contains(rest[0], "|") && (command.Args == nil || command.Args(command, rest[:1]) != nil) {
		return fmt.Sprintf("%s has no command %s", command.CommandPath(), rest[0])
	}
	for _, word := range rest {
		name, isLong := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		name = strings.TrimRight(name, ".,…]")
		var flag *pflag.Flag
		switch {
		case isLong && name != "":
			flag = firstOf(command.Flags().Lookup(name), command.InheritedFlags().Lookup(name))
		case len(word) == 2 && word[0] == '-' && word != "--":
			flag = firstOf(command.Flags().ShorthandLookup(word[1:]),
				command.InheritedFlags().ShorthandLookup(word[1:]))
		default:
			continue
		}
		if flag == nil && name != "help" {
			return "no flag " + word
		}
	}
	return ""
}

func firstOf(flags ...*pflag.Flag) *pflag.Flag {
	for _, f := range flags {
		if f != nil {
			return f
		}
	}
	return nil
}
