package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk/network"
)

func (a *app) statusCommand() *cobra.Command {
	var watch bool
	var interval time.Duration
	cmd := &cobra.Command{
		Use:     "status [DIR]",
		Short:   "Show the mounts of this machine, or the state of the mount on DIR",
		Example: "  svcfs status\n  svcfs status ~/groups\n  svcfs status --watch ~/groups\n  svcfs status --json",
		Args:    between(0, 1, "at most one DIR"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			show := func() error {
				if len(args) == 1 {
					return a.statusOf(ctx, args[0])
				}
				return a.statusAll(ctx)
			}
			a.tellOthers(ctx, a.ui, "")
			if watch {
				return a.watch(ctx, interval, show)
			}
			return show()
		}),
		ValidArgsFunction: completeMount,
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again whenever it changes, until interrupted")
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "how often --watch looks")
	return cmd
}

// watch repeats show until ctx ends, and prints what it says when that is not what
// it said before; on a terminal in place of it.
func (a *app) watch(ctx context.Context, interval time.Duration, show func() error) error {
	if interval < 100*time.Millisecond {
		return usage("use a time such as 1s", fmt.Sprintf("interval %s", interval))
	}
	out := a.ui.out
	defer func() { a.ui.out = out }()
	var last string
	for {
		var now bytes.Buffer
		a.ui.out = &now
		err := show()
		a.ui.out = out
		if ctx.Err() != nil { // in the middle of looking
			return nil
		}
		if err != nil {
			return err
		}
		if now.String() != last {
			last = now.String()
			a.ui.clear()
			a.ui.printf("%s", last)
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *app) statusAll(ctx context.Context) error {
	dirs, err := findMounts()
	if err != nil {
		return err
	}
	states := []mountState{}
	for _, dir := range dirs {
		states = append(states, inspect(ctx, dir))
	}
	if a.asJSON {
		return a.printJSON(states)
	}
	rows := make([][]string, 0, len(states))
	for _, m := range states {
		row := []string{m.State, "-", "-", escapeName(m.Dir)}
		if m.Status != nil {
			row = []string{m.State, escapeName(m.Status.Account), pendingWords(waitingIn(m.Status)), escapeName(m.Dir)}
		}
		rows = append(rows, row)
	}
	a.printTable(rows)
	return nil
}

// waitingIn is how many saves are not recorded.
func waitingIn(s *report.Status) int {
	if s.Outbox == nil {
		return s.Pending
	}
	return s.Pending + s.Outbox.Items
}

// shownTemporary is how many files temporaryWords names.
const shownTemporary = 5

// temporaryWords names files whose content ends with the mount, or goes into the outbox then, because their names are
// temporary.
func temporaryWords(s *report.Status) string {
	text := plural(s.TemporaryFiles, "file") + " with a temporary name, never uploaded under it, "
	switch {
	case s.Outbox != nil:
		text += "kept in the outbox when the mount ends:"
	case s.TemporaryFiles == 1:
		text += "ends with the mount:"
	default:
		text += "end with the mount:"
	}
	for _, path := range s.Temporary[:min(len(s.Temporary), shownTemporary)] {
		text += " " + escapeName(path)
	}
	if s.TemporaryFiles > shownTemporary {
		text += " …"
	}
	return text
}

func pendingWords(n int) string {
	if n == 0 {
		return "all uploaded"
	}
	return fmt.Sprintf("%d not uploaded", n)
}

func (a *app) statusOf(ctx context.Context, path string) error {
	dir, err := mountAt(path)
	if err != nil {
		return err
	}
	m := inspect(ctx, dir)
	if a.asJSON {
		return a.printJSON(m)
	}
	if m.Status == nil {
		a.printSilent(dir, m.State)
		return nil
	}
	s := m.Status
	spent := s.Spent
	if s.Budget != "" {
		spent += " of " + s.Budget
	}
	pairs := [][2]string{
		{"mountpoint", escapeName(dir)}, {"state", m.State}, {"account", escapeName(s.Account)},
		{"process", itoa(s.PID)},
		{"since", s.Started.UTC().Format(time.RFC3339)}, {"service", s.Service}, {"last look", lastLookWords(s)},
		{"groups", itoa(s.Groups)}, {"proofs", cmp.Or(s.Proofs, "not told")},
		{"files", cmp.Or(s.Files, "not told")}, {"confined by", cmp.Or(s.Confined, "nothing")},
		{"pending", sendingWords(s)}, {"moving", movingWords(s)},
		{"cached", fmt.Sprintf("%d of %d bytes", s.Cached, s.CacheLimit)},
		{"charged", chargedWords(s)}, {"spent", spent + " tokens"}, {"errors", fmt.Sprint(s.Errors)},
	}
	if s.Outbox != nil {
		pairs = append(pairs, [2]string{"outbox", outboxWords(s.Outbox)})
	}
	if s.TemporaryFiles > 0 {
		pairs = append(pairs, [2]string{"temporary", temporaryWords(s)})
	}
	if f := s.FailedLook; f != nil && f.Hint != "" {
		pairs = append(pairs, [2]string{"hint", escapeText(cli.HintText(f.Hint))})
	}
	a.printPairs(pairs...)
	return a.printPending(ctx, dir)
}

func sendingWords(s *report.Status) string {
	pending := pendingWords(waitingIn(s))
	if s.Sending > 0 {
		pending += fmt.Sprintf(", %d being sent", s.Sending)
		if s.Speed > 0 && s.Unsent > 0 {
			pending += ", " + timeLeft(s.Unsent, s.Speed) + " left"
		}
	}
	return pending
}

func movingWords(s *report.Status) string {
	moving := "nothing"
	if s.Speed > 0 {
		moving = roughSize(s.Speed) + "/s"
	}
	if l := limitOf(s); l != (network.Limit{}) {
		moving += ", at most " + rateWords(l.Down) + "/s down and " + rateWords(l.Up) + "/s up"
	}
	return moving
}

func chargedWords(s *report.Status) string {
	charged := plural(int(s.Retrieves), "retrieval") + ", " + plural(int(s.Uploads), "upload")
	if s.Looks > 0 {
		charged += ", " + plural(int(s.Looks), "look") + " at the ledger"
	}
	return charged
}

// printSilent prints the state of a mount that does not answer.
func (a *app) printSilent(dir, state string) {
	a.printPairs([][2]string{{"mountpoint", escapeName(dir)}, {"state", state}}...)
	switch state {
	case stateDead:
		a.ui.notice("its process is gone; run: svcfs umount %s", shellWord(dir))
	case stateStuck:
		a.ui.notice("it does not answer: its process is busy or stopped; run it again, or: svcfs umount %s",
			shellWord(dir))
	case stateOthers:
		a.ui.notice("it is the mount of another user, and answers that user alone")
	}
}

// lastLookWords tells how looking at the ledger went.
func lastLookWords(s *report.Status) string {
	switch f := s.FailedLook; {
	case f != nil:
		return escapeText(f.Time.Format(time.RFC3339) + " failed at " + f.Path + ": " + f.Error)
	case s.Refreshed.IsZero():
		return "not yet"
	}
	return s.Refreshed.Format(time.RFC3339) + " succeeded"
}

// printPending shows what is not uploaded yet.
func (a *app) printPending(ctx context.Context, dir string) error {
	text, err := readControl(ctx, dir, "pending")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		a.ui.printf("not uploaded  %s\n", escapeText(strings.ReplaceAll(strings.TrimSpace(line), "\t", "  ")))
	}
	return nil
}
