package outbox

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"errors"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/saving"
)

// newItem is an item for add, as a file of the log has it.
func newItem(id string) *entry {
	c := &Clear{ID: id, Account: "alice", Size: 3, Time: time.Unix(1, 0).UTC()}
	return &entry{kind: kindSave, head: head{Clear: c}, meta: []byte("meta of " + id), body: []byte("body of " + id)}
}

// saved is newItem upon another item.
func saved(id, after string) *entry {
	e := newItem(id)
	e.After = after
	return e
}

func mustOpen(t testing.TB, d disk) (*store, []Clear) {
	t.Helper()
	s, items, err := openStore(d, false)
	if err != nil {
		t.Fatal(err)
	}
	return s, items
}

func mustAdd(t testing.TB, s *store, list ...*entry) {
	t.Helper()
	for _, e := range list {
		if err := s.add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// addTogether adds entries in one frame.
func addTogether(t testing.TB, s *store, list ...*entry) {
	t.Helper()
	for _, e := range list {
		s.joins = append(s.joins, &joining{e: e, done: make(chan struct{})})
	}
	if err := s.writeNext(); err != nil {
		t.Fatal(err)
	}
}

func idsOf(items []Clear) (ids []string) {
	for _, c := range items {
		ids = append(ids, c.ID)
	}
	return ids
}

// readdressed is an entry that gives an item other metadata.
func readdressed(t testing.TB, s *store, id, meta string) *entry {
	t.Helper()
	e, err := s.read(id)
	if err != nil {
		t.Fatal(err)
	}
	return &entry{kind: kindAddress, head: head{Clear: e.Clear}, meta: []byte(meta)}
}

// losses are the losses of power behind a step of a disk.
func losses(check func(l loss)) {
	for names := -2; names < 4; names++ {
		for _, kept := range []int{0, 40, 200, -1} {
			check(loss{names, kept, 0})
		}
	}
}

// O2: an item that was taken survives a loss of power after every later write, whole and under its newest
// address; one that was not is absent or whole; one that was given up does not come back.
func TestO2PowerIsLostAfterEveryWrite(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	type fact struct {
		begin, step int // it is under way from begin on, and done from step on
		id          string
		there, sure bool
		meta        string
	}
	var facts []fact
	do := func(f func() error, list ...fact) {
		begin := len(d.steps)
		if err := f(); err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			f.begin, f.step = begin, len(d.steps)
			facts = append(facts, f)
		}
	}
	there := func(id string) fact { return fact{id: id, there: true, sure: true, meta: "meta of " + id} }
	add := func(ids ...string) {
		var list []*entry
		var all []fact
		for _, id := range ids {
			list, all = append(list, newItem(id)), append(all, there(id))
		}
		do(func() error { addTogether(t, s, list...); return nil }, all...)
	}
	add("a")
	add("b", "c", "d") // in one frame
	do(func() error { s.end(Clear{ID: "a"}, "ref"); s.tidy(); return nil }, fact{id: "a", meta: "meta of a"})
	do(func() error { return s.add(t.Context(), readdressed(t, s, "c", "another meta of c")) },
		fact{id: "c", there: true, sure: true, meta: "another meta of c"})
	do(func() error { return s.forget(t.Context(), Clear{ID: "b"}) }, fact{id: "b", sure: true})
	add("e")
	d.fail = func(step diskStep) error {
		if step.kind == "sync" {
			return errDisk
		}
		return nil
	}
	do(func() error {
		if err := s.add(t.Context(), newItem("refused")); !errors.Is(err, errDisk) {
			t.Errorf("a disk that does not sync: %v", err)
		}
		d.fail = nil
		return nil
	})
	add("f")
	facts = append(facts, fact{begin: len(d.steps), step: len(d.steps), id: "refused", sure: true})
	do(func() error { s.end(Clear{ID: "c"}, ""); return s.settle() }, fact{id: "c", sure: true})
	do(func() error { s.end(Clear{ID: "d"}, "ref"); return nil }, fact{id: "d", meta: "meta of d"})
	do(func() error { return s.forget(t.Context(), Clear{ID: "e"}) }, fact{id: "e", sure: true})
	do(s.close)
	for step := range len(d.steps) + 1 {
		losses(func(l loss) {
			s, items, err := openStore(d.after(step, l), false)
			if err != nil || len(s.damaged) > 0 {
				t.Fatalf("after step %d, %+v: %v, damaged %v", step, l, err, s.damaged)
			}
			now := map[string]fact{}
			for _, f := range facts {
				if f.step <= step {
					now[f.id] = f
				}
			}
			for id, f := range now {
				e, err := s.read(id)
				later := slices.ContainsFunc(facts, func(g fact) bool { return g.id == id && g.begin < step && step < g.step })
				switch {
				case later: // as it was, or as it becomes
				case f.sure && f.there && (err != nil || string(e.meta) != f.meta || string(e.body) != "body of "+id):
					t.Errorf("after step %d, %+v: %s has %q and %q, %v, want %q", step, l, id, e.meta, e.body, err, f.meta)
				case f.sure && !f.there && !errors.Is(err, fs.ErrNotExist):
					t.Errorf("after step %d, %+v: %s came back", step, l, id)
				}
			}
			for _, c := range items {
				if _, err := s.read(c.ID); err != nil {
					t.Errorf("after step %d, %+v: %s: %v", step, l, c.ID, err)
				}
			}
		})
	}
}

// O2, O7: however a random history of a log is cut, what is left is a state that was there: every item with the
// newest address and base that it had at one moment, none before what was acknowledged.
func TestO2RandomHistories(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		d := newMemDisk()
		s, _ := mustOpen(t, d)
		type state map[string]Clear
		now := state{}
		states, durable := []state{{}}, []int{0} // durable[i]: from which step on a loss leaves states[i] or later
		note := func(sure bool) {
			states = append(states, maps.Clone(now))
			step := 1 << 30 // for ever unsure
			if sure {
				step = len(d.steps)
			}
			durable = append(durable, step)
		}
		order := []string{}
		for n := range 60 {
			var id string
			if len(order) > 0 {
				id = order[random.IntN(len(order))]
			}
			switch kind := random.IntN(6); {
			case kind < 3 || id == "":
				e := newItem(fmt.Sprintf("%d", n))
				if id != "" && random.IntN(4) > 0 {
					e.After = id
				}
				mustAdd(t, s, e)
				now[e.ID] = *e.Clear
				order = append(order, e.ID)
				note(true)
			case kind == 3:
				e := readdressed(t, s, id, "another meta")
				c := now[id]
				e.Clear = &c
				if e.Apart = random.IntN(2) == 0; e.Apart {
					e.After, e.Record = "", ""
				}
				mustAdd(t, s, e)
				now[id] = *e.Clear
				for other, c := range now {
					if e.Apart && c.After == id {
						c.After = ""
						now[other] = c
					}
				}
				note(true)
			default:
				ref := sdk.Ref("")
				if kind == 4 {
					ref = sdk.Ref("record of " + id)
				}
				gone := now[id]
				delete(now, id)
				order = slices.DeleteFunc(order, func(other string) bool { return other == id })
				for other, c := range now {
					switch {
					case c.After != id:
					case ref != "":
						c.After, c.Record = "", ref
						now[other] = c
					default:
						c.After, c.Record = gone.After, cmp.Or(gone.Record, c.Record)
						now[other] = c
					}
				}
				s.end(gone, ref)
				note(false)
				if random.IntN(2) == 0 {
					s.tidy()
				}
			}
			if random.IntN(4) == 0 {
				s.endTail() // the segments before it go when all in them has ended
			}
		}
		for step := range len(d.steps) + 1 {
			for range 2 {
				l := loss{random.IntN(6) - 2, random.IntN(2000) - 1, 0}
				left, items, err := openStore(d.after(step, l), false)
				if err != nil || len(left.damaged) > 0 {
					t.Fatalf("seed %d, step %d: %v, damaged %v", seed, step, err, left.damaged)
				}
				got := state{}
				for _, c := range items {
					got[c.ID] = c
				}
				first := 0
				for i, from := range durable {
					if from <= step {
						first = i
					}
				}
				same := func(a, b state) bool {
					return maps.EqualFunc(a, b, func(x, y Clear) bool {
						return x.ID == y.ID && x.After == y.After && x.Record == y.Record && x.Position == y.Position
					})
				}
				if !slices.ContainsFunc(states[first:], func(st state) bool { return same(st, got) }) {
					t.Fatalf("seed %d, step %d, %+v: %v is no state since %v", seed, step, l, got, states[first])
				}
			}
		}
	}
}

