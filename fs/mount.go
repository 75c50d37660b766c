// Package fs shows a tree to the Linux kernel through FUSE. It only translates: fs/tree
// decides the meaning of names, the costs and the errors.
package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

const (
	// fsType makes the kernel show the mount as fuse.svcfs.
	fsType = "svcfs"
	// sourcePrefix stands before the account in the source of a mount.
	sourcePrefix = "svcfs:"
	// maxTransfer is the largest read or write the kernel sends, in bytes.
	maxTransfer = 1 << 20
	// maxBackground is how many readahead and asynchronous requests may wait.
	maxBackground = 64
	// defaultTimeout is how long the kernel believes names and attributes.
	defaultTimeout = time.Second
	defaultUmask   = 0o077
)

// Options configure a mount. The zero value mounts for the user of this process
// alone, writable, with modes 0600 and 0700.
type Options struct {
	Account    string        // shown as the source of the mount, svcfs:ACCOUNT
	AllowOther bool          // let other users in, by permission bits
	ReadOnly   bool          // the kernel answers EROFS to every change
	Umask      uint32        // bits that no mode shows, not even after chmod; 0 = 077
	UID, GID   uint32        // owner that is shown, and may do everything; both 0 = the user of this process
	ForeignUID uint32        // owner that is shown of files of other accounts (A5); 0 = the user nobody
	OwnAll     bool          // UID owns those files too, and programs trust them
	NoExec     bool          // the kernel runs no program from the mount
	Timeout    time.Duration // how long the kernel believes names and attributes; 0 = 1 s, negative = not at all
	Logger     *slog.Logger  // nil = no log
	Reads      Reads         // how the kernel serves reads
	// no extended attributes: the kernel then answers all questions about them itself; not with AllowOther, unless
	// OwnAll
	NoXattr bool
	// takes the mount away and looks at processes for this one, which may then confine itself; nil = this process does
	Outside *Outside
	Debug   bool // log every request at debug level: names, never content
}

// mounted is shared by all nodes of a mount.
type mounted struct {
	*notifier
	tree *tree.Tree
	opt  Options
	used atomic.Int64 // when a program last asked for something, ns since the epoch

	nodes atomic.Uint64 // that were made

	processes processes // that asked

	teller *teller
}

// Server is a mount that is up. Its methods are safe for concurrent use.
type Server struct {
	dir  string
	fuse *fuse.Server
	m    *mounted

	unmounting sync.Mutex // go-fuse allows one attempt at a time
}

// Mount mounts t on dir and returns when programs can use it. Check dir with
// [CheckMountpoint] before. The caller drains and closes the tree, and must not use the
// mount itself: a process that waits for its own answers can wait for ever.
func Mount(dir string, t *tree.Tree, opt Options) (*Server, error) {
	opt = withDefaults(opt)
	if !opt.Outside.mounts() {
		if err := opt.check(); err != nil {
			return nil, err
		}
	}
	m := &mounted{notifier: newNotifier(), tree: t, opt: opt, teller: newTeller(opt.Outside)}
	root := m.embedder(t.Root())
	rootAttr := stable(t.Root().Attr())
	none := time.Duration(0)
	under, err := coverable(dir)
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	t.SetKernel(m) // before the kernel believes anything
	var server *fuse.Server
	at, err := m.place(dir)
	if err == nil {
		o := &gofs.Options{
			MountOptions: m.mountOptions(), NegativeTimeout: &none,
			RootStableAttr: &rootAttr, ExternalNodeID: true, NullPermissions: true, UID: opt.UID, GID: opt.GID,
			Logger: m.fuseLog(),
		}
		server, err = fuse.NewServer(seeking{gofs.NewNodeFS(root, o)}, at, &o.MountOptions)
	}
	if err == nil {
		go server.Serve()
		err = server.WaitMount()
	}
	if err != nil && at != dir {
		err = errors.Join(err, opt.Outside.unmount(dir, true))
	}
	if closing := under.close(err == nil); closing != nil {
		opt.Logger.Warn("the directory under the mount stays writable", "error", closing)
	}
	if err != nil {
		t.SetKernel(nil)
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	m.use()
	m.start()
	if !opt.ReadOnly { // the kernel refuses every change there
		m.teller.begin()
	}
	m.workers.Go(m.teller.run)
	return &Server{dir: dir, fuse: server, m: m}, nil
}

// check refuses a mount that this process may not make.
func (opt Options) check() error {
	if err := CheckSupport(); err != nil {
		return err
	}
	if opt.AllowOther && os.Geteuid() != 0 {
		return checkAllowOther()
	}
	return nil
}

// place returns the place where go-fuse mounts: dir, or the descriptor of the mount that
// a mounter made there.
func (m *mounted) place(dir string) (string, error) {
	if !m.opt.Outside.mounts() {
		return dir, nil
	}
	fd, err := m.opt.Outside.mount(mountRequest{m.source(), m.opt.AllowOther, m.opt.ReadOnly, m.opt.NoExec})
	if err != nil {
		return dir, err
	}
	return fmt.Sprintf("/dev/fd/%d", fd), nil
}

// source returns the source of the mount as the kernel shows it.
func (m *mounted) source() string {
	return sourcePrefix + strings.NewReplacer(",", "_", "\\", "_").Replace(m.opt.Account)
}

func withDefaults(opt Options) Options {
	opt.Umask = cmp.Or(opt.Umask, defaultUmask)
	opt.Timeout = cmp.Or(opt.Timeout, defaultTimeout)
	if opt.UID == 0 && opt.GID == 0 {
		opt.UID, opt.GID = uint32(os.Getuid()), uint32(os.Getgid())
	}
	opt.ForeignUID = cmp.Or(opt.ForeignUID, defaultForeignUID(opt.UID))
	opt.Logger = cmp.Or(opt.Logger, slog.New(slog.DiscardHandler))
	return opt
}

func (m *mounted) mountOptions() fuse.MountOptions {
	o := fuse.MountOptions{
		FsName: m.source(), Name: fsType,
		MaxWrite: maxTransfer, MaxReadAhead: maxTransfer, MaxBackground: maxBackground,
		AllowOther: m.opt.AllowOther, Debug: m.opt.Debug, DisableXAttrs: m.opt.NoXattr, Logger: m.fuseLog(),
		PanicHandler: m.panicked,
		// Content of an inode changes only through the kernel, and where it must be
		// forgotten we send a notice: a new time alone is no reason to read it all again.
		ExplicitDataCacheControl: true,
		// O_TRUNC arrives with open, so that a truncating open retrieves nothing
		// (W4). We never show set-id bits or capabilities, so none need killing: the
		// kernel then saves asking for them before every write. It asks for the attributes
		// of all names only where a program does, and for a file that it forgot by number (R8).
		ExtraCapabilities: fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_READDIRPLUS_AUTO |
			fuse.CAP_EXPORT_SUPPORT,
	}
	if m.opt.Reads == ReadsPlain {
		o.ExtraCapabilities |= fuse.CAP_DIRECT_IO_ALLOW_MMAP // else nothing can be mapped shared
	}
	if m.opt.AllowOther {
		o.Options = append(o.Options, "default_permissions")
	}
	o.EnableAcl = m.lists()
	if m.opt.NoExec {
		o.Options = append(o.Options, "noexec")
	}
	if m.opt.Outside.mounts() {
		return o
	}
	if os.Geteuid() != 0 { // fusermount3 adds nosuid and nodev itself
		if m.opt.ReadOnly {
			o.Options = append(o.Options, "ro")
		}
		return o
	}
	o.DirectMount = true // the helper is tried if this fails
	_, err := helper()
	o.DirectMountStrict = err != nil
	o.DirectMountFlags = unix.MS_NOSUID | unix.MS_NODEV
	if m.opt.ReadOnly {
		o.DirectMountFlags |= unix.MS_RDONLY
	}
	return o
}

// panicked answers a request whose handler has a bug: an I/O error for one
// program, a line for us, and the mount goes on.
func (m *mounted) panicked(what any) fuse.Status {
	m.tree.Panicked(what)
	return fuse.EIO
}

func (m *mounted) fuseLog() *log.Logger { return log.New(logWriter{m.opt.Logger}, "", 0) }

// logWriter passes go-fuse's log lines on.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("fuse", "line", strings.TrimSpace(string(p)))
	return len(p), nil
}

