package sdk_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// A service that is far away and offers it is asked for compressed lists, and may answer either way.
// What is not as it says is refused.
func TestListsComeCompressedFromFarAway(t *testing.T) {
	zipped := func(raw []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(raw)
		_ = z.Close()
		return b.Bytes()
	}
	whole := func(raw []byte) []byte { return raw }
	for _, tc := range []struct {
		name       string
		far, offer bool
		coding     string
		body       func([]byte) []byte
		asks       string
		fails      bool
	}{
		{"compressed", true, true, "gzip", zipped, "gzip", false},
		{"plain all the same", true, true, "", whole, "gzip", false},
		{"near", false, true, "", whole, "", false},
		{"not offered", true, false, "", whole, "", false},
		{"another coding", true, true, "br", whole, "gzip", true},
		{"plain, and says compressed", true, true, "gzip", whole, "gzip", true},
		{"damaged", true, true, "gzip", func(raw []byte) []byte {
			z := zipped(raw)
			z[len(z)-6] ^= 1 // of the checksum
			return z
		}, "gzip", true},
		{"white space without end", true, true, "gzip", func([]byte) []byte { return zipped([]byte(`{"result":[` + strings.Repeat(" ", 1<<22))) }, "gzip", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := world(t, sdktest.Proving)
			const files = 3
			for i := range files {
				s.AddBlocks(sdktest.Account{ID: c.Account()}, "g", fmt.Sprint("file ", i), []byte{1}, format.MinBlockBytes)
			}
			s.Disturb(wire.PathCapabilities, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					answer := httptest.NewRecorder()
					next.ServeHTTP(answer, r)
					var caps wire.Capabilities
					if err := json.Unmarshal(answer.Body.Bytes(), &caps); err != nil {
						t.Error(err)
					}
					if tc.offer {
						caps.Features = append(caps.Features, wire.CapGzip)
					}
					_ = json.NewEncoder(w).Encode(caps)
				})
			})
			s.Disturb(wire.PathTools+wire.OpGetGroupTransactions, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if got := r.Header.Get("Accept-Encoding"); got != tc.asks {
						t.Errorf("asks for %q, want %q", got, tc.asks)
					}
					answer := httptest.NewRecorder()
					next.ServeHTTP(answer, r)
					if tc.coding != "" {
						w.Header().Set("Content-Encoding", tc.coding)
					}
					_, _ = w.Write(tc.body(answer.Body.Bytes()))
				})
			})
			sdk.Far(c, tc.far)
			list, err := c.Group("g").Entries(t.Context())
			if tc.fails != (sdk.KindOf(err) == sdk.ErrCorrupt) || !tc.fails && (err != nil || len(list) != files) {
				t.Errorf("%d files, %v", len(list), err)
			}
		})
	}
}