// O4: what a later item took the place of does not come back once it is settled, also from a segment that has
// other items; and nothing is left of it in the end.
func TestO4ReplacedSavesStayAwayFromSharedFiles(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	addTogether(t, s, newItem("a"), newItem("b"))
	s.end(Clear{ID: "a"}, "")
	if err := s.settle(); err != nil {
		t.Fatal(err)
	}
	for _, l := range []loss{{}, {1 << 30, -1, 0}} {
		left := d.after(len(d.steps), l)
		s, items := mustOpen(t, left)
		if !slices.Equal(idsOf(items), []string{"b"}) {
			t.Fatalf("there is %v", idsOf(items))
		}
		s.end(Clear{ID: "b"}, "ref")
		if err := s.close(); err != nil || len(left.files) != 0 {
			t.Errorf("%v, and %d files are left", err, len(left.files))
		}
	}
}

// O4: what was written without a sync is durable after settle, also behind the end of a segment and a sync that failed.
func TestO4SettledIsDurable(t *testing.T) {
	for _, fails := range []bool{false, true} {
		d := newMemDisk()
		s, _ := mustOpen(t, d)
		mustAdd(t, s, newItem("kept"))
		for n := range 2 * maxBatch {
			mustAdd(t, s, newItem(fmt.Sprint(n)))
			s.end(Clear{ID: fmt.Sprint(n)}, "")
			if n%10 == 0 && fails {
				d.fail = func(step diskStep) error {
					if step.kind == "sync" {
						return errDisk
					}
					return nil
				}
				if err := s.settle(); err == nil {
					t.Error("settled on a disk that does not sync")
				}
				d.fail = nil
			}
			if err := s.settle(); err != nil {
				t.Fatal(err)
			}
			if _, items := mustOpen(t, d.after(len(d.steps), loss{})); !slices.Equal(idsOf(items), []string{"kept"}) {
				t.Fatalf("fails %v: behind %d there is %v", fails, n, idsOf(items))
			}
		}
	}
}

