package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// namesPatience is how long 'outbox list' asks the service for names.
const namesPatience = 10 * time.Second

func (a *app) outboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Show and change what was saved on this machine and is not recorded yet",
		Long: `Show and change what was saved through 'svcfs mount --outbox' and is not recorded
yet. A mount sends it by itself, for as long as it takes. What the service refused is
parked, and waits for one of these commands.`,
		Example: "  svcfs outbox list\n  svcfs outbox retry",
	}
	cmd.AddCommand(a.outboxListCommand(), a.outboxRetryCommand(), a.outboxMoveCommand(), a.outboxDiscardCommand())
	return cmd
}

func (a *app) outboxListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List what waits: state, size, time, name, reason",
		Long: `List what waits, in the order of the saves: id, state, size in bytes, time of the save,
name, and why it still waits. Without a mount and without a keyring the service is asked
for the names: while it is away they are not known, and "-" stands for each.
What was saved for another address of a service, or by another account, waits in an
outbox of its own, which is named, too. It is sealed for that service: a mount with that
address and account sends it. When a service moved, let the old name lead to it until
then, in the DNS or in /etc/hosts.`,
		Example: "  svcfs outbox list\n  svcfs outbox list --json",
		Args:    exactly(0, "no argument"),
		RunE: a.simple(func(ctx context.Context, _ []string) error {
			items, err := a.outboxItems(ctx)
			if err != nil {
				return err
			}
			if own, _, err := a.outboxPlace(); err == nil {
				a.tellOthers(ctx, a.ui, own)
			}
			if a.asJSON {
				return a.printJSON(append([]outbox.Item{}, items...))
			}
			rows := make([][]string, 0, len(items))
			for _, i := range items {
				rows = append(rows, []string{i.ID, i.State, fmt.Sprint(i.Size), i.Time.UTC().Format(time.RFC3339),
					escapeName(itemPath(i)), escapeText(i.Reason)})
			}
			a.printTable(rows)
			return nil
		}),
	}
}

// outboxItems lists what waits, as the mount that has it says, else as the disk shows it.
func (a *app) outboxItems(ctx context.Context) ([]outbox.Item, error) {
	dir, s, err := a.outboxPlace()
	if err != nil {
		return nil, err
	}
	answer, err := askOutbox(ctx, dir, outboxRequest{Op: "list"})
	if !errors.Is(err, errNoMount) {
		return answer.Items, err
	}
	address, err := s.address()
	if err != nil {
		return nil, err
	}
	keys := outbox.Keys{Names: a.namesKey(address, s.account, false)}
	items, err := outbox.List(ctx, dir, keys, nil)
	if err != nil || !slices.ContainsFunc(items, func(i outbox.Item) bool { return i.Group == "" }) {
		return items, err
	}
	if named, err := a.askNames(ctx, dir, keys); err == nil {
		return named, nil
	} else if ctx.Err() == nil {
		a.ui.notice("names of what waits are not known while the service is not reached: %v", err)
	}
	return items, ctx.Err()
}

// askNames lists what waits where no mount has it, with names that the service knows alone. Free.
func (a *app) askNames(ctx context.Context, dir string, keys outbox.Keys) ([]outbox.Item, error) {
	ctx, cancel := context.WithTimeout(ctx, namesPatience)
	defer cancel()
	c, s, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	keys.Group = outboxGroupKey(s)
	items, err := outbox.List(ctx, dir, keys, outbox.NewService(c))
	return items, errors.Join(err, a.closeClient(c))
}

func (a *app) outboxPlace() (string, settings, error) {
	s, err := a.accountSettings()
	if err != nil {
		return "", s, err
	}
	dir, err := a.outboxDir(s)
	return dir, s, err
}

// outboxChange is what a change of the outbox prints as JSON.
type outboxChange struct {
	ID    string `json:"id,omitempty"`
	State string `json:"state"`
}

// changeOutbox has the mount change what waits.
func (a *app) changeOutbox(ctx context.Context, request outboxRequest, state string) error {
	dir, _, err := a.outboxPlace()
	if err != nil {
		return err
	}
	answer, err := askOutbox(ctx, dir, request)
	if errors.Is(err, errNoMount) && request.Op == "discard" {
		if err = outbox.Discard(ctx, dir, request.ID); errors.Is(err, outbox.ErrGone) {
			answer, err = outboxAnswer{Error: err.Error(), Gone: true}, nil
		}
	}
	switch {
	case errors.Is(err, errNoMount):
		return refuse(exitOther, "mount first: svcfs mount --outbox DIR",
			errors.New("no mount has the outbox of this account"))
	case err != nil:
		return err
	case answer.Gone:
		return nothingWaits(request.ID)
	case answer.Error != "":
		return refuse(exitOther, "see: svcfs outbox list", errors.New(answer.Error))
	}
	if a.asJSON {
		return a.printJSON(outboxChange{request.ID, state})
	}
	return nil
}

func nothingWaits(id string) error {
	return refuse(exitNotFound, "see: svcfs outbox list", fmt.Errorf("nothing waits under the id %s", id))
}

func (a *app) outboxRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "retry [ID]",
		Short:   "Try what waits now, also what is parked; without ID all of it",
		Example: "  svcfs outbox retry\n  svcfs outbox retry 0123456789abcdef0123456789abcdef",
		Args:    between(0, 1, "at most one ID"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			return a.changeOutbox(ctx, outboxRequest{Op: "retry", ID: strings.Join(args, "")}, "waiting")
		}),
	}
}

