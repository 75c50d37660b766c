package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/names"
)

// Failure is an error with an exit code of its own and the next step.
type Failure struct {
	Code ExitCode
	Err  error
	Hint string // "" = the program finds one
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Refuse returns err with the exit code that it ends the program with, and with what to do next.
func Refuse(code ExitCode, hint string, err error) error {
	return &Failure{Code: code, Err: err, Hint: hint}
}

// FailureOf returns the [Failure] in err, or nil.
func FailureOf(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// FailureText is how a program tells a failure: one line "PROGRAM: sentence" and, where there is a next
// step, one line "hint: next step".
func FailureText(program string, err error, hint string) string {
	lines := strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")
	line := func(before, text string) string {
		return before + names.Escape(lines.Replace(text), "") + "\n"
	}
	text := line(program+": ", err.Error())
	if hint != "" {
		text += line("hint: ", HintText(hint))
	}
	return text
}

// FailureDoc is a failure as a program tells it with --json: one line on standard error, the last one.
type FailureDoc struct {
	Error    string   `json:"error"`
	Hint     string   `json:"hint,omitempty"`
	ExitCode ExitCode `json:"exit_code"`
	Code     string   `json:"code,omitempty"` // of the service
	Group    string   `json:"group_id,omitempty"`
	CID      string   `json:"cid,omitempty"`
}

// FailureJSON is the line of a failure, whose Hint is made as in [FailureText].
func FailureJSON(doc FailureDoc) string {
	doc.Hint = HintText(doc.Hint)
	text, err := json.Marshal(doc)
	if err != nil { // strings and numbers encode
		return ""
	}
	return string(EscapeJSON(text)) + "\n"
}

// AsksForJSON reports whether a command line that was not understood asked for JSON.
func AsksForJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
}

// HintText makes a sentence into what follows "hint: ": it begins with a small
// letter, unless its first word is a name, and has no full stop when it is the
// only one.
func HintText(hint string) string {
	if !strings.Contains(hint, ". ") && !strings.HasSuffix(hint, "...") {
		hint = strings.TrimSuffix(hint, ".")
	}
	if len(hint) > 1 && unicode.IsUpper(rune(hint[0])) && (unicode.IsLower(rune(hint[1])) || hint[1] == ' ') {
		hint = strings.ToLower(hint[:1]) + hint[1:]
	}
	return hint
}

// WrongCommand is err, a mistake on a command line that the library found, with what to do about it.
func WrongCommand(root *cobra.Command, args []string, err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n") // without what the library adds, such as a whole help text
	return Refuse(ExitUsage, CommandHint(root, args), errors.New(text))
}

// WrongFlag is err, a mistake in the flags of a command, with what to do about it. Where a command that there is not
// stands before the flag, that is the mistake.
func WrongFlag(cmd *cobra.Command, err error) error {
	words := cmd.Flags().Args() // before the flag
	if wrong := cmd.ValidateArgs(words); wrong != nil && cmd.HasSubCommands() {
		if FailureOf(wrong) != nil {
			return wrong
		}
		return WrongCommand(cmd.Root(), append(strings.Fields(cmd.CommandPath())[1:], words...), wrong)
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	text, _, _ = strings.Cut(text, ": strconv.Parse") // which says it in words of Go
	hint := "run '" + cmd.CommandPath() + " --help' for its flags"
	if strings.HasPrefix(text, "unknown shorthand flag") { // such as of put team -x.txt
		hint += "; a name that begins with - comes after --"
	}
	return Refuse(ExitUsage, hint, errors.New(text))
}

// CommandHint tells what to do about a command that there is not.
func CommandHint(root *cobra.Command, args []string) string {
	found, rest, _ := root.Find(args)
	for _, word := range rest {
		if strings.HasPrefix(word, "-") {
			continue
		}
		if named := commandBelow(found, word); named != nil {
			return "did you mean: " + named.CommandPath()
		}
		if near := NearestCommand(found, word); near != "" {
			return "did you mean: " + found.CommandPath() + " " + near
		}
		break
	}
	if found != root {
		return fmt.Sprintf("run '%s help%s' for its commands and flags", root.Name(),
			strings.TrimPrefix(found.CommandPath(), root.Name()))
	}
	return fmt.Sprintf("run '%s help' for the commands, '%s help COMMAND' for its flags", root.Name(), root.Name())
}
