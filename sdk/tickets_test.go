package sdk_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Small files that are saved one after another use tickets that were prepared
// ahead. Where the service has forgotten one, the upload begins once more.
func TestTicketsArePreparedAhead(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		s, c := world(t, sdktest.Extended)
		if _, err := c.RegisterGroup(t.Context(), "small"); err != nil {
			t.Fatal(err)
		}
		var refused atomic.Int64
		if forgets {
			s.Disturb(wire.PathTools+wire.OpFinalizeUpload, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if s.Records() == 4 && refused.Add(1) == 1 { // on the way to the fifth
						answer(http.StatusNotFound, wire.Error{Error: "upload not found or expired", Code: wire.CodeUploadUnknown})(w, r)
						return
					}
					next.ServeHTTP(w, r)
				})
			})
		}
		const files = 6
		for i := range files {
			name := fmt.Sprint("file-", i)
			r, err := c.UploadBytes(t.Context(), "small", name, []byte(name))
			if err != nil || r.Hash != sdk.ComputeHash([]byte(name)) {
				t.Fatalf("%s: %+v, %v", name, r, err)
			}
			if data, _, err := c.RetrieveBytes(t.Context(), "small", name); err != nil || string(data) != name {
				t.Errorf("%s is %q, %v", name, data, err)
			}
		}
		if forgets && refused.Load() == 0 {
			t.Error("no ticket was refused")
		}
		prepared, finalized := s.Hits(wire.PathTools+wire.OpPrepareUpload), s.Hits(wire.PathTools+wire.OpFinalizeUpload)
		extra := finalized - files
		if prepared < files+extra || prepared > files+extra+1 || forgets != (extra == 1) {
			t.Errorf("%d tickets and %d finalizes for %d files", prepared, finalized, files)
		}
	}
}
