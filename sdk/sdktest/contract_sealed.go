package sdktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

// sealedUploads checks uploads that are sealed first and sent later: each is recorded and paid
// once, however often it is sent, and nobody else can send or read it.
func sealedUploads(t *testing.T, s *suite) {
	ctx := t.Context()
	g := s.alice.Group(s.group)
	seal := func(c *sdk.Client, name string, content []byte, opts ...sdk.PutOptions) *sdk.Sealed {
		t.Helper()
		up, err := c.Group(s.group).Seal(ctx, name, content, nil, opts...)
		if err != nil {
			t.Fatalf("seal %s: %v", name, err)
		}
		return up
	}
	if !s.isOurs(t) {
		is(t, "seal", second(g.Seal(ctx, "f", nil, nil)), sdk.ErrUnsupported)
		return
	}
	contents := [][]byte{[]byte("small"), {}, pattern(100_000), pattern(40_000), pattern(20_000), pattern(wire.WholeFileBytes)}
	var list []*sdk.Sealed
	for i, content := range contents {
		list = append(list, seal(s.alice, fmt.Sprint("sealed ", i), content, sdk.PutOptions{Attributes: sdk.Attributes{Executable: i == 0}}))
	}
	price, _ := s.alice.Price("upload")
	before := balance(t, s.alice)
	first := s.alice.SendSealed(ctx, list...)
	for i, sent := range first {
		if sent.Err != nil || sent.Receipt.Hash != sdk.ComputeHash(contents[i]) || sent.Receipt.Fee != price {
			t.Fatalf("upload %d: %+v", i, sent)
		}
		got, e, err := Read(ctx, g, string(sent.Receipt.Ref))
		if err != nil || !bytes.Equal(got, contents[i]) || e.Name != list[i].Name() || (e.Attributes != nil) != (i == 0) {
			t.Errorf("upload %d: %d bytes of %+v, %v", i, len(got), e, err)
		}
	}
	for range contents {
		before, _ = before.Sub(price)
	}
	reads, _ := s.alice.Price("retrieve")
	for range contents {
		before, _ = before.Sub(reads)
	}
	if left := balance(t, s.alice); left != before {
		t.Errorf("%s are left, want %s", left.Tokens(), before.Tokens())
	}
	ok(t, "delete", second(g.Delete(ctx, first[0].Receipt.Ref)))
	for i, sent := range s.alice.SendSealed(ctx, list...) { // all at once
		if sent.Err != nil || sent.Receipt.Ref != first[i].Receipt.Ref || sent.Receipt.Seq != first[i].Receipt.Seq {
			t.Errorf("upload %d again: %+v, want %+v", i, sent, first[i])
		}
	}
	for i, up := range list { // one by one
		if sent := s.alice.SendSealed(ctx, up)[0]; sent.Err != nil || sent.Receipt.Ref != first[i].Receipt.Ref {
			t.Errorf("upload %d once more: %+v, want %+v", i, sent, first[i])
		}
	}
	if left := balance(t, s.alice); left != before {
		t.Errorf("after repetitions %s are left, want %s", left.Tokens(), before.Tokens())
	}
	_, _, err := Read(ctx, g, string(first[0].Receipt.Ref))
	is(t, "what was deleted, after a repetition", err, sdk.ErrDeleted)
	t.Run("Base", func(t *testing.T) { sealedBase(t, s, seal) })
	t.Run("Upon", func(t *testing.T) { sealedUpon(t, s, seal) })
	t.Run("Members", func(t *testing.T) { sealedMembers(t, s, seal) })
}

type sealer func(c *sdk.Client, name string, content []byte, opts ...sdk.PutOptions) *sdk.Sealed

// sealedBase checks uploads that are bound to the newest version of their name.
func sealedBase(t *testing.T, s *suite, seal sealer) {
	ctx := t.Context()
	conflict := func(what string, sent saving.Sent[sdk.Receipt]) {
		t.Helper()
		var refused *sdk.Error
		if !errors.As(sent.Err, &refused) || refused.Kind != sdk.ErrConflict || refused.Code != wire.CodeHead {
			t.Errorf("%s: %+v", what, sent)
		}
	}
	made := s.alice.SendSealed(ctx, seal(s.alice, "bound", []byte("1"), sdk.PutOptions{Base: new(sdk.Ref(""))}), seal(s.alice, "bound", []byte("other"), sdk.PutOptions{Base: new(sdk.Ref(""))}), seal(s.alice, "beside", []byte("x"), sdk.PutOptions{Base: new(sdk.Ref(""))}))
	ok(t, "the first of a name", made[0].Err)
	conflict("another first, in a batch", made[1])
	ok(t, "the one after it", made[2].Err)
	before := balance(t, s.alice)
	conflict("another first", s.alice.SendSealed(ctx, seal(s.alice, "bound", []byte("other"), sdk.PutOptions{Base: new(sdk.Ref(""))}))[0])
	late := seal(s.alice, "bound", []byte("3"), sdk.PutOptions{Base: new(made[0].Receipt.Ref)})
	if balance(t, s.alice) != before {
		t.Error("a refused upload was paid")
	}
	next := seal(s.alice, "bound", []byte("2"), sdk.PutOptions{Base: new(made[0].Receipt.Ref)})
	r := s.alice.SendSealed(ctx, next)[0]
	ok(t, "the second version", r.Err)
	conflict("one that did not know it", s.alice.SendSealed(ctx, late)[0])
	if again := s.alice.SendSealed(ctx, next)[0]; again.Err != nil || again.Receipt.Ref != r.Receipt.Ref {
		t.Errorf("the second version again, which is the newest by now: %+v", again)
	}
	ok(t, "delete", second(s.alice.Group(s.group).Delete(ctx, r.Receipt.Ref)))
	ok(t, "the version before is the newest", s.alice.SendSealed(ctx, late)[0].Err)
}