func (a *app) outboxMoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "move ID GROUP",
		Short: "Send a parked save to another group",
		Long: `Send a parked save to another group, under the same name. This is for a save that
its group does not take. What waits for a group that the account lost cannot be read
on this machine any more, until the account is a member again.`,
		Example: "  svcfs outbox move 0123456789abcdef0123456789abcdef mine",
		Args:    exactly(2, "an ID and a GROUP"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			return a.changeOutbox(ctx, outboxRequest{Op: "move", ID: args[0], Group: sdk.GroupID(args[1])}, "waiting")
		}),
	}
}

func (a *app) outboxDiscardCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "discard ID",
		Short: "Give a save up for good; asks first",
		Long: `Give a save that waits up for good: it is never recorded, and its content is lost
unless a program has it. The command asks first.`,
		Example: "  svcfs outbox discard 0123456789abcdef0123456789abcdef\n" +
			"  svcfs outbox discard --yes 0123456789abcdef0123456789abcdef",
		Args: exactly(1, "one ID"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			if !yes {
				items, err := a.outboxItems(ctx)
				if err != nil {
					return err
				}
				at := slices.IndexFunc(items, func(i outbox.Item) bool { return i.ID == args[0] })
				if at < 0 {
					return nothingWaits(args[0])
				}
				what := "of " + escapeName(itemPath(items[at]))
				if items[at].Group == "" { // its name is not known here
					what = args[0]
				}
				a.ui.notice("the save %s is lost for good; type yes to discard it", what)
				line, err := bufio.NewReader(a.input(ctx)).ReadString('\n')
				if ctx.Err() != nil {
					return err
				}
				if strings.TrimSpace(line) != "yes" {
					return refuse(exitUsage, "answer yes, or use --yes", errors.New("nothing was discarded"))
				}
			}
			return a.changeOutbox(ctx, outboxRequest{Op: "discard", ID: args[0]}, "discarded")
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) syncCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "sync DIR",
		Short: "Wait until everything that was saved through the mount on DIR is recorded",
		Long: `Wait until everything that was closed in the mount on DIR is recorded, also what
waits in its outbox. Shows how much is left, and why it waits. Ends with 6 when something
is parked, after --timeout (sending goes on then), and when something is left that nothing
sends by itself, such as what a program wrote that was killed: svcfs why DIR names it, and
what to do.`,
		Example: "  svcfs sync ~/groups\n  svcfs sync --timeout 1m ~/groups",
		Args:    exactly(1, "one DIR"),
		RunE:    a.simple(func(ctx context.Context, args []string) error { return a.sync(ctx, args[0], timeout) }),

		ValidArgsFunction: completeDirs,
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up waiting after this long (default never)")
	return cmd
}

// synced is what sync prints as JSON.
type synced struct {
	Dir     string `json:"mountpoint"`
	Waiting int    `json:"waiting"`
	Parked  int    `json:"parked"`
	Held    int    `json:"held"` // nothing sends them by itself
}

func (a *app) sync(ctx context.Context, path string, timeout time.Duration) error {
	dir, err := mountAt(path)
	if err != nil {
		return err
	}
	if timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = bounded
	}
	defer a.ui.progress("")
	now, more := synced{Dir: dir}, ""
	for told := false; ; {
		m := inspect(ctx, dir)
		if ctx.Err() != nil {
			return lateSync(now, more)
		}
		if !m.isServed(userOf(dir)) {
			return refuse(exitOther, "see: svcfs status "+shellWord(dir),
				fmt.Errorf("the mount on %s does not answer", dir))
		}
		if !told { // a look makes it send at once, too
			if err := syscall.Kill(m.Status.PID, syscall.SIGHUP); err != nil {
				return refuse(exitOther, "do it as the user who mounted it", fmt.Errorf("tell process %d: %w",
					m.Status.PID, err))
			}
			told = true
		}
		now = synced{Dir: dir, Waiting: m.Status.Pending - m.Status.Held, Held: m.Status.Held}
		if o := m.Status.Outbox; o != nil {
			now.Waiting, now.Parked = now.Waiting+o.Items-o.Parked, o.Parked
			more = leftWords(o.Bytes+m.Status.Unsent, o.Reason)
		}
		if now.Waiting == 0 {
			return a.endSync(now)
		}
		a.ui.progress("waiting for %s to be recorded%s", plural(now.Waiting, "save"), more)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return lateSync(now, more)
		}
	}
}

// lateSync tells what waits still when the time is over.
func lateSync(now synced, more string) error {
	err := fmt.Errorf("%s not recorded yet%s", areWords(now.Waiting), more)
	if now.Held > 0 {
		return refuse(exitOther, "sending goes on; see: svcfs why "+shellWord(now.Dir),
			fmt.Errorf("%w; %w", err, heldError(now.Held)))
	}
	return refuse(exitOther, "it goes on by itself; see: svcfs status "+shellWord(now.Dir), err)
}

// endSync tells what became of the saves once none waits any more.
func (a *app) endSync(now synced) error {
	if a.asJSON {
		if err := a.printJSON(now); err != nil {
			return err
		}
	}
	parked := fmt.Errorf("%s not recorded, and parked", areWords(now.Parked))
	switch {
	case now.Held > 0 && now.Parked > 0:
		return refuse(exitOther, "see: svcfs why "+shellWord(now.Dir),
			fmt.Errorf("%w; %w", parked, heldError(now.Held)))
	case now.Held > 0:
		return refuse(exitOther, "see: svcfs why "+shellWord(now.Dir), heldError(now.Held))
	case now.Parked > 0:
		return refuse(exitOther, "see: svcfs outbox list", parked)
	}
	return nil
}

// heldError is about saves that nothing sends by itself.
func heldError(n int) error {
	return fmt.Errorf("%s not recorded, and not sent by itself: a write was refused, its program was killed, or the "+
		"service refuses it", areWords(n))
}

func areWords(n int) string {
	if n == 1 {
		return "1 save is"
	}
	return fmt.Sprintf("%d saves are", n)
}
