package web_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// names are those of the table of files, as they stand.
func (b *tab) names() string {
	b.t.Helper()
	return eval[string](
		b,
		`Array.from(document.querySelectorAll('[aria-label="Files"] tbody th'), (n) => n.querySelector("a, span").textContent).join(", ")`)
}

// Folders and files are in one table, which sorts and filters by the keyboard alone.
func TestFilesAreSortedAndFiltered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	alice.add("team", bob.id)
	for i, name := range []string{"File 10.txt", "file 2.txt", "Zoo/x", "art/y"} {
		[]*user{alice, bob}[i%2].upload("team", name, random(2000-100*i),
			object{"version": 1, "attributes": object{"mtime": fmt.Sprint(int64(i+1) * 86_400e9)}}, "")
	}
	b := alice.browse()
	b.js("location.hash = '#/groups/team'")
	b.await(button("Size"))
	if got := b.names(); got != "art, Zoo, file 2.txt, File 10.txt" {
		t.Errorf("at first: %s", got)
	}
	sort := func(by, want string) {
		t.Helper()
		b.tabTo(by)
		b.press(kb.Enter)
		if got := b.names(); got != want {
			t.Errorf("by %s: %s", by, got)
		}
		if focused := b.focused(); focused != by {
			t.Errorf("then the focus is on %q", focused)
		}
	}
	sort("Size", "art, Zoo, file 2.txt, File 10.txt")
	b.press(kb.Enter)
	if got := b.names(); got != "art, Zoo, File 10.txt, file 2.txt" {
		t.Errorf("the largest first: %s", got)
	}
	if got := eval[string](
		b,
		`Array.from(document.querySelectorAll("[aria-sort]"), (e) => e.textContent + " " + e.getAttribute("aria-sort")).join()`); got != "Size descending" {
		t.Error(got)
	}
	sort("Changed", "art, Zoo, File 10.txt, file 2.txt")
	sort("Saved by", "art, Zoo, file 2.txt, File 10.txt")
	b.await(`document.querySelector("[title='bob.svc.testnet']").textContent === "bob"`)
	b.js("document.getElementById('f-filter').focus()")
	b.press("E", " ", "1")
	b.sees("1 of 4 names shown")
	if got := b.names(); got != "File 10.txt" {
		t.Errorf("filtered: %s", got)
	}
	b.fits("filter")
	b.press(kb.Enter) // sends nothing
	b.js("window.dispatchEvent(new Event('uploaded'))")
	b.js("location.hash = '#/groups/team/art'")
	b.await("document.querySelector('h1').textContent === 'art'")
	if got := b.names(); got != "y" {
		t.Errorf("the filter of another folder: %s", got)
	}
}

// What has not come yet is fetched when it is looked for.
func TestFilterLooksThroughAll(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "100")
	alice.register("team")
	for i := range 230 {
		alice.upload("team", fmt.Sprintf("file %03d", i), []byte(strings.Repeat("x", i)), nil, "")
	}
	b := alice.browse()
	b.js("location.hash = '#/groups/team'")
	b.sees("100 names of more")
	b.click("Show more")
	b.sees("200 names of more")
	b.await(`document.activeElement.textContent === "file 100"`)
	b.click("Size")
	b.click("Size")
	b.await(`document.querySelector(".files tbody a").textContent === "file 229"`)
	b.js("document.querySelector(\"[aria-label='Select file 229']\").focus(); location.hash = '#/groups'")
	b.await("document.querySelector('h1').textContent === 'Groups'")
	b.js("location.hash = '#/groups/team'") // in that order again, which needs all
	b.await(`document.querySelectorAll(".files tbody tr").length === 230`)
	if got := eval[string](b, "document.activeElement.tagName"); got != "H1" {
		t.Errorf("rows that came took the focus to a %s", got)
	}
	b.open("about:blank")
	b.open(s.url + "/account/#/groups/team")
	b.fill("filter", "229")
	b.sees("1 of 230 names shown")
	b.fill("filter", "none of them")
	b.sees("0 of 230 names shown")
}

