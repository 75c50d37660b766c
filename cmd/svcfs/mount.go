package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/confine"
	"github.com/svcfs/svcfs/sdk/wire"
)

// mount is the command: the cheap refusals come first, then secrets, then the
// service, then the kernel.
func (a *app) mount(cmd *cobra.Command, f *mountFlags, dir string) (err error) {
	if err := confine.Harden(); err != nil {
		return fmt.Errorf("protect this process: %w", err)
	}
	if f.mounterFD >= 0 {
		syscall.CloseOnExec(f.mounterFD) // a command for the key has no use for it
	}
	settled, err := a.mountOptions()
	if err != nil {
		return err
	}
	plan, err := f.plan(dir, settled)
	if err != nil {
		return err
	}
	if f.logFile != "" {
		log, err := openLogFile(f.logFile, maxLogBytes)
		if err != nil {
			return err
		}
		defer log.Close()
		a.ui = newTerminal(a.ui.out, log)
	}
	if f.mounterFD < 0 {
		if err := a.checkPlace(cmd.Context(), plan.dir); err != nil {
			return err
		}
	}
	if f.background {
		return a.mountInBackground(cmd, plan)
	}
	if plan.outside, err = fs.StartOutside(plan.dir, f.mounterFD); err != nil {
		return err
	}
	defer plan.outside.Close()
	stopProfile, err := cli.StartProfile(f.cpuProfile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	signals := watchSignals()
	defer signals.stop()
	stopEarly := context.AfterFunc(signals.first, cancel) // Ctrl-C before it is mounted
	m, err := a.startMount(ctx, plan)
	if err != nil {
		return err
	}
	if err := a.confine(plan); err != nil {
		return errors.Join(err, m.server.UnmountLazily(), m.finish(nil, nil))
	}
	stopEarly()
	reportReady(f.readyFD, readyReport{OK: true, PID: os.Getpid()})
	a.notifyManager("READY=1\nSTATUS=mounted " + string(m.client.Account()) + " on " + plan.dir)
	if err := a.printMounted(m.client.Account(), plan, os.Getpid()); err != nil {
		return err
	}
	return m.serve(signals)
}

// mounted is what mount prints as JSON, once it is.
type mounted struct {
	Dir     string        `json:"mountpoint"`
	Account sdk.AccountID `json:"account_id"`
	PID     int           `json:"pid"`
}

func (a *app) printMounted(account sdk.AccountID, plan mountPlan, pid int) error {
	if a.asJSON {
		return a.printJSON(mounted{plan.dir, account, pid})
	}
	a.ui.printf("mounted %s on %s\n", escapeName(string(account)), escapeName(plan.dir))
	return nil
}

// liveMount is a mount of this process.
type liveMount struct {
	app    *app
	dir    string
	client *sdk.Client
	tree   *tree.Tree
	server *fs.Server
	level  *slog.LevelVar // of the log; SIGUSR1 changes it
	plan   mountPlan
}

// checkTimeout bounds the questions asked before mounting.
const checkTimeout = 30 * time.Second

// startMount asks the service who we are, and mounts.
func (a *app) startMount(ctx context.Context, p mountPlan) (*liveMount, error) {
	c, _, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	defer a.waitsFor(c.NetworkInfo().MCPURL)()
	if _, err := c.AuthStatus(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	caps, err := c.Capabilities(ctx) // from here on the prices are known
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	largest, err := c.MaxUpload(ctx)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	level := new(slog.LevelVar)
	level.Set(p.level)
	logger := slog.New(slog.NewTextHandler(a.ui.err, &slog.HandlerOptions{Level: level}))
	cfg := a.treeConfig(c, caps, p, logger)
	cfg.MaxUploadBytes = largest
	t, err := tree.New(ctx, cfg)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	if p.flags.allowOther {
		a.ui.notice("other users of this machine can see %s as far as its modes permit", p.dir)
	}
	server, err := fs.Mount(p.dir, t, fs.Options{Account: p.sourceName(c.Account()), AllowOther: p.flags.allowOther, ReadOnly: p.readOnly, Umask: p.umask,
		UID: p.uid, GID: p.gid, ForeignUID: p.foreignUID, OwnAll: p.flags.ownAll, NoExec: p.noExec, Reads: p.flags.reads, NoXattr: p.flags.noXattr, Logger: logger, Outside: p.outside})
	if err != nil {
		_ = t.Close()
		_ = c.Close()
		return nil, err
	}
	return &liveMount{app: a, dir: p.dir, client: c, tree: t, server: server, level: level, plan: p}, nil
}

// waitsFor says on a terminal which service is waited for, until done is called.
func (a *app) waitsFor(service string) (done func()) {
	if !a.asJSON {
		a.ui.progress("waiting for %s", service)
	}
	return func() { a.ui.progress("") }
}

// treeConfig puts together what the flags and the service allow.
func (a *app) treeConfig(c *sdk.Client, caps wire.Capabilities, p mountPlan, logger *slog.Logger) tree.Config {
	deletes := slices.Contains(caps.Features, wire.CapDelete)
	if p.flags.allowDelete && !deletes {
		a.ui.notice("this service does not delete files: --allow-delete has no effect")
	}
	remote := tree.Client{Client: c}
	var storage func(context.Context, sdk.GroupID) (sdk.Storage, error)
	if slices.Contains(caps.Features, wire.CapStorage) {
		storage = remote.Storage
	}
	return tree.Config{
		Remote: remote, Known: remote, Storage: storage, Passthrough: p.flags.reads == fs.ReadsPassthrough, CacheBytes: int64(p.flags.cacheSize), MaxFileBytes: int64(p.flags.maxFileSize),
		StagingBytes: int64(p.flags.stagingSize), Logger: logger, ReadOnly: p.readOnly, AllowMkdir: p.flags.allowMkdir,
		AllowDelete: p.flags.allowDelete && deletes, AllowCrawlers: p.flags.allowCrawlers,
		CanRename: slices.Contains(caps.Features, wire.CapRename), Scratch: p.flags.scratch,
		Budget: p.budget, BudgetPerHour: p.budgetPerHour, Price: c.Price, ReadPrice: remote.ReadPrice, Watch: c.Watch, Version: version(), Mountpoint: p.dir,
		Confined: confinement(), Proofs: func() string { return proofWords(c) }, Hint: a.hints.ofMount,
	}
}

// checkPlace refuses a folder, or a machine, on which this user cannot mount.
func (a *app) checkPlace(ctx context.Context, dir string) error {
	if err := a.prepareMountpoint(ctx, dir); err != nil {
		return err
	}
	return fs.CheckSupport()
}

// prepareMountpoint refuses a folder that cannot be mounted on, and cleans a
// mount of ours that a crash left behind.
func (a *app) prepareMountpoint(ctx context.Context, dir string) error {
	err := fs.CheckMountpoint(dir, a.ownDirs()...)
	if !errors.Is(err, fs.ErrDeadMount) && !errors.Is(err, fs.ErrMounted) {
		return mountpointRefusal(err)
	}
	// The kernel may answer for a dead mount from what it remembers.
	ours, lookErr := mountAt(dir)
	if lookErr != nil {
		return mountpointRefusal(err)
	}
	if inspect(ctx, ours).State != stateDead {
		return mountpointRefusal(err)
	}
	if err := fs.UnmountLazily(ours); err != nil {
		return refuse(exitOther, "run: fusermount3 -uz "+dir, fmt.Errorf("clean the dead mount on %s: %w", dir, err))
	}
	a.ui.notice("cleaned the dead mount that an earlier run left on %s", dir)
	return mountpointRefusal(fs.CheckMountpoint(dir, a.ownDirs()...))
}

// ownDirs are where settings and state of ours lie.
func (a *app) ownDirs() []string {
	var dirs []string
	for _, dir := range []string{a.userDir("XDG_CONFIG_HOME", ".config", ""), a.userDir("XDG_STATE_HOME", ".local/state", "")} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// mountpointRefusal is a usage error; its next step is the refusal's own.
func mountpointRefusal(err error) error {
	if err == nil {
		return nil
	}
	return refuse(exitUsage, "", err)
}

// readyReport is the one line a mount process writes on its readiness pipe.
type readyReport struct {
	OK    bool     `json:"ok"`
	PID   int      `json:"pid,omitempty"`
	Error string   `json:"error,omitempty"`
	Hint  string   `json:"hint,omitempty"`
	Code  exitCode `json:"code,omitempty"`
}

// drainLimit bounds the upload of what is left when SIGTERM ends a mount.
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
	var left []tree.Pending
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
				m.app.ui.notice("interrupt again to give these up")
				signals.arm()
				continue
			}
			if err = m.unmount(gone, signals.again()); err != nil {
				m.app.ui.notice("%s is in use: %v; interrupt again to leave anyway", m.dir, err)
				signals.arm()
				continue
			}
			return m.finish(left, nil)
		}
	}
}

