package cli

import (
	"slices"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
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

// Nearest returns the name that takes the fewest edits.
func Nearest(name string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int {
		return levenshtein.ComputeDistance(name, a) - levenshtein.ComputeDistance(name, b)
	})
}