// use notes that a program asked for something.
func (m *mounted) use() { m.used.Store(time.Now().UnixNano()) }

// LastUse returns when a program last looked a name up, listed a directory, opened,
// read or wrote a file. The files of /.svcfs do not count.
func (s *Server) LastUse() time.Time { return time.Unix(0, s.m.used.Load()) }

// Wait returns when the mount is gone.
func (s *Server) Wait() {
	s.fuse.Wait()
	s.m.tree.SetKernel(nil)
	s.m.teller.end()
	s.m.stop()
}

// endLimit bounds the wait for the kernel to end a mount that was taken away. The kernel
// does not end it while another namespace of mounts has a copy, such as that of a container.
const endLimit = 2 * time.Second

// Unmount ends the mount, or leaves it as it is and returns a [*BusyError] that
// names the programs that use it. It never waits for the service, and not beyond ctx. Copies
// in other namespaces end with this process.
func (s *Server) Unmount(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		s.unmounting.Lock()
		defer s.unmounting.Unlock()
		err := s.m.opt.Outside.unmount(s.dir, false)
		if err == nil {
			s.waitFor(endLimit)
		}
		done <- err
	}()
	select {
	case err := <-done:
		return s.unmountError(err)
	case <-ctx.Done():
		return fmt.Errorf("unmount %s: %w", s.dir, ctx.Err())
	}
}

// waitFor waits until the kernel has ended the mount, but not longer than limit.
func (s *Server) waitFor(limit time.Duration) {
	ended := make(chan struct{})
	go func() {
		s.fuse.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limit):
	}
}

// UnmountLazily is [UnmountLazily] for this mount.
func (s *Server) UnmountLazily() error { return s.m.opt.Outside.unmount(s.dir, true) }

func (s *Server) unmountError(err error) error {
	if err == nil {
		return nil
	}
	if points, listErr := mountpoints(); listErr == nil && !isMounted(points, s.dir) {
		return nil // another process was faster
	}
	if holders := s.m.opt.Outside.holders(s.dir); len(holders) > 0 || errors.Is(err, unix.EBUSY) {
		return &BusyError{Dir: s.dir, Holders: holders}
	}
	return fmt.Errorf("unmount %s: %w", s.dir, err)
}

// helperLimit bounds the helper program that takes a mount away.
const helperLimit = 10 * time.Second

// UnmountLazily takes dir out of the namespace at once; programs that still use
// it keep their open files until they close them. It also clears a dead mount.
func UnmountLazily(dir string) error {
	if os.Geteuid() == 0 {
		if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
		return nil
	}
	return runHelper("-u", "-z", "--", dir)
}

// runHelper has the helper program unmount; the directory is the last argument.
func runHelper(args ...string) error {
	helper, err := helper()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), helperLimit)
	defer cancel()
	if out, err := exec.CommandContext(ctx, helper, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("unmount %s: %s: %w", args[len(args)-1], strings.TrimSpace(string(out)), err)
	}
	return nil
}
