package sdk_test

import (
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// Settings that no owner can set are refused, and those of a later version passed over.
func TestSettingsOfALyingService(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	first, last := wire.GroupSettings{Format: 1, Appends: "apart", Keys: "any"},
		wire.GroupSettings{Format: 2, Appends: "merge", Keys: "sealed"}
	for said, want := range map[string]wire.GroupSettings{
		`{"format":1,"appends":"apart","keys":"any"}`:                    first,
		`{"format":2,"appends":"merge","keys":"sealed","later":{"x":1}}`: last,
		`{"format":0,"appends":"apart","keys":"any"}`:                    {},
		`{"format":3,"appends":"apart","keys":"any"}`:                    {},
		`{"format":"2","appends":"apart","keys":"any"}`:                  {},
		`{"appends":"apart","keys":"any"}`:                               {},
		`{"format":1,"appends":"x","keys":"any"}`:                        {},
		`{"format":1,"keys":"any"}`:                                      {},
		`{"format":1,"appends":"apart","keys":"x"}`:                      {},
		`{"format":1,"appends":"apart"}`:                                 {},
	} {
		s.Answer(wire.PathTools+wire.OpGetGroupSettings, answer(200, `{"result":`+said+`}`))
		got, err := c.Group("g").Settings().Get(t.Context())
		isLie := want == (wire.GroupSettings{})
		if got != want || isLie != (sdk.KindOf(err) == sdk.ErrCorrupt) || !isLie && err != nil {
			t.Errorf("%s: %+v, %v", said, got, err)
		}
	}
}
