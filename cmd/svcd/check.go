package main

import (
	"cmp"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
)

func newAudit(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "audit", Short: "Check the ledger's hash chain and signed checkpoint; names the first bad row", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd.Context(), func(svc *service.Service) error {
				report, err := svc.AuditReport(cmd.Context())
				if err != nil {
					return err
				}
				fmt.Fprintf(s.stdout, "ledger: %d records, chain intact\n", report.Records)
				if report.Signed < 0 {
					fmt.Fprintln(s.stdout, "checkpoint: none was signed in this data directory yet")
				} else {
					fmt.Fprintf(s.stdout, "checkpoint: of %d records, root %s as signed\nverifier key: %s\n", report.Signed, report.Root, report.Key)
				}
				return nil
			})
		},
	}
}

func newVerify(s *settings) *cobra.Command {
	var readData bool
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that every file can be served", Args: noArgs,
		Example: "  svcd verify --data ./data --read-data",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd.Context(), func(svc *service.Service) error {
				bad := 0
				n, err := svc.Verify(cmd.Context(), readData, func(ref string, err error) {
					bad++
					fmt.Fprintf(s.stdout, "bad\t%s\t%v\n", ref, err)
				})
				if err != nil {
					return err
				}
				fmt.Fprintf(s.stdout, "files: %d checked, %d bad\n", n, bad)
				if bad > 0 {
					return fmt.Errorf("%d files cannot be served as they were stored: restore %s from a backup", bad, cmp.Or(s.blobs, filepath.Join(s.data, "blobs")))
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&readData, "read-data", false, "read every byte and compare checksums")
	return cmd
}
