package sdktest

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
)

// blocks checks files of format version 2: what they cost, that every form of reading gives their
// content, and that each read of an open file is asked for.
func blocks(t *testing.T, s *suite) {
	ctx := t.Context()
	g, bobs := s.alice.Group(s.group), s.bob.Group(s.group)
	if !s.isOurs(t) {
		_, err := g.BeginBlocks(ctx, nil, format.MinBlockBytes)
		is(t, "begin", err, sdk.ErrUnsupported)
		return
	}
	content := pattern(9*int(format.MinBlockBytes) + 7)
	before := balance(t, s.alice)
	r := putBlocks(t, g, nil, content, format.Extents{{First: 0, Count: 4}}, format.Extents{{First: 4, Count: 6}})
	if paid, _ := before.Sub(balance(t, s.alice)); paid != r.Fee || paid.IsZero() {
		t.Errorf("an upload of %v cost %v", r.Fee, paid)
	}
	e := entry(t, g, r.Ref)
	if e.Content == (sdk.Digest{}) || e.Hash != sdk.ComputeHash(content) || e.Size != int64(len(content)) || e.Name != "film" {
		t.Errorf("listed as %+v", e)
	}
	is(t, "a stranger", second(bobs.OpenBlocks(ctx, e)), sdk.ErrNotAuthorized)
	old := e
	old.Content = sdk.Digest{} // as a client sees it that does not know the format
	before = balance(t, s.alice)
	is(t, "a client of format version 1", retrieve(ctx, t, s.alice, old), sdk.ErrUnsupported)
	if balance(t, s.alice) != before {
		t.Error("a refusal costs something")
	}
	b, err := g.OpenBlocks(ctx, e)
	ok(t, "open", err)
	defer b.Close()
	for _, want := range [][2]int64{{0, 1}, {9, 1}, {3, 3}, {0, 10}} {
		if got, err := readBlocks(ctx, t, b, want[0], want[1]); err != nil || !bytes.Equal(got, content[want[0]*format.MinBlockBytes:min(int64(len(content)), (want[0]+want[1])*format.MinBlockBytes)]) {
			t.Errorf("%d blocks from %d on: %v", want[1], want[0], err)
		}
	}
	if paid, _ := before.Sub(balance(t, s.alice)); paid != b.Fee() {
		t.Errorf("an open of %v cost %v", b.Fee(), paid)
	}
	ok(t, "retrieve", retrieve(ctx, t, s.alice, e))
	if got, _, err := Read(ctx, g, "film"); err != nil || !bytes.Equal(got, content) {
		t.Errorf("a file of %d bytes, %v", len(got), err)
	}

	changed := slices.Clone(content)
	changed[2*format.MinBlockBytes+5] ^= 1
	next := entry(t, g, putBlocks(t, g, b, changed, format.Extents{{First: 2, Count: 1}}).Ref)
	for _, version := range []struct {
		e    sdk.Entry
		want []byte
	}{{e, content}, {next, changed}} {
		if got, _, err := Read(ctx, g, string(version.e.Ref)); err != nil || !bytes.Equal(got, version.want) {
			t.Errorf("%s has %d bytes, %v", version.e.Ref, len(got), err)
		}
	}

	_, err = g.Add(ctx, s.world.Bob.ID)
	ok(t, "add", err)
	bobsBlocks, err := bobs.OpenBlocks(ctx, next)
	ok(t, "a member", err)
	defer bobsBlocks.Close()
	_, err = readBlocks(ctx, t, bobsBlocks, 0, 2)
	ok(t, "a member reads", err)
	_, err = g.Revoke(ctx, s.world.Bob.ID)
	ok(t, "revoke", err)
	_, err = readBlocks(ctx, t, bobsBlocks, 2, 2)
	is(t, "a read after the revocation", err, sdk.ErrNotAuthorized)
	ok(t, "delete", second(g.Delete(ctx, e.Ref)))
	_, err = readBlocks(ctx, t, b, 1, 1)
	is(t, "a read after the deletion", err, sdk.ErrDeleted)
	if got, _, err := Read(ctx, g, string(next.Ref)); err != nil || !bytes.Equal(got, changed) {
		t.Errorf("the version that took blocks over has %d bytes, %v", len(got), err)
	}
}

// putBlocks uploads content as film, in blocks of 64 KiB and these parts.
func putBlocks(t *testing.T, g sdk.Group, base *sdk.Blocks, content []byte, parts ...format.Extents) sdk.Receipt {
	t.Helper()
	ctx := t.Context()
	u, err := g.BeginBlocks(ctx, base, format.MinBlockBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Abandon()
	hash := sdk.ComputeHash(content)
	if base != nil {
		if hash = (sdk.Digest{}); !u.TakesOver() {
			t.Error("nothing is taken over")
		}
	}
	for _, part := range parts {
		ok(t, "part", u.PutPart(ctx, part, func(block int64, into []byte) (int, error) {
			return copy(into, content[block*format.MinBlockBytes:]), nil
		}))
	}
	r, err := u.Finish(ctx, "film", int64(len(content)), hash)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readBlocks(ctx context.Context, t *testing.T, b *sdk.Blocks, first, count int64) (content []byte, err error) {
	t.Helper()
	pool := mem.NewPool()
	list := make([]*mem.Buffer, count)
	for i := range list {
		if list[i], err = pool.Get(0); err != nil {
			t.Fatal(err)
		}
		defer list[i].Release()
	}
	err = b.Read(ctx, first, list)
	for _, buf := range list {
		content = append(content, buf.Bytes()...)
	}
	return content, err
}

func balance(t *testing.T, c *sdk.Client) sdk.Amount {
	t.Helper()
	b, err := c.Balance(t.Context(), "")
	ok(t, "balance", err)
	return b
}
