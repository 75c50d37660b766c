package service_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/vaulttest"
)

// BenchmarkSave records files of 4 KiB: prepared and finalized, in one request, and many in one
// request; from one client, and from eight at once. It reports what the disk was given, and
// the CPU of service and clients together (files are sealed before).
func BenchmarkSave(b *testing.B) {
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("prepare and finalize/clients=%d", clients),
			func(b *testing.B) { benchmarkSave(b, clients, 0, 0) })
		for _, together := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("sealed/clients=%d/together=%d", clients, together),
				func(b *testing.B) { benchmarkSave(b, clients, together, 0) })
		}
	}
}

// BenchmarkSaveBesideMany saves into groups of more and more files, on the engine of the flag: a save costs the same.
// Give a number of saves, such as -benchtime 2000x, or each group is filled several times.
func BenchmarkSaveBesideMany(b *testing.B) {
	for _, files := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("files=", files), func(b *testing.B) { benchmarkSave(b, 1, 1, files) })
	}
}

// benchmarkSave saves with so many clients and in so many files a request, 0 = prepared, into a group that has so many
// files.
func benchmarkSave(b *testing.B, clients, together, files int) {
	r := runWith(b, service.Config{RequestRate: -1, Database: newDatabase(b)})
	alice := r.owner()
	alice.give("100000000")
	if files > 0 && b.N > 1 { // else it is the one save that is tried before
		alice.upload("g", "first", nil) // makes the list key
		fillRecords(b, r, "g", alice.id, files)
		db := r.openDatabase()
		defer db.Close()
		proctest.Eventually(b, "the records have their places", func() bool {
			var waiting int
			if err := db.QueryRow("SELECT count(*) FROM unplaced").Scan(&waiting); err != nil || waiting > 0 {
				return false
			}
			item := alice.seals("g", "one more", []byte("x"))
			status, _ := alice.putsFrame(item.ID, item.frame())
			return status == http.StatusOK
		})
	}
	content := noise(4096)
	frames := make([][]byte, b.N)
	ids := make([]string, b.N)
	if together > 0 {
		vault := r.vaultKey() // once: who asks often without a session is bounded
		for i := range frames {
			item := alice.sealsFor(vault, "g", fmt.Sprintf("folder/file-%d", i), content)
			frames[i], ids[i] = item.frame(), item.ID
		}
	}
	save := func(from, to int) {
		switch {
		case together == 0:
			alice.upload("g", fmt.Sprintf("folder/file-%d", from), content)
		case together == 1:
			if status, body := alice.putsFrame(ids[from], frames[from]); status != http.StatusOK {
				b.Error(status, body)
			}
		default:
			if status, body := alice.post(wire.PathTools+wire.OpFinalizeUploads, alice.header(),
				bytes.Join(frames[from:to], nil)); status != http.StatusOK {
				b.Error(status, string(body))
			}
		}
	}
	step := max(together, 1)
	var next atomic.Int64
	wrote, cpu := written(b), spent(b)
	b.ResetTimer()
	done := make(chan struct{})
	for range clients {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				from := int(next.Add(int64(step))) - step
				if from >= b.N {
					return
				}
				save(from, min(from+step, b.N))
			}
		}()
	}
	for range clients {
		<-done
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "saves/s")
	b.ReportMetric((written(b)-wrote)/float64(b.N), "B-written/op")
	b.ReportMetric((spent(b)-cpu).Seconds()*1000/float64(b.N), "ms-cpu/op")
	b.ReportMetric(0, "ns/op")
}

// give gives an account tokens.
func (u *user) give(tokens string) {
	u.t.Helper()
	amount, err := wire.ParseTokens(tokens)
	ok(u.t, err)
	ok(u.t, errOf(u.svc.Fund(u.t.Context(), strings.TrimSuffix(u.id, ".svc.testnet"), amount)))
}

// written is what this process gave to the disk, in bytes.
func written(b *testing.B) (n float64) {
	b.Helper()
	raw, err := os.ReadFile("/proc/self/io")
	ok(b, err)
	_, rest, _ := strings.Cut(string(raw), "\nwrite_bytes: ")
	_, err = fmt.Sscan(rest, &n)
	ok(b, err)
	return n
}

