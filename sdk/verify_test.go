package sdk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
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
		dialect    testkit.Dialect
		want       error
	}{
		{"honest", row(1) + "," + row(2), testkit.Ours, nil},
		{"no checkpoints", row(1), testkit.Hosted, sdk.ErrUnsupported},
		{"no time", `{"seq":1,"prev_hash":"` + hash + `","hash":"` + hash + `"}`, testkit.Ours, sdk.ErrCorrupt},
		{"time of words", strings.Replace(row(1), `"1"`, `"now"`, 1), testkit.Ours, sdk.ErrCorrupt},
		{"no hash", `{"seq":1,"timestamp":"1"}`, testkit.Ours, sdk.ErrCorrupt},
		{"short hash", strings.Replace(row(1), hash, "ab", 1), testkit.Ours, sdk.ErrCorrupt},
		{"hash of words", strings.Replace(row(1), hash, strings.Repeat("xy", 32), 1), testkit.Ours, sdk.ErrCorrupt},
		{"number for a text", strings.Replace(row(1), `"fund"`, "7", 1), testkit.Ours, sdk.ErrCorrupt},
		{"pages that stand still", full, testkit.Ours, sdk.ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := world(t, tc.dialect)
			s.Answer(wire.PathTools+wire.OpGetGroupTransactions, answer(200, `{"result":[`+tc.rows+`]}`))
			rows, err := c.Group("g").Records(t.Context())
			if !errors.Is(err, tc.want) || tc.want == nil && len(rows) != 2 {
				t.Errorf("%d rows, %v; want %v", len(rows), err, tc.want)
			}
		})
	}
}
