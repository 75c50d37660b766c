package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/archive"
)

// newestArchive is the link to the newest archive of a folder.
const newestArchive = "newest"

// fullOn is the day of the week on which an archive is a full one.
const fullOn = time.Sunday

func newBackup(s *settings) *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use: "backup DIR", Short: "Write today's archive into a folder: a full one each Sunday, else an increment",
		Args: oneArg("DIR"),
		Long: `Write an archive of the service into a folder, also while the service runs, under the date
of today: a full one each Sunday, and when the folder has none; else an increment since the
newest, to which the link "newest" leads. Run it each night. svcd import takes the last
full one and every increment since, in order.

After svcd rotate-master-key give --full once: an increment continues no archive that
is sealed with another key. Old archives are not removed.`,
		Example: "  svcd backup /backup\n  svcd backup /backup --full --data ./data",
		RunE: s.run(func(ctx context.Context, svc *service.Service, args []string) error {
			_, err := s.backup(ctx, svc, args[0], time.Now(), full)
			return err
		}),
	}
	cmd.Flags().BoolVar(&full, "full", false, "write a full archive, whatever the day")
	return cmd
}

// backup writes the archive of a day into a folder, and returns its path.
func (s *settings) backup(ctx context.Context, svc *service.Service, dir string, day time.Time,
	full bool) (string, error) {
	if !isThere(dir) { // made here it could be on the wrong disk
		return "", usage("make it, if it is on the disk that you mean, as the user of the service: mkdir -m 700 -- "+
			ownfile.ShellWord(dir), "there is no folder %s", printable(dir))
	}
	name := day.Format(time.DateOnly)
	path, newest := filepath.Join(dir, name), filepath.Join(dir, newestArchive)
	next := newest + ".next" // what a run is about to write: one that was killed may have written it
	written, err := endBackup(next, newest)
	if err != nil {
		return "", fmt.Errorf("end a backup that was interrupted: %w", err)
	}
	if written == name && !full {
		fmt.Fprintf(s.stdout, "written by an earlier run, which was interrupted: %s\n", printable(path))
		return path, nil
	}
	if isThere(path) {
		return "", usage("that is the archive of the day; for another one now: svcd export FILE", "%s exists already",
			printable(path))
	}
	var earlier io.Reader
	if !full && day.Weekday() != fullOn {
		switch f, err := os.Open(newest); {
		case err == nil:
			defer f.Close()
			earlier = f
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("open the newest archive: %w", err)
		}
	}
	if err := os.Symlink(name, next); err != nil {
		return "", fmt.Errorf("name the archive to come: %w", err)
	}
	err = s.export(path, func(w io.Writer) (archive.Summary, error) { return svc.Export(ctx, w, earlier) })
	if err != nil {
		return "", err
	}
	if err := os.Rename(next, newest); err != nil {
		return "", fmt.Errorf("name the newest archive: %w", err)
	}
	return path, nil
}

// endBackup does what an interrupted run left to do: it gives the link next the name newest, and returns where it
// leads to. If that is no archive yet, the link is removed, and a file that was to become one, and "" is returned.
func endBackup(next, newest string) (name string, err error) {
	if name, err = os.Readlink(next); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	info, err := os.Stat(next)
	switch {
	case err == nil && info.Size() > 0:
		return name, os.Rename(next, newest)
	case err == nil: // see [ownfile.Pending.Create]
		err = os.Remove(filepath.Join(filepath.Dir(next), filepath.Base(name)))
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return "", err
	}
	return "", os.Remove(next)
}
