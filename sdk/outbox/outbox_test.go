package outbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/outbox/outboxtest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// box is an outbox with its service.
type box struct {
	*outbox.Outbox
	t    *testing.T
	s    *outboxtest.Service
	disk *outbox.Disk
	cfg  outbox.Config

	recorded *outbox.Disk // as a loss of power leaves it behind the last record, see crash

	mu     sync.Mutex
	told   []string
	err    error                                   // of every request
	refuse func(op string, l *outbox.Upload) error // instead of err; nil = none
}

// run runs a test with a clock of its own.
func run(t *testing.T, change func(*outbox.Config), test func(t *testing.T, b *box)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &box{t: t, s: &outboxtest.Service{ID: "alice", Mine: []sdk.Group{{ID: "h"}, {ID: "g"}}}, disk: outbox.NewDisk()}
		b.s.Refuse = func(op string, l *outbox.Upload) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.refuse != nil {
				return b.refuse(op, l)
			}
			return b.err
		}
		b.cfg = outbox.Config{Remote: b.s, Gather: -1, Told: func(i outbox.Item, _ sdk.Receipt) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.told = append(b.told, i.Name+" "+i.State)
		}}
		if change != nil {
			change(&b.cfg)
		}
		b.start()
		defer func() { _ = b.Close() }()
		test(t, b)
	})
}

func (b *box) start() {
	b.t.Helper()
	o, err := outbox.On(b.disk, b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Outbox = o
}

// restart ends the process, without a word to the outbox, and begins another.
func (b *box) restart(lost bool) {
	b.t.Helper()
	left := b.disk.Restarted(lost)
	_ = b.Close()
	b.disk = left
	b.start()
}

// crashes notes how the disk is at each record, for crash.
func (b *box) crashes() { b.s.OnRecord = func() { b.recorded = b.disk.Restarted(true) } }

// crash is a loss of power behind the last record, before the disk knows of it.
func (b *box) crash() {
	b.t.Helper()
	left := b.recorded
	_ = b.Close()
	b.disk = left
	b.start()
}

func (b *box) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// failFor has f decide, while uploads may be sent.
func (b *box) failFor(f func(op string, l *outbox.Upload) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = f
}

// hold keeps every save from being sent, as a service that is away.
func (b *box) hold() { b.fail(away) }

var away = &sdk.Error{Op: "upload", Kind: sdk.ErrUnavailable, Err: errors.New("connection refused")}

func (b *box) put(name, content string, base *sdk.Ref) outbox.Item {
	b.t.Helper()
	i, err := b.Put(b.t.Context(), outbox.Save{Group: "g", Name: name, Content: []byte(content), Base: base})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Ready(i.ID)
	return i
}

func (b *box) wantSent(want string) {
	b.t.Helper()
	var list []string
	for _, names := range b.s.Sent() {
		list = append(list, strings.Join(names, "+"))
	}
	if got := strings.Join(list, " "); got != want {
		b.t.Errorf("sent %q, want %q", got, want)
	}
}

func (b *box) wantStates(want string) {
	b.t.Helper()
	var list []string
	for _, i := range b.Items() {
		list = append(list, i.Name+" "+i.State)
	}
	if got := strings.Join(list, ", "); got != want {
		b.t.Errorf("there is %q, want %q", got, want)
	}
}

func ref(s string) *sdk.Ref { r := sdk.Ref(s); return &r }

// O3: what waits is sent in the order of the saves, in one request as far as it can be, while the
// service is away again and again with growing pauses, and for ever.
func TestO3OrderAndRetries(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		b.put("first", "1", nil)
		synctest.Wait()
		for n := range 5 {
			b.put(fmt.Sprint("n", n), "x", nil)
		}
		time.Sleep(30 * 24 * time.Hour)
		tries := len(b.s.Sent())
		if tries < 30*24*12 || tries > 30*24*20 {
			t.Errorf("%d attempts in a month", tries)
		}
		if len(b.Items()) != 6 {
			t.Errorf("%d items are left", len(b.Items()))
		}
		status := b.Status()
		if status.Items != 6 || status.Next == nil || !strings.Contains(status.Reason, "connection refused") ||
			status.Oldest == nil {
			t.Errorf("status %+v", status)
		}
		for _, names := range b.s.Sent() {
			if len(names) != 1 || names[0] != "first" {
				t.Fatalf("while it was away, %v was sent", names)
			}
		}
		b.fail(nil)
		b.Again()
		synctest.Wait()
		sent := b.s.Sent()[tries:]
		if got := fmt.Sprint(sent); got != "[[first n0 n1 n2 n3 n4]]" && got != "[[first] [n0 n1 n2 n3 n4]]" {
			t.Errorf("sent %v", got)
		}
		b.wantStates("")
	})
}

// O4: of saves of one name that wait the newest is sent.
func TestO4NewestSaveIsSent(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Coalesce = -1 }, func(t *testing.T, b *box) {
		b.hold()
		b.put("x", "0", nil)
		synctest.Wait()
		a := b.put("a", "1", ref(""))
		b.put("b", "1", ref(""))
		b.put("a", "22", ref(string(a.Ref())))
		b.fail(nil)
		b.Again()
		synctest.Wait()
		time.Sleep(time.Minute)
		var names []string
		for _, r := range b.s.Sent()[1:] {
			names = append(names, r...)
		}
		if got := strings.Join(names, " "); got != "x b a" || b.s.Contents["g/a"] != "22" {
			t.Errorf("sent %s with %q, want x b a", got, b.s.Contents["g/a"])
		}
		b.wantStates("")
	})
}

