package integration

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/blob/s3test"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// killsVar says how often each process is killed; see the target soak.
const killsVar = "SVCFS_KILLS"

func kills(t *testing.T) int {
	t.Helper()
	text, given := os.LookupEnv(killsVar)
	if !given {
		return 25
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", killsVar, err)
	}
	return n
}

// Fault "kill -9 of the service": what close() acknowledged is there afterwards,
// once, and the books are right.
func TestServiceKilledAtRandomMoments(t *testing.T) {
	longByNature(t)
	t.Run("SQLite and directory", func(t *testing.T) { testServiceKilled(t) })
	t.Run("PostgreSQL and S3", func(t *testing.T) {
		s3 := s3test.Start(t)
		testServiceKilled(t, "--db", pgtest.Start(t).NewDatabase(t), "--blobs", s3.Location(s3.NewBucket(t)))
	})
}

func testServiceKilled(t *testing.T, stores ...string) {
	w, alice, bob := teamOn(t, stores...)
	kills := kills(t)
	a := alice.mount("a")
	a.lost = true
	acknowledged := map[string][]byte{}
	for round := range kills {
		var stop atomic.Bool
		var through atomic.Int64
		done := make(chan map[string][]byte)
		go func() {
			ok := map[string][]byte{}
			for i := 0; !stop.Load() && i < 200; i++ {
				name, content := fmt.Sprintf("r%d-%d", round, i), bytes.Repeat([]byte{byte(i + 1)}, 100+i*1000)
				if os.WriteFile(a.path("team", name), content, 0o600) == nil {
					ok[name] = content
					through.Add(1)
				}
			}
			done <- ok
		}()
		proctest.Eventually(t, "some uploads", func() bool { // then the axe falls
			return through.Load() > int64(round%7)
		})
		w.kill()
		stop.Store(true)
		for name, content := range <-done {
			acknowledged[name] = content
		}
		w.start()
		proctest.Eventually(t, "a write after the restart", func() bool {
			return os.WriteFile(a.path("team", fmt.Sprintf("probe%d", round)), []byte{1}, 0o600) == nil
		})
	}
	b := bob.mount("b")
	for name, content := range acknowledged { // b is mounted after the last of them
		if got, err := os.ReadFile(b.path("team", name)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s was acknowledged and reads %d bytes, %v", name, len(got), err)
		}
	}
	if len(acknowledged) < kills {
		t.Errorf("only %d files were acknowledged", len(acknowledged))
	}
	if out, err := w.svcd("verify", "--read-data"); err != nil {
		t.Errorf("svcd verify: %v\n%s", err, out)
	}
	if out, err := w.svcd("audit"); err != nil || !strings.Contains(out, "chain intact") {
		t.Errorf("svcd audit: %v\n%s", err, out)
	}
}

// Fault "kill -9 of the mount": what close() acknowledged is retrievable, what
// was not is absent or whole.
func TestMountKilledAtRandomMoments(t *testing.T) {
	longByNature(t)
	_, alice, bob := team(t)
	kills := kills(t)
	b := bob.mount("b")
	whole := bytes.Repeat([]byte("content "), 20_000)
	for round := range kills {
		a := alice.mount(fmt.Sprintf("a%d", round))
		acknowledged := map[string]bool{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 100 {
				name := fmt.Sprintf("k%d-%d", round, i)
				f, err := os.Create(a.path("team", name))
				if err != nil {
					return
				}
				_, err = f.Write(whole)
				if f.Close() == nil && err == nil {
					acknowledged[name] = true
				}
			}
		}()
		proctest.Eventually(t, "an upload", func() bool {
			_, uploads := a.charges()
			return uploads > round
		})
		_ = a.cmd.Process.Signal(syscall.SIGKILL)
		a.kill()
		<-done
		proctest.Eventually(t, "the other account sees what was acknowledged", func() bool {
			for name := range acknowledged {
				if _, err := os.Stat(b.path("team", name)); err != nil {
					return false
				}
			}
			return true
		})
		names, err := os.ReadDir(b.path("team"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if got, err := os.ReadFile(b.path("team", n.Name())); err != nil || !bytes.Equal(got, whole) {
				t.Errorf("%s reads %d bytes, %v", n.Name(), len(got), err)
			}
		}
	}
}
