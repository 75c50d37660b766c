package service_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// Threat 35: an ex-member keeps the content it saw, but gets no key for old or new files
// from the service, and new files are wrapped by another key.
func TestThreat35ExMemberGetsNoKey(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	old := alice.upload("g", "old", []byte("old"))
	bob.reads(old.Location, "old")
	before := r.checksum("g")
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
	fresh := alice.upload("g", "new", []byte("new"))
	for _, ref := range []string{old.Location, fresh.Location} {
		if _, problem := bob.retrieve("g", ref); !strings.Contains(problem, "not authorized") {
			t.Errorf("%s: %s", ref, problem)
		}
	}
	if r.checksum("g") == before {
		t.Error("the group's key was not rotated")
	}
	for ref, want := range map[string]string{old.Location: "old", fresh.Location: "new"} {
		alice.reads(ref, want)
	}
}

func (r *running) checksum(group string) string {
	r.t.Helper()
	return fmt.Sprint(first((&sdk12{user: &user{running: r}}).view("get_group_checksum", object{"group_id": group})))
}

// Threat 37: a clock that is wrong. Forward, old tokens end and new ones work;
// back, no token is issued and old ones are not from the future for long.
func TestThreat37WrongClock(t *testing.T) {
	t.Parallel()
	var shift atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
	r := runWith(t, service.Config{Database: newDatabase(t), Now: now})
	alice := r.user("alice", "10")
	login := func() (int, string) {
		status, body := r.post(wire.PathSessionToken, http.Header{wire.HeaderAPIKey: {alice.key}},
			wire.SessionTokenRequest{AccountID: alice.id})
		return status, string(body)
	}
	for _, tc := range []struct {
		shift      time.Duration
		token, log int // status of the old token, of a new login
	}{
		{29 * time.Second, 200, 200}, {-29 * time.Second, 200, 200},
		{time.Hour, 200, 200}, {-time.Hour, 401, 503},
		{25 * time.Hour, 401, 200}, {-24 * time.Hour, 401, 503}, {0, 200, 200},
	} {
		shift.Store(int64(tc.shift))
		if status, body := alice.tool(wire.OpAuthStatus, object{"group_id": "default"}); status != tc.token {
			t.Errorf("clock %v: the old token: %d %s", tc.shift, status, body)
		}
		status, body := login()
		if status != tc.log || status == 503 && !strings.Contains(body, "clock") {
			t.Errorf("clock %v: login: %d %s", tc.shift, status, body)
		}
	}
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "now"})
	shift.Store(int64(-time.Minute / 4)) // records never go back in time
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "later"})
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	var back int
	if err := r.openDatabase().QueryRow("SELECT count(*) FROM ledger a JOIN ledger b ON b.seq = a.seq + 1 WHERE " +
		"b.time_ns <= a.time_ns").Scan(&back); err != nil || back != 0 {
		t.Errorf("%d records are older than the one before, %v", back, err)
	}
}

// Threat 32: answers and logs, also of failures, hold no key, token, path,
// statement or stack.
func TestThreat32NothingLeaks(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	r := runWith(t, service.Config{Database: newDatabase(t), SmallBytes: -1,
		Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	alice := r.owner()
	secrets := []string{alice.key, alice.token}
	var answers strings.Builder
	note := func(_ int, body string) { answers.WriteString(body + "\n") }
	for _, op := range operations(t) {
		for _, request := range []any{object{}, object{"group_id": "g"},
			object{"group_id": "absent", "ipfs_hash": "x", "upload_id": "y", "filename": "z"},
			object{"group_id": 7}, []byte("{"),
			object{"group_id": strings.Repeat("x", 500), "member_id": "'; DROP TABLE files; --"}} {
			note(alice.tool(op, request))
		}
	}
	content := []byte("the plaintext canary of threat 32")
	p := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g", "filename": "f"})
	ref := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload,
		object{"upload_id": p.UploadID, "encrypted_data": seal(t, p.Key, content), "file_hash": hash(content)}).Location
	secrets = append(secrets, p.Key, string(content))
	for _, format := range []any{"x", []int{}, object{"original_size": 1e30}, object{"version": 1, "filename": 7}} {
		q := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
		note(alice.tool(wire.OpFinalizeUpload, object{"upload_id": q.UploadID, "encrypted_data": seal(t, q.Key, nil),
			"file_hash": hash(nil), "format": format}))
	}
	path, err := r.svc.BlobPath(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	ok(t, os.Truncate(path, 5))
	note(alice.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})) // a damaged blob
	db := r.openDatabase()
	if _, err := db.Exec("ALTER TABLE claims RENAME TO claims_gone"); err != nil {
		t.Fatal(err)
	}
	ref = alice.upload("g", "f2", []byte("x")).Location
	// a database that fails
	note(alice.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref, "claim_id": "c"}))
	status, body := r.post(wire.PathSessionToken, http.Header{wire.HeaderAPIKey: {alice.key + "x"}},
		wire.SessionTokenRequest{AccountID: alice.id})
	note(status, string(body))
	if !strings.Contains(log.String(), "claims") || !strings.Contains(answers.String(), wire.CodeInternal) {
		t.Error("the failures that were made did not happen")
	}
	t.Run("neither log nor answer holds a secret", func(t *testing.T) {
		for _, secret := range secrets {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log holds %.12s…", secret)
			}
			if strings.Contains(answers.String(), secret) && secret != p.Key {
				t.Errorf("an answer holds %.12s…", secret)
			}
		}
	})
	t.Run("no answer tells of the inside", func(t *testing.T) {
		for _, inside := range []string{r.dir, "SELECT", "INSERT", "sqlite", "SQLSTATE", "goroutine", ".go:", "pgx",
			"Go struct", "Go value"} {
			if strings.Contains(answers.String(), inside) {
				t.Errorf("an answer holds %q:\n%s", inside, answers.String())
			}
		}
	})
}

