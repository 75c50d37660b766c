package service_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/groups"
)

// dueNow lets the time of everything come that waits.
func (r *running) dueNow() {
	r.t.Helper()
	r.exec("UPDATE groups SET pending_retention_ns = 1 WHERE pending_retention_ns IS NOT NULL")
	r.exec("UPDATE groups SET pending_end_ns = 1 WHERE pending_end_ns IS NOT NULL")
	r.exec("UPDATE pending_deletions SET due_ns = 1")
}

func (r *running) removes(want int) {
	r.t.Helper()
	if n, err := r.svc.RemoveExpired(r.t.Context()); err != nil || n != want {
		r.t.Errorf("%d files were removed, want %d: %v", n, want, err)
	}
}

// inADay reports whether a time in ns is a day from now, as the default is.
func inADay(ns string) bool {
	n, err := strconv.ParseInt(ns, 10, 64)
	left := time.Until(time.Unix(0, n))
	return err == nil && left > 23*time.Hour && left <= 24*time.Hour
}

// Threat 45: a short retention window waits, members see it, the owner can cancel it,
// and no call hastens it.
func TestThreat45ShortRetentionWaits(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	ref := alice.upload("g", "f", []byte("content")).Location
	r.age(ref, 6*24*time.Hour)
	waiting := func() wire.PendingResult {
		t.Helper()
		return must[wire.PendingResult](bob, wire.OpGetPending, object{"group_id": "g"})
	}
	t.Run("it waits, and members are told", func(t *testing.T) {
		seq := bob.watch(0, 0).Seq
		for range 2 { // again is neither sooner nor later
			if text := must[string](alice, wire.OpSetGroupRetention,
				object{"group_id": "g", "retention_days": 0}); !strings.Contains(text, "svcfs group keep") {
				t.Errorf("it says %q", text)
			}
			r.removes(0)
		}
		first := waiting()
		if first.RetentionDays == nil || *first.RetentionDays != 0 || !inADay(first.RetentionAt) {
			t.Errorf("members are shown %+v", first)
		}
		if got := r.view("get_group_retention", object{"group_id": "g"}); got != "null" {
			t.Errorf("the window counts already: %s", got)
		}
		if events := bob.watch(seq, time.Second).Events; len(events) == 0 || events[0].Kind != chain.KindPending ||
			events[0].GroupID != "g" {
			t.Errorf("bob is told %+v", events)
		}
		if status, body := bob.tool(wire.OpKeepFiles, object{"group_id": "g"}); status != http.StatusForbidden {
			t.Errorf("a member keeps the files: %d %s", status, body)
		}
	})
	t.Run("the owner keeps the files", func(t *testing.T) {
		must[string](alice, wire.OpKeepFiles, object{"group_id": "g"})
		r.dueNow()
		r.removes(0)
		if left := waiting(); left.RetentionDays != nil {
			t.Errorf("kept, and there waits %+v", left)
		}
	})
	t.Run("longer ones count at once", func(t *testing.T) {
		alice.retention("g", 3)
		alice.retention("g", 7) // counts at once, and takes the other back
		r.dueNow()
		r.removes(0)
		if got := r.view("get_group_retention", object{"group_id": "g"}); got != "7" {
			t.Errorf("retention is %s, want 7", got)
		}
		alice.retention("g", 3)
		r.dueNow()
		r.removes(1)
		if got := r.view("get_group_retention", object{"group_id": "g"}); got != "3" {
			t.Errorf("retention is %s, want 3", got)
		}
		alice.retention("g", 5) // longer than it is
		if got := r.view("get_group_retention", object{"group_id": "g"}); got != "5" {
			t.Errorf("retention is %s, want 5", got)
		}
	})
	r.age(ref, -6*24*time.Hour)
	if n, err := r.svc.Audit(t.Context()); err != nil || n == 0 {
		t.Errorf("audit: %d, %v", n, err)
	}
}

// many uploads files and returns their references.
func (u *user) many(group string, n int) (refs []string) {
	u.t.Helper()
	var frames [][]byte
	v := u.vaultKey()
	for i := range n {
		frames = append(frames, u.sealsFor(v, group, fmt.Sprint("file ", i), []byte{byte(i)}).frame())
	}
	for some := range slices.Chunk(frames, wire.MaxSealedBatch) {
		_, _, answers := u.batches(some...)
		for _, a := range answers {
			refs = append(refs, a.Result.Location)
		}
	}
	return refs
}

