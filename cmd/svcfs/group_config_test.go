package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// What one answer of the service has is asked once, however many settings are shown of it.
func TestGroupConfigAsksOnce(t *testing.T) {
	s, _, c := newHosted(t, testkit.Ours)
	g := c.Group("team")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	ok(t, testApp(t, nil, "").showSettings(t.Context(), g, groupSettings()))
	for _, op := range []string{wire.OpGetGroupSettings, wire.OpGetTrash} {
		if hits := s.Hits(wire.PathTools + op); hits != 1 {
			t.Errorf("%s is asked %d times", op, hits)
		}
	}
}

// A save or a removal that somebody makes while a file is saved anew stays, whatever the size of the file.
func TestChangedMeanwhileIsNotBuried(t *testing.T) {
	s, alice, c := newHosted(t, testkit.Ours)
	w := &barWorld{server: s, dir: t.TempDir(), env: clientEnv(t, s, alice)}
	for path, size := range map[string]int{wire.PathSealed + "*": 1000,
		wire.PathTools + wire.OpFinalizeUpload: wire.WholeFileBytes + 1} {
		for _, removes := range []bool{false, true} {
			g := c.Group(sdk.GroupID(fmt.Sprintf("group of %d, removes %v", size, removes)))
			_, err := g.Register(t.Context())
			ok(t, err)
			s.AddBlocks(alice, g.ID, "f", make([]byte, size), format.BlockBytes)
			before, err := g.Stat(t.Context(), "f")
			ok(t, err)
			changed := make(chan sdk.Ref, 1)
			s.Disturb(path, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					s.Disturb(path, nil)
					var theirs sdk.Receipt
					var err error
					if removes {
						_, err = g.RemoveVersions(t.Context(), []sdk.Entry{before})
					} else {
						theirs, err = g.Put(t.Context(), "f", strings.NewReader("theirs"))
					}
					if err != nil {
						t.Error(err)
					}
					changed <- theirs.Ref
					next.ServeHTTP(rw, r)
				})
			})
			var errs strings.Builder
			cmd := w.command(t, io.Discard, &errs, "group", "config", string(g.ID), "format", "1", "--existing",
				"--yes")
			if cmd.Run() == nil || len(changed) == 0 {
				t.Fatalf("%s: it goes well; %s", g.ID, &errs)
			}
			newest, err := g.Stat(t.Context(), "f")
			if sdk.KindOf(err) != sdk.ErrNotFound {
				ok(t, err)
			}
			isTold := strings.Contains(errs.String(), "somebody else changed it meanwhile")
			if theirs := <-changed; newest.Ref != theirs || !isTold {
				t.Errorf("%s: the newest is %q, want %q; %s", g.ID, newest.Ref, theirs, &errs)
			}
		}
	}
}
