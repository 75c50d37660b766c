package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

func (a *app) umountCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "umount DIR",
		Aliases: []string{"unmount"},
		Short:   "Upload pending files and unmount; lists files that could not be uploaded",
		Long: `Ask the process of the mount on DIR to upload pending files, until nothing has
moved for 30 seconds, and to unmount. A mount with an outbox sends what waits,
for as long as its --drain says; what stays is listed, and the next mount sends it.
Ends with 6 and a list when something could not be
uploaded. A mount whose process is gone is only cleaned away.`,
		Example: "  svcfs umount ~/groups",
		Args:    exactly(1, "one DIR"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			return a.umount(ctx, args[0], timeout)
		}),
		ValidArgsFunction: completeMount,
	}
	cmd.Flags().DurationVar(&timeout, "timeout", outbox.DefaultDrain+drainLimit+15*time.Second,
		"how long to wait while nothing moves")
	return cmd
}

// unmounted is what umount prints as JSON.
type unmounted struct {
	Dir   string           `json:"mountpoint"`
	State string           `json:"state"`          // "unmounted", or "removed" when no process served it any more
	Lost  []report.Pending `json:"lost"`           // what could not be uploaded
	Kept  []report.Pending `json:"kept,omitempty"` // what stays in the outbox
}

func (a *app) umount(ctx context.Context, path string, timeout time.Duration) error {
	dir, err := mountAt(path)
	if err != nil {
		return err
	}
	m := inspect(ctx, dir)
	if m.State == stateOthers && os.Geteuid() != 0 { // it may be well; root decides for everybody
		return refuse(exitOther, "unmount it as the user who mounted it, or as root, without what is not uploaded: "+
			"umount -l "+dir,
			fmt.Errorf("%s is the mount of another user", dir))
	}
	user := userOf(dir)
	if !m.isServed(user) {
		if err := fs.UnmountLazily(dir); err != nil {
			return refuse(exitOther, "unmount it as the user who mounted it, or as root with: umount -l "+dir, err)
		}
		a.ui.notice("no process answered for %s; the mount was taken away", dir)
		if a.asJSON {
			return a.printJSON(unmounted{dir, "removed", []report.Pending{}, nil})
		}
		return nil
	}
	a.tellBeforeUmount(dir, m.Status)
	if err := syscall.Kill(m.Status.PID, syscall.SIGTERM); err != nil {
		return refuse(exitOther, "unmount it as the user who mounted it", fmt.Errorf("tell process %d to unmount: %w",
			m.Status.PID, err))
	}
	if err := a.waitUntilGone(ctx, dir, m.Status.PID, timeout); err != nil {
		return err
	}
	var left []report.Pending
	if user != os.Geteuid() {
		a.ui.notice("%s was the mount of another user: what it could not upload is in its log", dir)
	} else if left, err = takeLeft(m.Status.Left); err != nil {
		return err
	}
	i := slices.IndexFunc(left, func(p report.Pending) bool { return p.Outbox != "" })
	var kept []report.Pending
	if i >= 0 {
		left, kept = left[:i], left[i:]
	}
	a.tellKept(kept)
	if a.asJSON {
		if err := a.printJSON(unmounted{dir, "unmounted", append([]report.Pending{}, left...), kept}); err != nil {
			return err
		}
	}
	return a.reportLeft(dir, left)
}

// tellBeforeUmount tells who uses the mount, and what of it is not recorded.
func (a *app) tellBeforeUmount(dir string, s *report.Status) {
	if users := fs.Holders(dir); len(users) > 0 {
		a.ui.notice("%s is in use by %s; what they have open ends with the mount, in a few seconds", dir,
			fs.NameHolders(users))
	}
	if o := s.Outbox; o != nil && o.Items > o.Parked {
		a.ui.notice("%s in the outbox: what can be sent now is sent, for a minute or the --drain of the mount, and "+
			"the rest stays on the disk of this machine for the next mount", waitWords(o.Items-o.Parked))
	}
	if s.TemporaryFiles > 0 {
		a.ui.notice("%s", temporaryWords(s))
	}
}

// isServed reports whether the process that the mount of a user names may be told something: what another user mounted
// can name any process.
func (m mountState) isServed(user int) bool {
	return m.Status != nil && isProcessOf(user, m.Status.PID)
}

