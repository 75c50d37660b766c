package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/confine"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

func (a *app) mountCommand() *cobra.Command {
	f := &mountFlags{readyFD: -1, mounterFD: -1, cacheSize: byteSize(tree.DefaultCacheBytes),
		maxFileSize: byteSize(tree.DefaultMaxFileBytes),
		stagingSize: byteSize(tree.DefaultStagingBytes), outboxSize: byteSize(outbox.DefaultBytes),
		drain: outbox.DefaultDrain, patience: defaultPatience}
	cmd := &cobra.Command{
		Use:   "mount DIR",
		Short: "Mount the groups of the account on the empty folder DIR",
		Long: `Mount the groups of the account on the empty folder DIR. Stays in the
foreground until it is interrupted, and uploads pending files before it ends. When
a file cannot be uploaded, the first Ctrl-C lists the file and keeps the mount; the
second Ctrl-C gives the file up. Listing and stat are free; only on the hosted network
a look at the changes of others costs. Opening a file costs one retrieval unless the
file is in memory; closing a changed file costs one upload.

With --outbox, close and fsync return once the save is on this machine's disk,
encrypted; the mount sends it when it can, also after a restart. 'svcfs sync DIR' waits for
all of it, 'svcfs outbox list' shows what waits. Of a large file that was changed, what
changed waits.

Signals: SIGTERM uploads pending files and unmounts, SIGUSR1 switches the log
between --log-level and debug, SIGHUP looks at the ledger now.

Under the name mount.svcfs this program is the helper of mount(8) for lines of fstab
of type svcfs. The options of such a line are the flags, with _ for -. With uid=N or
user=NAME root mounts and unmounts, and everything else runs as that user, who must
own the key file, the settings and the log.`,
		Example: "  svcfs mount ~/groups\n  svcfs mount --background --budget 5 ~/groups\n  svcfs mount -o ro ~/groups",
		Args:    exactly(1, "one DIR"),

		ValidArgsFunction: completeDirs,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.began = true
		f.sized, f.spooled = cmd.Flags().Changed("max-file-size"), cmd.Flags().Changed("spool-size")
		err := a.mount(cmd, f, args[0])
		if err != nil {
			reportReady(f.readyFD, readyReport{Error: err.Error(), Hint: a.hints.of(err), Code: exitCodeOf(err)})
		}
		return err
	}
	f.register(cmd)
	return cmd
}

// mount is the command: the cheap refusals come first, then secrets, then the
// service, then the kernel.
func (a *app) mount(cmd *cobra.Command, f *mountFlags, dir string) error {
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
	plan.screen = a.ui
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
	return a.mountHere(cmd.Context(), plan)
}

