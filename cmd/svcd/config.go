package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service/ledger"
)

func newConfig(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "config", Short: "Show the effective settings and the source of each", Args: noArgs,
		Long: `Show the settings in effect and where each came from: flag, environment, file or
default. Checks them as serve does: what serve would refuse is said after the list,
and the exit code is 3. Passwords and keys are not shown.`,
		Example: "  svcd config --config /etc/svcd.toml\n  svcd config --data /var/lib/svcd --json",
		RunE: func(*cobra.Command, []string) error {
			cfg, problem := s.serviceConfig()
			if problem != nil {
				problem = fmt.Errorf("svcd serve refuses these settings: %w", problem)
			}
			return errors.Join(s.printSettings(s.withPrices(cfg.Fees), asJSON), problem)
		},
	}
	s.registerServing(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// withPrices lists the settings with every price by itself, also those of the
// default table.
func (s *settings) withPrices(fees ledger.Fees) (list []setting) {
	for _, l := range s.effective {
		if l.Name != "fees" || fees == nil {
			list = append(list, l)
			continue
		}
		for _, action := range slices.Sorted(maps.Keys(fees)) {
			from := "default"
			if _, set := s.fees[action]; set {
				from = l.From
			}
			list = append(list, setting{"fees." + action, fees[action].Tokens(), from, ""})
		}
	}
	return list
}

func (s *settings) printSettings(list []setting, asJSON bool) error {
	if asJSON {
		return s.printJSON(list)
	}
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	for _, l := range list {
		value := l.Value
		if l.Means != "" {
			value += " = " + l.Means
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", l.Name, value, l.From)
	}
	return table.Flush()
}
