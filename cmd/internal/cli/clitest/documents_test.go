package clitest

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

func TestCommandsOfAText(t *testing.T) {
	const text = "Run `prog run --fast X`, not `other run`.\n\n```console\n$ A=b prog ls -l \"a b\" | prog get - # " +
		"prog nothing\nprog: an error\n```\n\n```sh\nsudo prog run && prog ls\n```\n"
	want := []string{`prog ls -l "a b"`, "prog get -", "prog run", "prog ls", "prog run --fast X"}
	if got := commands(text, "prog"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCheckFindsWhatIsNotThere(t *testing.T) {
	root, run := &cobra.Command{Use: "prog"}, &cobra.Command{Use: "run", Run: func(*cobra.Command, []string) {}}
	root.PersistentFlags().Bool("all", false, "")
	run.Flags().BoolP("fast", "f", false, "")
	root.AddCommand(run)
	for line, isRight := range map[string]bool{
		"prog": true, "prog run": true, "prog run --fast": true, "prog run -f --all X": true, "prog run --help": true,
		"prog walk": false, "prog run --slow": false, "prog run -s": false, "prog --slow": false,
	} {
		if wrong := check(root, line); (wrong == "") != isRight {
			t.Errorf("%s: %q", line, wrong)
		}
	}
}