// O5: a file that is saved again and again is sent at once, and then once in ten seconds.
func TestO5Coalescing(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		last := sdk.Ref("")
		for n := range 600 { // a minute of ten saves a second
			i := b.put("log", strings.Repeat("x", n), &last)
			last = i.Ref()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(b.s.Sent()); n < 6 || n > 8 {
			t.Errorf("%d requests", n)
		}
		if got := len(b.s.Contents["g/log"]); got != 599 {
			t.Errorf("%d bytes are recorded", got)
		}
		b.wantStates("")
	})
}

// O3: what was saved after a save that is held back waits for it; somebody who wants all to be recorded
// waits for no pause.
func TestO5OrderGoesFirst(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		i := b.put("log", "1", ref(""))
		synctest.Wait()
		b.put("log", "2", ref(string(i.Ref())))
		b.put("other", "1", ref(""))
		synctest.Wait()
		b.wantSent("log")
		if err := b.Before(t.Context(), "g"); err != nil {
			t.Error(err)
		}
		b.wantSent("log log+other")
	})
}

// O6: the fee is set aside when it is queued; with an empty balance the save is refused, at the
// replay it is parked, and goes on when it is tried again.
func TestO6Money(t *testing.T) {
	balance := tokens("2")
	run(t, func(c *outbox.Config) {
		c.Price = func() (sdk.Amount, bool) { return tokens("1"), true }
		c.Balance = func(ctx) (sdk.Amount, error) { return balance, nil }
	}, func(t *testing.T, b *box) {
		synctest.Wait()
		b.hold()
		b.put("a", "1", nil)
		synctest.Wait() // it was tried, and b is not
		i := b.put("b", "1", nil)
		if _, err := b.Put(t.Context(), outbox.Save{Group: "g", Name: "c"}); !errors.Is(err, outbox.ErrMoney) {
			t.Errorf("a third save: %v", err)
		}
		if err := b.Remove(t.Context(), i.ID); err != nil {
			t.Error(err)
		}
		b.put("c", "1", nil)
		synctest.Wait()
		b.fail(&sdk.Error{Op: "upload", Kind: sdk.ErrInsufficient, Err: errors.New("the balance is 0")})
		b.Again()
		synctest.Wait()
		b.wantStates("a parked, c parked")
		if r := b.Items()[0].Reason; !strings.Contains(r, "balance is 0") {
			t.Error(r)
		}
		b.fail(nil)
		if err := b.Retry(""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		b.wantStates("")
	})
}

// O8: what is on its way when the account loses the group is recorded, or parked when the attempt ends.
func TestO8LostWhileItIsSent(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		answer := make(chan error)
		b.s.Refuse = func(op string, l *outbox.Upload) error {
			if op == "send" {
				return <-answer
			}
			return nil
		}
		b.put("a", "1", nil)
		synctest.Wait()
		b.Lost("g")
		answer <- away
		synctest.Wait()
		b.wantStates("a parked")
		if list := b.Items(); !strings.Contains(list[0].Reason, "revoked") {
			t.Errorf("parked: %s", list[0].Reason)
		}
	})
}

// O12: the rate is that of the last minute: a line that is silent has none.
func TestO12RateOfASilentLine(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.put("a", strings.Repeat("x", 6000), nil)
		time.Sleep(30 * time.Second)
		if s := b.Status(); s.Rate != 200 {
			t.Errorf("%d bytes a second", s.Rate)
		}
		b.hold()
		b.put("b", "1", nil)
		time.Sleep(time.Minute)
		if s := b.Status(); s.Rate != 0 || s.Items != 1 {
			t.Errorf("%d bytes a second", s.Rate)
		}
	})
}

// O7: somebody saved the name meanwhile: the save is recorded under a name of its own.
func TestO7Conflict(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		b.put("dir/a.txt", "mine", ref(""))
		synctest.Wait()
		b.s.Saved("g", "dir/a.txt")
		head := b.s.Head("g", "dir/a.txt")
		b.fail(nil)
		b.Again()
		synctest.Wait()
		want := outbox.ConflictName("dir/a.txt", "alice", time.Now(), 0)
		if got := b.s.Contents["g/"+want]; got != "mine" {
			t.Errorf("%q holds %q; there is %v", want, got, b.s.Contents)
		}
		if b.s.Head("g", "dir/a.txt") != head {
			t.Error("the head was touched")
		}
		if !slices.Equal(b.told, []string{want + " conflict", want + " recorded"}) {
			t.Errorf("told %q", b.told)
		}
	})
	for _, tc := range [][2]string{{"a", "a (conflict bob 2001-02-03 04.05.06)"},
		{"d.x/.rc", "d.x/.rc (conflict bob 2001-02-03 04.05.06)"},
		{"a.tar.gz", "a.tar (conflict bob 2001-02-03 04.05.06).gz"}} {
		if got := outbox.ConflictName(tc[0], "bob", time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), 0); got != tc[1] {
			t.Errorf("%s: %s", tc[0], got)
		}
		for n := range 3 {
			name := outbox.ConflictName(tc[0], "bob", time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC), n)
			if got, ok := outbox.ParseConflict(name); !ok || got != (outbox.ConflictCopy{Name: tc[0], Account: "bob", Stamp: "2001-02-03 04.05.06"}) {
				t.Errorf("%s is read as %v, %v", name, got, ok)
			}
		}
		if got, ok := outbox.ParseConflict(tc[0]); ok {
			t.Errorf("%s is read as %v", tc[0], got)
		}
	}
	long := strings.Repeat("d/", 1990) + strings.Repeat("é", 50) + ".txt"
	for n := range 2 { // no service records more
		name := outbox.ConflictName(long, "bob", time.Now(), n)
		if _, ok := outbox.ParseConflict(name); !ok || len(name) > names.MaxPathBytes || !utf8.ValidString(name) {
			t.Errorf("%d bytes: %q", len(name), name[3970:])
		}
	}
	if got, ok := outbox.ParseConflict("x (conflict d/bob 2001-02-03 04.05.06).txt"); ok {
		t.Errorf("a file in a folder is read as %v", got)
	}
}

