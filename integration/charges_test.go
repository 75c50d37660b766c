package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// purse compares what the service took from an account with its prices. What a
// mount says of itself is not asked.
type purse struct {
	p                *person
	retrieve, upload wire.Amount
}

func newPurse(p *person) *purse {
	return &purse{p: p, retrieve: feeOf(p, "retrieve"), upload: feeOf(p, "upload")}
}

func feeOf(p *person, action string) wire.Amount {
	p.w.t.Helper()
	return tokens(p.w.t, strings.TrimSpace(p.must("fee", action)))
}

func (q *purse) balance() wire.Amount {
	q.p.w.t.Helper()
	return tokens(q.p.w.t, strings.TrimSpace(q.p.must("balance")))
}

func tokens(t *testing.T, text string) wire.Amount {
	t.Helper()
	number, _, _ := strings.Cut(text, " ")
	amount, err := wire.ParseTokens(number)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return amount
}

// wantSpent fails unless do cost so many retrievals and uploads, exactly.
func (q *purse) wantSpent(t *testing.T, retrieves, uploads int, do func()) {
	t.Helper()
	before := q.balance()
	do()
	want := wire.Amount{}
	for range retrieves {
		want, _ = want.Add(q.retrieve)
	}
	for range uploads {
		want, _ = want.Add(q.upload)
	}
	after := q.balance()
	if spent, ok := before.Sub(after); !ok || spent != want {
		t.Errorf("the balance went from %s to %s tokens, want %s less: %d retrievals and %d uploads",
			before.Tokens(), after.Tokens(), want.Tokens(), retrieves, uploads)
	}
}

// What the statements say of costs, against the balance that the ledger holds. bob
// runs each script in a folder with three files of alice's that he never opened.
func TestChargesOfTheLedger(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	q := newPurse(bob)
	for i, tc := range []struct {
		statement, script  string
		retrieves, uploads int
	}{
		{"N4 control files are free", "cat ../.svcfs/members ../.svcfs/owner ../.svcfs/checksum " +
			"../.svcfs/ledger.jsonl ../../.svcfs/* >/dev/null; ls -lR ../.svcfs/history >/dev/null", 0, 0},
		{"N4 a version costs what a file costs", "cat ../.svcfs/history/HERE/x/* >/dev/null; cat x >/dev/null", 1, 0},
		{"N5 folders are free", "mkdir -p d/e; rmdir d/e; mv d g; rmdir g", 0, 0},
		{"N5 refusals are free", "! mkdir ../../bought && ! ln x l && ! mkfifo p", 0, 0},
		{"R1 opening retrieves", "exec 3<x; exec 3<&-", 1, 0},
		{"R3 what was read is free", "cat x; cat x; head -c 1 x; exec 3<x; exec 3<&-", 1, 0},
		{"R4 looking is free", "ls -l; find . -newer x; du -s .; stat x; file --mime-type /dev/null; compgen -f .", 0,
			0},
		{"R5 a crawler's refusal is free", "cp \"$(command -v cat)\" \"$T/tumblerd\"; ! \"$T/tumblerd\" x", 0, 0},
		{"W1 writing is free, closing costs", "printf 12345 | dd of=n bs=1 status=none", 0, 1},
		{"W2 one save of an inherited descriptor", "{ echo a; cat /dev/null; echo b; } >n", 0, 1},
		{"W3 identical bytes are free", "echo same >n; echo same >n; cp n n2; cp n2 n", 0, 2},
		{"W3 a close after fsync is free", "dd if=/dev/zero of=n bs=10 count=1 conv=fsync status=none", 0, 1},
		{"W4 changing retrieves, truncating does not", "echo new >x; printf more >>y", 1, 2},
		{"W5 touch and write is one save", "touch n; echo hi >n", 0, 1},
		{"W5 an empty file is a save once it is synced", "touch n; sync n; sync n", 0, 1},
		{"W6 scratch files are free", "echo a >n.tmp; mv n.tmp n~; ln n~ m~; rm m~; echo b >.n.swp; rm n~ .n.swp", 0,
			0},
		{"W7 save by rename", "echo new >x.tmp; mv x.tmp x", 0, 1},
		{"W8 a backup by rename and its return are free", "mv x x~; mv x~ x", 0, 0},
		{"W8 a rename that is refused is free", "! mv x other 2>/dev/null", 0, 0},
		{"W9 removing what may not be removed is free", "! rm -f x; echo s >s.tmp; rm s.tmp", 0, 0},
		{"W10 attributes are free", "chmod 644 x; touch -d yesterday x; setfattr -n user.note -v 1 x 2>/dev/null " +
			"|| true", 0, 0},
		{"W12 what is too large costs nothing", "! truncate -s 65G n; rm -f n", 0, 0},
		{"W13 locks and a mapping cost the last close", `python3 -c "
import fcntl, mmap
f = open('x', 'r+b'); fcntl.flock(f, fcntl.LOCK_EX); m = mmap.mmap(f.fileno(), 0); m[0:1] = b'z'; m.close(); f.close()"`, 1, 1},
		{"A2 attributes that are ours are free",
			`python3 -c "import os; [os.getxattr('x', n) for n in os.listxattr('x')]"`, 0, 0},
		{"A3 statfs is free", "df . >/dev/null; stat -f . >/dev/null", 0, 0},
	} {
		t.Run(tc.statement, func(t *testing.T) {
			for _, program := range []string{"file", "python3"} {
				if strings.Contains(tc.script, program+" ") {
					proctest.Need(t, program)
				}
			}
			here := fmt.Sprintf("c%02d", i)
			ok(t, os.Mkdir(a.path("team", here), 0o700))
			for _, name := range []string{"x", "y", "z"} {
				write(t, a.path("team", here, name), []byte(here+name))
			}
			bob.must("refresh", b.dir)
			q.wantSpent(t, tc.retrieves, tc.uploads, func() {
				inFolder(t, b.path("team", here), "set -eu\n"+strings.ReplaceAll(tc.script, "HERE", here), "T="+w.dir)
			})
		})
	}
}