// isProcessOf reports whether a process of ours runs as a user; 0 = as anybody.
func isProcessOf(user, pid int) bool {
	var info unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d", pid), &info) == nil && (user == 0 || int(info.Uid) == user) &&
		isOurProcess(pid)
}

// isOurProcess guards against signalling a stranger who got the number of a
// mount process that is gone.
func isOurProcess(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.HasPrefix(string(name), "svcfs")
}

// waitUntilGone waits for the mount and its process to end.
func (a *app) waitUntilGone(ctx context.Context, dir string, pid int, timeout time.Duration) error {
	var moved atomic.Int64 // by the mount, as its status tells
	ctx, cancel := whileMoving(ctx, timeout, moved.Load)
	defer cancel()
	defer a.ui.progress("")
	var asked time.Time // for the outbox
	for {
		dirs, err := findMounts()
		if err != nil {
			return err
		}
		mounted := slices.Contains(dirs, dir)
		if !mounted && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || !mounted && isZombie(pid) {
			return nil
		}
		if m := inspect(ctx, dir); mounted && m.Status != nil && m.Status.Pending > 0 {
			moved.Store(m.Status.Moved)
			left := ""
			if m.Status.Speed > 0 {
				left = fmt.Sprintf(", %s/s, %s left", roughSize(m.Status.Speed),
					timeLeft(m.Status.Unsent, m.Status.Speed))
			}
			a.ui.progress("uploading %s before unmounting%s", plural(m.Status.Pending, "file"), left)
		}
		if !mounted && time.Since(asked) >= drainLook {
			asked = time.Now()
			a.tellDraining(ctx)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return refuse(exitOther, "it goes on by itself; how far it is shows: svcfs status "+shellWord(dir),
				fmt.Errorf("%s is still mounted, and nothing has moved for %s", dir, timeout))
		}
	}
}

// drainLook is the pause between two looks at what a mount that is gone from its folder still sends.
const drainLook = time.Second

// tellDraining shows what the outbox still sends after the folder is unmounted.
func (a *app) tellDraining(ctx context.Context) {
	dir, _, err := a.outboxPlace()
	if err != nil {
		return
	}
	answer, err := askOutbox(ctx, dir, outboxRequest{Op: "list"})
	n, bytes, reason := 0, int64(0), ""
	for _, i := range answer.Items {
		if i.State != outbox.Parked.String() {
			n, bytes, reason = n+1, bytes+i.Size, cmp.Or(reason, i.Reason)
		}
	}
	if err == nil && n > 0 {
		a.ui.progress("sending %s of the outbox before the mount ends%s", plural(n, "save"), leftWords(bytes, reason))
	}
}

// isZombie reports whether a process has ended and nobody has asked how.
func isZombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

// maxLeftBytes bounds a report of what was lost, in bytes.
const maxLeftBytes = 64 << 20

// leftPath is the file in which a mount process lists what it could not upload, for
// the umount that waits; "" without a home directory.
func (a *app) leftPath(pid int) string {
	return a.userDir("XDG_STATE_HOME", ".local/state", fmt.Sprintf("left-%d.json", pid))
}

// leaveReport writes what was not uploaded: names and sizes, never content.
func (a *app) leaveReport(left []report.Pending) {
	path := a.leftPath(os.Getpid())
	if path == "" {
		return
	}
	text, err := json.Marshal(left)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		a.ui.notice("could not record what was lost: %v", err)
	}
}

// takeLeft reads the report of a mount process that has ended, and removes it.
func takeLeft(path string) ([]report.Pending, error) {
	if path == "" {
		return nil, nil
	}
	text, err := ownfile.Read(path, ownfile.Settings, maxLeftBytes)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refuse(exitOther, ownfile.MendOf(err), err)
	}
	_ = os.Remove(path)
	var left []report.Pending
	if err := json.Unmarshal(text, &left); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return left, nil
}

// reportLeft tells what was not uploaded.
func (a *app) reportLeft(dir string, left []report.Pending) error {
	if len(left) == 0 {
		return nil
	}
	for _, p := range left {
		a.ui.notice("lost: %s  %s  %s", p.Path, p.What(), p.Error)
	}
	return refuse(exitOther, "mount again and save them again", fmt.Errorf("%s was unmounted with %s not uploaded",
		dir, plural(len(left), "file")))
}
