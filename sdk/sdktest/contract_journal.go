package sdktest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

// journalKeys checks the keys of journals: the vault opens them for the account and the group that they were sealed
// for, until the journal ends; and nothing prints them.
func journalKeys(t *testing.T, s *suite) {
	ctx := t.Context()
	g := s.alice.Group(s.group)
	k, sealed, err := g.NewJournalKey(ctx)
	if !s.isOurs(t) {
		is(t, "make the key of a journal", err, sdk.ErrUnsupported)
		return
	}
	ok(t, "make the key of a journal", err)
	derived := func(k *saving.JournalKey, purpose string) string {
		t.Helper()
		d, err := k.Derive(purpose, []byte("salt"))
		ok(t, "derive", err)
		return d.Base64()
	}
	again, err := g.OpenJournalKey(ctx, sealed)
	ok(t, "open", err)
	if again.ID() != sealed.Journal || derived(again, "a") != derived(k, "a") || derived(k, "a") == derived(k, "b") {
		t.Error("another key was opened, or all purposes have the same one")
	}
	if text := fmt.Sprintf("%v %+v %#v %s", k, k, k, k); text != "redacted redacted redacted redacted" {
		t.Errorf("a key prints as %s", text)
	}
	renewed, err := g.SealJournalKey(ctx, again)
	ok(t, "seal anew", err)
	if bytes.Equal(renewed.Key, sealed.Key) {
		t.Error("a key that is sealed anew is the same ciphertext")
	}
	is(t, "another account opens", second(s.bob.Group(s.group).OpenJournalKey(ctx, sealed)), sdk.ErrNotAuthorized, sdk.ErrInvalid)
	damaged := sealed
	damaged.Key = bytes.Clone(sealed.Key)
	damaged.Key[len(damaged.Key)-1] ^= 1
	is(t, "open what is damaged", second(g.OpenJournalKey(ctx, damaged)), sdk.ErrInvalid)
	ok(t, "end", s.alice.EndJournal(ctx, sealed))
	ok(t, "end again", s.alice.EndJournal(ctx, sealed))
	_, err = g.OpenJournalKey(ctx, renewed)
	isCode(t, "open what ended", err, wire.CodeJournalEnded)
}

// saves checks that a save is recorded and paid once, also when it is sealed under another key after a restart.
func saves(t *testing.T, s *suite) {
	ctx := t.Context()
	g := s.alice.Group(s.group)
	if !s.isOurs(t) {
		return
	}
	save := newSave(t, g, []byte("content"))
	seal := func(name string, content []byte, id saving.Save) *sdk.Sealed {
		t.Helper()
		up, err := g.Seal(ctx, name, content, &id, sdk.PutOptions{Base: new(sdk.Ref(""))})
		ok(t, "seal", err)
		return up
	}
	first := s.alice.SendSealed(ctx, seal("save", []byte("content"), save))[0]
	ok(t, "send", first.Err)
	before := balance(t, s.alice)
	again := s.alice.SendSealed(ctx, seal("save", []byte("content"), save))[0]
	if again.Err != nil || again.Receipt.Ref != first.Receipt.Ref || balance(t, s.alice) != before {
		t.Errorf("sent again: %+v, first %+v", again, first)
	}
	found, err := g.FindSave(ctx, save, int64(len("content")), sdk.ComputeHash([]byte("content")))
	if err != nil || found == nil || found.Ref != first.Receipt.Ref {
		t.Errorf("found %+v, %v", found, err)
	}
	none, err := g.FindSave(ctx, newSave(t, g, []byte("content")), int64(len("content")), sdk.ComputeHash([]byte("content")))
	if err != nil || none != nil {
		t.Errorf("found %+v of a save that was never sent, %v", none, err)
	}
	other := save
	other.Mark = sdk.ComputeHash([]byte("other"))
	isCode(t, "other content under the same id", s.alice.SendSealed(ctx, seal("save", []byte("other"), other))[0].Err,
		wire.CodeSpent)
	is(t, "a save without a key", second(g.Seal(ctx, "f", nil, &saving.Save{ID: save.ID})), sdk.ErrInvalid)
	is(t, "a save without an id", second(g.Seal(ctx, "f", nil, &saving.Save{Key: save.Key})), sdk.ErrInvalid)
	ok(t, "delete", second(g.Delete(ctx, first.Receipt.Ref)))
	again = s.alice.SendSealed(ctx, seal("save", []byte("content"), save))[0]
	if again.Err != nil || again.Receipt.Ref != first.Receipt.Ref {
		t.Errorf("sent again after the file was destroyed: %+v", again)
	}
	if _, _, err := Read(ctx, g, string(first.Receipt.Ref)); !errors.Is(err, sdk.ErrDeleted) {
		t.Errorf("a destroyed file came back: %v", err)
	}
}

// savesInBlocks checks that the parts of a save are used after a restart, and that it is recorded once.
func savesInBlocks(t *testing.T, s *suite) {
	ctx := t.Context()
	g := s.alice.Group(s.group)
	if !s.isOurs(t) {
		return
	}
	content := pattern(int(5*format.MinBlockBytes + 17))
	save := newSave(t, g, content)
	var mu sync.Mutex
	var sent []saving.Part
	begin := func() *sdk.BlockUpload {
		t.Helper()
		u, err := g.BeginBlocks(ctx, nil, format.MinBlockBytes, saving.Begun{Save: save, Sent: sent, Note: func(p saving.Part) {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, p)
		}})
		ok(t, "begin", err)
		t.Cleanup(u.Abandon)
		return u
	}
	put := func(u *sdk.BlockUpload, blocks ...format.Extent) {
		t.Helper()
		ok(t, "part", u.PutPart(ctx, blocks, func(i int64, into []byte) (int, error) {
			return copy(into, content[i*format.MinBlockBytes:]), nil
		}))
	}
	put(begin(), format.Extent{First: 0, Count: 3})
	u := begin() // after a restart
	size, hash := int64(len(content)), sdk.ComputeHash(content)
	if missing := u.Missing(size); len(missing) != 1 || missing[0] != (format.Extent{First: 3, Count: 3}) {
		t.Errorf("%v must be sent", missing)
	}
	put(u, format.Extent{First: 3, Count: 3})
	first, err := u.Finish(ctx, "save in blocks", size, hash, sdk.PutOptions{Base: new(sdk.Ref(""))})
	ok(t, "finish", err)
	got, _, err := Read(ctx, g, string(first.Ref))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	before := balance(t, s.alice)
	found, err := g.FindSave(ctx, save, size, hash)
	if err != nil || found == nil || found.Ref != first.Ref {
		t.Errorf("found %+v, %v", found, err)
	}
	if left := balance(t, s.alice); left != before {
		t.Errorf("%s are left of %s", left.Tokens(), before.Tokens())
	}
}

// isCode checks the code of a refusal.
func isCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%s: %v, want the code %s", what, err, code)
	}
}

func newSave(t *testing.T, g sdk.Group, content []byte) saving.Save {
	t.Helper()
	save, err := g.NewSave()
	ok(t, "save", err)
	save.Key, err = format.RandomKey()
	ok(t, "key", err)
	save.Mark = sdk.ComputeHash(content)
	return save
}
