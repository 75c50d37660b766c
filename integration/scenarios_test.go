package integration

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// scenario is people who work in the same groups, each on a mount of their own.
type scenario struct {
	t      *testing.T
	people map[string]*actor
}

// actor is one of them, with what they have open.
type actor struct {
	*person
	m     *mount
	files map[string]*os.File
	maps  map[string][]byte
}

// action is something an actor does, or that becomes true for them within seconds.
type action func(t *testing.T, who *actor)

// alice owns the group "team", bob belongs to it, carol does not.
func newScenario(t *testing.T) *scenario {
	t.Helper()
	proctest.Need(t, "mount")
	w, alice, bob := team(t)
	s := &scenario{t: t, people: map[string]*actor{}}
	for name, p := range map[string]*person{"alice": alice, "bob": bob, "carol": w.account("carol", "1000")} {
		a := &actor{person: p, m: p.mount(name, "--allow-delete"), files: map[string]*os.File{},
			maps: map[string][]byte{}}
		s.people[name] = a
		t.Cleanup(a.letGo)
	}
	return s
}

// letGo closes what an actor has open, so that the mount can end.
func (a *actor) letGo() {
	for _, f := range a.files {
		_ = f.Close() // may say that the group was lost
	}
	for _, mem := range a.maps {
		_ = unix.Munmap(mem)
	}
}

// as lets somebody do steps, one after the other.
func (s *scenario) as(name string, steps ...action) {
	s.t.Helper()
	for _, do := range steps {
		do(s.t, s.people[name])
	}
}

func writes(name, content string) action {
	return func(t *testing.T, who *actor) {
		t.Helper()
		write(t, who.m.path(name), []byte(content))
	}
}

// reads polls, because another mount may need seconds to see what was written.
func reads(name, want string) action {
	return func(t *testing.T, who *actor) {
		t.Helper()
		proctest.Eventually(t, fmt.Sprintf("%s reads %q in %s", who.id, want, name), func() bool {
			got, err := os.ReadFile(who.m.path(name))
			return err == nil && string(got) == want
		})
	}
}

func sees(dir string, want ...string) action {
	return func(t *testing.T, who *actor) {
		t.Helper()
		proctest.Eventually(t, fmt.Sprintf("%s sees %v in %q", who.id, want, dir), func() bool {
			names := []string{}
			entries, err := os.ReadDir(who.m.path(dir))
			for _, e := range entries {
				names = append(names, e.Name())
			}
			return err == nil && slices.Equal(names, want)
		})
	}
}

// fails does something that must be refused with an errno.
func fails(want syscall.Errno, what string, do func(who *actor) error) action {
	return func(t *testing.T, who *actor) {
		t.Helper()
		if err := do(who); !errors.Is(err, want) {
			t.Errorf("%s: %s: %v, want %v", who.id, what, err, want)
		}
	}
}

func renames(from, to string) func(who *actor) error {
	return func(who *actor) error { return os.Rename(who.m.path(from), who.m.path(to)) }
}

func removes(name string) func(who *actor) error {
	return func(who *actor) error { return os.Remove(who.m.path(name)) }
}

func does(what string, do func(who *actor) error) action {
	return func(t *testing.T, who *actor) {
		t.Helper()
		if err := do(who); err != nil {
			t.Fatalf("%s: %s: %v", who.id, what, err)
		}
	}
}

func opens(name string) action {
	return does("open "+name, func(who *actor) (err error) {
		who.files[name], err = os.OpenFile(who.m.path(name), os.O_RDWR|os.O_CREATE, 0o600)
		return err
	})
}

func writesOpen(name, content string) action {
	return does("write "+name, func(who *actor) error {
		_, err := who.files[name].WriteString(content)
		return err
	})
}

func closes(name string) func(who *actor) error {
	return func(who *actor) error {
		defer delete(who.files, name)
		return who.files[name].Close()
	}
}

