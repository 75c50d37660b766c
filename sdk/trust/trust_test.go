package trust_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/trust"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

func open(t *testing.T, path string) *trust.Memory {
	t.Helper()
	m, err := trust.Open(path, trust.Of{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func save(t *testing.T, m *trust.Memory) {
	t.Helper()
	if err := m.Save(); err != nil {
		t.Fatal(err)
	}
}

func place(n int64, b byte) chain.Place { return chain.Place{Number: n, Hash: chain.Hash{b}} }

// What one program saw the next one holds the service to.
func TestMemoryOutlivesTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "trust.json")
	m := open(t, path)
	m.Pin("the key")
	m.Checkpoint("note of 7", 7)
	m.Checkpoint("note of 5", 5) // late
	m.SawVault(3)
	m.SawVault(2)
	m.SawGroup("secret group", place(3, 1), 0, time.Unix(100, 0))
	m.SawGroup("secret group", place(2, 9), 0, time.Unix(100, 0))
	if m.IsHeld() {
		t.Error("it is held to proofs that it never gave")
	}
	m.Hold()
	if a, b, again := m.Order("secret group"), m.Order("later"), m.Order("secret group"); a != 1 || b != 2 || again != 1 {
		t.Errorf("order %d, %d, %d", a, b, again)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = open(t, path)
	key, note := m.Log()
	if key != "the key" || note != "note of 7" || m.Group("secret group") != place(3, 1) || m.Group("unknown") != (chain.Place{}) || m.Order("later") != 2 || m.Vault() != 3 {
		t.Errorf("%q, %q, %v", key, note, m.Group("secret group"))
	}
	if !m.IsHeld() {
		t.Error("it is not held to its proofs")
	}
	raw, err := os.ReadFile(path)
	if err != nil || bytes.Contains(raw, []byte("secret")) {
		t.Errorf("the file names a group: %s, %v", raw, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Programs that run side by side learn from one another, and notice when they were
// shown two histories.
func TestThreat6ProgramsSideBySide(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trust.json")
	a, b := open(t, path), open(t, path)
	a.SawGroup("g", place(5, 1), 0, time.Unix(100, 0))
	a.SawGroup("only a", place(1, 1), 0, time.Unix(100, 0))
	a.Checkpoint("of 9", 9)
	save(t, a)
	b.SawGroup("g", place(4, 7), 0, time.Unix(100, 0))
	b.SawGroup("only b", place(2, 2), 0, time.Unix(100, 0))
	b.Pin("key")
	save(t, b)
	for name, want := range map[string]chain.Place{"g": place(5, 1), "only a": place(1, 1), "only b": place(2, 2)} {
		if got := b.Group(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if _, note := b.Log(); note != "of 9" {
		t.Errorf("checkpoint %q", note)
	}
	a.SawGroup("g", place(6, 1), 0, time.Unix(100, 0))
	b.SawGroup("g", place(6, 2), 0, time.Unix(100, 0))
	save(t, a)
	if err := b.Save(); !errors.Is(err, trust.ErrContradiction) {
		t.Errorf("two histories: %v", err)
	}
	c := open(t, path)
	c.Pin("another key")
	if err := c.Save(); !errors.Is(err, trust.ErrContradiction) {
		t.Errorf("two keys: %v", err)
	}
}

// Two records of one number are not forgotten by the next save, nor where more records follow: in one program and in
// two, until the history is forgotten.
func TestThreat6TwoRecordsOfOneNumber(t *testing.T) {
	for name, sees := range map[string]func(a, b *trust.Memory) error{
		"in one program": func(a, _ *trust.Memory) error {
			a.Checkpoint("of 9", 9)
			saw(t, a, 6, 1)
			return a.SawGroup("g", place(6, 2), 0, time.Unix(100, 0))
		},
		"in two": func(a, b *trust.Memory) error {
			saw(t, a, 6, 1)
			saw(t, b, 6, 2)
			save(t, b)
			return a.Save()
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trust.json")
			a, b := open(t, path), open(t, path)
			twice := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, trust.ErrContradiction) {
					t.Errorf("%s: %v", what, err)
				}
			}
			twice("at once", sees(a, b))
			saw(t, a, 7, 3)
			twice("saved", a.Save())
			twice("the program goes on", a.Problem())
			next := open(t, path)
			twice("the next program", next.Problem())
			next.Forget()
			save(t, next)
			if err := errors.Join(next.Problem(), open(t, path).Problem()); err != nil {
				t.Errorf("forgotten: %v", err)
			}
		})
	}
}

func saw(t *testing.T, m *trust.Memory, n int64, b byte) {
	t.Helper()
	if err := m.SawGroup("g", place(n, b), 0, time.Unix(100, 0)); err != nil {
		t.Error(err)
	}
}

// Programs of one machine learn of a key that was replaced twice at different times: neither takes the other for one
// that was shown another history.
func TestKeyThatWasReplacedTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trust.json")
	first := open(t, path)
	first.Pin("one")
	save(t, first)
	slow, late := open(t, path), open(t, path)
	slow.Succeed([]string{"two"})
	late.Succeed([]string{"two", "three"})
	for _, m := range []*trust.Memory{slow, late, slow} {
		save(t, m)
	}
	if key, _ := open(t, path).Log(); key != "three" {
		t.Errorf("the key is %q", key)
	}
}

// How long a record has waited for a checkpoint is remembered across programs.
func TestThreat6WaitingForACheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trust.json")
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	a, b := open(t, path), open(t, path)
	a.SawGroup("g", place(5, 1), 3, at(100))
	save(t, a)
	b.SawGroup("g", place(6, 2), 3, at(107))
	save(t, b)
	if proven, since := b.Waiting("g"); proven != 3 || !since.Equal(at(100)) {
		t.Errorf("%d, %v", proven, since)
	}
	b.SawGroup("g", place(6, 2), 5, at(108))
	if proven, since := b.Waiting("g"); proven != 5 || !since.Equal(at(108)) {
		t.Errorf("one is left: %d, %v", proven, since)
	}
	b.SawGroup("g", place(6, 2), 6, at(109))
	save(t, b)
	if proven, since := open(t, path).Waiting("g"); proven != 6 || !since.IsZero() {
		t.Errorf("none is left: %d, %v", proven, since)
	}
}

func TestManyProgramsBeginAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trust.json")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			m, err := trust.Open(path, trust.Of{})
			if err != nil {
				t.Error(err)
				return
			}
			m.SawGroup(strings.Repeat("g", i+1), place(int64(i+1), 1), 0, time.Unix(100, 0))
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	m := open(t, path)
	for i := range 8 {
		if got := m.Group(strings.Repeat("g", i+1)); got.Number != int64(i+1) {
			t.Errorf("group %d: %v", i, got)
		}
	}
}

// After an honest restore of a backup everything is given up at once, also by a
// program that still runs; the order of groups stays.
func TestForget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trust.json")
	running := open(t, path)
	running.Pin("key")
	running.SawGroup("g", place(5, 1), 0, time.Unix(100, 0))
	running.Order("g")
	running.SawVault(2)
	save(t, running)
	m := open(t, path)
	m.Forget()
	save(t, m)
	running.SawGroup("g", place(9, 3), 0, time.Unix(100, 0)) // of the history that was given up
	save(t, running)
	if key, _ := running.Log(); key != "key" || running.Group("g") != (chain.Place{}) || running.Order("g") != 1 || running.Vault() != 0 {
		t.Errorf("%q, %v", key, running.Group("g"))
	}
}

