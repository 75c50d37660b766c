package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/confine"
)

const (
	demoGroup = "demo"
	// demoMarker is a file that says a folder belongs to the demo, so that
	// nothing else is ever removed.
	demoMarker = ".svcfs-demo"
	// demoPatience is how long the second account may take to see a file.
	demoPatience = 30 * time.Second
)

func (a *app) demoCommand() *cobra.Command {
	var once bool
	var from string
	cmd := &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Show svcfs on this machine: a service, two accounts, two mounts",
		Long: `Show svcfs on this machine. The demo starts a service of its own on a free loopback
port, makes the accounts alice and bob and a group, and mounts the group for both.
Then it writes real files as alice, reads every file as bob, and compares. The mounts
stay until you interrupt the demo. The service is the program svcd, from beside svcfs
or from PATH.

The data stays in DIR (default ~/.local/share/svcfs/demo) for the next run. With --once
the demo ends after the comparison and removes the data. The exit code is 0 only if
every file was equal.`,
		Example: "  svcfs demo\n  svcfs demo --once\n  svcfs demo --from ~/Documents /tmp/demo",
		Args:    between(0, 1, "at most one DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			a.began = true
			dir := ""
			if len(args) == 1 {
				dir = args[0]
			}
			return a.demo(ctx, dir, from, once)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "unmount, remove the data and end after the comparison")
	cmd.Flags().StringVar(&from, "from", "", "also put every file of this folder in (environment: DEMO_FROM)")
	cmd.ValidArgsFunction = completeDirs
	return cmd
}

// demo is one run.
type demo struct {
	*app
	dir     string
	once    bool
	result  demoResult
	service *demoService
	log     *os.File
	alice   *demoUser
	bob     *demoUser
	undo    []func() error // what cleanup runs, last first
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

func (a *app) demo(ctx context.Context, dir, from string, once bool) (err error) {
	if err := confine.Harden(); err != nil {
		return fmt.Errorf("protect this process: %w", err)
	}
	if from == "" {
		from = a.env.get("DEMO_FROM")
	}
	if err := fs.CheckSupport(); err != nil {
		return err
	}
	files, err := demoCorpus(from)
	if err != nil {
		return err
	}
	d := &demo{app: a, once: once}
	defer func() { err = errors.Join(err, d.cleanup()) }()
	if err := d.prepareDir(dir); err != nil {
		return err
	}
	if err := d.start(ctx); err != nil {
		return interrupted(ctx, err)
	}
	if err := d.exchange(ctx, files); err != nil {
		return interrupted(ctx, err)
	}
	if once {
		return nil
	}
	if err := d.explain(ctx); err != nil {
		return interrupted(ctx, err)
	}
	select {
	case <-ctx.Done():
		a.ui.notice("unmounting")
		return nil
	case <-d.alice.ended:
	case <-d.bob.ended:
	}
	a.ui.notice("a mount has ended; stopping the demo")
	return nil
}

// interrupted replaces the error of a demo that the user interrupted.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return refuse(exitInterrupted, "run it again with: svcfs demo", errors.New("interrupted; everything was unmounted"))
	}
	return err
}

// start brings up the service, the accounts, the group and the mounts.
func (d *demo) start(ctx context.Context) error {
	program, err := findService(ctx, d.dir)
	if err != nil {
		return err
	}
	if d.service, err = startDemoService(ctx, program, d.dir, d.log); err != nil {
		return err
	}
	d.undo = append(d.undo, d.service.close)
	d.say("service    %s  data in %s\n", d.service.url, filepath.Join(d.dir, "service"))
	if d.alice, err = d.makeUser(ctx, "alice"); err != nil {
		return err
	}
	if d.bob, err = d.makeUser(ctx, "bob"); err != nil {
		return err
	}
	d.say("accounts   %s and %s\n", d.alice.account, d.bob.account)
	if _, err := d.alice.client.Group(demoGroup).Register(ctx); err != nil && !errors.Is(err, sdk.ErrConflict) {
		return err
	}
	if _, err := d.alice.client.Group(demoGroup).Add(ctx, d.bob.account); err != nil && !errors.Is(err, sdk.ErrConflict) {
		return err
	}
	d.say("group      %s, owned by alice, bob is a member\n", demoGroup)
	for _, u := range []*demoUser{d.alice, d.bob} {
		if err := d.mountUser(ctx, u); err != nil {
			return err
		}
	}
	d.say("mounted    %s and %s\n", d.alice.dir, d.bob.dir)
	return nil
}

