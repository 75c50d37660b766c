package service_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// told reads an answer of the log below its address.
func (r *running) told(path string) string {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+wire.PathTlog+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	_, body := r.do(req)
	return string(body)
}

// signedBy tells whether a key signed a note.
func signedBy(t *testing.T, text, key string) bool {
	t.Helper()
	v, err := note.NewVerifier(strings.TrimSpace(key))
	if err != nil {
		t.Fatal(err)
	}
	_, err = note.Open([]byte(text), note.VerifierList(v))
	return err == nil
}

// Threat 26: another key of the log comes with a statement that both keys signed,
// the history goes on, and no checkpoint is signed with the key before any more, also
// by a process that runs.
func TestThreat26LogKeyRotation(t *testing.T) {
	t.Parallel()
	first := run(t)
	first.owner()
	before := first.logKey()
	if !signedBy(t, first.told("checkpoint"), before) {
		t.Fatal("the first checkpoint is not signed with the first key")
	}
	var said wire.LogKeys
	if err := json.Unmarshal([]byte(first.told(wire.TlogKeys)), &said); err != nil || len(said.Statements) != 0 {
		t.Errorf("statements before any: %v, %v", said, err)
	}
	beside, err := first.beside(service.MasterKey{})
	if err != nil {
		t.Fatal(err)
	}
	ok(t, beside.RotateLogKey(t.Context()))
	after := first.logKey()
	if after == before {
		t.Fatal("a process that runs kept its key")
	}
	signs := func(who string, r *running) {
		t.Helper()
		if r.logKey() != after {
			t.Errorf("%s has the key %s, want %s", who, r.logKey(), after)
		}
		if checkpoint := r.told("checkpoint"); !signedBy(t, checkpoint, after) || signedBy(t, checkpoint, before) {
			t.Errorf("the checkpoint of %s:\n%s", who, checkpoint)
		}
	}
	signs("the process that runs", first)
	first.rotated() // the master key, which changes nothing
	second := first.again()
	signs("one that began afterwards", second)
	if err := json.Unmarshal([]byte(second.told(wire.TlogKeys)), &said); err != nil || len(said.Statements) != 1 {
		t.Fatalf("statements: %v, %v", said, err)
	}
	if !signedBy(t, said.Statements[0], before) || !signedBy(t, said.Statements[0], after) {
		t.Errorf("not signed by both keys:\n%s", said.Statements[0])
	}
	text, _, _ := strings.Cut(said.Statements[0], "\n\n")
	if old, next, ok := wire.ParseLogKeyStatement(text + "\n"); !ok || old != strings.TrimSpace(before) ||
		next != strings.TrimSpace(after) {
		t.Errorf("it says %q", text)
	}
	if report, err := second.svc.AuditReport(t.Context()); err != nil || report.Key != strings.TrimSpace(after) {
		t.Errorf("audit: %+v, %v", report, err)
	}
}

// Threat 33: the key of session tokens is replaced too, so that a thief of that key, or
// of the master key that gave it, makes no tokens any more.
func TestThreat33TokenKeyRotation(t *testing.T) {
	t.Parallel()
	first, stolen := runWithGroup(t)
	stolen.upload("g", "kept", []byte("content"))
	if status, body := stolen.tool(wire.OpGetGroupTransactions, object{"group_id": "g"}); status != http.StatusOK {
		t.Errorf("a token of the key in use: %d %s", status, body)
	}
	ok(t, first.svc.RotateTokenKeys(t.Context()))
	stolen = stolen.at(first.again())
	if status, body := stolen.tool(wire.OpGetGroupTransactions,
		object{"group_id": "g"}); status != http.StatusUnauthorized {
		t.Errorf("a token of the key before: %d %s", status, body)
	}
	if n, err := stolen.svc.Verify(t.Context(), true,
		func(ref string, err error) { t.Errorf("%s: %v", ref, err) }); err != nil || n != 1 {
		t.Errorf("%d files, %v", n, err)
	}
}
