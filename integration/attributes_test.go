package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// settled waits until nothing waits to be recorded.
func (m *mount) settled(t *testing.T) {
	t.Helper()
	proctest.Eventually(t, "all is recorded", func() bool { return m.control("pending") == "" })
}

// records returns how many records the ledger has, but for the one that this makes.
func (m *mount) records(t *testing.T, name string) int {
	t.Helper()
	write(t, m.path("team", name), []byte(name))
	value := make([]byte, 20)
	n, err := unix.Getxattr(m.path("team", name), "user.svcfs.seq", value)
	ok(t, err)
	seq, err := strconv.Atoi(string(value[:n]))
	ok(t, err)
	return seq - 1
}

// W16: how many uploads, and how many free requests beside them, programs need that set
// attributes, with one for each folder that they make (N5). Each runs in a folder of its own, that holds a file f; SRC
// holds a tree of three files. One in 185 random names of rsync and sed has small letters alone: such a file may be
// meant, so it is uploaded, and renamed with one request more.
func TestW16RequestsOfPrograms(t *testing.T) {
	proctest.Need(t, "rsync", "unzip", "zip", "setfattr")
	w, alice, _ := team(t)
	m := alice.mount("m")
	src := w.mkdir("src")
	shell(t, src, "mkdir -p t/d; echo a >t/a; echo b >t/d/b; echo c >t/d/c; chmod 755 t/a; touch -d 2001-01-01 t/a; "+
		"setfattr -n user.note -v 1 t/d/b; tar --xattrs -cf t.tar t; (cd t; zip -qr ../t.zip .)")
	for i, tc := range []struct {
		program, script   string
		uploads, requests int
	}{
		{"cp -p", "cp -p $SRC/t/a g", 1, 0},
		{"cp -a", "cp -a $SRC/t .", 3, 2},
		{"rsync -a", "rsync -aX $SRC/t .", 3, 2},
		{"tar x", "tar --xattrs -xf $SRC/t.tar", 3, 2},
		{"install", "install -m755 $SRC/t/a g", 1, 1},
		{"unzip", "unzip -q $SRC/t.zip", 3, 4},
		{"touch", "touch f", 0, 1},
		{"three changes", "chmod +x f; touch -d 2002-02-02 f; setfattr -n user.note -v 1 f", 0, 1},
		{"the same bytes", "echo one >f", 0, 1},
		{"an editor", "sed -i s/one/two/ f", 1, 0},
		{"chmod that changes no execute bit", "chmod 644 f; chmod 600 f", 0, 0},
	} {
		t.Run(tc.program, func(t *testing.T) {
			here := fmt.Sprintf("p%02d", i)
			ok(t, os.Mkdir(m.path("team", here), 0o700))
			write(t, m.path("team", here, "f"), []byte("one\n"))
			retrievedBefore, uploaded := m.charges()
			before := m.records(t, here+"-before")
			inFolder(t, m.path("team", here), "set -eu\n"+tc.script+"\nfind . -type f -exec sync {} +", "SRC="+src)
			after := m.records(t, here+"-after")
			retrieved, uploads := m.charges()
			uploads -= uploaded + 2
			renames := 0
			if strings.HasPrefix(tc.program, "rsync") || tc.program == "an editor" {
				renames = tc.uploads
			}
			if requests := after - before - 1 - uploads; uploads != tc.uploads || requests < tc.requests ||
				requests > tc.requests+renames {
				t.Errorf("%d uploads and %d requests, want %d and %d; %d retrievals", uploads, requests, tc.uploads,
					tc.requests, retrieved-retrievedBefore)
			}
		})
	}
}

