package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// mountFlags are the flags of mount.
type mountFlags struct {
	background    bool
	readyFD       int // of the pipe on which a background child reports
	mounterFD     int // of the process of root's that mounts for us
	logFile       string
	allowMkdir    bool
	allowDelete   bool
	allowCrawlers bool
	allowOther    bool
	options       []string // -o
	budget        string
	budgetPerHour string
	cacheSize     byteSize
	stagingSize   byteSize
	maxFileSize   byteSize
	sized         bool // maxFileSize was given
	spoolSize     byteSize
	spooled       bool // spoolSize was given
	outbox        bool
	outboxFsync   string
	outboxSize    byteSize
	drain         time.Duration
	umask         string
	logLevel      string
	scratch       []string
	idle          time.Duration
	patience      time.Duration
	volumeName    string
	reads         fs.Reads
	noXattr       bool
	ownAll        bool
	wholeGroups   bool
	foreignUID    string
	cpuProfile    string
	keyPlace      string // see [keyAgain]; of a background child, which has the key from a pipe
}

// defaultPatience is long enough for a service that is started anew.
const defaultPatience = 15 * time.Second

// mostListed is the longest chain of a group that a mount lists, in records: git and others refuse a folder as another
// account's as long as something beneath it was not looked at (A5).
const mostListed = 10_000

// smallGroup is [sdk.Config].SmallGroup.
func (f *mountFlags) smallGroup() int64 {
	if f.wholeGroups {
		return math.MaxInt64
	}
	return mostListed
}

// mountPlan is what the flags mean.
type mountPlan struct {
	dir                   string // absolute
	outside               *fs.Outside
	readOnly, noExec      bool
	umask                 uint32
	uid, gid              uint32 // both 0: whoever mounts
	foreignUID            uint32 // 0: nobody
	budget, budgetPerHour sdk.Amount
	level                 slog.Level
	flags                 *mountFlags
	screen                *terminal // for what its user is told at the start, also with a log file
}

func (f *mountFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.background, "background", "d", false,
		"mount in the background and return; log to ~/.local/state/svcfs")
	flags.IntVar(&f.readyFD, "ready-fd", -1, "report readiness on this descriptor")
	flags.IntVar(&f.mounterFD, mounterFlag, -1, "have the process on this descriptor mount")
	flags.StringVar(&f.logFile, "log-file", "", "file for the log, instead of standard error; rotated at 4 MiB, "+
		"three old ones are kept")
	flags.BoolVar(&f.allowMkdir, "allow-mkdir", false, "let mkdir in the root register a group, which costs")
	flags.BoolVar(&f.allowDelete, "allow-delete", false,
		"let rm destroy the key of an uploaded file at once, for everybody and for ever; without it rm puts the file "+
			"into the trash of its group, where the service has one")
	flags.BoolVar(&f.allowCrawlers, "allow-crawlers", false,
		"let programs that make previews and indexes open files; each retrieval costs")
	flags.BoolVar(&f.allowOther, "allow-other", false,
		"let other users of this machine enter the mount, as far as the modes permit")
	flags.StringSliceVarP(&f.options, "options", "o", nil,
		"mount options: "+knownOptions+" (environment and configuration: "+envMountOptions+")")
	flags.StringVar(&f.budget, "budget", "", "most tokens to spend while mounted; beyond that EDQUOT")
	flags.StringVar(&f.budgetPerHour, "budget-per-hour", "", "most tokens to spend in any hour; beyond that EDQUOT")
	f.registerSizes(flags)
	f.registerOutbox(flags)
	flags.StringVar(&f.umask, "umask", "077", "permission bits that are never shown, octal")
	flags.StringVar(&f.logLevel, "log-level", "warn", "debug, info, warn or error")
	flags.StringArrayVar(&f.scratch, "scratch", nil,
		"more names that stay in memory and are never uploaded, such as *.bak")
	flags.Var((*timeSpan)(&f.idle), "idle-unmount",
		"unmount when no program has used the mount for this long, such as 10m or 5d")
	flags.DurationVar(&f.patience, "patience", f.patience,
		"how long opening and closing wait while connections to the service are refused or break")
	flags.StringVar(&f.volumeName, "volume-name", "",
		"source of the mount in df and findmnt, after svcfs: (default the account)")
	flags.Var(&f.reads, "kernel-cache", "keep: the kernel caches pages; plain: the kernel asks svcfs for every read")
	flags.BoolVar(&f.noXattr, "no-xattr", false, "show no extended attributes, not even user.svcfs.*; saves one "+
		"request for each file when ls lists attributes")
	flags.BoolVar(&f.ownAll, "own-all", false, "show files that other accounts uploaded as your own, so that git, "+
		"ssh and others trust them")
	flags.BoolVar(&f.wholeGroups, "whole-groups", false, "list large groups, too, instead of asking for what is "+
		"looked at: the records prove the names then, and not the service's signature")
	flags.StringVar(&f.foreignUID, "foreign-uid", "",
		"user, as a number, that files of other accounts belong to (default nobody)")
	flags.StringVar(&f.cpuProfile, "cpuprofile", "", "write a CPU profile to this file")
	flags.StringVar(&f.keyPlace, keyPlaceFlag, "", "where the key is read again")
	cli.Rare(flags, "allow-crawlers", "allow-mkdir", "budget-per-hour", "drain", "foreign-uid", "idle-unmount",
		"kernel-cache", "log-file", "log-level", "max-file-size", "no-xattr", "outbox-fsync", "outbox-size", "own-all",
		"patience", "scratch", "spool-size", "staging-size", "umask", "volume-name", "whole-groups")
	for _, name := range []string{"ready-fd", mounterFlag, keyPlaceFlag, "cpuprofile"} {
		_ = flags.MarkHidden(name) // exists
	}
}

