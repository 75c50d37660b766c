package sdk_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A rename that the service confirmed without proof may be recorded: the version is named back with those before it, or
// the error counts it.
func TestRenameVersionsWithoutProof(t *testing.T) {
	t.Parallel()
	for isRefused, want := range map[bool]string{false: "f f f after 4", true: "g g f after 2"} {
		s := testkit.Start(t, testkit.Ours)
		g := s.Client(t, s.Account("alice", "10")).Group("team")
		if _, err := g.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, content := range []string{"1", "2", "3"} {
			if _, err := g.Put(t.Context(), "f", strings.NewReader(content)); err != nil {
				t.Fatal(err)
			}
		}
		versions, err := g.Entries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		s.Disturb(wire.PathTools+wire.OpRenameFile, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch asked++; {
				case asked == 2:
					next = testkit.Changed(next, func(answer *map[string]any) { delete(*answer, "receipt") })
				case asked > 2 && isRefused:
					http.Error(w, `{"error":"refused"}`, http.StatusBadRequest)
					return
				}
				next.ServeHTTP(w, r)
			})
		})
		renames, err := g.RenameVersions(t.Context(), versions, "g")
		s.Disturb(wire.PathTools+wire.OpRenameFile, nil)
		told := err != nil && strings.Contains(err.Error(), "the oldest 2 may have the new name")
		if errorCode(err) != wire.CodeReceipt || told != isRefused {
			t.Error(err)
		}
		list, err := g.Entries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names := map[sdk.Ref]string{}
		for _, e := range list {
			names[e.Ref] = e.Name
		}
		got := ""
		for _, e := range versions {
			got += names[e.Ref] + " "
		}
		if got += fmt.Sprint("after ", renames); got != want {
			t.Errorf("they are named %s renames, want %s", got, want)
		}
		if isRefused {
			continue
		}
		newest := versions[2]
		if _, err := g.Put(t.Context(), "f", strings.NewReader("4"), sdk.PutOptions{Base: &newest.Ref}); err != nil {
			t.Errorf("a save upon the newest version: %v", err)
		}
	}
}
