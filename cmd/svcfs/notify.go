package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/svcfs/internal/desktop"
	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

func (a *app) notifyCommand() *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "notify [DIR...]",
		Short: "Tell on the desktop what goes wrong in the mounts of this user, until interrupted",
		Long: `Watch the mounts of this user, and tell by notifications of the desktop: a save that is not
uploaded, a file that somebody else saved at the same time, a group that the account lost,
a budget (--budget) of which 90 % is spent, and a mount that died. Each is told once until it
ends, and at most one message of a kind a minute. With DIR, only of mounts on or below it.

The command asks the mounts and never the service, so it costs nothing. One runs in a session;
the package svcfs-desktop starts it with the desktop. Without a session bus it ends at once.
Mute it in the settings of the desktop, or take it out of the programs that start with it.`,
		Example: "  svcfs notify\n  svcfs notify --json",
		RunE: a.simple(func(ctx context.Context, args []string) error {
			if interval < 100*time.Millisecond {
				return usage("use a time such as 5s", fmt.Sprintf("interval %s", interval))
			}
			var only []string
			for _, dir := range args {
				full, err := resolve(dir)
				if err != nil {
					return err
				}
				only = append(only, full)
			}
			return a.notify(ctx, interval, only)
		}),
		ValidArgsFunction: completeMount,
	}
	cmd.Flags().DurationVar(&interval, "interval", 5*time.Second, "how often to look at the mounts")
	return cmd
}

func (a *app) notify(ctx context.Context, interval time.Duration, only []string) error {
	bus, err := desktop.Connect(ctx, a.busAddress())
	if err == nil {
		defer bus.Close()
		err = bus.Watch(ctx)
	}
	if err == nil {
		err = bus.Serve(isInMount)
	}
	if errors.Is(err, desktop.ErrNoBus) || errors.Is(err, desktop.ErrTaken) {
		a.ui.notice("%v: nothing to do", err)
		return nil
	}
	if err != nil {
		return err
	}
	w := mountWatch{app: a, only: only, began: time.Now(), seen: make(map[string]*watchedMount),
		dead: make(map[string]bool)}
	teller := desktop.Teller{Now: time.Now, Tell: func(ctx context.Context, m desktop.Message) error {
		if err := bus.Tell(ctx, m); err != nil {
			return err
		}
		if a.asJSON {
			return a.printJSON(m)
		}
		return nil
	}}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		things, err := w.look(ctx)
		if err != nil {
			return err
		}
		teller.Look(ctx, things)
		select {
		case <-tick.C:
		case <-bus.Done(): // the session has ended
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// isInMount reports whether a file manager names a path in a mount. It asks no mount.
func isInMount(address string) bool {
	path, err := localPath(address)
	dirs, listErr := findMounts()
	if err != nil || listErr != nil {
		return false
	}
	_, inside, ok := below(dirs, path)
	return ok && inside != "/"
}

// busAddress is where the session bus of this user listens, "" for none.
func (a *app) busAddress() string {
	if address := a.env.get(envBus); address != "" {
		return address
	}
	if dir := a.env.get(envRuntime); path.IsAbs(dir) {
		if _, err := os.Stat(path.Join(dir, "bus")); err == nil {
			return "unix:path=" + dbus.EscapeBusAddressValue(path.Join(dir, "bus"))
		}
	}
	return ""
}

// mountWatch looks at the mounts of this user again and again.
type mountWatch struct {
	app   *app
	only  []string // folders above the mounts that count; empty = all mounts
	began time.Time
	seen  map[string]*watchedMount // by folder
	gone  []*watchedMount          // that show no more, while it is not known how they ended
	dead  map[string]bool          // folders of mounts that died, until something is mounted there again
}

// watchedMount is what is known of a mount.
type watchedMount struct {
	dir     string
	id      int // of the kernel
	state   string
	status  *report.Status // the newest, nil = it never answered
	reasons []report.Reason
	asked   chan mountAnswer // of a look that goes on; nil = none
}

// mountAnswer is what a mount said of itself.
type mountAnswer struct {
	mountState
	reasons []report.Reason
	changed bool // reasons were read
}

// look returns what lasts now. Each mount has controlDeadline to answer; one that does not is
// asked nothing more until it has.
func (w *mountWatch) look(ctx context.Context) ([]desktop.Thing, error) {
	mounts, err := fs.Mounts()
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	ids := make(map[string]int)
	for _, m := range mounts {
		_, _, counts := below(w.only, m.Dir)
		if (counts || len(w.only) == 0) && isOwn(m) {
			ids[m.Dir] = m.ID // of the last, which is the one that shows
		}
	}
	for dir, m := range w.seen {
		if ids[dir] != m.id {
			delete(w.seen, dir)
			w.gone = append(w.gone, m)
		}
	}
	for dir, id := range ids {
		if w.seen[dir] == nil {
			w.seen[dir] = &watchedMount{dir: dir, id: id}
			delete(w.dead, dir)
		}
	}
	w.askAll(ctx)
	w.bury()
	var things []desktop.Thing
	for _, dir := range slices.Sorted(maps.Keys(w.seen)) {
		things = append(things, w.thingsOf(w.seen[dir])...)
	}
	for _, dir := range slices.Sorted(maps.Keys(w.dead)) {
		things = append(things, diedThing(dir))
	}
	return things, nil
}

// askAll asks each mount how it is, and takes the answers that come in time.
func (w *mountWatch) askAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, controlDeadline)
	defer cancel()
	for _, m := range w.seen {
		if m.asked == nil {
			m.asked = make(chan mountAnswer, 1)
			go func() { m.asked <- m.answer() }()
		}
	}
	for _, m := range w.seen {
		select {
		case now := <-m.asked:
			m.take(now)
		case <-ctx.Done():
		}
	}
}