// exchange writes every file as alice, reads it as bob, and shows the result.
func (d *demo) exchange(ctx context.Context, files []demoFile) error {
	for _, u := range []*demoUser{d.alice, d.bob} {
		var err error
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
		d.ui.progress("alice writes %d of %d: %s", i+1, len(files), f.name)
		sum, err := f.copyTo(d.alice.path(f.name))
		if err != nil {
			return d.explainFailure(ctx, d.alice, f, err)
		}
		sums[i] = sum
		total += f.size
	}
	d.say("written    %s, %d bytes, as alice in %s\n", plural(len(files), "file"), total, seconds(began))
	began = time.Now()
	for i, f := range files {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.ui.progress("bob reads %d of %d: %s", i+1, len(files), f.name)
		if err := d.readBack(ctx, f, sums[i]); err != nil {
			return err
		}
	}
	d.say("read back  %s as bob in %s, every SHA-256 equal\n", plural(len(files), "file"), seconds(began))
	d.result = demoResult{URL: d.service.url, Data: d.dir, Accounts: []sdk.AccountID{d.alice.account, d.bob.account}, Group: demoGroup,
		Mounts: []string{d.alice.dir, d.bob.dir}, Files: len(files), Bytes: total, Equal: true, Spent: make(map[string]string)}
	if err := d.show(ctx); err != nil || !d.asJSON {
		return err
	}
	return d.printJSON(d.result)
}

func seconds(since time.Time) string { return fmt.Sprintf("%.1f s", time.Since(since).Seconds()) }

// logHint says where more is told: a folder of --once goes with what is in it.
func (d *demo) logHint() string {
	if d.once {
		return "run it without --once, which keeps its log"
	}
	return "the log is " + d.log.Name()
}

// explainFailure adds what the mount knows about an error that a program got.
func (d *demo) explainFailure(ctx context.Context, u *demoUser, f demoFile, err error) error {
	text, _ := readControl(ctx, u.dir, "errors")
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		err = fmt.Errorf("%w (the mount says: %s)", err, strings.ReplaceAll(last, "\t", " "))
	}
	return refuse(exitOther, d.logHint(), fmt.Errorf("%s: %w", f.name, err))
}

// readBack waits until bob sees the file's newest version, and compares.
func (d *demo) readBack(ctx context.Context, f demoFile, want sdk.Digest) error {
	path := d.bob.path(f.name)
	for deadline := time.Now().Add(demoPatience); ; {
		got, size, err := sumOf(path)
		if err == nil && got == want {
			return nil
		}
		late := time.Now().After(deadline) || ctx.Err() != nil
		if err != nil && (late || !errors.Is(err, os.ErrNotExist)) {
			return d.explainFailure(ctx, d.bob, f, err)
		}
		if late {
			return refuse(exitNotFound, d.logHint(), fmt.Errorf("%s: bob reads %d bytes that are not what alice wrote", f.name, size))
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// show prints the listing, the bill and what the service holds.
func (d *demo) show(ctx context.Context) error {
	d.say("\n$ ls -l %s\n", d.bob.path(""))
	if out, err := exec.CommandContext(ctx, "ls", "-l", d.bob.path("")).CombinedOutput(); err == nil {
		d.say("%s", out)
	}
	d.say("\n")
	for _, u := range []*demoUser{d.alice, d.bob} {
		balance, err := u.client.Balance(ctx, u.account)
		if err != nil {
			return err
		}
		spent, _ := u.before.Sub(balance)
		d.result.Spent[string(u.account)] = spent.Tokens()
		d.say("cost       %s spent %s tokens on these files, %s are left\n", u.account, spent.Tokens(), balance.Tokens())
	}
	return d.showCiphertext(ctx)
}

// shownCipherBytes is how much ciphertext is shown.
const shownCipherBytes = 64

// showCiphertext prints the beginning of what the service keeps of one file.
func (d *demo) showCiphertext(ctx context.Context) error {
	entry, err := d.alice.client.Group(demoGroup).Stat(ctx, "hello.txt")
	if err != nil {
		return err
	}
	where, blob, err := d.service.ciphertext(ctx, entry.Ref)
	if err != nil {
		return err
	}
	plain, err := os.ReadFile(d.bob.path("hello.txt"))
	if err != nil {
		return err
	}
	if bytes.Contains(blob, plain) {
		return refuse(exitOther, "report this", errors.New("the service holds plaintext"))
	}
	d.say("\nhello.txt begins for bob with\n%s", hex.Dump(plain[:min(len(plain), shownCipherBytes)]))
	d.say("and on the service's disk, %s, with\n%s", where, hex.Dump(blob[:min(len(blob), shownCipherBytes)]))
	return nil
}

// explain tells how to look around and how to stop.
func (d *demo) explain(ctx context.Context) error {
	page, err := d.service.signInLink(ctx, "alice")
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
`, d.bob.path(""), d.alice.path(""), d.bob.dir, d.dir, page)
	return nil
}
