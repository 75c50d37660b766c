package vault_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// way is how a test speaks to a vault.
type way func(*testing.T, *vault.Vault) vaultwire.Vault

// onEachWay runs a test with a vault in its own process and with one behind a socket.
func onEachWay(t *testing.T, f func(*testing.T, way)) {
	t.Run("direct", func(t *testing.T) {
		f(t, func(_ *testing.T, v *vault.Vault) vaultwire.Vault { return v })
	})
	t.Run("socket", func(t *testing.T) { f(t, behindASocket) })
}

func behindASocket(t *testing.T, v *vault.Vault) vaultwire.Vault {
	t.Helper()
	dir, err := os.MkdirTemp("", "vault-") // the path of a socket is short
	must(t, err)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- vaultwire.Serve(ctx, l, v) }()
	c := vaultwire.NewClient(l.Addr().String(), func(err error) error { return err })
	t.Cleanup(func() {
		must(t, c.Close())
		cancel()
		must(t, <-ended)
		must(t, os.RemoveAll(dir))
	})
	return c
}

// started is a vault with a key for each purpose, and the rows of them.
func started(t *testing.T, w way, now func() time.Time) (vaultwire.Vault, []vaultwire.Row, vaultwire.Source) {
	t.Helper()
	from := vaultwire.InDirectory(t.TempDir())
	inside, err := vault.New(t.Context(), from, vaultwire.Source{}, "", now)
	must(t, err)
	v := w(t, inside)
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
func TestWrap(t *testing.T) { onEachWay(t, wrap) }

func wrap(t *testing.T, w way) {
	v, rows, from := started(t, w, time.Now)
	b := vaultwire.Binding{Group: "g", Ref: "bafy1", Version: 1}
	key := bytes.Repeat([]byte{7}, vaultwire.KeyBytes)
	token := accountOf(t, v, "reader", time.Now).signsIn()
	wrapped, err := v.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Key: key})
	must(t, err)
	follow(t, v, registered("g"))
	opened, err := v.OpenFile(t.Context(), claimed(vaultwire.WrappedKey{Binding: b, Wrapped: wrapped.Wrapped}, token))
	if err != nil || !bytes.Equal(opened.Key, key) {
		t.Errorf("%v, %v", opened, err)
	}
	for _, other := range []vaultwire.Binding{{Group: "h", Ref: b.Ref, Version: 1},
		{Group: "g", Ref: "bafy2", Version: 1},
		{Group: "g", Ref: b.Ref, Version: 2}, {Group: "gb", Ref: "afy1", Version: 1}} {
		_, err := v.OpenFile(t.Context(),
			claimed(vaultwire.WrappedKey{Binding: other, Wrapped: wrapped.Wrapped}, token))
		is(t, "another owner", err, vaultwire.ErrNotOpened)
	}
	_, err = v.Wrap(t.Context(), vaultwire.Wrap{Root: 2, Binding: b, Key: key})
	is(t, "a root that it was not given", err, vaultwire.ErrUnknownKey)
	if _, err = v.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Key: key[1:]}); err == nil {
		t.Error("wrapped 31 bytes")
	}

	inside, err := vault.New(t.Context(), from, vaultwire.Source{}, "", time.Now) // as after a restart
	must(t, err)
	second := w(t, inside)
	_, err = second.Keep(t.Context(), vaultwire.Keep{Rows: rows})
	must(t, err)
	follow(t, second, registered("g"))
	again, err := second.OpenFile(t.Context(),
		claimed(vaultwire.WrappedKey{Binding: b, Wrapped: wrapped.Wrapped}, token))
	if err != nil || !bytes.Equal(again.Key, key) {
		t.Errorf("after a restart: %v", err)
	}
	held := hold(t, v, rows) // for a file of group g
	_, err = second.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Held: held})
	is(t, "held by another vault", err, vaultwire.ErrHeld)
	if _, err := v.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Held: held}); err != nil {
		t.Error(err)
	}

	thief, _, _ := started(t, w, time.Now)
	_, err = thief.Keep(t.Context(), vaultwire.Keep{Rows: rows})
	is(t, "another master key", err, vaultwire.ErrOtherMaster)
	changed := slices.Clone(rows)
	changed[0].Version = 2
	if _, err := v.Keep(t.Context(), vaultwire.Keep{Rows: changed}); err == nil {
		t.Error("a row of another version was taken")
	}
}

