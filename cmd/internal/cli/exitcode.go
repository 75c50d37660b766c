package cli

import (
	"fmt"
	"slices"
	"strings"
)

// ExitCode is what a program ends with. The list is closed: scripts depend on it,
// and 0, 1 and 2 are those of the agent scripts. docs/reference/settings.md has it for users.
type ExitCode int

// The exit codes.
const (
	ExitOK          ExitCode = 0   // done
	ExitAuth        ExitCode = 1   // authentication failed, or not a member
	ExitNotFound    ExitCode = 2   // no such thing, or it could not be decrypted
	ExitUsage       ExitCode = 3   // wrong command line or settings
	ExitMoney       ExitCode = 4   // balance or budget does not cover it
	ExitUnreachable ExitCode = 5   // service not reachable, or no answer in time
	ExitOther       ExitCode = 6   // anything else
	ExitProof       ExitCode = 7   // what the service or the ledger shows was proven false
	ExitInterrupted ExitCode = 130 // Ctrl-C, or SIGTERM
)

// ExitMeaning is an exit code and what it means, as users are told.
type ExitMeaning struct {
	Code    ExitCode
	Meaning string
}

// ExitMeanings are all exit codes, in their order.
func ExitMeanings() []ExitMeaning {
	return []ExitMeaning{
		{ExitOK, "ok"},
		{ExitAuth, "authentication or membership"},
		{ExitNotFound, "not found, or decryption failed"},
		{ExitUsage, "usage"},
		{ExitMoney, "insufficient balance or budget"},
		{ExitUnreachable, "service unreachable"},
		{ExitOther, "other"},
		{ExitProof, "a proof failed"},
		{ExitInterrupted, "interrupted"},
	}
}

// helpColumns is where the lines of a help text end.
const helpColumns = 78

// ExitHelp is the list of the exit codes in a help text: of those that a program has; none given means all.
func ExitHelp(codes ...ExitCode) string {
	lines := []string{"Exit codes:"}
	meanings := ExitMeanings()
	if len(codes) > 0 {
		meanings = slices.DeleteFunc(meanings, func(m ExitMeaning) bool { return !slices.Contains(codes, m.Code) })
	}
	for i, m := range meanings {
		item, end := fmt.Sprintf(" %d %s", m.Code, m.Meaning), ","
		if i == len(meanings)-1 {
			end = "."
		}
		last := &lines[len(lines)-1]
		if len(*last)+len(item)+len(end) > helpColumns {
			lines = append(lines, "")
			last, item = &lines[len(lines)-1], strings.TrimPrefix(item, " ")
		}
		*last += item + end
	}
	return strings.Join(lines, "\n")
}
