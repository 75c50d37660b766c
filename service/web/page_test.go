package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/names/namestest"
	"github.com/svcfs/svcfs/sdk/wire"
)

func TestEveryViewIsQuietAndFits(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "100"), s.user("bob", "100")
	alice.register("team")
	alice.add("team", bob.id)
	alice.upload("team", "a-rather-long-name-without-any-place-to-break-"+strings.Repeat("x", 120)+".txt",
		[]byte("hello"), nil, "")
	bob.register("a group of bob's / with a slash")
	for _, u := range []*user{alice, bob, s.user("nobody", "0")} {
		t.Run(u.id, func(t *testing.T) {
			u := &user{&site{t: t, svc: u.svc, dir: u.dir, url: u.url}, u.id, u.key}
			b := u.browse()
			for view, shows := range map[string]string{"": "Balance", "#/account": "API key",
				"#/groups": "Open to join", "#/ledger": "Spent in 30 days"} {
				b.js("location.hash = '" + view + "'")
				b.sees(shows)
				b.fits(view)
			}
			if u.id == "alice.svc.testnet" {
				for view, shows := range map[string]string{"groups": "Upload files", "members": "Delete group",
					"trash": "The trash is empty"} {
					b.js("location.hash = '#/" + view + "/team'")
					b.sees(shows)
					b.fits(view)
				}
			}
			if title := eval[string](b, "document.title"); !strings.HasSuffix(title, "· svcfs") {
				t.Errorf("title %q", title)
			}
		})
	}
	t.Run("signed out", func(t *testing.T) {
		b := open(t, s.url+"/")
		b.sees("svcd account link NAME")
		b.fits("sign-in")
	})
	t.Run("unknown group", func(t *testing.T) {
		u := &user{&site{t: t, svc: s.svc, dir: s.dir, url: s.url}, alice.id, alice.key}
		b := u.browse()
		b.expect("status of 404")
		b.js("location.hash = '#/groups/nothing'")
		b.sees("Group not found")
	})
}

// A record of a renamed folder is told in words.
func TestRenamedFolderInWords(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "100")
	alice.register("team")
	up := alice.upload("team", "old <b>/a", []byte("a"), nil, "")
	alice.upload("team", "old <b>/b", []byte("b"), nil, "")
	var out wire.RenameFolderResult
	alice.must(wire.OpRenameFolder, wire.RenameFolderRequest{GroupID: "team", Folder: "old <b>", NewFolder: "new",
		Seq: up.Seq}, &out)
	b := alice.browse()
	b.js("location.hash = '#/ledger'")
	b.sees("Folder renamed")
	b.sees("old <b> is new now, with 2 versions of files")
}

// Attributes are told in words, and a link is only text.
func TestThreat48AttributesOnThePage(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "100")
	alice.register("team")
	const target = "javascript:alert(1)//<b>\u202egpj"
	alice.upload("team", "link", []byte(target), map[string]any{"version": 1, "content_type": "inode/symlink",
		"attributes": map[string]any{"target": target}}, "")
	up := alice.upload("team", "run", []byte("x"), map[string]any{"version": 1,
		"attributes": map[string]any{"executable": true, "mtime": "9223372036854775807"}}, "")
	b := alice.browse()
	b.js("location.hash = '#/groups/team'")
	b.sees("link to javascript:alert(1)//<b>%E2%80%AEgpj")
	b.sees("program")
	b.sees("Apr 11, 2262")
	if n := eval[int](b, "document.querySelectorAll('b, a[href^=javascript]').length"); n != 0 {
		t.Errorf("%d elements of the target", n)
	}
	var said string
	alice.must(wire.OpSetAttributes, wire.AttributesRequest{GroupID: "team", IPFSHash: up.CID,
		Attributes: json.RawMessage(`{"xattrs":{"user.a":"","user.b":""}}`)}, &said)
	b.js("location.hash = '#/ledger'")
	b.sees("Attributes set")
	b.sees("run: 2 extended attributes")
}