// hold has the vault open a key that a client sealed.
func hold(t *testing.T, v vaultwire.Vault, rows []vaultwire.Row) []byte {
	t.Helper()
	q := sealed(t, v, rows)
	held, err := v.OpenSealed(t.Context(), q)
	must(t, err)
	return held.Held
}

func headOf(group string) *wire.SealedHead {
	return &wire.SealedHead{GroupID: group, FileHash: "of the file", Format: []byte(`{ "name": "<a>" }`)}
}

func sealed(t *testing.T, v vaultwire.Vault, rows []vaultwire.Row) vaultwire.OpenSealed {
	t.Helper()
	kept, err := v.Keep(t.Context(), vaultwire.Keep{Rows: rows})
	must(t, err)
	at := slices.IndexFunc(kept.Keys, func(k vaultwire.Key) bool { return k.Purpose == vaultwire.PurposeUploads })
	public, err := format.NewVaultPublic(kept.Keys[at].Public)
	must(t, err)
	key, err := format.RandomKey()
	must(t, err)
	q := vaultwire.OpenSealed{For: format.SealedFor{Service: "s", Account: "alice", Upload: "1", Epoch: 1},
		Head: headOf("g").Bound()}
	q.Sealed, err = public.SealKey(q.For, sha256.Sum256(q.Head), key)
	must(t, err)
	return q
}

// An epoch ends [vaultwire.EpochLife] after the next one began, by the clock of the vault.
func TestEpochs(t *testing.T) { onEachWay(t, epochs) }

func epochs(t *testing.T, w way) {
	now := time.Now()
	v, rows, _ := started(t, w, func() time.Time { return now })
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
	_, err = v.Forget(t.Context(), vaultwire.Forget{Before: 2})
	must(t, err)
	now = now.Add(-time.Hour)
	_, err = v.OpenSealed(t.Context(), q)
	is(t, "a forgotten epoch", err, vaultwire.ErrEpoch)
}

// What a vault answers about its keys has no secret: the key of the log that it signs with is not in it.
func TestThreat33TheVaultGivesOutNoRoot(t *testing.T) { onEachWay(t, threat33TheVaultGivesOutNoRoot) }