// Threat 45: the first hundred deletions of an hour happen at once. More wait, and are
// dropped when the account loses the right to delete.
func TestThreat45DeletionsInBulkWait(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob, carol := r.user("alice", "100"), r.user("bob", "100"), r.user("carol", "100")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	for _, u := range []*user{bob, carol} {
		alice.adds(u)
	}
	refs := bob.many("g", groups.BulkFiles+5)
	remove := func(u *user, ref string) (int, string) {
		t.Helper()
		return u.tool(wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
	}
	for _, ref := range refs[:groups.BulkFiles] {
		if status, body := remove(bob, ref); status != http.StatusOK {
			t.Fatalf("one of the first hundred: %d %s", status, body)
		}
	}
	late := refs[groups.BulkFiles:]
	for _, ref := range append(late, late...) {
		if status, body := remove(bob, ref); status != http.StatusConflict ||
			!strings.Contains(body, wire.CodePending) || !strings.Contains(body, "svcfs group keep") {
			t.Errorf("one more: %d %s", status, body)
		}
	}
	waits := func(want int64) {
		t.Helper()
		if got := must[wire.PendingResult](carol, wire.OpGetPending, object{"group_id": "g"}); got.Files != want ||
			want > 0 && !inADay(got.FilesAt) {
			t.Errorf("there waits %+v, want %d files", got, want)
		}
	}
	t.Run("others read, and the owner keeps the files", func(t *testing.T) {
		waits(5)
		if got, problem := alice.retrieve("g", late[0]); len(got) != 1 {
			t.Errorf("what waits is not read: %s", problem)
		}
		if status, body := remove(alice, alice.upload("g", "another", []byte("x")).Location); status != http.StatusOK {
			t.Errorf("another account: %d %s", status, body)
		}
		must[string](alice, wire.OpKeepFiles, object{"group_id": "g"})
		waits(0)
		r.dueNow()
		r.removes(0)
	})
	t.Run("after a day they are gone, by whom is recorded", func(t *testing.T) {
		remove(bob, late[0])
		remove(bob, late[1])
		waits(2)
		r.dueNow()
		r.removes(2)
		var gone *wire.Deleted
		for _, row := range alice.rows("g") {
			if row.IPFSHash == late[0] {
				gone = row.Deleted
			}
		}
		if gone == nil || gone.DeletedBy != bob.id || gone.Reason != wire.ReasonOwnerRequest {
			t.Errorf("the record says %+v", gone)
		}
	})
	t.Run("what somebody without a right wanted deleted stays", func(t *testing.T) {
		remove(bob, late[2])
		alice.gives(bob, "g", "reader")
		waits(0)
		alice.gives(bob, "g", "writer")
		remove(bob, late[2])
		if _, err := r.svc.DisableAccount(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
		waits(0)
		if _, err := r.svc.EnableAccount(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
		bob.login()
		if n, err := r.svc.Audit(t.Context()); err != nil || n == 0 {
			t.Errorf("audit: %d, %v", n, err)
		}
		remove(bob, late[2])
		must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
		waits(0)
		r.dueNow()
		r.removes(0)
		if got, problem := alice.retrieve("g", late[2]); len(got) != 1 {
			t.Errorf("what a revoked member wanted deleted: %s", problem)
		}
	})
}

// Threat 45: a window that would end many files at once waits also when it is long,
// and patience does not get around the count of an hour.
func TestThreat45ManyOldFilesWait(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	refs := alice.many("g", groups.BulkFiles+1)
	r.exec("UPDATE files SET time_ns = time_ns - ?", (40 * 24 * time.Hour).Nanoseconds())
	alice.retention("g", 30)
	r.removes(0)
	if got := must[wire.PendingResult](alice, wire.OpGetPending, object{"group_id": "g"}); got.RetentionDays == nil ||
		*got.RetentionDays != 30 {
		t.Errorf("there waits %+v", got)
	}
	alice.retention("g", 60)
	if got := r.view("get_group_retention", object{"group_id": "g"}); got != "60" {
		t.Errorf("retention is %s, want 60", got)
	}
	r.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO recent_deletions (group_id, account, time_ns, ref)
		SELECT 'g', CAST(? AS TEXT), CAST(? AS BIGINT), CAST(i AS TEXT) FROM n`, alice.id, time.Now().Add(-2*time.Hour).UnixNano())
	if status, body := alice.tool(wire.OpDeleteFile,
		object{"group_id": "g", "ipfs_hash": refs[0]}); status != http.StatusConflict {
		t.Errorf("the next of 500 in a day: %d %s", status, body)
	}
	r.exec("UPDATE recent_deletions SET time_ns = time_ns - ?", (23 * time.Hour).Nanoseconds())
	if status, body := alice.tool(wire.OpDeleteFile,
		object{"group_id": "g", "ipfs_hash": refs[1]}); status != http.StatusOK {
		t.Errorf("a day later: %d %s", status, body)
	}
}

// Threat 45: windows that end few files each do not end many together, and one that
// ends none yet does not end many before a day is over.
func TestThreat45WindowsStepByStep(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "100")
	waiting := func(group string) *int64 {
		t.Helper()
		return must[wire.PendingResult](alice, wire.OpGetPending, object{"group_id": group}).RetentionDays
	}
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "steps"})
	for i, ref := range alice.many("steps", groups.BulkFiles+1) {
		r.age(ref, time.Duration(22-3*(i%2))*24*time.Hour+time.Minute)
	}
	alice.retention("steps", 21)
	r.removes(groups.BulkFiles/2 + 1)
	alice.retention("steps", 19)
	r.removes(0)
	if days := waiting("steps"); days == nil || *days != 19 {
		t.Errorf("after the first step there waits %v", days)
	}
	r.exec("UPDATE files SET deleted_ns = deleted_ns - ? WHERE deleted_ns IS NOT NULL", (24 * time.Hour).Nanoseconds())
	must[string](alice, wire.OpKeepFiles, object{"group_id": "steps"})
	alice.retention("steps", 19)
	r.removes(groups.BulkFiles / 2)

	must[string](alice, wire.OpRegisterGroup, object{"group_id": "soon"})
	for _, ref := range alice.many("soon", groups.BulkFiles+1) {
		r.age(ref, 20*24*time.Hour)
	}
	alice.retention("soon", 22)
	if days := waiting("soon"); days != nil {
		t.Errorf("what ends in two days waits: %d", *days)
	}
	alice.retention("soon", 21) // ends all of them in less than a day
	if days := waiting("soon"); days == nil || *days != 21 {
		t.Errorf("what ends within a day does not wait: %v", days)
	}
}
