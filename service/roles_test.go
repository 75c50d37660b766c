package service_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// gives adds a member with a role, or changes the role it has.
func (u *user) gives(member *user, group, role string) {
	u.t.Helper()
	must[string](u, wire.OpAddGroupMember, object{"group_id": group, "member_id": member.id, "role": role})
}

// names and roles of an answer that has both.
func (u *user) listed(op string, request any) map[string]wire.Role {
	u.t.Helper()
	var answer struct {
		Result []string    `json:"result"`
		Roles  []wire.Role `json:"roles"`
	}
	status, body := u.tool(op, request)
	if err := json.Unmarshal([]byte(body), &answer); status != http.StatusOK || err != nil ||
		len(answer.Result) != len(answer.Roles) {
		u.t.Fatalf("%s: %d %s", op, status, body)
	}
	list := map[string]wire.Role{}
	for i, name := range answer.Result {
		list[name] = answer.Roles[i]
	}
	return list
}

func later() string { return strconv.FormatInt(time.Now().Add(time.Hour).UnixNano(), 10) }

// Threat 25: uploads that a reader began as a writer end with the demotion, in every way
// of sending them; reading continues.
func TestThreat25ReaderChangesNothing(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.gives(bob, "g", "writer")
	ref := alice.upload("g", "f", []byte("content")).Location
	inline := bob.finalize("g", "inline", []byte("x"))
	raw := must[wire.PrepareUploadResult](bob, wire.OpPrepareUpload, object{"group_id": "g"})
	sent := must[wire.PrepareUploadResult](bob, wire.OpPrepareUpload, object{"group_id": "g"})
	if status, body := bob.put(sent, strings.NewReader(strings.Repeat("c", 28))); status != http.StatusNoContent {
		t.Fatalf("put as a writer: %d %s", status, body)
	}
	alice.gives(bob, "g", "reader")

	refused := func(what string, status int, body string) {
		t.Helper()
		if status != http.StatusForbidden || !strings.Contains(body, "not authorized") ||
			!strings.Contains(body, wire.CodeReadOnly) {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	status, body := bob.tool(wire.OpPrepareUpload, object{"group_id": "g"})
	refused("prepare", status, body)
	status, body = bob.tool(wire.OpFinalizeUpload, inline)
	refused("finish with the content", status, body)
	status, body = bob.put(raw, strings.NewReader(strings.Repeat("c", 28)))
	refused("send", status, body)
	status, body = bob.tool(wire.OpFinalizeUpload, object{"upload_id": sent.UploadID, "file_hash": hash([]byte("x"))})
	refused("finish what was sent", status, body)
	bob.reads(ref, "content")
	if rows := alice.rows("g"); len(rows) != 1 {
		t.Errorf("%d files, want alice's alone", len(rows))
	}
	if authorized := must[wire.AuthStatusResult](bob, wire.OpAuthStatus,
		object{"group_id": "g"}).AuthorizedForGroup; authorized == nil || !*authorized {
		t.Error("a reader is not authorized by its status")
	}
	if got := r.view("is_authorized", object{"group_id": "g", "user_id": bob.id}); got != "true" {
		t.Errorf("is_authorized of a reader: %s", got)
	}
}

// Threat 25: no member gets a higher role silently, and only the owner gives roles.
func TestThreat25RolesAreGivenByTheOwnerAlone(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob, carol := r.user("alice", "10"), r.user("bob", "10"), r.user("carol", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	alice.gives(bob, "g", "reader")
	alice.adds(carol)
	want := func(account *user, role wire.Role) {
		t.Helper()
		if got := alice.listed(wire.OpGetGroupMembers, object{"group_id": "g"})[account.id]; got != role {
			t.Errorf("%s is %q among the members, want %q", account.id, got, role)
		}
		if got := account.listed(wire.OpGetMemberGroups, object{})["g"]; got != role {
			t.Errorf("%s is %q in its own list, want %q", account.id, got, role)
		}
		if got := must[wire.AuthStatusResult](account, wire.OpAuthStatus, object{"group_id": "g"}).Role; got != role {
			t.Errorf("%s is %q by its status, want %q", account.id, got, role)
		}
	}
	want(alice, wire.RoleOwner)
	want(bob, wire.RoleReader)
	want(carol, wire.RoleWriter)
	t.Run("neither a member again nor an unknown role", func(t *testing.T) {
		for what, request := range map[string]object{
			"again, without a role": {"group_id": "g", "member_id": bob.id},
			"again, with its role":  {"group_id": "g", "member_id": bob.id, "role": "reader"},
			"the owner":             {"group_id": "g", "member_id": alice.id, "role": "reader"},
		} {
			if status, body := alice.tool(wire.OpAddGroupMember, request); status != http.StatusConflict ||
				!strings.Contains(body, "already a member") {
				t.Errorf("%s: %d %s", what, status, body)
			}
		}
		for _, role := range []string{"owner", "admin", "Reader", " "} {
			if status, body := alice.tool(wire.OpAddGroupMember,
				object{"group_id": "g", "member_id": "dave", "role": role}); status != http.StatusBadRequest {
				t.Errorf("role %q: %d %s", role, status, body)
			}
		}
	})
	t.Run("a reader does not raise itself", func(t *testing.T) {
		if status, body := bob.tool(wire.OpAddGroupMember,
			object{"group_id": "g", "member_id": bob.id, "role": "writer"}); status != http.StatusForbidden {
			t.Errorf("a reader raises itself: %d %s", status, body)
		}
		want(bob, wire.RoleReader)
	})
	t.Run("a change costs nothing and is told", func(t *testing.T) {
		before, paid := alice.watch(0, 0).Seq, alice.balance()
		alice.gives(bob, "g", "writer")
		want(bob, wire.RoleWriter)
		if alice.balance() != paid {
			t.Error("a change of a role costs something")
		}
		events := bob.watch(before, time.Second).Events
		if len(events) != 1 || events[0].Kind != chain.KindRole || events[0].Account != bob.id {
			t.Errorf("bob is told %+v", events)
		}
	})
	t.Run("who comes back has the role that is given then", func(t *testing.T) {
		must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": carol.id})
		alice.gives(carol, "g", "reader")
		want(carol, wire.RoleReader)
	})
	if n, err := r.svc.Audit(t.Context()); err != nil || n == 0 {
		t.Errorf("audit: %d, %v", n, err)
	}
}

// Threat 25: an account that joins gets the role that the owner set, even when a client
// that knows no roles opens the group again.
func TestThreat25OpenGroupOfReaders(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob, carol, dave := r.user("alice", "10"), r.user("bob", "10"), r.user("carol", "10"), r.user("dave", "10")
	open := func(more object) {
		t.Helper()
		request := object{"group_id": "g", "expires_at": later()}
		for k, v := range more {
			request[k] = v
		}
		must[string](alice, wire.OpCreateHackathonGroup, request)
	}
	joins := func(u *user, role wire.Role) {
		t.Helper()
		// the requested role does not count
		must[string](u, wire.OpJoinGroup, object{"group_id": "g", "role": "writer"})
		if got := u.listed(wire.OpGetMemberGroups, object{})["g"]; got != role {
			t.Errorf("%s joined as %q, want %q", u.id, got, role)
		}
	}
	open(object{"role": "reader"})
	joins(bob, wire.RoleReader)
	open(nil)
	joins(carol, wire.RoleReader)
	open(object{"role": "writer"})
	joins(dave, wire.RoleWriter)
	if got := bob.listed(wire.OpGetMemberGroups, object{})["g"]; got != wire.RoleReader {
		t.Errorf("who had joined became %q", got)
	}
	if status, body := alice.tool(wire.OpCreateHackathonGroup,
		object{"group_id": "g", "expires_at": later(), "role": "owner"}); status != http.StatusBadRequest {
		t.Errorf("everybody an owner: %d %s", status, body)
	}
}
