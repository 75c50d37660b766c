// Package s3test starts a real S3 server for tests: the Versity gateway over a
// temporary directory, on a free port of 127.0.0.1.
package s3test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

const (
	accessKey    = "test-access"
	secretKey    = "test-only-secret"
	startTimeout = 60 * time.Second
)

// Server is a running S3 server.
type Server struct {
	program string
	dir     string // holds a folder per bucket
	log     *os.File
	port    int
	cmd     *exec.Cmd
	done    chan struct{}
	bucket  atomic.Int64
	meta    []string // flags that say where the gateway keeps metadata
}

// Start starts a server that ends with the test. It skips the test when the
// gateway is not installed.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, false)
}

// StartWithoutMetadata starts a server that ignores the conditions of requests.
func StartWithoutMetadata(t testing.TB) *Server {
	t.Helper()
	return start(t, true)
}

func start(t testing.TB, bare bool) *Server {
	t.Helper()
	program, err := find()
	if err != nil {
		t.Skip(proctest.LeftOut + err.Error())
	}
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{program: program, dir: filepath.Join(dir, "buckets"), log: log}
	sidecar := filepath.Join(dir, "metadata") // so that the file system needs no extended attributes
	s.meta = []string{"--sidecar", sidecar}
	if bare {
		s.meta = []string{"--nometa"}
	}
	for _, folder := range []string{s.dir, sidecar} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if s.port, err = proctest.PickPort(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Restart(t)
	return s
}

// find returns the gateway: VERSITYGW, or from PATH, or where go install puts it.
func find() (string, error) {
	if path := os.Getenv("VERSITYGW"); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("versitygw"); err == nil {
		return path, nil
	}
	out, err := exec.Command("go", "env", "GOBIN", "GOPATH").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	bin, paths, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	if bin == "" {
		bin = filepath.Join(filepath.SplitList(paths)[0], "bin")
	}
	path, err := exec.LookPath(filepath.Join(bin, "versitygw"))
	if err != nil {
		return "", errors.New("no S3 server: make s3-server")
	}
	return path, nil
}

// Restart starts the server, on the same port and data, after Stop or Kill.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	args := []string{"--port", "127.0.0.1:" + strconv.Itoa(s.port), "--keep-alive", "--quiet", "posix"}
	s.cmd = exec.Command(s.program, append(append(args, s.meta...), s.dir)...)
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(startTimeout)
	for !s.answers() {
		select {
		case <-s.done:
			t.Fatalf("versitygw ended: %s", s.output())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("versitygw does not answer: %s", s.output())
		}
	}
}

// run keeps one thread for the child, because the kernel ends the child, which
// must not outlive a killed test, when the thread that made it ends.
func (s *Server) run() error {
	cmd, done := s.cmd, make(chan struct{})
	s.done = done
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // Stop and Kill end it with a signal
		}
	}()
	return <-started
}

func (s *Server) answers() bool {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.Endpoint())
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil
}

func (s *Server) output() string {
	raw, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Kill ends the server as a crash would.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.done
}

// Freeze lets the server stand still, with its connections open, until Thaw.
func (s *Server) Freeze() error {
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); !s.stands(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("the server does not stop")
		}
	}
	return nil
}

// stands reports whether every thread is stopped; threads stop one by one.
func (s *Server) stands() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
	for _, thread := range threads {
		raw, err := os.ReadFile(thread)
		_, state, _ := strings.Cut(string(raw), ") ")
		if err == nil && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

// Thaw continues a frozen server.
func (s *Server) Thaw() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Endpoint is the address of the server.
func (s *Server) Endpoint() string { return "http://127.0.0.1:" + strconv.Itoa(s.port) }

// NewBucket makes an empty bucket and returns its name.
func (s *Server) NewBucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", s.bucket.Add(1))
	if err := os.Mkdir(s.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// Dir is the folder of a bucket's objects.
func (s *Server) Dir(bucket string) string { return filepath.Join(s.dir, bucket) }

// Location is the value of svcd --blobs for a bucket, or bucket/prefix.
func (s *Server) Location(bucket string) string {
	return "s3://" + bucket + "?endpoint=" + s.Endpoint() + "&path-style=true"
}

// Env is the environment that lets a program use the server.
func Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey}
}

// SetEnv gives this test the credentials of the server.
func SetEnv(t testing.TB) {
	t.Helper()
	for _, entry := range Env() {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
}

// Secrets are texts that no log may hold.
func Secrets() []string { return []string{secretKey} }
