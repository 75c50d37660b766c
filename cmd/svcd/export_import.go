package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/archive"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/vault"
)

const standardStream = "-"

func newExport(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "export FILE", Short: "Write the whole service as one stream, also while the service runs", Args: oneArg("FILE, or - for standard output"),
		Long: `Write the whole service as one stream, which svcd import reads into any database and
any file store. The service may run meanwhile. The end of the stream proves that the
stream is complete. The stream holds no master key, no sign-in link and no session of
the account page.`,
		Example: "  svcd export /backup/svcd.tar --data /var/lib/svcd\n  svcd export - --data /var/lib/svcd",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			return s.export(args[0], func(w io.Writer) (archive.Summary, error) { return svc.Export(ctx, w) })
		}),
	}
}

// export gives what write writes the name path, which must be free.
func (s *settings) export(path string, write func(io.Writer) (archive.Summary, error)) error {
	if path == standardStream {
		_, err := write(s.stdout)
		return err
	}
	taken := fault.New(wire.CodeValidation, "%s exists already: give a new name", path)
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
	s.printSummary("exported", sum)
	return nil
}

func newImport(s *settings) *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Fill an empty service from an export", Args: oneArg("FILE, or - for standard input"),
		Long: `Fill an empty service from an export, on any database and any file store. Put the
master key of the exported service into the data directory first. No process may
serve this database meanwhile. After an error the service is empty, as before. After
a kill run the command again: it starts over, or says that the import is complete.`,
		Example: "  svcd import /backup/svcd.tar --data /srv/svcd --db postgres://svcd@db.example.org/svcd --blobs s3://svcd",
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(filepath.Join(s.cfg.DataDir, vault.FileName)); err != nil { // a new one would not fit
				return usageError{fmt.Errorf("put master.key of the exported service into %s first, mode 0600: %w", s.cfg.DataDir, err)}
			}
			in := io.Reader(os.Stdin)
			if args[0] != standardStream {
				f, err := os.Open(args[0])
				if err != nil {
					return usageError{fmt.Errorf("open export: %w", err)}
				}
				defer f.Close()
				in = f
			}
			return s.with(cmd.Context(), func(svc *service.Service) error {
				sum, err := svc.Import(cmd.Context(), in)
				switch {
				case errors.Is(err, archive.ErrImported):
					s.printSummary("imported before, and completely", sum)
				case err != nil:
					return err
				default:
					s.printSummary("imported", sum)
				}
				return nil
			})
		},
	}
}
