package integration

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// counting is a connection to the service that counts what is sent there.
func (w *world) counting() (url string, sent *atomic.Int64) {
	w.t.Helper()
	sent = new(atomic.Int64)
	addr := w.addr // stays when the service is started anew
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(w.t, err)
	w.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				defer out.Close()
				go func() {
					_, _ = io.Copy(in, out)
					_ = in.Close()
				}()
				_, _ = io.Copy(io.MultiWriter(out, counter{sent}), in)
			}()
		}
	}()
	return "http://" + l.Addr().String(), sent
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// randomFile makes a file of n MiB that repeats nowhere.
func randomFile(t *testing.T, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	ok(t, err)
	defer f.Close()
	_, err = io.CopyN(f, rand.Reader, int64(n)*mib)
	ok(t, err)
}

// Changes of a large file in every way that programs have, through the kernel: what other mounts
// and commands read is what a copy on a disk has.
func TestW17LargeFilesOnAMount(t *testing.T) {
	w, alice, bob := team(t)
	a := alice.mount("a", "--staging-size", "8M")
	local, large := filepath.Join(w.dir, "large"), a.path("team/large")
	randomFile(t, local, 24)
	size := int64(24 * mib)
	for _, step := range []struct {
		name string
		do   func(f *os.File) error
	}{
		{"written in order", func(f *os.File) error {
			from, err := os.Open(local)
			if err != nil || f.Name() == local {
				return err
			}
			defer from.Close()
			_, err = io.CopyBuffer(struct{ io.Writer }{f}, from, make([]byte, mib))
			return err
		}},
		{"changed in the middle", func(f *os.File) error {
			_, err := f.WriteAt([]byte("changed"), 7*mib-3)
			return err
		}},
		{"appended", func(f *os.File) error {
			_, err := f.WriteAt([]byte("more"), size)
			return err
		}},
		{"changed in many places, synced between", func(f *os.File) error {
			for i := range 20 {
				if _, err := f.WriteAt(bytes.Repeat([]byte{byte(i)}, 5000), int64(i)*1_000_003); err != nil {
					return err
				}
				if i == 10 {
					if err := f.Sync(); err != nil {
						return err
					}
				}
			}
			return nil
		}},
		{"mapped", func(f *os.File) error {
			p, err := unix.Mmap(int(f.Fd()), 3*mib, 2*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				return err
			}
			copy(p[100_000:], "through a mapping")
			copy(p[mib+5:], "and again")
			return unix.Munmap(p)
		}},
		{"cut off and made longer", func(f *os.File) error {
			if err := f.Truncate(9*mib + 17); err != nil {
				return err
			}
			return f.Truncate(13 * mib)
		}},
		{"a hole behind the end", func(f *os.File) error {
			_, err := f.WriteAt([]byte("end"), 30*mib)
			return err
		}},
		{"shrunk to a small file", func(f *os.File) error { return f.Truncate(1000) }},
	} {
		for _, name := range []string{local, large} {
			f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
			ok(t, err)
			if err := step.do(f); err != nil {
				t.Fatalf("%s: %v\n%s", step.name, err, a.control("errors"))
			}
			if err := f.Close(); err != nil {
				t.Fatalf("%s: %v\n%s", step.name, err, a.control("errors"))
			}
		}
		shell(t, w.dir, "cmp large a/team/large")
		got := filepath.Join(w.dir, "got")
		bob.must("get", "team", "large", "-o", got)
		shell(t, w.dir, "cmp large got && rm got")
	}
	if s := a.status(); s.Staged != 0 || strings.Contains(a.control("pending"), "large") {
		t.Errorf("%d bytes are staged, pending: %s", s.Staged, a.control("pending"))
	}
}

// A save sends what changed of a large file, not the file.
func TestW18SavesSendWhatChanged(t *testing.T) {
	w, alice, _ := team(t)
	url, sent := w.counting()
	alice.mount("a", "--url", url)
	large := filepath.Join(w.dir, "large")
	proctest.Need(t, "python3")
	randomFile(t, large, count(48, 200))
	shell(t, w.dir, "head -c 200000 /dev/urandom >>large; cp large a/team/log")
	for _, tc := range []struct {
		name, script string
		most         int64
	}{
		{"20 lines appended one by one", "for i in $(seq 20); do echo line $i >>a/team/log; echo line $i >>large; " +
			"done; cmp large a/team/log", 20 * mib},
		{"a transaction in a database", fmt.Sprintf(`python3 -c '
import sqlite3, os
for path in "a/team/db", "db":
    db = sqlite3.connect(path)
    db.execute("create table t (id integer primary key, text)")
    db.executemany("insert into t (text) values (?)", ((os.urandom(1 << 20),) for i in range(%d)))
    db.commit()
    db.close()
print("ready", flush=True)'`, count(24, 2048)), -1},
		{"one more row in it", `python3 -c '
import sqlite3
db = sqlite3.connect("a/team/db")
db.execute("insert into t (text) values (?)", ("one row",))
db.commit()
assert db.execute("select count(*) from t where text = ?", ("one row",)).fetchone() == (1,)
db.close()'`, 4 * mib},
	} {
		before := sent.Load()
		shell(t, w.dir, tc.script)
		if n := sent.Load() - before; tc.most >= 0 {
			t.Logf("%s: %.1f MiB sent", tc.name, float64(n)/mib)
			if n > tc.most {
				t.Errorf("%s: %d bytes were sent, want at most %d", tc.name, n, tc.most)
			}
		}
	}
}

