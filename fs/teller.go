package fs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// The kernel tells programs that watch a folder with inotify of what programs do in the
// mount, and has no notice for what others do. So the process outside does what others did:
// it makes the file, or removes it, with the calls of any program. The mount knows the thread
// that asks, and answers without changing anything (R7).

// tellRequest has the process outside make one event.
type tellRequest struct {
	Dir  string // below the mount
	Name string
	Ino  uint64 // that the name has, where it is removed
	Do   tellAct
}

type tellAct uint8

const (
	tellUnlink tellAct = iota
	tellRmdir
	tellCreate
	tellMkdir
	tellSymlink
)

// maxTelling is how many changes may wait to be told.
const maxTelling = 1000

// teller tells watchers of changes by others, one after the other.
type teller struct {
	outside *Outside
	thread  atomic.Uint32 // of the process outside that asks; 0 = nothing is told

	mu    sync.Mutex
	wake  *sync.Cond
	queue []tree.Change
	busy  bool // with a change
	ended bool
	now   *telling // the event under way; nil = none
}

// telling is one event under way: what the thread that asks finds under the name, and gets when
// it makes the name.
type telling struct {
	dir   *tree.Dir
	name  string
	finds tree.Node // nil = nothing
	makes tree.Node // nil = nothing
}

func (t *telling) ino() uint64 {
	if t.finds == nil {
		return 0
	}
	return t.finds.Attr().Ino
}

// isShown reports whether the name shows what is to be made. When a program removed or replaced it
// meanwhile, the kernel must not get it: programs would write to a file that has no name.
func (t *telling) isShown() bool {
	n, ok := t.makes.(interface{ Parent() (*tree.Dir, string) })
	if !ok {
		return false
	}
	dir, name := n.Parent()
	return dir == t.dir && name == t.name
}

func newTeller(outside *Outside) *teller {
	t := &teller{outside: outside}
	t.wake = sync.NewCond(&t.mu)
	return t
}

// begin finds out which thread asks, once the mount is there, which it remembers. Nothing is
// told without a process outside.
func (t *teller) begin() {
	if t.outside == nil {
		return
	}
	answer, err := t.outside.ask(outsideRequest{Do: askTeller})
	if err == nil {
		t.thread.Store(answer.Thread)
	}
}

// ChangedByOthers queues changes for those who watch.
func (m *mounted) ChangedByOthers(list []tree.Change) {
	t := m.teller
	if t.thread.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range list {
		if len(t.queue) < maxTelling && !t.ended && m.knows(c.Dir) {
			t.queue = append(t.queue, c)
		}
	}
	t.wake.Broadcast()
}

// knows reports whether the kernel looked into the folder: else nobody watches it.
func (k *notifier) knows(d *tree.Dir) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dirs[d] != nil
}

// run tells until end is called, or the process outside is gone.
func (t *teller) run() {
	for {
		t.mu.Lock()
		for len(t.queue) == 0 && !t.ended {
			t.wake.Wait()
		}
		if t.ended {
			t.mu.Unlock()
			return
		}
		c := t.queue[0]
		t.queue, t.busy = t.queue[1:], true
		t.mu.Unlock()
		good := t.tell(c)
		t.mu.Lock()
		t.busy = false
		t.mu.Unlock()
		if !good {
			t.end()
		}
	}
}

func (t *teller) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.queue = true, nil
	t.wake.Broadcast()
}

// tell makes the events of one change. false: the process outside is gone.
func (t *teller) tell(c tree.Change) bool {
	good := true
	if c.Gone != nil {
		act := tellUnlink
		if c.Gone.Attr().Dir {
			act = tellRmdir
		}
		good = t.event(telling{c.Dir, c.Name, c.Gone, nil}, act)
	}
	if c.Now != nil && good {
		act, attr := tellCreate, c.Now.Attr()
		switch {
		case attr.Dir:
			act = tellMkdir
		case attr.Link:
			act = tellSymlink
		}
		good = t.event(telling{c.Dir, c.Name, nil, c.Now}, act)
	}
	return good
}

// event makes one event. That the process outside could not is of no concern: the name has changed
// again, or the mount is going. A program that saves a large file by a rename holds the folder, and
// the event, for as long as the upload takes.
func (t *teller) event(now telling, act tellAct) bool {
	t.mu.Lock()
	t.now = &now
	t.mu.Unlock()
	_, err := t.outside.askFor(outsideRequest{Do: askTell,
		Tell: tellRequest{now.dir.Path(), now.name, now.ino(), act}}, noLimit)
	t.mu.Lock()
	t.now = nil
	t.mu.Unlock()
	return !errors.Is(err, errOutside)
}

