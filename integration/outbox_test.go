package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

// O2: what was closed survives kill -9 of the mount, with the service away and while it answers: it is
// recorded, once, by the next mount. Nothing readable of it is on the disk meanwhile.
func TestO2KilledMountLosesNothing(t *testing.T) {
	w, alice, bob := team(t)
	content := func(name string) []byte { return bytes.Repeat([]byte("canary "+name+"\n"), 200) }
	var names []string
	save := func(m *mount, round, n int) {
		t.Helper()
		for i := range n {
			name := fmt.Sprintf("file-%d-%d", round, i)
			write(t, m.path("team", name), content(name))
			names = append(names, name)
		}
	}
	a := alice.mount("a", "--outbox")
	if _, err := os.ReadDir(a.path("team")); err != nil {
		t.Fatal(err)
	}
	w.stop()
	save(a, 0, 30)
	for _, needle := range []string{"canary file", "file-0-1"} {
		for file := range filesWith(t, w, []byte(needle)) {
			t.Errorf("%q is in %s", needle, file)
		}
	}
	a.kill()
	w.start()
	for round := 1; round <= 3; round++ {
		m := alice.mount(fmt.Sprint("a", round), "--outbox")
		if _, err := os.ReadDir(m.path("team")); err != nil {
			t.Fatal(err)
		}
		save(m, round, 10)
		m.kill() // in the middle of sending
	}
	last := alice.mount("last", "--outbox")
	if out, code := alice.try("sync", last.dir); code != 0 {
		list, _ := alice.try("outbox", "list")
		t.Fatalf("sync: %s\n%s", out, list)
	}
	b := bob.mount("b")
	for _, name := range names {
		if got, err := os.ReadFile(b.path("team", name)); err != nil || !bytes.Equal(got, content(name)) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	var rows []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal([]byte(alice.must("ledger", "team", "--json")), &rows); err != nil ||
		len(rows) != len(names) {
		t.Errorf("%d records of %d saves, %v", len(rows), len(names), err)
	}
}

// O3, E2: with an outbox a service that comes back gets what waits, without anybody's doing.
func TestO3ServiceComesBack(t *testing.T) {
	w, alice, bob := team(t)
	a := alice.mount("a", "--outbox")
	write(t, a.path("team/first"), []byte("first"))
	alice.must("sync", a.dir)
	w.stop()
	write(t, a.path("team/first"), []byte("second"))
	of := alice.must("status", a.dir)
	for line := range strings.Lines(alice.must("status")) {
		if strings.Contains(line, a.dir) {
			of += line
		}
	}
	if strings.Contains(of, "all uploaded") || strings.Count(of, "1 not uploaded") != 2 { // O12
		t.Errorf("while a save waits, status with the folder and without says of it\n%s", of)
	}
	write(t, a.path("team/other"), []byte("other"))
	if got := string(read(t, a.path("team/first"))); got != "second" {
		t.Errorf("it holds %q", got)
	}
	if text := a.control("pending"); strings.Count(text, "/team/") != 2 {
		t.Errorf("pending: %s", text)
	}
	w.start()
	b := bob.mount("b")
	proctest.Eventually(t, "both are recorded", func() bool {
		first, _ := os.ReadFile(b.path("team/first"))
		other, _ := os.ReadFile(b.path("team/other"))
		return string(first) == "second" && string(other) == "other"
	})
	// bob may read them before the answer has come to alice
	proctest.Eventually(t, "nothing waits", func() bool { return a.control("pending") == "" })
}

// O1, O2, O3: a large file is closed while the service is away, can be read from the disk, survives kill -9 of the
// mount, also in the middle of its sending, and is recorded in its turn, once. Nothing readable of it is on the disk
// meanwhile.
func TestO2LargeFilesWait(t *testing.T) {
	w, alice, bob := team(t)
	large := bytes.Repeat([]byte("large canary 0123456789abcdefghi\n"), 12<<20/33)
	a := alice.mount("a", "--outbox")
	if _, err := os.ReadDir(a.path("team")); err != nil {
		t.Fatal(err)
	}
	w.stop()
	write(t, a.path("team/before"), []byte("before"))
	write(t, a.path("team/large"), large)
	write(t, a.path("team/after"), []byte("after"))
	if got := read(t, a.path("team/large")); !bytes.Equal(got, large) {
		t.Errorf("it holds %d bytes", len(got))
	}
	f, err := os.OpenFile(a.path("team/large"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("CHANGED"), 5<<20); err != nil { // a save upon a save that waits
		t.Fatal(err)
	}
	copy(large[5<<20:], "CHANGED")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for file := range filesWith(t, w, []byte("large canary")) {
		t.Errorf("the content is in %s", file)
	}
	a.kill()
	w.start()
	m := alice.mount("a1", "--outbox")
	m.kill() // in the middle of sending
	last := alice.mount("last", "--outbox")
	if out, code := alice.try("sync", last.dir); code != 0 {
		list, _ := alice.try("outbox", "list")
		t.Fatalf("sync: %s\n%s", out, list)
	}
	b := bob.mount("b")
	for name, content := range map[string][]byte{"before": []byte("before"), "large": large, "after": []byte("after")} {
		if got, err := os.ReadFile(b.path("team", name)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	var rows []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal([]byte(alice.must("ledger", "team", "--json")), &rows); err != nil ||
		fmt.Sprint(rows) != "[{before} {after} {large}]" {
		t.Errorf("records %v, %v", rows, err)
	}
}
