package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/trust"
)

func (a *app) forgetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "forget URL",
		Short: "Forget a service that is gone, or that begins anew: its key and its history; free",
		Long: `Forget what every account of this user remembers of the service at URL: the key with
which it signs, and the history that it showed. The next command believes what is at
that address then. This is for a service that is gone, for a new one at an old address,
and for a backup from before its key was replaced. Ask the operator first: svcfs
remembers the service so that nobody can put another one in its place.`,
		Example: "  svcfs forget http://127.0.0.1:8000",
		Args:    exactly(1, "one URL"),
		RunE:    a.simple(func(ctx context.Context, args []string) error { return a.forget(ctx, args[0]) }),

		ValidArgsFunction: completeNothing,
	}
}

func (a *app) forget(ctx context.Context, address string) error {
	address = network.NormalAddress(address)
	dirs, _ := findMounts() // without the list nothing is lost
	for _, dir := range dirs {
		if m := inspect(ctx, dir); m.Status != nil && m.Status.Address == address {
			return refuse(exitOther, "unmount it first: svcfs umount "+shellWord(dir),
				fmt.Errorf("the mount on %s keeps what it saw of %s", dir, address))
		}
	}
	accounts, err := trust.Remove(a.userDir("XDG_STATE_HOME", ".local/state", ""), address)
	if err != nil {
		return err
	}
	if len(accounts) == 0 {
		return refuse(exitNotFound, "give the address that 'svcfs whoami' shows",
			fmt.Errorf("nothing is remembered of %s", address))
	}
	if a.asJSON {
		return a.printJSON(map[string]any{"service": address, "accounts": accounts})
	}
	for _, account := range accounts {
		a.ui.printf("forgot what %s had shown %s: the next command trusts what it shows then\n", escapeText(address),
			escapeName(account))
	}
	return nil
}