// answer asks a mount how it is, which may take for ever.
func (m *watchedMount) answer() (now mountAnswer) {
	text, err := os.ReadFile(path.Join(m.dir, ".svcfs", "status"))
	now.mountState = stateOf(m.dir, text, err)
	s := now.Status
	if s == nil {
		return now
	}
	held := slices.ContainsFunc(m.reasons, func(r report.Reason) bool { return r.Staged != nil || r.Waits != nil })
	if before := m.status; held || waitingIn(s) > 0 || before == nil || before.Errors != s.Errors {
		text, err := os.ReadFile(path.Join(m.dir, ".svcfs", "reasons"))
		now.reasons, now.changed = parseReasons(text), err == nil
	}
	return now
}

// take takes over the answer to a look.
func (m *watchedMount) take(now mountAnswer) {
	m.asked, m.state = nil, now.State
	if now.Status != nil {
		m.status = now.Status
	}
	if now.changed {
		m.reasons = now.reasons
	}
}

// bury finds out how the mounts that are gone have ended, once their process has. One that left no
// record is not told of: it was unmounted.
func (w *mountWatch) bury() {
	w.gone = slices.DeleteFunc(w.gone, func(m *watchedMount) bool {
		switch {
		case m.status == nil:
		case isRunning(m.status.PID):
			return false // it still sends what is left
		case w.app.isNotedAsRunning(m.dir, m.status.PID):
			w.app.forgetRunning(m.dir, m.status.PID)
			w.dead[m.dir] = w.seen[m.dir] == nil
		}
		return true
	})
	maps.DeleteFunc(w.dead, func(_ string, dead bool) bool { return !dead })
}

// isRunning reports whether the process of a mount has not ended.
func isRunning(pid int) bool {
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && !isZombie(pid) && isOurProcess(pid)
}

// isOwnProcess reports whether a process is one of this user.
func isOwnProcess(pid int) bool {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

func diedThing(dir string) desktop.Thing {
	return desktop.Thing{Kind: desktop.Died, Key: dir, Path: dir, Note: "its process ended without unmounting",
		Step: "What the service had recorded is safe. Mount again with: svcfs mount " + shellWord(dir)}
}

// budgetShare is the share of a budget from which on the user is told, in percent.
const budgetShare = 90

// thingsOf returns what lasts in a mount that shows.
func (w *mountWatch) thingsOf(m *watchedMount) (things []desktop.Thing) {
	if m.state == stateDead {
		return []desktop.Thing{diedThing(m.dir)}
	}
	s := m.status
	if s == nil || !isOwnProcess(s.PID) {
		return nil
	}
	if isMostSpent(s.Spent, s.Budget) {
		things = append(things, desktop.Thing{Kind: desktop.Budget, Key: m.dir, Path: m.dir, Note: s.Spent + " of " +
			s.Budget + " tokens are spent",
			Step: "See what costs with: svcfs cost " + shellWord(m.dir)})
	}
	if o := s.Outbox; o != nil && o.Items > o.Parked && o.Reason != "" {
		things = append(things, desktop.Thing{Kind: desktop.NotUploaded, Key: m.dir, Path: m.dir,
			Note: waitWords(o.Items - o.Parked),
			Step: "What waits is on the disk of this machine, and is sent when the service can be reached. See: " +
				"svcfs status " + shellWord(m.dir)})
	}
	for _, r := range m.reasons {
		if thing, ok := thingOf(m.dir, r, w.began); ok {
			things = append(things, thing)
		}
	}
	return things
}

// thingOf returns what there is to tell of a path. What happened before since is no news.
func thingOf(dir string, r report.Reason, since time.Time) (desktop.Thing, bool) {
	thing := desktop.Thing{Path: dir + r.Path, Key: dir + r.Path + r.Time.String(), Step: stepOf(dir, r)}
	switch {
	case r.Staged != nil && slices.Contains([]string{report.StagedHalf, report.StagedKilled, report.StagedFailed,
		report.StagedAway}, r.Staged.State):
		thing.Kind, thing.Key, thing.Path = desktop.NotUploaded, dir+r.Staged.Path, dir+r.Staged.Path
	case r.Waits != nil && r.Waits.State == outbox.Parked.String():
		thing.Kind, thing.Key = desktop.NotUploaded, r.Waits.ID
	case r.Time.Before(since):
	case r.Class == tree.ClassConflict.String():
		thing.Kind = desktop.Conflict
	case r.Class == tree.ClassRevoked.String() && path.Dir(r.Path) == "/":
		thing.Kind = desktop.Revoked
	}
	return thing, thing.Kind != ""
}

// stepOf is the next step after an error, as the mount told it, and the command that tells all.
func stepOf(dir string, r report.Reason) string {
	all := "All of it: svcfs why " + shellWord(dir)
	if r.Hint != "" {
		return strings.TrimSuffix(r.Hint, ".") + ". " + all
	}
	return all
}

// isMostSpent reports whether budgetShare of a budget is spent, both in tokens. An empty budget has
// no end.
func isMostSpent(spent, budget string) bool {
	has, err := wire.ParseTokens(spent)
	of, budgetErr := wire.ParseTokens(budget)
	if budget == "" || err != nil || budgetErr != nil || of.IsZero() {
		return false
	}
	x, _ := new(big.Int).SetString(has.String(), 10) // digits
	y, _ := new(big.Int).SetString(of.String(), 10)
	return x.Mul(x, big.NewInt(100)).Cmp(y.Mul(y, big.NewInt(budgetShare))) >= 0
}
