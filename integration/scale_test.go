package integration

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/line"
	"golang.org/x/sys/unix"
)

// Sizes that people reach. make test runs the short forms; the figures of
// make scale are in the log.

// count picks the short or the long form.
func count(short, full int) int {
	if long() {
		return full
	}
	return short
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// large returns how many MiB a large file has: short, or so many GiB as make scale GIB=N says.
func large(t *testing.T, short int) int {
	t.Helper()
	gib, err := strconv.Atoi(cmp.Or(os.Getenv("SVCFS_GIB"), "4"))
	ok(t, err)
	return count(short, gib*kib)
}

// memory tells the resident memory of a mount's process in bytes, and its peak.
func (m *mount) memory() (now, peak int64) { return memoryOf(m.p.w.t, m.cmd.Process.Pid) }

// memory tells the same of the service.
func (w *world) memory() (now, peak int64) { return memoryOf(w.t, w.service.Process.Pid) }

func memoryOf(t *testing.T, pid int) (now, peak int64) {
	t.Helper()
	status := string(read(t, fmt.Sprintf("/proc/%d/status", pid)))
	field := func(name string) int64 {
		found := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB$`).FindStringSubmatch(status)
		if found == nil {
			t.Fatalf("no %s in\n%s", name, status)
		}
		n, err := strconv.ParseInt(found[1], 10, 64)
		ok(t, err)
		return n * kib
	}
	return field("VmRSS"), field("VmHWM")
}

// M6: a large group is first listed in seconds, with little memory, and for free.
func TestM6LargeGroup(t *testing.T) {
	const perFolder = 250
	files := count(1500, 100_000) // more than are listed at once
	w := newWorld(t)
	alice, bob := w.account("alice", "1000000"), w.account("bob", "1000")
	alice.must("group", "create", "team")
	alice.must("group", "add", "team", bob.id)
	src := w.mkdir("src")
	for i := range files {
		dir := filepath.Join(src, fmt.Sprintf("folder-%03d", i/perFolder))
		if i%perFolder == 0 {
			ok(t, os.Mkdir(dir, 0o700))
		}
		write(t, filepath.Join(dir, fmt.Sprintf("file-%06d.txt", i)), fmt.Appendf(nil, "%d", i))
	}
	began := time.Now()
	alice.must("put", "team", src, "--jobs", "16")
	t.Logf("put %d files in %s", files, time.Since(began).Round(time.Millisecond))

	b, q := bob.mount("b"), newPurse(bob)
	before, _ := b.memory()
	q.wantSpent(t, 0, 0, func() {
		began = time.Now()
		folders, err := os.ReadDir(b.path("team/src"))
		took := time.Since(began)
		if err != nil || len(folders) != files/perFolder {
			t.Fatalf("%d folders, %v", len(folders), err)
		}
		after, peak := b.memory()
		t.Logf("first listing in %s; memory grew by %d MiB, at the peak by %d MiB", took.Round(time.Millisecond),
			(after-before)/mib, (peak-before)/mib)
		if limit := 10 * time.Second; long() && took > limit {
			t.Errorf("the first listing took %s, more than %s", took, limit)
		}
		if peak-before > 200*mib {
			t.Errorf("memory grew by %d MiB", (peak-before)/mib)
		}
		began = time.Now()
		out, err := exec.Command("sh", "-c", "ls -lR "+b.path("team")+" | grep -c file-").Output()
		if err != nil || string(out) != fmt.Sprintln(files) {
			t.Errorf("ls -lR counts %s, %v", out, err)
		}
		after, peak = b.memory()
		t.Logf("ls -lR in %s; memory grew by %d MiB, at the peak by %d MiB", time.Since(began).Round(time.Millisecond),
			(after-before)/mib, (peak-before)/mib)
	})
}

// A large file passes in both directions; what it takes of memory is bounded by
// the file and what is sealed of it.
func TestLargeFile(t *testing.T) {
	size := int64(count(64, 1024)) * mib
	w, alice, bob := team(t)
	a := alice.mount("a")
	shell(t, w.dir, fmt.Sprintf("head -c %d /dev/urandom >big", size))
	began := time.Now()
	shell(t, w.dir, "cp big a/team/big")
	_, sent := a.memory()
	t.Logf("sent %d MiB in %s; peak memory of the mount %d MiB", size/mib, time.Since(began).Round(time.Millisecond),
		sent/mib)
	a.unmount()
	b, q := bob.mount("b", "--cache-size", fmt.Sprint(2*size)), newPurse(bob) // or each open pays (R3)
	q.wantSpent(t, 1, 0, func() {
		began = time.Now()
		shell(t, w.dir, "cmp big b/team/big")
		t.Logf("fetched and compared in %s", time.Since(began).Round(time.Millisecond))
		began = time.Now()
		shell(t, w.dir, "cmp big b/team/big; tail -c 1 b/team/big >/dev/null")
		t.Logf("compared again in %s", time.Since(began).Round(time.Millisecond))
	})
	_, fetched := b.memory()
	t.Logf("peak memory of the mount that fetched %d MiB", fetched/mib)
	const fixed = 200 * mib // with the race detector
	for what, peak := range map[string]int64{"sending": sent, "fetching": fetched} {
		if peak > 5*size/2+fixed {
			t.Errorf("%s %d MiB took %d MiB of memory", what, size/mib, peak/mib)
		}
	}
}

// E2: a transfer takes as long as the line needs. The long form sends and fetches 4 MiB at
// 16 KiB a second: more than four minutes each.
func TestE2SlowLine(t *testing.T) {
	size, perSecond := int64(4)*mib, int64(count(4096, 16))*kib
	w, alice, bob := team(t)
	w.url = "http://" + w.line(line.Shape{RoundTrip: 20 * time.Millisecond, Up: perSecond, Down: perSecond}).Addr()
	a, b := alice.mount("a"), bob.mount("b")
	shell(t, w.dir, fmt.Sprintf("head -c %d /dev/urandom >small; head -c %d /dev/urandom >parts", size, size+mib))
	for _, name := range []string{"small", "parts"} { // format versions 1 and 2
		shell(t, w.dir, fmt.Sprintf("cp %[1]s a/team/%[1]s && cmp %[1]s b/team/%[1]s", name))
	}
	if _, uploads := a.charges(); uploads != 2 {
		t.Errorf("%d uploads", uploads)
	}
	if retrieves, _ := b.charges(); retrieves != 2 {
		t.Errorf("%d retrievals", retrieves)
	}
}

// A thousand files (two hundred in the short form) are open at once, half of them for writing; each
// keeps its own content, and costs what it costs alone.
func TestThousandOpenFiles(t *testing.T) {
	files := count(200, 1000)
	raiseFileLimit(t)
	w, alice, bob := team(t)
	src := w.mkdir("src")
	for i := range files / 2 {
		write(t, filepath.Join(src, fmt.Sprintf("%04d", i)), fmt.Appendf(nil, "file %d", i))
	}
	alice.must("put", "team", src, "--jobs", "16")
	b, q := bob.mount("b"), newPurse(bob)
	q.wantSpent(t, files/2, files/2, func() {
		open := make([]*os.File, files)
		for i := range open {
			var err error
			if i < files/2 {
				open[i], err = os.Open(b.path("team/src", fmt.Sprintf("%04d", i)))
			} else {
				open[i], err = os.Create(b.path("team/src", fmt.Sprintf("%04d", i)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		now, _ := b.memory()
		t.Logf("%d files are open; memory of the mount %d MiB", files, now/mib)
		for i, f := range open {
			want := fmt.Sprintf("file %d", i)
			if i >= files/2 {
				if _, err := f.WriteString(want); err != nil {
					t.Error(err)
				}
			}
			got := make([]byte, len(want))
			if _, err := f.ReadAt(got, 0); err != nil || string(got) != want {
				t.Errorf("file %d holds %q, %v", i, got, err)
			}
		}
		for _, f := range open {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func raiseFileLimit(t *testing.T) {
	t.Helper()
	var limit unix.Rlimit
	ok(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	limit.Cur = limit.Max
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
}

// Content that was read stays within --cache-size, content that is written within
// --staging-size, whatever programs ask for; and memory shows it.
func TestByteBudgetsUnderPressure(t *testing.T) {
	const cacheSize, stagingSize, fixed = 32 * mib, 16 * mib, 200 * mib // fixed: with the race detector
	files := count(24, 1024)
	w, alice, bob := team(t)
	src := w.mkdir("src")
	shell(t, src, fmt.Sprintf("for i in $(seq %d); do head -c %d /dev/urandom >$i; done", files, 4*mib))
	alice.must("put", "team", src)
	b := bob.mount("b", "--cache-size", fmt.Sprint(cacheSize), "--staging-size", fmt.Sprint(stagingSize),
		"--spool-size", "0")
	shell(t, w.dir, "ls src | xargs -P 8 -I{} cmp src/{} b/team/src/{}")
	if s := b.status(); s.Cached > cacheSize || s.Retrieves != files {
		t.Errorf("%d bytes cached of %d, %d retrievals", s.Cached, cacheSize, s.Retrieves)
	}
	out, err := exec.Command("dd", "if=/dev/zero", "of="+b.path("team/much"), "bs=1M",
		fmt.Sprint("count=", 2*stagingSize/mib)).CombinedOutput()
	if err == nil || !regexp.MustCompile("Cannot allocate memory").Match(out) {
		t.Errorf("writing beyond --staging-size: %v\n%s", err, out)
	}
	ok(t, os.Remove(b.path("team/much"))) // what was accepted of it takes the budget, as on a full disk (W15)
	shell(t, w.dir, fmt.Sprintf("ls src | head -%d | xargs -P 2 -I{} cp src/{} b/team/copy-{}", count(8, 64)))
	if s := b.status(); s.Staged != 0 || s.Cached > cacheSize {
		t.Errorf("%d bytes staged, %d cached", s.Staged, s.Cached)
	}
	now, peak := b.memory()
	t.Logf("read %d MiB; memory of the mount %d MiB, at the peak %d MiB", files*4, now/mib, peak/mib)
	if peak > 2*(cacheSize+stagingSize)+fixed {
		t.Errorf("memory reached %d MiB", peak/mib)
	}
}

// Threat 8: files that are small on the wire and large when they are opened, all of
// them opened at once, take the budget and one file, not the sum of them.
func TestThreat8BombsOnAMount(t *testing.T) {
	const bombs, cacheSize, fixed = 6, 32 * mib, 200 * mib // fixed: with the race detector
	size := int64(count(64, 1024) * mib)
	w, alice, bob := team(t)
	src := w.mkdir("src")
	for i := range bombs {
		name := filepath.Join(src, fmt.Sprint(i))
		write(t, name, nil)
		ok(t, os.Truncate(name, size))
	}
	alice.must("put", "--deflate", "team", src)
	b := bob.mount("b", "--cache-size", fmt.Sprint(cacheSize))
	shell(t, w.dir, fmt.Sprintf("ls src | xargs -P %d -I{} cmp src/{} b/team/src/{}", bombs))
	_, peak := b.memory()
	t.Logf("%d files of %d MiB, cache of %d MiB: memory of the mount at the peak %d MiB", bombs, size/mib,
		cacheSize/mib, peak/mib)
	if peak > cacheSize+size+fixed {
		t.Errorf("memory reached %d MiB", peak/mib)
	}
	if s := b.status(); s.Retrieves != bombs || s.Cached > cacheSize {
		t.Errorf("%d retrievals, %d bytes cached", s.Retrieves, s.Cached)
	}
}
