package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// gate lets the first calls of a path through, and holds the others until the
// program that made them has ended.
type gate struct {
	open     int32 // calls that pass
	jobs     int32 // calls that are made at a time
	seen     atomic.Int32
	answered sync.WaitGroup // of those
	held     chan struct{}  // closed when every job has a call that is held
	ended    chan struct{}  // closed when the program has ended
}

func newGate(open, jobs int32) *gate {
	g := &gate{open: open, jobs: jobs, held: make(chan struct{}), ended: make(chan struct{})}
	g.answered.Add(int(open))
	return g
}

func (g *gate) hold(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := g.seen.Add(1)
		if n <= g.open {
			defer g.answered.Done()
			next.ServeHTTP(w, r)
			return
		}
		if n == g.open+g.jobs {
			close(g.held)
		}
		<-g.ended
		panic(http.ErrAbortHandler)
	})
}

// resumeFiles is how many files are sent and fetched.
const resumeFiles = 12

// Put and get --all that are interrupted, or killed, go on where they were: what
// is there is not paid for again.
func TestPutAndGetAllGoOnAfterAnInterruption(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			s := testkit.Start(t, testkit.Ours)
			s.WithoutSealed() // each file is recorded by a request of its own
			alice := s.Account("alice", "100")
			dir := t.TempDir()
			w := &barWorld{server: s, dir: dir, env: clientEnv(t, s, alice)}
			for i := range resumeFiles {
				name := filepath.Join(dir, "docs", fmt.Sprintf("folder %d", i%3), fmt.Sprintf("file %d", i))
				ok(t, os.MkdirAll(filepath.Dir(name), 0o700))
				ok(t, os.WriteFile(name, bytes.Repeat([]byte{byte(i)}, 1000+i), 0o600))
			}
			w.must(t, "group", "create", "team")

			const before = 5
			finalize := wire.PathTools + wire.OpFinalizeUpload
			w.interrupt(t, finalize, before, signal, "put", "team", "docs")
			if n := s.Records(); n != before {
				t.Fatalf("%d records when it was interrupted, want %d", n, before)
			}
			if got := w.must(t, "put", "team", "docs", "--update"); strings.Count(got, "unchanged") != before {
				t.Errorf("%s", got)
			}
			if n := s.Records(); n != resumeFiles {
				t.Errorf("%d records, want %d", n, resumeFiles)
			}

			retrieve := wire.PathTools + wire.OpPrepareRetrieve
			w.interrupt(t, retrieve, before, signal, "get", "team", "--all", "-o", "back")
			hits := s.Hits(retrieve)
			there := w.files(t, "back")
			got := w.must(t, "get", "team", "--all", "-o", "back")
			if want := fmt.Sprintf("%d files fetched, %d equal already, 0 failed\n", resumeFiles-there,
				there); got != want || there > before {
				t.Errorf("%q, want %q", got, want)
			}
			if n := s.Hits(retrieve) - hits; n != resumeFiles-there {
				t.Errorf("%d retrievals, want %d", n, resumeFiles-there)
			}
			if out, err := exec.Command("diff", "-r", filepath.Join(dir, "docs"),
				filepath.Join(dir, "back", "docs")).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if n := w.files(t, "back"); n != resumeFiles {
				t.Errorf("%d files, want %d", n, resumeFiles)
			}
		})
	}
}

func (w *barWorld) must(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if err := w.command(t, &out, &errs, args...).Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, errs.String())
	}
	return out.String()
}

