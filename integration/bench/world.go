package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/svcfs/svcfs/integration/line"
	"github.com/svcfs/svcfs/sdk"
)

// world is everything the benchmark starts and fills.
type world struct {
	plan
	dir  string // on a disk
	shm  string // in memory: tmpfs
	bin  string
	data []byte // content of the large file
	only []string

	systems []*system
	svc     *service
	servers []*process  // to be ended
	over    atomic.Bool // interrupted

	open      *openBig // the large file between readFirst and readRest
	firstTook float64  // milliseconds

	mountFlags []string // of svcfs, in every mode

	stored      map[string]bool // large files that every system has
	moved       line.Moved      // by the step before, if movedKnown
	movedKnown  bool
	readsDone   int   // by the step before
	serverGrew  int64 // bytes, during the step before, if serverKnown
	serverKnown bool
}

// folders of every system's data set. For svcfs each is a group.
const (
	setBig   = "big"
	setSmall = "small"
	setList  = "list"
	setWrite = "write"
	bigName  = "large.bin"
)

func newWorld(p plan, only string) (*world, error) {
	dir, err := os.MkdirTemp("", "svcfs-bench-")
	if err != nil {
		return nil, err
	}
	shm, err := os.MkdirTemp("/dev/shm", "svcfs-bench-")
	if err != nil {
		return nil, fmt.Errorf("the floor needs tmpfs on /dev/shm: %w", err)
	}
	w := &world{plan: p, dir: dir, shm: shm, bin: filepath.Join(dir, "bin"), data: make([]byte, p.big)}
	if only != "" {
		w.only = strings.Split(only, ",")
	}
	if _, err := rand.Read(w.data); err != nil {
		return nil, err
	}
	progress("building svcd and svcfs")
	cmd := exec.Command("go", "build", "-trimpath", "-o", w.bin+"/", "./cmd/svcfs", "./cmd/svcd", "./cmd/svcvault")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w\n%s", err, out)
	}
	return w, nil
}

// close ends everything, also while a measurement is under way: whatever is
// mounted below the work folder goes, and with it who served it.
func (w *world) close() {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil {
		for line := range strings.Lines(string(raw)) {
			if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], w.dir+"/") {
				unmountLazily(fields[4])
			}
		}
	}
	for i := len(w.servers) - 1; i >= 0; i-- {
		w.servers[i].stop()
	}
}

// serve starts a server that ends with the benchmark, and waits for it.
func (w *world) serve(cmd *exec.Cmd, addr string) (*process, error) {
	p, err := start(cmd)
	if err != nil {
		return nil, err
	}
	w.servers = append(w.servers, p)
	return p, p.until(serving(addr))
}

// ended tells which servers are gone that should be there.
func (w *world) ended() (text string) {
	for _, p := range w.servers {
		select {
		case <-p.done:
			text += fmt.Sprintf("; %s ended: %v: %s", filepath.Base(p.cmd.Path), p.err, p.output)
		default:
		}
	}
	return text
}