// O7: the record of a save whose name others saved three times says which version it was made upon, also after a
// restart, of a save upon another one, and of one whose second name is taken. In another group it says nothing.
func TestO7ConflictSaysWhatItWasMadeUpon(t *testing.T) {
	for what, tc := range map[string]struct{ none, second, restarts, taken, moved bool }{
		"small": {}, "made from nothing": {none: true}, "after a restart": {restarts: true}, "taken": {taken: true},
		"taken, after a restart": {taken: true, restarts: true}, "moved": {moved: true},
		"upon a save of the outbox": {second: true}, "upon one, after a restart": {second: true, restarts: true},
	} {
		run(t, nil, func(t *testing.T, b *box) {
			base := sdk.Ref("")
			if !tc.none {
				b.s.Saved("g", "a.txt")
				base = b.s.Head("g", "a.txt")
			}
			if tc.second {
				i := b.put("a.txt", "first", new(base))
				time.Sleep(time.Minute)
				base = b.s.Head("g", "a.txt")
				b.hold()
				b.put("a.txt", "mine", ref(string(i.Ref())))
			} else {
				b.hold()
				b.put("a.txt", "mine", new(base))
			}
			at := time.Now()
			for range 3 {
				b.s.Saved("g", "a.txt")
			}
			name := outbox.ConflictName("a.txt", "alice", at, 0)
			if tc.taken {
				b.s.Saved("g", name)
				name = outbox.ConflictName("a.txt", "alice", at, 1)
			}
			fails := away
			if tc.moved {
				fails = &sdk.Error{Op: "upload", Kind: sdk.ErrInvalid, Err: errors.New("no")}
			}
			b.failFor(func(op string, l *outbox.Upload) error { // only that name cannot be sent
				if op == "send" && l.Name == name && l.Group == "g" {
					return fails
				}
				return nil
			})
			b.Again()
			time.Sleep(time.Hour)
			if tc.restarts {
				b.restart(false)
				time.Sleep(time.Hour)
			}
			group := sdk.GroupID("g")
			if tc.moved {
				group = "h"
				if err := b.Move(t.Context(), b.Items()[0].ID, group); err != nil {
					t.Fatal(err)
				}
			} else {
				b.fail(nil)
				b.failFor(nil)
			}
			b.Again()
			time.Sleep(time.Hour)
			rows, err := b.s.Entries(t.Context(), group)
			if err != nil || len(rows) == 0 {
				t.Fatalf("%s: %v, %v", what, rows, err)
			}
			last := rows[len(rows)-1]
			switch {
			case last.Name != name || b.s.Contents[string(group)+"/"+name] != "mine":
				t.Errorf("%s: %+v", what, last)
			case tc.moved != (last.Upon == nil), last.Upon != nil && *last.Upon != base:
				t.Errorf("%s: made upon %v, want %q", what, last.Upon, base)
			}
		})
	}
}

// O7: a save whose second name is taken, too, gets a third one, also after a restart: names do not nest.
func TestO7ConflictNamesDoNotNest(t *testing.T) {
	for _, name := range []string{"dir/a.txt", ".rc", "a b", "x (conflict bob 2001-02-03 04.05.06).gz"} {
		run(t, nil, func(t *testing.T, b *box) {
			var waits atomic.Pointer[string] // the name that cannot be sent
			b.s.Refuse = func(op string, l *outbox.Upload) error {
				if op == "send" && l.Name == *waits.Load() {
					return away
				}
				return nil
			}
			b.s.Saved("g", name)
			at := time.Now()
			for n := range 3 {
				want := outbox.ConflictName(name, "alice", at, n)
				waits.Store(&want)
				if n == 0 {
					b.put(name, "mine", ref(""))
				} else {
					b.restart(false)
				}
				time.Sleep(time.Hour)
				b.wantStates(want + " waiting")
				b.s.Saved("g", want)
			}
		})
	}
}

// O7: a save upon a save that was on its way replaces that one, and is no conflict.
func TestO7SaveUponASave(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Coalesce = -1 }, func(t *testing.T, b *box) {
		b.hold()
		i := b.put("a", "1", ref(""))
		synctest.Wait() // it was tried
		b.put("a", "2", ref(string(i.Ref())))
		b.fail(nil)
		b.Again()
		synctest.Wait()
		time.Sleep(time.Second)
		if b.s.Contents["g/a"] != "2" || len(b.s.Contents) != 1 {
			t.Errorf("recorded %v", b.s.Contents)
		}
	})
}

// O7: a save upon a save that is recorded while the new one is written replaces that one, too.
func TestO7SaveWhileTheOneBeforeArrives(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Coalesce = -1 }, func(t *testing.T, b *box) {
		first := b.put("a", "1", ref(""))
		b.disk.OnSync(func() {
			b.disk.OnSync(nil)
			synctest.Wait() // the first one is recorded meanwhile
		})
		b.put("a", "2", ref(string(first.Ref())))
		synctest.Wait()
		time.Sleep(time.Second)
		b.wantStates("")
		if b.s.Contents["g/a"] != "2" || len(b.s.Contents) != 1 {
			t.Errorf("recorded %v", b.s.Contents)
		}
	})
}

