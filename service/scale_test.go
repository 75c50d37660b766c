package service_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/pgtest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// TestManyClients: 200 clients at once upload, list and retrieve without an
// error. SVCD_CLIENT_ROUNDS makes it longer.
func TestManyClients(t *testing.T) {
	const clients, accounts = 200, 20
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("SVCD_CLIENT_ROUNDS")); err == nil {
		rounds = n
	}
	r := run(t)
	users := make([]*user, accounts)
	for i := range users {
		users[i] = r.user(fmt.Sprintf("user%d", i), "100000")
		must[string](users[i], wire.OpRegisterGroup, object{"group_id": fmt.Sprint("g", i)})
	}
	var wg sync.WaitGroup
	for i := range clients {
		u, group := users[i%accounts], fmt.Sprint("g", i%accounts)
		wg.Go(func() {
			for round := range rounds {
				content := bytes.Repeat([]byte{byte(i), byte(round)}, 2048)
				done := u.upload(group, fmt.Sprintf("f%d-%d", i, round), content)
				if got, problem := u.retrieve(group, done.Location); !bytes.Equal(got, content) {
					t.Errorf("client %d: %d bytes %s", i, len(got), problem)
				}
				must[[]wire.TransactionRow](u, wire.OpGetGroupTransactions,
					wire.TransactionsRequest{GroupID: group, Limit: 100})
			}
		})
	}
	wg.Wait()
	if n, err := r.svc.Audit(t.Context()); err != nil || n < int64(clients*rounds*2) {
		t.Errorf("audit: %d records, %v", n, err)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if memory.Sys > 512<<20 {
		t.Errorf("the process holds %d MiB, want less than 512", memory.Sys>>20)
	}
}

// BenchmarkPage reads a full page from the middle of groups of growing size.
// The time must not grow with the group.
func BenchmarkPage(b *testing.B) {
	databases := map[string]string{"sqlite": ""}
	if server := pgtest.Start(b); server != nil {
		databases["postgres"] = server.NewDatabase(b)
	}
	for _, engine := range []string{"sqlite", "postgres"} {
		r := runOn(b, databases[engine])
		alice := r.user("alice", "100")
		for _, size := range []int{10_000, 30_000, 100_000} {
			group := fmt.Sprint("group-of-", size)
			must[string](alice, wire.OpRegisterGroup, object{"group_id": group})
			fill(b, r.openDatabase(), group, alice.id, size)
			middle := middleOf(b, r.openDatabase(), group, size)
			b.Run(fmt.Sprintf("%s/files=%d", engine, size), func(b *testing.B) {
				for b.Loop() {
					status, body := alice.tool(wire.OpGetGroupTransactions,
						wire.TransactionsRequest{GroupID: group, AfterSeq: middle, Limit: wire.MaxPageRows})
					var out struct {
						Result []json.RawMessage `json:"result"`
					}
					if err := json.Unmarshal([]byte(body), &out); status != http.StatusOK || err != nil ||
						len(out.Result) != wire.MaxPageRows {
						b.Fatalf("%d: %d rows, %v", status, len(out.Result), err)
					}
				}
			})
		}
	}
}

// fill writes rows as so many uploads would have.
func fill(tb testing.TB, db *sql.DB, group, account string, n int) {
	tb.Helper()
	var base int
	ok(tb, db.QueryRow("SELECT COALESCE(max(seq), 0) FROM files").Scan(&base))
	base += 1000
	empty := "x''"
	if _, err := db.Exec("SELECT ''::bytea"); err == nil {
		empty = "''" // PostgreSQL
	}
	const batch = 500
	for from := 0; from < n; from += batch {
		var values []string
		for i := from; i < min(from+batch, n); i++ {
			seq := base + i
			values = append(values, fmt.Sprintf("('ref-%d', '%s', %d, %d, %d, '%064x', '%s', '%064x', %d, "+
				"'folder/file-%d.txt', 'text/plain', 'null', 'blob-%d', 1000, %s, 1)",
				seq, group, seq, seq, seq, seq, account, seq, 1_700_000_000_000_000_000+seq, i, seq, empty))
		}
		_, err := db.ExecContext(context.Background(), `INSERT INTO files (ref, group_id, seq, changed_seq, named_seq, tx_id, uploader, file_hash, time_ns, filename,
			content_type, format, blob_id, blob_size, blob_sum, key_version) VALUES `+strings.Join(values, ", "))
		if err != nil {
			tb.Fatal(err)
		}
	}
}

