package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service/ledger"
)

func newConfig(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "config", Short: "Show the settings in effect and where each came from", Args: noArgs,
		Long: `Show the settings in effect and where each came from: flag, environment, file or
default. Checks them as serve does. Passwords and keys are not shown.`,
		Example: "  svcd config --config /etc/svcd.toml",
		RunE: func(*cobra.Command, []string) error {
			cfg, problem := s.serviceConfig()
			for i, l := range s.effective {
				if l.Name == "fees" && cfg.Fees != nil {
					s.effective[i].Value = priceList(cfg.Fees)
				}
			}
			return errors.Join(s.printSettings(asJSON), problem)
		},
	}
	s.registerServing(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (s *settings) printSettings(asJSON bool) error {
	if asJSON {
		return json.NewEncoder(s.stdout).Encode(s.effective)
	}
	table := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	for _, l := range s.effective {
		fmt.Fprintf(table, "%s\t%s\t%s\n", l.Name, l.Value, l.From)
	}
	return table.Flush()
}

// priceList shows all prices, also those of the default table.
func priceList(fees ledger.Fees) string {
	var list []string
	for action, amount := range fees {
		list = append(list, action+"="+amount.Tokens())
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