// drain uploads what is left, within limit when it is not 0.
func (m *liveMount) drain(ctx context.Context, limit time.Duration) []tree.Pending {
	if n := len(m.tree.Pending()); n > 0 {
		m.app.ui.progress("uploading %s before unmounting", plural(n, "file"))
	}
	if limit > 0 {
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = bounded
	}
	left := m.tree.Drain(ctx)
	m.app.ui.progress("")
	return left
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
	case <-time.After(5 * time.Second): // a program keeps a file open
	}
	return nil
}

// finish releases what the mount held and tells what was lost.
func (m *liveMount) finish(left []tree.Pending, err error) error {
	_ = m.tree.Close()
	err = errors.Join(err, m.app.closeClient(m.client))
	if len(left) > 0 {
		m.list("lost: not uploaded", left)
		m.app.leaveReport(left)
		err = errors.Join(err, refuse(exitOther, "save them again after mounting; svcfs why PATH and the log say what failed",
			fmt.Errorf("%s ended with %s not uploaded", m.dir, plural(len(left), "file"))))
	}
	return err
}

func (m *liveMount) list(title string, left []tree.Pending) {
	m.app.ui.notice("%s:", title)
	for _, p := range left {
		m.app.ui.notice("  %s  %d bytes  %s", p.Path, p.Size, p.Error)
	}
}

// reportReady writes one report and closes the pipe; without a pipe it does nothing.
func reportReady(fd int, report readyReport) {
	if fd < 0 {
		return
	}
	f := os.NewFile(uintptr(fd), "ready")
	if f == nil {
		return
	}
	defer f.Close()
	_, _ = io.WriteString(f, strings.TrimSpace(encodeReport(report))+"\n") // a parent that is gone needs no report
}
