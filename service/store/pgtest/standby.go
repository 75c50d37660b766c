package pgtest

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

// standbyName is the name by which the primary knows the standby that it waits for.
const standbyName = "standby"

// StartStandby starts a server that follows s, see [Server.Follow], and ends with the test.
func (s *Server) StartStandby(t testing.TB) *Server {
	t.Helper()
	parent, err := os.MkdirTemp("", "pgtest-")
	if err != nil {
		t.Fatal(err)
	}
	standby := &Server{bin: s.bin, dir: filepath.Join(parent, "cluster"), user: s.user, options: s.options}
	t.Cleanup(func() {
		if err := standby.close(); err != nil {
			t.Error(err)
		}
	})
	s.Own(t, parent)
	if standby.port, err = proctest.PickPort(); err != nil {
		t.Fatal(err)
	}
	standby.Follow(t, s)
	return standby
}

// Follow makes s a copy of primary that streams from it. A commit of the primary waits from then on until s has
// written it to its disk. Whatever s held before is gone.
func (s *Server) Follow(t testing.TB, primary *Server) {
	t.Helper()
	s.Crash()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	from := strings.Replace(primary.URL(), "sslmode=disable", "sslmode=disable&application_name="+standbyName, 1)
	cmd := exec.Command(filepath.Join(s.bin, "pg_basebackup"), "-d", from, "-D", s.dir, "-R", "-X", "stream",
		"-c", "fast", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = filepath.Dir(s.dir), &syscall.SysProcAttr{Credential: s.user}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	s.Restart(t)
	primary.Run(t, "ALTER SYSTEM SET synchronous_standby_names = '"+standbyName+"'", "SELECT pg_reload_conf()")
	db := primary.admin(t)
	proctest.Eventually(t, "the primary waits for its standby", func() bool {
		var n int
		err := db.QueryRowContext(t.Context(),
			"SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'").Scan(&n)
		return err == nil && n == 1
	})
}

// Promote makes a standby the primary. It waits for no standby of its own.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Run(t, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()", "SELECT pg_promote()")
}

// Crash kills all processes of the server at once, as the end of its machine would.
func (s *Server) Crash() {
	if s.process == nil {
		return
	}
	pid := s.process.cmd.Process.Pid
	// Processes that are not listed end by themselves once they see that this one is gone.
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	_ = s.process.cmd.Process.Kill()
	for child := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	<-s.process.done
}

// Run runs statements as the administrator of the server.
func (s *Server) Run(t testing.TB, statements ...string) {
	t.Helper()
	db := s.admin(t)
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (s *Server) admin(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// AlsoAt is the address of a database of s that may be at another server by now: whichever takes writes is
// meant.
func (s *Server) AlsoAt(t testing.TB, database string, other *Server) string {
	t.Helper()
	address, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	query.Set("target_session_attrs", "read-write")
	address.RawQuery = query.Encode()
	return strings.Replace(address.String(), "@"+address.Host,
		fmt.Sprintf("@%s,127.0.0.1:%d", address.Host, other.port), 1)
}
