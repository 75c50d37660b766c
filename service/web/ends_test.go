package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// A member leaves, a member becomes the owner, and a group is deleted, all on the page.
func TestGroupsEndOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice, bob, carol := s.user("alice", "10"), s.user("bob", "10"), s.user("carol", "10")
	alice.register("team")
	for _, u := range []*user{bob, carol} {
		alice.add("team", u.id)
	}
	c := carol.browse()
	c.js("location.hash = '#/members/team'")
	c.click("Leave group")
	c.sees("Only its owner can add you again.")
	c.click("Yes, leave")
	c.sees("Nobody added you yet")

	a := alice.browse()
	a.js("location.hash = '#/members/team'")
	a.sees("Members (2)")
	a.click("Make owner: " + bob.id)
	a.click("Yes, offer, free")
	a.sees("The group is offered to another owner")
	a.click("Take the offer back")
	a.await(`!document.getElementById("offer-title")`)
	a.click("Make owner: " + bob.id)
	a.click("Yes, offer, free")
	a.sees("The group is offered to another owner")
	a.fits("offer")
	a.click("Delete group")
	a.sees("2 members lose the group")
	a.click("Yes, delete, free")
	a.sees("The group is deleted with all its files at")
	a.js("location.hash = '#/ledger'")
	a.sees("the whole group, until ")
	a.sees("who may become the owner from ")
	a.sees("to nobody any more")

	b := bob.browse()
	b.js("location.hash = '#/members/team'")
	b.expect("status of 409")
	b.click("Become the owner")
	b.sees("can be accepted from")
	s.sql("UPDATE groups SET offer_from_ns = 1")
	b.click("Become the owner")
	b.await(`!document.getElementById("offer-title") && !document.getElementById("pending-title")`)
	b.await(
		`document.body.innerText.includes("adds and revokes members") && document.querySelector(".badges").innerText.includes("owner")`)
}

// A deletion is told as one, also where the page does not learn what is left of the group.
func TestDeletionIsToldOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.DestructionDelay = -1 })
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, wire.OpAuthStatus) {
			http.Error(w, `{"error":"busy","code":"UNAVAILABLE"}`, http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	}
	alice := s.user("alice", "10")
	alice.register("team")
	a := alice.browse()
	a.js("location.hash = '#/members/team'")
	a.expect("status of 503")
	a.click("Delete group")
	a.click("Yes, delete, free")
	a.sees("You own no group yet")
}

// Threat 45: a group that ended at once is gone from the page and from the history of its members.
func TestThreat45GroupEndsOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.DestructionDelay = -1 })
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	alice.add("team", bob.id)
	alice.upload("team", "a secret name", []byte("content"), nil, "")
	history := func(u *user) string {
		t.Helper()
		status, body := do(t, u.signedIn(), u.page(http.MethodGet, "ledger", nil))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		return body
	}
	if got := history(bob); !strings.Contains(got, "a secret name") {
		t.Fatalf("a member sees %s", got)
	}
	a := alice.browse()
	a.js("location.hash = '#/members/team'")
	a.click("Delete group")
	a.click("Yes, delete, free")
	a.sees("You own no group yet")
	if got := history(bob); strings.Contains(got, "a secret name") {
		t.Errorf("a member of before sees %s", got)
	}
	for _, u := range []*user{alice, bob} {
		if status, body := u.tool(wire.OpPrepareUpload,
			wire.PrepareUploadRequest{GroupID: "team"}); status != http.StatusForbidden ||
			!strings.Contains(body, wire.CodeGroupDeleted) {
			t.Errorf("%s: %d %v", u.id, status, body)
		}
	}
}