// mountHere mounts in this process, and serves the mount until it ends.
func (a *app) mountHere(ctx context.Context, plan mountPlan) (err error) {
	if plan.outside, err = fs.StartOutside(plan.dir, plan.flags.mounterFD); err != nil {
		return err
	}
	defer plan.outside.Close()
	stopProfile, err := cli.StartProfile(plan.flags.cpuProfile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopProfile()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := watchSignals()
	defer signals.stop()
	stopEarly := context.AfterFunc(signals.first, cancel) // Ctrl-C before it is mounted
	m, err := a.startMount(ctx, plan)
	if err != nil {
		return a.tellWaiting(ctx, err, plan)
	}
	m.serveSettings()
	if err := a.confine(plan); err != nil {
		return errors.Join(err, m.server.UnmountLazily(), m.finish(nil, nil))
	}
	stopEarly()
	a.noteRunning(plan.dir)
	reportReady(plan.flags.readyFD, readyReport{OK: true, PID: os.Getpid()})
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

// checkTimeout bounds the questions asked before mounting.
const checkTimeout = 30 * time.Second

// startMount asks the service who we are, and mounts.
func (a *app) startMount(ctx context.Context, p mountPlan) (m *liveMount, err error) {
	c, s, err := a.mountClient(ctx, p)
	if err != nil {
		return nil, err
	}
	if p.flags.readyFD < 0 { // else its parent told it
		a.tellOthersThan(ctx, s, p)
	}
	var spool *staging.Spool
	var box *mountOutbox
	defer func() {
		if err == nil {
			return
		}
		_ = box.end()
		if spool != nil {
			_ = spool.Close()
		}
		_ = c.Close()
	}()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	defer a.waitsFor(c.NetworkInfo().MCPURL)()
	caps, largest, err := knowService(ctx, c)
	if err != nil {
		return nil, err
	}
	level := new(slog.LevelVar)
	level.Set(p.level)
	logger := slog.New(slog.NewTextHandler(a.ui.err, &slog.HandlerOptions{Level: level}))
	cfg := a.treeConfig(c, caps, p, logger)
	p.flags.sizeFiles(&cfg, caps, largest)
	if spool = a.openSpool(p, caps); spool == nil {
		if err := p.flags.checkSizes(p.readOnly); err != nil {
			return nil, err
		}
	}
	cfg.Spool, cfg.Files = spool, fileWords(caps, largest)
	if box, err = a.openOutbox(p, s, c, caps); err != nil {
		return nil, err
	}
	if box != nil {
		cfg.Outbox, cfg.FsyncRecord = box, p.flags.outboxFsync == fsyncRecord
	}
	t, err := tree.New(ctx, cfg)
	if err != nil {
		return nil, err
	}
	box.attach(t)
	server, err := a.mountTree(p, t, c.Account(), logger)
	if err != nil {
		_ = t.Close()
		return nil, err
	}
	return &liveMount{app: a, dir: p.dir, client: c, tree: t, server: server, level: level, plan: p, spool: spool,
		outbox: box, giveUp: context.Background()}, nil
}

func (a *app) mountTree(p mountPlan, t *tree.Tree, account sdk.AccountID, logger *slog.Logger) (*fs.Server, error) {
	if p.flags.allowOther {
		a.ui.notice("other users of this machine can see %s as far as its modes permit", p.dir)
	}
	return fs.Mount(p.dir, t, fs.Options{Account: cmp.Or(p.flags.volumeName, string(account)),
		AllowOther: p.flags.allowOther, ReadOnly: p.readOnly, Umask: p.umask,
		UID: p.uid, GID: p.gid, ForeignUID: p.foreignUID, OwnAll: p.flags.ownAll, NoExec: p.noExec,
		Reads: p.flags.reads, NoXattr: p.flags.noXattr, Logger: logger, Outside: p.outside})
}

// knowService asks the service who we are, what it can, and for the largest upload, in bytes.
func knowService(ctx context.Context, c *sdk.Client) (caps wire.Capabilities, largest int64, err error) {
	if _, err = c.AuthStatus(ctx); err != nil {
		return caps, 0, err
	}
	caps, err = c.Capabilities(ctx) // from here on the prices are known
	if err != nil {
		return caps, 0, err
	}
	largest, err = c.MaxUpload(ctx)
	return caps, largest, err
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
	ours := caps.Dialect.IsOurs()
	if p.flags.allowDelete && !ours {
		a.ui.notice("this service does not delete files: --allow-delete has no effect")
	}
	remote := tree.Client{Client: c}
	var storage func(context.Context, sdk.GroupID) (sdk.Storage, error)
	if ours {
		storage = remote.Storage
	}
	return tree.Config{
		Remote: remote, Known: remote, Storage: storage, CacheBytes: int64(p.flags.cacheSize),
		MaxFileBytes: int64(p.flags.maxFileSize),
		StagingBytes: int64(p.flags.stagingSize), Logger: logger, ReadOnly: p.readOnly, AllowMkdir: p.flags.allowMkdir,
		Ours: ours, AllowDelete: p.flags.allowDelete && ours, AllowCrawlers: p.flags.allowCrawlers,
		Scratch: p.flags.scratch, Budget: p.budget, BudgetPerHour: p.budgetPerHour, Price: c.Price,
		ReadPrice: remote.ReadPrice, Watch: c.Watch, Watching: c.Watching,
		Connection: c.Connection, Traffic: c.Traffic, Limit: c.Limit,
		Version: wire.Version(), Mountpoint: p.dir, Left: a.leftPath(os.Getpid()), Address: c.NetworkInfo().MCPURL,
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
		return refuse(exitOther, "run: fusermount3 -uz -- "+shellWord(dir),
			fmt.Errorf("clean the dead mount on %s: %w", dir, err))
	}
	a.ui.notice("cleaned the dead mount that an earlier run left on %s", dir)
	return mountpointRefusal(fs.CheckMountpoint(dir, a.ownDirs()...))
}

// ownDirs are where settings and state of ours lie.
func (a *app) ownDirs() []string {
	var dirs []string
	for _, dir := range []string{a.userDir("XDG_CONFIG_HOME", ".config", ""),
		a.userDir("XDG_STATE_HOME", ".local/state", "")} {
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