// fits checks that nothing makes the page scroll sideways, on a phone either.
func (b *tab) fits(view string) {
	b.t.Helper()
	for _, width := range []int64{1280, 360} {
		b.do(chromedp.EmulateViewport(width, 900))
		if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > width {
			b.t.Errorf("%s is %d wide in a window of %d", view, wide, width)
		}
	}
	b.do(chromedp.EmulateViewport(1280, 900))
}

// On a phone each file is a card, and its name has the whole width of the card.
func TestNamesHaveTheWidthOfAPhone(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "10")
	alice.register("team")
	removed := alice.upload("team", "the minutes of last year.txt", []byte("x"), nil, "")
	alice.must(wire.OpRemoveFile, wire.NameRequest{GroupID: "team", Filename: "the minutes of last year.txt",
		Seq: removed.Seq}, &wire.NameResult{})
	alice.upload("team", "the minutes of the autumn meeting.txt", []byte("x"), nil, "")
	b := alice.browse()
	b.do(chromedp.EmulateViewport(360, 900))
	for view, name := range map[string]string{"groups": "the minutes of the autumn meeting.txt",
		"trash": "the minutes of last year.txt"} {
		b.js("location.hash = '#/" + view + "/team'")
		b.sees(name)
		// Its width, that of the inside of its card, and of the box that selects it.
		w := eval[[]float64](b, `(() => {
			const name = document.querySelector(".file-name"), card = getComputedStyle(name.parentElement);
			return [name.getBoundingClientRect().width, name.parentElement.clientWidth - parseFloat(card.paddingLeft) - parseFloat(card.paddingRight),
				name.previousElementSibling ? 34 : 0];
		})()`)
		if w[0] < w[1]-w[2]-1 || w[0] < 250 {
			t.Errorf("%s: a name is %.0f wide in a card of %.0f", view, w[0], w[1])
		}
	}
}

// Names with slashes are folders, one level at a time: with links, the keyboard alone, the button
// back, and an address that can be kept.
func TestFoldersOnThePage(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "10")
	const group = "team / a#"
	alice.register(group)
	for _, name := range []string{"readme.txt", "brand/logo.svg", "brand/old/50% #1?.svg", "brand/old/50% #1?.svg"} {
		alice.upload(group, name, []byte(name), nil, "")
	}
	b := alice.browse()
	b.click("Groups")
	b.click(group + "1 memberowner")
	b.sees("readme.txt")
	names := func() string {
		t.Helper()
		return eval[string](b, `Array.from(document.querySelectorAll(".file-name"), (n) => n.textContent).join(", ")`)
	}
	if got := names(); got != "brand, readme.txt" {
		t.Errorf("at the top: %s", got)
	}
	b.tabTo("brand")
	b.press(kb.Enter)
	b.await("document.activeElement.tagName === 'H1' && document.activeElement.textContent === 'brand'")
	if got := names(); got != "old, logo.svg" {
		t.Errorf("in brand: %s", got)
	}
	if text := b.body(); strings.Contains(text, "Members (") || !strings.Contains(text, "Groups / "+group) {
		t.Errorf("a folder shows %s", text)
	}
	b.fits("folder")
	b.tabTo("old")
	b.press(kb.Enter)
	b.sees("50% #1?.svg")
	deep := eval[string](b, "location.href")
	b.tabTo("50% #1?.svg")
	b.press(kb.Enter)
	b.await("document.querySelectorAll('.versions tbody tr').length === 2")
	b.sees("Groups / " + group + " / brand / old")
	if got := eval[int](b, "document.querySelectorAll('.versions .badge').length"); got != 1 {
		t.Errorf("%d versions are the newest", got)
	}
	b.fits("file")
	b.js("history.back()")
	b.await("document.querySelector('h1').textContent === 'old'")
	b.js("history.back()")
	b.await("document.querySelector('h1').textContent === 'brand'")
	b.open("about:blank")
	b.open(deep)
	b.sees("50% #1?.svg")
	b.click("brand")
	b.sees("logo.svg")
	b.click(group)
	b.sees("readme.txt")
	b.js("location.hash += '/nowhere'")
	b.sees("Nothing is in this folder")
	b.js("location.hash = '#/file/team%20%2F%20a%23/nothing'")
	b.sees("No such file")
}

