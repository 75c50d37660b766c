package tree

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
)

// A2: a file whose hash nobody knows shows none.
func TestA2NoHash(t *testing.T) {
	w := team()
	e := w.Put("team", alice, "a", []byte("x"))
	w.Edit("team", e.Ref, func(e *sdk.Entry) { e.Hash, e.Content = sdk.Digest{}, sdk.ComputeHash(nil) })
	w.Put("team", alice, "b", []byte("y"))
	m := mount(t, w, bob)
	for name, want := range map[string]bool{"a": false, "b": true} {
		if _, has := m.node("/team/" + name).(*File).Xattrs()["user.svcfs.sha256"]; has != want {
			t.Errorf("%s: user.svcfs.sha256 is there: %v", name, has)
		}
	}
	text, err := m.read("/team/.svcfs/ledger.jsonl")
	ok(t, err)
	if lines := strings.Split(text, "\n"); strings.Contains(lines[0], "sha256") || !strings.Contains(lines[1], "sha256") {
		t.Errorf("ledger.jsonl: %s", text)
	}
}

// N4: the control files of a group are free, hidden and read-only.
func TestN4GroupControlFiles(t *testing.T) {
	w := team()
	w.Put("team", alice, "a", []byte("x"))
	gone := w.Put("team", bob, "docs/b.txt", []byte("yy"))
	w.Shred("team", gone.Ref)
	m := mount(t, w, bob)
	m.wantNames("/team", "a")
	m.wantNames("/team/.svcfs", "checksum", "history", "ledger.jsonl", "members", "owner")
	m.wantContent("/team/.svcfs/members", "alice.svc.testnet\nbob.svc.testnet\n")
	m.wantContent("/team/.svcfs/owner", "alice.svc.testnet\n")
	m.wantContent("/team/.svcfs/checksum", "c0ffee\n")
	text, err := m.read("/team/.svcfs/ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 2 {
		t.Fatalf("ledger.jsonl holds %q", text)
	}
	var row struct {
		Name, Uploader, SHA256 string
		Size                   int64
		Deleted                *struct{ Reason string }
	}
	if err := json.Unmarshal([]byte(lines[1]), &row); err != nil || row.Name != "docs/b.txt" || row.Size != 2 || row.Deleted == nil ||
		row.Uploader != string(bob) || row.SHA256 != gone.Hash.String() {
		t.Errorf("second row %q: %+v, %v", lines[1], row, err)
	}
	for _, name := range []string{"checksum", "ledger.jsonl", "members", "owner"} {
		f := m.node("/team/.svcfs/" + name).(*File)
		content, _ := m.read("/team/.svcfs/" + name)
		if a := f.Attr(); !a.ReadOnly || !a.Control || a.Size != int64(len(content)) {
			t.Errorf("%s: %+v for %d bytes", name, a, len(content))
		}
		_, err := f.Open(t.Context(), OpenFlags{Write: true})
		wantClass(t, err, ClassByDesign)
	}
	_, _, err = m.dir("/team/.svcfs").Create(t.Context(), "x", false, OpenFlags{Write: true})
	wantClass(t, err, ClassByDesign)
	w.Put("team", alice, "c", []byte("z"))
	m.refresh()
	if text, _ := m.read("/team/.svcfs/ledger.jsonl"); strings.Count(text, "\n") != 3 {
		t.Errorf("afterwards ledger.jsonl holds %q", text)
	}
	m.wantCharges(0, 0)
}

// N4: a service that does not answer is said so, and only when nothing is known.
func TestN4GroupControlFilesWithoutService(t *testing.T) {
	w := team()
	m := mount(t, w, bob)
	m.names("/team")
	w.Fail("members", &sdk.Error{Op: "list members", Kind: sdk.ErrNotAuthorized})
	_, err := m.lookup("/team/.svcfs/members")
	wantClass(t, err, ClassAccess)
	w.Fail("members", nil)
	m.wantContent("/team/.svcfs/members", "alice.svc.testnet\nbob.svc.testnet\n")
}

// N4: every version of a name is in its history, read-only; looking is free,
// reading one costs what reading costs.
func TestN4History(t *testing.T) {
	w := team()
	one := w.Put("team", alice, "f.txt", []byte("one"))
	two := w.Put("team", bob, "f.txt", []byte("two"))
	w.Put("team", alice, "docs/deep/g", []byte("g"))
	w.Put("team", alice, "docs", []byte("a file of that name"))
	w.Put("team", "../evil\x1b", "f.txt", []byte("three"))
	lost := w.Put("team", alice, "lost", []byte("x"))
	w.Shred("team", lost.Ref)
	m := mount(t, w, bob)
	m.wantNames("/team/.svcfs/history", "docs", "f.txt")
	want := []string{"000001-20231114T221321Z-alice.svc.testnet.txt", "000002-20231114T221322Z-bob.svc.testnet.txt",
		"000005-20231114T221325Z-..%2Fevil%1B.txt"}
	if got := m.names("/team/.svcfs/history/f.txt"); !slices.Equal(got, want) {
		t.Errorf("f.txt has the versions %v", got)
	}
	if got := allFiles(t, m.dir("/team/.svcfs/history/docs"), ""); !slices.Equal(got, []string{"000004-20231114T221324Z-alice.svc.testnet",
		"deep/g/000003-20231114T221323Z-alice.svc.testnet"}) {
		t.Errorf("docs has %v", got)
	}
	m.wantCharges(0, 0)
	dir := m.dir("/team/.svcfs/history/f.txt")
	first := m.node("/team/.svcfs/history/f.txt/" + want[0])
	m.wantContent("/team/.svcfs/history/f.txt/"+want[0], "one")
	m.wantContent("/team/.svcfs/history/f.txt/"+want[2], "three")
	m.wantContent("/team/f.txt", "three") // the same content: in memory already
	m.wantCharges(2, 0)
	_, err := first.(*File).Open(t.Context(), OpenFlags{Write: true})
	wantClass(t, err, ClassByDesign)
	wantClass(t, first.(*File).Truncate(t.Context(), 0, nil), ClassByDesign)
	wantClass(t, dir.Unlink(t.Context(), want[0]), ClassByDesign)
	wantClass(t, dir.Rename(t.Context(), want[0], m.dir("/team"), "x", false), ClassByDesign)
	w.Shred("team", one.Ref)
	m.refresh()
	if got := m.names("/team/.svcfs/history/f.txt"); !slices.Equal(got, want[1:]) {
		t.Errorf("after deleting the first: %v", got)
	}
	if again := m.node("/team/.svcfs/history/f.txt/" + want[1]); again.(*File).entry.Load().Ref != two.Ref ||
		m.node("/team/.svcfs/history/f.txt/"+want[1]) != again {
		t.Error("a version is another inode at the second look")
	}
}