func (w *world) wants(name string) bool {
	for _, prefix := range w.only {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return len(w.only) == 0
}

func (w *world) path(parts ...string) string {
	return filepath.Join(append([]string{w.dir}, parts...)...)
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }

// service is a svcd with one account.
type service struct {
	w       *world
	program string
	data    string
	url     string
	account string
	keyFile string
	key     string
	process *process
	client  *sdk.Client
	stores  []string     // its --db and --blobs flags
	uploads atomic.Int64 // so many were begun
}

// newService starts svcd over a fresh data directory; stores are its --db and
// --blobs flags.
func (w *world) newService(name string, env []string, stores ...string) (*service, error) {
	return w.startService(filepath.Join(w.bin, "svcd"), name, env, stores...)
}

func (w *world) startService(program, name string, env []string, stores ...string) (*service, error) {
	s, err := w.serveAt(program, name, env, stores...)
	if err != nil {
		return nil, err
	}
	if s.account, s.key, err = s.newAccount("bench", env, stores); err != nil {
		return nil, err
	}
	s.keyFile = w.path(name + ".key")
	if err := os.WriteFile(s.keyFile, []byte(s.key+"\n"), 0o600); err != nil {
		return nil, err
	}
	s.client, err = s.clientOf(s.account, s.key)
	return s, err
}

// serveAt starts a svcd without an account.
func (w *world) serveAt(program, name string, env []string, stores ...string) (*service, error) {
	s := &service{w: w, program: program, data: w.path(name)}
	args := append([]string{"serve", "--data", s.data, "--listen", "127.0.0.1:0", "--request-rate", "-1"}, stores...)
	if w.profiles != "" {
		args = append(args, "--cpuprofile", filepath.Join(w.profiles, name+".pprof"))
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	p, err := start(cmd)
	if err != nil {
		return nil, err
	}
	s.process, w.servers = p, append(w.servers, p)
	if err := p.until(func() bool { return strings.Contains(p.output.String(), "listening on ") }); err != nil {
		return nil, err
	}
	_, line, _ := strings.Cut(p.output.String(), "listening on ")
	s.url, _, _ = strings.Cut(line, "\n")
	return s, nil
}

// end stops a server before the benchmark is over.
func (w *world) end(p *process) {
	p.stop()
	w.servers = slices.DeleteFunc(w.servers, func(other *process) bool { return other == p })
}

func (s *service) newAccount(name string, env, stores []string) (account, key string, err error) {
	create := exec.Command(s.program,
		append([]string{"account", "create", name, "--balance", "1000000", "--data", s.data}, stores...)...)
	create.Env = append(os.Environ(), env...)
	out, err := create.Output()
	if err != nil {
		return "", "", fmt.Errorf("create account: %w", err)
	}
	var made struct {
		Account string `json:"account_id"`
		Key     string `json:"api_key"`
	}
	if err := json.Unmarshal(out, &made); err != nil {
		return "", "", fmt.Errorf("create account: %w", err)
	}
	return made.Account, made.Key, nil
}

func (s *service) clientOf(account, key string) (*sdk.Client, error) {
	return sdk.New(sdk.AccountID(account), sdk.Config{URL: s.url, APIKey: sdk.NewSecret(key)})
}

// upload puts files into a new group, some at a time.
func (s *service) upload(group string, files []file) error {
	if _, err := s.client.Group(sdk.GroupID(group)).Register(context.Background()); err != nil {
		return err
	}
	return inParallel(16, len(files), func(i int) error {
		_, err := s.client.Group(sdk.GroupID(group)).Put(context.Background(), files[i].name,
			bytes.NewReader(files[i].data))
		return err
	})
}

// uploadFile puts a local file into a group.
func (s *service) uploadFile(group, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = s.client.Group(sdk.GroupID(group)).Put(context.Background(), name, f)
	return err
}

// file is one file of the data set.
type file struct {
	name string
	data []byte
}

// dataSet returns the files of each folder.
func (w *world) dataSet() map[string][]file {
	set := map[string][]file{setBig: {{bigName, w.data}}}
	for i := range w.small {
		at := (int64(i) * smallBytes) % (w.big - smallBytes)
		set[setSmall] = append(set[setSmall], file{fmt.Sprintf("file-%05d.dat", i), w.data[at+1 : at+1+smallBytes]})
	}
	for i := range w.listed {
		set[setList] = append(set[setList], file{fmt.Sprintf("entry-%06d.txt", i), []byte(fmt.Sprintf("%d\n", i))})
	}
	if strings.HasPrefix(w.mode, "network") {
		set[setTree] = w.treeFiles()
	}
	return set
}

// writeTo puts the data set below an ordinary folder.
func (w *world) writeTo(root string) error {
	for folder, files := range w.dataSet() {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return err
		}
		for _, f := range files {
			path := filepath.Join(root, folder, f.name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.WriteFile(path, f.data, 0o644)); err != nil {
				return err
			}
		}
	}
	return os.MkdirAll(filepath.Join(root, setWrite), 0o755)
}

// inParallel calls do with 0 to n-1, workers at a time, and returns the first error.
func inParallel(workers, n int, do func(i int) error) error {
	next := make(chan int)
	failed := make(chan error, workers)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			var first error
			for i := range next {
				if first == nil {
					first = do(i)
				}
			}
			failed <- first
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// warm reads everything below the folders once: what is stored encrypted is in
// memory for everybody, so that no disk is measured.
func warm(dirs ...string) error {
	buf := make([]byte, blockBytes)
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil // gone meanwhile, or a folder
			}
			f, err := os.Open(path)
			if err != nil {
				return nil
			}
			defer f.Close()
			_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
