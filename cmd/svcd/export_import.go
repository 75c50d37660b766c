package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const standardStream = "-"

func newExport(s *settings) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use: "export FILE", Short: "Write an archive of the service, also while the service runs",
		Args: oneArg("FILE, or - for standard output"),
		Long: `Write an archive of the service: one state of the database, and every file of that
state. svcd import reads it into any database and any file store. The service may run
meanwhile.

With --since FILE the archive is an increment: it holds what FILE, an earlier
archive, and those before it lack. To import it takes the full archive and every
increment since.

The archive holds no master key, no sign-in link and no session of the account page.
Without the master key nobody can read the files: keep a copy of the key elsewhere.`,
		Example: "  svcd export /backup/sunday --data /var/lib/svcd\n" +
			"  svcd export /backup/monday --since /backup/sunday --data /var/lib/svcd\n" +
			"  svcd export - --data /var/lib/svcd",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			var earlier io.Reader
			if since != "" {
				f, err := os.Open(since)
				if err != nil {
					return usage("", "open the earlier archive: %w", err)
				}
				defer f.Close()
				earlier = f
			}
			return s.export(args[0], func(w io.Writer) (archive.Summary, error) { return svc.Export(ctx, w, earlier) })
		}),
	}
	cmd.Flags().StringVar(&since, "since", "", "`FILE` is an earlier archive: write only what it and those before it "+
		"lack")
	return cmd
}

// export gives what write writes the name path, which must be free.
func (s *settings) export(path string, write func(io.Writer) (archive.Summary, error)) error {
	if path == standardStream {
		sum, err := write(s.stdout)
		s.warn(sum)
		return err
	}
	taken := usage("give a new name", "%s exists already", path)
	if _, err := os.Lstat(path); err == nil {
		return taken // before a long export
	}
	f, err := ownfile.New(path)
	if err != nil {
		return fmt.Errorf("make export: %w", err)
	}
	defer f.Discard()
	sum, err := write(f)
	if err != nil {
		return err
	}
	switch err := f.Create(); {
	case errors.Is(err, fs.ErrExist):
		return taken
	case err != nil:
		return fmt.Errorf("name export: %w", err)
	}
	s.warn(sum)
	s.printSummary("exported", sum)
	fmt.Fprintf(s.stdout, "written: %d bytes\nmaster key: not in the archive: keep a copy of %s elsewhere, without "+
		"it nothing can be read\n", sum.Bytes, s.whereMasterKey())
	return nil
}

// warn names what an export did not find.
func (s *settings) warn(sum archive.Summary) {
	for _, damage := range sum.Damage {
		fmt.Fprintf(s.stderr, "warning: %s\n", damage)
	}
}

// printSummary prints what an archive holds.
func (s *settings) printSummary(what string, sum archive.Summary) {
	fmt.Fprintf(s.stdout, "%s: the database with small files and %d ledger records, and %d larger files of %d bytes\n"+
		"ledger root: %s\n", what, sum.Records, sum.Blobs, sum.BlobBytes, sum.LedgerRoot)
}

// whereAll says where rows and larger files are, in words.
func (s *settings) whereAll() string {
	files, _, _ := strings.Cut(cmp.Or(s.cfg.Blobs, filepath.Join(s.cfg.DataDir, "blobs")), "?")
	return s.whereDatabase() + "; larger files: " + files
}

// whereDatabase says which database the commands use, without user and password.
func (s *settings) whereDatabase() string {
	if s.cfg.Database == "" {
		return filepath.Join(s.cfg.DataDir, store.FileName) + " (SQLite; another database with --db)"
	}
	u, err := url.Parse(s.cfg.Database)
	if err != nil {
		return "PostgreSQL"
	}
	return "PostgreSQL, " + u.Host + u.Path
}

func newImport(s *settings) *cobra.Command {
	var salvage bool
	cmd := &cobra.Command{
		Use: "import FILE [FILE…]", Short: "Fill an empty service from a full archive and its increments",
		Args: someArchives,
		Long: `Fill an empty service from a full archive and its increments, in the order in which they
were made, on any database and any file store. FILE may be - for standard input. Put the
master key of the exported service into the data directory first. No process may
serve this database meanwhile. After an error the service is empty, as before. After
a kill run the command again: it starts over, or says that the import is complete.

Archives that are damaged or incomplete are refused, and the damage is named. With
--salvage everything that is whole is restored, each file that is missing is listed,
and the exit code is 6 if something was damaged.`,
		Example: "  svcd import /backup/sunday /backup/monday --data /srv/svcd\n" +
			"  svcd import /backup/sunday --data /srv/svcd \\\n" +
			"      --db postgres://svcd@db.example.org/svcd --blobs s3://svcd",
		PreRun: func(*cobra.Command, []string) { s.begins = true },
		RunE: func(cmd *cobra.Command, args []string) error {
			// A new one would not fit.
			if _, err := os.Stat(filepath.Join(s.cfg.DataDir, vaultwire.FileName)); err != nil &&
				s.masterKey() == (service.MasterKey{}) {
				return usage(
					fmt.Sprintf("put master.key of the exported service into %s first, mode 0600", s.cfg.DataDir),
					"the master key is missing: %w", err)
			}
			var archives []io.Reader
			for _, name := range args {
				if name == standardStream {
					archives = append(archives, os.Stdin)
					continue
				}
				f, err := os.Open(name)
				if err != nil {
					return usage("", "open archive: %w", err)
				}
				defer f.Close()
				archives = append(archives, f)
			}
			return s.with(cmd.Context(), func(svc *service.Service) error {
				return s.load(cmd.Context(), svc, salvage, archives)
			})
		},
	}
	cmd.Flags().BoolVar(&salvage, "salvage", false,
		"restore what is whole in damaged archives, and list the files that are missing")
	return cmd
}

func someArchives(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("", "want FILE, or several")
	}
	return nil
}

func (s *settings) load(ctx context.Context, svc *service.Service, salvage bool, archives []io.Reader) (err error) {
	var sum archive.Summary
	missing := 0
	if salvage {
		sum, err = svc.Salvage(ctx, func(group, name, ref string, why error) {
			missing++
			if why == nil {
				why = errors.New("its row in the database was lost")
			}
			fmt.Fprintf(s.stdout, "missing\t%q\t%q\t%s\t%v\n", group, name, ref, why)
		}, archives...)
	} else {
		sum, err = svc.Import(ctx, archives...)
	}
	switch {
	case errors.Is(err, archive.ErrImported):
		fmt.Fprintln(s.stdout, "imported before, and completely: nothing is left to do\ninto:", s.whereAll())
		return nil
	case err != nil:
		return err
	}
	for _, damage := range sum.Damage {
		fmt.Fprintf(s.stdout, "damaged\t%s\n", damage)
	}
	s.printSummary("imported", sum)
	fmt.Fprintln(s.stdout, "into:", s.whereAll())
	fmt.Fprintln(s.stdout, "next: start it with svcd serve; if the old service saved anything after this archive, "+
		"import an increment of it first (svcd export --since)\n"+
		"      if such saves are lost: members who saw them refuse the service until they run "+
		"svcfs accept-rollback, and mount again\n"+
		"      an archive from before svcd rotate-log-key: svcfs forget URL")
	if len(sum.Damage) > 0 && missing == 0 {
		return refuse("make a full archive of the new service", "the archives are damaged, but no file is missing")
	}
	if missing > 0 {
		return refuse("get their content from another copy of the archive, or from members, who save it again",
			"%d files are missing", missing)
	}
	return nil
}