// Threat 31: a file that is too large for an answer of JSON is refused before it
// is charged or read into memory; as a raw transfer it is served.
func TestThreat31LargeFileInsideJSON(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: 100 << 20})
	alice := r.owner()
	p := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g", "filename": "large"})
	req, err := http.NewRequest(http.MethodPut, r.url+p.UploadURL, io.LimitReader(zeros{}, 65<<20))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = alice.header()
	if status, body := r.do(req); status != http.StatusNoContent {
		t.Fatalf("put: %d %s", status, body)
	}
	ref := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload,
		object{"upload_id": p.UploadID, "file_hash": hash(nil)}).Location
	before := alice.balance()
	if status, body := alice.tool(wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": ref}); status != http.StatusRequestEntityTooLarge ||
		!strings.Contains(body, "raw") {
		t.Errorf("inside JSON: %d %.200s", status, body)
	}
	if after := alice.balance(); after != before {
		t.Errorf("the refusal cost %s of %s", after, before)
	}
	if got := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": ref, "transfer": "raw"}); got.DataSize != 65<<20 {
		t.Errorf("raw: %+v", got.DataSize)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Threat 29: SQL is only a value, in every field of every operation and of the
// account's credentials.
func TestThreat29EveryFieldIsOnlyAValue(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), RequestRate: -1})
	alice := r.owner()
	file := alice.upload("g", "f", []byte("x"))
	honest := object{"group_id": "g", "ipfs_hash": file.CID, "member_id": "bob", "filename": "n", "upload_id": "u",
		"file_hash": file.FileHash, "claim_id": "c",
		"transfer": "raw", "kinds": "all", "expires_at": "1", "encrypted_data": "eA=="}
	evils := []string{`'; DROP TABLE files; --`, `' OR '1'='1`, `") OR 1=1 --`,
		`x' UNION SELECT credential FROM accounts --`, `?`, `$1`, `\'; SELECT pg_sleep(9); --`,
		`%' AND 1=0 --`, "/*", ";"}
	tried := 0 // each field of an operation with another two: each is tried in each field and in each operation
	for _, op := range operations(t) {
		for _, field := range slices.Sorted(maps.Keys(honest)) {
			tried++
			for _, evil := range []string{evils[tried%len(evils)], evils[(tried+5)%len(evils)]} {
				request := maps.Clone(honest)
				request[field] = evil
				if op == wire.OpDeleteFile && field != "ipfs_hash" && field != "group_id" ||
					op == wire.OpRevokeGroupMember {
					continue // these requests would succeed
				}
				if status, body := alice.tool(op, request); status >= 500 || status == http.StatusTooManyRequests ||
					status >= 400 && strings.Contains(body, "SQL") {
					t.Errorf("%s with %s %q: %d %.300s", op, field, evil, status, body)
				}
			}
		}
	}
	for _, evil := range evils {
		for _, method := range []string{"get_group_owner", "get_transaction_meta", "get_nonce_validity",
			"get_expired_transactions", "get_transactions_for_group", evil} {
			args, err := json.Marshal(object{"group_id": evil, "user_id": evil, "trans_id": evil, "nonce": evil,
				"action": evil})
			if err != nil {
				t.Fatal(err)
			}
			status, body := r.post("/rpc", nil, object{"id": 1, "method": "query",
				"params": object{"request_type": "call_function", "method_name": method, "args_base64": args}})
			if status != http.StatusOK || strings.Contains(string(body), "INTERNAL") {
				t.Errorf("view %q of %q: %d %.300s", method, evil, status, body)
			}
		}
		for _, header := range []http.Header{{wire.HeaderAPIKey: {alice.key}, wire.HeaderAccountID: {evil}},
			{wire.HeaderAPIKey: {evil}, wire.HeaderAccountID: {alice.id}}} {
			if status, body := r.post("/tools/get_owned_groups", header, object{}); status == http.StatusOK ||
				status >= 500 {
				t.Errorf("credentials with %q: %d %s", evil, status, body)
			}
		}
		alice.fetch("/raw/read/"+url.PathEscape(evil), "")
	}
	alice.reads(file.CID, "x")
	if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != 1 {
		t.Errorf("verify: %d, %v", n, err)
	}
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}
