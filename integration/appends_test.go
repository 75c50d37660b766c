package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

// W11.5: two mounts append to one file at once, the shell with >> and a program that keeps it open: no line is lost,
// none is there twice, those of each are in order, and there is no conflict.
func TestW11TwoMountsAppendToOneFile(t *testing.T) {
	for name, flags := range map[string][]string{"at once": nil, "with an outbox": {"--outbox"}} {
		t.Run(name, func(t *testing.T) {
			_, alice, bob := team(t)
			alice.must("group", "config", "team", "appends", "merge")
			a, b := alice.mount("a", flags...), bob.mount("b", flags...)
			const each = 30
			var both sync.WaitGroup
			both.Go(func() {
				cmd := exec.Command("bash", "-euc", fmt.Sprintf("for i in {1..%d}; do echo alice $i >> log; done", each))
				cmd.Dir = a.path("team")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
			both.Go(func() {
				if err := keepsAppending(b.path("team/log"), "bob", each); err != nil {
					t.Error(err)
				}
			})
			both.Wait()
			for _, m := range []*mount{a, b} {
				wantLines(t, m, "team/log", each, "alice", "bob")
				list, err := filepath.Glob(m.path("team/log (conflict *"))
				if text := string(read(t, m.path(".svcfs/errors"))); err != nil || len(list) > 0 || text != "" {
					t.Errorf("conflicts: %q, %v; errors holds %q", list, err, text)
				}
			}
		})
	}
}

// keepsAppending writes lines to a file that stays open, and syncs each.
func keepsAppending(path, who string, lines int) error {
	log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for i := 0; i < lines && err == nil; i++ {
		if _, err = fmt.Fprintf(log, "%s %d\n", who, i+1); err == nil {
			err = log.Sync()
		}
	}
	return errors.Join(err, log.Close())
}

// wantLines waits until a file has that many lines of each, and looks at them.
func wantLines(t *testing.T, m *mount, path string, each int, people ...string) {
	t.Helper()
	var lines []string
	proctest.Eventually(t, "all lines are there", func() bool {
		lines = strings.Split(strings.TrimSuffix(string(read(t, m.path(path))), "\n"), "\n")
		return len(lines) >= each*len(people)
	})
	for _, who := range people {
		var want []string
		for i := range each {
			want = append(want, fmt.Sprintf("%s %d", who, i+1))
		}
		got := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.HasPrefix(line, who) })
		if !slices.Equal(got, want) {
			t.Errorf("lines of %s: %q", who, got)
		}
	}
	if len(lines) != each*len(people) {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}