func middleOf(tb testing.TB, db *sql.DB, group string, n int) (seq int64) {
	tb.Helper()
	query := fmt.Sprintf("SELECT changed_seq FROM files WHERE group_id = '%s' ORDER BY changed_seq LIMIT 1 OFFSET %d",
		group, n/2-1)
	ok(tb, db.QueryRow(query).Scan(&seq))
	return seq
}

// BenchmarkList lists a group of 100 000 files page by page: as a plain list, and as its
// chain with the proof.
func BenchmarkList(b *testing.B) {
	const files = 100_000
	r := runOn(b, "")
	alice := r.owner()
	alice.upload("g", "first", nil) // makes the list key
	fillRecords(b, r, "g", alice.id, files)
	r.checkpoint()
	for name, request := range map[string]wire.TransactionsRequest{
		"plain": {GroupID: "g", Limit: wire.MaxPageRows},
		"chain": {GroupID: "g", Limit: wire.MaxPageRows, Kinds: wire.KindsChain, Layouts: layouts(),
			Nonce: nonce, KnownSize: 2},
	} {
		b.Run(name, func(b *testing.B) {
			var bytes, rows int
			for b.Loop() {
				bytes, rows = 0, 0
				for request.AfterSeq = 0; ; {
					status, body := alice.tool(wire.OpGetGroupTransactions, request)
					if status != 200 {
						b.Fatal(status, body)
					}
					bytes += len(body)
					list, _, ok := wire.ParseRows([]byte(body), 1000, 100)
					if !ok {
						b.Fatal("not understood")
					}
					rows += len(list)
					if len(list) < request.Limit {
						break
					}
					request.AfterSeq = list[len(list)-1].ChangedSeq
				}
			}
			b.ReportMetric(float64(bytes)/float64(rows), "bytes/row")
		})
	}
}

// listKey returns the list key of a group that has a file.
func (r *running) listKey(group string) keys.ListKey {
	r.t.Helper()
	db := r.openDatabase()
	defer db.Close()
	var wrapped []byte
	ok(r.t, db.QueryRow("SELECT wrapped_key FROM groups JOIN file_keys ON file_keys.id = list_key WHERE groups.id = $1",
		group).Scan(&wrapped))
	opened, err := r.openVault().OpenList(r.t.Context(), vaultwire.OpenList{Group: group, Wrapped: wrapped})
	ok(r.t, err)
	raw, err := format.NewKey(opened.Key)
	ok(r.t, err)
	key, err := keys.NewListKey(raw)
	ok(r.t, err)
	return key
}

// fillRecords adds files to a group, with their records.
func fillRecords(b *testing.B, r *running, group, account string, files int) {
	b.Helper()
	key := r.listKey(group)
	db, err := store.Open(b.Context(), r.dir, r.database)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	l := ledger.New(ledger.DefaultFees(), ledger.Bounds{}, time.Now)
	// one transaction for all would have the end of the chain in so many versions that PostgreSQL walks through them
	const together = 10_000
	fill := func(tx *store.Tx, from int) error {
		for i := from; i < min(from+together, files); i++ {
			name := fmt.Sprintf("folder/file-%06d.txt", i)
			ref := fmt.Sprintf("bafy.svc.testnet/fastfs.svc.testnet/%s/%s-%d", hash([]byte(group)),
				"0190c2a8-7c5e-7d3c-9d5e", i)
			opening := chain.Opening{Salt: sha256.Sum256([]byte(ref)), Size: int64(1000 + i),
				Hash: sha256.Sum256([]byte(name))}
			rec, err := l.Append(ledger.WithRequestID(b.Context(), ledger.NewRequestID("")), tx,
				chain.Record{Kind: chain.KindRecord, Account: account, Group: group, Ref: ref,
					FileHash: opening.Commitment(), Detail: name,
					Fee:  l.Fee(ledger.ActionUpload).String(),
					Tags: []chain.Tag{{Name: chain.TagType, Value: "text/plain"}}})
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(b.Context(), `INSERT INTO files (ref, group_id, seq, changed_seq, named_seq, tx_id, uploader, file_hash, time_ns, filename,
				content_type, format, blob_id, blob_size, blob_sum, key_version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'text/plain', 'null', ?, ?, ?, 1)`,
				ref, group, rec.Seq, rec.Seq, rec.Seq, rec.Tx, account, rec.FileHash, rec.TimeNS, name, ref, 1028+i,
				make([]byte, 32))
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(b.Context(), "INSERT INTO openings (seq, sealed) VALUES (?, ?)", rec.Seq,
				key.Seal(rec.Seq, &opening)); err != nil {
				return err
			}
		}
		return nil
	}
	for from := 0; from < files; from += together {
		if err := db.Load(b.Context(), func(tx *store.Tx) error { return fill(tx, from) }); err != nil {
			b.Fatal(err)
		}
	}
}