func threat33TheVaultGivesOutNoRoot(t *testing.T, w way) {
	v, rows, from := started(t, w, time.Now)
	master, err := vaultwire.ReadSecret(from.File)
	must(t, err)
	kept, err := v.Keep(t.Context(), vaultwire.Keep{Rows: rows})
	must(t, err)
	for _, k := range kept.Keys {
		if (k.Public != nil) != (k.Purpose == vaultwire.PurposeLog || k.Purpose == vaultwire.PurposeUploads) {
			t.Errorf("%s: its public part has %d bytes", k.Purpose, len(k.Public))
		}
	}
	archive, err := v.Archive(t.Context(), vaultwire.Nothing{})
	must(t, err)
	all, err := json.Marshal([]any{kept, archive, rows})
	must(t, err)
	for _, secret := range []any{v, archive, vaultwire.Wrap{Key: master[:]}, vaultwire.Kept{Tickets: master[:]},
		vaultwire.Opened{Key: master[:]}, vaultwire.Text{Text: master[:]},
		vaultwire.OpenToken{Token: master[:]}, vaultwire.IssueToken{Key: master[:]},
		vaultwire.Claims{Request: master[:]}, vaultwire.OpenFile{Token: master[:]}} {
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

// Each refusal of a token comes through with its words.
func TestTokens(t *testing.T) { onEachWay(t, tokens) }

func tokens(t *testing.T, w way) {
	now := time.Now()
	v, _, _ := started(t, w, func() time.Time { return now })
	alice := accountOf(t, v, "alice", func() time.Time { return now })
	token, expires := alice.signsIn(), now.Add(time.Hour)
	got, err := v.OpenToken(t.Context(), vaultwire.OpenToken{Token: token, Address: "http://s"})
	if err != nil || got.Account != "alice" || got.Generation != 3 || got.Expires.Unix() != expires.Unix() ||
		got.Page != "" || got.Request != nil {
		t.Errorf("%+v, %v", got, err)
	}
	refused := func(token vaultwire.Secret, address string, audience bool) {
		t.Helper()
		_, err := v.OpenToken(t.Context(), vaultwire.OpenToken{Token: token, Address: address})
		var e *vaultwire.TokenError
		if !errors.As(err, &e) || e.Audience != audience || e.Text == "" {
			t.Errorf("%v", err)
		}
	}
	refused(token, "http://other", true)
	refused(token[:len(token)-1], "http://s", false)
	now = now.Add(2 * time.Hour)
	refused(token, "http://s", false)
	q := alice.asks()
	q.Key, q.Expires = alice.key, q.Issued.Add(vaultwire.MaxTokenLifetime+time.Second)
	if _, err := v.IssueToken(t.Context(), q); err == nil {
		t.Error("a token for more than a day was issued")
	}
}

// A vault keeps the keys of one database: it refuses those of another one, and one without any, and more than a service
// has.
func TestKeysOfOneDatabase(t *testing.T) {
	v, rows, from := started(t, func(_ *testing.T, v *vault.Vault) vaultwire.Vault { return v }, time.Now)
	inside, err := vault.New(t.Context(), from, vaultwire.Source{}, "", time.Now) // with the same master key
	must(t, err)
	other, err := inside.Make(t.Context(), vaultwire.Make{Keys: []vaultwire.Key{{Purpose: vaultwire.PurposeFiles,
		Version: 1}}})
	must(t, err)
	_, err = v.Keep(t.Context(), vaultwire.Keep{Rows: other.Rows})
	is(t, "another database", err, vaultwire.ErrOtherKeys)
	_, err = v.Keep(t.Context(), vaultwire.Keep{})
	is(t, "an empty database", err, vaultwire.ErrOtherKeys)
	_, err = v.Keep(t.Context(), vaultwire.Keep{Rows: rows})
	must(t, err)
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "at most 4096, 128 of them for uploads, 16 at once") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = inside.Make(t.Context(), vaultwire.Make{Keys: make([]vaultwire.Key, 17)})
	refused("many at once", err)
	_, err = v.Keep(t.Context(), vaultwire.Keep{Rows: make([]vaultwire.Row, 4097)})
	refused("many rows", err)
	for _, purpose := range []string{vaultwire.PurposeUploads, vaultwire.PurposeFiles} {
		most := int64(128)
		if purpose == vaultwire.PurposeFiles {
			most = 4096 - most // those for uploads are there
		}
		for next := int64(2); err != nil || next < most+16; next += 16 {
			var some []vaultwire.Key
			for i := range int64(16) {
				some = append(some, vaultwire.Key{Purpose: purpose, Version: next + i})
			}
			made, failed := inside.Make(t.Context(), vaultwire.Make{Keys: some})
			must(t, failed)
			_, failed = v.Make(t.Context(), vaultwire.Make{Keys: some})
			if _, err = v.Keep(t.Context(), vaultwire.Keep{Rows: made.Rows}); err != nil && next > most-96 {
				refused("many more for "+purpose, failed)
				break
			}
			must(t, errors.Join(err, failed))
		}
		refused("many for "+purpose, err)
	}
}

// Threat 77: a vault keeps nothing of a key that it did not make itself.
func TestThreat77VaultKeepsItsKeysAlone(t *testing.T) {
	v, rows, _ := started(t, func(_ *testing.T, v *vault.Vault) vaultwire.Vault { return v }, time.Now)
	for i := range rows {
		rows[i].Public = make([]byte, 1<<16)
	}
	kept, err := v.Keep(t.Context(), vaultwire.Keep{Rows: rows, Replace: true})
	must(t, err)
	for _, k := range kept.Keys {
		if len(k.Public) > 2000 {
			t.Errorf("the key for %s has %d public bytes", k.Purpose, len(k.Public))
		}
	}
	made, err := v.Make(t.Context(), vaultwire.Make{Keys: []vaultwire.Key{{Purpose: "else", Version: 1}}})
	must(t, err)
	if _, err := v.Keep(t.Context(), vaultwire.Keep{Rows: made.Rows}); err == nil {
		t.Error("a key for something else is kept")
	}
}

// A cookie of a sign-in and the key of tickets are those of this service alone.
func TestSeals(t *testing.T) { onEachWay(t, seals) }

func seals(t *testing.T, w way) {
	v, rows, _ := started(t, w, time.Now)
	other, others, _ := started(t, w, time.Now)
	sealed, err := v.SealPage(t.Context(), vaultwire.Text{Text: []byte("state")})
	must(t, err)
	if opened, err := v.OpenPage(t.Context(), sealed); err != nil || string(opened.Text) != "state" {
		t.Errorf("%q, %v", opened.Text, err)
	}
	_, err = other.OpenPage(t.Context(), sealed)
	is(t, "a cookie of another service", err, vaultwire.ErrSealed)
	a, err := v.Keep(t.Context(), vaultwire.Keep{Rows: rows})
	must(t, err)
	b, err := other.Keep(t.Context(), vaultwire.Keep{Rows: others})
	must(t, err)
	if len(a.Tickets) != vaultwire.KeyBytes || bytes.Equal(a.Tickets, b.Tickets) {
		t.Error("tickets of two services are signed with one key")
	}
}

// Threat 78: a vault opens no key in another place than its own: one that was sealed for a file of another group, and
// the list key of a group as that of a file. What it checks it does not give.
func TestThreat78NoOtherWayToAKey(t *testing.T) { onEachWay(t, noOtherWay) }

func noOtherWay(t *testing.T, w way) {
	v, rows, _ := started(t, w, time.Now)
	held := hold(t, v, rows)
	owner := vaultwire.Binding{Group: "g", Ref: "r", Version: 1}
	for _, other := range []string{"h", "", "gr"} {
		b := owner
		b.Group = other
		_, err := v.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Held: held})
		is(t, "sealed for a file of another group", err, vaultwire.ErrHeld)
	}
	_, err := v.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: vaultwire.ListBinding("g"), Held: held})
	is(t, "sealed for a file, as a list key", err, vaultwire.ErrNotOpened)
	q := sealed(t, v, rows)
	for what, head := range map[string][]byte{"of another group": headOf("h").Bound(), "cut": q.Head[:20],
		"none": nil, "of other texts": append([]byte("x"), q.Head...)} {
		q := q
		q.Head = head
		_, err := v.OpenSealed(t.Context(), q)
		is(t, "a head: "+what, err, vaultwire.ErrSealed)
	}

	key := bytes.Repeat([]byte{7}, vaultwire.KeyBytes)
	wrap := func(b vaultwire.Binding) []byte {
		a, err := v.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: b, Key: key})
		must(t, err)
		return a.Wrapped
	}
	list, file := wrap(vaultwire.ListBinding("g")), wrap(owner)
	opened, err := v.OpenList(t.Context(), vaultwire.OpenList{Group: "g", Wrapped: list})
	if err != nil || !bytes.Equal(opened.Key, key) {
		t.Errorf("a list key: %v", err)
	}
	_, err = v.OpenList(t.Context(), vaultwire.OpenList{Group: "g", Wrapped: file})
	is(t, "the key of a file as a list key", err, vaultwire.ErrNotOpened)
	asFile := vaultwire.WrappedKey{Binding: vaultwire.ListBinding("g"), Wrapped: list}
	_, err = v.OpenFile(t.Context(), claimed(asFile, nil))
	is(t, "a list key as that of a file", err, vaultwire.ErrNotOpened)
	_, err = v.Legacy(t.Context(), vaultwire.Binding{Group: "g", Version: 1})
	is(t, "the key of all files from before this service", err, vaultwire.ErrNoLegacy)
}

