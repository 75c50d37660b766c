package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
)

func newChecksum(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "checksum GROUP", Short: "Show the public checksum of a group and how to compute it",
		Args: oneArg("GROUP"),
		Long: `Print the answer to get_group_checksum for a group, the input of the checksum, and a
shell command that computes the checksum without this program. The checksum changes
with every revocation, because a revocation rotates the key of the group, with the program
that keeps the keys, and with svcd rotate-upload-key. That this program runs is the word of
the operator: the measurement is the SHA-256 of svcvault, which a release publishes.`,
		Example: "  svcd checksum team --data ./data\n  svcd checksum team --data ./data | sed -n 's/^command *//p' " +
			"| sh",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			c, err := svc.Checksum(ctx, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(s.stdout, "group        %q\nkey version  %d\nmeasurement  %s\nvault key    %x\n"+
				"checksum     %s\ncommand      printf '%s' | sha256sum\n", c.Group, c.KeyVersion, c.Measurement,
				sha256.Sum256(c.VaultKey), c.Sum(), strings.ReplaceAll(string(c.Text()), "\n", `\n`))
			return nil
		}),
	}
}
