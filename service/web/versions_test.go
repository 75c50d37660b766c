package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// A save that met one of somebody else says so, and leads to the other; what another account calls one is none.
func TestConflictIsTold(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	alice.add("team", bob.id)
	alice.upload("team", "a/plan.txt", []byte("one"), nil, "")
	const name = "a/plan (conflict bob.svc.testnet 2026-11-28 10.00.0%d).txt"
	bob.upload("team", fmt.Sprintf(name, 1), []byte("two"), nil, "")
	alice.upload("team", fmt.Sprintf(name, 2), []byte("three"), nil, "")
	b := alice.browse()
	show := func(name string) {
		t.Helper()
		b.js(fmt.Sprintf("location.hash = '#/none'; location.hash = '#/file/team/' + %q.split('/').map(encodeURIComponent).join('/')", name))
		b.await("document.querySelectorAll('.versions tbody tr').length === 1")
	}
	show(fmt.Sprintf(name, 2))
	if eval[bool](b, `document.querySelector(".notice.warn") !== null`) {
		t.Error("a file of alice is told as a save of bob")
	}
	show(fmt.Sprintf(name, 1))
	b.sees("This save met one of somebody else")
	b.sees("svcfs conflicts team")
	b.fits("conflict")
	b.js(`document.querySelector(".notice.warn a").click()`)
	b.await("document.querySelector('h1').textContent === 'plan.txt'")
	if eval[bool](b, `document.querySelector(".notice.warn") !== null`) {
		t.Error("the other save is told as a conflict")
	}
}

// An older version is verified, sealed anew and saved as the newest one; what it costs is told.
func TestThreat59RestoreAVersion(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *service.Config) { cfg.MaxFileBytes = 64 << 20 })
	sent := s.listen()
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	alice.add("team", bob.id)
	const path = "a/doc.txt"
	attributes := object{"mtime": "5", "executable": true, "xattrs": object{"user.tag": "Yg=="}}
	alice.upload("team", path, []byte(marker),
		object{"version": 1, "content_type": "text/plain", "attributes": attributes}, "")
	large := []byte(strings.Repeat(marker, 130_000)) // 4.9 MB
	ref := alice.saveBlocks("team", path, large, nil, numbers(int64(len(large)+1<<16-1)>>16),
		fmt.Sprintf("%x", sumOf(large))).ref
	alice.upload("team", path, []byte("../../link"),
		object{"version": 1, "content_type": "inode/symlink", "attributes": object{"target": "../../link"}}, "")
	alice.upload("team", path, []byte("now"), nil, "")
	b := alice.browse()
	show := func(versions int) {
		t.Helper()
		b.js("location.hash = '#/none'; location.hash = '#/file/team/a/doc.txt'")
		b.await(fmt.Sprintf("document.querySelectorAll('.versions tbody tr').length === %d", versions))
	}
	restore := func(fromTheEnd int) { // of the table, whose last row is the oldest version
		t.Helper()
		older := fmt.Sprintf(
			`[...document.querySelectorAll(".versions tbody tr")].at(-%d)?.querySelector('[aria-label^="Restore the version"]')`, fromTheEnd)
		b.await(older + `?.disabled === false && !document.querySelector("dialog[open]") && ` + isDrawn)
		b.js(older + ".click()")
	}
	saved := func(rows int) {
		t.Helper()
		b.await(
			fmt.Sprintf(
				`document.querySelectorAll("#uploads li").length === %d && document.querySelector("#uploads li:last-child").textContent.includes("Saved, for 0.039 tokens")`, rows))
	}
	newest := func() wire.TransactionRow {
		t.Helper()
		rows := alice.files("team")
		return rows[len(rows)-1]
	}
	show(4)
	b.fits("versions")
	if got := eval[string](
		b,
		`Array.from(document.querySelectorAll(".versions tbody td:last-child"), (c) => c.textContent).join(", ")`); got != "is the newest, a link: make it anew with ln -s, Restore, Restore" {
		t.Errorf("offered: %s", got)
	}
	restore(1)
	b.sees("one retrieval (0.013 tokens) and one upload (0.039 tokens): 0.052 tokens. You have 9.191 tokens.")
	b.click("Cancel")
	restore(1)
	b.click("Restore for 0.052 tokens")
	saved(1)
	row := newest()
	if content, meta := alice.plain("team", row.IPFSHash); content != marker || meta.ContentType != "text/plain" ||
		row.Attributes == nil || *row.Attributes != `{"xattrs":{"user.tag":"Yg=="}}` {
		t.Errorf("%q, %+v, %+v", content, meta, row)
	}

	show(5)
	restore(2)
	b.click("Restore for 0.052 tokens")
	saved(2)
	if row = newest(); row.Content == nil || row.FileHash != fmt.Sprintf("%x", sumOf(large)) ||
		*row.OriginalSize != int64(len(large)) {
		t.Errorf("%+v", row)
	}
	if n, err := s.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != 6 {
		t.Errorf("%d files are whole: %v", n, err)
	}

	t.Run("refused", func(t *testing.T) {
		show(6)
		before := newest().Seq
		b.expect("status of 409")
		restore(1)
		b.await(button("Restore for 0.039 tokens")) // what was fetched a moment ago is paid
		alice.upload("team", path, []byte("another"), nil, "")
		b.click("Restore for 0.039 tokens")
		b.sees("Somebody saved this name meanwhile.")
		s.flipPart(ref)
		show(7)
		restore(2)
		b.click("Restore for 0.039 tokens")
		b.sees("The stored ciphertext was changed")
		alice.sql("UPDATE accounts SET balance = '1' WHERE id = '" + alice.id + "'")
		restore(1)
		b.sees("Not enough tokens")
		b.click("Understood")
		if row := newest(); row.Seq <= before || row.FileHash != fmt.Sprintf("%x", sumOf([]byte("another"))) {
			t.Errorf("%+v", row)
		}
	})
	if puts := sent.holdsNone(t); puts != 1+1+2+1 { // the first is of alice's program; nothing of what was damaged
		t.Errorf("%d requests carried content", puts)
	}
}

