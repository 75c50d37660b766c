package outbox

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"errors"

	"golang.org/x/sys/unix"
)

func newRecord(id string) *record {
	return &record{Clear: Clear{ID: id, Account: "alice", Size: 3, Time: time.Unix(1, 0).UTC()},
		meta: []byte("meta of " + id), body: []byte("body of " + id)}
}

func mustOpen(t testing.TB, d disk) (*store, []Clear) {
	t.Helper()
	s, items, err := openStore(d, false)
	if err != nil {
		t.Fatal(err)
	}
	return s, items
}

func idsOf(items []Clear) (ids []string) {
	for _, c := range items {
		ids = append(ids, c.ID)
	}
	return ids
}

// An item that was taken survives a loss of power after every later write, whole; one that was not is
// absent or whole; one that was given up does not come back.
func TestO2PowerIsLostAfterEveryWrite(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	type fact struct {
		begin, step int // it is under way from begin on, and done from step on
		id          string
		there, sure bool
		body        string
	}
	var facts []fact
	begin := 0
	note := func(id, body string, there, sure bool) {
		facts = append(facts, fact{begin, len(d.steps), id, there, sure, body})
	}
	add := func(ids ...string) {
		begin = len(d.steps)
		var list []*record
		for _, id := range ids {
			list = append(list, newRecord(id))
		}
		s.mu.Lock()
		for _, r := range list {
			s.joins = append(s.joins, &joining{r: r, done: make(chan struct{})})
		}
		s.mu.Unlock()
		s.writeNext()
		for _, id := range ids {
			note(id, "body of "+id, true, true)
		}
	}
	add("a")
	add("b", "c", "d") // in one file
	begin = len(d.steps)
	s.remove("a")
	note("a", "body of a", false, false)
	changed, err := s.read("c")
	if err != nil {
		t.Fatal(err)
	}
	changed.body = []byte("another body of c")
	begin = len(d.steps)
	if err := s.replace(t.Context(), &changed); err != nil {
		t.Fatal(err)
	}
	note("c", "another body of c", true, true)
	begin = len(d.steps)
	if err := s.forget(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	note("b", "", false, true)
	add("e")
	begin = len(d.steps)
	s.remove("c")
	note("c", "another body of c", false, false)
	begin = len(d.steps)
	s.remove("d")
	note("d", "body of d", false, false)
	begin = len(d.steps)
	if err := s.forget(t.Context(), "e"); err != nil {
		t.Fatal(err)
	}
	note("e", "", false, true)

	n := 0
	for step := range len(d.steps) + 1 {
		for names := range 4 {
			for _, kept := range []int{0, 40, -1} {
				n++
				left := d.after(step, loss{names, kept})
				s, items, err := openStore(left, false)
				if err != nil {
					t.Fatalf("after step %d, %d names, %d bytes: %v", step, names, kept, err)
				}
				if len(s.damaged) > 0 {
					t.Fatalf("after step %d, %d names, %d bytes: damaged %v", step, names, kept, s.damaged)
				}
				now := map[string]fact{}
				for _, f := range facts {
					if f.step <= step {
						now[f.id] = f
					}
				}
				for id, f := range now {
					r, err := s.read(id)
					later := slices.ContainsFunc(facts, func(g fact) bool { return g.id == id && g.begin < step && step < g.step }) // under way
					switch {
					case later: // as it was, or as it becomes
					case f.sure && f.there && (err != nil || string(r.body) != f.body):
						t.Errorf("after step %d, %d names, %d bytes: %s has %q, %v, want %q", step, names, kept, id, r.body, err, f.body)
					case f.sure && !f.there && !errors.Is(err, fs.ErrNotExist):
						t.Errorf("after step %d, %d names, %d bytes: %s came back", step, names, kept, id)
					}
				}
				for _, c := range items {
					if _, err := s.read(c.ID); err != nil {
						t.Errorf("after step %d, %d names, %d bytes: %s: %v", step, names, kept, c.ID, err)
					}
				}
			}
		}
	}
	if n < 300 {
		t.Errorf("only %d losses", n)
	}
}

// O4: what a later item took the place of does not come back at the next start, also from a file that has
// other items; and nothing is left of it in the end.
func TestO4ReplacedSavesStayAwayFromSharedFiles(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	for _, id := range []string{"a", "b"} {
		s.joins = append(s.joins, &joining{r: newRecord(id), done: make(chan struct{})})
	}
	s.writeNext()
	s.overtake("a")
	if err := s.settle(); err != nil {
		t.Fatal(err)
	}
	for _, l := range []loss{{}, {1 << 30, -1}} {
		left := d.after(len(d.steps), l)
		s, items := mustOpen(t, left)
		if !slices.Equal(idsOf(items), []string{"b"}) {
			t.Fatalf("there is %v", idsOf(items))
		}
		s.remove("b")
		if _, items := mustOpen(t, left); len(items) != 0 || len(left.files) != 0 {
			t.Errorf("%v is left, and %d files", idsOf(items), len(left.files))
		}
	}
}

// O9: before an item is sent, no file has an earlier form of it: after the item is removed, and the power
// is lost, it would be taken for the item. A file beside it that is damaged stays, and holds up nothing.
func TestO9NoEarlierFormOfWhatIsSent(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		d := newMemDisk()
		s, _ := mustOpen(t, d)
		for _, id := range []string{"a", "b", "c"} {
			s.joins = append(s.joins, &joining{r: newRecord(id), done: make(chan struct{})})
		}
		s.writeNext()
		shared := s.places["a"].file
		changed, err := s.read("a")
		if err != nil {
			t.Fatal(err)
		}
		changed.body = []byte("another body")
		if err := s.replace(t.Context(), &changed); err != nil {
			t.Fatal(err)
		}
		if damaged {
			raw := d.files[shared].Bytes()
			raw[len(raw)-1] ^= 1
		}
		if err := s.settle(); err != nil {
			t.Fatal(err)
		}
		s.remove("a")
		if damaged {
			if _, err := s.read("b"); err != nil || d.files[shared] == nil {
				t.Errorf("beside damage: %v", err)
			}
			continue
		}
		for _, l := range []loss{{}, {1 << 30, -1}} {
			left := d.after(len(d.steps), l)
			s, items := mustOpen(t, left)
			if got := idsOf(items); !slices.Equal(got, []string{"b", "c"}) && !slices.Equal(got, []string{"a", "b", "c"}) {
				t.Errorf("there is %v", got)
			}
			if r, err := s.read("a"); err == nil && string(r.body) != "another body" {
				t.Errorf("a is back as %q", r.body)
			}
		}
	}
}