func TestLinkLeavesNoTrace(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "1")
	link := alice.link()
	_, secret, _ := strings.Cut(link, "#link=")
	b := open(t, link)
	b.sees("This link signs you in as " + alice.id + " on this browser, once.")
	if at := eval[string](b, "location.href"); strings.Contains(at, secret) {
		t.Errorf("the address still holds the secret: %s", at)
	}
	b.click("Sign in")
	b.await("document.getElementById('account')")
	if stored := eval[string](b, "JSON.stringify({...localStorage, ...sessionStorage}) + "+
		"document.cookie"); stored != "{}" {
		t.Errorf("scripts see %s", stored)
	}

	used := open(t, link)
	used.expect("status of 401")
	used.click("Sign in")
	used.sees("This link was used already")
}

func TestLinkOpenedWhileSignedIn(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "1"), s.user("bob", "1")
	b := alice.browse()
	_, fragment, _ := strings.Cut(bob.link(), "#")
	b.js("location.hash = '" + fragment + "'")
	b.sees("This link signs you in as " + bob.id + " on this browser, once.")
	b.sees("You are signed in as " + alice.id + "; that ends.")
	b.click("Manage Account")
	b.sees("Rotate this key")
	if got := eval[string](b, "document.getElementById('account').textContent"); got != alice.id {
		t.Errorf("looking at a link signed in %s", got)
	}
	b.js("location.hash = '" + fragment + "'")
	b.click("Sign in")
	b.await("document.getElementById('account')?.textContent === '" + bob.id + "'")
}

// A sign-out that did not come through is told as none.
func TestSignOutWithoutAConnection(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var breaks atomic.Bool
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if breaks.Load() {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	}
	b := s.user("alice", "1").browse()
	b.expect("ERR_EMPTY_RESPONSE")
	b.expect("ERR_CONNECTION")
	b.js(`window.told = []; new MutationObserver(() => told.push(document.getElementById("status").textContent))
		.observe(document.getElementById("status"), { childList: true })`)
	breaks.Store(true)
	b.click("Sign out")
	b.sees("That did not work. The service cannot be reached.")
	breaks.Store(false)
	b.js("location.hash = '#/groups'")
	b.sees("You own no group yet")
	if eval[bool](b, `told.includes("Signed out")`) {
		t.Error("somebody who is signed in was told that he is not")
	}
	b.click("Sign out")
	b.await(`told.includes("Signed out")`)
}

// A tab does nothing for the account that somebody signed in in another tab: it loads anew, and says so.
func TestTabActsForTheAccountThatItShows(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	alice.add("team", bob.id)
	c := bob.signedIn()
	part := s.page(http.MethodPut, "uploads/"+strings.Repeat("0a", 16)+"/"+strings.Repeat("0a", 16), nil)
	part.Header.Set("Content-Type", "application/octet-stream")
	for _, req := range []*http.Request{part, s.page(http.MethodGet, "session", nil),
		s.page(http.MethodGet, "groups", nil), s.page(http.MethodPost, "key", object{"replace": true}),
		s.page(http.MethodPost, "tools/register_group", object{"group_id": "another"})} {
		req.Header.Set("X-Svc-Account", alice.id)
		if status, body := do(t, c, req); status != http.StatusConflict || decode(t, body)["code"] != "OTHER_ACCOUNT" {
			t.Errorf("%s %s: %d %s", req.Method, req.URL.Path, status, body)
		}
	}
	b := alice.browse()
	b.expect("status of 409")
	elsewhere := func(u *user) {
		t.Helper()
		status := eval[int](b, `fetch("api/sign-in", { method: "POST", body: '{"link":"`+u.secret()+`"}',
			headers: { "X-Svc-Page": "1", "Content-Type": "application/json" } }).then((r) => r.status)`)
		if status != http.StatusOK {
			t.Fatal(status)
		}
	}
	shows := func(u, before *user) {
		t.Helper()
		b.sees("This tab showed " + before.id + ".")
		b.await(`document.getElementById("who")?.innerText.endsWith("` + u.id + `")`)
	}
	b.js("location.hash = '#/groups/team'")
	b.choose(false, `[["first.txt", "x"], ["next.txt", "x"]]`)
	b.await(button("Upload for 0.078 tokens"))
	b.js(heldRead)
	b.click("Upload for 0.078 tokens")
	b.await("window.goOn")
	elsewhere(bob)
	b.js("goOn()")
	shows(bob, alice)
	if files := alice.files("team"); len(files) != 0 {
		t.Errorf("recorded for another account: %+v", files)
	}
	b.js("location.hash = '#/account'")
	b.await(button("Rotate this key"))
	elsewhere(alice)
	b.click("Rotate this key")
	b.click("Yes, rotate key")
	shows(alice, bob)
	for _, u := range []*user{alice, bob} {
		if status, body := u.tool(wire.OpGetOwnedGroups, nil); status != http.StatusOK {
			t.Errorf("the key of %s: %d %s", u.id, status, body)
		}
	}
	b.do(chromedp.Reload())
	b.await(`document.getElementById("who")?.innerText.endsWith("` + alice.id + `")`)
	if strings.Contains(b.body(), "This tab showed") {
		t.Error("it is told again")
	}
}

