package ledger

import (
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/store"
)

// Threat 31: a page of an account's history does not make the service read what
// others recorded.
func TestThreat31HistoryReadsOnlyTheAccountsRecords(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var plan []string
	err = s.Read(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+selectHistory, "a", 0, 9, "a", 0, 9, "a", 100)
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
			if strings.Contains(step, " ledger ") {
				plan = append(plan, step)
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"SEARCH ledger USING INDEX ledger_by_account (account=? AND seq>? AND seq<?)", "SEARCH ledger USING INDEX ledger_by_group (group_id=? AND seq>? AND seq<?)"}
	if !slices.Equal(plan, want) {
		t.Errorf("how the ledger is read: %q", plan)
	}
}
