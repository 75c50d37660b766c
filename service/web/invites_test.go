package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
)

// An owner makes an invite on the page, which svcfs reads, and another account joins with it on the page.
func TestInvitesOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	const group = "team é"
	alice.register(group)
	a := alice.browse()
	a.js("location.hash = '#/members/team%20%C3%A9'")
	invite := func() string {
		t.Helper()
		a.click("Make an invite")
		a.js("document.getElementById('f-invite_role').value = 'reader'")
		a.click("Make invite for 0.013 tokens")
		a.sees("It is not shown again.")
		text := eval[string](a, "document.getElementById('invite').textContent")
		a.fits("invite")
		a.click("Done")
		a.sees("For a reader")
		if strings.Contains(a.body(), text) {
			t.Error("the invite is still shown")
		}
		return text
	}
	text := invite()
	read, err := wire.ParseInvite(text)
	if err != nil || read.URL != s.url || read.Group != group || read.Contract == "" ||
		!strings.Contains(read.LogKey, "+") {
		t.Errorf("%+v, %v", read, err)
	}

	b := bob.browse()
	b.click("Groups")
	join := func(text string) {
		t.Helper()
		b.fill("join", text)
		b.js(`document.getElementById("f-join").form.requestSubmit()`)
	}
	other := read
	other.LogKey = "another+00000000+AAAA"
	other.URL = "https://other.example"
	for text, says := range map[string]string{text[:40]: "only a part of one",
		other.Text(): "another service: https://other.example",
		(wire.Invite{URL: s.url, Contract: "c", LogKey: "k", Account: "carol",
			Secret: "s"}).Text(): "svcfs setup INVITE"} {
		join(text)
		b.sees(says)
	}
	join(text)
	b.sees("Join team é?")
	b.click("Join, free")
	b.sees("You read here.")
	a.js("location.hash = '#/groups'; location.hash = '#/members/team%20%C3%A9'")
	a.sees("Members (2)")
	a.sees("No invite is open")

	carol := s.user("carol", "10").browse()
	carol.expect("status of 403")
	carol.click("Groups")
	used := invite()
	a.js(`document.querySelector("[aria-label^='Revoke the invite']").click()`)
	a.sees("No invite is open")
	for _, text := range []string{text, used} {
		carol.fill("join", text)
		carol.press(" ") // around it
		carol.js(`document.getElementById("f-join").form.requestSubmit()`)
		carol.click("Join, free")
		carol.sees("That did not work.")
	}
	a.js("location.hash = '#/ledger'")
	a.sees("Invite made")
	a.sees("for a reader, until ")
	a.sees("Invite revoked")
	if status, body := do(t, bob.signedIn(),
		s.page(http.MethodPost, "tools/invite_to_group", object{"group_id": group})); status != http.StatusForbidden {
		t.Errorf("a reader invites: %d %s", status, body)
	}
}

// A join window ends by the clock of the service, which the page shows, whatever the clock of the machine says.
func TestJoinWindowByTheClockOfTheService(t *testing.T) {
	t.Parallel()
	alice := serve(t).user("alice", "10")
	b := alice.browse()
	b.js("window.realNow = Date.now; Date.now = () => realNow() - 7 * 3600e3; location.hash = '#/groups'")
	b.click("Create group")
	b.fill("name", "default") // which asks for no group, elsewhere
	b.js("document.getElementById('f-open').click()")
	b.fill("hours", "2")
	b.click("Create for 0.64 tokens")
	b.click("Members and settings")
	b.sees("0 people have joined.")
	b.sees("The clock of the service says ")
	ends := eval[float64](b, `fetch("api/group?group=default").then((r) => r.json()).then((g) => g.window.expires_ms)`)
	if left := time.Until(time.UnixMilli(int64(ends))); left < time.Hour || left > 3*time.Hour {
		t.Errorf("the window is open for %v, not two hours", left)
	}
	b.js("location.hash = '#/groups'")
	b.click("Create group")
	b.fill("name", "default")
	b.js("document.getElementById('f-open').click()")
	b.click("Create for 0.64 tokens")
	b.sees("There is a group called default already.")
	b.click("Cancel")
	b.js("location.hash = '#/members/default'")
	b.click("Delete group")
	b.click("Yes, delete, free")
	b.sees("Files wait to be destroyed") // it is told as any other group
}