func TestKeyIsShownOnceAndReplacesTheOld(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "1")
	b := alice.browse()
	b.click("Rotate this key")
	b.sees("The present key stops working at once")
	b.click("Cancel")
	if status, body := alice.tool(wire.OpGetOwnedGroups, nil); status != http.StatusOK {
		t.Errorf("cancelled, yet the key does not work: %d %s", status, body)
	}
	b.click("Rotate this key")
	b.click("Yes, rotate key")
	b.sees("The previous key is invalid.")
	key := eval[string](b, "document.getElementById('api-key').textContent")
	if !strings.HasPrefix(key, "svc_sk_") || key == alice.key {
		t.Fatalf("shown key %q", key)
	}
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		_, err := chromedp.CallBrowser(b.ctx, browser.SetPermission,
			browser.SetPermissionParams{Permission: &browser.PermissionDescriptor{Name: name},
				Setting: browser.PermissionSettingGranted, Origin: alice.url,
				BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID})
		if err != nil {
			t.Fatal(err)
		}
	}
	b.click("Copy API key")
	b.sees("Copied")
	if got := eval[string](b, "navigator.clipboard.readText()"); got != key {
		t.Errorf("the clipboard holds %q", got)
	}
	if status, _ := alice.tool(wire.OpGetOwnedGroups, nil); status != http.StatusUnauthorized {
		t.Errorf("the old key answers %d", status)
	}
	fresh := &user{alice.site, alice.id, key}
	if status, body := fresh.tool(wire.OpGetOwnedGroups, nil); status != http.StatusOK {
		t.Errorf("the new key: %d %s", status, body)
	}
	for name, leave := range map[string]chromedp.Action[chromedp.Void]{
		"another view": chromedp.Evaluate[chromedp.Void]("location.hash = '#/groups'"), "reload": chromedp.Reload()} {
		b.do(leave)
		b.await("document.querySelector('h1')")
		b.await("!document.documentElement.outerHTML.includes('" + key + "')")
		b.js("location.hash = '#/account'")
		b.sees("It cannot be shown again, only replaced.")
		if strings.Contains(b.body(), "svc_sk_") {
			t.Errorf("after %s a key is shown", name)
		}
	}
}

func TestFirstKeyIsGenerated(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "1")
	alice.sql("UPDATE accounts SET key_generation = 0")
	b := alice.browse()
	b.sees("You have none yet.")
	b.click("Generate API key")
	b.sees("Save this key now. It is not shown again.")
	key := eval[string](b, "document.getElementById('api-key').textContent")
	if status, body := (&user{alice.site, alice.id, key}).tool(wire.OpGetOwnedGroups, nil); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	b.await(button("Rotate this key"))
}

func TestGroupsOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "1")
	b := alice.browse()
	b.click("Groups")
	b.sees("You own no group yet")
	b.click("Create group")
	b.fill("name", "team")
	b.click("Create for 0.64 tokens")
	b.sees("No files yet")
	b.click("Members and settings")
	b.fill("member", "bob")
	b.click("Add for 0.013 tokens")
	b.sees("Members (2)")
	b.expect("status of 409")
	b.fill("member", "bob")
	b.click("Add for 0.013 tokens")
	b.sees("User already a member: " + bob.id)
	b.fill("member", "bobb")
	b.click("Add for 0.013 tokens")
	b.sees("Nobody is called bobb here yet")
	b.click("Understood")
	b.click("Revoke bobb.svc.testnet")
	b.click("Yes, revoke for 0.001 tokens")
	b.sees("Members (2)")
	b.click("Make reader: " + bob.id)
	b.await(button("Make writer: " + bob.id))
	if status, body := bob.tool(wire.OpPrepareUpload,
		wire.PrepareUploadRequest{GroupID: "team"}); status != http.StatusForbidden {
		t.Errorf("a reader begins an upload: %d %s", status, body)
	}
	t.Run("retention", func(t *testing.T) {
		b.click("Change retention")
		b.fill("days", "0")
		b.click("Set retention")
		b.sees("Files wait to be destroyed")
		b.sees("Files are kept for ever.")
		b.click("Keep the files")
		b.await(
			`!document.getElementById("pending-title") && !/null|undefined|false/.test(document.querySelector("main").textContent)`)
		b.click("Change retention")
		b.fill("days", "30")
		b.click("Set retention")
		b.sees("Files are kept for 30 days.")
	})
	t.Run("versions", func(t *testing.T) {
		for range 3 {
			alice.saves("team", "<b>doc</b>", []byte("x"))
		}
		b.js("location.reload()")
		b.sees("the group keeps all versions")
		b.click("Change versions")
		b.js(`document.querySelector("[name=kind]").value = ""`)
		b.fill("number", "2")
		b.click("See what would go")
		b.sees("1 version of 1 file would go for good")
		b.sees("<b>doc</b>: 1 version")
		b.fits("versions")
		b.click("Cancel")
		b.click("Change versions")
		b.js(`document.querySelector("[name=kind]").value = "d"`)
		b.fill("number", "30")
		b.click("See what would go")
		b.sees("No version that is there now would go")
		b.click("Set versions")
		b.sees("on the group keeps older versions for 30 days.")
		b.sees("the group keeps all versions")
		b.click("Keep the files")
		b.await(
			`!document.getElementById("pending-title") && !/null|undefined|false/.test(document.querySelector("main").textContent)`)
	})
	t.Run("revocation", func(t *testing.T) {
		b.click("Revoke " + bob.id)
		b.sees("What was already read cannot be taken back.")
		b.click("Yes, revoke for 0.001 tokens")
		b.sees("Members (1)")
		if status, body := bob.tool(wire.OpPrepareUpload,
			wire.PrepareUploadRequest{GroupID: "team"}); status != http.StatusForbidden {
			t.Errorf("revoked member: %d %s", status, body)
		}
	})
	t.Run("with too little money", func(t *testing.T) {
		poor := s.user("poor", "0.1")
		poor.site = &site{t: t, svc: s.svc, dir: s.dir, url: s.url}
		b := poor.browse()
		b.expect("status of 402")
		b.click("Groups")
		b.click("Create group")
		b.fill("name", "mine")
		b.click("Create for 0.64 tokens")
		b.sees("Insufficient balance")
		b.sees("svcd account fund NAME TOKENS")
		b.click("Cancel")
		b.sees("You own no group yet")
	})
}

