package ledger_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// Page by page, an account sees what it may see and nothing else. A page costs at most three queries for each of its
// records, and three to find no more, however many records of others lie between. Each is prepared once.
func TestHistory(t *testing.T) {
	line := pgtest.NewLine(t, pgtest.Start(t).NewDatabase(t))
	for engine, open := range map[string]func() (*store.Store, error){
		"sqlite":   func() (*store.Store, error) { return store.Open(t.Context(), t.TempDir(), "") },
		"postgres": func() (*store.Store, error) { return store.Open(t.Context(), "", line.URL) },
	} {
		s, err := open()
		if err != nil {
			t.Fatal(engine, err)
		}
		defer s.Close()
		sees := map[string][]int64{} // sequences, the newest first
		if err := s.Load(t.Context(), func(tx *store.Tx) (err error) {
			insert := func(query store.Query, args ...any) {
				err = errors.Join(err, tx.Do(t.Context(), "fill", query, args...))
			}
			for _, owner := range []string{"alice", "bob"} {
				insert("INSERT INTO accounts (id, credential, key_generation, balance, created_ns) "+
					"VALUES (?, ?, 1, '', 1)", owner, []byte(owner))
				for name, ended := range map[string]any{"lives": nil, "ended": 1} {
					insert("INSERT INTO groups (id, owner, key_version, joinable, ended_ns) VALUES (?, ?, 1, ?, ?)",
						owner+name, owner, false, ended)
					insert("INSERT INTO members (group_id, account, since) VALUES (?, ?, 1)", owner+name, owner)
				}
			}
			insert("INSERT INTO members (group_id, account, since) VALUES ('boblives', 'alice', 1)")
			pick := rand.New(rand.NewPCG(1, 2))
			one := func(of ...string) string { return of[pick.IntN(len(of))] }
			gaps := []int64{1, 1, 1, 1, 19_999, 20_000, 20_001, 5_000_000}
			for seq := int64(1); seq < 100_000_000; seq += gaps[pick.IntN(len(gaps))] {
				who, group, kind := one("alice", "bob"), one("", "alicelives", "boblives", "aliceended", "bobended"),
					one(chain.KindClaim, chain.KindRecord)
				insert("INSERT INTO ledger (seq, tx_id, kind, time_ns, account, group_id, ref, file_hash, detail, "+
					"fee, request, prev_hash, hash) VALUES (?, '', ?, 1, ?, ?, '', '', '', '0', '', ?, ?)",
					seq, kind, who, group, make([]byte, 32), make([]byte, 32))
				if who == "alice" || group == "alicelives" || group == "boblives" && kind != chain.KindClaim {
					sees["alice"] = slices.Insert(sees["alice"], 0, seq)
				}
			}
			return err
		}); err != nil {
			t.Fatal(engine, err)
		}
		for _, account := range []string{"alice", "nobody"} {
			for _, limit := range []int{7, math.MaxInt32} {
				var got []int64
				if err := s.Read(t.Context(), func(tx *store.Tx) error {
					for before, n := int64(0), limit; n == limit; {
						looked := line.Trips()
						rows, err := ledger.History(t.Context(), tx, account, before, limit)
						if err != nil {
							return err
						}
						n, looked = len(rows), line.Trips()-looked
						if looked > int64(3*n+6) {
							t.Errorf("%s: a page of %d records costs %d queries", engine, n, looked)
						}
						for _, r := range rows {
							got, before = append(got, r.Seq), r.Seq
						}
					}
					return nil
				}); err != nil || !slices.Equal(got, sees[account]) {
					t.Errorf("%s: %s sees %d, %v, want %d", engine, account, got, err, sees[account])
				}
			}
		}
	}
}
