package service_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/legacy"
)

// Legacy files move with a service, also references whose bytes are elsewhere.
func TestLegacyFilesMove(t *testing.T) {
	t.Parallel()
	first := runWith(t, service.Config{Database: newDatabase(t), DataDir: filepath.Join(t.TempDir(), "data")})
	alice := first.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	here, err := first.svc.ImportPlain(t.Context(), service.LegacyFile{Group: "g"}, []byte("here"), 0)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := os.ReadFile(func() string {
		where, err := first.svc.BlobPath(t.Context(), here.CID)
		if err != nil {
			t.Fatal(err)
		}
		return where
	}())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := legacy.Sum(sealed, legacy.Default(1)).String() // the same bytes under another id
	if _, err := first.svc.ImportReference(t.Context(), service.LegacyFile{Group: "g"}, elsewhere,
		here.FileHash); err != nil {
		t.Fatal(err)
	}
	gateway := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(sealed) }))
	defer gateway.Close()
	check := func(r *running) {
		t.Helper()
		r.clean(2)
		u := alice.signsInAt(r)
		for _, ref := range []string{here.CID, elsewhere} {
			u.reads(ref, "here")
		}
	}
	var stream bytes.Buffer
	if sum, err := first.svc.Export(t.Context(), &stream, nil); err != nil || sum.Blobs != 1 {
		t.Fatal(sum, err)
	}
	second := runWith(t, service.Config{DataDir: masterKeyOnly(t, first.dir), Gateway: gateway.URL})
	if _, err := second.svc.Import(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	check(second)
}