// Threat 46: removed files are listed apart, and those who may bring them back do so.
func TestThreat46TrashOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	alice.add("team", bob.id)
	var last int64
	for _, text := range []string{"one", "two"} {
		last = alice.upload("team", "notes.txt", []byte(text), nil, "").Seq
	}
	unnamed := alice.upload("team", "", []byte("no name"), nil, "")
	var removed wire.NameResult
	alice.must(wire.OpRemoveFile, wire.NameRequest{GroupID: "team", Filename: "notes.txt", Seq: last}, &removed)
	alice.must(wire.OpRemoveFile, wire.NameRequest{GroupID: "team", IPFSHash: unnamed.CID, Seq: unnamed.Seq}, &removed)

	b := bob.browse()
	b.js("location.hash = '#/trash/team'")
	b.sees("its uploader and the owner can")
	b.fits("trash")
	b = alice.browse()
	versions := func(want string) {
		t.Helper()
		b.js("location.hash = '#/members/team'")
		b.sees(want)
		b.js("location.hash = '#/trash/team'")
	}
	versions("3 versions are there")
	b.click("Bring back notes.txt")
	b.await(`document.querySelectorAll('[aria-label="Trash"] tbody tr').length === 1`)
	versions("1 version is there")
	for _, e := range alice.files("team") {
		if name := e.Filename; e.Deleted != nil && name != nil {
			t.Errorf("%s is %+v", *name, e.Deleted)
		}
	}
	b.await(`document.querySelector('[aria-label="Trash"] button')`)
	b.js(`document.querySelector('[aria-label="Trash"] button').click()`)
	b.sees("The trash is empty")
	versions("Nothing is there.")
	b.sees("The trash is empty")
	b.await(`!/null|undefined|false|NaN/.test(document.querySelector("main").textContent)`)
	b.js("location.hash = '#/members/team'")
	b.click("Change trash")
	b.fill("days", "3")
	b.click("Set trash")
	b.sees("Removed files can be brought back for 3 days.")
}

func TestOpenGroupOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	a := alice.browse()
	a.click("Groups")
	a.click("Create group")
	a.fill("name", "open house")
	a.js("document.getElementById('f-open').click()")
	a.fill("uses", "5")
	a.js("document.getElementById('f-join_role').value = 'reader'")
	a.click("Create for 0.64 tokens")
	a.click("Members and settings")
	a.sees("0 of 5 have joined")
	a.click("Groups")
	a.click("Create group")
	a.fill("name", "open house")
	a.js("document.getElementById('f-open').click()")
	a.click("Create for 0.64 tokens")
	a.sees("There is a group called open house already. Choose another name.")
	a.click("Cancel")
	a.js("history.back()")
	a.sees("0 of 5 have joined")

	b := bob.browse()
	b.click("Groups")
	b.sees("5 places left")
	b.click("Join open house")
	b.click("Join for 0.001 tokens")
	b.await(`document.querySelector('a.item[href="#/groups/open%20house"]')`)

	b.js(`document.querySelector('a.item[href="#/groups/open%20house"]').click()`)
	b.sees("No files yet")
	b.await(`!/null|undefined|false/.test(document.querySelector("main").textContent)`)
	b.click("Members")
	b.sees("reader (you)")
	b.await(`!/null|undefined|false/.test(document.querySelector("main").textContent)`)
	b.click("Groups")
	if status, body := bob.tool(wire.OpPrepareUpload,
		wire.PrepareUploadRequest{GroupID: "open house"}); status != http.StatusForbidden {
		t.Errorf("who joined a group of readers begins an upload: %d %s", status, body)
	}

	a.click("Close join window")
	a.sees("Closed: nobody can join by themselves.")
	carol := s.user("carol", "10")
	c := carol.browse()
	c.expect("status of 403")
	c.click("Groups")
	c.sees("No group is open at the moment")
	c.fill("join", "open house")
	c.press(kb.Enter)
	c.click("Join for 0.001 tokens")
	c.sees("Join window closed")

	a.click("Open join window")
	a.fill("hours", "2")
	a.press(kb.Enter)
	a.sees("Open until")
	c.click("Join")
	c.click("Join for 0.001 tokens")
	c.sees("No files yet")
	c.click("Members")
	c.sees("Members (3)")
}