// O8: revoked: everything of the group is parked, and no content can be read any more.
func TestO8Revoked(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		i := b.put("a", "1", nil)
		b.put("b", "1", nil)
		synctest.Wait()
		b.fail(&sdk.Error{Op: "upload", Kind: sdk.ErrNotAuthorized, Err: errors.New("not a member")})
		b.Again()
		synctest.Wait()
		b.wantStates("a parked, b parked")
		for _, i := range b.Items() {
			if err := b.Content(i.ID, buffer(t)); !errors.Is(err, outbox.ErrLocked) {
				t.Errorf("%s can be read: %v", i.Name, err)
			}
		}
		if err := b.Discard(t.Context(), i.ID); err != nil {
			t.Error(err)
		}
		b.wantStates("b parked")
		b.restart(true)
		synctest.Wait()
		if list := b.Items(); len(list) != 1 {
			t.Errorf("after a restart there is %v", list)
		}
	})
}

// O8: what waits in a group that the account may not change any more, and is a member of, can be read, and moved to
// another group, also by the next process.
func TestO8ReaderReadsAndMovesWhatWaits(t *testing.T) {
	for _, code := range []string{wire.CodeReadOnly, wire.CodeSealedOnly} {
		for _, again := range []bool{false, true} {
			run(t, nil, func(t *testing.T, b *box) {
				reader := &sdk.Error{Op: "upload", Kind: sdk.ErrNotAuthorized, Code: code, Err: errors.New("a reader")}
				b.failFor(func(op string, u *outbox.Upload) error {
					if op == "send" && u.Group == "g" {
						return reader
					}
					return nil
				})
				i := b.put("a", "1", ref(""))
				b.put("b", "2", ref(""))
				synctest.Wait()
				if again {
					b.restart(true)
					synctest.Wait()
				}
				b.wantStates("a parked, b parked")
				content := buffer(t)
				if err := b.Content(i.ID, content); err != nil || string(content.Bytes()) != "1" {
					t.Errorf("%s: %q, %v", code, content.Bytes(), err)
				}
				if i, _ := b.Item(i.ID); i.Locked {
					t.Errorf("%s: it is locked", code)
				}
				if err := b.Move(t.Context(), i.ID, "h"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				b.wantStates("b parked")
				if fmt.Sprint(b.s.Contents) != "map[h/a:1]" {
					t.Errorf("%s: recorded %v", code, b.s.Contents)
				}
			})
		}
	}
}

func buffer(t *testing.T) *mem.Buffer {
	b, err := mem.NewPool().Get(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Release)
	return b
}

// O9: after a restart the keys come back, and what waits is sent in the old order; until then its
// content cannot be read. With a key in the keyring the names are known before.
func TestO9Restart(t *testing.T) {
	for _, keyring := range []bool{false, true} {
		run(t, func(c *outbox.Config) {
			if keyring {
				c.Keys.Names, _ = format.RandomKey()
			}
		}, func(t *testing.T, b *box) {
			b.hold()
			b.put("a", "1", ref(""))
			b.put("b", "2", ref(""))
			synctest.Wait()
			i := b.put("a", "33", ref(string(b.Items()[0].Ref())))
			before := len(b.s.Sent())
			b.restart(true)
			synctest.Wait()
			if _, err := b.Put(t.Context(), outbox.Save{Group: "g", Name: "later"}); err != nil {
				t.Fatal(err)
			}
			if err := b.Content(i.ID, buffer(t)); !errors.Is(err, outbox.ErrLocked) {
				t.Errorf("content of a closed item: %v", err)
			}
			b.fail(nil)
			time.Sleep(time.Minute)
			synctest.Wait()
			var names []string
			for _, r := range b.s.Sent()[before:] {
				names = append(names, r...)
			}
			if got := strings.Join(names, " "); got != "a b a" {
				t.Errorf("keyring %v: sent %s", keyring, got)
			}
			if b.s.Contents["g/a"] != "33" || len(b.s.Contents) != 2 {
				t.Errorf("keyring %v: recorded %v", keyring, b.s.Contents)
			}
		})
	}
}

// O9: the answer was lost and the power too: the save is sent again under its id, and recorded once.
func TestO9SentAgainIsRecordedOnce(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Keys.Names, _ = format.RandomKey() }, func(t *testing.T, b *box) {
		b.crashes()
		n := 0
		b.s.Record = func(l *outbox.Upload, _ []byte) outbox.Sent {
			n++
			b.s.OnRecord()
			return outbox.Sent{Receipt: sdk.Receipt{Entry: sdk.Entry{Ref: sdk.Ref(l.Name)}}}
		}
		b.put("a", "1", nil)
		synctest.Wait()
		b.wantStates("")
		b.crash()
		synctest.Wait()
		if n != 1 || len(b.s.Sent()) != 2 {
			t.Errorf("%d records, requests %v", n, b.s.Sent())
		}
		b.wantStates("")
	})
}

// O9: what was recorded before the crash is sent again under its id and tag, and gets the first receipt. A service that
// says that the id was used for another save is not believed to have it.
func TestO9RecordedBeforeTheCrash(t *testing.T) {
	for _, other := range []bool{false, true} {
		run(t, func(c *outbox.Config) { c.Coalesce = -1 }, func(t *testing.T, b *box) {
			b.crashes()
			i := b.put("a", "1", ref(""))
			synctest.Wait()
			b.wantStates("")
			if other {
				b.fail(&sdk.Error{Op: "upload", Kind: sdk.ErrConflict, Code: wire.CodeSpent, Err: errors.New("another one")})
				b.s.Refuse = refuseToSend(b.s.Refuse)
			}
			b.crash()
			synctest.Wait()
			if other {
				b.wantStates("a parked")
				return
			}
			b.wantStates("")
			if at, ok := b.Recorded(i.ID); !ok || at != b.s.Head("g", "a") || b.s.Recorded() != 1 {
				t.Errorf("recorded %v as %q, %d records", ok, at, b.s.Recorded())
			}
		})
	}
}

