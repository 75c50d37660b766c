package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/ledger"
)

func newAudit(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "audit", Short: "Check the ledger's hash chain and signed checkpoint; names the first bad row",
		Args: noArgs,
		Long: "Check the hash chain of the ledger, and compare it with the newest signed checkpoint. The first bad " +
			"row is\n" +
			"named, and the exit code is 7. It is 7, too, if a record lets somebody into a group, and\n" +
			"nobody asked for it, and if the vault gave out keys of files without a record in the ledger.",
		Example: "  svcd audit --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, _ []string) error {
			report, err := svc.AuditReport(ctx)
			if errors.Is(err, checkpoint.ErrContradiction) || errors.Is(err, ledger.ErrBroken) {
				return cli.Refuse(cli.ExitProof, "keep a copy of the data directory as it is, and restore a backup",
					err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(s.stdout, "ledger: %d records, chain intact\n", report.Records)
			if report.Signed < 0 {
				fmt.Fprintln(s.stdout, "checkpoint: none was signed in this data directory yet")
				return nil
			}
			fmt.Fprintf(s.stdout, "checkpoint: of %d records, root %s as signed\nverifier key: %s\nkeys: %s\n",
				report.Signed, report.Root, report.Key, cli.OpensText(report.Opens))
			if err := s.notAskedFor(report.Refused); err != nil {
				return err
			}
			if err := cli.UnrecordedError(report.Opens); err != nil {
				return cli.Refuse(cli.ExitProof, "find out who asked svcvault for them; if PostgreSQL lost commits on "+
					"its way to a standby, restart svcvault", err)
			}
			return nil
		}),
	}
}

// notAskedFor lists the records that change nothing for the vault.
func (s *settings) notAskedFor(list []chain.Record) error {
	if len(list) == 0 {
		return nil
	}
	for _, r := range list {
		fmt.Fprintf(s.stdout, "not asked for\tgroup %q\trecord %d\t%s\t%q\t%q\n", r.Group, r.Number, r.Kind, r.Account,
			r.Detail)
	}
	return cli.Refuse(cli.ExitProof, "find out who wrote into the database; the owner of a group can revoke a member "+
		"that is shown there and was not asked for", fmt.Errorf("%d records change who may read in a group, and "+
		"their accounts did not ask for them, or may not: the vault passes over them", len(list)))
}

func newVerify(s *settings) *cobra.Command {
	var readData bool
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that every file can be served, and name bytes that belong to no file",
		Args: noArgs,
		Long: `Check that every file can be served, and that the bytes of accounts and groups
are counted right. Names also orphans: bytes older than ten minutes that belong to
no file and no upload of this service. svcd serve removes those that this service
stored, and leaves those that another one stored. They are no failure.`,
		Example: "  svcd verify --data ./data --read-data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, _ []string) error {
			return s.verify(ctx, svc, readData)
		}),
	}
	cmd.Flags().BoolVar(&readData, "read-data", false, "read every byte and compare checksums")
	return cmd
}

func (s *settings) verify(ctx context.Context, svc *service.Service, readData bool) error {
	bad := 0
	n, err := svc.Verify(ctx, readData, func(ref string, err error) {
		bad++
		fmt.Fprintf(s.stdout, "bad\t%s\t%v\n", ref, err)
	})
	if err != nil {
		return err
	}
	miscounted := 0
	err = svc.CheckStored(ctx, func(what string, err error) {
		miscounted++
		fmt.Fprintf(s.stdout, "miscounted\t%q\t%v\n", what, err)
	})
	if err != nil {
		return err
	}
	orphans, orphanBytes := 0, int64(0)
	err = svc.Orphans(ctx, func(where string, size int64) {
		orphans++
		orphanBytes += size
		fmt.Fprintf(s.stdout, "orphan\t%s\t%d bytes\n", where, size)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.stdout, "files: %d checked, %d bad\n", n, bad)
	if orphans > 0 {
		fmt.Fprintf(s.stdout, "orphans: %d, %d bytes; svcd serve removes those that this service stored, others may "+
			"be files of another service\n", orphans, orphanBytes)
	}
	switch {
	case bad > 0:
		return refuse(fmt.Sprintf("name the place of the files with --blobs, as svcd serve has it; else put them back "+
			"from a copy of %s, if there is one, or have them uploaded again; an archive of svcd export has them "+
			"for a new service only",
			cmp.Or(s.cfg.Blobs, filepath.Join(s.cfg.DataDir, "blobs"))),
			"%d files cannot be served as they were stored", bad)
	case miscounted > 0:
		return refuse("svcd export and svcd import count them anew",
			"the bytes of %d accounts and groups are counted wrong: uploads may be refused too early or too "+
				"late", miscounted)
	}
	return nil
}
