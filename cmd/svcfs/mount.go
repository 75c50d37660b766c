package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// mountFlags are the flags of mount.
type mountFlags struct {
	background  bool
	readyFD     int // of the pipe on which a background child reports
	allowMkdir  bool
	allowOther  bool
	options     []string // -o
	budget      string
	cacheSize   byteSize
	maxFileSize byteSize
	umask       string
	logLevel    string
	scratch     []string
	reads       fs.Reads
	cpuProfile  string
	asJSON      bool
}

// mountPlan is what the flags mean.
type mountPlan struct {
	dir      string // absolute
	readOnly bool
	umask    uint32
	budget   sdk.Amount
	level    slog.Level
	flags    *mountFlags
}

func (a *app) mountCommand() *cobra.Command {
	f := &mountFlags{readyFD: -1, cacheSize: byteSize(tree.DefaultCacheBytes), maxFileSize: byteSize(tree.DefaultMaxFileBytes)}
	cmd := &cobra.Command{
		Use:   "mount DIR",
		Short: "Mount the groups of the account on the empty folder DIR",
		Long: `Mount the groups of the account on the empty folder DIR. Stays in the
foreground until it is interrupted; what is not uploaded yet is uploaded first.
Ctrl-C once keeps the mount when something cannot be uploaded, and lists it;
twice gives it up. Listing and stat are free; opening a file costs one
retrieval unless it is in memory, closing a changed one costs one upload.`,
		Example: "  svcfs mount ~/team\n  svcfs mount --background --budget 5 ~/team\n  svcfs mount -o ro ~/team",
		Args:    exactly(1, "one DIR"),

		ValidArgsFunction: completeDirs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.began = true
		err := a.mount(cmd, f, args[0])
		if err != nil {
			reportReady(f.readyFD, readyReport{Error: err.Error(), Hint: hintFor(err), Code: exitCodeOf(err)})
		}
		return err
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.background, "background", "d", false, "return as soon as it is mounted; log to ~/.local/state/svcfs")
	flags.IntVar(&f.readyFD, "ready-fd", -1, "report readiness on this descriptor")
	flags.BoolVar(&f.allowMkdir, "allow-mkdir", false, "let mkdir in the root register a group, which costs")
	flags.BoolVar(&f.allowOther, "allow-other", false, "let other users of this machine in, as the modes permit")
	flags.StringSliceVarP(&f.options, "options", "o", nil, "mount options: ro, rw, allow_other")
	flags.StringVar(&f.budget, "budget", "", "most tokens to spend while mounted; then EDQUOT")
	flags.Var(&f.cacheSize, "cache-size", "decrypted content kept in memory")
	flags.Var(&f.maxFileSize, "max-file-size", "largest file")
	flags.StringVar(&f.umask, "umask", "077", "permission bits that are never shown, octal")
	flags.StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	flags.StringArrayVar(&f.scratch, "scratch", nil, "more names that stay in memory and are never uploaded, such as *.bak")
	flags.Var(&f.reads, "kernel-cache", "how the kernel serves reads")
	flags.StringVar(&f.cpuProfile, "cpuprofile", "", "write a CPU profile to this file")
	for _, name := range []string{"ready-fd", "kernel-cache", "cpuprofile"} {
		_ = flags.MarkHidden(name) // exists
	}
	addJSON(cmd, &f.asJSON)
	return cmd
}

// plan checks the flags.
func (f *mountFlags) plan(dir string) (mountPlan, error) {
	p := mountPlan{flags: f}
	var err error
	if p.dir, err = filepath.Abs(dir); err != nil {
		return p, usage("give an absolute path", err.Error())
	}
	for _, o := range f.options {
		switch o {
		case "ro":
			p.readOnly = true
		case "rw":
			p.readOnly = false
		case "allow_other":
			f.allowOther = true
		default:
			return p, usage("known options: ro, rw, allow_other", fmt.Sprintf("unknown mount option %q", o))
		}
	}
	mask, err := strconv.ParseUint(f.umask, 8, 32)
	if err != nil || mask > 0o777 {
		return p, usage("use octal digits such as 077", fmt.Sprintf("umask %q", f.umask))
	}
	if mask == 0 {
		return p, usage("leave it out, or use 022 to let others read", "umask 0 would let everybody write")
	}
	p.umask = uint32(mask)
	if f.budget != "" {
		if p.budget, err = wire.ParseTokens(f.budget); err != nil {
			return p, usage("use a number of tokens such as --budget 2.5", err.Error())
		}
		if p.budget.IsZero() {
			return p, usage("use a number of tokens such as --budget 2.5", "a budget of nothing allows nothing")
		}
	}
	if err := p.level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return p, usage("use debug, info, warn or error", fmt.Sprintf("unknown log level %q", f.logLevel))
	}
	for _, pattern := range f.scratch {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return p, usage("patterns are as in the shell: *.bak", fmt.Sprintf("scratch pattern %q", pattern))
		}
	}
	return p, nil
}

