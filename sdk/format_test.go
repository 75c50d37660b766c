package sdk_test

import (
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A format that no owner can set is refused.
func TestFormatOfALyingService(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	for said, want := range map[string]int64{`{"format":1}`: 1, `{"format":2}`: 2, `{"format":0}`: 0, `{"format":3}`: 0, `{}`: 0, `{"format":"2"}`: 0} {
		s.Answer(wire.PathTools+wire.OpGetGroupFormat, answer(200, `{"result":`+said+`}`))
		got, err := c.Group("g").Settings().Format(t.Context())
		if got != want || (want == 0) != (sdk.KindOf(err) == sdk.ErrCorrupt) || want != 0 && err != nil {
			t.Errorf("%s: %d, %v", said, got, err)
		}
	}
}

// A setting of appends that no owner can set is refused.
func TestAppendsOfALyingService(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	for said, want := range map[string]string{`{"appends":"apart"}`: "apart", `{"appends":"merge"}`: "merge", `{"appends":"x"}`: "", `{}`: ""} {
		s.Answer(wire.PathTools+wire.OpGetGroupAppends, answer(200, `{"result":`+said+`}`))
		got, err := c.Group("g").Settings().Appends(t.Context())
		if got != want || (want == "") != (sdk.KindOf(err) == sdk.ErrCorrupt) || want != "" && err != nil {
			t.Errorf("%s: %q, %v", said, got, err)
		}
	}
}