// The key of a file is checked against its metadata and its parts.
func TestCheck(t *testing.T) { onEachWay(t, check) }

func check(t *testing.T, w way) {
	v, _, _ := started(t, w, time.Now)
	key, err := format.RandomKey()
	must(t, err)
	owner := vaultwire.Binding{Group: "g", Ref: "r", Version: 1}
	wrapped, err := v.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: owner, Key: slices.Clone(key.Bytes())})
	must(t, err)
	sum, err := format.KeyCheck(key)
	must(t, err)
	part, err := format.WrapKey(key, key)
	must(t, err)
	bad := part
	bad[0]++
	q := vaultwire.Check{WrappedKey: vaultwire.WrappedKey{Binding: owner, Wrapped: wrapped.Wrapped}, KeyCheck: sum[:],
		Parts: slices.Concat(part[:], bad[:], part[:])}
	a, err := v.Check(t.Context(), q)
	if err != nil || a.Other || !slices.Equal(a.Bad, []int{1}) {
		t.Errorf("%+v, %v", a, err)
	}
	q.KeyCheck = make([]byte, len(sum))
	if a, err := v.Check(t.Context(), q); err != nil || !a.Other {
		t.Errorf("of other metadata: %+v, %v", a, err)
	}
	for what, parts := range map[string][]byte{"half a key": part[1:],
		"too many": make([]byte, (vaultwire.MaxParts+1)*format.WrappedKeyBytes)} {
		q.Parts = parts
		if _, err := v.Check(t.Context(), q); err == nil {
			t.Errorf("%s: it is checked", what)
		}
	}
	q.Binding.Ref, q.Parts = "s", nil
	_, err = v.Check(t.Context(), q)
	is(t, "of another file", err, vaultwire.ErrNotOpened)
}