// mount is the command: the cheap refusals come first, then secrets, then the
// service, then the kernel.
func (a *app) mount(cmd *cobra.Command, f *mountFlags, dir string) error {
	if err := fs.Harden(); err != nil {
		return fmt.Errorf("protect this process: %w", err)
	}
	plan, err := f.plan(dir)
	if err != nil {
		return err
	}
	if err := a.prepareMountpoint(cmd.Context(), plan.dir); err != nil {
		return err
	}
	if f.background {
		return a.mountInBackground(cmd, plan)
	}
	stopProfile, err := startProfile(f.cpuProfile)
	if err != nil {
		return err
	}
	defer stopProfile()
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	signals := watchSignals()
	defer signals.stop()
	stopEarly := context.AfterFunc(signals.first, cancel) // Ctrl-C before it is mounted
	m, err := a.startMount(ctx, plan)
	if err != nil {
		return err
	}
	stopEarly()
	reportReady(f.readyFD, readyReport{OK: true, PID: os.Getpid()})
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
	if plan.flags.asJSON {
		return a.printJSON(mounted{plan.dir, account, pid})
	}
	a.ui.printf("mounted %s on %s\n", escapeName(string(account)), plan.dir)
	return nil
}

// liveMount is a mount of this process.
type liveMount struct {
	app    *app
	dir    string
	client *sdk.Client
	tree   *tree.Tree
	server *fs.Server
}

// checkTimeout bounds the questions asked before mounting.
const checkTimeout = 30 * time.Second

// startMount asks the service who we are, and mounts.
func (a *app) startMount(ctx context.Context, p mountPlan) (*liveMount, error) {
	c, _, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	if p.flags.reads == fs.ReadsPassthrough {
		c.Pool().ShareLarge()
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if _, err := c.AuthStatus(ctx, ""); err != nil {
		_ = c.Close()
		return nil, err
	}
	if _, err := c.Capabilities(ctx); err != nil { // from here on the prices are known
		_ = c.Close()
		return nil, err
	}
	logger := slog.New(slog.NewTextHandler(a.ui.err, &slog.HandlerOptions{Level: p.level}))
	t, err := tree.New(ctx, tree.Config{
		Remote: c, Pool: c.Pool(), CacheBytes: int64(p.flags.cacheSize), MaxFileBytes: int64(p.flags.maxFileSize),
		Logger: logger, ReadOnly: p.readOnly, AllowMkdir: p.flags.allowMkdir, Scratch: p.flags.scratch,
		Budget: p.budget, Price: c.Price, Version: version(), Mountpoint: p.dir,
	})
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	if p.flags.allowOther {
		a.ui.notice("other users of this machine can see %s as far as its modes permit", p.dir)
	}
	server, err := fs.Mount(p.dir, t, fs.Options{Account: string(c.Account()), AllowOther: p.flags.allowOther, ReadOnly: p.readOnly, Umask: p.umask, Reads: p.flags.reads, Logger: logger})
	if err != nil {
		_ = t.Close()
		_ = c.Close()
		return nil, err
	}
	return &liveMount{app: a, dir: p.dir, client: c, tree: t, server: server}, nil
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
	var left []tree.Pending
	var err error
	for {
		select {
		case <-gone: // by umount from outside: the kernel has flushed what was closed
			left = m.drain(context.Background(), drainLimit)
			return m.finish(left, err)
		case <-signals.terminate:
			left = m.drain(context.Background(), drainLimit)
			err = m.unmount(gone, true)
			return m.finish(left, err)
		case <-signals.refresh:
			m.refresh()
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

// refresh asks the service what is new, at once instead of in a while.
func (m *liveMount) refresh() {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if err := m.tree.Refresh(ctx); err != nil {
		m.app.ui.notice("refresh: %v", err)
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
		err = fs.UnmountLazily(m.dir)
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
	_ = m.client.Close()
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
