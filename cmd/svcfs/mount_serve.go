package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
)

// liveMount is a mount of this process.
type liveMount struct {
	app     *app
	dir     string
	client  *sdk.Client
	tree    *tree.Tree
	server  *fs.Server
	level   *slog.LevelVar  // of the log; SIGUSR1 changes it
	spool   *staging.Spool  // nil = none
	outbox  *mountOutbox    // nil = none
	giveUp  context.Context // ends the sending of what is in the outbox
	plan    mountPlan
	control *control // nil = none
}

// drainLimit is how long nothing may move while what is left is uploaded at the end of a mount
// that SIGTERM ended. What moves may take as long as it needs.
const drainLimit = 30 * time.Second

// serve waits until the mount ends and returns how.
func (m *liveMount) serve(signals *signalWatch) error {
	gone := make(chan struct{})
	go func() {
		m.server.Wait()
		close(gone)
	}()
	idle, stopIdle := m.watchIdle()
	defer stopIdle()
	defer m.app.notifyManager("STOPPING=1")
	var left []report.Pending
	var err error
	for {
		select {
		case <-signals.verbosity:
			m.toggleLog()
		case <-signals.refresh:
			m.refresh()
		case <-idle:
			if !m.endIdle(gone) {
				continue
			}
			m.app.ui.notice("unmounted %s, which nobody used for %s", m.dir, m.plan.flags.idle)
			return m.finish(nil, nil)
		case <-gone: // by umount from outside: the kernel has flushed what was closed
			left = m.drain(context.Background(), drainLimit)
			return m.finish(left, err)
		case <-signals.terminate:
			left = m.drain(context.Background(), drainLimit)
			err = m.unmount(gone, true)
			return m.finish(left, err)
		case <-signals.interrupt:
			if left = m.drain(signals.nextInterrupt(), 0); len(left) > 0 && !signals.again() {
				m.list("kept the mount: not uploaded yet", left)
				signals.arm() // before the person is asked: the answer may come at once
				m.app.ui.notice("interrupt again to give these up")
				continue
			}
			m.giveUp = signals.nextInterrupt()
			if err = m.unmount(gone, signals.again()); err != nil {
				signals.arm()
				m.app.ui.notice("%s is in use: %v; interrupt again to leave anyway", m.dir, err)
				continue
			}
			return m.finish(left, nil)
		}
	}
}

// drain uploads what is left, until nothing has moved for limit when it is not 0.
func (m *liveMount) drain(ctx context.Context, limit time.Duration) []report.Pending {
	if n := len(m.tree.Pending()); n > 0 {
		m.app.ui.progress("uploading %s before unmounting", plural(n, "file"))
		m.extend(limit)
	}
	if limit > 0 {
		before := m.client.Traffic().Moved
		moving, cancel := whileMoving(ctx, limit, func() int64 {
			moved := m.client.Traffic().Moved
			if moved != before { // its patience counts from now
				m.extend(limit)
			}
			before = moved
			return moved
		})
		defer cancel()
		ctx = moving
	}
	left := m.tree.Drain(ctx)
	m.app.ui.progress("")
	return left
}

// extend tells the service manager that the end takes longer than a limit; 0 = there is none.
func (m *liveMount) extend(limit time.Duration) {
	if limit == 0 {
		return
	}
	m.app.notifyManager(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (2 * limit).Microseconds()))
}

// whileMoving returns a context that ends once moved has told the same for limit.
func whileMoving(ctx context.Context, limit time.Duration, moved func() int64) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(limit / 30)
		defer tick.Stop()
		before, since := moved(), time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				if m := moved(); m != before {
					before, since = m, now
				} else if now.Sub(since) >= limit {
					cancel()
					return
				}
			}
		}
	}()
	return ctx, cancel
}

// unmount takes the mount away; by force also while a program uses it.
func (m *liveMount) unmount(gone <-chan struct{}, force bool) error {
	err := m.server.Unmount(context.Background())
	if err != nil && force {
		err = m.server.UnmountLazily()
	}
	if err != nil {
		return err
	}
	select {
	case <-gone:
	case <-time.After(5 * time.Second): // a program keeps a file open, or another namespace has a copy
	}
	return nil
}