// living are the recorded names of the files of a group that live, one for each version.
func (u *user) living(group string) (names []string) {
	u.t.Helper()
	for _, row := range u.files(group) {
		if row.Deleted == nil {
			names = append(names, *row.Filename)
		}
	}
	slices.Sort(names)
	return names
}

// Folders are made, and what is selected is saved or removed, by the keyboard alone.
func TestSelectionOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	var said string
	alice.must(wire.OpAddGroupMember, wire.AddMemberRequest{GroupID: "team", MemberID: bob.id, Role: wire.RoleReader},
		&said)
	for _, name := range []string{"a.txt", "a.txt", "b.txt", "c.txt", "old/deep/x", "old/y"} {
		alice.upload("team", name, []byte(name), nil, "")
	}
	b := alice.browse()
	b.js("location.hash = '#/groups/team'")
	b.tabTo("New folder")
	b.press(kb.Enter)
	b.await("document.activeElement.id === 'f-folder'")
	b.press("a/b", kb.Enter)
	b.sees("a name is without a slash")
	b.press(kb.Backspace, kb.Backspace, kb.Backspace, " new ", kb.Enter)
	b.await(`document.querySelectorAll(".files tbody tr").length === 5`)
	b.await(`document.activeElement.tagName === "H1"`)
	if got := b.names(); got != "new, old, a.txt, b.txt, c.txt" {
		t.Errorf("with a new folder: %s", got)
	}
	b.expect("status of 409")
	b.click("New folder")
	b.fill("folder", "b.txt")
	b.press(kb.Enter)
	b.sees("is that of a file")
	b.press(kb.Escape)

	downloads := b.downloads()
	b.tabTo("Select a.txt")
	b.press(" ")
	b.tabTo("Select b.txt")
	b.press(" ")
	b.sees("2 selected")
	b.fits("selection")
	b.click("Download")
	b.click("Download for 0.026 tokens")
	for _, name := range []string{"a.txt", "b.txt"} {
		proctest.Eventually(t, name+" is downloaded", func() bool {
			got, err := os.ReadFile(filepath.Join(downloads, name))
			return err == nil && bytes.Equal(got, []byte(name))
		})
	}
	b.click("Clear")
	b.await(`document.querySelector(".selection").hidden`)
	b.fill("filter", "a")
	b.js(`document.querySelector("[aria-label='Select all shown']").click()`)
	b.sees("1 selected")
	b.js("document.getElementById('f-filter').value = 'b'; document.getElementById('f-filter').dispatchEvent(new " +
		"Event('input'))")
	b.await(`document.querySelector(".selection").hidden`) // what is not seen is not selected
	b.js("document.getElementById('f-filter').value = ''; document.getElementById('f-filter').dispatchEvent(new " +
		"Event('input'))")
	for _, name := range []string{"new", "old", "a.txt"} {
		b.js(`document.querySelector("[aria-label='Select ` + name + `']").click()`)
	}
	b.click("Remove")
	b.sees("Remove 3 files and 3 folders?")
	b.sees("All versions go to the trash.")
	b.click("Cancel")
	if got := len(alice.living("team")); got != 6 {
		t.Errorf("cancelled, and %d versions live", got)
	}
	b.expect("status of 404") // folders that were there by their files alone
	b.click("Remove")
	b.click("Yes, remove, free")
	b.await(`document.querySelectorAll(".files tbody .pick").length === 2`)
	if got := fmt.Sprint(b.names(), alice.living("team")); got != "b.txt, c.txt[b.txt c.txt]" {
		t.Errorf("removed: %s", got)
	}

	r := bob.browse()
	r.js("location.hash = '#/groups/team'")
	r.await(button("Download b.txt"))
	r.js(`document.querySelector("[aria-label='Select all shown']").click()`)
	r.sees("2 selected")
	if eval[bool](r, "Boolean("+button("Remove")+" || "+button("New folder")+")") {
		t.Error("a reader is offered changes")
	}
}

