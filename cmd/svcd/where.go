package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
)

// newWhere is hidden: svcfs demo shows with it what the service keeps of a file.
func newWhere(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "where REF", Short: "Print where the ciphertext of a file lies", Args: oneArg("REF"), Hidden: true,
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			path, err := svc.BlobPath(ctx, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(s.stdout, path)
			return nil
		}),
	}
}
