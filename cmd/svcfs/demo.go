package main

import (
	"cmp"
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/confine"
)

const (
	demoGroup = "demo"
	// demoLog is the log of the demo. It says that a folder belongs to the demo, and is locked while one runs.
	demoLog = "svcfs-demo.log"
	// demoPatience is how long the second account may take to see a file.
	demoPatience = 30 * time.Second
)

// demoExamples are files that every demo sends.
//
//go:embed demo
var demoExamples embed.FS

func (a *app) demoCommand() *cobra.Command {
	d := demo{app: a}
	var from string
	cmd := &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Show svcfs on this machine: a service, two accounts, two mounts",
		Long: `Show svcfs on this machine. The demo starts a service of its own on a free loopback
port, makes the accounts alice and bob and a group, and mounts the group for both.
Then it writes some files as alice, reads every file as bob, and compares. The mounts
stay until you interrupt the demo. The service is the program svcd, from beside svcfs
or from PATH.

The data stays in DIR (default ~/.local/share/svcfs/demo) for the next run. With --once
the demo ends after the comparison and removes the data. The exit code is 0 only if
every file was equal.`,
		Example: "  svcfs demo\n  svcfs demo --once\n  svcfs demo --from ~/Documents /tmp/demo",
		Args:    between(0, 1, "at most one DIR"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			a.began = true
			if len(args) == 1 {
				d.dir = args[0]
			}
			defer func() { err = errors.Join(err, d.cleanup()) }()
			err = d.run(ctx, from)
			if err != nil && ctx.Err() != nil {
				return refuse(exitInterrupted, "run it again with: svcfs demo",
					errors.New("interrupted; everything was unmounted"))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&d.once, "once", false, "unmount, remove the data and end after the comparison")
	cmd.Flags().StringVar(&from, "from", "", "also put every file of this folder in, below from/ (environment: "+
		"DEMO_FROM)")
	cmd.ValidArgsFunction = completeDirs
	return cmd
}

// demo is one run.
type demo struct {
	*app
	dir        string
	once       bool
	log        *os.File
	program    string // svcd
	url        string // of the service
	alice, bob *demoUser
	undo       []func() error // what cleanup runs, last first
}

// demoResult is what demo prints as JSON, once all files were compared.
type demoResult struct {
	URL      string            `json:"url"`
	Data     string            `json:"data"`
	Accounts []sdk.AccountID   `json:"accounts"`
	Group    string            `json:"group_id"`
	Mounts   []string          `json:"mountpoints"`
	Files    int               `json:"files"`
	Bytes    int64             `json:"bytes"`
	Equal    bool              `json:"equal"` // every file read back has the SHA-256 of what was written
	Spent    map[string]string `json:"spent"` // tokens by account
}

// say tells the story, unless JSON was asked for.
func (d *demo) say(format string, args ...any) {
	if !d.asJSON {
		d.ui.printf(format, args...)
	}
}

func (d *demo) run(ctx context.Context, from string) error {
	if err := confine.Harden(); err != nil {
		return fmt.Errorf("protect this process: %w", err)
	}
	if err := fs.CheckSupport(); err != nil {
		return err
	}
	if from == "" {
		from = d.env.get("DEMO_FROM")
	}
	files, err := demoFiles(from)
	if err != nil {
		return err
	}
	if err := d.prepareDir(); err != nil {
		return err
	}
	if err := d.start(ctx); err != nil {
		return err
	}
	if err := d.exchange(ctx, files); err != nil || d.once {
		return err
	}
	if err := d.explain(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		d.ui.notice("unmounting")
		return nil
	case <-d.alice.ended:
	case <-d.bob.ended:
	}
	d.ui.notice("a mount has ended; stopping the demo")
	return nil
}

// cleanup undoes what was done, last first, whatever happened.
func (d *demo) cleanup() (err error) {
	for i := len(d.undo) - 1; i >= 0; i-- {
		if failed := d.undo[i](); failed != nil && err == nil {
			err = fmt.Errorf("clean up after the demo: %w", failed)
		}
	}
	return err
}

// prepareDir finds, claims and locks the folder of this run.
func (d *demo) prepareDir() (err error) {
	if d.dir == "" {
		base := d.userDir("XDG_DATA_HOME", ".local/share", "demo")
		if base == "" {
			return usage("name a folder: svcfs demo DIR", "neither HOME nor XDG_DATA_HOME is set")
		}
		if d.dir = base; d.once {
			d.dir = fmt.Sprintf("%s-once-%d", base, os.Getpid())
		}
	}
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return usage("give an absolute path", err.Error())
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return refuse(exitUsage, "name a folder you can write", err)
	}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return refuse(exitUsage, "name a folder you can read", err)
	}
	log := filepath.Join(d.dir, demoLog)
	if _, err := os.Lstat(log); err != nil && len(entries) > 0 {
		return usage("name an empty or new folder", d.dir+" is not empty and not from an earlier demo")
	}
	if d.log, err = openLog(log); err != nil {
		return err
	}
	d.undo = append(d.undo, d.log.Close)
	if err := unix.Flock(int(d.log.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return refuse(exitOther, "use it, or stop it with Ctrl-C, or name another folder: svcfs demo DIR",
			errors.New("another demo runs in "+d.dir))
	}
	if d.once {
		d.undo = append(d.undo, d.remove)
	}
	return d.log.Truncate(0)
}