// O4: an item that a later one took the place of, while its file is written anew because of another, stays away.
func TestO4ReplacedWhileItsFileIsWrittenAnew(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	for _, id := range []string{"a", "b", "c"} {
		s.joins = append(s.joins, &joining{r: newRecord(id), done: make(chan struct{})})
	}
	s.writeNext()
	d.OnSync(func() { s.overtake("b") })
	s.writing <- struct{}{}
	if err := s.without(s.places["a"].file, "a"); err != nil {
		t.Fatal(err)
	}
	<-s.writing
	if _, err := s.read("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("b is there: %v", err)
	}
	if _, items := mustOpen(t, d.after(len(d.steps), loss{1 << 30, -1})); slices.Contains(idsOf(items), "b") {
		t.Errorf("b came back: %v", idsOf(items))
	}
}

// O10: a new form of an item that waits for the disk, while its file is written anew without another item,
// is the newest.
func TestO10RenameBesideARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemDisk()
		s, _ := mustOpen(t, d)
		for _, id := range []string{"a", "b"} {
			s.joins = append(s.joins, &joining{r: newRecord(id), done: make(chan struct{})})
		}
		s.writeNext()
		changed, err := s.read("b")
		if err != nil {
			t.Fatal(err)
		}
		changed.body = []byte("another body")
		s.writing <- struct{}{} // somebody writes
		var all sync.WaitGroup
		all.Go(func() {
			if err := s.replace(t.Context(), &changed); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := s.without(s.places["a"].file, "a"); err != nil {
			t.Fatal(err)
		}
		<-s.writing
		all.Wait()
		again, _ := mustOpen(t, d)
		for _, s := range []*store{s, again} {
			if r, err := s.read("b"); err != nil || string(r.body) != "another body" {
				t.Errorf("%q, %v", r.body, err)
			}
		}
	})
}

// Whatever fails on the disk, a save that was refused is not there later, and one that was taken is.
func TestO2DiskThatFails(t *testing.T) {
	for _, kind := range []string{"create", "write", "sync", "rename", "names"} {
		d := newMemDisk()
		s, _ := mustOpen(t, d)
		if err := s.add(t.Context(), newRecord("kept")); err != nil {
			t.Fatal(err)
		}
		d.fail = func(step diskStep) error {
			if step.kind == kind {
				return errDisk
			}
			return nil
		}
		if err := s.add(t.Context(), newRecord("refused")); !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", kind, err)
		}
		d.fail = nil
		if err := s.add(t.Context(), newRecord("later")); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if _, items := mustOpen(t, d); !slices.Equal(idsOf(items), []string{"kept", "later"}) {
			t.Errorf("%s: there is %v", kind, idsOf(items))
		}
	}
}

// Saves that wait together share one sync of content and one of names.
func TestO2SavesThatWaitTogetherShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newMemDisk()
		s, _ := mustOpen(t, d)
		s.writing <- struct{}{} // somebody writes
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if err := s.add(t.Context(), newRecord(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		<-s.writing
		all.Wait()
		if want := (map[string]int{"create": 1, "write": 1, "sync": 1, "rename": 1, "names": 1}); !maps.Equal(d.counts, want) {
			t.Errorf("8 saves took %v, want %v", d.counts, want)
		}
	})
}