// M6: 100,000 files take little memory, also when a program looks at their history.
// How long the first listing takes is a figure of make scale.
func TestM6ManyFiles(t *testing.T) {
	files := 100_000
	if raceEnabled { // takes ten times as long; the size shows nothing that a smaller one does not
		files = 20_000
	}
	w := team()
	for i := range files {
		w.Put("team", alice, fmt.Sprintf("folder-%03d/file-%05d.txt", i%500, i), nil)
	}
	m := mount(t, w, bob)
	before := heap()
	if list := m.names("/team"); len(list) != 500 {
		t.Fatalf("%d folders", len(list))
	}
	if grown := int64(heap()) - int64(before); grown > int64(files)*2<<10 {
		t.Errorf("memory grew by %s", report.ByteText(grown))
	}
	total := 0
	for _, d := range m.names("/team") {
		total += len(m.names("/team/" + d))
	}
	if total != files {
		t.Errorf("%d files", total)
	}
	if got := len(m.names("/team/.svcfs/history/folder-007")); got != files/500 {
		t.Errorf("%d names in the history", got)
	}
	m.wantCharges(0, 0)
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// N4, W9: GROUP/.svcfs/trash shows what can be brought back, and a name that is moved
// from there to where it was comes back with all its versions.
func TestN4Trash(t *testing.T) {
	w := team()
	w.Put("team", alice, "d/f.txt", []byte("one"))
	w.Put("team", alice, "d/f.txt", []byte("two"))
	w.Put("team", alice, "g", []byte("g"))
	w.Put("team", bob, "bobs", []byte("b"))
	m := mount(t, w, alice, ours)
	m.wantNames("/team/.svcfs/trash")
	for _, name := range []string{"g", "bobs"} {
		ok(t, m.dir("/team").Unlink(t.Context(), name))
	}
	ok(t, m.dir("/team/d").Unlink(t.Context(), "f.txt"))
	m.wantNames("/team/.svcfs/trash", "bobs", "d", "g")
	m.wantNames("/team/.svcfs/history")
	first := m.names("/team/.svcfs/trash/d/f.txt")[0]
	m.wantContent("/team/.svcfs/trash/d/f.txt/"+first, "one")
	trash := m.dir("/team/.svcfs/trash")
	wantClass(t, trash.Unlink(t.Context(), "g"), ClassByDesign)
	wantClass(t, trash.Rename(t.Context(), "g", m.dir("/team"), "other", false), ClassByDesign)
	wantClass(t, trash.Rename(t.Context(), "g", trash, "g", false), ClassByDesign)
	wantClass(t, trash.Rename(t.Context(), "none", m.dir("/team"), "none", false), ClassNotExist)
	wantClass(t, m.dir("/team").Rename(t.Context(), "d", trash, "d", false), ClassByDesign)
	ok(t, m.dir("/team").Rmdir(t.Context(), "d"))
	ok(t, trash.Rename(t.Context(), "d", m.dir("/team"), "d", false))
	m.wantContent("/team/d/f.txt", "two")
	m.wantNames("/team/.svcfs/history/d/f.txt", m.names("/team/.svcfs/history/d/f.txt")...)
	if n := len(m.names("/team/.svcfs/history/d/f.txt")); n != 2 {
		t.Errorf("%d versions came back", n)
	}
	ok(t, trash.Rename(t.Context(), "g", m.dir("/team"), "g", false))
	m.wantContent("/team/g", "g")
	m.wantNames("/team/.svcfs/trash", "bobs")
	ok(t, m.dir("/team").Unlink(t.Context(), "g"))
	m.refresh()
	m.wantNames("/team/.svcfs/trash", "bobs", "g")

	w.Put("team", alice, "e\n/..", []byte("escaped"))
	m.refresh()
	ok(t, m.dir("/team/e%0A").Unlink(t.Context(), "%2E%2E"))
	ok(t, m.dir("/team").Rmdir(t.Context(), "e%0A"))
	ok(t, trash.Rename(t.Context(), "e%0A", m.dir("/team"), "e%0A", false))
	m.wantContent("/team/e%0A/%2E%2E", "escaped")

	other := mount(t, w, bob, ours)
	other.wantNames("/team/.svcfs/trash", "bobs", "g")
	wantClass(t, other.dir("/team/.svcfs/trash").Rename(t.Context(), "g", other.dir("/team"), "g", false), ClassByDesign)
	if _, err := mount(t, w, bob).lookup("/team/.svcfs/trash"); err == nil {
		t.Error("a service without a trash has one")
	}
}
