package service_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/files"
)

func (r *running) exec(statement string, args ...any) {
	r.t.Helper()
	db := r.openDatabase()
	defer db.Close()
	if r.database != "" {
		for i := range args {
			statement = strings.Replace(statement, "?", fmt.Sprintf("$%d", i+1), 1)
		}
	}
	if _, err := db.Exec(statement, args...); err != nil {
		r.t.Fatal(err)
	}
}

// age makes a file older.
func (r *running) age(ref string, by time.Duration) {
	r.t.Helper()
	r.exec("UPDATE files SET time_ns = time_ns - ? WHERE ref = ?", by.Nanoseconds(), ref)
}

func (u *user) retention(group string, days any) {
	u.t.Helper()
	must[string](u, wire.OpSetGroupRetention, object{"group_id": group, "retention_days": days})
}

// view asks the ledger and returns the JSON value of the answer, or its error.
func (r *running) view(method string, args object) string {
	r.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		r.t.Fatal(err)
	}
	status, body := r.post("/rpc", nil, object{"jsonrpc": "2.0", "id": 7, "method": "query",
		"params": object{"request_type": "call_function",
			"finality": "final", "account_id": service.DefaultContractID, "method_name": method,
			"args_base64": base64.StdEncoding.EncodeToString(raw)}})
	var answer struct {
		Result struct {
			Result []int `json:"result"`
		} `json:"result"`
		Error *struct {
			Data string `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); status != 200 || err != nil {
		r.t.Fatalf("%s: %d %s", method, status, body)
	}
	if answer.Error != nil {
		return answer.Error.Data
	}
	value := make([]byte, len(answer.Result.Result))
	for i, b := range answer.Result.Result {
		value[i] = byte(b)
	}
	return string(value)
}

func TestRetention(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	r := runAtOnce(t)
	alice := r.user("alice", "100")
	refs := map[string]string{}
	for group, days := range map[string]any{"at once": 0, "a week": 7, "for ever": nil,
		"longer than time": int64(1) << 31} {
		must[string](alice, wire.OpRegisterGroup, object{"group_id": group})
		for _, name := range []string{"young", "old", "deleted", "legacy"} {
			refs[group+name] = alice.upload(group, name, []byte(name)).CID
		}
		for _, name := range []string{"old", "deleted", "legacy"} {
			r.age(refs[group+name], 8*day)
		}
		must[string](alice, wire.OpDeleteFile, object{"group_id": group, "ipfs_hash": refs[group+"deleted"]})
		r.exec("UPDATE files SET backend = 'Ipfs' WHERE ref = ?", refs[group+"legacy"])
		alice.retention(group, days)
	}
	wrapped := r.wrappedKeys()
	t.Run("listing what expired deletes nothing", func(t *testing.T) {
		list, err := r.svc.Expired(t.Context())
		if err != nil || len(list) != 3 {
			t.Fatalf("listed %+v, %v", list, err)
		}
		for _, e := range list {
			if e.Ref != refs[e.Group+e.Name] || e.Name == "old" != (e.Age > 8*day) {
				t.Errorf("listed %+v", e)
			}
		}
		if got := alice.rows("a week")[1]; got.Deleted != nil {
			t.Fatalf("listing deleted %+v", got)
		}
	})
	if n, err := r.svc.RemoveExpired(t.Context()); err != nil || n != 3 {
		t.Fatalf("removed %d, %v", n, err)
	}
	want := map[string]string{"at onceyoung": wire.ReasonRetentionPolicy, "at onceold": wire.ReasonRetentionPolicy,
		"a weekold": wire.ReasonRetentionPolicy}
	for _, group := range []string{"at once", "a week", "for ever", "longer than time"} {
		for _, row := range alice.rows(group) {
			reason, by := "", ""
			if row.Deleted != nil {
				reason, by = row.Deleted.Reason, row.Deleted.DeletedBy
			}
			expected := want[group+*row.Filename]
			if *row.Filename == "deleted" {
				expected = wire.ReasonOwnerRequest
			}
			if reason != expected || reason == wire.ReasonRetentionPolicy && by != service.DefaultContractID {
				t.Errorf("%s/%s: deleted because of %q by %q, want %q", group, *row.Filename, reason, by, expected)
			}
			if expected == wire.ReasonRetentionPolicy && r.databaseHolds(wrapped[row.IPFSHash]) {
				t.Errorf("%s/%s: the wrapped key is still in the database", group, *row.Filename)
			}
		}
	}
	if _, problem := alice.retrieve("a week", refs["a weekold"]); !strings.Contains(problem, "File deleted") {
		t.Errorf("an expired file answers %s", problem)
	}
	if got, problem := alice.retrieve("a week", refs["a weekyoung"]); string(got) != "young" {
		t.Errorf("a young file reads %q, %s", got, problem)
	}
	if n, err := r.svc.RemoveExpired(t.Context()); err != nil || n != 0 {
		t.Errorf("removed again: %d, %v", n, err)
	}
	// undoes the change of age
	r.exec("UPDATE files SET time_ns = (SELECT time_ns FROM ledger WHERE ledger.seq = files.seq)")
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Several processes over one database do the work once.
func TestRetentionRunsOnce(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	const count = 110 // more than one transaction
	for i := range count {
		alice.upload("g", fmt.Sprint(i), []byte("x"))
	}
	alice.retention("g", 0)
	before, err := r.svc.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.exec("INSERT INTO leases (name, holder, until_ns) VALUES ('retention', 'another', ?)",
		time.Now().Add(time.Minute).UnixNano())
	if n, err := r.svc.RemoveExpired(t.Context()); n != 0 || !errors.Is(err, files.ErrRetentionBusy) {
		t.Fatalf("while another has the lease: %d, %v", n, err)
	}
	r.exec("UPDATE leases SET until_ns = ?", time.Now().Add(-time.Second).UnixNano()) // that process died
	removed := make([]int, 3)
	var all sync.WaitGroup
	for i := range removed {
		svc, err := openService(t.Context(), service.Config{DataDir: r.dir, Database: r.database})
		if err != nil {
			t.Fatal(err)
		}
		defer svc.Close()
		all.Go(func() {
			var err error
			if removed[i], err = svc.RemoveExpired(context.WithoutCancel(t.Context())); err != nil &&
				!errors.Is(err, files.ErrRetentionBusy) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sum := removed[0] + removed[1] + removed[2]; sum != count {
		t.Errorf("removed %v: %d together, want %d", removed, sum, count)
	}
	if after, err := r.svc.Audit(t.Context()); err != nil || after != before+count {
		t.Errorf("%d records more, want %d: %v", after-before, count, err)
	}
	if left := r.wrappedKeys(); len(left) > 0 {
		t.Errorf("%d keys are left", len(left))
	}
}

// The ledger's views about deletion and expiry (wire protocol 4.2).
func TestViewsOfDeletionAndExpiry(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	kept, gone := alice.upload("g", "kept", []byte("x")), alice.upload("g", "gone", []byte("x"))
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": gone.CID})
	row := alice.rows("g")[1]
	must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": kept.CID, "claim_id": "used"})
	for _, tc := range []struct {
		method string
		args   object
		want   string
	}{
		{"is_tombstoned", object{"trans_id": kept.TransID}, "false"},
		{"is_tombstoned", object{"trans_id": gone.TransID}, "true"},
		{"is_tombstoned", object{"trans_id": "none"}, "false"},
		{"get_transaction_meta", object{"trans_id": "none"}, "null"},
		{"get_transaction_meta", object{"trans_id": kept.TransID},
			`{"backend":"FastFS","timestamp":"` + kept.Time + `","deleted":null}`},
		{"get_transaction_meta", object{"trans_id": gone.TransID},
			`{"backend":"FastFS","timestamp":"` + gone.Time + `","deleted":{"deleted_at":"` +
				row.Deleted.DeletedAt + `","deleted_by":"` + alice.id + `","reason":"OwnerRequest"}}`},
		{"get_expired_transactions", object{"group_id": "none"}, "[]"},
		{"get_expired_transactions", object{}, "[]"},
		{"get_nonce_validity", object{"group_id": "g", "user_id": alice.id, "nonce": "used"}, "false"},
		{"get_nonce_validity", object{"group_id": "g", "user_id": alice.id, "nonce": "unused"}, "true"},
		{"get_nonce_validity", object{"group_id": "none", "user_id": alice.id, "nonce": "used"}, "true"},
	} {
		if got := r.view(tc.method, tc.args); got != tc.want {
			t.Errorf("%s %v: %s, want %s", tc.method, tc.args, got, tc.want)
		}
	}
	alice.retention("g", 0)
	if list, err := r.svc.Expired(t.Context()); err != nil || len(list) != 1 || list[0].TxID != kept.TransID {
		t.Errorf("expired: %+v, %v", list, err)
	}
	if got := r.view("get_expired_transactions", object{"group_id": "g"}); !strings.Contains(got, "not joinable") {
		t.Errorf("a stranger is told what expires in a closed group: %s", got)
	}
}

// Every view method of wire protocol 4.2 is answered.
func TestEveryViewIsAnswered(t *testing.T) {
	t.Parallel()
	r := run(t)
	for _, method := range []string{"estimate_fee", "get_dynamic_fee", "group_contains_key", "get_group_owner",
		"is_authorized", "get_group_checksum",
		"is_group_joinable", "get_join_window", "get_group_members_public", "get_transactions_for_group_public",
		"get_group_retention",
		"get_expired_transactions", "get_transaction_meta", "is_tombstoned", "get_nonce_validity"} {
		if got := r.view(method, object{"group_id": "none"}); strings.Contains(got, "MethodNotFound") ||
			strings.Contains(got, "internal") {
			t.Errorf("%s: %s", method, got)
		}
	}
}
