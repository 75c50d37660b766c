package ledger_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

func idOf(seq int) string {
	sum := sha256.Sum256(fmt.Append(nil, seq))
	return hex.EncodeToString(sum[:])
}

const insertRecord = `INSERT INTO ledger (seq, tx_id, kind, time_ns, account, group_id, ref, file_hash, detail, fee, request, prev_hash, hash)
	VALUES (?, ?, 'k', 1, '', '', ?, '', '', '0', '', ?, ?)`

// Every record is found by its id, whether it is in the index already or not.
func TestRecordsAreFoundByTheirIDs(t *testing.T) {
	const all = 4200
	for name, open := range map[string]func() (*store.Store, error){
		"sqlite":   func() (*store.Store, error) { return store.Open(t.Context(), t.TempDir(), "") },
		"postgres": func() (*store.Store, error) { return store.Open(t.Context(), "", pgtest.Start(t).NewDatabase(t)) },
	} {
		s, err := open()
		if err != nil {
			t.Fatal(name, err)
		}
		defer s.Close()
		if err := s.Load(t.Context(), func(tx *store.Tx) error {
			for seq := 1; seq <= all; seq++ {
				_, err := tx.ExecContext(t.Context(), insertRecord, seq, idOf(seq), fmt.Sprint("ref", seq), []byte{1},
					[]byte{2})
				if err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(name, err)
		}
		if err := s.Read(t.Context(), func(tx *store.Tx) error {
			for _, seq := range []int{1, 2048, 2049, 4096, 4097, all} {
				if ref, err := ledger.RefOf(t.Context(), tx, idOf(seq)); err != nil || ref != fmt.Sprint("ref", seq) {
					t.Errorf("%s: record %d: %q, %v", name, seq, ref, err)
				}
			}
			for _, id := range []string{"", "é", idOf(all + 1), idOf(7)[:20], idOf(7)[:10]} {
				if ref, err := ledger.RefOf(t.Context(), tx, id); err != nil || ref != "" {
					t.Errorf("%s: %q: %q, %v", name, id, ref, err)
				}
			}
			var indexed int
			err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM record_ids").Scan(&indexed)
			if want := map[string]int{"sqlite": 4096, "postgres": all}; indexed != want[name] {
				t.Errorf("%s: %d records are in the index", name, indexed)
			}
			return err
		}); err != nil {
			t.Error(name, err)
		}
	}
}
