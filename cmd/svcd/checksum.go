package main

import (
	"context"
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
with every revocation, because a revocation rotates the key of the group. The checksum
proves nothing about the program that handles the keys: anybody can compute it.`,
		Example: "  svcd checksum team --data ./data\n  svcd checksum team --data ./data | sed -n 's/^command *//p' " +
			"| sh",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			c, err := svc.Checksum(ctx, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(s.stdout, "group        %q\nkey version  %d\nmeasurement  %s\nchecksum     %s\n"+
				"command      printf '%s' | sha256sum\n",
				c.Group, c.KeyVersion, c.Measurement, c.Sum, octal(c.Input))
			return nil
		}),
	}
}

// octal writes bytes for printf(1) between single quotes; letters and dashes
// stay readable.
func octal(raw []byte) string {
	var b strings.Builder
	for i, c := range raw {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' && i > 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "\\%03o", c)
	}
	return b.String()
}
