package files

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/store/plantest"
)

// The sweep looks at files of groups with a retention window only, and in order: it
// sorts nothing.
func TestExpiredFilesAreFoundByGroup(t *testing.T) {
	got := plantest.Steps(t, "files", selectExpired, "", "", backendFastFS, 9, 9, 100)
	if len(got) != 1 || !strings.HasPrefix(got[0], "SEARCH files USING INDEX files_by_group (group_id=?)") {
		t.Errorf("%q", got)
	}
	if sorts := plantest.Steps(t, "ORDER", selectExpired, "", "", backendFastFS, 9, 9, 100); len(sorts) > 0 {
		t.Errorf("%q", sorts)
	}
}

// A name is found by its index, however many files the group has.
func TestVersionsAreFoundByName(t *testing.T) {
	got := plantest.Steps(t, "files", "SELECT 1 FROM files WHERE group_id = ? AND deleted_ns IS NULL AND "+selectNamed, "g", "name", "name")
	if len(got) != 1 || !strings.HasPrefix(got[0], "SEARCH files USING INDEX files_by_name (group_id=? AND <expr>=?)") {
		t.Errorf("%q", got)
	}
}