// Threat 77: of a service that somebody took over, a vault signs no text but those that it writes itself, and no key
// but its own.
func TestThreat77VaultWritesWhatItSigns(t *testing.T) { onEachWay(t, writesWhatItSigns) }

func writesWhatItSigns(t *testing.T, w way) {
	const origin = "files.example.org/svc.testnet"
	now := time.Now()
	v, rows, _ := started(t, w, func() time.Time { return now })
	for i := range rows {
		rows[i].Public = make([]byte, ed25519.PublicKeySize) // what the service says of a key counts for nothing
	}
	kept, err := v.Keep(t.Context(), vaultwire.Keep{Rows: rows, Replace: true})
	must(t, err)
	real := map[string][]byte{}
	for _, k := range kept.Keys {
		real[k.Purpose] = k.Public
	}
	stated := func(kind, nonce string) vaultwire.Sign {
		return vaultwire.Sign{Statement: &chain.Stated{Statement: chain.Statement{Chain: "group:g"}, Kind: kind,
			Nonce: nonce}}
	}
	log, later := ed25519.PublicKey(real[vaultwire.PurposeLog]), now.Add(vaultwire.EpochLife).Unix()
	tree := vaultwire.Tree{Records: 8}
	_, err = v.Extend(t.Context(), vaultwire.Extension{Tree: tree, Edge: make([]byte, 32)})
	must(t, err)
	for name, tc := range map[string]struct {
		q    vaultwire.Sign
		want []byte
	}{
		"a head": {stated(chain.StatedHead, "abc"),
			chain.Statement{Origin: origin, Chain: "group:g"}.HeadText("abc")},
		"a checkpoint": {vaultwire.Sign{Tree: &tree},
			[]byte(wire.CheckpointText(origin, 8, chain.Hash{}, chain.Hash{},
				wire.Opens{Since: now.Add(30 * time.Second).Unix()}))},
		"its key for uploads": {vaultwire.Sign{Epoch: &vaultwire.Epoch{Number: 1, NotAfter: later}},
			chain.VaultKey{Origin: origin, Epoch: 1, KEM: format.SealedKeyKEM,
				Public: real[vaultwire.PurposeUploads], NotAfter: later}.Text()},
	} {
		tc.q.Version, tc.q.Origin = 1, origin
		a, err := v.Sign(t.Context(), tc.q)
		if err != nil || !ed25519.Verify(log, tc.want, a.Signature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, tc := range map[string]struct {
		q    vaultwire.Sign
		want error
	}{
		"nothing": {vaultwire.Sign{}, vaultwire.ErrNoText},
		"two texts": {vaultwire.Sign{Epoch: &vaultwire.Epoch{Number: 1, NotAfter: later}, Tree: &vaultwire.Tree{}},
			vaultwire.ErrNoText},
		"a kind that there is not":    {stated("x", "abc"), vaultwire.ErrNoText},
		"a nonce of two lines":        {stated(chain.StatedHead, "a\nb"), vaultwire.ErrNoText},
		"a head for no request":       {stated(chain.StatedHead, ""), vaultwire.ErrNoText},
		"a receipt for a request":     {stated(chain.StatedReceipt, "abc"), vaultwire.ErrNoText},
		"a stranger's key of the log": {vaultwire.Sign{Next: 2}, vaultwire.ErrUnknownKey},
		"keys of others":              {vaultwire.Sign{Next: 3}, vaultwire.ErrNoText},
		"a nonce that is too long": {stated(chain.StatedHead, strings.Repeat("a", wire.MaxNonceBytes+1)),
			vaultwire.ErrNoText},
		"a log of two lines": {vaultwire.Sign{Origin: "svcfs log key 1\na", Tree: &vaultwire.Tree{}},
			vaultwire.ErrNoText},
		"a log with a space":       {vaultwire.Sign{Origin: "a b", Tree: &vaultwire.Tree{}}, vaultwire.ErrNoText},
		"an epoch that it has not": {vaultwire.Sign{Epoch: &vaultwire.Epoch{Number: 2}}, vaultwire.ErrUnknownKey},
		"an epoch without end": {vaultwire.Sign{Epoch: &vaultwire.Epoch{Number: 1, NotAfter: later + 2*86400}},
			vaultwire.ErrNoText},
		"a key that it was not given": {vaultwire.Sign{Version: 2, Tree: &vaultwire.Tree{}}, vaultwire.ErrUnknownKey},
	} {
		tc.q.Version, tc.q.Origin = cmp.Or(tc.q.Version, 1), cmp.Or(tc.q.Origin, origin)
		_, err := v.Sign(t.Context(), tc.q)
		is(t, name, err, tc.want)
	}
}

// Threat 77: a vault signs no tree of the log but the one that follows from the records it was given, under whatever
// key and origin, and what it refused changes nothing.
func TestThreat77VaultFollowsTheLog(t *testing.T) { onEachWay(t, followsTheLog) }

func followsTheLog(t *testing.T, w way) {
	v, _, _ := started(t, w, time.Now)
	sign := func(version int64, origin string, tree vaultwire.Tree) error {
		_, err := v.Sign(t.Context(), vaultwire.Sign{Version: version, Origin: origin, Tree: &tree})
		return err
	}
	extend := func(e vaultwire.Extension) error {
		_, err := v.Extend(t.Context(), e)
		return err
	}
	var first, other vaultwire.Tree
	first.Records, first.Root[0] = 1, 1
	other.Records, other.Root[0] = 1, 2
	is(t, "a tree that it does not have", sign(1, "a", first), vaultwire.ErrNotFollowing)
	is(t, "no tree", sign(1, "a", vaultwire.Tree{}), vaultwire.ErrNotFollowing)
	must(t, extend(vaultwire.Extension{Tree: first, Edge: first.Root[:]}))
	must(t, sign(1, "a", first))
	must(t, sign(1, "b", first))
	is(t, "another one", extend(vaultwire.Extension{Tree: other, Edge: other.Root[:]}), vaultwire.ErrNotFollowing)
	is(t, "another one", sign(1, "a", other), vaultwire.ErrNotFollowing)
	is(t, "under another origin", sign(1, "c", other), vaultwire.ErrNotFollowing)
	made, err := v.Make(t.Context(), vaultwire.Make{Keys: []vaultwire.Key{{Purpose: vaultwire.PurposeLog, Version: 2}}})
	must(t, err)
	_, err = v.Keep(t.Context(), vaultwire.Keep{Rows: made.Rows, Begins: true, Replace: true})
	must(t, err)
	is(t, "under another key", sign(2, "a", other), vaultwire.ErrNotFollowing)
	must(t, sign(2, "a", first))
	if newest, err := v.NewestTree(t.Context(), vaultwire.Nothing{}); err != nil || newest != first {
		t.Errorf("%+v, %v", newest, err)
	}
}
