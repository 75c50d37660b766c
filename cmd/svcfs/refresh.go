package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
)

func (a *app) refreshCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "refresh DIR",
		Short: "Make the mount on DIR look at the ledger now",
		Long: `Make the mount on DIR look at the ledger now, and wait for the result. Your own
service announces changes at once. The hosted network announces none: there a mount
looks only while programs use it, ever less often while nothing new comes, and each
look costs (svcfs cost DIR shows how much). When the look fails, the command says why.
After a refresh, files that were refused because they differ from their record may
be tried again.`,
		Example: "  svcfs refresh ~/groups",
		Args:    exactly(1, "one DIR"),
		RunE:    a.simple(func(ctx context.Context, args []string) error { return a.refresh(ctx, args[0]) }),

		ValidArgsFunction: completeDirs,
	}
}

// refreshed is what refresh prints as JSON.
type refreshed struct {
	Dir  string    `json:"mountpoint"`
	Time time.Time `json:"refreshed"`
}

func (a *app) refresh(ctx context.Context, path string) error {
	dir, err := mountAt(path)
	if err != nil {
		return err
	}
	looked, err := lookAgain(ctx, dir)
	if err == nil && a.asJSON {
		return a.printJSON(refreshed{dir, looked})
	}
	return err
}

// changePlaces is withPlaces for a command that changes what mounts show: it ends when the mounts in which places
// were named, and those of the account that run here, show it.
func (a *app) changePlaces(
	run func(ctx context.Context, c *sdk.Client, places []place) error,
) func(*cobra.Command, []string) error {
	return a.withPlaces(func(ctx context.Context, c *sdk.Client, places []place) error {
		err := run(ctx, c, places)
		if err == nil || errors.Is(err, sdk.ErrPending) {
			a.untilShown(ctx, c, places)
		}
		return err
	})
}

// changeGroups is withClient for a command that gives this account a group: it ends when the mounts of the account
// that run here show it.
func (a *app) changeGroups(
	run func(ctx context.Context, c *sdk.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
		err := run(ctx, c, args)
		if err == nil {
			a.untilShown(ctx, c, nil)
		}
		return err
	})
}

// untilShown waits until mounts show what became of places. What was changed is changed: a mount in which one was
// named and that cannot look is told of, and no failure; any other mount looks by itself soon.
func (a *app) untilShown(ctx context.Context, c *sdk.Client, places []place) {
	looked := map[string]bool{"": true}
	for _, p := range places {
		if looked[p.mount] {
			continue
		}
		looked[p.mount] = true
		if _, err := lookAgain(ctx, p.mount); err != nil {
			a.ui.notice("it is done, and the mount on %s shows it later: %v", escapeName(p.mount), err)
		}
	}
	for _, dir := range mountsOf(ctx, c) {
		if !looked[dir] {
			_, _ = lookAgain(ctx, dir)
		}
	}
}

// mountsOf returns the mounts of the account of c that run here, at a service of ours: elsewhere a look costs.
func mountsOf(ctx context.Context, c *sdk.Client) []string {
	caps, err := c.Capabilities(ctx)
	if err != nil || !caps.Dialect.IsOurs() {
		return nil
	}
	all, err := ownMounts()
	if err != nil {
		return nil
	}
	return ofAccount(ctx, all, c.Account(), c.NetworkInfo().MCPURL)
}

// lookAgain signals the mount on dir, waits until a look that began afterwards has ended, and returns when it did.
func lookAgain(ctx context.Context, dir string) (time.Time, error) {
	m := inspect(ctx, dir)
	if !m.isServed(userOf(dir)) {
		return time.Time{}, refuse(exitOther, "see: svcfs status "+shellWord(dir),
			fmt.Errorf("the mount on %s does not answer", dir))
	}
	before, asked := m.Status, time.Now()
	if err := syscall.Kill(m.Status.PID, syscall.SIGHUP); err != nil {
		return time.Time{}, refuse(exitOther, "do it as the user who mounted it",
			fmt.Errorf("tell process %d: %w", m.Status.PID, err))
	}
	ctx, cancel := context.WithTimeout(ctx, refreshLimit)
	defer cancel()
	for {
		m := inspect(ctx, dir)
		if m.Status != nil && !m.Status.Refreshed.Before(asked) {
			return m.Status.Refreshed, nil
		}
		if failed := newFailure(before, m.Status); failed != nil {
			return time.Time{}, refuse(exitCodeOfLook(failed.Class), failed.Hint,
				fmt.Errorf("look at %s: %s", failed.Path, failed.Error))
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return time.Time{}, refuse(exitUnreachable, "see: svcfs status "+shellWord(dir),
				fmt.Errorf("%s could not look at the ledger", dir))
		}
	}
}

// newFailure returns the look that failed since before, if one did.
func newFailure(before, now *report.Status) *look.Failed {
	if now == nil || now.FailedLook == nil || before.FailedLook != nil &&
		!now.FailedLook.Time.After(before.FailedLook.Time) {
		return nil
	}
	return now.FailedLook
}
