package sdk_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Records are hostile input: what cannot be read makes the answer corrupt, and
// pages that do not advance end.
func TestHostileLedgerRows(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("ab", 32)
	row := func(seq int) string {
		return fmt.Sprintf(`{"seq":%d,"timestamp":"1","kind":"fund","prev_hash":"%s","hash":"%s"}`, seq, hash, hash)
	}
	full := strings.Repeat(row(1)+",", wire.MaxPageRows-1) + row(1)
	for _, tc := range []struct {
		name, rows string
		dialect    wire.Dialect
		want       error
	}{
		{"honest", row(1) + "," + row(2), wire.Ours, nil},
		{"no checkpoints", row(1), wire.Hosted, sdk.ErrUnsupported},
		{"no time", `{"seq":1,"prev_hash":"` + hash + `","hash":"` + hash + `"}`, wire.Ours, sdk.ErrCorrupt},
		{"time of words", strings.Replace(row(1), `"1"`, `"now"`, 1), wire.Ours, sdk.ErrCorrupt},
		{"no hash", `{"seq":1,"timestamp":"1"}`, wire.Ours, sdk.ErrCorrupt},
		{"short hash", strings.Replace(row(1), hash, "ab", 1), wire.Ours, sdk.ErrCorrupt},
		{"hash of words", strings.Replace(row(1), hash, strings.Repeat("xy", 32), 1), wire.Ours, sdk.ErrCorrupt},
		{"number for a text", strings.Replace(row(1), `"fund"`, "7", 1), wire.Ours, sdk.ErrCorrupt},
		{"pages that stand still", full, wire.Ours, sdk.ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case wire.PathCapabilities:
					fmt.Fprintf(w, `{"dialect":%d}`, tc.dialect)
				case wire.PathSessionToken:
					fmt.Fprint(w, `{"token":"t","account_id":"a.svc.testnet","expires_in":"24h"}`)
				default:
					fmt.Fprintf(w, `{"result":[%s]}`, tc.rows)
				}
			}))
			defer server.Close()
			c, err := sdk.New("a.svc.testnet", sdk.Config{URL: server.URL, APIKey: sdk.NewSecret("k")})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			rows, err := c.Group("g").Records(t.Context())
			if !errors.Is(err, tc.want) || tc.want == nil && len(rows) != 2 {
				t.Errorf("%d rows, %v; want %v", len(rows), err, tc.want)
			}
		})
	}
}
