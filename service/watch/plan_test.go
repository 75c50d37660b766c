package watch

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/store"
)

// plan tells how SQLite reads the ledger for a query.
func plan(t *testing.T, query store.Query, args ...any) (steps []string) {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Read(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				return err
			}
			if strings.Contains(step, "ledger") {
				steps = append(steps, step)
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// Threat 31: a caller who watches from the beginning does not make the service
// read what others recorded.
func TestThreat31WatchReadsOnlyTheCallersRecords(t *testing.T) {
	got := plan(t, selectEvents, "a", 0, 9, "a", 0, 9, maxEvents)
	if len(got) != 2 || !strings.Contains(got[0], "ledger_by_group (group_id=?") || !strings.Contains(got[1], "ledger_revocations (detail=?") {
		t.Errorf("how the ledger is read: %q", got)
	}
}

// Threat 31: the poller reads what is new and nothing else.
func TestThreat31ThePollerReadsNewRecords(t *testing.T) {
	got := plan(t, selectConcerns, 0, 9)
	if len(got) != 1 || !strings.Contains(got[0], "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)") {
		t.Errorf("how the ledger is read: %q", got)
	}
}
