// Package fs shows a tree to the Linux kernel through FUSE. It only translates:
// what names mean, what things cost and how they fail is decided in fs/tree.
package fs

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

const (
	// fsType makes the kernel show the mount as fuse.svcfs.
	fsType = "svcfs"
	// maxTransfer is the largest read or write the kernel sends, in bytes.
	maxTransfer = 1 << 20
	// maxBackground is how many readahead and asynchronous requests may wait.
	maxBackground = 64
	// defaultAttrTimeout is how long the kernel believes names and attributes.
	defaultAttrTimeout = time.Second
	defaultUmask       = 0o077
)

// Options configure a mount. The zero value is right for one user.
type Options struct {
	Account    string // shown as the source of the mount
	AllowOther bool   // let other users in, by permission bits
	ReadOnly   bool
	Umask      uint32        // 0 = 077; the mode of files is 0666 &^ Umask
	UID, GID   uint32        // owner shown; 0 = whoever runs this process
	Timeout    time.Duration // how long the kernel believes names and attributes; 0 = 1 s
	Logger     *slog.Logger
	Debug      bool // log every request
}

// mounted is what all nodes of a mount share. It tells the kernel what changed.
type mounted struct {
	tree *tree.Tree
	opt  Options
	root *dirNode

	mu    sync.Mutex
	open  map[*tree.File]*openFile // files some program has open
	queue []func()
	wake  *sync.Cond
	ended bool
}

type openFile struct {
	inode   *gofs.Inode
	handles int
}

// Server is a mount that is up.
type Server struct {
	dir  string
	fuse *fuse.Server
	m    *mounted
	told sync.WaitGroup
}

// Mount mounts t on dir and returns when programs can use it. Check dir with
// [CheckMountpoint] before.
func Mount(dir string, t *tree.Tree, opt Options) (*Server, error) {
	opt = withDefaults(opt)
	if err := CheckSupport(); err != nil {
		return nil, err
	}
	m := &mounted{tree: t, opt: opt, open: make(map[*tree.File]*openFile)}
	m.wake = sync.NewCond(&m.mu)
	m.root = &dirNode{m: m, d: t.Root()}
	rootAttr := stable(t.Root().Attr())
	timeout, none := opt.Timeout, time.Duration(0)
	server, err := gofs.Mount(dir, m.root, &gofs.Options{
		MountOptions: m.mountOptions(), EntryTimeout: &timeout, AttrTimeout: &timeout, NegativeTimeout: &none,
		RootStableAttr: &rootAttr, UID: opt.UID, GID: opt.GID,
	})
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	s := &Server{dir: dir, fuse: server, m: m}
	s.told.Go(m.tellKernel)
	t.SetKernel(m)
	return s, nil
}

func withDefaults(opt Options) Options {
	if opt.Umask == 0 {
		opt.Umask = defaultUmask
	}
	if opt.Timeout == 0 {
		opt.Timeout = defaultAttrTimeout
	}
	if opt.UID == 0 && opt.GID == 0 {
		opt.UID, opt.GID = uint32(os.Getuid()), uint32(os.Getgid())
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return opt
}

func (m *mounted) mountOptions() fuse.MountOptions {
	o := fuse.MountOptions{
		FsName: "svcfs:" + strings.NewReplacer(",", "_", "\\", "_").Replace(m.opt.Account), Name: fsType,
		MaxWrite: maxTransfer, MaxReadAhead: maxTransfer, MaxBackground: maxBackground,
		AllowOther: m.opt.AllowOther, Debug: m.opt.Debug,
		// O_TRUNC arrives with open, so that a truncating open retrieves nothing (W4).
		ExtraCapabilities: fuse.CAP_ATOMIC_O_TRUNC,
		Logger:            log.New(logWriter{m.opt.Logger}, "", 0),
	}
	if m.opt.AllowOther {
		o.Options = append(o.Options, "default_permissions")
	}
	if os.Geteuid() == 0 { // no helper program needed
		o.DirectMountStrict = true
		o.DirectMountFlags = unix.MS_NOSUID | unix.MS_NODEV
		if m.opt.ReadOnly {
			o.DirectMountFlags |= unix.MS_RDONLY
		}
	} else if m.opt.ReadOnly {
		o.Options = append(o.Options, "ro")
	}
	return o
}

// logWriter passes go-fuse's log lines on.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("fuse", "line", strings.TrimSpace(string(p)))
	return len(p), nil
}

// embedder makes the kernel side of a node of the tree.
func (m *mounted) embedder(n tree.Node) gofs.InodeEmbedder {
	if d, ok := n.(*tree.Dir); ok {
		return &dirNode{m: m, d: d}
	}
	return &fileNode{m: m, f: n.(*tree.File)}
}

func (m *mounted) opened(f *tree.File, h *tree.Handle, inode *gofs.Inode) *fileHandle {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.open[f]
	if o == nil {
		o = &openFile{inode: inode}
		m.open[f] = o
	}
	o.handles++
	return &fileHandle{m: m, h: h}
}

func (m *mounted) closed(f *tree.File) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.open[f]
	if o == nil {
		return
	}
	if o.handles--; o.handles == 0 {
		delete(m.open, f)
	}
}

// EntryChanged makes the kernel look the name up again. It only queues: the
// kernel may hold the directory until a request of ours is answered.
func (m *mounted) EntryChanged(d *tree.Dir, name string) {
	path := d.Path()
	m.later(func() {
		if inode := m.walk(path); inode != nil {
			_ = inode.NotifyEntry(name) // not cached is fine
		}
	})
}