// asks reports whether the request is one of the process outside that tells. then is what
// it is about, nil for another name.
func (n *dirNode) asks(ctx context.Context, name string) (then *telling, is bool) {
	t := n.m.teller
	thread := t.thread.Load()
	if caller, ok := fuse.FromContext(ctx); thread == 0 || !ok || caller.Pid != thread {
		return nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now == nil || t.now.dir != n.d || t.now.name != name {
		return nil, true
	}
	return t.now, true
}

// lookupToTell answers a look-up of the process outside. Nothing is there that is to be made, so
// that the kernel has it made; but a folder that a program may have entered by then stays.
func (n *dirNode) lookupToTell(ctx context.Context, then *telling, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	finds := then.finds
	if then.makes != nil && then.makes.Attr().Dir && n.GetChild(then.name) != nil {
		finds = then.makes
	}
	if finds == nil {
		return nil, unix.ENOENT
	}
	inode := n.child(ctx, finds, out)
	out.SetEntryTimeout(0) // other programs ask for themselves
	return inode, 0
}

// makeToTell answers the process outside, which makes a name that is there already.
func (n *dirNode) makeToTell(ctx context.Context, then *telling, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if then == nil || !then.isShown() {
		return nil, unix.EPERM
	}
	inode := n.child(ctx, then.makes, out) // the kernel knows it by its number
	out.SetEntryTimeout(0)                 // as in lookupToTell
	return inode, 0
}

// removeToTell answers the process outside, which removes a name that is gone already.
func removeToTell(then *telling) syscall.Errno {
	if then == nil || then.finds == nil {
		return unix.EPERM
	}
	return 0
}

// toldHandle is the open file of the process outside, which only closes it.
type toldHandle struct{}

// told are the requests for events, in the process outside: one thread asks the kernel.
type told struct {
	dir   string
	begin sync.Once
	asked chan tellRequest
	done  chan error
	id    chan uint32
	tid   uint32
	mount string     // the device of the mount; "" = there was none
	mu    sync.Mutex // one event at a time
}

func newTold(dir string) *told {
	return &told{dir: dir, asked: make(chan tellRequest), done: make(chan error), id: make(chan uint32, 1)}
}

func (t *told) answer(r outsideRequest) outsideAnswer {
	t.begin.Do(func() {
		if root, err := unix.Open(t.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			t.mount = deviceOf(root)
			_ = unix.Close(root)
		}
		go t.serve()
		t.tid = <-t.id
	})
	if r.Do == askTeller {
		return outsideAnswer{Thread: t.tid}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked <- r.Tell
	if err := <-t.done; err != nil {
		return failure(err)
	}
	return outsideAnswer{}
}

// serve is the thread.
func (t *told) serve() {
	runtime.LockOSThread()
	t.id <- uint32(unix.Gettid())
	for r := range t.asked {
		t.done <- t.act(r)
	}
}

// deviceOf names the device of an open folder, "" if there is none. It asks nothing of the mount.
func deviceOf(folder int) string {
	var st unix.Statx_t
	if err := unix.Statx(folder, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, 0, &st); err != nil {
		return ""
	}
	return fmt.Sprint(st.Dev_major, ":", st.Dev_minor)
}

// errNoMount refuses to touch anything but the mount.
var errNoMount = errors.New("the mount is gone")

// act makes an event beneath the mount, and nowhere else.
func (t *told) act(r tellRequest) error {
	if r.Name == "" || r.Name == "." || r.Name == ".." || strings.ContainsRune(r.Name, '/') {
		return fmt.Errorf("name %q: %w", r.Name, unix.EINVAL)
	}
	root, err := unix.Open(t.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(root) }()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(root, &fs); err != nil {
		return err
	}
	if fs.Type != unix.FUSE_SUPER_MAGIC || t.mount == "" || deviceOf(root) != t.mount {
		return errNoMount // another mount there would do what it is asked
	}
	below := strings.TrimPrefix(filepath.Clean("/"+r.Dir), "/")
	if below == "" {
		below = "."
	}
	dir, err := unix.Openat2(root, below, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV})
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	if r.Ino != 0 { // else the kernel knows already what has the name now
		var st unix.Stat_t
		if err := unix.Fstatat(dir, r.Name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT); err != nil ||
			st.Ino != r.Ino {
			return errors.Join(err, unix.ESTALE)
		}
	}
	switch r.Do {
	case tellUnlink:
		return unix.Unlinkat(dir, r.Name, 0)
	case tellRmdir:
		return unix.Unlinkat(dir, r.Name, unix.AT_REMOVEDIR)
	case tellMkdir:
		return unix.Mkdirat(dir, r.Name, 0o700)
	case tellSymlink:
		return unix.Symlinkat("others made it", dir, r.Name)
	}
	fd, err := unix.Openat(dir, r.Name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
