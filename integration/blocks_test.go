package integration

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/line"
	"github.com/svcfs/svcfs/integration/proctest"
)

// R9, R10: a large file of a real service, read in order, at random and in parts, with little memory. The long form has
// 4 GiB.
func TestR10LargeFileTakesLittleMemory(t *testing.T) {
	size := int64(large(t, 24)) * mib
	w, alice, bob := team(t)
	// the disk has it but once
	shell(t, w.dir, fmt.Sprintf("head -c %d /dev/urandom >big; truncate -s %d big", min(size, 4096*mib), size))
	before, _ := w.memory()
	alice.must("put", "team", w.dir+"/big")
	b, q := bob.mount("b", "--cache-size", fmt.Sprint(count(24*mib, 512*mib))), newPurse(bob)
	q.wantSpent(t, 1, 0, func() {
		f, err := os.Open(b.path("team/big"))
		ok(t, err)
		defer f.Close()
		began := time.Now()
		shell(t, w.dir, "cmp big b/team/big")
		took := time.Since(began)
		_, peak := b.memory()
		t.Logf("read and compared %d MiB in %s, %.0f MB/s; peak memory %d MiB", size/mib, took.Round(time.Millisecond),
			float64(size)/1e6/took.Seconds(), peak/mib)
		_, service := w.memory()
		t.Logf("svcd took %d MiB more at the peak, for the upload and the reads", (service-before)/mib)
		if limit := int64(count(200, 128)) * mib; peak > limit { // the short form runs with the race detector
			t.Errorf("reading took %d MiB of memory, want at most %d", peak/mib, limit/mib)
		}
		p := make([]byte, 4096)
		for range 100 {
			if _, err := f.ReadAt(p, rand.Int64N(size/4096)*4096); err != nil {
				t.Fatal(err)
			}
		}
		shell(t, w.dir, "tail -c 1000000 big >want; tail -c 1000000 b/team/big | cmp - want")
	})
}

// part is a program that reads a part of a large file. The first one that opens a file pays.
type part struct {
	name, tool, script, want string
	retrieves                int
}

func partsTable() []part {
	return []part{
		{"head", "head", "head -c 6 random | wc -c", "6", 1},
		{"tail -c 1M", "tail", "tail -c 1M random | wc -c", "1048576", 0},
		{"python mmap", "python3", `python3 -c "
import mmap
f = open('random', 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); n = len(m)
print(sum(len(m[i * n // 5:i * n // 5 + 10]) for i in range(1, 5)))"`, "40", 0},
		{"unzip -l", "unzip", "unzip -l big.zip | tail -1 | tr -s ' ' | cut -d' ' -f 3-", "2 files", 1},
		{"unzip -p, a small file", "unzip", "unzip -p big.zip small", "hello", 0},
		{"sqlite3, by key", "sqlite3", "sqlite3 big.db 'select count(*), length(b) from t where a in (17, 7777)'",
			"2|1000", 1},
		{"ffmpeg -ss", "ffmpeg", "ffmpeg -v error -ss 20 -i film.avi -frames:v 1 -f null - && echo shown", "shown", 1},
	}
}

// R10: programs that read a part of a large file fetch less than a twentieth of it. The long form has files of 2
// GiB.
func TestR10ProgramsFetchLittleOfLargeFiles(t *testing.T) {
	for _, p := range partsTable() {
		proctest.Need(t, p.tool)
	}
	proctest.Need(t, "zip")
	size := count(64, 2048)
	w, alice, bob := team(t)
	src := w.mkdir("src")
	shell(t, src, fmt.Sprintf(`head -c %[1]dM /dev/urandom >random; echo hello >small; zip -q -0 big.zip random small
		sqlite3 big.db 'create table t(a integer primary key, b blob); insert into t select value, randomblob(1000) from generate_series(1, %[1]d * 1000)'
		ffmpeg -v error -f lavfi -i testsrc=size=320x240:rate=25 -c:v rawvideo -pix_fmt yuv420p -frames:v $((%[1]d * 9)) film.avi`, size))
	alice.must("put", "team", src)
	way := w.line(line.Shape{})
	w.url = "http://" + way.Addr()
	b, q := bob.mount("b"), newPurse(bob)
	inFolder(t, b.path("team/src"), "ls -l")
	for _, p := range partsTable() {
		t.Run(p.name, func(t *testing.T) {
			before := way.Moved().Down
			q.wantSpent(t, p.retrieves, 0, func() {
				if got := strings.TrimSpace(inFolder(t, b.path("team/src"), p.script)); got != p.want {
					t.Errorf("shows %q, want %q", got, p.want)
				}
			})
			got := way.Moved().Down - before
			t.Logf("fetched %.1f MB, %.2f %%", float64(got)/1e6, 100*float64(got)/float64(size*mib))
			if got*20 > int64(size)*mib {
				t.Errorf("fetched %d bytes of %d MiB, want less than a twentieth", got, size)
			}
		})
	}
}

// R9: of a file that is open, a read fails while the real service is away, a later one works without another open,
// and none does after the account was revoked.
func TestR9ReadsOfARealService(t *testing.T) {
	w, alice, bob := team(t)
	shell(t, w.dir, "head -c 20000000 /dev/urandom >big")
	alice.must("put", "team", w.dir+"/big")
	content := read(t, w.dir+"/big")
	b, q := bob.mount("b", "--patience", "100ms"), newPurse(bob)
	p := make([]byte, 4096)
	q.wantSpent(t, 1, 0, func() {
		f, err := os.Open(b.path("team/big"))
		ok(t, err)
		defer f.Close()
		want := func(off int64) {
			t.Helper()
			if _, err := f.ReadAt(p, off); err != nil || !bytes.Equal(p, content[off:][:len(p)]) {
				t.Errorf("read at %d: %v", off, err)
			}
		}
		want(0)
		w.stop()
		if _, err := f.ReadAt(p, 8<<20); !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("while the service is away: %v", err)
		}
		w.start()
		proctest.Eventually(t, "the service is back", func() bool { _, err := f.ReadAt(p, 8<<20); return err == nil })
		want(8 << 20)
		want(12 << 20)
		alice.must("group", "revoke", "team", bob.id)
		proctest.Eventually(t, "reads fail", func() bool {
			_, err := f.ReadAt(p, 16<<20)
			return errors.Is(err, syscall.EKEYREVOKED)
		})
	})
}