// W16: after mounting again a second copy, build or backup finds nothing to do, and
// programs run. Other members see the same.
func TestW16NothingToDoAfterMountingAgain(t *testing.T) {
	proctest.Need(t, "setfattr")
	w, alice, bob := team(t)
	a := alice.mount("a")
	src, out := w.mkdir("src"), w.mkdir("out")
	shell(t, src, `mkdir -p t/d; echo a >t/a; echo b >t/d/b; ln -s ../a t/d/l; printf '#!/bin/sh\necho it runs\n' >t/run; chmod 755 t/run; touch -d 2001-01-01T01:02:03.123456789 t/a
		setfattr -n user.note -v two t/d/b`)
	for _, tc := range []struct {
		program, script, quiet string
		retrieves              int
	}{
		{"rsync", "rsync -aX --stats $SRC/t .", "Number of regular files transferred: 0", 0},
		// it reads the Makefile,
		{"make", "mkdir -p m; cd m; [ -e Makefile ] || { printf 'out: in\\n\\tcp in out\\n' >Makefile; echo x >in; " +
			"}; make", "'out' is up to date", 1},
		{"restic", "cd $OUT; export RESTIC_PASSWORD=x RESTIC_REPOSITORY=$OUT/repo RESTIC_CACHE_DIR=$OUT/cache; [ -e " +
			"repo ] || restic init -q; restic backup $OLDPWD", "0 new,     0 changed", 0},
	} {
		t.Run(tc.program, func(t *testing.T) {
			proctest.Need(t, tc.program)
			inFolder(t, a.path("team"), tc.script, "SRC="+src, "OUT="+out)
			a.settled(t)
			a.unmount()
			a = alice.mount("a")
			if said := inFolder(t, a.path("team"), tc.script, "SRC="+src, "OUT="+out); !strings.Contains(said,
				tc.quiet) {
				t.Errorf("it says %s, want %s", said, tc.quiet)
			}
			a.settled(t)
			if r, u := a.charges(); u != 0 || r != tc.retrieves {
				t.Errorf("%d retrievals and %d uploads", r, u)
			}
		})
	}
	b := bob.mount("b")
	for who, m := range map[string]*mount{"alice": a, "bob": b} {
		info, err := os.Stat(m.path("team/t/a"))
		ok(t, err)
		if want := time.Date(2001, 1, 1, 1, 2, 3, 123456789, time.Local); !info.ModTime().Equal(want) ||
			info.Mode() != 0o600 {
			t.Errorf("%s: t/a has %v, %v", who, info.ModTime(), info.Mode())
		}
		if said := shell(t, m.path("team/t"),
			"./run; getfattr --only-values -n user.note d/b"); said != "it runs\ntwo" {
			t.Errorf("%s: %q", who, said)
		}
	}
	wantSyscall(t, "an attribute of another's file", unix.Setxattr(b.path("team/t/a"), "user.note", nil, 0), unix.EPERM)
	shell(t, a.path("team/t"), "chmod +x a; setfattr -n user.late -v 1 a; sync a")
	proctest.Eventually(t, "bob sees the change", func() bool {
		info, err := os.Stat(b.path("team/t/a"))
		n, missing := unix.Getxattr(b.path("team/t/a"), "user.late", nil)
		return err == nil && info.Mode() == 0o700 && missing == nil && n == 1
	})
	shell(t, a.path("team"), "mv t/a moved; rm moved")
	alice.must("restore", "--trash", "team", "moved")
	proctest.Eventually(t, "it is back", func() bool { _, err := os.Stat(a.path("team/moved")); return err == nil })
	info, err := os.Stat(a.path("team/moved"))
	ok(t, err)
	if info.Mode() != 0o700 || info.ModTime().Year() != 2001 {
		t.Errorf("after the trash it has %v, %v", info.Mode(), info.ModTime())
	}
}

// M3: attributes that a program changes while the mount ends, because it has the file open still, are
// recorded.
func TestM3AttributesChangedWhileTheMountEnds(t *testing.T) {
	_, alice, _ := team(t)
	a := alice.mount("a")
	write(t, a.path("team/f"), []byte("x"))
	f, err := os.Open(a.path("team/f"))
	ok(t, err)
	ok(t, a.cmd.Process.Signal(unix.SIGTERM))
	proctest.Eventually(t, "the mount is taken away", func() bool { return !isMounted(t, a.dir) })
	ok(t, f.Chmod(0o700))
	ok(t, f.Close())
	a.gone = true
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("svcfs mount: %v\n%s", err, a.log)
	}
	info, err := os.Stat(alice.mount("b").path("team/f"))
	ok(t, err)
	if info.Mode() != 0o700 {
		t.Errorf("the file has the mode %v", info.Mode())
	}
}

func wantSyscall(t *testing.T, what string, err, want error) {
	t.Helper()
	if err != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}
