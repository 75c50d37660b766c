package groups

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/store/plantest"
)

// Threat 31: names that begin alike are found by the index of names, in order.
func TestThreat31NamesThatBeginAlikeAreFoundByName(t *testing.T) {
	got := plantest.Steps(t, "files", selectAlike, "g", "beginning", 9)
	if len(got) != 1 || !strings.HasPrefix(got[0], "SEARCH files USING INDEX files_by_name (group_id=? AND <expr>=?)") {
		t.Errorf("%q", got)
	}
	if sorts := plantest.Steps(t, "ORDER", selectAlike, "g", "beginning", 9); len(sorts) > 0 {
		t.Errorf("%q", sorts)
	}
}
