package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
)

func (a *app) acceptRollbackCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "accept-rollback",
		Short: "Accept the history of a service whose operator restored a backup; free",
		Long: `Accept the history of a service whose operator restored a backup.

svcfs remembers the newest record of each group and the newest checkpoint that the
service signed, and refuses a history that is shorter or differs. A service restored
from a backup shows such a history: ask the operator what was lost, then accept it.
The key of the log stays pinned: svcfs forget also forgets that. A running mount does
not accept the history: mount again.`,
		Example: "  svcfs accept-rollback",
		Args:    exactly(0, "no arguments"),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, _ []string) error {
			if err := c.AcceptRollback(); err != nil {
				return err
			}
			address := c.NetworkInfo().MCPURL
			dirs, _ := findMounts() // without the list nothing is lost
			for _, dir := range dirs {
				if inspect(ctx, dir).isOf(c.Account(), address) {
					a.ui.notice("the mount on %s keeps what it saw: unmount it and mount again", dir)
				}
			}
			if a.asJSON {
				return a.printJSON(map[string]any{"service": address})
			}
			a.ui.printf("forgot the history that %s had shown: the next command trusts the one that it shows then; "+
				"its key stays pinned (svcfs forget %s forgets that too)\n",
				escapeText(address), escapeText(address))
			return nil
		}),
	}
}