// ContentChanged makes the kernel forget pages and attributes of an open file;
// of one that is not open it keeps none that could be read.
func (m *mounted) ContentChanged(f *tree.File) {
	m.later(func() {
		m.mu.Lock()
		o := m.open[f]
		m.mu.Unlock()
		if o != nil {
			_ = o.inode.NotifyContent(0, 0)
		}
	})
}

// walk finds the kernel's inode of a directory, nil if it knows none.
func (m *mounted) walk(path string) *gofs.Inode {
	inode := m.root.EmbeddedInode()
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if part == "" {
			continue
		}
		if inode = inode.GetChild(part); inode == nil {
			return nil
		}
	}
	return inode
}

func (m *mounted) later(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = append(m.queue, f)
	m.wake.Signal()
}

// tellKernel delivers notifications, one after the other, until the mount ends.
func (m *mounted) tellKernel() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		for len(m.queue) == 0 && !m.ended {
			m.wake.Wait()
		}
		if m.ended {
			return
		}
		queue := m.queue
		m.queue = nil
		m.mu.Unlock()
		for _, f := range queue {
			f()
		}
		m.mu.Lock()
	}
}

// Wait returns when the mount is gone.
func (s *Server) Wait() {
	s.fuse.Wait()
	s.m.tree.SetKernel(nil)
	s.m.mu.Lock()
	s.m.ended = true
	s.m.wake.Signal()
	s.m.mu.Unlock()
	s.told.Wait()
}

// ErrBusy means that some program has a file open or stands in the mount.
var ErrBusy = errors.New("the mount is in use")

// Unmount ends the mount, or returns [ErrBusy] and leaves it as it is.
func (s *Server) Unmount() error {
	err := s.fuse.Unmount()
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.EBUSY) || strings.Contains(strings.ToLower(err.Error()), "busy") {
		return fmt.Errorf("unmount %s: %w", s.dir, ErrBusy)
	}
	return fmt.Errorf("unmount %s: %w", s.dir, err)
}

// UnmountLazily takes dir out of the namespace at once; programs that still use
// it get errors. It also clears a dead mount.
func UnmountLazily(dir string) error {
	if os.Geteuid() == 0 {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
		return nil
	}
	helper, err := exec.LookPath("fusermount3")
	if err != nil {
		return errNoHelper
	}
	if out, err := exec.Command(helper, "-u", "-z", "--", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unmount %s: %s: %w", dir, strings.TrimSpace(string(out)), err)
	}
	return nil
}

var errNoHelper = errors.New("fusermount3 is not installed: install it with: sudo apt-get install fuse3")

// CheckSupport reports what this machine lacks for mounting.
func CheckSupport() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open /dev/fuse: %w: load the module with: sudo modprobe fuse", err)
	}
	_ = f.Close()
	if os.Geteuid() == 0 {
		return nil
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		return errNoHelper
	}
	return nil
}

// Harden keeps this process out of core dumps and closes its memory to other
// processes of the same user (M4). Call it before a secret is loaded.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid dumps: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("set core size to zero: %w", err)
	}
	return nil
}

// Errors of [CheckMountpoint].
var (
	ErrDeadMount     = errors.New("a mount that crashed is still there")
	ErrMounted       = errors.New("something is mounted there already")
	ErrNotDirectory  = errors.New("it is not a directory")
	ErrNotEmpty      = errors.New("the directory is not empty")
	ErrNoMountpoint  = errors.New("there is no such directory")
	ErrNotAccessible = errors.New("this user may not write there")
)

// CheckMountpoint refuses a directory that cannot or should not be mounted on
// (M1). It asks for nothing secret and changes nothing.
func CheckMountpoint(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return fmt.Errorf("%s: %w", dir, ErrDeadMount)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: %w", dir, ErrNoMountpoint)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s: %w", dir, ErrNotDirectory)
	}
	full, err := filepath.EvalSymlinks(dir)
	if err == nil {
		full, err = filepath.Abs(full)
	}
	if err != nil {
		return err
	}
	points, err := mountpoints()
	if err != nil {
		return err
	}
	for _, p := range points {
		if p.Dir == full {
			return fmt.Errorf("%s: %w", dir, ErrMounted)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("%s: %w", dir, ErrNotEmpty)
	}
	if unix.Access(dir, unix.W_OK) != nil {
		return fmt.Errorf("%s: %w", dir, ErrNotAccessible)
	}
	return nil
}

// MountInfo is one mounted filesystem.
type MountInfo struct {
	Dir    string // mountpoint
	Type   string // such as fuse.svcfs
	Source string // svcfs:ACCOUNT
}

// Mounts lists the svcfs mounts this process can see.
func Mounts() ([]MountInfo, error) {
	all, err := mountpoints()
	if err != nil {
		return nil, err
	}
	var ours []MountInfo
	for _, p := range all {
		if p.Type == "fuse."+fsType {
			ours = append(ours, p)
		}
	}
	return ours, nil
}

// mountpoints reads the kernel's list (proc(5), mountinfo).
func mountpoints() ([]MountInfo, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var list []MountInfo
	for line := range strings.Lines(string(raw)) {
		before, after, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(rest) < 2 {
			continue
		}
		list = append(list, MountInfo{Dir: unescape(fields[4]), Type: rest[0], Source: unescape(rest[1])})
	}
	return list, nil
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			v := (int(s[i+1]-'0')*8+int(s[i+2]-'0'))*8 + int(s[i+3]-'0')
			if v >= 0 && v < 256 {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
