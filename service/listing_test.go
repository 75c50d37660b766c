package service_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// recorded puts files into a group as uploads would, without key and content.
func (u *user) recorded(group string, n int, name func(i int) string) {
	u.t.Helper()
	ctx := u.t.Context()
	s, err := store.Open(ctx, u.dir, u.database)
	if err != nil {
		u.t.Fatal(err)
	}
	defer s.Close()
	l := ledger.New(ledger.DefaultFees(), time.Now)
	err = s.Write(ctx, func(tx *store.Tx) error {
		for i := range n {
			ref := fmt.Sprintf("ref/%s/%d", group, i)
			r, err := l.Append(ctx, tx, ledger.Record{Kind: ledger.KindRecord, Account: u.id, Group: group, Ref: ref, FileHash: hash(nil), Detail: name(i)})
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO files (ref, group_id, seq, changed_seq, tx_id, uploader, file_hash, time_ns, filename, content_type,
				format, blob_id, blob_size, blob_sum, key_version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '', 'null', ?, 28, ?, 1)`,
				ref, group, r.Seq, r.Seq, r.TxID, u.id, hash(nil), r.TimeNS, name(i), ref, make([]byte, 32)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		u.t.Fatal(err)
	}
}

// Listings without a limit are sent in parts of 2,000 rows, and are whole.
func TestListingsInParts(t *testing.T) {
	r := run(t)
	alice := r.user("alice", "100")
	for _, n := range []int{0, 1, 1999, 2000, 2001, 4000} {
		group := fmt.Sprint("g", n)
		must[string](alice, wire.OpRegisterGroup, object{"group_id": group})
		alice.recorded(group, n, func(i int) string { return fmt.Sprint(i) })
		rows := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions, object{"group_id": group})
		if len(rows) != n {
			t.Fatalf("%d of %d rows", len(rows), n)
		}
		for i, row := range rows {
			if *row.Filename != fmt.Sprint(i) {
				t.Fatalf("row %d of %d is %s", i, n, *row.Filename)
			}
		}
		if n == 0 {
			continue
		}
		if status, body := alice.tool(wire.OpRenameFile, object{"group_id": group, "ipfs_hash": rows[0].IPFSHash, "filename": "renamed"}); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		since := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions, object{"group_id": group, "after_seq": rows[0].Seq})
		if len(since) != n || *since[n-1].Filename != "renamed" {
			t.Errorf("in order of change: %d of %d rows", len(since), n)
		}
		all := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions, object{"group_id": group, "kinds": wire.KindsAll})
		if len(all) != n+2 { // registered, renamed
			t.Errorf("records: %d, want %d", len(all), n+2)
		}
	}
	bob := r.user("bob", "1")
	for group, want := range map[string]int{"g4000": http.StatusForbidden, "none": http.StatusNotFound} {
		if status, body := bob.tool(wire.OpGetGroupTransactions, object{"group_id": group}); status != want {
			t.Errorf("%s: %d %s", group, status, body)
		}
	}
	if status, body := alice.tool(wire.OpGetGroupTransactions, object{"group_id": "g1", "kinds": "other"}); status != http.StatusBadRequest {
		t.Errorf("unknown kinds: %d %s", status, body)
	}
}

// A listing that cannot go on is cut off: a part is not taken for the whole.
func TestListingOfARevokedMemberIsCutOff(t *testing.T) {
	r := run(t)
	alice, bob := r.user("alice", "100"), r.user("bob", "1")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	must[string](alice, wire.OpAddGroupMember, object{"group_id": "g", "member_id": bob.id})
	long := strings.Repeat("n", 4000) // more than lies in the buffers of a connection
	alice.recorded("g", 9000, func(i int) string { return fmt.Sprint(long, i) })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+wire.PathTools+wire.OpGetGroupTransactions, strings.NewReader(`{"group_id":"g"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = bob.header()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 1000)
	if _, err := io.ReadFull(resp.Body, first); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
	rest, err := io.ReadAll(resp.Body)
	if err == nil || json.Valid(append(first, rest...)) {
		t.Errorf("%d bytes came, %v", len(rest), err)
	}
}