// refuseToSend refuses no other request.
func refuseToSend(refuse func(string, *outbox.Upload) error) func(string, *outbox.Upload) error {
	return func(op string, u *outbox.Upload) error {
		if op != "send" {
			return nil
		}
		return refuse(op, u)
	}
}

// O10: an item that was never sent is renamed, moved and removed on the disk; one that may be on its
// way is not.
func TestO10RenamesAndRemovals(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		first := b.put("first", "1", nil)
		synctest.Wait()
		i, j := b.put("a", "1", ref("")), b.put("b", "2", ref(""))
		if err := b.Rename(t.Context(), first.ID, "x", ""); !errors.Is(err, outbox.ErrTried) {
			t.Error(err)
		}
		if err := b.Rename(t.Context(), i.ID, "c", ""); err != nil {
			t.Error(err)
		}
		if err := b.Remove(t.Context(), j.ID); err != nil {
			t.Error(err)
		}
		b.restart(true)
		b.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if fmt.Sprint(b.s.Contents) != "map[g/c:1 g/first:1]" {
			t.Errorf("recorded %v", b.s.Contents)
		}
	})
}

// O8: a parked item goes to another group.
func TestO8MoveToAnotherGroup(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.fail(&sdk.Error{Op: "upload", Kind: sdk.ErrTooLarge, Err: errors.New("too large")})
		i := b.put("a", "1", ref("theirs"))
		synctest.Wait()
		b.fail(nil)
		if err := b.Move(t.Context(), i.ID, "h"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.fail(&sdk.Error{Op: "upload", Kind: sdk.ErrNotAuthorized, Err: errors.New("not a member")})
		lost := b.put("lost", "1", nil)
		synctest.Wait()
		b.s.Mine = []sdk.Group{{ID: "h"}}
		b.restart(false)
		synctest.Wait()
		b.fail(nil)
		if err := b.Retry(lost.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.wantStates(" parked") // of none of its groups
		if err := b.Move(t.Context(), lost.ID, "h"); !errors.Is(err, outbox.ErrLocked) {
			t.Errorf("the key of a group that was lost: %v", err)
		}
		b.s.Mine = []sdk.Group{{ID: "g"}, {ID: "h"}}
		if err := b.Retry(lost.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if fmt.Sprint(b.s.Contents) != "map[g/lost:1 h/a:1]" {
			t.Errorf("recorded %v", b.s.Contents)
		}
	})
}

// O11: the limit refuses, from half on saves take longer.
func TestO11Full(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Bytes = 10_000 }, func(t *testing.T, b *box) {
		b.hold()
		var slow time.Duration
		for n := 0; ; n++ {
			began := time.Now()
			i, err := b.Put(t.Context(), outbox.Save{Group: "g", Name: fmt.Sprint(n), Content: make([]byte, 1000)})
			if errors.Is(err, outbox.ErrFull) {
				break
			}
			if err != nil || n > 20 {
				t.Fatal(n, err)
			}
			b.Ready(i.ID)
			took := time.Since(began)
			if used := b.Status().Bytes; used <= 5000 && took != 0 || took < slow {
				t.Errorf("with %d bytes a save took %s after %s", used, took, slow)
			}
			slow = took
		}
		if slow == 0 {
			t.Error("no save was slowed")
		}
		if n := len(b.Items()); n < 6 {
			t.Errorf("%d items fit", n)
		}
	})
}

// O11: what an item takes beside its content counts, too: an outbox of empty files does not grow over its limit.
func TestO11RecordsCount(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Bytes = 10_000 }, func(t *testing.T, b *box) {
		b.hold()
		var err error
		for n := 0; err == nil && n < 1000; n++ {
			_, err = b.Put(t.Context(), outbox.Save{Group: "g", Name: fmt.Sprint(n)})
		}
		if !errors.Is(err, outbox.ErrFull) {
			t.Error(err)
		}
		if s := b.Status(); s.Bytes > s.Limit || s.Bytes < s.Limit/2 {
			t.Errorf("%d of %d bytes", s.Bytes, s.Limit)
		}
	})
}

// O11: many writers at once do not fill an outbox over its limit, and what was refused takes no room from later ones.
func TestO11ManyWriters(t *testing.T) {
	run(t, func(c *outbox.Config) { c.Bytes = 10_000 }, func(t *testing.T, b *box) {
		b.hold()
		b.disk.OnSync(func() { time.Sleep(time.Second) }) // the others come meanwhile
		var writers sync.WaitGroup
		for n := range 30 {
			writers.Go(func() {
				save := outbox.Save{Group: "g", Name: fmt.Sprint(n), Content: make([]byte, 1500)}
				if n%3 == 0 {
					save.Content, save.Large = nil, &outbox.Large{Layout: format.Layout{Size: 1500, BlockBytes: 500},
						Changed: format.Extents{{First: 0, Count: 3}},
						Read:    func(_ context.Context, _ int64, into []byte) (int, error) { return len(into), nil }}
				}
				i, err := b.Put(t.Context(), save)
				if err != nil && !errors.Is(err, outbox.ErrFull) {
					t.Error(err)
				}
				if used := b.Status().Bytes; used > 10_000 {
					t.Errorf("%d of 10000 bytes", used)
				}
				if err == nil && n%4 == 3 {
					if err := b.Discard(t.Context(), i.ID); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		for _, i := range b.Items() {
			if err := b.Discard(t.Context(), i.ID); err != nil {
				t.Error(err)
			}
		}
		if s := b.Status(); s.Bytes != 0 {
			t.Errorf("%d bytes are left of nothing", s.Bytes)
		}
		if _, err := b.Put(t.Context(), outbox.Save{Group: "g", Name: "all", Content: make([]byte, 9000)}); err != nil {
			t.Error(err)
		}
	})
}

// O2: a disk that fails takes no save, and loses none.
func TestO2BrokenDisk(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		b.put("a", "1", nil)
		synctest.Wait()
		b.disk.Broken(true)
		if _, err := b.Put(t.Context(), outbox.Save{Group: "g", Name: "b"}); err == nil {
			t.Error("a broken disk takes a save")
		}
		b.disk.Broken(false)
		b.wantStates("a waiting")
	})
}

// O12: what cannot be sent in time stays, and is listed; what can is sent.
func TestO12Drain(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.put("a", "1", nil)
		if left := b.Drain(t.Context()); len(left) != 0 {
			t.Errorf("left %v", left)
		}
		b.hold()
		b.put("b", "1", nil)
		ctx, cancel := withTimeout(t, time.Minute)
		defer cancel()
		if left := b.Drain(ctx); len(left) != 1 || left[0].Reason == "" {
			t.Errorf("left %v", left)
		}
	})
}

