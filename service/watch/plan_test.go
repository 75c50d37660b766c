package watch

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/store"
)

// Threat 31: a caller who watches from the beginning does not make the service
// read what others recorded.
func TestThreat31WatchReadsOnlyTheCallersRecords(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var plan []string
	err = s.Read(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+selectEvents, "a", 0, 9, "a", 0, 9, maxEvents)
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
				plan = append(plan, step)
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan) != 2 || !strings.Contains(plan[0], "ledger_by_group (group_id=?") || !strings.Contains(plan[1], "ledger_revocations (detail=?") {
		t.Errorf("how the ledger is read: %q", plan)
	}
}
