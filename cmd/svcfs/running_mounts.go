package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

// controlDeadline bounds the reading of a control file: a mount whose process
// is stuck must not hang whoever asks about it.
const controlDeadline = 2 * time.Second

// maxControlBytes bounds what is read of a control file, in bytes: another user may have mounted anything.
const maxControlBytes = 64 << 20

// readControl reads a file of DIR/.svcfs.
func readControl(ctx context.Context, dir, name string) ([]byte, error) {
	type answer struct {
		text []byte
		err  error
	}
	got, ok := inTime(ctx, func() answer {
		f, err := os.Open(filepath.Join(dir, ".svcfs", name))
		if err != nil {
			return answer{nil, err}
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxControlBytes))
		return answer{text, err}
	})
	if !ok {
		return nil, fmt.Errorf("the mount on %s does not answer", dir)
	}
	if errors.Is(got.err, syscall.ENOTCONN) {
		return nil, refuse(exitOther, "mount again with: svcfs mount "+shellWord(dir)+"; or only clean up with: "+
			"svcfs umount "+shellWord(dir), fmt.Errorf("the process of the mount on %s is gone: %w", dir, got.err))
	}
	return got.text, got.err
}

// inTime runs ask, which may wait for the answer of a mount, and reports whether
// it ended in time. One that does not goes on until this process ends.
func inTime[T any](ctx context.Context, ask func() T) (got T, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, controlDeadline)
	defer cancel()
	done := make(chan T, 1)
	go func() { done <- ask() }()
	select {
	case got := <-done:
		return got, true
	case <-ctx.Done():
		return got, false
	}
}

// mountState is a mount of ours as found.
type mountState struct {
	Dir    string         `json:"mountpoint"`
	State  string         `json:"state"` // one of the states below
	Status *report.Status `json:"status,omitempty"`
}

// The states of a mount.
const (
	stateMounted = "mounted"
	stateDead    = "dead"           // no process serves it any more
	stateStuck   = "stuck"          // it does not answer
	stateOthers  = "another user's" // the kernel lets its user alone ask it
)

// inspect asks the mount on dir how it is.
func inspect(ctx context.Context, dir string) mountState {
	text, err := readControl(ctx, dir, "status")
	return stateOf(dir, text, err)
}

// isOf reports whether the mount is one of an account at a service.
func (m mountState) isOf(account sdk.AccountID, address string) bool {
	return m.Status != nil && m.Status.Account == string(account) && m.Status.Address == address
}

// stateOf reads what the mount on dir says of itself.
func stateOf(dir string, text []byte, err error) mountState {
	m := mountState{Dir: dir, State: stateStuck}
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		m.State = stateDead
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		m.State = stateOthers
	}
	var status report.Status
	if err == nil && json.Unmarshal(text, &status) == nil && status.PID > 0 {
		m.State, m.Status = stateMounted, &status
	}
	return m
}

// runningRecord is what a mount leaves in the state folder while it lasts, and takes away when it
// ends in order: what finds it with no such process knows that the process died.
type runningRecord struct {
	Dir string `json:"mountpoint"`
	PID int    `json:"pid"`
}

// maxRecordBytes bounds a record, in bytes.
const maxRecordBytes = 64 << 10

// runningPath is where the record of a mount on dir is; "" without a home directory.
func (a *app) runningPath(dir string) string { return a.mountFile(dir, ".running") }

// noteRunning leaves the record of this process. Without it nobody is told of its death.
func (a *app) noteRunning(dir string) {
	at := a.runningPath(dir)
	if at == "" {
		return
	}
	text, err := json.Marshal(runningRecord{dir, os.Getpid()})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(at), 0o700)
	}
	if err == nil {
		err = os.WriteFile(at, text, 0o600)
	}
	if err != nil {
		a.ui.notice("could not note that the mount runs: %v", err)
	}
}

// isNotedAsRunning reports whether the record says that process pid serves the mount on dir.
func (a *app) isNotedAsRunning(dir string, pid int) bool {
	at := a.runningPath(dir)
	if at == "" {
		return false
	}
	text, err := ownfile.Read(at, ownfile.Settings, maxRecordBytes)
	var r runningRecord
	return err == nil && json.Unmarshal(text, &r) == nil && r.Dir == dir && r.PID == pid
}

// forgetRunning takes the record of process pid away.
func (a *app) forgetRunning(dir string, pid int) {
	if a.isNotedAsRunning(dir, pid) {
		_ = os.Remove(a.runningPath(dir))
		_ = os.Remove(a.socketPath(dir))
	}
}

// findMounts lists the mountpoints of svcfs on this machine, also those of other users.
func findMounts() ([]string, error) {
	return mountsThat(func(fs.MountInfo) bool { return true })
}

// ownMounts lists the mountpoints of svcfs that this user, or root for this user, has mounted.
func ownMounts() ([]string, error) { return mountsThat(isOwn) }

// isOwn reports whether this user or root mounted m: another user may have put anything there.
func isOwn(m fs.MountInfo) bool { return m.User == os.Geteuid() || m.User == 0 }

// userOf returns who mounted what shows on dir, as the kernel knows; -1 = nobody.
func userOf(dir string) int {
	all, _ := fs.Mounts() // without the list it is nobody's
	for _, m := range slices.Backward(all) {
		if m.Dir == dir {
			return m.User
		}
	}
	return -1
}

func mountsThat(count func(fs.MountInfo) bool) ([]string, error) {
	all, err := fs.Mounts()
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var dirs []string
	for _, m := range all {
		if count(m) {
			dirs = append(dirs, m.Dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}

// mountAt finds the mount on exactly dir.
func mountAt(dir string) (string, error) {
	path, err := resolve(dir)
	if err != nil {
		return "", err
	}
	dirs, err := findMounts()
	if err != nil {
		return "", err
	}
	if !slices.Contains(dirs, path) {
		return "", refuse(exitNotFound, "run 'svcfs status' for the mounts there are",
			fmt.Errorf("nothing of ours is mounted on %s", path))
	}
	return path, nil
}

// mountHolding finds the mount that path lies in, and path below it. It asks a mount about
// names only where path leads there through symbolic links.
func mountHolding(path string) (dir, inside string, err error) {
	dirs, err := findMounts()
	if err != nil {
		return "", "", err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", "", usage("give an absolute path", err.Error())
	}
	if dir, inside, ok := below(dirs, abs); ok {
		return dir, inside, nil
	}
	if abs, err = resolve(path); err != nil {
		return "", "", err
	}
	if dir, inside, ok := below(dirs, abs); ok {
		return dir, inside, nil
	}
	return "", "", refuse(exitNotFound, "run 'svcfs status' for the mounts there are",
		fmt.Errorf("%s is in no mount of ours", abs))
}

// below finds the mount among dirs that abs lies in.
func below(dirs []string, abs string) (dir, inside string, ok bool) {
	for _, d := range slices.Backward(dirs) { // an inner mount sorts behind an outer one
		if abs == d {
			return d, "/", true
		}
		if rest, ok := strings.CutPrefix(abs, d+"/"); ok {
			return d, "/" + rest, true
		}
	}
	return "", "", false
}

// resolve is [fs.Resolve]. When a mount does not answer, path stays as it is.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", usage("give an absolute path", err.Error())
	}
	full, ok := inTime(context.Background(), func() string {
		full, err := fs.Resolve(abs)
		if err != nil {
			return abs
		}
		return full
	})
	if !ok {
		return abs, nil
	}
	return full, nil
}