// O2, O11: an item that waits for long does not keep the segments of others on the disk: it is written once
// more, and has what it had.
func TestO11LongWaitsKeepNoOthers(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	s.now = func(c *Clear) { c.Record = "of now" }
	mustAdd(t, s, newItem("old"), saved("upon", "old"))
	mustAdd(t, s, readdressed(t, s, "old", "another meta of old"))
	for n := range 12 {
		e := newItem(fmt.Sprint(n))
		e.body = make([]byte, 2<<20)
		mustAdd(t, s, e)
		s.end(Clear{ID: e.ID}, "ref")
		s.tidy()
	}
	if s.onDisk() > 14<<20 || s.segments[0].name == "0000000000000000.log" {
		t.Errorf("%d bytes are on the disk, from %s on", s.onDisk(), s.segments[0].name)
	}
	for _, l := range []loss{{}, {1 << 30, -1, 0}} {
		again, items := mustOpen(t, d.after(len(d.steps), l))
		got := idsOf(items)
		if !slices.Equal(got[:2], []string{"old", "upon"}) || items[0].Position != 1 || items[1].After != "old" ||
			items[0].Record != "of now" {
			t.Fatalf("there is %+v", items)
		}
		e, err := again.read("old")
		if err != nil || string(e.meta) != "another meta of old" || string(e.body) != "body of old" {
			t.Errorf("%q and %q, %v", e.meta, e.body, err)
		}
	}
}

// Whatever fails on the disk, a save that was refused is not there later, and one that was taken is.
func TestO2DiskThatFails(t *testing.T) {
	for _, kind := range []string{"create", "write", "sync", "names", "cut"} {
		for _, full := range []bool{false, true} { // the segment: then another one is begun
			d := newMemDisk()
			s, _ := mustOpen(t, d)
			mustAdd(t, s, newItem("kept"))
			if full {
				s.endTail()
			}
			fails := false
			d.fail = func(step diskStep) error {
				if step.kind == kind || kind == "cut" && step.kind == "sync" {
					fails = true
					return errDisk
				}
				return nil
			}
			if err := s.add(t.Context(), newItem("refused")); fails != errors.Is(err, errDisk) {
				t.Errorf("%s: %v", kind, err)
			}
			d.fail = nil
			mustAdd(t, s, newItem("later"))
			want := []string{"kept", "later"}
			if !fails {
				want = []string{"kept", "refused", "later"}
			}
			if _, items := mustOpen(t, d); !slices.Equal(idsOf(items), want) {
				t.Errorf("%s: there is %v", kind, idsOf(items))
			}
		}
	}
}

