package sdk_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A folder that is made again after a lost answer is there once. An account that made too many changes today
// is told so by the first answer: mkdir waits for it.
func TestMakeFolderAsksOnce(t *testing.T) {
	t.Parallel()
	d := testkit.NewWorld(t, testkit.OnHistory, false)
	alice := d.Client(t, d.Alice).Group(d.Group)
	lost := 0
	d.Disturb(wire.PathTools+wire.OpMakeFolder, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if lost++; lost > 1 {
				next.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		})
	})
	made, err := alice.MakeFolder(t.Context(), "folder")
	list, err2 := alice.Entries(t.Context(), sdk.ListOptions{Folders: true})
	if err != nil || err2 != nil || made.Ref != "" || lost != 2 || !list[len(list)-1].Folder || list[len(list)-1].Name != "folder" {
		t.Errorf("made %+v, %v with %d requests; %v", made, err, lost, err2)
	}
	asked := 0
	d.Disturb(wire.PathTools+wire.OpMakeFolder, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"error":"too many requests","code":"RATE_LIMITED"}`))
		})
	})
	if _, err := alice.MakeFolder(t.Context(), "more"); sdk.KindOf(err) != sdk.ErrRateLimited || asked != 1 {
		t.Errorf("%v after %d requests", err, asked)
	}
}
