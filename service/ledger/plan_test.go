package ledger

import (
	"slices"
	"testing"

	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/plantest"
)

// Threat 31: a page of an account's history reads no records of others.
func TestThreat31HistoryReadsOnlyTheAccountsRecords(t *testing.T) {
	got := append(plantest.Steps(t, "ledger", selectHistory, "a", 0, 9, "a", 0, 9, "a", "a", 0, 9, 100),
		plantest.Steps(t, "ledger", selectNewestSeen, "a", 9, 9, 9, "a", 9, 9, "a", "a")...)
	want := []string{"SEARCH ledger USING INDEX ledger_by_account (account=? AND seq>? AND seq<?)",
		"SEARCH ledger USING INDEX ledger_by_chain (group_id=? AND seq>? AND seq<?)",
		"SEARCH ledger USING INDEX ledger_claims (group_id=? AND seq>? AND seq<?)",
		"SEARCH ledger USING COVERING INDEX ledger_by_account (account=? AND seq<?)",
		"SEARCH ledger USING INDEX ledger_by_chain (group_id=? AND seq<?)",
		"SEARCH ledger USING COVERING INDEX ledger_claims (group_id=? AND seq<?)"}
	if !slices.Equal(got, want) {
		t.Errorf("how the ledger is read: %q", got)
	}
}

// Threat 31: a watch from the beginning reads no records of others.
func TestThreat31WatchReadsOnlyTheCallersRecords(t *testing.T) {
	got := plantest.Steps(t, "ledger", selectEvents, "a", 0, 9, 0, 9, "a", 0, 9, 100)
	want := []string{"SEARCH ledger USING INDEX ledger_by_chain (group_id=? AND seq>? AND seq<?)",
		"SEARCH ledger USING INDEX ledger_revocations (detail=?)"}
	if !slices.Equal(got, want) {
		t.Errorf("how the ledger is read: %q", got)
	}
}

// A page of the records of a group is read in order, however many there are: nothing is sorted.
// A record is found by its id among those that are indexed, or among the last few.
func TestRecordsAreReadInOrder(t *testing.T) {
	of := Viewer{Account: "a"}.may("g", 0)
	both := []string{"SEARCH ledger USING INDEX ledger_by_chain (group_id=? AND seq>?)",
		"SEARCH ledger USING INDEX ledger_claims (group_id=? AND seq>?)"}
	if got := plantest.Steps(t, "ledger", selectOfGroup, append(of, 9)...); !slices.Equal(got, both) {
		t.Errorf("how the ledger is read: %q", got)
	}
	if sorts := plantest.Steps(t, "B-TREE", selectOfGroup, append(of, 9)...); len(sorts) > 0 {
		t.Errorf("%q", sorts)
	}
	for query, want := range map[store.Query]string{selectIndexed: "SEARCH ledger USING INTEGER PRIMARY KEY (rowid=?)",
		selectNotIndexed: "SEARCH ledger USING INTEGER PRIMARY KEY (rowid>?)"} {
		if got := plantest.Steps(t, "ledger", query, "id", "id"); !slices.Equal(got, []string{want}) {
			t.Errorf("how the ledger is read: %q", got)
		}
	}
}

// Threat 31: the poller reads only new records.
func TestThreat31ThePollerReadsNewRecords(t *testing.T) {
	got := plantest.Steps(t, "ledger", selectConcerns, 0, 9)
	if want := []string{"SEARCH ledger USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"}; !slices.Equal(got, want) {
		t.Errorf("how the ledger is read: %q", got)
	}
}

// Threat 31: whoever renames a folder reads no other records of the group.
func TestThreat31RenamedFoldersAreFoundAlone(t *testing.T) {
	got := plantest.Steps(t, "ledger", "SELECT 1 "+ofFolders+" AND ledger.account = ? AND detail = ? ORDER BY seq", "g",
		1, "a", "b")
	if want := []string{"SEARCH ledger USING INDEX ledger_folders (group_id=? AND seq>?)"}; !slices.Equal(got, want) {
		t.Errorf("how the ledger is read: %q", got)
	}
}