// Saves that wait together share one write and one sync, and saves one after the other a file.
func TestO2SavesThatWaitTogetherShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemDisk()
		s, _ := mustOpen(t, d)
		s.writing <- struct{}{} // somebody writes
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if err := s.add(t.Context(), newItem(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		<-s.writing
		all.Wait()
		mustAdd(t, s, newItem("one more"))
		if want := (map[string]int{"create": 1, "write": 2, "sync": 2, "names": 1}); !maps.Equal(d.counts, want) {
			t.Errorf("9 saves took %v, want %v", d.counts, want)
		}
	})
}

// A save that is too large to be noted fails alone: what would have been written with it is there.
func TestO2SaveThatIsTooLargeFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemDisk()
		s, _ := mustOpen(t, d)
		s.writing <- struct{}{} // somebody writes
		var all sync.WaitGroup
		for _, id := range []string{"a", "large", "b"} {
			e := newItem(id)
			if id == "large" {
				e.meta = make([]byte, maxMeta+1)
			}
			all.Go(func() {
				if err := s.add(t.Context(), e); (id == "large") != errors.Is(err, errTooLarge) {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		synctest.Wait()
		<-s.writing
		all.Wait()
		_, items := mustOpen(t, d)
		if got := slices.Sorted(slices.Values(idsOf(items))); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("there is %v", got)
		}
	})
}

// Damage is found before an item is sent, stays where it is, and concerns no other item.
func TestO2DamageOnTheDisk(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	mustAdd(t, s, newItem("a"), newItem("b"))
	name, from, to := s.segments[0].name, s.places["a"].at, s.places["b"].at
	whole := bytes.Clone(d.files[name].Bytes())
	for at := from; at < to; at++ {
		bad := bytes.Clone(whole)
		bad[at] ^= 1
		d.files[name] = bytes.NewBuffer(bad)
		s, _ := mustOpen(t, d)
		if e, err := s.read("a"); err == nil {
			t.Fatalf("a bit of byte %d is wrong, and %q was read", at, e.body)
		}
		if _, err := s.read("b"); err != nil {
			t.Fatalf("byte %d of another item: %v", at, err)
		}
		if len(s.damaged) != 1 {
			t.Fatalf("byte %d: damaged %v", at, s.damaged)
		}
		s.end(Clear{ID: "b"}, "ref")
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if aside := d.files[name+unreadSuffix]; aside == nil || !bytes.Equal(aside.Bytes(), bad) {
			t.Fatalf("byte %d: the damaged file is gone", at)
		}
		clear(d.files)
	}
}

// A segment whose end is missing, wherever it is cut, keeps what is whole, and is told; what is missing of an
// earlier segment is damage, what is missing of the last one a loss of power.
func TestO2CutFiles(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	mustAdd(t, s, newItem("a"))
	first := len(d.files[s.segments[0].name].Bytes())
	mustAdd(t, s, newItem("b"))
	name := s.segments[0].name
	whole := bytes.Clone(d.files[name].Bytes())
	for n := range whole {
		for _, more := range []bool{false, true} {
			d.files = map[string]*bytes.Buffer{name: bytes.NewBuffer(bytes.Clone(whole))}
			if more {
				s, _ := mustOpen(t, d)
				mustAdd(t, s, newItem("later"))
			}
			d.files[name].Truncate(n)
			s, items := mustOpen(t, d)
			_, err := s.read("a")
			if (err == nil) != (n >= first) {
				t.Fatalf("cut at %d: %v, %d items", n, err, len(items))
			}
			told := n != 0 && n != first // on the edge of an entry nothing shows
			if got := len(s.damaged) == 1; got != (told && more) || (len(s.torn) == 1) != (told && !more) {
				t.Fatalf("cut at %d, more %v: damaged %v, torn %v", n, more, s.damaged, s.torn)
			}
			mustAdd(t, s, newItem("next")) // and it is no damage from then on
			if again, items := mustOpen(t, d); len(again.damaged) > len(s.damaged) || items[len(items)-1].ID != "next" {
				t.Fatalf("cut at %d, more %v: damaged %v, items %v", n, more, again.damaged, idsOf(items))
			}
		}
	}
}