// interrupt runs a command until the calls of path that may pass are answered
// and another waits, and signals it then.
func (w *barWorld) interrupt(t *testing.T, path string, pass int32, signal syscall.Signal, args ...string) {
	t.Helper()
	const jobs = 3
	args = append(args, "--jobs", strconv.Itoa(jobs))
	g := newGate(pass, jobs)
	defer close(g.ended)
	w.server.Disturb(path, g.hold)
	defer w.server.Disturb(path, nil)
	var out, errs bytes.Buffer
	cmd := w.command(t, &out, &errs, args...)
	ok(t, cmd.Start())
	<-g.held
	g.answered.Wait()
	ok(t, cmd.Process.Signal(signal))
	if err := cmd.Wait(); err == nil {
		t.Errorf("%v ended well", args)
	}
	if signal == syscall.SIGINT && (cmd.ProcessState.ExitCode() != int(exitInterrupted) ||
		!strings.HasPrefix(errs.String(), "svcfs: interrupted\nhint: run the same command ")) {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), errs.String())
	}
}

// files counts the files below a folder, and finds no temporary ones.
func (w *barWorld) files(t *testing.T, name string) (n int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(w.dir, name), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
			if strings.HasPrefix(d.Name(), wholePrefix) {
				t.Errorf("left: %s", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Large files that were being sent when put was interrupted, or killed, go on where they were;
// one that changed since begins anew. What a get fetches then is what was sent.
func TestPutOfLargeFilesGoesOn(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			s := testkit.Start(t, testkit.Ours)
			alice := s.Account("alice", "100")
			dir := t.TempDir()
			w := &barWorld{server: s, dir: dir,
				env: clientEnv(t, s, alice, "HOME="+dir, "XDG_STATE_HOME="+dir+"/state")}
			ok(t, os.Mkdir(filepath.Join(dir, "films"), 0o700))
			for i := range 3 {
				ok(t, os.WriteFile(filepath.Join(dir, "films", strconv.Itoa(i)),
					bytes.Repeat([]byte{byte(i), 1, 2}, 3<<20), 0o600))
			}
			w.must(t, "group", "create", "team")
			w.interrupt(t, wire.PathSealed+"*", 0, signal, "put", "team", "films")
			changed := bytes.Repeat([]byte("changed"), 1<<20)
			ok(t, os.WriteFile(filepath.Join(dir, "films", "1"), changed, 0o600))
			var out, errs bytes.Buffer
			if err := w.command(t, &out, &errs, "put", "team", "films", "--json").Run(); err != nil {
				t.Fatalf("%v\n%s", err, errs.String())
			}
			for _, want := range []string{"films/0 goes on: the service has 9.0 MiB of it already",
				"films/1 begins anew: it changed since the last attempt", "films/2 goes on: "} {
				if !strings.Contains(errs.String(), "svcfs: "+want) {
					t.Errorf("it does not say %q:\n%s", want, errs.String())
				}
			}
			if n := s.Records(); n != 3 {
				t.Errorf("%d records", n)
			}
			if got := w.must(t, "put", "team", "films", "--update"); strings.Count(got, "unchanged") != 3 {
				t.Errorf("%s", got)
			}
			for _, want := range []string{"3 files fetched, 0 equal already, 0 failed\n",
				"0 files fetched, 3 equal already, 0 failed\n"} {
				if got := w.must(t, "get", "team", "--all", "-o", "back"); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
			if diff, err := exec.Command("diff", "-r", filepath.Join(dir, "films"),
				filepath.Join(dir, "back", "films")).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "state/svcfs/uploads/*.json")); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A put waits while connections break, longer than the few tries of a command that changes nothing.
func TestPutOutlastsAGap(t *testing.T) {
	s := testkit.Start(t, testkit.Ours)
	alice := s.Account("alice", "100")
	w := &barWorld{server: s, dir: t.TempDir(), env: clientEnv(t, s, alice)}
	ok(t, os.WriteFile(filepath.Join(w.dir, "film"), make([]byte, 5<<20), 0o600))
	w.must(t, "group", "create", "team")
	const broken = 6 // more than the tries without patience
	var seen atomic.Int32
	s.Disturb(wire.PathParts+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if seen.Add(1) <= broken {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(rw, r)
		})
	})
	w.must(t, "put", "team", "film")
	if n := s.Records(); n != 1 || seen.Load() <= broken {
		t.Errorf("%d records, %d requests", n, seen.Load())
	}
}
