package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/sdk/confine"
)

// mounterFlag is how the process of a user is told who mounts for it.
const mounterFlag = "mounter-fd"

// mountHelper is the program as mount(8) runs it. When root mounts, one process of root's
// (the mounter) does nothing but mount, and another process does everything else. When
// root mounts for a user, that other process belongs to the user from its first
// instruction: it reads the key and the settings, and runs their commands, with the
// rights of the user alone.
func (a *app) mountHelper(ctx context.Context, args []string) exitCode {
	code, err := a.runMountHelper(ctx, args)
	if err != nil {
		a.ui.fail(err, a.hints.of(err))
		return exitCodeOf(err)
	}
	return code
}

func (a *app) runMountHelper(ctx context.Context, args []string) (exitCode, error) {
	call, err := parseHelperCall(args)
	if err != nil || call.pretend {
		return exitOK, err
	}
	if args, err = call.args(); err != nil {
		return exitOther, err
	}
	findHome()
	if os.Geteuid() != 0 {
		return a.execute(ctx, args), nil
	}
	who, err := call.owner()
	if err != nil {
		return exitOther, err
	}
	return a.mountAs(ctx, who, call)
}

// owner is the user for whom root mounts; the zero value is root.
type owner struct {
	uid, gid uint32 // gid as the line says
	login    uint32 // the group with which the user's programs run: the kernel lets no others in
	groups   []uint32
	env      []string // whose home it is, for programs
}

// owner reads uid=, gid= and user=NAME.
func (c helperCall) owner() (o owner, err error) {
	uid, name := c.option("uid"), c.option("user")
	var who *user.User
	switch {
	case uid != "":
		if who, err = user.LookupId(uid); errors.As(err, new(user.UnknownUserIdError)) {
			who, err = &user.User{Uid: uid}, nil // one that only files know
		}
	case name != "":
		who, err = user.Lookup(name)
	default:
		return o, nil
	}
	if err != nil {
		return o, usage("name a user of this machine, or give uid= and gid= as numbers",
			fmt.Sprintf("find the user of this mount: %v", err))
	}
	if who.Uid == "0" {
		return o, nil
	}
	gid := cmp.Or(c.option("gid"), who.Gid)
	if gid == "" {
		return o, usage("give gid= too", "uid "+uid+" is no user of this machine, and has no group")
	}
	for _, id := range []struct {
		text string
		to   *uint32
	}{{who.Uid, &o.uid}, {gid, &o.gid}, {cmp.Or(who.Gid, gid), &o.login}} {
		if *id.to, err = parseID(fmt.Sprintf("user or group %q", id.text), id.text); err != nil {
			return o, err
		}
	}
	err = o.fill(who)
	return o, err
}

// fill adds the environment and the groups of a user that this machine knows.
func (o *owner) fill(who *user.User) error {
	if who.Username == "" {
		return nil
	}
	o.env = []string{"USER=" + who.Username, "LOGNAME=" + who.Username}
	if hasHome(who) {
		o.env = append(o.env, "HOME="+who.HomeDir)
	}
	groups, err := who.GroupIds()
	if err != nil {
		return fmt.Errorf("the groups of %s: %w", who.Username, err)
	}
	for _, g := range groups {
		id, err := parseID(fmt.Sprintf("group %q", g), g)
		if err != nil {
			return err
		}
		o.groups = append(o.groups, id)
	}
	return nil
}

// parseID reads the number of a user or group; what names its place for an error.
func parseID(what, text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == math.MaxUint32 { // to the kernel that is nobody's
		return 0, usage("use a number, as id -u prints it", what)
	}
	return uint32(id), nil
}

// keptEnv are the variables of root's that a user's mount inherits: none that can hold
// a secret or name a file of root's.
func keptEnv(name string) bool {
	return slices.Contains([]string{"PATH", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"}, name) ||
		strings.HasPrefix(name, "LC_")
}

// mountAs starts the mounter, and the mount command as the user.
func (a *app) mountAs(ctx context.Context, who owner, call helperCall) (exitCode, error) {
	if err := confine.Harden(); err != nil {
		return exitOther, fmt.Errorf("protect this process: %w", err)
	}
	env := a.takeEnv(who)
	may, err := call.mountFor(who) // with the directory as it is named
	if err != nil {
		return exitOther, err
	}
	if call.dir, err = resolve(call.dir); err != nil {
		return exitOther, err
	}
	if err := a.checkPlace(ctx, call.dir); err != nil {
		return exitOther, err
	}
	mounter, err := fs.StartMounter(may)
	if err != nil {
		return exitOther, err
	}
	defer mounter.Close()
	args, err := call.args()
	if err != nil {
		return exitOther, err
	}
	self, err := os.Executable()
	if err != nil {
		return exitOther, fmt.Errorf("find this program: %w", err)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	cmd := exec.CommandContext(ctx, self, slices.Insert(args, 1, "--"+mounterFlag+"=3")...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", env, []*os.File{mounter} // descriptor 3
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if who.uid != 0 { // without a session of its own, what the user has run could type into root's terminal
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: who.uid, Gid: who.gid,
			Groups: who.groups}, Setsid: true}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return exitCode(code), nil
	}
	return exitOther, fmt.Errorf("mount as user %d: %w", who.uid, err)
}

// takeEnv returns the environment of the mount command of a user, and has the settings come from it.
func (a *app) takeEnv(who owner) []string {
	env := who.env
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); who.uid == 0 || keptEnv(name) {
			env = append(env, pair)
		}
	}
	a.env.lookup = func(name string) (string, bool) {
		for _, pair := range env {
			if value, ok := strings.CutPrefix(pair, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
	return env
}

// mountFor is what root grants the user: the options of the line, and nothing from the
// user's own settings.
func (c helperCall) mountFor(who owner) (fs.MountFor, error) {
	f := &mountFlags{}
	for _, o := range c.options {
		if flag, err := helperOption(o); err != nil {
			return fs.MountFor{}, err
		} else if o, ok := strings.CutPrefix(flag, "--options="); ok {
			f.options = append(f.options, o)
		}
	}
	var p mountPlan
	err := f.planOptions(&p, f.options)
	return fs.MountFor{Dir: c.dir, UID: who.uid, GID: who.login, AllowOther: f.allowOther || who.uid == 0,
		ReadOnly: p.readOnly, NoExec: p.noExec}, err
}
