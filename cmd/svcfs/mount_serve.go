package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/svcfs/svcfs/fs"
)

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
		if err := m.tree.Refresh(ctx); err != nil && !errors.Is(err, context.Canceled) {
			m.app.ui.notice("refresh: %v", err)
		}
	}()
}

// watchIdle sends when nobody used the mount for the time of --idle-unmount.
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
	err := m.unmount(gone, false)
	if err != nil && !errors.Is(err, fs.ErrBusy) {
		m.app.ui.notice("unmount %s, which is idle: %v", m.dir, err)
	}
	return err == nil
}