// N5, W8, W9: what a mount is allowed to change beside files costs what the service
// says, and what is refused costs nothing.
func TestChargesOfAllowedChanges(t *testing.T) {
	_, alice, _ := team(t)
	plain := alice.mount("plain")
	m := alice.mount("m", "--allow-mkdir", "--allow-delete")
	write(t, m.path("team/f"), []byte("one"))
	write(t, m.path("team/f"), []byte("two"))
	write(t, m.path("team/h"), []byte("h"))
	for _, tc := range []struct {
		statement, action string
		records           int
		do                func() error
		want              error
	}{
		{"N5 mkdir without --allow-mkdir", "register_group", 0,
			func() error { return os.Mkdir(plain.path("bought"), 0o700) }, unix.EPERM},
		{"N5 mkdir", "register_group", 1, func() error { return os.Mkdir(m.path("bought"), 0o700) }, nil},
		{"N5 mkdir of what is there", "register_group", 0, func() error { return os.Mkdir(m.path("bought"), 0o700) },
			unix.EEXIST},
		{"W8 rename of two versions", "rename_file", 2,
			func() error { return os.Rename(m.path("team/f"), m.path("team/g")) }, nil},
		{"W9 remove to the trash", "remove_file", 1, func() error { return os.Remove(plain.path("team/h")) }, nil},
		{"W9 remove", "tombstone_transaction", 2, func() error { return os.Remove(m.path("team/g")) }, nil},
	} {
		t.Run(tc.statement, func(t *testing.T) {
			alice.must("refresh", plain.dir)
			q := &purse{p: alice, upload: feeOf(alice, tc.action)}
			q.wantSpent(t, 0, tc.records, func() {
				if err := tc.do(); !errors.Is(err, tc.want) {
					t.Errorf("%v, want %v", err, tc.want)
				}
			})
		})
	}
}

// R1: 64 readers who open a file at once, which nobody has read, pay once.
func TestR1ManyReadersPayOnce(t *testing.T) {
	const readers, size = 64, 8 << 20
	w, alice, bob := team(t)
	b := bob.mount("b")
	shell(t, w.dir, fmt.Sprintf("head -c %d /dev/urandom >cold", size))
	alice.must("put", "team", w.dir+"/cold")
	bob.must("refresh", b.dir)
	newPurse(bob).wantSpent(t, 1, 0, func() {
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				if out, err := exec.Command("cmp", w.dir+"/cold", b.path("team/cold")).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		all.Wait()
	})
	if r, _ := b.charges(); r != 1 {
		t.Errorf("the mount counts %d retrievals", r)
	}
}