// remove removes what a demo makes in its folder, and then the folder if nothing else is in it. The
// mountpoints go first, and must be empty: a mount that is still there is never descended into.
func (d *demo) remove() error {
	for _, name := range []string{"alice", "bob"} {
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for _, name := range []string{serviceProgram, "service", "state", demoLog} {
		if err := os.RemoveAll(filepath.Join(d.dir, name)); err != nil {
			return err
		}
	}
	if err := os.Remove(d.dir); !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return nil
}

// start brings up the service, the accounts, the group and the mounts.
func (d *demo) start(ctx context.Context) (err error) {
	if d.program, err = findService(ctx, d.dir); err != nil {
		return err
	}
	if err := d.serve(ctx); err != nil {
		return err
	}
	d.say("service    %s  data in %s\n", d.url, d.data())
	if d.alice, err = d.makeUser(ctx, "alice"); err != nil {
		return err
	}
	if d.bob, err = d.makeUser(ctx, "bob"); err != nil {
		return err
	}
	d.say("accounts   %s and %s\n", d.alice.account, d.bob.account)
	if _, err := d.alice.group().Register(ctx); err != nil && !errors.Is(err, sdk.ErrConflict) {
		return err
	}
	if _, err := d.alice.group().Add(ctx, d.bob.account); err != nil && !errors.Is(err, sdk.ErrConflict) {
		return err
	}
	d.say("group      %s, owned by alice, bob is a member\n", demoGroup)
	for _, u := range []*demoUser{d.alice, d.bob} {
		if err := d.mount(ctx, u); err != nil {
			return err
		}
	}
	d.say("mounted    %s and %s\n", d.alice.dir, d.bob.dir)
	return nil
}

// exchange writes every file as alice, reads it as bob, and shows the result.
func (d *demo) exchange(ctx context.Context, files []demoFile) (err error) {
	users := []*demoUser{d.alice, d.bob}
	for _, u := range users {
		if u.before, err = u.client.Balance(ctx, u.account); err != nil {
			return err
		}
	}
	sums := make([]sdk.Digest, len(files))
	var total int64
	began := time.Now()
	for i, f := range files {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.ui.progress("alice writes %d of %d: %s", i+1, len(files), f.to)
		var size int64
		if sums[i], size, err = f.put(d.alice.path(f.to)); err != nil {
			return d.explainFailure(ctx, d.alice, f, err)
		}
		total += size
	}
	d.say("written    %s, %d bytes, as alice in %.1f s\n", plural(len(files), "file"), total,
		time.Since(began).Seconds())
	began = time.Now()
	for i, f := range files {
		d.ui.progress("bob reads %d of %d: %s", i+1, len(files), f.to)
		if err := d.readBack(ctx, f, sums[i]); err != nil {
			return err
		}
	}
	d.say("read back  %s as bob in %.1f s, every SHA-256 equal\n", plural(len(files), "file"),
		time.Since(began).Seconds())
	return d.show(ctx, demoResult{
		URL: d.url, Data: d.dir, Accounts: []sdk.AccountID{d.alice.account, d.bob.account}, Group: demoGroup,
		Mounts: []string{d.alice.dir, d.bob.dir}, Files: len(files), Bytes: total, Equal: true,
		Spent: make(map[string]string),
	})
}

// show prints the listing, the bill and what the service holds.
func (d *demo) show(ctx context.Context, result demoResult) error {
	d.say("\n$ ls -l %s\n", shellWord(d.bob.path("")))
	if out, err := exec.CommandContext(ctx, "ls", "-l", d.bob.path("")).CombinedOutput(); err == nil {
		d.say("%s\n", out)
	}
	for _, u := range []*demoUser{d.alice, d.bob} {
		balance, err := u.client.Balance(ctx, u.account)
		if err != nil {
			return err
		}
		paid, _ := u.before.Sub(balance)
		result.Spent[string(u.account)] = paid.Tokens()
		d.say("cost       %s spent %s tokens on these files, %s are left\n", u.account, paid.Tokens(), balance.Tokens())
	}
	if err := d.showCiphertext(ctx); err != nil || !d.asJSON {
		return err
	}
	return d.printJSON(result)
}

// readBack waits until bob sees the file's newest version, and compares.
func (d *demo) readBack(ctx context.Context, f demoFile, want sdk.Digest) error {
	for deadline := time.Now().Add(demoPatience); ; time.Sleep(100 * time.Millisecond) {
		got, err := sumOf(d.bob.path(f.to))
		if err == nil && got == want {
			return nil
		}
		mayCome := err == nil || errors.Is(err, os.ErrNotExist)
		if mayCome && ctx.Err() == nil && time.Now().Before(deadline) {
			continue
		}
		return d.explainFailure(ctx, d.bob, f, cmp.Or(err, errors.New("bob does not read what alice wrote")))
	}
}

// explainFailure adds what the mount knows about an error that a program got.
func (d *demo) explainFailure(ctx context.Context, u *demoUser, f demoFile, err error) error {
	text, _ := readControl(ctx, u.dir, "errors")
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		err = fmt.Errorf("%w (the mount says: %s)", err, strings.ReplaceAll(last, "\t", " "))
	}
	hint := "the log is " + d.log.Name()
	if d.once {
		hint = "run it without --once, which keeps its log"
	}
	return refuse(exitOther, hint, fmt.Errorf("%s: %w", f.to, err))
}