// spent is the CPU time of this process.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	ok(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkFreeChanges changes the attributes of a file with a short and with the longest name, and
// reports how much the database grows for each change that counts.
func BenchmarkFreeChanges(b *testing.B) {
	for name, length := range map[string]int{"short": 10, "longest": files.MaxFilename} {
		b.Run(name, func(b *testing.B) {
			r := runWith(b, service.Config{Database: newDatabase(b), RequestRate: -1, FreeChanges: 1 << 30})
			alice := r.owner()
			ref := alice.upload("g", strings.Repeat("n", length), nil).CID
			db := r.openDatabase()
			defer db.Close()
			size := func() (n int64) {
				query := "SELECT pg_database_size(current_database())"
				if r.database == "" {
					query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
				}
				ok(b, db.QueryRow(query).Scan(&n))
				return n
			}
			before := size()
			for i := range b.N {
				must[string](alice, wire.OpSetAttributes, attributesRequest(ref, fmt.Sprintf(`{"mtime":"%d"}`, i+1)))
			}
			var counted int64
			ok(b, db.QueryRow("SELECT made FROM free_changes WHERE scope = ''").Scan(&counted))
			b.ReportMetric(float64(size()-before)/float64(counted), "B/counted")
			b.ReportMetric(float64(counted)/float64(b.N), "counted/op")
		})
	}
}

// BenchmarkCosts tells what a save and a retrieval cost PostgreSQL: its write-ahead log, without and with the pages
// that it writes whole after a checkpoint of its own, and how the database grows, also the tables of the ledger. A save
// is of a small content, which lies in the database, or of one that does not.
func BenchmarkCosts(b *testing.B) {
	for _, c := range []struct {
		what string
		size int64
		read bool
	}{{"save of 4 KiB", 4 << 10, false}, {"save of 500 KB", 500_000, false}, {"retrieval of 4 KiB", 4 << 10, true}} {
		b.Run(c.what, func(b *testing.B) { benchmarkCosts(b, c.size, c.read) })
	}
}

func benchmarkCosts(b *testing.B, size int64, read bool) {
	r := runWith(b, service.Config{Database: engines.NewPostgres(b), RequestRate: -1})
	alice := r.owner()
	alice.give("100000000")
	db := r.openDatabase()
	defer db.Close()
	of := func(query string) (n float64) {
		ok(b, db.QueryRow(query).Scan(&n))
		return n
	}
	const wal, ledger = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')", `SELECT sum(pg_total_relation_size(t))
		FROM unnest(ARRAY['ledger', 'places', 'unplaced', 'chains', 'spent_uploads', 'openings']::regclass[]) AS t`
	const whole = "SELECT pg_database_size(current_database())"
	vault := r.vaultKey()
	ref := alice.mustPut(alice.sealsFor(vault, "g", "first", noise(size))).CID
	begin := func() (log, kept, all float64) { return of(wal), of(ledger), of(whole) }
	run := func(round string) {
		for i := range b.N {
			if read {
				alice.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref, "transfer": "raw"})
				continue
			}
			alice.mustPut(alice.sealsFor(vault, "g", fmt.Sprintf("folder/%s-%d", round, i), noise(size)))
		}
	}
	run("warm")
	log, kept, all := begin()
	run("more")
	logAfter, keptAfter, allAfter := begin()
	_, err := db.Exec("CHECKPOINT")
	ok(b, err)
	fromCheckpoint := of(wal)
	run("after")
	n := float64(b.N)
	b.ReportMetric((logAfter-log)/n, "B-wal/op")
	b.ReportMetric((of(wal)-fromCheckpoint)/n, "B-wal-after-checkpoint/op")
	b.ReportMetric((allAfter-all)/n, "B-database/op")
	b.ReportMetric((keptAfter-kept)/n, "B-ledger/op")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFirstRetrieval times the first retrieval of a large group since the vault was started, with the state of the
// group that the vault made, and without.
func BenchmarkFirstRetrieval(b *testing.B) {
	const files = 100_000
	r := runWith(b, service.Config{Database: newDatabase(b), RequestRate: -1})
	alice := r.owner()
	alice.give("1000")
	ref := alice.upload("g", "a.txt", []byte("content")).CID
	fillRecords(b, r, "g", alice.id, files)
	took := map[bool]time.Duration{}
	for range b.N {
		for _, hasState := range []bool{false, true} {
			if !hasState {
				r.exec("DELETE FROM group_states")
			}
			other := r.againWith(service.Config{RequestRate: -1, MaxFileBytes: 1 << 20, Vault: vaulttest.BehindSocket})
			other.checkpoint()
			began := time.Now()
			must[wire.PrepareRetrieveResult](alice.signsInAt(other), wire.OpPrepareRetrieve,
				object{"group_id": "g", "ipfs_hash": ref})
			took[hasState] += time.Since(began)
		}
	}
	b.ReportMetric(took[false].Seconds()*1000/float64(b.N), "ms-without-state/op")
	b.ReportMetric(took[true].Seconds()*1000/float64(b.N), "ms-with-state/op")
	b.ReportMetric(took[false].Seconds()/took[true].Seconds(), "times-as-long")
	b.ReportMetric(0, "ns/op")
}
