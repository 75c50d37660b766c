package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
)

func newRetention(s *settings) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use: "retention", Short: "Delete the files that are older than the retention of their group", Args: noArgs,
		Long: `Delete the files that are older than the retention of their group, older versions
that their group keeps no longer, and the files whose delayed deletion is due. Deleting
destroys the key of a file. svcd serve does the same once a minute.

With --dry-run nothing is deleted. The command lists the files that it would delete
(group, reference, name, age or "older version"), then the deletions that wait (group,
reference, name, time). An older version goes by the --destruction-delay of this command: give it the
value of svcd serve.`,
		Example: "  svcd retention --data ./data --dry-run",
		PreRunE: func(*cobra.Command, []string) error {
			switch {
			case s.cfg.DestructionDelay < 0:
				return usage("want 0 or more", "--destruction-delay %s", s.cfg.DestructionDelay)
			case s.cfg.DestructionDelay == 0:
				s.cfg.DestructionDelay = -1 // none
			}
			return nil
		},
		RunE: s.run(func(ctx context.Context, svc *service.Service, _ []string) error {
			if dryRun {
				return s.listExpired(ctx, svc)
			}
			n, err := svc.RemoveExpired(ctx)
			fmt.Fprintf(s.stdout, "files: %d deleted\n", n)
			return err
		}),
	}
	s.registerDelay(cmd.Flags())
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "list what would be deleted, and delete nothing")
	return cmd
}

// listExpired lists the files to delete, then the deletions that wait. Names are quoted:
// users chose them.
func (s *settings) listExpired(ctx context.Context, svc *service.Service) error {
	list, err := svc.Expired(ctx)
	if err != nil {
		return err
	}
	older, err := svc.Surplus(ctx)
	if err != nil {
		return err
	}
	for _, e := range list {
		fmt.Fprintf(s.stdout, "%q\t%s\t%q\t%s\n", e.Group, e.Ref, e.Name, e.Age.Round(time.Second))
	}
	for _, e := range older {
		fmt.Fprintf(s.stdout, "%q\t%s\t%q\tolder version\n", e.Group, e.Ref, e.Name)
	}
	fmt.Fprintf(s.stdout, "files: %d would be deleted\n", len(list)+len(older))
	return s.listWaiting(ctx, svc)
}

// listWaiting lists the destructions that wait for their time, if there are any.
func (s *settings) listWaiting(ctx context.Context, svc *service.Service) error {
	list, err := svc.Waiting(ctx)
	if err != nil {
		return err
	}
	waiting := 0
	for _, w := range list {
		if !w.InTrash {
			waiting++
		}
		due := w.Due.UTC().Format(time.RFC3339)
		if w.GroupEnds {
			fmt.Fprintf(s.stdout, "%q\tgroup\twith all its files\tat %s\n", w.Group, due)
		} else if w.Keep != "" {
			fmt.Fprintf(s.stdout, "%q\tversions\t%s\tfrom %s\n", w.Group, w.Keep, due)
		} else if w.Ref == "" {
			fmt.Fprintf(s.stdout, "%q\tretention\t%d days\tfrom %s\n", w.Group, w.Days, due)
		} else {
			fmt.Fprintf(s.stdout, "%q\t%s\t%q\tat %s\n", w.Group, w.Ref, w.Name, due)
		}
	}
	if waiting > 0 {
		fmt.Fprintf(s.stdout, "waiting: %d; until then the owner of the group takes it back with: svcfs group keep "+
			"GROUP\n", waiting)
	}
	if removed := len(list) - waiting; removed > 0 {
		fmt.Fprintf(s.stdout, "in the trash: %d; until then uploader and owner bring them back with: svcfs restore "+
			"--trash GROUP NAME\n", removed)
	}
	return nil
}
