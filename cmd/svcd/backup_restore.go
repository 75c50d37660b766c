package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/archive"
)

func newBackup(s *settings) *cobra.Command {
	var withKey bool
	cmd := &cobra.Command{
		Use: "backup DIR", Short: "Write a backup of the service into a new directory, also while the service runs", Args: oneArg("DIR"),
		Long: `Write a backup of the service into a new directory. The service may run meanwhile.
The backup holds one state of the database, and every file that this state names.

The backup holds the master key only with --with-master-key. Without the master key
nobody can read the files: keep a copy of the key elsewhere.

On the same file system the files of the backup are hard links to those of the
service: copy the backup to another machine. With PostgreSQL the command is refused:
use svcd export, or pg_dump and then a copy of the files.`,
		Example: "  svcd backup /backup/monday --data /var/lib/svcd",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			m, err := svc.Backup(ctx, args[0], withKey)
			if err != nil {
				return err
			}
			s.printSummary("backed up", m.Summary)
			if withKey {
				fmt.Fprintln(s.stdout, "master key: in the backup: whoever has it can read every file")
			} else {
				fmt.Fprintf(s.stdout, "master key: not in the backup: keep a copy of %s elsewhere, without it nothing can be read\n", s.whereMasterKey())
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&withKey, "with-master-key", false, "put the master key into the backup")
	return cmd
}

// printSummary prints what a backup, restore, export or import moved.
func (s *settings) printSummary(what string, sum archive.Summary) {
	fmt.Fprintf(s.stdout, "%s: the database with small files and %d ledger records, and %d larger files of %d bytes\nledger root: %s\n", what, sum.Rows["ledger"], sum.Blobs, sum.BlobBytes, sum.LedgerRoot)
}

func newRestore(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "restore DIR", Short: "Make a data directory from a backup", Args: oneArg("DIR"),
		Long: `Make a data directory from a backup. The data directory must be new, or hold nothing
but the master key. Put the master key there first, unless the backup holds it. Every
file is compared with its checksum.`,
		Example: "  svcd restore /backup/monday --data /var/lib/svcd",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.needData(); err != nil {
				return err
			}
			m, err := service.Restore(cmd.Context(), args[0], s.cfg.DataDir, s.masterKey())
			if err != nil {
				return err
			}
			s.printSummary("restored", m.Summary)
			fmt.Fprintln(s.stdout, "next: start it with svcd serve; members whose machine saw newer records refuse it until they run: svcfs accept-rollback, and mount again\n"+
				"      a backup from before svcd rotate-log-key: svcfs accept-rollback --forget-key")
			return nil
		},
	}
}