// States: each is named, and none leads out of recorded or discarded.
func TestStates(t *testing.T) {
	for _, s := range outbox.States() {
		out := 0
		for _, to := range outbox.States() {
			if s.LeadsTo(to) {
				out++
			}
		}
		if (out == 0) != (s == outbox.Recorded || s == outbox.Discarded) || s.String() == "" {
			t.Errorf("%s has %d ways out", s, out)
		}
	}
}

// One process has an outbox.
func TestO13SecondMountIsRefused(t *testing.T) {
	dir := t.TempDir() + "/box"
	o, err := outbox.New(dir, outbox.Config{Remote: &outboxtest.Service{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.New(dir, outbox.Config{Remote: &outboxtest.Service{}}); !errors.Is(err, outbox.ErrTaken) {
		t.Errorf("a second one: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	again, err := outbox.New(dir, outbox.Config{Remote: &outboxtest.Service{}})
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

type ctx = context.Context

func withTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func tokens(text string) sdk.Amount {
	a, err := wire.ParseTokens(text)
	if err != nil {
		panic(err)
	}
	return a
}

// Threat 53: a group whose storage another member filled, or of which the service answers nonsense, holds up
// the saves of no other group, and what waits for it is told so.
func TestThreat53GroupsDoNotWaitForOneAnother(t *testing.T) {
	for kind := sdk.ErrOther; kind <= sdk.ErrPending; kind++ {
		if kind != sdk.ErrStorageFull && kind != sdk.ErrCorrupt {
			continue
		}
		run(t, nil, func(t *testing.T, b *box) {
			full := &sdk.Error{Op: "upload", Group: "g", Kind: kind, Err: errors.New("full")}
			b.s.Refuse = func(_ string, l *outbox.Upload) error {
				b.mu.Lock()
				defer b.mu.Unlock()
				if full != nil && l != nil && l.Group == "g" {
					return full
				}
				return nil
			}
			held := b.put("a", "1", ref(""))
			time.Sleep(time.Hour)
			other, err := b.Put(t.Context(), outbox.Save{Group: "h", Name: "b", Content: []byte("2")})
			if err != nil {
				t.Fatal(err)
			}
			b.Ready(other.ID)
			if err := b.Before(t.Context(), "h"); err != nil {
				t.Errorf("%v: another group waits: %v", kind, err)
			}
			b.wantStates("a waiting")
			if i, _ := b.Item(held.ID); i.Reason == "" || i.Next == nil {
				t.Errorf("%v: %+v", kind, i)
			}
			if err := b.Settle(t.Context(), held.ID); !errors.Is(err, outbox.ErrAway) {
				t.Errorf("%v: settled: %v", kind, err)
			}
			b.mu.Lock()
			full = nil
			b.mu.Unlock()
			time.Sleep(10 * time.Minute)
			b.wantStates("")
			if fmt.Sprint(b.s.Contents) != "map[g/a:1 h/b:2]" {
				t.Errorf("%v: recorded %v", kind, b.s.Contents)
			}
		})
	}
}

// Threat 53: whatever the service answers, a save stays on the disk until there is a receipt of its record.
func TestThreat53NothingLeavesWithoutAReceipt(t *testing.T) {
	for kind := sdk.ErrOther; kind <= sdk.ErrPending; kind++ {
		for _, code := range []string{"", wire.CodeHead, wire.CodeEpoch, wire.CodeSpent} {
			run(t, nil, func(t *testing.T, b *box) {
				b.fail(&sdk.Error{Op: "upload", Kind: kind, Code: code, Err: errors.New("no")})
				b.put("a", "1", ref(""))
				time.Sleep(2 * time.Hour)
				list := b.Items()
				if len(list) != 1 || list[0].Reason == "" {
					t.Fatalf("%v %s: there is %+v", kind, code, list)
				}
				b.fail(nil)
				b.restart(true)
				time.Sleep(time.Hour)
				if list := b.Items(); len(list) != 0 || len(b.s.Contents) != 1 {
					t.Errorf("%v %s: there is %+v, recorded %v", kind, code, list, b.s.Contents)
				}
			})
		}
	}
	run(t, nil, func(t *testing.T, b *box) {
		b.s.Record = func(*outbox.Upload, []byte) outbox.Sent { return outbox.Sent{} } // no reference
		b.put("a", "1", nil)
		time.Sleep(time.Hour)
		if len(b.Items()) != 1 {
			t.Error("an empty receipt is a record")
		}
	})
	run(t, func(c *outbox.Config) { c.Coalesce = -1 }, func(t *testing.T, b *box) {
		b.s.Record = func(*outbox.Upload, []byte) outbox.Sent {
			return outbox.Sent{Receipt: sdk.Receipt{Entry: sdk.Entry{Ref: "same", Seq: 1}}}
		}
		b.put("a", "1", nil)
		b.put("b", "1", nil)
		time.Sleep(time.Hour)
		if list := b.Items(); len(list) != 1 || list[0].Reason == "" {
			t.Errorf("one record is that of two saves: there is %+v", list)
		}
	})
}

// Threat 53: a service that says that a journal has ended whose saves are not recorded takes nothing from the disk:
// they are parked, and sent once it opens the journal again.
func TestThreat53JournalSaidToHaveEnded(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		i := b.put("a", "1", ref(""))
		synctest.Wait()
		honest := b.s.Refuse
		b.fail(nil)
		b.s.Refuse = func(op string, _ *outbox.Upload) error {
			if op == "open" {
				return &sdk.Error{Op: "open", Kind: sdk.ErrConflict, Code: wire.CodeJournalEnded, Err: errors.New("it has ended")}
			}
			return nil
		}
		b.restart(false)
		synctest.Wait()
		b.wantStates(" parked")
		b.s.Refuse = honest
		if err := b.Retry(""); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if at, ok := b.Recorded(i.ID); !ok || at != b.s.Head("g", "a") || b.s.Contents["g/a"] != "1" {
			t.Errorf("recorded %v as %q, there is %v", ok, at, b.s.Contents)
		}
	})
}

// Threat 52: an item whose clear part is not that of its encrypted part is refused.
func TestThreat52SwappedItems(t *testing.T) {
	for what, change := range map[string]func(*outbox.Clear){
		"id":      func(c *outbox.Clear) { c.ID = "0" + c.ID[1:len(c.ID)-1] + "f" },
		"account": func(c *outbox.Clear) { c.Account = "mallory" },
	} {
		run(t, nil, func(t *testing.T, b *box) {
			b.hold()
			b.put("a", "1", ref(""))
			synctest.Wait()
			left := b.disk.Restarted(false)
			_ = b.Close()
			if err := left.Changed(change); err != nil {
				t.Fatal(err)
			}
			b.disk = left
			b.fail(nil)
			b.start()
			time.Sleep(time.Hour)
			b.wantStates(" parked")
			if len(b.s.Contents) > 0 {
				t.Errorf("%s: recorded %v", what, b.s.Contents)
			}
		})
	}
}

// Threat 52: an item that is said to stand upon itself, or upon a later one, holds up nothing: it is compared with what
// its encrypted part says.
func TestThreat52StandsUponALaterOne(t *testing.T) {
	for _, upon := range []int{0, 1} {
		run(t, nil, func(t *testing.T, b *box) {
			b.hold()
			items := []outbox.Item{b.put("a", "1", ref("")), b.put("b", "2", ref("")), b.put("c", "3", ref(""))}
			synctest.Wait()
			left := b.disk.Restarted(false)
			_ = b.Close()
			if err := left.Changed(func(c *outbox.Clear) {
				if c.ID == items[0].ID {
					c.After = items[upon].ID
				}
			}); err != nil {
				t.Fatal(err)
			}
			b.disk = left
			b.fail(nil)
			b.start()
			time.Sleep(time.Hour)
			if b.wantStates(""); fmt.Sprint(b.s.Contents) != "map[g/a:1 g/b:2 g/c:3]" {
				t.Errorf("recorded %v", b.s.Contents)
			}
		})
	}
}

// O2: what the disk has damaged is parked before it is sent, of a large save also where its file is shorter, and what
// follows it is recorded.
func TestO2DamageIsNotSent(t *testing.T) {
	for _, large := range []bool{false, true} {
		run(t, nil, func(t *testing.T, b *box) {
			b.hold()
			b.put("first", "1", nil)
			synctest.Wait()
			save := outbox.Save{Group: "g", Name: "bad", Content: []byte("what the disk damages")}
			if large {
				save.Large = &outbox.Large{Layout: format.Layout{Size: 100, BlockBytes: 64},
					Changed: format.Extents{{First: 0, Count: 2}}, Read: blocks}
			}
			i, err := b.Put(t.Context(), save)
			if err != nil {
				t.Fatal(err)
			}
			b.Ready(i.ID)
			b.put("good", "2", nil)
			for name, raw := range b.disk.Files() {
				if strings.HasSuffix(name, ".body") {
					raw = raw[:len(raw)-1]
				} else if at := bytes.LastIndex(raw, []byte(i.ID)); !large && at >= 0 {
					raw[at+bytes.Index(raw[at:], []byte("SVJ2"))-sha256.Size-1] ^= 1 // its content
				}
				b.disk.Add(map[string][]byte{name: raw})
			}
			b.fail(nil)
			time.Sleep(time.Hour)
			synctest.Wait()
			b.wantStates("bad parked")
			if fmt.Sprint(b.s.Contents) != "map[g/first:1 g/good:2]" {
				t.Errorf("recorded %v", b.s.Contents)
			}
		})
	}
}

func blocks(_ context.Context, block int64, into []byte) (int, error) {
	return int(format.Layout{Size: 100, BlockBytes: 64}.Plain(block)), nil
}

// O3, O10: nothing waits for a save that comes after it.
func TestO10RenameOntoALaterSave(t *testing.T) {
	for _, again := range []bool{false, true} {
		run(t, nil, func(t *testing.T, b *box) {
			b.hold()
			b.put("first", "1", nil)
			synctest.Wait()
			i, j := b.put("a", "1", ref("")), b.put("b", "2", ref(""))
			if err := b.Rename(t.Context(), i.ID, "b", j.Ref()); !errors.Is(err, outbox.ErrTried) {
				t.Error(err)
			}
			if again {
				b.restart(true)
			}
			b.fail(nil)
			time.Sleep(20 * time.Minute)
			synctest.Wait()
			if len(b.Items()) > 0 || fmt.Sprint(b.s.Contents) != "map[g/a:1 g/b:2 g/first:1]" {
				t.Errorf("recorded %v, there is %v", b.s.Contents, b.Items())
			}
		})
	}
}

// O2: a service that names a record at endless length neither ends the item nor keeps others from the disk.
func TestO2ReferenceWithoutAnEnd(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.s.Record = func(*outbox.Upload, []byte) outbox.Sent {
			return outbox.Sent{Receipt: sdk.Receipt{Entry: sdk.Entry{Ref: sdk.Ref(strings.Repeat("r", 10_000))}}}
		}
		b.put("a", "1", nil)
		synctest.Wait()
		b.put("b", "2", nil)
		b.restart(false)
		synctest.Wait()
		if len(b.Items()) != 2 {
			t.Errorf("there is %v", b.Items())
		}
	})
}

// O3: a disk that is full keeps nothing from being sent, and after a loss of power nothing is recorded once more.
func TestO3FullDiskSends(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		for n := range 200 {
			b.put(fmt.Sprint(n), "1", ref(""))
		}
		synctest.Wait()
		b.disk.Broken(true)
		b.fail(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if b.wantStates(""); b.s.Recorded() != 200 {
			t.Errorf("%d are recorded", b.s.Recorded())
		}
		b.restart(true)
		b.disk.Broken(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		if b.wantStates(""); b.s.Recorded() != 200 {
			t.Errorf("%d are recorded after a loss of power", b.s.Recorded())
		}
	})
}

// O3: what fails on this machine for a while, such as a full disk or too many open files, parks nothing.
func TestO3FaultsOfTheMachinePass(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		b.put("a", "mine", ref(""))
		at := time.Now()
		synctest.Wait()
		b.s.Saved("g", "a")
		b.disk.Broken(true) // it does not take the name of the conflict
		b.fail(nil)
		time.Sleep(time.Hour)
		b.wantStates("a waiting")
		if r := b.Items()[0].Reason; !strings.Contains(r, "the disk is broken") {
			t.Error(r)
		}
		if tries := len(b.s.Sent()); tries > 30 {
			t.Errorf("%d attempts in an hour", tries)
		}
		b.disk.Broken(false)
		time.Sleep(10 * time.Minute)
		if b.wantStates(""); b.s.Contents["g/"+outbox.ConflictName("a", "alice", at, 0)] != "mine" {
			t.Errorf("recorded %v", b.s.Contents)
		}
		b.disk.FailsToOpen(syscall.EMFILE)
		b.put("b", "2", ref(""))
		time.Sleep(time.Minute)
		b.wantStates("b waiting")
		b.disk.FailsToOpen(nil)
		time.Sleep(10 * time.Minute)
		if b.wantStates(""); b.s.Contents["g/b"] != "2" {
			t.Errorf("recorded %v", b.s.Contents)
		}
	})
}