func (f *mountFlags) registerSizes(flags *pflag.FlagSet) {
	flags.Var(&f.cacheSize, "cache-size", "memory for decrypted content, open files included; one file may exceed it")
	flags.Var(&f.stagingSize, "staging-size", "memory for files being written; beyond that ENOMEM")
	flags.Var(&f.maxFileSize, "max-file-size", "largest file; of files in blocks only if it is given")
	flags.Var(&f.spoolSize, "spool-size", "disk for changed blocks of large files being written that memory does not "+
		"hold, sealed, in ~/.cache/svcfs; beyond that ENOSPC; 0 for none")
	flags.Lookup("spool-size").DefValue = "half of the free disk"
}

func (f *mountFlags) registerOutbox(flags *pflag.FlagSet) {
	flags.BoolVar(&f.outbox, "outbox", false, "close and fsync return once a save is on this machine's disk, "+
		"encrypted; it is sent when it can be, also after a restart")
	flags.StringVar(&f.outboxFsync, "outbox-fsync", fsyncLocal, "with --outbox, what fsync waits for: local or record")
	flags.Var(&f.outboxSize, "outbox-size", "disk for the outbox, in ~/.local/state/svcfs; never more than half of "+
		"what is free")
	flags.DurationVar(&f.drain, "drain", f.drain, "with --outbox, how long unmounting sends what waits; what stays "+
		"is sent by the next mount")
}

// knownOptions are those of -o.
const knownOptions = "ro, rw, noexec, exec, nosuid, nodev, allow_other, uid=N, gid=N"

// plan checks the flags, and the mount options of the settings, which -o may change.
func (f *mountFlags) plan(dir string, settled []string) (mountPlan, error) {
	p := mountPlan{flags: f}
	var err error
	if p.dir, err = filepath.Abs(dir); err != nil {
		return p, usage("give an absolute path", err.Error())
	}
	if err := f.planOptions(&p, slices.Concat(settled, f.options)); err != nil {
		return p, err
	}
	if err := f.planOwners(&p); err != nil {
		return p, err
	}
	mask, err := strconv.ParseUint(f.umask, 8, 32)
	if err != nil || mask > 0o777 {
		return p, usage("use octal digits such as 077", fmt.Sprintf("umask %q", f.umask))
	}
	if mask == 0 {
		return p, usage("leave it out, or use 022 to let others read", "umask 0 would let everybody write")
	}
	p.umask = uint32(mask)
	if p.budget, err = parseBudget("--budget", f.budget); err != nil {
		return p, err
	}
	if p.budgetPerHour, err = parseBudget("--budget-per-hour", f.budgetPerHour); err != nil {
		return p, err
	}
	if err := p.level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return p, usage("use debug, info, warn or error", fmt.Sprintf("unknown log level %q", f.logLevel))
	}
	for _, pattern := range f.scratch {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return p, usage("patterns are as in the shell: *.bak", fmt.Sprintf("scratch pattern %q", pattern))
		}
	}
	f.stagingSize = cmp.Or(f.stagingSize, byteSize(tree.DefaultStagingBytes))
	if f.spooled && f.spoolSize == 0 {
		if err := f.checkSizes(p.readOnly); err != nil {
			return p, err
		}
	}
	return p, f.checkTimes()
}

