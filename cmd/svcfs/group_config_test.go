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

// A save that somebody makes while a file is saved anew stays the newest, or is told with where it is.
func TestSavedMeanwhileIsNotBuried(t *testing.T) {
	s, alice, c := newHosted(t, testkit.Ours)
	w := &barWorld{server: s, dir: t.TempDir(), env: clientEnv(t, s, alice)}
	for path, size := range map[string]int{wire.PathSealed + "*": 1000,
		wire.PathTools + wire.OpFinalizeUpload: wire.WholeFileBytes + 1} {
		g := c.Group(sdk.GroupID(fmt.Sprintf("group of %d", size)))
		_, err := g.Register(t.Context())
		ok(t, err)
		s.AddBlocks(alice, g.ID, "f", make([]byte, size), format.BlockBytes)
		saved := make(chan sdk.Ref, 1)
		s.Disturb(path, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				s.Disturb(path, nil)
				theirs, err := g.Put(t.Context(), "f", strings.NewReader("theirs"))
				if err != nil {
					t.Error(err)
				}
				saved <- theirs.Ref
				next.ServeHTTP(rw, r)
			})
		})
		var errs strings.Builder
		cmd := w.command(t, io.Discard, &errs, "group", "config", string(g.ID), "format", "1", "--existing", "--yes")
		if cmd.Run() == nil || len(saved) == 0 {
			t.Fatalf("%d bytes: it goes well; %s", size, &errs)
		}
		theirs := <-saved
		newest, err := g.Stat(t.Context(), "f")
		ok(t, err)
		isNewest, isBound := newest.Ref == theirs, size <= wire.WholeFileBytes
		isTold := strings.Contains(errs.String(), fmt.Sprintf("svcfs get '%s' %s -o FILE", g.ID, theirs))
		if isNewest != isBound || isTold == isBound {
			t.Errorf("%d bytes: theirs is the newest: %v; %s", size, isNewest, &errs)
		}
	}
}
