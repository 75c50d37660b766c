package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/line"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Lines appended to a large file one by one send and keep what changed. After a revocation nothing is
// taken over, because the revoked member may know the keys.
func TestAppendsSendLittle(t *testing.T) {
	size, lines := int64(count(16, 200))*mib, 20
	w, alice, bob := team(t)
	way := w.line(line.Shape{})
	g := alice.client(t, way).Group("team")
	_, err := g.Put(t.Context(), "log", newNoise(size-1000))
	ok(t, err)
	content, err := io.ReadAll(newNoise(size - 1000))
	ok(t, err)
	stored := func() int64 {
		s, err := g.Storage(t.Context())
		ok(t, err)
		return s.Bytes
	}
	newest := func() sdk.Entry {
		e, err := g.Stat(t.Context(), "log")
		ok(t, err)
		return e
	}
	sent, kept := way.Moved().Up, stored()
	for i := range lines {
		content = fmt.Appendf(content, "line %d %090d\n", i, i)
		base, err := g.OpenBlocks(t.Context(), newest())
		ok(t, err)
		last := base.Layout().Size / format.BlockBytes
		u, err := g.BeginBlocks(t.Context(), base, 0)
		ok(t, err)
		if !u.TakesOver() {
			t.Fatal("nothing is taken over")
		}
		changed := format.Extents{{First: last, Count: (int64(len(content))-1)/format.BlockBytes - last + 1}}
		ok(t, u.PutPart(t.Context(), changed, func(i int64, into []byte) (int, error) {
			return copy(into, content[i*format.BlockBytes:]), nil
		}))
		_, err = u.Finish(t.Context(), "log", int64(len(content)), sdk.Digest{})
		ok(t, err)
		ok(t, base.Close())
	}
	sent, kept = way.Moved().Up-sent, stored()-kept
	t.Logf("%d lines appended to %d MiB one by one: %d KiB sent, %d KiB more kept", lines, size/mib, sent/kib, kept/kib)
	if most := int64(20e6); sent > most || kept > most {
		t.Errorf("more than %d bytes", most)
	}
	e := newest()
	base, err := g.OpenBlocks(t.Context(), e)
	ok(t, err)
	f, err := g.OpenEntry(t.Context(), e)
	ok(t, err)
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, content) || e.Hash != (sdk.Digest{}) {
		t.Errorf("%d bytes of %d come back, or others, %v", len(got), len(content), err)
	}
	ok(t, f.Close())
	alice.must("group", "revoke", "team", bob.id)
	u, err := g.BeginBlocks(t.Context(), base, 0)
	ok(t, err)
	defer u.Abandon()
	var refused *sdk.Error
	if _, err := u.Finish(t.Context(), "log", int64(len(content)), sdk.Digest{}); !errors.As(err,
		&refused) || refused.Code != wire.CodeBase {
		t.Errorf("after a revocation blocks are taken over, %v", err)
	}
}