// A name goes to the trash and comes back on the page; who may do what is told and held.
func TestThreat46RemoveOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob, carol := s.user("alice", "10"), s.user("bob", "10"), s.user("carol", "10")
	alice.register("team")
	alice.add("team", bob.id)
	var said string
	alice.must(wire.OpAddGroupMember, wire.AddMemberRequest{GroupID: "team", MemberID: carol.id, Role: wire.RoleReader},
		&said)
	for _, content := range []string{"one", "two"} {
		alice.upload("team", "a/doc.txt", []byte(content), nil, "")
	}
	living := func() (n int) {
		for _, row := range alice.files("team") {
			if row.Deleted == nil {
				n++
			}
		}
		return n
	}
	a := alice.browse()
	a.js("location.hash = '#/members/team'")
	a.sees("owner (you): reads, saves, removes and brings back everything")
	a.sees("writer: reads and saves files, and removes its own")
	a.sees("reader: reads files, and changes nothing")
	a.await(button("Make reader: " + bob.id))
	a.sees("Changing them is free.")
	a.js("location.hash = '#/file/team/a/doc.txt'")
	a.click("Remove")
	a.sees("They can be brought back for 30 days")
	a.click("Cancel")
	if n := living(); n != 2 {
		t.Errorf("cancelled, and %d versions live", n)
	}
	a.click("Remove")
	a.click("Yes, remove, free")
	a.sees("Nothing is in this folder")
	if n := living(); n != 0 {
		t.Errorf("removed, and %d versions live", n)
	}
	a.js("history.back()")
	a.await("document.querySelectorAll('.versions .gone').length === 2")
	a.sees("bring the name back first")
	a.click("Bring back doc.txt")
	a.await(button("Remove"))
	a.click("Remove")
	a.click("Yes, remove, free")
	a.sees("Nothing is in this folder")
	a.click("team")
	a.click("Trash")
	a.sees("Bringing a name back: free.")
	a.click("Bring back a/doc.txt")
	a.sees("The trash is empty")
	if n := living(); n != 2 {
		t.Errorf("back, and %d versions live", n)
	}

	b := bob.browse()
	b.expect("status of 403")
	b.js("location.hash = '#/file/team/a/doc.txt'")
	b.click("Remove")
	b.click("Yes, remove, free")
	b.sees("can remove it")
	c := carol.browse()
	c.js("location.hash = '#/file/team/a/doc.txt'")
	c.await("document.querySelectorAll('.versions tbody tr').length === 2")
	if eval[bool](c, `/Remove|Restore|null|undefined|false/.test(document.querySelector("main").textContent)`) {
		t.Errorf("a reader is offered changes: %s", c.body())
	}
	if n := living(); n != 2 {
		t.Errorf("%d versions live at the end", n)
	}
}
