package vault_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/service/vault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// started is a vault with a key for each purpose, and the rows of them.
func started(t *testing.T, now func() time.Time) (*vault.Vault, []vaultwire.Row, vaultwire.Source) {
	t.Helper()
	from := vaultwire.InDirectory(t.TempDir())
	v, err := vault.New(t.Context(), from, now)
	must(t, err)
	var list []vaultwire.Key
	for _, purpose := range vaultwire.Purposes() {
		list = append(list, vaultwire.Key{Purpose: purpose, Version: 1, Made: now().UnixNano()})
	}
	made, err := v.Make(t.Context(), vaultwire.Make{Keys: list})
	must(t, err)
	_, err = v.Keep(t.Context(), vaultwire.Keep{Rows: made.Rows})
	must(t, err)
	return v, made.Rows, from
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// A key is opened for its owner alone, by this master key alone, and a held one by the vault that holds it.
func TestWrap(t *testing.T) {
	v, rows, from := started(t, time.Now)
	b := vaultwire.Binding{Group: "g", Ref: "bafy1", Version: 1}
	key := bytes.Repeat([]byte{7}, vaultwire.KeyBytes)
	wrapped, err := v.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Key: key})
	must(t, err)
	opened, err := v.Unwrap(t.Context(), vaultwire.Unwrap{Binding: b, Wrapped: wrapped.Wrapped})
	if err != nil || !bytes.Equal(opened.Key, key) || opened.Root != 1 {
		t.Errorf("%v, %v", opened, err)
	}
	for _, other := range []vaultwire.Binding{{Group: "h", Ref: b.Ref, Version: 1},
		{Group: "g", Ref: "bafy2", Version: 1},
		{Group: "g", Ref: b.Ref, Version: 2}, {Group: "gb", Ref: "afy1", Version: 1}} {
		_, err := v.Unwrap(t.Context(), vaultwire.Unwrap{Binding: other, Wrapped: wrapped.Wrapped})
		is(t, "another owner", err, vaultwire.ErrNotOpened)
	}
	_, err = v.Wrap(t.Context(), vaultwire.Wrap{Root: 2, Binding: b, Key: key})
	is(t, "a root that it was not given", err, vaultwire.ErrUnknownKey)
	if _, err = v.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Key: key[1:]}); err == nil {
		t.Error("wrapped 31 bytes")
	}

	second, err := vault.New(t.Context(), from, time.Now) // as after a restart
	must(t, err)
	_, err = second.Keep(t.Context(), vaultwire.Keep{Rows: rows})
	must(t, err)
	if again, err := second.Unwrap(t.Context(), vaultwire.Unwrap{Binding: b, Wrapped: wrapped.Wrapped}); err != nil ||
		!bytes.Equal(again.Key, key) {
		t.Errorf("after a restart: %v", err)
	}
	held := hold(t, v, rows)
	_, err = second.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Held: held})
	is(t, "held by another vault", err, vaultwire.ErrSealed)
	if _, err := v.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Held: held}); err != nil {
		t.Error(err)
	}

	thief, _, _ := started(t, time.Now)
	_, err = thief.Keep(t.Context(), vaultwire.Keep{Rows: rows})
	is(t, "another master key", err, vaultwire.ErrOtherMaster)
	_, err = thief.Keep(t.Context(), vaultwire.Keep{})
	is(t, "a database without keys", err, vaultwire.ErrNoKeys)
	changed := slices.Clone(rows)
	changed[0].Version = 2
	if _, err := v.Keep(t.Context(), vaultwire.Keep{Rows: changed}); err == nil {
		t.Error("a row of another version was taken")
	}
}

// hold has the vault open a key that a client sealed.
func hold(t *testing.T, v *vault.Vault, rows []vaultwire.Row) []byte {
	t.Helper()
	q := sealed(t, v, rows)
	held, err := v.OpenSealed(t.Context(), q)
	must(t, err)
	return held.Held
}