// Remove forgets a service for all its accounts, and no other service.
func TestRemoveForgetsAllAccountsOfAService(t *testing.T) {
	dir := t.TempDir()
	for _, of := range []trust.Of{{Service: "https://a", Account: "alice"}, {Service: "https://a", Account: "bob"}, {Service: "https://b", Account: "alice"}} {
		m, err := trust.Open(filepath.Join(dir, of.FileName("svc.testnet")), of)
		if err != nil {
			t.Fatal(err)
		}
		m.Pin("key")
		save(t, m)
	}
	accounts, err := trust.Remove(dir, "https://a")
	slices.Sort(accounts)
	if err != nil || !slices.Equal(accounts, []string{"alice", "bob"}) {
		t.Errorf("%q, %v", accounts, err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "trust-*.json"))
	if want := filepath.Join(dir, trust.Of{Service: "https://b", Account: "alice"}.FileName("svc.testnet")); !slices.Equal(left, []string{want}) {
		t.Errorf("left %q, want %q", left, want)
	}
	if accounts, err := trust.Remove(dir, "https://a"); len(accounts) > 0 || err != nil {
		t.Errorf("again: %q, %v", accounts, err)
	}
}

// A file that svcfs did not write is not obeyed, and not replaced.
func TestDamagedFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	m := open(t, good)
	m.Pin("key")
	save(t, m)
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"empty": "", "cut": string(raw[:len(raw)/2]), "other": "{}", "version": strings.Replace(string(raw), `"version":1`, `"version":2`, 1)} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := trust.Open(path, trust.Of{}); !errors.Is(err, trust.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Chmod(good, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.Open(good, trust.Of{}); !errors.Is(err, trust.ErrDamaged) {
		t.Errorf("writable by all: %v", err)
	}
	if err := os.Chmod(good, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.Open(link, trust.Of{}); !errors.Is(err, trust.ErrDamaged) {
		t.Errorf("a link: %v", err)
	}
}

// A folder that cannot be written to keeps nobody from working; what is not
// remembered is said.
func TestNowhereToRemember(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := trust.Open(filepath.Join(file, "below", "trust.json"), trust.Of{})
	if err == nil {
		m.Pin("key")
		err = m.Save()
	}
	if err == nil || errors.Is(err, trust.ErrContradiction) {
		t.Errorf("got %v", err)
	}
	nothing := open(t, "")
	nothing.Pin("key")
	if err := nothing.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzFile: whatever is in the file, it is refused or read, and saving it again
// gives what can be read.
func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"salt":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","groups":{"x":{"number":-1,"hash":"zz"}}}`))
	f.Add([]byte(`{"version":1,"salt":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","size":9223372036854775807,"held":true}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := trust.Open(path, trust.Of{})
		if err != nil {
			return
		}
		m.Pin("key")
		m.SawGroup("g", place(3, 1), 0, time.Unix(100, 0))
		_ = m.Group("g")
		if err := m.Save(); err == nil {
			if _, err := trust.Open(path, trust.Of{}); err != nil {
				t.Errorf("%q: %v", raw, err)
			}
		}
	})
}

// rootOf is a root of names that was signed.
func rootOf(number int64, root string) trust.Names {
	n := trust.Names{Nonce: "nonce"}
	n.Number, n.Hash, n.Root, n.Signature = number, "hash", root, "signature of "+root
	return n
}

// Two roots of names at one place contradict each other, in one program and in two; both are kept, with their
// signatures, until the history is forgotten.
func TestThreat76TwoRootsOfNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trust.json")
	a, b := open(t, path), open(t, path)
	for _, m := range []*trust.Memory{a, b} {
		if err := m.SawNames("g", rootOf(7, "seven")); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(a.SawNames("g", rootOf(8, "eight")), a.SawNames("h", rootOf(8, "other"))); err != nil {
		t.Error(err)
	}
	save(t, a)
	if err := b.SawNames("g", rootOf(8, "nine")); err != nil {
		t.Errorf("nothing is known of 8: %v", err)
	}
	save(t, b)
	save(t, a)
	for _, m := range []*trust.Memory{b, open(t, path)} {
		if !errors.Is(m.Problem(), trust.ErrContradiction) {
			t.Errorf("the problem is %v", m.Problem())
		}
		want := []trust.Names{rootOf(7, "seven"), rootOf(8, "nine"), rootOf(8, "eight")}
		if got := m.Names("g"); !slices.Equal(got, want) {
			t.Errorf("it has %v", got)
		}
	}
	c := open(t, path)
	c.Forget()
	save(t, c)
	b.Hold()
	save(t, b)
	if got := open(t, path).Names("g"); c.Problem() != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, c.Problem())
	}
}

// Of a group a few roots of names are remembered, the newest among them, and none twice.
func TestNamesAreBounded(t *testing.T) {
	m := open(t, "")
	for n := range int64(100) {
		for range 2 {
			if err := m.SawNames("g", rootOf(n+1, "root")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if list := m.Names("g"); len(list) != 8 || list[7] != rootOf(100, "root") {
		t.Errorf("it has %v", list)
	}
}
