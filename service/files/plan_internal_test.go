package files

import (
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/plantest"
)

// The sweep looks at groups with a retention window only, at one living file of each, and in order at those that
// expired: it sorts nothing.
func TestExpiredFilesAreFoundByAge(t *testing.T) {
	for query, want := range map[store.Query]string{allWindows: "(group_id=?)",
		"SELECT ref" + fromExpired: "(group_id=? AND time_ns<?)"} {
		args := []any{9, 100, 100}[:strings.Count(string(query), "?")]
		got := plantest.Steps(t, "files", query, args...)
		if len(got) != 1 || !strings.HasPrefix(got[0], "SEARCH files USING ") ||
			!strings.HasSuffix(got[0], "INDEX files_by_age "+want) {
			t.Errorf("%q", got)
		}
		if sorts := plantest.Steps(t, "ORDER", query, args...); len(sorts) > 0 {
			t.Errorf("%q", sorts)
		}
	}
	if got := plantest.Steps(t, "groups", allWindows, 9, 100); len(got) != 1 ||
		!strings.HasPrefix(got[0], "SCAN groups USING INDEX groups_with_window") {
		t.Errorf("%q", got)
	}
}

// The sweep looks at files of groups that have ended only.
func TestFilesOfEndedGroupsAreFoundByGroup(t *testing.T) {
	if got := plantest.Steps(t, "groups", selectEnded, 100); len(got) != 2 ||
		!strings.HasPrefix(got[0], "SCAN groups USING INDEX groups_ended") {
		t.Errorf("%q", got)
	}
	if got := plantest.Steps(t, "files", selectEnded, 100); len(got) != 1 ||
		!strings.HasPrefix(got[0], "SEARCH files USING INDEX files_by_name (group_id=?)") {
		t.Errorf("%q: those that were destroyed are read again and again", got)
	}
}

// A name is found by its index, however many files the group has.
func TestVersionsAreFoundByName(t *testing.T) {
	got := plantest.Steps(t, "files", "SELECT 1 FROM files WHERE group_id = ? AND deleted_ns IS "+
		"NULL AND "+groups.SelectNamed, "g", "name", "name")
	if len(got) != 1 || !strings.HasPrefix(got[0], "SEARCH files USING INDEX files_by_name (group_id=? AND <expr>=?)") {
		t.Errorf("%q", got)
	}
}

// A folder is found by the index of names, however many files are elsewhere, and so is
// each name that is in use where it goes.
func TestFoldersAreFoundByName(t *testing.T) {
	in := inFolderArgs("folder")
	got := plantest.Steps(t, "files", selectBeneath, append(append([]any{"g"}, in...), 9)...)
	if len(got) != 1 || !strings.HasPrefix(got[0],
		"SEARCH files USING INDEX files_by_name (group_id=? AND <expr>>? AND <expr><?)") {
		t.Errorf("beneath: %q", got)
	}
	args := append(append(append([]any{"g"}, in...), 150, "to", 5), inFolderArgs("to")[:2]...)
	got = plantest.Steps(t, "files", selectTaken, args...)
	if len(got) != 1 || !strings.HasPrefix(got[0],
		"SEARCH files USING INDEX files_by_name (group_id=? AND <expr>>? AND <expr><?)") {
		t.Errorf("in use: %q", got)
	}
	got = plantest.Steps(t, "old", selectTaken, args...)
	if len(got) != 1 || !strings.HasPrefix(got[0],
		"SEARCH old EXISTS USING INDEX files_by_name (group_id=? AND <expr>=?)") {
		t.Errorf("of it: %q", got)
	}
	got = plantest.Steps(t, "files", selectBeginning, "g", "beginning")
	if len(got) != 1 || !strings.HasPrefix(got[0], "SEARCH files USING INDEX files_by_name (group_id=? AND <expr>=?)") {
		t.Errorf("long names: %q", got)
	}
}

// A level of folders, and the versions of a name, are read in the order of the index of names.
func TestLevelsAreReadInOrder(t *testing.T) {
	for query, want := range map[store.Query]string{selectNamesFrom: ">", selectNamesAfter: ">", selectVersions: "=",
		selectNameless: "="} {
		args := []any{"g", "name", "name", 9, 9}[:strings.Count(string(query), "?")]
		got := plantest.Steps(t, "files", query, args...)
		if len(got) != 1 || !strings.HasPrefix(got[0],
			"SEARCH files USING INDEX files_by_name (group_id=? AND <expr>"+want+"?") {
			t.Errorf("%s: %q", query, got)
		}
		for _, sorts := range plantest.Steps(t, "ORDER", query, args...) {
			if want == "=" || !strings.HasPrefix(sorts, "USE TEMP B-TREE FOR LAST") { // among names that begin alike
				t.Errorf("%s: %q", query, sorts)
			}
		}
	}
}

