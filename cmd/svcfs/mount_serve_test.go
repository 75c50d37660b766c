package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
)

// M3: what a program wrote while the mount ended is uploaded, also where something else could not be. Where that was given
// up, it is told as well.
func TestM3WrittenWhileTheMountEnds(t *testing.T) {
	gaveUp, giveUp := context.WithCancel(t.Context())
	giveUp()
	for name, tc := range map[string]struct {
		giveUp  context.Context
		uploads int
	}{"told to end": {t.Context(), 1}, "given up": {gaveUp, 0}} {
		t.Run(name, func(t *testing.T) {
			w := treetest.NewWorld()
			w.Member("team", "alice")
			mounted, err := tree.New(t.Context(), tree.Config{Remote: w.As("alice")})
			if err != nil {
				t.Fatal(err)
			}
			client, err := sdk.New("alice", sdk.Config{URL: "http://127.0.0.1:1"})
			if err != nil {
				t.Fatal(err)
			}
			state := t.TempDir()
			env := environment{lookup: func(name string) (string, bool) { return state, name == "XDG_STATE_HOME" }}
			m := &liveMount{app: &app{ui: newTerminal(io.Discard, io.Discard), env: env}, client: client, tree: mounted,
				giveUp: tc.giveUp}
			group, err := mounted.Root().Lookup(t.Context(), "team")
			if err != nil {
				t.Fatal(err)
			}
			_, h, err := group.(*tree.Dir).Create(t.Context(), "late", false, tree.OpenFlags{Write: true})
			if err == nil {
				_, err = h.WriteAt(t.Context(), []byte("late"), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			err = m.finish([]report.Pending{{Path: "/team/large"}}, nil)
			told, _ := os.ReadFile(m.app.leftPath(os.Getpid()))
			if got := len(w.Named("team", "late")); got != tc.uploads || (err == nil) != (got == 1) ||
				strings.Contains(string(told), "/team/late") != (got == 0) {
				t.Errorf("%d uploads, told %q, %v", got, told, err)
			}
		})
	}
}
