package sdk_test

import (
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// What is kept is told as the service says it, where it offers that; sizes that
// cannot be are refused.
func TestStorage(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	for _, tc := range []struct {
		name  string
		said  string
		group sdk.GroupID
		want  sdk.Storage
		kind  sdk.Kind
	}{
		{"account", `{"result":{"account":{"bytes":7,"max_bytes":9},"left":2}}`, "", sdk.Storage{Bytes: 7, Max: 9, Left: 2}, 0},
		{"no bounds", `{"result":{"account":{"bytes":7}}}`, "", sdk.Storage{Bytes: 7, Left: -1}, 0},
		{"full", `{"result":{"account":{"bytes":7},"left":0}}`, "", sdk.Storage{Bytes: 7}, 0},
		{"group", `{"result":{"account":{"bytes":7},"group":{"bytes":8,"max_bytes":9},"left":1}}`, "g", sdk.Storage{Bytes: 8, Max: 9, Left: 1}, 0},
		{"no group", `{"result":{"account":{"bytes":7},"left":1}}`, "g", sdk.Storage{}, sdk.ErrCorrupt},
		{"negative", `{"result":{"account":{"bytes":-7},"left":1}}`, "", sdk.Storage{}, sdk.ErrCorrupt},
		{"negative bound", `{"result":{"account":{"bytes":7,"max_bytes":-1},"left":1}}`, "", sdk.Storage{}, sdk.ErrCorrupt},
		{"negative rest", `{"result":{"account":{"bytes":7},"left":-1}}`, "", sdk.Storage{}, sdk.ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.Answer(wire.PathTools+wire.OpGetStorage, answer(200, tc.said))
			got, err := c.Group(tc.group).Storage(t.Context())
			if got != tc.want || err == nil != (tc.kind == 0) || err != nil && sdk.KindOf(err) != tc.kind {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	_, c = world(t, testkit.Hosted)
	if _, err := c.Storage(t.Context()); sdk.KindOf(err) != sdk.ErrUnsupported {
		t.Errorf("where it is not offered: %v", err)
	}
}