// checkTimes refuses times and the setting of an outbox that cannot be.
func (f *mountFlags) checkTimes() error {
	if f.patience < 0 {
		return usage("use a time such as 15s, or 0 for none", fmt.Sprintf("patience %s", f.patience))
	}
	if f.outboxFsync != fsyncLocal && f.outboxFsync != fsyncRecord {
		return usage("use local or record", fmt.Sprintf("unknown value %q of --outbox-fsync", f.outboxFsync))
	}
	if f.drain != outbox.DefaultDrain && !f.outbox {
		return usage("add --outbox", "--drain is about an outbox")
	}
	if f.drain < 0 {
		return usage("use a time such as 10s, or 0", "a negative time")
	}
	if f.idle < 0 || f.idle > 0 && f.idle < time.Second {
		return usage("use a time such as 10m", fmt.Sprintf("idle time %s", f.idle))
	}
	return nil
}

func (f *mountFlags) planOptions(p *mountPlan, options []string) error {
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		switch name {
		case "ro":
			p.readOnly = true
		case "rw":
			p.readOnly = false
		case "noexec":
			p.noExec = true
		case "exec":
			p.noExec = false
		case "nosuid", "nodev": // always
		case "allow_other":
			f.allowOther = true
		case "uid", "gid":
			id, err := parseID(fmt.Sprintf("mount option %q", o), value)
			if err != nil {
				return err
			}
			if name == "uid" {
				p.uid = id
			} else {
				p.gid = id
			}
		default:
			return usage("known options: "+knownOptions, fmt.Sprintf("unknown mount option %q", o))
		}
	}
	if os.Geteuid() == 0 {
		return nil
	}
	if p.uid != 0 && p.uid != uint32(os.Geteuid()) || p.gid != 0 && p.gid != uint32(os.Getegid()) {
		return usage("leave uid and gid out", "only root mounts for another user")
	}
	p.uid, p.gid = 0, 0 // our own
	return nil
}

// planOwners says whose files of other accounts are.
func (f *mountFlags) planOwners(p *mountPlan) error {
	if f.allowOther && f.noXattr && !f.ownAll {
		return usage("leave --no-xattr out, or show all files as your own with --own-all",
			"with --allow-other an access list lets you use files of other accounts, and --no-xattr takes such lists "+
				"away")
	}
	if f.foreignUID == "" {
		return nil
	}
	if f.ownAll {
		return usage("leave one of them out", "--own-all and --foreign-uid exclude each other")
	}
	var err error
	if p.foreignUID, err = parseID(fmt.Sprintf("foreign uid %q", f.foreignUID), f.foreignUID); err != nil {
		return err
	}
	switch mounting := cmp.Or(p.uid, uint32(os.Geteuid())); p.foreignUID {
	case 0:
		return usage("name a user who owns nothing else, or leave it out", "programs trust what belongs to root")
	case mounting:
		return usage("show all files as your own with --own-all", "the foreign uid is the user who mounts")
	}
	return nil
}

// parseBudget reads a number of tokens; "" is no limit.
func parseBudget(flag, text string) (sdk.Amount, error) {
	if text == "" {
		return sdk.Amount{}, nil
	}
	amount, err := wire.ParseTokens(text)
	if err != nil {
		return amount, usage("use a number of tokens such as "+flag+" 2.5",
			fmt.Sprintf("%s: %q is no number of tokens", flag, text))
	}
	if amount.IsZero() {
		return amount, usage("use a number of tokens such as "+flag+" 2.5", "a budget of nothing allows nothing")
	}
	return amount, nil
}