func sealed(t *testing.T, v *vault.Vault, rows []vaultwire.Row) vaultwire.OpenSealed {
	t.Helper()
	kept, err := v.Keep(t.Context(), vaultwire.Keep{Rows: rows})
	must(t, err)
	at := slices.IndexFunc(kept.Keys, func(k vaultwire.Key) bool { return k.Purpose == vaultwire.PurposeUploads })
	public, err := format.NewVaultPublic(kept.Keys[at].Public)
	must(t, err)
	key, err := format.RandomKey()
	must(t, err)
	q := vaultwire.OpenSealed{For: format.SealedFor{Service: "s", Account: "alice", Upload: "1", Epoch: 1}}
	q.Sealed, err = public.SealKey(q.For, q.Head, key)
	must(t, err)
	return q
}

// An epoch ends [vaultwire.EpochLife] after the next one began, by the clock of the vault.
func TestEpochs(t *testing.T) {
	now := time.Now()
	v, rows, _ := started(t, func() time.Time { return now })
	q := sealed(t, v, rows)
	next := q
	next.For.Epoch = 2
	_, err := v.OpenSealed(t.Context(), next)
	is(t, "the next epoch, which another process may have begun", err, vaultwire.ErrUnknownKey)
	next.For.Epoch = 3
	_, err = v.OpenSealed(t.Context(), next)
	is(t, "an epoch that is far", err, vaultwire.ErrEpoch)
	other := q
	other.For.Account = "bob"
	_, err = v.OpenSealed(t.Context(), other)
	is(t, "of another account", err, vaultwire.ErrSealed)

	made, err := v.Make(t.Context(), vaultwire.Make{Keys: []vaultwire.Key{{
		Purpose: vaultwire.PurposeUploads, Version: 2, Made: now.UnixNano()}}})
	must(t, err)
	_, err = v.Keep(t.Context(), vaultwire.Keep{Rows: append(rows, made.Rows...)})
	must(t, err)
	now = now.Add(vaultwire.EpochLife)
	_, err = v.OpenSealed(t.Context(), q)
	must(t, err)
	now = now.Add(time.Second)
	_, err = v.OpenSealed(t.Context(), q)
	is(t, "an ended epoch", err, vaultwire.ErrEpoch)
	must(t, v.Forget(t.Context(), vaultwire.Forget{Before: 2}))
	now = now.Add(-time.Hour)
	_, err = v.OpenSealed(t.Context(), q)
	is(t, "a forgotten epoch", err, vaultwire.ErrEpoch)
}

// What a vault answers about its keys has no secret: the key of the log that it signs with is not in it.
func TestThreat33TheVaultGivesOutNoRoot(t *testing.T) {
	v, rows, from := started(t, time.Now)
	master, err := vaultwire.ReadSecret(from.File)
	must(t, err)
	kept, err := v.Keep(t.Context(), vaultwire.Keep{Rows: rows})
	must(t, err)
	for _, k := range kept.Keys {
		if (k.Public != nil) != (k.Purpose == vaultwire.PurposeLog || k.Purpose == vaultwire.PurposeUploads) {
			t.Errorf("%s: its public part has %d bytes", k.Purpose, len(k.Public))
		}
	}
	archive, err := v.Archive(t.Context())
	must(t, err)
	all, err := json.Marshal([]any{kept, archive, rows})
	must(t, err)
	for _, secret := range []any{v, archive, vaultwire.Wrap{Key: master[:]}, vaultwire.Unwrapped{Key: master[:]},
		vaultwire.Opened{Key: master[:]}, vaultwire.Text{Text: master[:]},
		vaultwire.OpenToken{Token: master[:]}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
			if text := fmt.Sprintf(verb, secret); !strings.Contains(text, "redacted") ||
				strings.Contains(text, fmt.Sprint(master[:])) || strings.Contains(text, hex.EncodeToString(master[:])) {
				t.Errorf("%T prints as %q with %s", secret, text, verb)
			}
		}
	}
	encoded, err := json.Marshal(master[:])
	must(t, err)
	if bytes.Contains(all, bytes.Trim(encoded, `"`)) {
		t.Error("an answer holds the master key")
	}
}
