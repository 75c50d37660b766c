package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/confine"
)

// NearestCommand is the command below cmd whose name is at most two edits from
// word, or begins with it; "" without one.
func NearestCommand(cmd *cobra.Command, word string) string {
	for cmd.SuggestionsMinimumDistance = 1; cmd.SuggestionsMinimumDistance <= 2; cmd.SuggestionsMinimumDistance++ {
		if near := cmd.SuggestionsFor(word); len(near) > 0 {
			return near[0]
		}
	}
	return ""
}

// commandBelow is the only command of that name, or said so, in a command below cmd, such as group join for join; nil
// without one.
func commandBelow(cmd *cobra.Command, name string) (named *cobra.Command) {
	for _, child := range cmd.Commands() {
		for _, c := range child.Commands() {
			if c.Name() != name && !slices.Contains(c.SuggestFor, name) || c.Hidden {
				continue
			}
			if named != nil {
				return nil
			}
			named = c
		}
	}
	return named
}

// Nearest returns the name that takes the fewest edits.
func Nearest(name string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return levenshtein.ComputeDistance(name, a) - levenshtein.ComputeDistance(name, b)
	})
}

// OfferNoFiles has a shell offer no files to the commands below cmd, but to those
// that complete their arguments themselves, and those whose usage names one of paths.
func OfferNoFiles(cmd *cobra.Command, paths ...string) {
	for _, child := range cmd.Commands() {
		if child.ValidArgsFunction == nil && !slices.ContainsFunc(paths,
			func(path string) bool { return strings.Contains(child.Use, path) }) {
			child.ValidArgsFunction = cobra.NoFileCompletions
		}
		OfferNoFiles(child, paths...)
	}
}

// Confine applies limits to this process. Without landlock in the kernel the process
// only gains no rights any more, which doctor tells.
func Confine(limits confine.Limits) error {
	if err := limits.Apply(); !errors.Is(err, confine.ErrUnsupported) {
		return err
	}
	return nil
}