// Files and folders of the desktop are dropped on the table, or on a folder in it.
func TestDropOnThePage(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "10")
	alice.register("team")
	alice.upload("team", "brand/logo.svg", []byte("x"), nil, "")
	dir := filepath.Join(t.TempDir(), "trip")
	for _, name := range []string{"notes.txt", "days/1.txt", "days/2.txt"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := alice.browse()
	b.js("location.hash = '#/groups/team'")
	drop := func(on string, files ...string) {
		t.Helper()
		b.await(isDrawn + " && " + on)
		at := eval[[]float64](b, "(() => { const r = "+on+".getBoundingClientRect(); return [r.x + r.width / 2, r.y "+
			"+ r.height / 2]; })()")
		for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter,
			input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
			_, err := chromedp.Call(b.ctx, input.DispatchDragEvent,
				input.DispatchDragEventParams{Type: kind, X: at[0], Y: at[1],
					Data: &input.DragData{Items: []*input.DragDataItem{}, Files: files, DragOperationsMask: 1}})
			if err != nil {
				t.Fatal(err)
			}
			if kind == input.DispatchDragEventTypeDragOver && !eval[bool](b, on+`.closest(".drop") !== null`) {
				t.Error("it is not shown where files would go")
			}
		}
	}
	drop(`document.querySelector("tr[data-folder=brand] a")`, filepath.Join(dir, "notes.txt"))
	b.click("Upload for 0.039 tokens")
	b.await(`document.querySelectorAll("#uploads li").length === 1 && !document.querySelector("#uploads progress")`)
	drop(`document.querySelector(".files thead")`, dir)
	b.sees("trip/days/1.txt")
	b.click("Upload for 0.117 tokens")
	b.await(`document.querySelectorAll("#uploads li").length === 4 && !document.querySelector("#uploads progress")`)
	if got := fmt.Sprint(alice.living("team")); got != "[brand/logo.svg brand/notes.txt trip/days/1.txt "+
		"trip/days/2.txt trip/notes.txt]" {
		t.Errorf("the group holds %s", got)
	}
	if eval[bool](b, `document.querySelector(".drop") !== null`) {
		t.Error("something still waits for a drop")
	}
}

// Files with all their versions, and folders, are renamed and moved on the page, also by dragging them.
func TestMovesOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	alice.add("team", bob.id)
	for _, name := range []string{"a.txt", "a.txt", "b.txt", "old/x", "old/deep/y", "papers/z"} {
		alice.upload("team", name, []byte(name), nil, "")
	}
	b := alice.browse()
	b.js("location.hash = '#/groups/team'")
	holds := func(want string) {
		t.Helper()
		b.await(`!document.querySelector("dialog") && document.querySelector(".selection").hidden && ` + isDrawn)
		if got := fmt.Sprint(alice.living("team")); got != want {
			t.Errorf("the group holds %s, want %s", got, want)
		}
	}
	pick := func(names ...string) {
		t.Helper()
		for _, name := range names {
			b.await(`document.querySelector("[aria-label='Select ` + name + `']")`)
			b.js(`document.querySelector("[aria-label='Select ` + name + `']").click()`)
		}
	}
	pick("a.txt")
	b.click("Rename")
	b.fill("rename", "b.txt")
	b.press(kb.Enter)
	b.sees("There is something called b.txt already.")
	for name, says := range map[string]string{"..": "not . or ..", "a/b": "a name is without a slash",
		strings.Repeat("ü", 128): "longer than 255 bytes"} {
		b.fill("rename", name)
		b.press(kb.Enter)
		b.sees(says)
	}
	b.fill("rename", "c.txt")
	b.press(kb.Enter)
	b.sees("c.txt")
	holds("[b.txt c.txt c.txt old/deep/y old/x papers/z]")
	pick("old")
	b.click("Rename")
	b.fill("rename", "new")
	b.press(kb.Enter)
	b.await(`document.querySelector("[data-folder=new]")`)
	holds("[b.txt c.txt c.txt new/deep/y new/x papers/z]")
	pick("new", "c.txt")
	b.click("Move")
	b.fill("into", "new/deep")
	b.press(kb.Enter)
	b.sees("new cannot be moved into itself.")
	b.fill("into", "papers/../b")
	b.press(kb.Enter)
	b.sees("not . or ..")
	b.fill("into", "papers/2026/")
	b.press(kb.Enter)
	b.await(`document.querySelectorAll(".files tbody tr").length === 2`)
	holds("[b.txt papers/2026/c.txt papers/2026/c.txt papers/2026/new/deep/y papers/2026/new/x papers/z]")

	b.js(`(() => {
		const data = new DataTransfer(), from = document.querySelector(".files tbody tr:last-child"), to = document.querySelector("[data-folder=papers] a");
		const send = (on, kind) => on.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
		send(from, "dragstart");
		window.taken = !send(to, "dragover");
		window.marked = document.querySelector("tr.drop") !== null;
		send(to, "drop");
		send(from, "dragend");
	})()`)
	if !eval[bool](b, "taken && marked") {
		t.Error("a folder does not take a file")
	}
	b.await(`document.querySelectorAll(".files tbody tr").length === 1`)
	holds("[papers/2026/c.txt papers/2026/c.txt papers/2026/new/deep/y papers/2026/new/x papers/b.txt papers/z]")
	if eval[bool](b, `document.querySelector(".drop") !== null`) {
		t.Error("something still waits for a drop")
	}

	r := bob.browse()
	r.expect("status of 403")
	r.js("location.hash = '#/groups/team/papers'")
	r.await(`document.querySelector("[aria-label='Select z']")`)
	r.js(`document.querySelector("[aria-label='Select z']").click()`)
	r.click("Rename")
	r.fill("rename", "mine")
	r.press(kb.Enter)
	r.sees("That did not work.")
	holds("[papers/2026/c.txt papers/2026/c.txt papers/2026/new/deep/y papers/2026/new/x papers/b.txt papers/z]")
}