// finish releases what the mount held and tells what was lost. What programs changed between the
// last upload, which left what was tried, and the end of the mount is uploaded first, unless something was given up.
func (m *liveMount) finish(tried []report.Pending, err error) error {
	isNew := func(p report.Pending) bool {
		return !slices.ContainsFunc(tried, func(was report.Pending) bool { return was.Path == p.Path })
	}
	left := m.tree.Pending()
	if len(tried) == 0 || m.giveUp.Err() == nil && slices.ContainsFunc(left, isNew) {
		left = m.drain(context.Background(), drainLimit)
	}
	kept := asPending(m.drainOutbox(m.giveUp))
	err = errors.Join(err, m.outbox.end()) // before the tree, which it tells of each step
	m.control.close()
	_ = m.tree.Close()
	m.app.tellKept(kept)
	if m.spool != nil {
		_ = m.spool.Close()
	}
	err = errors.Join(err, m.app.closeClient(m.client))
	m.app.forgetRunning(m.dir, os.Getpid())
	if len(left)+len(kept) > 0 {
		m.app.leaveReport(append(slices.Clip(left), kept...))
	}
	if len(left) > 0 {
		m.list("lost: not uploaded", left)
		err = errors.Join(err, refuse(exitOther, "save them again after mounting; svcfs why PATH and the log say "+
			"what failed",
			fmt.Errorf("%s ended with %s not uploaded", m.dir, plural(len(left), "file"))))
	}
	return err
}

func (m *liveMount) list(title string, left []report.Pending) {
	m.app.ui.notice("%s:", title)
	for _, p := range left {
		m.app.ui.notice("  %s  %s  %s", p.Path, p.What(), p.Error)
	}
}

// notifyManager tells the service manager how we are: one datagram to the socket
// in NOTIFY_SOCKET, as sd_notify(3) documents. Without a manager it does nothing;
// a manager that cannot be told is no reason to fail.
func (a *app) notifyManager(state string) {
	path := a.env.get("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // "@" is an abstract name
	if err != nil {
		a.ui.notice("tell the service manager: %v", err)
		return
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		a.ui.notice("tell the service manager: %v", err)
	}
}

// toggleLog switches between the level of the flags and debug.
func (m *liveMount) toggleLog() {
	level := slog.LevelDebug
	if m.level.Level() == level {
		level = m.plan.level
	}
	m.level.Set(level)
	m.app.ui.notice("log level is %s", level)
}

// refreshLimit bounds a look at the ledger that a signal asked for.
const refreshLimit = 30 * time.Second

// refresh looks at the ledger now, without holding up the mount's other duties.
func (m *liveMount) refresh() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), refreshLimit)
		defer cancel()
		if m.outbox != nil {
			m.outbox.Flush()
		}
		if err := m.tree.Refresh(ctx); err != nil && !errors.Is(err, context.Canceled) {
			m.app.ui.notice("refresh: %v", err)
		}
	}()
}

// watchIdle sends whenever endIdle is due, and never without --idle-unmount.
func (m *liveMount) watchIdle() (idle <-chan time.Time, stop func()) {
	limit := m.plan.flags.idle
	if limit == 0 {
		return nil, func() {}
	}
	const looks = 10 // while the time runs
	tick := time.NewTicker(max(limit/looks, 100*time.Millisecond))
	return tick.C, tick.Stop
}

// endIdle unmounts if nobody used the mount for long enough, nobody stands in it
// and nothing waits to be uploaded.
func (m *liveMount) endIdle(gone <-chan struct{}) bool {
	if time.Since(m.server.LastUse()) < m.plan.flags.idle || len(m.tree.Pending()) > 0 {
		return false
	}
	if m.outbox != nil {
		if s := m.outbox.Status(); s.Items > s.Parked {
			return false
		}
	}
	err := m.unmount(gone, false)
	if err != nil && !errors.Is(err, fs.ErrBusy) {
		m.app.ui.notice("unmount %s, which is idle: %v", m.dir, err)
	}
	return err == nil
}
