package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/sdk"
)

// demoUser is an account with its client and its mount.
type demoUser struct {
	account sdk.AccountID
	key     sdk.Secret
	client  *sdk.Client
	dir     string // mountpoint
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	before  sdk.Amount    // balance before the files
}

func (d *demo) makeUser(ctx context.Context, name string) (*demoUser, error) {
	u := &demoUser{dir: filepath.Join(d.dir, name), ended: make(chan struct{})}
	var err error
	if u.account, u.key, err = d.service.account(ctx, name); err != nil {
		return nil, err
	}
	u.client, err = d.newClient(settings{account: u.account, config: sdk.Config{APIKey: u.key, URL: d.service.url, ContractID: demoContract}})
	if err != nil {
		return nil, err
	}
	d.undo = append(d.undo, u.client.Close)
	return u, nil
}

// mountUser mounts in a child process: a process that uses its own mount may wait for
// itself for ever.
func (d *demo) mountUser(ctx context.Context, u *demoUser) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// The mount process cleans what a killed demo left mounted there.
	if err := os.Mkdir(u.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	child := mountChild{
		args: []string{"--account=" + string(u.account), "--url=" + d.service.url, "--config=" + os.DevNull, "--log-level=info", "--", u.dir},
		// Another demo may have this address tomorrow: what was seen stays with this one.
		env: []string{envContract + "=" + demoContract, "XDG_STATE_HOME=" + filepath.Join(d.dir, "state")},
		key: u.key, log: d.log,
		// A session group of its own: Ctrl-C reaches the demo, which unmounts in
		// order; should the demo be killed, the child unmounts by itself.
		attrs: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM},
	}
	process, err := child.start()
	if err != nil {
		return err
	}
	u.process = process
	go func() {
		_ = process.Wait()
		close(u.ended)
	}()
	d.undo = append(d.undo, func() error { return d.unmountUser(u) })
	return nil
}

// unmountUser ends the mount process, which uploads and unmounts; if it does
// not, the mount is taken away.
func (d *demo) unmountUser(u *demoUser) error {
	_ = u.process.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-u.ended:
	case <-time.After(drainLimit + 10*time.Second):
		_ = u.process.Process.Kill()
		<-u.ended
	}
	mounted, err := mountAt(u.dir)
	if err != nil {
		return nil // it is gone
	}
	return fs.UnmountLazily(mounted)
}

// path is where name lies in this user's mount.
func (u *demoUser) path(name string) string { return filepath.Join(u.dir, demoGroup, name) }