// hurry has the page wait for nothing before it tries again.
const hurry = `window.setTimeout = ((real) => (then) => real(then))(window.setTimeout)`

// A rename that breaks leaves all versions under one name, the newest as such, and a move that broke is repeated from
// its dialog.
func TestRenamesThatBreakOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var calls, refusedFrom, refusedTo, busy, lost atomic.Int32 // by their number
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.Contains(r.URL.Path, "/rename_") {
			next.ServeHTTP(w, r)
			return
		}
		switch n := calls.Add(1); {
		case n == busy.Load():
			http.Error(w, `{"error":"busy","code":"UNAVAILABLE"}`, http.StatusServiceUnavailable)
		case n == lost.Load():
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case n >= refusedFrom.Load() && n <= refusedTo.Load():
			http.Error(w, `{"error":"refused","code":"VALIDATION_FAILED"}`, http.StatusBadRequest)
		default:
			next.ServeHTTP(w, r)
		}
	}
	breaks := func(refusals ...int32) {
		calls.Store(0)
		refusedFrom.Store(refusals[0])
		refusedTo.Store(refusals[len(refusals)-1])
	}
	alice := s.user("alice", "10")
	alice.register("team")
	c := alice.signedIn()
	newest := ""
	for _, name := range []string{"report", "report", "report", "report", "a.txt", "b.txt", "old/x"} {
		ref := alice.upload("team", name, []byte(name), nil, "").CID
		if name == "report" {
			newest = ref
		}
	}
	holds := func(report, want string) {
		t.Helper()
		if got := fmt.Sprint(alice.living("team")); got != want {
			t.Errorf("the group holds %s, want %s", got, want)
		}
		if head := list(s.get(c, "names?group=team&name="+report)["names"])[0]["head"]; head != newest {
			t.Errorf("the newest version of %s is another", report)
		}
	}
	b := alice.browse()
	for _, text := range []string{"status of 400", "status of 503", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION"} {
		b.expect(text)
	}
	b.js("location.hash = '#/groups/team'; " + hurry)
	pick := func(names ...string) {
		t.Helper()
		for _, name := range names {
			b.await(`document.querySelector("[aria-label='Select ` + name + `']")`)
			b.js(`document.querySelector("[aria-label='Select ` + name + `']").click()`)
		}
	}
	pick("report")
	b.click("Rename")
	breaks(3)
	b.fill("rename", "final")
	b.press(kb.Enter)
	b.sees("Refused.")
	b.await(`!document.querySelector("dialog button:disabled")`)
	holds("report", "[a.txt b.txt old/x report report report report]")
	breaks(3, 4, 5)
	b.press(kb.Enter)
	b.sees("Of 4 versions the oldest 2 may have the new name now. Give all the same name again.")
	holds("report", "[a.txt b.txt final final old/x report report]")
	breaks(0)
	busy.Store(1)
	lost.Store(2)
	b.press(kb.Enter)
	b.await(`!document.querySelector("dialog") && ` + isDrawn)
	holds("final", "[a.txt b.txt final final final final old/x]")

	busy.Store(0)
	breaks(6, 7)
	lost.Store(1)
	pick("final", "a.txt", "old", "b.txt")
	b.click("Move")
	b.fill("into", "papers")
	b.press(kb.Enter)
	b.sees("Refused.")
	b.click("Move")
	b.await(`!document.querySelector("dialog") && ` + isDrawn)
	holds("papers/final", "[papers/a.txt papers/b.txt papers/final papers/final papers/final papers/final "+
		"papers/old/x]")
}

