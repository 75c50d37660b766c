package integration

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

// spill changes every row of a database in one transaction that its memory cannot hold, so
// that SQLite writes to the database before the end, and then waits.
const spill = `
import sqlite3, sys
c = sqlite3.connect('g.db', isolation_level=None)
c.execute('pragma cache_size=2'); c.execute('create table t(a, b)'); c.execute('begin')
c.executemany('insert into t values(1, ?)', [('x' * 500,) for i in range(500)]); c.execute('commit')
c.execute('begin'); c.execute('update t set a = 2'); print('spilled', flush=True); sys.stdin.readline()`

// W6: the journal of a transaction stays in the mount. When another program has the database
// recorded in the middle of it, and the mount then dies, nothing is lost: the journal was
// recorded first.
func TestW6DatabaseOfAMountThatDies(t *testing.T) {
	proctest.Need(t, "sqlite3", "python3")
	_, alice, _ := team(t)
	for name, other := range map[string]string{"alone": "true",
		"beside a program that opens and closes it": "exec 3<>g.db; exec 3>&-"} {
		t.Run(name, func(t *testing.T) {
			m := alice.mount("m")
			dir := m.path("team")
			shell(t, dir, "rm -f g.db*")
			writer := exec.Command("python3", "-c", spill)
			writer.Dir = dir
			stdin, err := writer.StdinPipe()
			ok(t, err)
			out, err := writer.StdoutPipe()
			ok(t, err)
			ok(t, writer.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil || line != "spilled\n" {
				t.Fatalf("the writer says %q, %v", line, err)
			}
			shell(t, dir, other)
			m.kill()
			_ = stdin.Close()
			_ = writer.Wait()
			m = alice.mount("m")
			defer m.unmount()
			got := shell(t, m.path("team"), "sqlite3 g.db 'pragma integrity_check; select count(*), sum(a) from t'; ls")
			if want := "ok\n500|500\ng.db"; strings.TrimSpace(got) != want {
				t.Errorf("after the mount died the database shows %q, want %q", got, want)
			}
		})
	}
}