// A program that keeps a large file open pays for opening it, and then for each save.
func TestW18OpenFileIsOneClaim(t *testing.T) {
	w, alice, _ := team(t)
	proctest.Need(t, "python3")
	randomFile(t, filepath.Join(w.dir, "db"), 20)
	alice.mount("a").unmount()
	alice.must("put", "team", filepath.Join(w.dir, "db"))
	a := alice.mount("a")
	shell(t, w.dir, `python3 -c '
import os
f, g = os.open("a/team/db", os.O_RDWR), os.open("db", os.O_RDWR)
for i in range(5):
    for to in f, g:
        os.pwrite(to, b"save %d" % i, i * 3 << 20)
    os.fsync(f)
    assert os.pread(f, 1 << 20, (19 - i) << 20) == os.pread(g, 1 << 20, (19 - i) << 20)
assert os.pread(f, 20 << 20, 0) == os.pread(g, 20 << 20, 0)'
cmp a/team/db db`)
	if retrieves, uploads := a.charges(); retrieves != 1 || uploads != 5 {
		t.Errorf("%d claims and %d uploads, want 1 and 5", retrieves, uploads)
	}
}

// The mount holds a file that is larger than its memory may become.
func TestW17MemoryOfLargeFiles(t *testing.T) {
	size := large(t, 256)
	limit := int64(128 * mib)
	if raceFlags != nil {
		limit *= 3
	}
	for _, tc := range []struct{ name, script string }{
		{"in order", "dd if=/dev/zero of=a/team/f bs=1M status=none count=%[1]d"},
		{"at random", `python3 -c '
import os, random
f = os.open("a/team/f", os.O_RDWR | os.O_CREAT)
os.ftruncate(f, %[1]d << 20)
r = random.Random(1)
blocks = list(range(%[1]d * 4))
r.shuffle(blocks)
for b in blocks:
    os.pwrite(f, bytes([b %% 251]) * 65536, (b << 18) + r.randrange(3) * 65536)
os.close(f)'`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if strings.HasPrefix(tc.script, "python3") {
				proctest.Need(t, "python3")
			}
			w, alice, _ := team(t)
			a := alice.mount("a")
			before, _ := w.memory()
			shell(t, w.dir, fmt.Sprintf(tc.script, size))
			_, peak := a.memory()
			_, service := w.memory()
			t.Logf("%d MiB written %s: memory of the mount at the peak %d MiB, of svcd %d MiB more than before", size,
				tc.name, peak/mib, (service-before)/mib)
			if peak > limit {
				t.Errorf("memory reached %d MiB", peak/mib)
			}
		})
	}
}

// The service is killed and started again while a large file is written and saved: the save goes on,
// and nothing that was acknowledged is missing.
func TestW18ServiceKilledDuringASave(t *testing.T) {
	w, alice, bob := team(t)
	url, sent := w.counting()
	a := alice.mount("a", "--url", url, "--patience", "60s")
	size := count(96, 1024)
	large := filepath.Join(w.dir, "large")
	randomFile(t, large, size)
	for range 3 {
		before := sent.Load()
		copied := make(chan error, 1)
		go func() { copied <- exec.Command("cp", large, a.path("team/large")).Run() }()
		for i := range 3 {
			proctest.Eventually(t, "more of it is sent", func() bool {
				return sent.Load()-before > int64(i+1)*int64(size)*mib/5 || len(copied) > 0
			})
			w.kill()
			w.start()
		}
		if err := <-copied; err != nil {
			t.Fatalf("cp: %v\n%s", err, a.control("errors"))
		}
		got := filepath.Join(w.dir, "got")
		bob.must("get", "team", "large", "--force", "-o", got)
		shell(t, w.dir, "cmp large got")
		t.Logf("%d MiB, the service killed three times: %.2f of it sent", size,
			float64(sent.Load()-before)/float64(size*mib))
		shell(t, w.dir, "head -c 100 /dev/urandom | dd of=large conv=notrunc bs=1 seek=5000000 status=none")
	}
}
