package tree

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
)

// brief tells of a reason in one line: path > name, class, recorded version, staged state and size.
func brief(r report.Reason) string {
	text := r.Path
	if r.Name != "" {
		text += " > " + r.Name
	}
	text += ", " + r.Class
	if r.Recorded != nil {
		text += fmt.Sprintf(", %s of %d", r.Recorded.Version[strings.LastIndexByte(r.Recorded.Version, '/')+1:], r.Recorded.Size)
	}
	if r.Staged != nil {
		text += fmt.Sprintf(", %s %d at %s", r.Staged.State, r.Staged.Size, r.Staged.Path)
	}
	return text
}

// E1: the reasons tell what is recorded and what is only in memory, for each way in which
// a save can fail.
func TestE1ReasonsTellWhatIsLeft(t *testing.T) {
	const version = ", 000001-20231114T221321Z-alice.svc.testnet.txt of 5"
	for name, tc := range map[string]struct {
		do   func(m *mounted, w *world)
		want []string
	}{
		"nothing failed": {func(m *mounted, _ *world) { ok(m.t, m.save("/team/f.txt", "again")) }, nil},
		"truncated": {func(m *mounted, _ *world) {
			h := m.open("/team/f.txt", OpenFlags{Write: true, Truncate: true})
			m.write(h, "half", 0)
			m.refused(h, "x", 100, ClassTooBig)
			h.Release()
		}, []string{"/team/f.txt, too large" + version + ", half 4 at /team/f.txt"}},
		"truncated under a scratch name": {func(m *mounted, _ *world) {
			h := m.create("/team/.f.txt.swp")
			m.write(h, "half", 0)
			m.refused(h, "x", 100, ClassTooBig)
			h.Release()
		}, []string{"/team/.f.txt.swp > /team/f.txt, too large" + version + ", half 4 at /team/.f.txt.swp"}},
		"truncated, and renamed in vain": {func(m *mounted, _ *world) {
			h := m.create("/team/new")
			m.write(h, "half", 0)
			m.refused(h, "x", 100, ClassTooBig)
			h.Release()
			wantClass(m.t, m.rename("new", "f.txt"), ClassTooBig)
		}, []string{"/team/new > /team/f.txt, too large" + version + ", half 4 at /team/new"}},
		"interrupted": {func(m *mounted, _ *world) {
			h := m.open("/team/f.txt", OpenFlags{Write: true, Truncate: true})
			m.write(h, "half", 0)
			h.Abandon()
			h.Release()
		}, []string{"/team/f.txt, interrupted" + version + ", killed 4 at /team/f.txt"}},
		"refused": {func(m *mounted, w *world) {
			w.Fail("upload", &sdk.Error{Kind: sdk.ErrInsufficient})
			wantClass(m.t, m.save("/team/f.txt", "much"), ClassBudget)
		}, []string{"/team/f.txt, budget" + version + ", failed 4 at /team/f.txt"}},
		"refused, and recorded later": {func(m *mounted, w *world) {
			w.Fail("upload", &sdk.Error{Kind: sdk.ErrInsufficient})
			wantClass(m.t, m.save("/team/new.txt", "much"), ClassBudget)
			w.Fail("upload", nil)
			ok(m.t, m.save("/team/new.txt", "much"))
		}, []string{"/team/new.txt, budget, 000002-20231114T221322Z-alice.svc.testnet.txt of 4"}},
		"refused under the name before a rename": {func(m *mounted, w *world) {
			w.Fail("upload", &sdk.Error{Kind: sdk.ErrInsufficient})
			wantClass(m.t, m.save("/team/new", "much"), ClassBudget)
			w.Fail("upload", nil)
			ok(m.t, m.rename("new", "f.txt"))
		}, []string{"/team/new > /team/f.txt, budget, 000002-20231114T221322Z-alice.svc.testnet.txt of 4"}},
		"unreachable": {func(m *mounted, w *world) {
			w.Fail("upload", &sdk.Error{Kind: sdk.ErrUnavailable})
			wantClass(m.t, m.save("/team/f.txt", "much"), ClassUnreachable)
		}, []string{"/team/f.txt, unreachable" + version + ", away 4 at /team/f.txt"}},
		"refused, then a backup by rename": {func(m *mounted, w *world) {
			w.Fail("upload", &sdk.Error{Kind: sdk.ErrInsufficient})
			wantClass(m.t, m.save("/team/f.txt", "much"), ClassBudget)
			ok(m.t, m.rename("f.txt", "f.txt~"))
		}, []string{"/team/f.txt, budget" + version, "/team/f.txt~ > /team/f.txt, budget" + version + ", scratch 4 at /team/f.txt~"}},
		"of a file whose name is another file's by now": {func(m *mounted, _ *world) {
			m.Note(&Error{Class: ClassOther, Op: "close", Path: "f.txt.tmp", Err: errors.New("late")})
		}, []string{"f.txt.tmp, other"}},
		"being written": {func(m *mounted, _ *world) {
			m.write(m.create("/team/new.txt"), "part", 0)
		}, []string{"/team/new.txt, , written 4 at /team/new.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := team()
			w.Put("team", alice, "f.txt", []byte("whole"))
			m := mount(t, w, alice, func(c *Config) { c.MaxFileBytes = 100 })
			tc.do(m, w)
			var got []string
			for _, r := range m.Reasons() {
				got = append(got, brief(r))
				if r.Recorded != nil {
					if _, err := m.lookup(r.Recorded.Version); err != nil {
						t.Errorf("the version is not where it is said to be: %v", err)
					}
				}
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("the reasons are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
			text, err := m.read("/.svcfs/reasons")
			ok(t, err)
			if n := strings.Count(text, "\n"); n != len(tc.want) {
				t.Errorf("the control file has %d lines: %s", n, text)
			}
			for line := range strings.Lines(text) {
				var r report.Reason
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
			w.Fail("upload", nil)
		})
	}
}