// On a real disk: a folder that others may enter is refused, a new store finds what another wrote.
func TestFolder(t *testing.T) {
	dir := t.TempDir() + "/box"
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := mustOpen(t, f)
	if err := s.add(t.Context(), newItem("a")); err != nil {
		t.Fatal(err)
	}
	if _, items := mustOpen(t, f); len(items) != 1 || items[0].Position != 1 {
		t.Errorf("items %+v", items)
	}
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(dir); err == nil {
		t.Error("others may enter")
	}
}

// Threat 52: what somebody put into the folder and is no file of items neither hangs nor ends the
// outbox; it stays where it is, and is told.
func TestThreat52PlantedInTheFolder(t *testing.T) {
	dir := t.TempDir() + "/box"
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := mustOpen(t, f)
	if err := s.add(t.Context(), newItem("a")); err != nil {
		t.Fatal(err)
	}
	planted := []string{"pipe", "folder", "link", "socket"}
	for _, what := range planted {
		path := dir + "/" + what + logSuffix
		switch what {
		case "pipe":
			err = unix.Mkfifo(path, 0o600)
		case "folder":
			err = os.Mkdir(path, 0o700)
		case "link":
			err = os.Symlink("/dev/zero", path)
		case "socket":
			err = unix.Mknod(path, unix.S_IFSOCK|0o600, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, items := mustOpen(t, f)
	if got := idsOf(items); !slices.Equal(got, []string{"a"}) {
		t.Errorf("items %v", got)
	}
	if _, err := s.read("a"); err != nil {
		t.Error(err)
	}
	list, err := f.names()
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range planted {
		if name := what + logSuffix; !slices.Contains(s.damaged, name) || !slices.Contains(list, name) {
			t.Errorf("%s: damaged %v, there is %v", what, s.damaged, list)
		}
	}
}

// Threat 52: a changed position does not use up those of later saves.
func TestThreat52ChangedPosition(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	if err := s.add(t.Context(), newItem("a")); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, newItem("b"))
	if err := d.Changed(func(c *Clear) {
		if c.ID == "a" {
			c.Position = 1<<63 - 1
		}
	}); err != nil {
		t.Fatal(err)
	}
	s, _ = mustOpen(t, d)
	mustAdd(t, s, newItem("c"))
	if s, items := mustOpen(t, d); !slices.Equal(idsOf(items), []string{"b", "c"}) || len(s.damaged) != 1 {
		t.Errorf("items %v, damaged %v", idsOf(items), s.damaged)
	}
}

func BenchmarkAdd(b *testing.B) {
	f, err := openFolder(b.TempDir() + "/box")
	if err != nil {
		b.Fatal(err)
	}
	s, _ := mustOpen(b, f)
	for i := 0; b.Loop(); i++ {
		e := newItem(fmt.Sprint(i))
		e.body = make([]byte, 4<<10)
		mustAdd(b, s, e)
	}
}

func BenchmarkOpen10000(b *testing.B) { benchmarkOpen(b, 10_000) }

func BenchmarkOpen100000(b *testing.B) { benchmarkOpen(b, 100_000) }

func benchmarkOpen(b *testing.B, n int) {
	f, err := openFolder(b.TempDir() + "/box")
	if err != nil {
		b.Fatal(err)
	}
	s, _ := mustOpen(b, f)
	for i := range n {
		if i%journalSaves == 0 {
			key := &sealedKey{Sealed: saving.SealedJournalKey{Journal: "j", Key: make([]byte, format.SealedKeyBytes)}}
			j := &entry{kind: kindJournal, head: head{Key: key, Clear: &Clear{ID: fmt.Sprintf("j%031x", i), Account: "alice"}}}
			s.joins = append(s.joins, &joining{e: j, done: make(chan struct{})})
		}
		e := newItem(fmt.Sprintf("%032x", i))
		e.body, e.meta = make([]byte, 4<<10), make([]byte, 1000)
		s.joins = append(s.joins, &joining{e: e, done: make(chan struct{})})
	}
	for len(s.joins) > 0 {
		if err := s.writeNext(); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, items := mustOpen(b, f); len(items) != n {
			b.Fatal(len(items))
		}
	}
}

// O2: a large save is there whole or not at all after a loss of power at any moment, and nothing of it stays
// when it ended.
func TestO2PowerIsLostDuringALargeSave(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	kept := map[string]int{} // step from which on it is there
	large := map[string]Clear{}
	save := func(id string) {
		b, err := s.newBody(nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := b.Write([]byte("block")); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.keep(); err != nil {
			t.Fatal(err)
		}
		e := newItem(id)
		e.body, e.Body, e.File = nil, b.n, b.name
		large[id] = *e.Clear
		mustAdd(t, s, e)
		kept[id] = len(d.steps)
	}
	save("a")
	save("b")
	ended := len(d.steps)
	s.end(large["a"], "ref")
	if err := s.forget(t.Context(), large["b"]); err != nil {
		t.Fatal(err)
	}
	gone := len(d.steps)
	if s.bytes() != 0 {
		t.Errorf("%d bytes are used by nothing", s.bytes())
	}
	for step := range gone + 1 {
		for names := range 4 {
			for _, bytes := range []int{0, 7, -1} {
				left := d.after(step, loss{names, bytes, 0})
				s, items, err := openStore(left, false)
				if err != nil {
					t.Fatal(err)
				}
				there, files := map[string]bool{}, map[string]bool{}
				for _, c := range items {
					there[c.ID], files[c.File] = true, true
					got := make([]byte, 16)
					n := 0
					if f, err := s.openBody(c.File); err == nil {
						n, _ = f.ReadAt(got, 0)
					}
					if string(got[:n]) != "blockblockblock" {
						t.Errorf("after step %d, %d names, %d bytes: %s has %q", step, names, bytes, c.ID, got[:n])
					}
				}
				for id, from := range kept {
					if step >= from && step <= ended && !there[id] {
						t.Errorf("after step %d, %d names, %d bytes: %s is lost", step, names, bytes, id)
					}
				}
				if step == gone && there["b"] {
					t.Errorf("%d names, %d bytes: b came back", names, bytes)
				}
				for name := range left.files {
					if id, ok := strings.CutSuffix(name, bodySuffix); ok && !files[id] {
						t.Errorf("after step %d, %d names, %d bytes: %s stays", step, names, bytes, name)
					}
				}
			}
		}
	}
}

// O2: of a frame that a loss of power took a part of, nothing counts at any later start: neither the torn copy of an
// item that waited for long, nor a save that was never acknowledged.
func TestO2TornFramesStayTorn(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	mustAdd(t, s, newItem("a"))
	s.endTail()
	again, err := s.read("a")
	if err != nil {
		t.Fatal(err)
	}
	addTogether(t, s, &again, newItem("torn"), newItem("b"))
	name := s.segments[1].name
	for _, id := range []string{"a", "torn"} {
		p := s.places[id]
		d.files[name].Bytes()[p.at+p.save.size()-entrySum-1] ^= 1
	}
	for start := range 4 {
		s, items := mustOpen(t, d)
		if got := idsOf(items); !slices.Equal(got[:2], []string{"a", "b"}) || len(got) != 2+start {
			t.Errorf("start %d: there is %v", start, got)
		}
		if _, err := s.read("a"); err != nil {
			t.Errorf("start %d: a: %v", start, err)
		}
		mustAdd(t, s, newItem(fmt.Sprint(start)))
	}
}

// goneDisk is a disk of which a segment goes while it is read.
type goneDisk struct {
	*memDisk
	gone func()
	once sync.Once
}

func (d *goneDisk) open(name string) (oldFile, error) {
	d.once.Do(d.gone)
	return d.memDisk.open(name)
}

// O12: who lists what waits while a mount writes sees every item.
func TestO12ListedWhileAMountWrites(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	mustAdd(t, s, newItem("a"))
	s.endTail()
	mustAdd(t, s, newItem("b"))
	_, items, err := openStore(&goneDisk{memDisk: d, gone: func() {
		e, err := s.read("a")
		if err != nil {
			t.Fatal(err)
		}
		addTogether(t, s, &e)
		s.trim()
	}}, true)
	if got := idsOf(items); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// O2: a file that could not be read stays, also when another one gets the number that it had.
func TestO2UnreadFilesStay(t *testing.T) {
	d := newMemDisk()
	for n := range 3 {
		s, _ := mustOpen(t, d)
		mustAdd(t, s, newItem("a"), newItem("b"))
		name := s.segments[0].name
		d.files[name].Bytes()[20] ^= 1
		s, _ = mustOpen(t, d)
		s.end(Clear{ID: "b"}, "ref")
		s.end(Clear{ID: "a"}, "ref")
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if len(d.files) != n+1 {
			t.Errorf("%d files are there", len(d.files))
		}
	}
}

// A disk that refuses writes for long is not filled with empty files.
func TestO2DiskThatFailsForLong(t *testing.T) {
	for _, kind := range []string{"write", "sync"} {
		d := newMemDisk()
		s, _ := mustOpen(t, d)
		d.fail = func(step diskStep) error {
			if step.kind == kind {
				return errDisk
			}
			return nil
		}
		for range 100 {
			if s.add(t.Context(), newItem("refused")) == nil {
				t.Error("it was taken")
			}
		}
		if len(d.files) > 2 || len(s.later) > 2 {
			t.Errorf("%s: %d files, %d entries", kind, len(d.files), len(s.later))
		}
	}
}

// O2: a wrong byte in the head of an item shows at the start.
func TestO2DamagedHeads(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	mustAdd(t, s, saved("a", "b"))
	s.endTail()
	mustAdd(t, s, newItem("z"))
	name := s.segments[0].name
	p := s.places["a"]
	for at := range int64(entryPrefix) + p.save.head {
		d.files[name].Bytes()[at] ^= 1
		if s, items, _ := openStore(d, true); len(items) != 1 || len(s.damaged) != 1 {
			t.Errorf("byte %d: %+v", at, items[0])
		}
		d.files[name].Bytes()[at] ^= 1
	}
}

// O2, O11: an item that the disk has damaged keeps no others on the disk.
func TestO11DamagedItemsKeepNoOthers(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	mustAdd(t, s, newItem("bad"), newItem("good"))
	again := readdressed(t, s, "bad", "another meta of bad")
	again.Apart = true
	mustAdd(t, s, again)
	p := s.places["bad"]
	d.files[s.segments[0].name].Bytes()[p.at+p.save.size()-entrySum-1] ^= 1
	for n := range 12 {
		e := newItem(fmt.Sprint(n))
		e.body = make([]byte, 2<<20)
		mustAdd(t, s, e)
		s.end(Clear{ID: e.ID}, "ref")
		s.tidy()
	}
	if s.onDisk() > 14<<20 {
		t.Errorf("%d bytes are on the disk", s.onDisk())
	}
	left, items := mustOpen(t, d)
	if got := idsOf(items); !slices.Equal(got[:2], []string{"bad", "good"}) {
		t.Errorf("there is %v", got)
	}
	if good, bad := left.check("good"), left.check("bad"); good != nil || !errors.Is(bad, errDamaged) {
		t.Errorf("%v, %v", good, bad)
	}
	if d.files["0000000000000000"+logSuffix+unreadSuffix] == nil {
		t.Error("the damaged file is gone")
	}
}

// sectorDisk is a disk of which a part of one file cannot be read.
type sectorDisk struct {
	*memDisk
	name     string
	from, to int64
}

func (d *sectorDisk) open(name string) (oldFile, error) {
	f, err := d.memDisk.open(name)
	if err != nil || name != d.name {
		return f, err
	}
	return sectorFile{f, d}, nil
}

type sectorFile struct {
	oldFile
	d *sectorDisk
}

func (f sectorFile) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) <= f.d.from || off >= f.d.to {
		return f.oldFile.ReadAt(p, off)
	}
	n, _ := f.oldFile.ReadAt(p[:max(f.d.from-off, 0)], off)
	return n, errDamaged
}

// O2: a part of the disk that cannot be read at all is damage as any other.
func TestO2SectorsThatCannotBeRead(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	for _, id := range []string{"a", "bad", "b"} {
		e := newItem(id)
		e.body = make([]byte, 3*sector)
		mustAdd(t, s, e)
	}
	name, size := s.segments[0].name, s.segments[0].size
	for from := int64(0); from < size; from += sector / 2 {
		s, items := mustOpen(t, &sectorDisk{d, name, from, from + sector})
		whole := 0
		for _, c := range items {
			if s.check(c.ID) == nil {
				whole++
			}
		}
		if whole < 1 || len(s.damaged)+len(s.torn) != 1 {
			t.Errorf("from %d: %d items are whole, damaged %v, torn %v", from, whole, s.damaged, s.torn)
		}
	}
}