func readsOpen(name, want string) action {
	return func(t *testing.T, who *actor) {
		t.Helper()
		if got, err := who.contentOf(name); err != nil || got != want {
			t.Errorf("%s reads %q from the open %s, %v; want %q", who.id, got, name, err, want)
		}
	}
}

func (a *actor) contentOf(name string) (string, error) {
	p := make([]byte, 1<<16)
	n, err := a.files[name].ReadAt(p, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(p[:n]), err
}

// losesOpen: the open file gives nothing any more.
func losesOpen(name string) action {
	return func(t *testing.T, who *actor) {
		t.Helper()
		proctest.Eventually(t, fmt.Sprintf("%s reads no more from the open %s", who.id, name), func() bool {
			got, err := who.contentOf(name)
			return got == "" && errors.Is(err, unix.EKEYREVOKED)
		})
	}
}

func mapsFile(name string) action {
	return does("map "+name, func(who *actor) error {
		f, err := os.Open(who.m.path(name))
		if err != nil {
			return err
		}
		defer f.Close()
		who.maps[name], err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
		if err == nil && who.maps[name][0] == 0 {
			err = errors.New("the mapping is empty")
		}
		return err
	})
}

// mapsToWrite maps an open file shared and writes into the mapping.
func mapsToWrite(name, content string) action {
	return does("map to write "+name, func(who *actor) (err error) {
		who.maps[name], err = unix.Mmap(int(who.files[name].Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED)
		if err == nil {
			copy(who.maps[name], content)
		}
		return err
	})
}

// losesMap: touching the mapping is answered by SIGBUS.
func losesMap(name string) action {
	return func(t *testing.T, who *actor) {
		t.Helper()
		proctest.Eventually(t, who.id+" loses the mapping of "+name, func() bool { return faults(who.maps[name]) })
	}
}

func faults(mem []byte) (failed bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { failed = recover() != nil }()
	return mem[0] == 0 && mem[1] == 0
}

// runs runs svcfs; @NAME stands for an account id.
func (s *scenario) runs(args ...string) action {
	return func(t *testing.T, who *actor) {
		t.Helper()
		for i, arg := range args {
			if name, ok := strings.CutPrefix(arg, "@"); ok {
				args[i] = s.people[name].id
			}
		}
		who.must(args...)
	}
}

func tells(control, want string) action {
	return func(t *testing.T, who *actor) {
		t.Helper()
		proctest.Eventually(t, fmt.Sprintf("%s: %s holds %q", who.id, control, want), func() bool {
			return strings.Contains(who.m.control(control), want)
		})
	}
}

// N2, R3: what one account writes another reads, and who has a version open keeps it.
func TestN2WhatOneWritesTheOtherReads(t *testing.T) {
	s := newScenario(t)
	s.as("alice", writes("team/f", "one"))
	s.as("bob", reads("team/f", "one"), writes("team/f", "two"), writes("team/g", "new"))
	s.as("alice", reads("team/f", "two"), reads("team/g", "new"), sees("team", "f", "g"))
	s.as("carol", sees("", []string{}...))
	s.as("bob", opens("team/f")) // R3: who has a version open keeps it
	s.as("alice", writes("team/f", "a longer three"))
	s.as("bob", reads("team/f", "a longer three"), readsOpen("team/f", "two"))
}

func TestW8RenameIsSeenByOthers(t *testing.T) {
	s := newScenario(t)
	s.as("alice", writes("team/f", "one"), writes("team/theirs", "x"))
	s.as("bob", reads("team/f", "one"), writes("team/mine", "y"))
	s.as("alice", sees("team", "f", "mine", "theirs"), does("rename", renames("team/f", "team/g")))
	s.as("bob", sees("team", "g", "mine", "theirs"), reads("team/g", "one"))
	s.as("bob", fails(unix.EPERM, "rename what alice uploaded", renames("team/theirs", "team/x")),
		does("rename", renames("team/mine", "team/kept")))
	s.as("alice", sees("team", "g", "kept", "theirs"), does("rename as the owner", renames("team/kept", "team/moved")))
	s.as("bob", sees("team", "g", "moved", "theirs"))
}

func TestW11BothSaveTheSameName(t *testing.T) {
	s := newScenario(t)
	s.as("alice", writes("team/f", "base"))
	s.as("bob", reads("team/f", "base"), opens("team/f"), writesOpen("team/f", "bob's"))
	s.as("alice", writes("team/f", "alice's"))
	s.as("bob", does("close", closes("team/f")), tells("errors", "\tconflict\t"), reads("team/f", "alice's"))
	for _, name := range []string{"alice", "bob"} {
		s.as(name, reads("team/f", "alice's"), func(t *testing.T, who *actor) {
			proctest.Eventually(t, name+" has bob's save under its own name", func() bool {
				list, err := filepath.Glob(who.m.path("team/f (conflict *)"))
				return err == nil && len(list) == 1 && string(read(t, list[0])) == "bob's"
			})
		})
	}
}

// W11: sed -i right after a close in another mount either sees that save, or leaves it and makes a conflict.
func TestW11ReplacedRightAfterAnotherClose(t *testing.T) {
	s := newScenario(t)
	bob := s.people["bob"]
	conflicts := func() int {
		return strings.Count(string(read(t, bob.m.path(".svcfs/errors"))), "\tconflict\t")
	}
	for i := range 10 {
		base := fmt.Sprintf("base %d\n", i)
		s.as("alice", writes("team/f", base))
		s.as("bob", reads("team/f", base))
		before := conflicts()
		s.as("alice", writes("team/f", strings.TrimSpace(base)+" and alice's\n"))
		shell(t, bob.m.path("team"), "sed -i 's/$/ and bob/' f")
		alices := strings.TrimSpace(base) + " and alice's"
		var got string
		proctest.Eventually(t, "bob's mount shows alice's save, with his change or without", func() bool {
			got = string(read(t, bob.m.path("team/f")))
			return got == alices+" and bob\n" || got == alices+"\n"
		})
		if got == alices+"\n" {
			proctest.Eventually(t, "the conflict is told", func() bool { return conflicts() > before })
		}
		s.as("alice", reads("team/f", got)) // else her next save is a conflict, too
	}
}

// M5: a revoked account loses at once what it has open and mapped, while it reads too, and nothing of that stays in
// memory. What it wrote and did not save, into a shared mapping too, goes nowhere.
func TestM5RevokedInTheMiddle(t *testing.T) {
	s := newScenario(t)
	content, long := strings.Repeat("content ", 1024), strings.Repeat("some content of alice's, ", 100_000)
	s.as("alice", writes("team/f", content), writes("team/mapped", content), writes("team/shared", content),
		writes("team/long", long))
	s.as("bob", reads("team/f", content), opens("team/f"), mapsFile("team/mapped"), opens("team/new"),
		writesOpen("team/new", "unfinished"),
		reads("team/shared", content), opens("team/shared"), mapsToWrite("team/shared", "changed by bob"),
		reads("team/long", long), opens("team/long"),
		func(t *testing.T, who *actor) {
			if who.m.status().Cached == 0 {
				t.Error("nothing is in memory that could go")
			}
		})
	s.keepsReading("bob", "team/long", long, func() { s.as("alice", s.runs("group", "revoke", "team", "@bob")) })
	s.as("bob", losesOpen("team/f"), losesMap("team/mapped"), losesMap("team/shared"), losesOpen("team/shared"),
		sees("", []string{}...), func(t *testing.T, who *actor) {
			proctest.Eventually(t, "nothing of the group is in memory",
				func() bool { return who.m.status().Cached == 0 })
		})
	s.as("bob", fails(unix.EKEYREVOKED, "close", closes("team/new")))
	s.as("bob", tells("pending", "/team/new"))
	s.as("bob", fails(unix.ENOENT, "open again",
		func(who *actor) error { _, err := os.ReadFile(who.m.path("team/f")); return err }))
	s.as("alice", reads("team/f", content), reads("team/shared", content),
		sees("team", "f", "long", "mapped", "shared"), func(t *testing.T, who *actor) {
			if list, err := os.ReadDir(who.m.path("team/.svcfs/history/shared")); err != nil || len(list) != 1 {
				t.Errorf("shared has %d versions, %v", len(list), err)
			}
		})
	s.people["bob"].m.lost = true // his unfinished files are nobody's
}

// keepsReading reads an open file piece by piece, from now until it is refused; the
// steps lie in between. Whatever came was content of the file.
func (s *scenario) keepsReading(who, name, content string, steps func()) {
	s.t.Helper()
	f := s.people[who].files[name]
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		p := make([]byte, 1000)
		for i := 0; ; i++ {
			off := i * len(p) % (len(content) - len(p))
			n, err := f.ReadAt(p, int64(off))
			if string(p[:n]) != content[off:off+n] {
				err = fmt.Errorf("read %q at %d", p[:n], off)
			}
			if err != nil {
				ended <- err
				return
			}
			if i == 0 {
				close(started)
			}
		}
	}()
	select {
	case <-started:
	case err := <-ended:
		s.t.Fatalf("%s: reading %s: %v", who, name, err)
	}
	steps()
	select {
	case err := <-ended:
		if !errors.Is(err, unix.EKEYREVOKED) {
			s.t.Errorf("%s: reading %s ends with %v", who, name, err)
		}
	case <-time.After(proctest.Hang):
		s.t.Fatalf("%s still reads %s", who, name)
	}
	s.as(who, losesOpen(name))
}

// N4: everybody can look at older versions, and bring one back.
func TestN4HistoryOfWhatOthersSaved(t *testing.T) {
	s := newScenario(t)
	s.as("alice", does("mkdir", func(who *actor) error { return os.Mkdir(who.m.path("team/d"), 0o700) }),
		writes("team/d/f", "one"))
	s.as("bob", reads("team/d/f", "one"), writes("team/d/f", "two"))
	s.as("alice", reads("team/d/f", "two"), writes("team/d/f", "three"))
	s.as("bob", reads("team/d/f", "three"), func(t *testing.T, who *actor) {
		past := who.m.path("team/.svcfs/history/d/f")
		list, err := os.ReadDir(past)
		if err != nil || len(list) != 3 {
			t.Fatalf("%d versions, %v", len(list), err)
		}
		for i, want := range []struct{ by, content string }{{"alice", "one"}, {"bob", "two"}, {"alice", "three"}} {
			got, err := os.ReadFile(past + "/" + list[i].Name())
			if err != nil || string(got) != want.content || !strings.Contains(list[i].Name(), want.by) {
				t.Errorf("version %s holds %q, %v; want %q by %s", list[i].Name(), got, err, want.content, want.by)
			}
		}
		shell(t, past, "cp "+list[0].Name()+" "+who.m.path("team/d/f"))
	}, fails(unix.EPERM, "change an old version", func(who *actor) error {
		list, err := os.ReadDir(who.m.path("team/.svcfs/history/d/f"))
		if err != nil {
			return err
		}
		return os.WriteFile(who.m.path("team/.svcfs/history/d/f", list[0].Name()), []byte("x"), 0o600)
	}))
	s.as("alice", reads("team/d/f", "one"))
}

// Two mounts write, rename and delete at once, among them the same names, while a
// third account comes and goes. In the end all see the same, and what was said to be
// saved is in the ledger.
func TestManyHandsAtOnce(t *testing.T) {
	const rounds = 15
	s := newScenario(t)
	var all sync.WaitGroup
	saved := map[string]*atomic.Int64{"alice": {}, "bob": {}}
	for name, count := range saved {
		all.Go(func() {
			m := s.people[name].m
			for i := range rounds {
				mine, shared := m.path(fmt.Sprintf("team/%s-%d", name, i)), m.path("team/shared")
				for _, path := range []string{mine, shared, mine} {
					if err := os.WriteFile(path, fmt.Appendf(nil, "%s writes %d to %s", name, i, path),
						0o600); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				count.Add(2) // the second save of mine holds the same bytes
				switch i % 3 {
				case 0:
					if err := os.Rename(mine, mine+"-renamed"); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				case 1:
					if err := os.Remove(mine); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
	all.Go(func() {
		for range 3 {
			s.as("alice", s.runs("group", "add", "team", "@carol"))
			s.as("carol", sees("", "team"))
			s.as("alice", s.runs("group", "revoke", "team", "@carol"))
			s.as("carol", sees("", []string{}...))
		}
	})
	all.Wait()
	want := []string{"shared"}
	for i := range rounds {
		for _, name := range []string{"alice", "bob"} {
			switch i % 3 {
			case 0:
				want = append(want, fmt.Sprintf("%s-%d-renamed", name, i))
			case 2:
				want = append(want, fmt.Sprintf("%s-%d", name, i))
			}
		}
	}
	slices.Sort(want)
	for _, name := range []string{"alice", "bob"} {
		s.as(name, func(t *testing.T, who *actor) {
			proctest.Eventually(t, fmt.Sprintf("%s sees %v beside saves that met others", name, want), func() bool {
				got, err := filepath.Glob(who.m.path("team/*"))
				got = slices.DeleteFunc(got, func(p string) bool { return strings.Contains(p, " (conflict ") })
				for i := range got {
					got[i] = filepath.Base(got[i])
				}
				return err == nil && slices.Equal(got, want)
			})
		})
	}
	s.as("alice", func(t *testing.T, who *actor) { who.must("refresh", who.m.dir) })
	newest := string(read(t, s.people["alice"].m.path("team/shared")))
	s.as("bob", reads("team/shared", newest))
	s.as("alice", func(t *testing.T, who *actor) {
		rows := strings.Count(who.m.control("../team/.svcfs/ledger.jsonl"), "\n")
		if want := int(saved["alice"].Load() + saved["bob"].Load()); rows != want {
			t.Errorf("the ledger has %d uploads, the mounts saved %d", rows, want)
		}
	})
}

func TestN1GroupsComeAndGo(t *testing.T) {
	s := newScenario(t)
	s.as("alice", writes("team/f", "one"))
	s.as("carol", sees("", []string{}...))
	s.as("alice", s.runs("group", "add", "team", "@carol"))
	s.as("carol", sees("", "team"), reads("team/f", "one"), writes("team/hello", "from carol"))
	s.as("bob", reads("team/hello", "from carol"))
	s.as("alice", s.runs("group", "revoke", "team", "@carol"))
	s.as("carol", sees("", []string{}...))
	s.as("alice", s.runs("group", "add", "team", "@carol"))
	s.as("carol", sees("", "team"), reads("team/hello", "from carol"))
	s.as("alice", s.runs("group", "create", "club", "--open"))
	s.as("bob", s.runs("group", "join", "club"))
	s.as("bob", sees("", "club", "team"), writes("club/f", "joined"))
	s.as("alice", reads("club/f", "joined"))
}

// W9, M5: a file that is deleted ends for those who have it open, while they read too.
func TestW9DeletedWhileOpen(t *testing.T) {
	s := newScenario(t)
	content := strings.Repeat("some content of alice's, ", 100_000)
	s.as("alice", writes("team/f", content))
	s.as("bob", reads("team/f", content), opens("team/f"), writes("team/mine", "x"))
	s.as("bob", fails(unix.EPERM, "delete what alice uploaded", removes("team/f")))
	s.keepsReading("bob", "team/f", content, func() {
		s.as("alice", does("delete", removes("team/f")), sees("team", "mine"))
	})
	s.as("bob", sees("team", "mine"), reads("team/mine", "x"))
	s.as("alice", writes("team/f", "again"))
	s.as("bob", reads("team/f", "again"), does("delete", removes("team/mine")))
	s.as("alice", sees("team", "f"), does("delete", removes("team/f")))
	s.as("bob", sees("team", []string{}...))
}
