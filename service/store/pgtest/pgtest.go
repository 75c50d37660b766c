// Package pgtest starts a real PostgreSQL server for tests: an own cluster in a
// temporary directory, on a free port of 127.0.0.1, run by an ordinary user also
// when the tests run as root.
package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/svcfs/svcfs/integration/proctest"
)

const (
	superuser    = "svc"
	password     = "test-only"
	startTimeout = 5 * time.Minute
)

// Server is a running PostgreSQL.
type Server struct {
	bin     string // folder of initdb and postgres
	dir     string
	port    int
	user    *syscall.Credential // nil = the user that runs the test
	process *process
	options []string // of postgres
}

// Start starts a server that ends with the test. It skips the test when
// PostgreSQL is not installed. The server waits for no disk: its data is gone with the
// test, and no test cuts the power of this machine.
func Start(t testing.TB) *Server {
	t.Helper()
	return startWith(t, "-c", "fsync=off")
}

// StartSyncing starts a server that syncs as in production, for measurements.
func StartSyncing(t testing.TB) *Server {
	t.Helper()
	return startWith(t)
}

func startWith(t testing.TB, options ...string) *Server {
	t.Helper()
	s, err := open(find(t), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// open starts a server of the programs in bin that lives until close.
func open(bin string, options ...string) (*Server, error) {
	s := &Server{bin: bin, options: options}
	err := s.init()
	if err == nil {
		err = s.restart()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *Server) close() error {
	s.Stop()
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(filepath.Dir(s.dir))
}

// find returns the folder of PostgreSQL's programs.
func find(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // its folder has the other programs
			return filepath.Dir(path)
		}
	}
	const pattern = "/usr/lib/postgresql/*/bin/initdb" // Debian keeps them out of PATH
	proctest.Need(t, pattern)
	found, _ := filepath.Glob(pattern)
	return filepath.Dir(slices.Max(found))
}

func (s *Server) init() error {
	parent, err := os.MkdirTemp("", "pgtest-")
	if err != nil {
		return err
	}
	s.dir = filepath.Join(parent, "cluster")
	if err := s.chooseUser(parent); err != nil {
		return err
	}
	secret := filepath.Join(parent, "password")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o644); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.bin, "initdb"), "-D", s.dir, "-U", superuser, "-A", "scram-sha-256",
		"--pwfile="+secret, "--data-checksums", "-E", "UTF8", "--locale=C", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = parent, &syscall.SysProcAttr{Credential: s.user}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	s.port, err = proctest.PickPort()
	return err
}

// chooseUser gives the folder to postgres or nobody when the tests run as root:
// PostgreSQL refuses to run as root.
func (s *Server) chooseUser(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	s.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(dir, int(uid), int(gid))
}

// Own gives a folder to the user of the server.
func (s *Server) Own(t testing.TB, dir string) {
	t.Helper()
	if s.user == nil {
		return
	}
	if err := os.Chown(dir, int(s.user.Uid), int(s.user.Gid)); err != nil {
		t.Fatal(err)
	}
}

// Restart starts the server, on the same port and data, after Stop or Kill.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.restart(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) restart() error {
	args := []string{"-D", s.dir, "-c", "listen_addresses=127.0.0.1", "-p", strconv.Itoa(s.port), "-c",
		"unix_socket_directories=" + s.dir, "-c", "max_connections=200"}
	s.process = start(exec.Command(filepath.Join(s.bin, "postgres"), append(args, s.options...)...), s.dir, s.user)
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		return err
	}
	defer db.Close()
	deadline := time.Now().Add(startTimeout)
	for {
		if err = db.Ping(); err == nil {
			return nil
		}
		select {
		case <-s.process.done:
			return fmt.Errorf("postgres ended: %w\n%s", s.process.err, s.process.output.String())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("postgres does not answer: %w\n%s", err, s.process.output.String())
		}
	}
}

// Stop stops the server without waiting for its clients (fast shutdown).
func (s *Server) Stop() { s.signal(syscall.SIGINT) }

// Kill stops the server as a crash would: nothing is flushed.
func (s *Server) Kill() { s.signal(syscall.SIGQUIT) }

func (s *Server) signal(sig syscall.Signal) {
	if s.process == nil {
		return
	}
	_ = s.process.cmd.Process.Signal(sig) // it may have ended already
	<-s.process.done
}

// URL is the address of the server's administrative database.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, password, s.port)
}

// OverSocket is the address of a database of the server over its unix socket.
func (s *Server) OverSocket(t testing.TB, database string) string {
	t.Helper()
	address, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	address.RawQuery = url.Values{"host": {s.dir}, "port": {strconv.Itoa(s.port)}, "sslmode": {"disable"}}.Encode()
	address.Host = ""
	return address.String()
}

// NewDatabase makes an empty database and returns its address.
func (s *Server) NewDatabase(t testing.TB) string { return NewDatabase(t, s.URL()) }

// NewDatabase makes an empty database on the server with the given URL and
// returns its address.
func NewDatabase(t testing.TB, server string) string {
	t.Helper()
	return NewCopy(t, server, "")
}

// NewCopy is [NewDatabase] for a copy of the database at this address, which nobody may use meanwhile; ""
// = an empty one.
func NewCopy(t testing.TB, server, from string) string {
	t.Helper()
	db, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	name := "test_" + strings.ToLower(rand.Text())
	statement := "CREATE DATABASE " + name
	if from != "" {
		statement += " TEMPLATE " + nameOf(from)
	}
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(server, "/postgres?", "/"+name+"?", 1)
}

// nameOf is the name of the database at an address that this package made.
func nameOf(address string) string {
	_, path, _ := strings.Cut(strings.TrimPrefix(address, "postgres://"), "/")
	name, _, _ := strings.Cut(path, "?")
	return name
}

// process is a child that dies with the test, even when that is killed.
type process struct {
	cmd    *exec.Cmd
	output bytes.Buffer
	done   chan struct{}
	err    error
}

// start keeps one thread for the child, because the kernel ends the child when
// the thread that made it ends.
func start(cmd *exec.Cmd, dir string, user *syscall.Credential) *process {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.Dir = &p.output, &p.output, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user, Pdeathsig: syscall.SIGQUIT}
	started := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(p.done)
		p.err = cmd.Start()
		close(started)
		if p.err == nil {
			p.err = cmd.Wait()
		}
	}()
	<-started
	return p
}
