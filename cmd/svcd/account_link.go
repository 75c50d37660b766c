package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
)

func newAccountLink(s *settings) *cobra.Command {
	var public string
	cmd := &cobra.Command{
		Use: "link NAME", Short: "Print an address that signs the account in at its page, once", Args: oneArg("NAME"),
		Example: "  svcd account link alice --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			link, err := svc.SignInLink(ctx, args[0], public)
			if err != nil {
				return err
			}
			fmt.Fprintln(s.stdout, link)
			fmt.Fprintf(s.stderr, "good once, for %d minutes: whoever opens it is signed in\n", int(service.LinkLifetime.Minutes()))
			return nil
		}),
	}
	cmd.Flags().StringVar(&public, "public-url", "", "address users open (default: where the service last served)")
	return cmd
}