// showCiphertext prints what bob reads, and what the service keeps of it.
func (d *demo) showCiphertext(ctx context.Context) error {
	entry, err := d.alice.group().Stat(ctx, "hello.txt")
	if err != nil {
		return err
	}
	where, err := d.ask(ctx, "where", string(entry.Ref))
	if err != nil {
		return refuse(exitOther, d.program+" must be of the same version as svcfs; 'make build' makes both programs",
			err)
	}
	plain, err := os.ReadFile(d.bob.path("hello.txt"))
	if err != nil {
		return err
	}
	d.say("\nhello.txt begins for bob with\n%s", hex.Dump(plain))
	d.say("and on the service's disk, %s", where)
	return nil
}

// explain tells how to look around and how to stop.
func (d *demo) explain(ctx context.Context) error {
	page, err := d.ask(ctx, "account", "link", "alice", "--public-url", d.url)
	if err != nil {
		return err
	}
	d.say(`
Both mounts stay until you press Ctrl-C here. In another terminal:

  ls -l %[1]s
  echo "hi bob" > %[2]s/note.txt; cat %[1]s/note.txt
  cp -r ~/some-folder %[2]s/
  cat %[3]s/.svcfs/status          # also: pending, errors
  svcfs status; svcfs why %[1]s/note.txt

In a browser on this machine, alice's account page (this link works once, for 15 minutes):

  %[5]s
Stop with Ctrl-C. The data stays in %[4]s for the next run; remove that folder to forget it.
`, shellWord(d.bob.path("")), shellWord(d.alice.path("")), shellWord(d.bob.dir), d.dir, page)
	return nil
}

// demoFile is a file that the demo sends through the mounts.
type demoFile struct {
	tree iofs.FS
	name string // in tree
	to   string // in the group
}

// demoFiles lists the examples, and the regular files below the folder from, if any.
func demoFiles(from string) (files []demoFile, err error) {
	list := func(tree iofs.FS, root, folder string) error {
		return iofs.WalkDir(tree, root, func(name string, entry iofs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == ".git":
				return iofs.SkipDir
			case entry.Type().IsRegular():
				files = append(files, demoFile{tree, name, path.Join(folder, strings.TrimPrefix(name, root+"/"))})
			}
			return nil
		})
	}
	if err := list(demoExamples, "demo", ""); err != nil || from == "" {
		return files, err
	}
	abs, err := filepath.Abs(from)
	if err == nil {
		err = list(os.DirFS(abs), ".", path.Join("from", filepath.Base(abs)))
	}
	if err != nil {
		return nil, refuse(exitUsage, "give a folder that you can read", fmt.Errorf("read folder %q: %w", from, err))
	}
	return files, nil
}

// put writes the file to place and returns the SHA-256 and the size of what was written.
func (f demoFile) put(place string) (sum sdk.Digest, size int64, err error) {
	from, err := f.tree.Open(f.name)
	if err != nil {
		return sum, 0, err
	}
	defer from.Close()
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return sum, 0, err
	}
	to, err := os.Create(place)
	if err != nil {
		return sum, 0, err
	}
	if sum, err = sdk.ComputeHashReader(io.TeeReader(from, to)); err == nil {
		size, err = to.Seek(0, io.SeekCurrent)
	}
	if err == nil && size == 0 {
		err = to.Sync() // an empty file that nobody syncs waits two seconds for its first bytes
	}
	return sum, size, errors.Join(err, to.Close()) // here the upload happens
}

// sumOf reads a file to its end and returns its SHA-256.
func sumOf(name string) (sum sdk.Digest, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	return sdk.ComputeHashReader(f)
}
