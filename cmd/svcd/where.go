package main

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
)

// shownBytes is how much ciphertext where prints, at most.
const shownBytes = 64

// newWhere is hidden: svcfs demo shows with it what the service keeps of a file.
func newWhere(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "where REF", Short: "Print where the ciphertext of a file lies, and its first bytes", Args: oneArg("REF"),
		Hidden: true,
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			path, err := svc.BlobPath(ctx, args[0])
			if err != nil {
				return err
			}
			begins, err := svc.BlobBegin(ctx, args[0], shownBytes)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.stdout, "%s, with\n%s", path, hex.Dump(begins))
			return nil
		}),
	}
}
