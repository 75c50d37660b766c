package sdk

import (
	"testing"

	"github.com/svcfs/svcfs/format"
)

// Threat 50: a service that gave two parts one id makes no file whose blocks have wrong keys: what is taken
// over keeps the key of its run.
func TestThreat50PartsWithOneID(t *testing.T) {
	t.Parallel()
	newKey := func() *format.Key {
		key, err := format.RandomKey()
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	l := format.Layout{Size: 4 * format.MinBlockBytes, BlockBytes: format.MinBlockBytes}
	base := &Blocks{layout: l, key: newKey(), manifest: format.Manifest{{First: 0, Count: 2}, {First: 2, Count: 2}}}
	parts := []*format.Key{newKey(), newKey()}
	for i, part := range parts {
		wrapped, err := format.WrapKey(base.key, part)
		if err != nil {
			t.Fatal(err)
		}
		base.manifest[i].Key = wrapped
	}
	u := &BlockUpload{base: base, blockBytes: l.BlockBytes, owners: make(map[int64]*[ownersTogether]int32)}
	plan, missing := u.plan(l)
	fileKey := newKey()
	made, err := u.manifest(plan, fileKey)
	if err != nil || len(missing) > 0 || len(made) != 2 {
		t.Fatalf("%d runs, %s missing, %v", len(made), missing, err)
	}
	for i, part := range parts {
		if key, err := format.UnwrapKey(fileKey, made[i].Key); err != nil || key.Fingerprint() != part.Fingerprint() {
			t.Errorf("run %d has another key, %v", i, err)
		}
	}
}