// sealedUpon checks uploads that say from which version of another name they were made.
func sealedUpon(t *testing.T, s *suite, seal sealer) {
	ctx := t.Context()
	g := s.alice.Group(s.group)
	r := s.alice.SendSealed(ctx, seal(s.alice, "plan", []byte("1")))[0]
	ok(t, "a version", r.Err)
	of := map[string]*sdk.Ref{"made from it": &r.Receipt.Ref, "made from none": new(sdk.Ref("")), "not said": nil}
	same := func(what string, e sdk.Entry) {
		t.Helper()
		if want := of[e.Name]; (e.Upon == nil) != (want == nil) || want != nil && *e.Upon != *want {
			t.Errorf("%s: %s is made from %v, want %v", what, e.Name, e.Upon, want)
		}
	}
	for name, upon := range of {
		sent := s.alice.SendSealed(ctx, seal(s.alice, name, []byte(name), sdk.PutOptions{Upon: upon}))[0]
		ok(t, name, sent.Err)
		same("the receipt", sent.Receipt.Entry)
	}
	_, err := g.Put(ctx, "large, made from it", bytes.NewReader(pattern(wire.WholeFileBytes+1)),
		sdk.PutOptions{Upon: of["made from it"]})
	ok(t, "in blocks", err)
	of["large, made from it"] = of["made from it"]
	moved, err := g.Stat(ctx, "made from it")
	ok(t, "stat", err)
	_, err = g.Rename(ctx, moved.Ref, "made from it, renamed")
	ok(t, "rename", err)
	of["made from it, renamed"] = of["made from it"]
	entries, err := g.Entries(ctx)
	ok(t, "list", err)
	for _, e := range entries {
		same("the list", e)
	}
	_, err = g.Put(ctx, "f", bytes.NewReader(nil), sdk.PutOptions{Upon: new(sdk.Ref("nothing"))})
	is(t, "made from what never was", err, sdk.ErrNotFound)
}

// sealedMembers checks that only members record, and that who is revoked does not any more.
func sealedMembers(t *testing.T, s *suite, seal sealer) {
	ctx := t.Context()
	before := balance(t, s.bob)
	for _, sent := range s.bob.SendSealed(ctx, seal(s.bob, "bob 1", []byte("1")), seal(s.bob, "bob 2", []byte("2"))) {
		is(t, "a stranger sends", sent.Err, sdk.ErrNotAuthorized)
	}
	is(t, "a stranger sends one", s.bob.SendSealed(ctx, seal(s.bob, "bob", []byte("1")))[0].Err, sdk.ErrNotAuthorized)
	if balance(t, s.bob) != before {
		t.Error("a refused upload was paid")
	}
	ok(t, "add", second(s.alice.Group(s.group).Add(ctx, s.world.Bob.ID)))
	content := pattern(5000)
	up := seal(s.bob, "waits", content)
	is(t, "another account sends", s.alice.SendSealed(ctx, up)[0].Err, sdk.ErrInvalid)
	ok(t, "revoke", second(s.alice.Group(s.group).Revoke(ctx, s.world.Bob.ID)))
	is(t, "who was revoked sends", s.bob.SendSealed(ctx, up)[0].Err, sdk.ErrNotAuthorized)
	ok(t, "add again", second(s.alice.Group(s.group).Add(ctx, s.world.Bob.ID)))
	sent := s.bob.SendSealed(ctx, up)[0]
	ok(t, "a member again", sent.Err)
	ok(t, "what is recorded can be read", second(third(Read(context.WithoutCancel(ctx), s.alice.Group(s.group), string(sent.Receipt.Ref)))))
}

// third keeps the last of three results, for second.
func third[A, B any](_ A, b B, err error) (B, error) { return b, err }