// A folder is saved with what is in it, where the browser can: each file once it is verified, and over nothing.
func TestDownloadOfFolders(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "10")
	alice.register("team")
	for _, name := range []string{"top/my trip/a.txt", "top/my trip/days/1.txt", "top/my trip/.mine", "top/b.txt"} {
		alice.upload("team", name, []byte(name), nil, "")
	}
	bob := s.user("bob", "10")
	alice.add("team", bob.id)
	for _, name := range []string{"top/my trip/.git/config", "top/my trip/days/.envrc", "top/.named"} {
		bob.upload("team", name, []byte(name), nil, "")
	}
	b := alice.browse()
	b.js("location.hash = '#/groups/team/top'; window.showDirectoryPicker = undefined")
	b.await(`document.querySelector("[aria-label='Select all shown']")`)
	b.js(`document.querySelector("[aria-label='Select all shown']").click()`)
	b.click("Download")
	b.sees("nothing was charged. Use: svcfs get team 'top/my trip'")
	// The browser's own dialog is not there for tests: its private folder takes what is saved.
	b.js("window.showDirectoryPicker = () => navigator.storage.getDirectory()")
	b.click("Download")
	b.sees("Download 5 files?")
	const left = "Left out: 2 hidden files of other accounts. Use: svcfs get team 'top/my trip' --hidden -o DIR"
	b.sees(left)
	b.click("Download for 0.065 tokens")
	b.sees("5 files verified and saved. " + left)
	const saved = `(async () => {
		const found = [];
		const walk = async (folder, at) => {
			for await (const [name, e] of folder) {
				if (e.kind === "directory") await walk(e, at + name + "/");
				else found.push(at + name + "=" + await (await e.getFile()).text());
			}
		};
		await walk(await navigator.storage.getDirectory(), "");
		return found.sort().join(", ");
	})()`
	const want = ".named=top/.named, b.txt=top/b.txt, my trip/.mine=top/my trip/.mine, " +
		"my trip/a.txt=top/my trip/a.txt, my trip/days/1.txt=top/my trip/days/1.txt"
	if got := eval[string](b, saved); got != want {
		t.Errorf("saved %s", got)
	}
	b.click("Download")
	b.click("Download, free")
	b.sees("is there already on this machine, and stays as it is.")
	s.flip(alice.upload("team", "top/bad/x.bin", random(70_000), nil, "").CID)
	b.js("location.hash = '#/groups'; location.hash = '#/groups/team/top'")
	b.await(`document.querySelector("[aria-label='Select bad']")`)
	b.js(`document.querySelector("[aria-label='Select bad']").click()`)
	b.click("Download")
	b.click("Download for 0.013 tokens")
	b.sees("The stored ciphertext was changed")
	if got := eval[string](b, saved); got != want {
		t.Errorf("then saved are %s", got)
	}
}
