package main

import (
	"math"
	"testing"

	"github.com/spf13/cobra"
)

// M6: a mount lists groups of a bounded size, and with --whole-groups all.
func TestM6WholeGroups(t *testing.T) {
	for want, args := range map[int64][]string{10_000: nil, math.MaxInt64: {"--whole-groups"}} {
		cmd, f := &cobra.Command{}, mountFlags{}
		f.register(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if got := f.smallGroup(); got != want {
			t.Errorf("%q: groups of up to %d records are listed, want %d", args, got, want)
		}
	}
}
