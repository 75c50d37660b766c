package fs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/confine"
)

const (
	// envRole makes the test binary do something else than test: a process must
	// not use the mount it serves, so that another one serves.
	envRole = "SVCFS_FS_TEST_ROLE"
	// envPlan is the JSON of a plan, for the role "serve".
	envPlan = "SVCFS_FS_TEST_PLAN"
	// envRoot is the directory beneath which every mountpoint lies.
	envRoot = "SVCFS_FS_TEST_ROOT"
	// hangLimit is how long an operation may take that must not wait for the service.
	hangLimit = proctest.Hang
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == OutsideCommand {
		if err := ServeOutside(readTestKey); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	switch os.Getenv(envRole) {
	case "serve":
		os.Exit(serve(os.Stdin, os.Stdout))
	case "harden":
		os.Exit(hardened())
	case "user":
		os.Exit(asUser())
	}
	os.Exit(runTests(m))
}

// runTests fails when a mount is left behind.
func runTests(m *testing.M) int {
	root, err := os.MkdirTemp("", "svcfs-fs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_ = os.Chmod(root, 0o755) // other users must reach the mounts, to be refused there
	_ = os.Setenv(envRoot, root)
	code := m.Run()
	points, err := mountpoints()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, p := range points {
		if within(p.Dir, root) {
			fmt.Fprintln(os.Stderr, "left mounted:", p.Dir)
			_ = UnmountLazily(p.Dir)
			code = 1
		}
	}
	_ = os.RemoveAll(root)
	return code
}

// plan says what a serving process mounts.
type plan struct {
	Dir        string
	Options    Options // without Logger
	Harden     bool
	Confine    bool // with a process outside
	MaxFile    int64
	Ours       bool     // the service renames, has a trash and records attributes, so also links
	Deletes    bool     // with Ours: the mount destroys what it removes
	Clock      bool     // records have the time of day
	Watches    bool     // the service tells what others do
	Blocks     bool     // files above 100,000 bytes have blocks
	TinyBlocks bool     // files above 3 bytes have blocks of 4, and are saved so
	Theirs     []string // what another account uploaded before, one line each; "NAME -> TARGET" is a link
}

// order is a line to a serving process, and answer its line back.
type order struct {
	Do    string
	Group sdk.GroupID
	Name  string
	Data  []byte
	Size  int64
	On    bool
	Kind  *sdk.Kind
	Limit time.Duration

	Attributes *sdk.Attributes
}

type answer struct {
	Error   string
	Busy    []Holder
	Counts  counts
	Pending []report.Pending

	Attributes *sdk.Attributes
}

// server is what the role "serve" holds.
type server struct {
	world *world
	tree  *tree.Tree
	mount *Server
	late  tree.Change // that is told later
}

// serve mounts a tree over a world in memory and obeys until its input ends.
func serve(in io.Reader, out io.Writer) int {
	enc := json.NewEncoder(out)
	s, err := startServer()
	if err != nil {
		_ = enc.Encode(answer{Error: err.Error()})
		return 1
	}
	_ = enc.Encode(answer{})
	lines := json.NewDecoder(in)
	for {
		var o order
		if err := lines.Decode(&o); err != nil {
			break
		}
		_ = enc.Encode(s.obey(o))
	}
	s.world.stall("upload", false)
	s.world.stall("retrieve", false)
	s.world.stall("entries", false)
	if err := s.mount.UnmountLazily(); err == nil {
		s.mount.Wait()
	}
	if s.world.events != nil {
		close(s.world.events) // as a watch does when it ends
	}
	_ = s.tree.Close()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func startServer() (*server, error) {
	var p plan
	if err := json.Unmarshal([]byte(os.Getenv(envPlan)), &p); err != nil {
		return nil, err
	}
	if p.Harden {
		if err := confine.Harden(); err != nil {
			return nil, err
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w := newWorld()
	if p.Clock {
		w.Clock = time.Now
	}
	if p.Blocks {
		w.BlocksAbove = 100_000
	}
	if p.TinyBlocks {
		w.BlocksAbove, w.BlockBytes = 3, 4
	}
	for _, name := range p.Theirs {
		if link, target, isLink := strings.Cut(name, " -> "); isLink {
			w.putLink("team", link, target)
			continue
		}
		w.put("team", name, []byte("theirs\n"), int64(len("theirs\n")))
	}
	cfg := tree.Config{Remote: w, RefreshInterval: time.Hour, MetadataTimeout: time.Hour, EmptyDelay: time.Hour,
		AttributesDelay: time.Hour,
		MaxFileBytes:    p.MaxFile, Ours: p.Ours, AllowDelete: p.Deletes, ReadOnly: p.Options.ReadOnly, Logger: log}
	if p.TinyBlocks {
		cfg.WholeBytes, cfg.BlockBytes, cfg.MaxBlocksBytes = w.BlocksAbove, w.BlockBytes, p.MaxFile
	}
	if p.Watches {
		w.events = make(chan sdk.Event)
		cfg.Watch = w.watch
	}
	t, err := tree.New(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	p.Options.Logger = log
	p.Options.Account = string(w.Account())
	if p.Confine {
		if p.Options.Outside, err = StartOutside(p.Dir, -1); err != nil {
			return nil, err
		}
	}
	mount, err := Mount(p.Dir, t, p.Options)
	if err != nil {
		return nil, err
	}
	if p.Confine {
		limits := confine.Limits{Read: confine.System()}
		if err := limits.Apply(); err != nil && !errors.Is(err, confine.ErrUnsupported) {
			return nil, err
		}
	}
	return &server{world: w, tree: t, mount: mount}, nil
}

func (s *server) obey(o order) (a answer) {
	switch o.Do {
	case "put":
		s.world.put(o.Group, o.Name, o.Data, o.Size)
		s.told(sdk.EventUploaded, o.Group)
	case "link": // whose target is the data
		s.world.putLink(o.Group, o.Name, string(o.Data))
		s.told(sdk.EventUploaded, o.Group)
	case "stall":
		s.world.stall(o.Name, o.On)
	case "fail":
		s.world.failWith(o.Name, o.Kind)
	case "panic":
		s.world.Fail(o.Name, treetest.Panic("a mistake in "+o.Name))
	case "member":
		s.world.join(o.Group, o.On)
		s.told(map[bool]string{true: sdk.EventAdded, false: sdk.EventRevoked}[o.On], o.Group)
	case "refresh":
		a.setError(s.tree.Refresh(context.Background()))
	case "spoil": // block Size of the newest upload
		rows := s.world.Rows(o.Group)
		var err error
		if o.On {
			err = &sdk.Error{Op: "read", Kind: *o.Kind, Err: errors.New("spoilt")}
		}
		s.world.Spoil(rows[len(rows)-1].Ref, o.Size, err)
	case "shred":
		s.world.shred(o.Group, int(o.Size))
		s.told(sdk.EventDeleted, o.Group)
	case "moved":
		_ = s.world.rename(o.Group, int(o.Size), o.Name)
		s.told(sdk.EventRenamed, o.Group)
	case "moved folder": // to what the data says; refused where a name is in use
		_, _ = s.world.RenameFolder(context.Background(), o.Group, o.Name, string(o.Data), s.world.Seq())
		s.told(sdk.EventFolderRenamed, o.Group)
	case "made folder": // by another account
		s.world.Member(o.Group, bob)
		_, _ = s.world.As(bob).MakeFolder(context.Background(), o.Group, o.Name)
		s.told(sdk.EventFolderMade, o.Group)
	case "removed folder": // refused where a file is in it
		_, _ = s.world.RemoveFolder(context.Background(), o.Group, o.Name)
		s.told(sdk.EventFolderRemoved, o.Group)
	case "removed":
		_, _ = s.world.RemoveVersions(context.Background(), o.Group, s.world.Named(o.Group, o.Name))
		s.told(sdk.EventRemoved, o.Group)
	case "restored":
		_, _ = s.world.RestoreVersions(context.Background(), o.Group, s.world.Named(o.Group, o.Name))
		s.told(sdk.EventRestored, o.Group)
	case "attributes": // by another account
		rows := s.world.Named(o.Group, o.Name)
		_, err := s.world.As(bob).SetAttributes(context.Background(), o.Group, rows[len(rows)-1].Ref, *o.Attributes)
		a.setError(err)
	case "drain":
		a.Pending = s.tree.Drain(context.Background())
		rows := s.world.Named(o.Group, o.Name)
		a.Attributes = rows[len(rows)-1].Attributes
	case "keep":
		s.tree.KeepAttributes(context.Background())
	case "recorded":
		for _, e := range s.world.Named(o.Group, o.Name) {
			if e.Deleted == nil {
				a.Attributes = e.Attributes
			}
		}
	case "settle":
		for !s.mount.m.teller.isQuiet() {
			time.Sleep(time.Millisecond)
		}
		s.mount.m.Settle(context.Background())
	case "teller": // pretends that the thread of that number tells of changes
		s.mount.m.teller.thread.Store(uint32(o.Size))
	case "told", "to be told": // as if the process outside came late
		group, err := s.tree.Root().Lookup(context.Background(), string(o.Group))
		if err == nil {
			dir := group.(*tree.Dir)
			var now tree.Node
			if now, err = dir.Lookup(context.Background(), o.Name); err == nil {
				s.late = tree.Change{Dir: dir, Name: o.Name, Now: now}
			}
		}
		a.setError(err)
		if err == nil && o.Do == "told" {
			s.mount.m.ChangedByOthers([]tree.Change{s.late})
		}
	case "told late":
		s.mount.m.ChangedByOthers([]tree.Change{s.late})
	case "known": // how many files and folders the kernel knows, of those that it notes
		s.mount.m.mu.Lock()
		a.Counts.Waiting = len(s.mount.m.files) + len(s.mount.m.dirs)
		s.mount.m.mu.Unlock()
	case "closed": // what programs closed is given up a moment later
		for s.tree.Status().Open > int(o.Size) {
			time.Sleep(time.Millisecond)
		}
	case "counts":
		a.Counts, a.Pending = s.world.charged(), s.tree.Pending()
	case "unmount":
		ctx, cancel := context.WithTimeout(context.Background(), o.Limit)
		defer cancel()
		err := s.mount.Unmount(ctx)
		a.setError(err)
		var busy *BusyError
		if errors.As(err, &busy) {
			a.Busy = busy.Holders
		}
		if err == nil {
			s.mount.Wait()
		}
	default:
		a.Error = "unknown order " + o.Do
	}
	return a
}

// told tells the tree, if it watches, what another account did, and returns once that shows.
func (s *server) told(kind string, g sdk.GroupID) {
	if s.world.events == nil {
		return
	}
	s.world.events <- sdk.Event{Kind: kind, Group: g, Account: alice, ChangedSeq: s.world.Seq()}
	s.world.events <- sdk.Event{Kind: "of no concern"} // it has taken the one before
	s.tree.Wait()
}

// isQuiet reports whether all changes by others were told.
func (t *teller) isQuiet() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue) == 0 && !t.busy
}

func (a *answer) setError(err error) {
	if err != nil {
		a.Error = err.Error()
	}
}

// mount is a mount that another process serves.
type mount struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	log *bytes.Buffer
}

// place makes a directory that every user can reach.
func place(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(os.Getenv(envRoot), strings.NewReplacer("/", "-").Replace(t.Name())+"-")
	if err != nil {
		t.Fatal(err)
	}
	ok(t, os.Chmod(dir, 0o755))
	return dir
}

func mounting(t *testing.T, change ...func(*plan)) *mount {
	t.Helper()
	proctest.Need(t, "mount")
	p := plan{Dir: filepath.Join(place(t), "mnt"), MaxFile: 64 << 20}
	ok(t, os.Mkdir(p.Dir, 0o755))
	for _, c := range change {
		c(&p)
	}
	cmd, log := role("serve", p), &bytes.Buffer{}
	cmd.Stderr = log
	m := &mount{t: t, dir: p.Dir, cmd: cmd, log: log}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	m.in, m.out = in, json.NewDecoder(bufio.NewReader(out))
	ok(t, cmd.Start())
	t.Cleanup(m.end)
	if a := m.answer("mount"); a.Error != "" {
		t.Fatal("mount: ", a.Error)
	}
	return m
}

// role prepares the test binary for a role. It ends with the test process.
func role(name string, p plan) *exec.Cmd {
	text, _ := json.Marshal(p) // strings, numbers and flags
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envRole+"="+name, envPlan+"="+string(text),
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // the race detector's pause at exit
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// isCopied reports whether the mount shows in another namespace of mounts, where it stays after it is
// taken away here. Tests of other packages make such namespaces meanwhile.
func isCopied(dir string) bool {
	ours, _ := os.Readlink("/proc/self/ns/mnt")
	processes, _ := filepath.Glob("/proc/[0-9]*")
	return slices.ContainsFunc(processes, func(p string) bool {
		theirs, err := os.Readlink(filepath.Join(p, "ns/mnt"))
		if err != nil || theirs == ours {
			return false
		}
		points, _ := os.ReadFile(filepath.Join(p, "mountinfo"))
		return bytes.Contains(points, []byte(" "+dir+" "))
	})
}

func (m *mount) end() {
	_ = m.in.Close()
	done := make(chan error, 1)
	go func() { done <- m.cmd.Wait() }()
	for ended := false; !ended; {
		select {
		case err := <-done:
			if ended = true; err != nil && m.cmd.ProcessState.ExitCode() != -1 { // -1: killed by the test
				m.t.Errorf("serving process: %v\n%s", err, m.log)
			}
		case <-time.After(hangLimit):
			if ended = !isCopied(m.dir); ended {
				_ = m.cmd.Process.Kill()
				m.t.Errorf("the serving process hangs\n%s", m.log)
			}
		}
	}
	if strings.Contains(m.log.String(), "bug: a request failed") {
		m.t.Errorf("panic in a request:\n%s", m.log)
	}
	points, err := mountpoints()
	if err != nil || isMounted(points, m.dir) {
		_ = UnmountLazily(m.dir)
	}
}

func (m *mount) order(o order) answer {
	m.t.Helper()
	if err := json.NewEncoder(m.in).Encode(o); err != nil {
		m.t.Fatalf("%s: %v", o.Do, err)
	}
	return m.answer(o.Do)
}

func (m *mount) answer(what string) (a answer) {
	m.t.Helper()
	if err := m.out.Decode(&a); err != nil {
		m.t.Fatalf("%s: the serving process: %v\n%s", what, err, m.log)
	}
	return a
}

// must orders what cannot fail.
func (m *mount) must(o order) answer {
	m.t.Helper()
	a := m.order(o)
	if a.Error != "" {
		m.t.Fatalf("%s: %s", o.Do, a.Error)
	}
	return a
}

// put records a file as if another member had uploaded it.
func (m *mount) put(name, content string) {
	m.t.Helper()
	m.must(order{Do: "put", Group: "team", Name: name, Data: []byte(content), Size: int64(len(content))})
}

func (m *mount) refresh() { m.t.Helper(); m.must(order{Do: "refresh"}) }

func (m *mount) path(name string) string { return filepath.Join(m.dir, name) }

func (m *mount) read(name string) string {
	m.t.Helper()
	data, err := os.ReadFile(m.path(name))
	if err != nil {
		m.t.Fatal(err)
	}
	return string(data)
}

func (m *mount) write(name, content string) {
	m.t.Helper()
	ok(m.t, os.WriteFile(m.path(name), []byte(content), 0o600))
}

func (m *mount) wantCharges(retrieves, uploads int) {
	m.t.Helper()
	if c := m.must(order{Do: "counts"}).Counts; c.Retrieves != retrieves || c.Uploads != uploads {
		m.t.Errorf("charged %d retrievals and %d uploads, want %d and %d", c.Retrieves, c.Uploads, retrieves, uploads)
	}
}

// inTime limits an operation that must not wait for the service.
func inTime(t *testing.T, what string, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(hangLimit):
		t.Fatalf("%s hangs", what)
		return nil
	}
}

func wantErrno(t *testing.T, what string, err error, want syscall.Errno) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// ok ends the test unless a step of it went well.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