// Damage is found before an item is sent, stays where it is, and concerns no other item.
func TestO2DamageOnTheDisk(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	for _, id := range []string{"a", "b"} {
		if err := s.add(t.Context(), newRecord(id)); err != nil {
			t.Fatal(err)
		}
	}
	whole := bytes.Clone(d.files[s.places["a"].file].Bytes())
	for at := range whole {
		bad := bytes.Clone(whole)
		bad[at] ^= 1
		d.files[s.places["a"].file] = bytes.NewBuffer(bad)
		s, _ := mustOpen(t, d)
		if r, err := s.read("a"); err == nil {
			t.Fatalf("a bit of byte %d is wrong, and %q was read", at, r.body)
		}
		if _, err := s.read("b"); err != nil {
			t.Fatalf("byte %d of another item: %v", at, err)
		}
		if len(d.files) != 2 {
			t.Fatalf("byte %d: the damaged file is gone", at)
		}
	}
}

// A file that is cut at any byte, which no loss of power does, is kept and told.
func TestO2CutFiles(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	if err := s.add(t.Context(), newRecord("a")); err != nil {
		t.Fatal(err)
	}
	name := s.places["a"].file
	whole := bytes.Clone(d.files[name].Bytes())
	for n := range whole {
		d.files[name] = bytes.NewBuffer(bytes.Clone(whole[:n]))
		s, items := mustOpen(t, d)
		if _, err := s.read("a"); err == nil || len(items)+len(s.damaged) == 0 || len(d.files) != 1 {
			t.Fatalf("cut at %d: %v, %d items, damaged %v", n, err, len(items), s.damaged)
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
	if err := s.add(t.Context(), newRecord("a")); err != nil {
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
	if err := s.add(t.Context(), newRecord("a")); err != nil {
		t.Fatal(err)
	}
	planted := []string{"pipe", "folder", "link", "socket"}
	for _, what := range planted {
		path := dir + "/" + what + itemsSuffix
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
		if name := what + itemsSuffix; !slices.Contains(s.damaged, name) || !slices.Contains(list, name) {
			t.Errorf("%s: damaged %v, there is %v", what, s.damaged, list)
		}
	}
}

// Threat 52: a changed position does not use up those of later saves.
func TestThreat52ChangedPosition(t *testing.T) {
	d := newMemDisk()
	s, _ := mustOpen(t, d)
	if err := s.add(t.Context(), newRecord("a")); err != nil {
		t.Fatal(err)
	}
	if err := d.Changed(func(c *Clear) { c.Position = 1<<63 - 1 }); err != nil {
		t.Fatal(err)
	}
	s, _ = mustOpen(t, d)
	for _, id := range []string{"b", "c"} {
		if err := s.add(t.Context(), newRecord(id)); err != nil {
			t.Fatal(err)
		}
	}
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
	r := newRecord("x")
	r.body = make([]byte, 4<<10)
	for i := 0; b.Loop(); i++ {
		r := *r
		r.ID, r.Position = fmt.Sprint(i), 0
		if err := s.add(b.Context(), &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen100000(b *testing.B) {
	dir := b.TempDir() + "/box"
	f, err := openFolder(dir)
	if err != nil {
		b.Fatal(err)
	}
	r := newRecord("x")
	r.body, r.meta = make([]byte, 4<<10), make([]byte, 2500)
	for i := range 100_000 {
		r.ID, r.Position = fmt.Sprintf("%032x", i), int64(i+1)
		raw, err := r.encode(nil)
		if err == nil {
			err = os.WriteFile(fmt.Sprintf("%s/%016x-0001.items", dir, i+1), raw, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, items := mustOpen(b, f); len(items) != 100_000 {
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
	save := func(id string) {
		b, err := s.newBody(id, nil)
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
		r := newRecord(id)
		r.body, r.Body = nil, b.n
		if err := s.add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		kept[id] = len(d.steps)
	}
	save("a")
	save("b")
	ended := len(d.steps)
	s.remove("a")
	if err := s.forget(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	gone := len(d.steps)
	if s.bytes() != 0 {
		t.Errorf("%d bytes are used by nothing", s.bytes())
	}
	for step := range gone + 1 {
		for names := range 4 {
			for _, bytes := range []int{0, 7, -1} {
				left := d.after(step, loss{names, bytes})
				s, items, err := openStore(left, false)
				if err != nil {
					t.Fatal(err)
				}
				there := map[string]bool{}
				for _, c := range items {
					there[c.ID] = true
					got := make([]byte, 16)
					if n, _ := s.readBody(c.ID, got, 0); string(got[:n]) != "blockblockblock" {
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
					if id, ok := strings.CutSuffix(name, bodySuffix); ok && !there[id] {
						t.Errorf("after step %d, %d names, %d bytes: %s stays", step, names, bytes, name)
					}
				}
			}
		}
	}
}
