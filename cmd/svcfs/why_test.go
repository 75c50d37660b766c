package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// Each way in which a save fails has commands that go on, and no command removes a recorded
// version.
func TestWhyNextSteps(t *testing.T) {
	recorded := &report.Recorded{Version: "/team/.svcfs/history/f 1/000001-x"}
	for name, tc := range map[string]struct {
		class  tree.Class
		state  string // of what is staged; "" = nothing
		path   string
		before *report.Recorded
		want   []string
	}{
		"half, new": {tree.ClassTooBig, report.StagedHalf, "/team/f", nil,
			[]string{"cp FILE /m/team/f", "rm /m/team/f"}},
		"half, recorded": {tree.ClassTooBig, report.StagedHalf, "/team/f 1", recorded,
			[]string{"cp FILE '/m/team/f 1'", "cp '/m/team/.svcfs/history/f 1/000001-x' '/m/team/f 1'"}},
		"full disk": {tree.ClassNoSpace, report.StagedFailed, "/team/f", nil,
			[]string{"df /m/team", "sync /m/team/f", "cp -i /m/team/f ~/", "rm /m/team/f"}},
		"link": {tree.ClassNoSpace, report.StagedFailed, "/team/d/link", nil,
			[]string{"df /m/team", "sync /m/team/d", "cp -i -P /m/team/d/link ~/", "rm /m/team/d/link"}},
		"memory":            {tree.ClassNoMemory, "", "/team/f", nil, []string{"svcfs status /m"}},
		"price":             {tree.ClassBudget, "", "/team/f", nil, []string{"svcfs balance"}},
		"rights":            {tree.ClassAccess, "", "/team/f", nil, []string{"svcfs group members team --roles"}},
		"rights, odd group": {tree.ClassReadOnly, "", "/te am/f", nil, []string{"svcfs group members GROUP --roles"}},
		"killed": {tree.ClassInterrupted, report.StagedKilled, "/team/f", nil,
			[]string{"sync /m/team/f", "rm /m/team/f"}},
		"away": {tree.ClassUnreachable, report.StagedAway, "/team/f", recorded,
			[]string{"svcfs doctor", "sync /m/team/f"}},
		"conflict": {tree.ClassConflict, "", "/team/d/f", nil, []string{"ls -l /m/team/.svcfs/history/d/f"}},
		"a quote": {tree.ClassOther, report.StagedWritten, "/team/it's", nil,
			[]string{`sync '/m/team/it'\''s'`}},
		"a command": {tree.ClassOther, report.StagedWritten, "/team/$(id)", nil,
			[]string{`sync '/m/team/$(id)'`}},
		"by design": {tree.ClassByDesign, "", "/team/f", nil, nil},
	} {
		r := report.Reason{Path: tc.path, Class: tc.class.String(), Recorded: tc.before}
		if tc.state != "" {
			r.Staged = &report.Staged{Path: tc.path, State: tc.state, Link: name == "link"}
		}
		var got []string
		for _, step := range nextSteps("/m", r) {
			got = append(got, step.Command)
			if tc.before != nil && strings.HasPrefix(step.Command, "rm ") {
				t.Errorf("%s: %s would remove the recorded version", name, step.Command)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	// what waits under a temporary name stays in its folder
	steps := nextSteps("/m", report.Reason{Path: "/te am/d/x.tmp",
		Waits: &outbox.Item{State: outbox.Parked.String(), Temporary: true}})
	if want := "mv '/m/te am/d/x.tmp' '/m/te am/d/NAME'"; len(steps) == 0 || steps[0].Command != want {
		t.Errorf("%q, want %s first", steps, want)
	}
	// a save under a name of its own is in no history of the name
	steps = nextSteps("/m", report.Reason{Path: "/team/d/f", Class: tree.ClassConflict.String(), Operation: "save"})
	if len(steps) != 1 || steps[0].Command != "svcfs conflicts /m/team/d/f" {
		t.Errorf("%q", steps)
	}
}
