package service_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
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
	l := ledger.New(ledger.DefaultFees(), ledger.Bounds{}, time.Now)
	sum := hash(nil)
	const batch = 500 // a transaction of all of them would last too long for a busy PostgreSQL
	for from := 0; from < n; from += batch {
		ok(u.t, s.Write(ctx, store.Everything(), func(tx *store.Tx) error {
			for i := from; i < min(from+batch, n); i++ {
				ref := fmt.Sprintf("ref/%s/%d", group, i)
				if _, err := l.Append(ctx, tx, chain.Record{Kind: chain.KindRecord, Account: u.id, Group: group,
					Ref: ref, FileHash: sum, Detail: name(i)}); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO files (ref, group_id, seq, changed_seq, named_seq, tx_id, uploader, file_hash, time_ns, filename, content_type,
				format, blob_id, blob_size, blob_sum, key_version) SELECT ref, group_id, seq, seq, seq, tx_id, account, file_hash, time_ns, detail, '', 'null', ref, 28, hash, 1
				FROM ledger WHERE seq > (SELECT COALESCE(max(seq), 0) FROM files) AND kind = ?`, chain.KindRecord)
			return err
		}))
	}
}

// Listings without a limit are whole, whether they fit into a piece, which has 1000 rows, or not.
func TestListingsInParts(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "100")
	for _, n := range []int{0, 1, 1000, 2001} {
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
		if status, body := alice.tool(wire.OpRenameFile,
			object{"group_id": group, "ipfs_hash": rows[0].IPFSHash, "filename": "renamed"}); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		since := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
			object{"group_id": group, "after_seq": rows[0].Seq})
		if len(since) != n || *since[n-1].Filename != "renamed" {
			t.Errorf("in order of change: %d of %d rows", len(since), n)
		}
		all := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
			object{"group_id": group, "kinds": wire.KindsAll, "layouts": layouts()})
		if len(all) != n+2 { // registered, renamed
			t.Errorf("records: %d, want %d", len(all), n+2)
		}
	}
	bob := r.user("bob", "1")
	for group, want := range map[string]int{"g1": http.StatusForbidden, "none": http.StatusNotFound} {
		if status, body := bob.tool(wire.OpGetGroupTransactions, object{"group_id": group}); status != want {
			t.Errorf("%s: %d %s", group, status, body)
		}
	}
	if status, body := alice.tool(wire.OpGetGroupTransactions,
		object{"group_id": "g1", "kinds": "other"}); status != http.StatusBadRequest {
		t.Errorf("unknown kinds: %d %s", status, body)
	}
}

// Only the owner of the group sees the retrievals of others, in an open group too; every
// member sees its own.
func TestThreat32WhoReadWhatIsTheOwnersToKnow(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob, carol := r.user("alice", "10"), r.user("bob", "10"), r.user("carol", "10")
	must[string](alice, wire.OpCreateHackathonGroup,
		object{"group_id": "g", "expires_at": fmt.Sprint(time.Now().Add(time.Hour).UnixNano())})
	up := alice.upload("g", "file", []byte("content"))
	for _, u := range []*user{bob, carol} {
		must[string](u, wire.OpJoinGroup, object{"group_id": "g"})
		u.retrieve("g", up.CID)
	}
	for u, want := range map[*user]string{alice: bob.id + " " + carol.id, bob: bob.id, carol: carol.id} {
		var readers []string
		after := int64(0)
		for { // page by page, so that a page of hidden records ends nothing
			rows := must[[]wire.TransactionRow](u, wire.OpGetGroupTransactions,
				object{"group_id": "g", "kinds": wire.KindsAll, "layouts": layouts(), "after_seq": after, "limit": 1})
			if len(rows) == 0 {
				break
			}
			after = rows[0].ChangedSeq
			if rows[0].Kind == "claim_token" {
				readers = append(readers, rows[0].UserID)
			}
		}
		if got := strings.Join(readers, " "); got != want {
			t.Errorf("%s is told of the reads of %q, want %q", u.id, got, want)
		}
	}
}
