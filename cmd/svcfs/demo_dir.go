package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepareDir finds and claims the folder of this run.
func (d *demo) prepareDir(dir string) error {
	if dir == "" {
		base := d.userDir("XDG_DATA_HOME", ".local/share", "")
		if base == "" {
			return usage("name a folder: svcfs demo DIR", "neither HOME nor XDG_DATA_HOME is set")
		}
		dir = filepath.Join(base, "demo")
		if d.once {
			if err := os.MkdirAll(base, 0o700); err != nil {
				return err
			}
			made, err := os.MkdirTemp(base, "demo-once-")
			if err != nil {
				return err
			}
			dir = made
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return usage("give an absolute path", err.Error())
	}
	d.dir = abs
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return refuse(exitUsage, "name a folder you can write", err)
	}
	if err := claimDir(abs); err != nil {
		return err
	}
	if err := d.lock(); err != nil {
		return err
	}
	if d.once {
		d.undo = append(d.undo, func() error { return removeDemo(abs) })
	}
	return d.openDemoLog()
}

// claimDir marks an empty folder, or recognises one of an earlier run.
func claimDir(dir string) error {
	marker := filepath.Join(dir, demoMarker)
	if _, err := os.Stat(marker); err == nil {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return refuse(exitUsage, "name a folder you can read", err)
	}
	if len(entries) > 0 {
		return usage("name an empty or new folder", dir+" is not empty and not from an earlier demo")
	}
	return os.WriteFile(marker, []byte("made by svcfs demo; may be removed when no demo runs\n"), 0o600)
}

// lock keeps two demos out of one folder.
func (d *demo) lock() error {
	f, err := os.OpenFile(filepath.Join(d.dir, demoMarker), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return refuse(exitOther, "use it, or stop it with Ctrl-C, or name another folder: svcfs demo DIR", errors.New("another demo runs in "+d.dir))
	}
	d.undo = append(d.undo, f.Close)
	return nil
}

func (d *demo) openDemoLog() error {
	f, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	d.log = f
	d.undo = append(d.undo, f.Close)
	return nil
}

// removeDemo removes what a demo makes in its folder and then the folder, if
// nothing else is in it. The mountpoints must be empty: a mount that is still
// there is never descended into.
func removeDemo(dir string) error {
	for _, name := range []string{"alice", "bob"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for _, name := range []string{serviceProgram, "service", "state", "log", demoMarker} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	return nil
}

// cleanup undoes what was done, last first, whatever happened.
func (d *demo) cleanup() error {
	var first error
	for i := len(d.undo) - 1; i >= 0; i-- {
		if err := d.undo[i](); err != nil && first == nil {
			first = fmt.Errorf("clean up after the demo: %w", err)
		}
	}
	d.undo = nil
	return first
}