func TestThreat36HostileNamesAreOnlyText(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "10")
	names := []string{
		`<img src=x onerror="window.pwned=1">`, `"><script>window.pwned=1</script>`, `javascript:window.pwned=1`,
		`{{constructor.constructor('window.pwned=1')()}}`,
		`'onmouseover='window.pwned=1`, `<svg/onload=window.pwned=1>`, `</title><style>*{display:none}</style>`,
		`</textarea><iframe srcdoc="<script>parent.pwned=1</script>">`,
	}
	group := names[0]
	alice.register(group)
	for _, name := range names {
		alice.upload(group, name, []byte("x"), object{"version": 1, "content_type": names[0]}, "")
	}
	alice.upload(group, "photo\u202egpj.exe", []byte("x"), nil, "")
	b := alice.browse()
	for _, view := range []string{"#/groups", "#/ledger",
		"#/groups/" + strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "%20").Replace(group)} {
		b.js("location.hash = " + fmt.Sprintf("%q", view))
		b.sees(group)
	}
	for _, name := range names {
		folder, _, _ := strings.Cut(name, "/")
		b.sees(folder)
	}
	b.sees("photo%E2%80%AEgpj.exe")
	b.downloads()
	b.click("Download " + names[0])
	b.sees("Verified and saved")
	for _, name := range names {
		group, folder := url.PathEscape(group), name
		if at := strings.LastIndexByte(name, '/'); at >= 0 {
			folder = name[:at]
			b.js("location.hash = " +
				strconv.Quote("#/groups/"+group+"/"+strings.ReplaceAll(url.PathEscape(folder), "%2F", "/")))
			b.sees(name[at+1:])
		}
		b.js("location.hash = " +
			strconv.Quote("#/file/"+group+"/"+strings.ReplaceAll(url.PathEscape(name), "%2F", "/")))
		b.await("document.querySelector('h1').textContent === " +
			strconv.Quote(name[strings.LastIndexByte(name, '/')+1:]))
	}
	if eval[bool](b, "window.pwned !== undefined || document.querySelectorAll('main img, main script, main "+
		"iframe:not(.preview), main style, main svg:not(.icon)').length > 0") {
		t.Error("a name became markup")
	}
}

func TestSessionEndsWhileThePageIsOpen(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "10")
	b := alice.browse()
	b.expect("status of 401")
	alice.sql("UPDATE web_sessions SET expires_ns = 1")
	b.click("Rotate this key")
	b.click("Yes, rotate key")
	b.sees("Ask the operator of this service for a sign-in link")
}

// A name that is no file name, such as the name of a group, is escaped in the page by
// the rules of package names.
func TestThreat36PageEscapesAsTheMount(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "10")
	b := alice.browse()
	var texts []string
	for _, c := range namestest.Table() {
		if utf8.ValidString(c.Raw) {
			texts = append(texts, c.Raw)
		}
	}
	raw, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	shown := eval[[]string](b, `import("/account/text.js").then((text) => `+string(raw)+`.map(text.visible))`)
	for i, text := range texts {
		want := names.Escape(text, "")
		if want != text {
			want = names.Escape(text, "%")
		}
		if shown[i] != want {
			t.Errorf("%q is shown as %q, want %q", text, shown[i], want)
		}
	}
}

// An account with more groups than one answer holds sees them all, once each, in
// order, and groups it is a member of among them.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "2000"), s.user("bob", "10")
	bob.register("group 0500 of bob")
	bob.add("group 0500 of bob", alice.id)
	const owned = 2*500 + 1
	for i := range owned {
		alice.register(fmt.Sprintf("group %04d", i))
	}
	b := alice.browse()
	b.js("location.hash = '#/groups'")
	b.sees("Owned by you")
	listed := func(section string) []string {
		return eval[[]string](b, fmt.Sprintf("[...document.querySelectorAll('section[aria-labelledby=%q] .item "+
			".name')].map((n) => n.textContent)", section))
	}
	mine := listed("s-owned-by-you")
	if len(mine) != owned {
		t.Fatalf("%d groups are listed, want %d", len(mine), owned)
	}
	for i, name := range mine {
		if name != fmt.Sprintf("group %04d", i) {
			t.Fatalf("group %d of the list is %q", i, name)
		}
	}
	if joined := listed("s-you-are-a-member-of"); len(joined) != 1 || joined[0] != "group 0500 of bob" {
		t.Errorf("member of %q", joined)
	}
}
