package sdk_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A service that is far away and offers it is asked for compressed lists, and may answer either way.
// What is not as it says is refused.
func TestListsComeCompressedFromFarAway(t *testing.T) {
	t.Parallel()
	zippedWithin := func(window int, raw []byte) []byte {
		t.Helper()
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
		if err == nil {
			_, err = z.Write(raw)
		}
		if err = errors.Join(err, z.Close()); err != nil {
			t.Error(err)
		}
		return b.Bytes()
	}
	zipped := func(raw []byte) []byte { return zippedWithin(wire.PackWindowBytes, raw) }
	whole := func(raw []byte) []byte { return raw }
	for _, tc := range []struct {
		name   string
		far    bool
		coding string
		body   func([]byte) []byte
		asks   string
		fails  bool
	}{
		{"compressed", true, "zstd", zipped, "zstd", false},
		{"plain all the same", true, "", whole, "zstd", false},
		{"near", false, "", whole, "", false},
		{"another coding", true, "br", whole, "zstd", true},
		{"plain, and says compressed", true, "zstd", whole, "zstd", true},
		{"damaged", true, "zstd", func(raw []byte) []byte {
			z := zipped(raw)
			z[len(z)-2] ^= 1 // of the checksum
			return z
		}, "zstd", true},
		{"cut off", true, "zstd", func(raw []byte) []byte { z := zipped(raw); return z[:len(z)/2] }, "zstd", true},
		{"more memory than agreed", true, "zstd", func(raw []byte) []byte {
			return zippedWithin(8*wire.PackWindowBytes, append(raw, bytes.Repeat([]byte(" "), 16*wire.PackWindowBytes)...))
		}, "zstd", true},
		{"white space without end", true, "zstd", func([]byte) []byte { return zipped([]byte(`{"result":[` + strings.Repeat(" ", 1<<22))) }, "zstd", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := world(t, testkit.Ours)
			const files = 3
			for i := range files {
				s.AddBlocks(testkit.Account{ID: c.Account()}, "g", fmt.Sprint("file ", i), []byte{1}, format.MinBlockBytes)
			}
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