// O2: an item whose file somebody removed is damaged: it holds up no other.
func TestO2RemovedFilesHoldUpNoOther(t *testing.T) {
	run(t, nil, func(t *testing.T, b *box) {
		b.hold()
		b.put("a", "1", nil)
		synctest.Wait()
		b.disk.FailsToOpen(fs.ErrNotExist)
		b.fail(nil)
		time.Sleep(time.Hour)
		b.wantStates("a parked")
		b.disk.FailsToOpen(nil)
		b.put("b", "2", nil)
		synctest.Wait()
		b.wantStates("a parked")
		if b.s.Contents["g/b"] != "2" {
			t.Errorf("recorded %v", b.s.Contents)
		}
	})
}

// O14, O3: a service that was away and refuses a save, or what an earlier process left, is back: nobody is told that it
// is away.
func TestO14RefusalIsAnAnswer(t *testing.T) {
	for what, refusal := range map[string]*sdk.Error{
		"parked":                  {Op: "upload", Kind: sdk.ErrTooLarge, Err: errors.New("too large")},
		"held":                    {Op: "upload", Kind: sdk.ErrStorageFull, Err: errors.New("the group is full")},
		"parked, after a restart": noMember,
	} {
		run(t, nil, func(t *testing.T, b *box) {
			b.hold()
			refuse := b.s.Refuse
			b.s.Refuse = func(op string, u *outbox.Upload) error {
				if op == "send" && u.Group == "h" {
					time.Sleep(time.Second) // it is slow
				}
				return refuse(op, u)
			}
			b.put("a", "1", ref(""))
			synctest.Wait()
			if refusal == noMember {
				b.restart(true)
				synctest.Wait()
			}
			if b.Status().Reason == "" {
				t.Fatalf("%s: the service is not away", what)
			}
			b.failFor(func(_ string, u *outbox.Upload) error {
				if u.Group == "g" {
					return refusal
				}
				return nil
			})
			time.Sleep(10 * time.Minute)
			if s := b.Status(); s.Items != 1 || s.Reason != "" || s.Next != nil {
				t.Errorf("%s: status %+v", what, s)
			}
			i, err := b.Put(t.Context(), outbox.Save{Group: "h", Name: "b", Content: []byte("2")})
			if err != nil {
				t.Fatal(err)
			}
			b.Ready(i.ID)
			if err := b.Settle(t.Context(), i.ID); err != nil || b.s.Contents["h/b"] != "2" {
				t.Errorf("%s: settled: %v, recorded %v", what, err, b.s.Contents)
			}
		})
	}
}