// A page of the trash is read in order, however many files the group has that are not in it.
func TestTrashIsReadInOrder(t *testing.T) {
	got := plantest.Steps(t, "files", selectTrash, "g", 9, 100)
	if len(got) != 1 || got[0] != "SEARCH files USING INDEX files_in_trash_by_seq (group_id=? AND seq<?)" {
		t.Errorf("%q", got)
	}
	if sorts := plantest.Steps(t, "ORDER", selectTrash, "g", 9, 100); len(sorts) > 0 {
		t.Errorf("%q", sorts)
	}
}

// The next recorded folder is found by the index of paths.
func TestRecordedFoldersAreReadInOrder(t *testing.T) {
	got := plantest.Steps(t, "folders", selectFolder, "g", "name", "name", "name")
	if len(got) != 1 || !strings.HasPrefix(got[0],
		"SEARCH folders USING INDEX folders_by_path (group_id=? AND <expr>>?") {
		t.Errorf("%q", got)
	}
}

// What the sweep and an upload look for of a name is found in order, however many versions
// the name has that stay for ever.
func TestOlderVersionsAreFoundByName(t *testing.T) {
	for _, query := range []store.Query{"SELECT 1 FROM files WHERE " + groups.SelectSurplus, groups.SelectOldestKept} {
		got := plantest.Steps(t, "files", query, "g", "name", "name", 9, 9)
		if len(got) != 1 || !strings.HasPrefix(got[0],
			"SEARCH files USING INDEX files_by_name (group_id=? AND <expr>=?") {
			t.Errorf("%q", got)
		}
		if sorts := plantest.Steps(t, "ORDER", query, "g", "name", "name", 9, 9); len(sorts) > 0 {
			t.Errorf("%q", sorts)
		}
	}
	got := plantest.Steps(t, "files", selectNewest, "g", "name", "name")
	if len(got) != 1 || !strings.HasPrefix(got[0], "SEARCH files USING INDEX files_by_name (group_id=? AND <expr>=?") {
		t.Errorf("%q", got)
	}
	if sorts := plantest.Steps(t, "ORDER", selectNewest, "g", "name", "name"); len(sorts) > 0 {
		t.Errorf("%q", sorts)
	}
	got = plantest.Steps(t, "files", groups.SelectChanges, "g", 1, 9, 2, 1, 100)
	if len(got) != 1 || !strings.HasPrefix(got[0],
		"SEARCH files USING INDEX files_by_change (group_id=? AND changed_seq>? AND changed_seq<?)") {
		t.Errorf("%q", got)
	}
}

// What a version in blocks ends, and what the sweep does after it, is found by indexes,
// however many parts there are.
func TestPartsAreFoundByTheirUses(t *testing.T) {
	for query, args := range map[store.Query][]any{
		loosenParts: {9, "ref"}, removeLoose: {9}, removeOfUploads: {9, 9}, groups.SelectTrashedParts: {"g"},
		selectLoose: {9, 9, "id", 9}, listParts: {"upload", "id", 9},
	} {
		steps := plantest.Steps(t, "parts", query, args...)
		slow := func(step string) bool { return !strings.HasPrefix(step, "SEARCH parts USING") }
		if len(steps) == 0 || slices.ContainsFunc(steps, slow) {
			t.Errorf("%s: %q", query, steps)
		}
	}
}

// Each part that comes asks what its account has open, while all writers wait: no part is
// read for that, however many there are.
func TestOpenPartsAreNotCounted(t *testing.T) {
	for table, want := range map[string]string{"uploads": "SEARCH uploads USING INDEX uploads_open (account=?)",
		"part_uploads": "SEARCH part_uploads USING INDEX part_uploads_of (account=?)"} {
		got := plantest.Steps(t, table, selectOpen, "account", "id", "account")
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%q", got)
		}
	}
	if parts := plantest.Steps(t, "parts", selectOpen, "account", "id", "account"); len(parts) > 0 {
		t.Errorf("%q", parts)
	}
}
