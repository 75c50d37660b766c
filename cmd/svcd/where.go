package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
)

// newWhere is hidden: svcfs demo shows with it what the service keeps of a file.
func newWhere(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "where REF", Short: "Print where the ciphertext of a file lies", Args: oneArg("REF"), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd.Context(), func(svc *service.Service) error {
				path, err := svc.BlobPath(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				fmt.Fprintln(s.stdout, path)
				return nil
			})
		},
	}
}
