package vault_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// opening begins a sealed session of an account, for a service, an account and an epoch.
func (a *account) opening(rows []vaultwire.Row, change func(*format.SessionFor)) (*vaultwire.Opening,
	*format.Session) {
	a.t.Helper()
	kept, err := a.Keep(a.t.Context(), vaultwire.Keep{Rows: rows})
	must(a.t, err)
	at := slices.IndexFunc(kept.Keys, func(k vaultwire.Key) bool { return k.Purpose == vaultwire.PurposeUploads })
	public, err := format.NewVaultPublic(kept.Keys[at].Public)
	must(a.t, err)
	to := format.SessionFor{Service: "svc.testnet", Account: a.name, Epoch: 1}
	if change != nil {
		change(&to)
	}
	sealed, session, err := public.NewSession(to, a.key)
	must(a.t, err)
	return &vaultwire.Opening{For: format.SessionFor{Service: "svc.testnet", Account: a.name, Epoch: 1},
		Sealed: sealed}, session
}

// Threat 79: keys of files come sealed for a sealed session, and the service sees none; nor does it see the API key.
func TestThreat79KeysComeSealed(t *testing.T) { onEachWay(t, keysComeSealed) }

func keysComeSealed(t *testing.T, w way) {
	o := openingWith(t, w)
	alice := accountOf(t, o.Vault, "reader", func() time.Time { return o.now })
	q := alice.asks()
	opening, session := alice.opening(o.rows, nil)
	q.Opening = opening
	made, err := o.IssueToken(t.Context(), q)
	must(t, err)
	claims, err := o.OpenToken(t.Context(), vaultwire.OpenToken{Token: slices.Clone(made.Text), Address: "http://s"})
	if err != nil || !bytes.Equal(claims.Request, session.RequestKey()) {
		t.Errorf("%+v, %v", claims, err)
	}
	for n := range int64(2) { // once read, a token is remembered
		file := o.claim(n + 1)
		file.Token = slices.Clone(made.Text)
		a, err := o.OpenFile(t.Context(), file)
		must(t, err)
		key, err := session.Open("g", "bafy1", a.Sealed)
		if err != nil || a.Key != nil || !bytes.Equal(key.Bytes(), bytes.Repeat([]byte{7}, vaultwire.KeyBytes)) {
			t.Errorf("%v: %v", a, err)
		}
	}
	o.says(2, 0, 0)
	seen, err := json.Marshal([]any{q, made, claims})
	must(t, err)
	_, payload, _ := strings.Cut(string(made.Text), ".")
	payload, _, _ = strings.Cut(payload, ".")
	inside, err := base64.RawURLEncoding.DecodeString(payload)
	must(t, err)
	for _, secret := range [][]byte{alice.key, session.Secret()} {
		if bytes.Contains(seen, secret) || bytes.Contains(seen, []byte(base64.StdEncoding.EncodeToString(secret))) ||
			bytes.Contains(inside, []byte(base64.StdEncoding.EncodeToString(secret))) {
			t.Error("the service sees the API key, or the secret of the session")
		}
	}
	for name, tc := range map[string]struct {
		change func(*vaultwire.IssueToken)
		want   error
	}{
		"another account": {func(q *vaultwire.IssueToken) { q.Account = "other" }, vaultwire.ErrSealed},
		"half an opening": {func(q *vaultwire.IssueToken) { q.Opening.Sealed = opening.Sealed[:1000] },
			vaultwire.ErrSealed},
		"the next epoch":  {func(q *vaultwire.IssueToken) { q.Opening.For.Epoch = 2 }, vaultwire.ErrUnknownKey},
		"no epoch":        {func(q *vaultwire.IssueToken) { q.Opening.For.Epoch = 0 }, vaultwire.ErrEpoch},
		"another service": {func(q *vaultwire.IssueToken) { q.Opening.For.Service = "svc" }, vaultwire.ErrSealed},
		"no credential":   {func(q *vaultwire.IssueToken) { q.Credential = nil }, vaultwire.ErrWrongKey},
		"sealed for another": {func(q *vaultwire.IssueToken) {
			q.Opening, _ = alice.opening(o.rows, func(f *format.SessionFor) { f.Account = "x" })
		}, vaultwire.ErrSealed},
	} {
		bad := alice.asks()
		copied := *opening
		bad.Opening = &copied
		tc.change(&bad)
		_, err := o.IssueToken(t.Context(), bad)
		is(t, name, err, tc.want)
	}
}

// Threat 80: there is no session without the API key that the vault made for the account, or the record of a sign-in.
func TestThreat80NoSessionWithoutAKey(t *testing.T) { onEachWay(t, noSessionWithoutAKey) }

func noSessionWithoutAKey(t *testing.T, w way) {
	now := time.Now()
	clock := func() time.Time { return now }
	v, _, _ := started(t, w, clock)
	alice, bob := accountOf(t, v, "alice", clock), accountOf(t, v, "bob", clock)
	own := vaultwire.NewCredential(now, bytes.Repeat([]byte{1}, 32), false) // of a key that the database's thief knows
	forged := append(slices.Clone(own), make([]byte, 32)...)
	flagged := slices.Clone(alice.credential)
	flagged[0] ^= 1
	for name, tc := range map[string]struct {
		credential vaultwire.Credential
		key        vaultwire.Secret
		want       error
	}{
		"another key":            {alice.credential, bob.key, vaultwire.ErrWrongKey},
		"another's credential":   {bob.credential, bob.key, vaultwire.ErrCredential},
		"a forged credential":    {forged, bob.key, vaultwire.ErrCredential},
		"a credential cut short": {own, bob.key, vaultwire.ErrCredential},
		"another flag":           {flagged, alice.key, vaultwire.ErrSealedOnly},
		"no credential":          {nil, alice.key, vaultwire.ErrWrongKey},
		"no key":                 {alice.credential, nil, vaultwire.ErrWrongKey},
	} {
		q := alice.asks()
		q.Credential, q.Key = tc.credential, tc.key
		_, err := v.IssueToken(t.Context(), q)
		is(t, name, err, tc.want)
	}
	record := chain.Record{Kind: chain.KindSignIn, Account: "alice", Chain: chain.OfAccount("alice"), Number: 2}
	page := alice.asks()
	page.SignIn, page.Page = &record, "id"
	token, err := v.IssueToken(t.Context(), page)
	must(t, err)
	got, err := v.OpenToken(t.Context(), vaultwire.OpenToken{Token: token.Text, Address: "http://s"})
	if err != nil || got.Page != "id" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(*vaultwire.IssueToken){
		"the record of another": func(q *vaultwire.IssueToken) {
			q.SignIn.Account, q.SignIn.Chain = "bob", chain.OfAccount("bob")
		},
		"another record": func(q *vaultwire.IssueToken) { q.SignIn.Kind = chain.KindFund },
		"another chain":  func(q *vaultwire.IssueToken) { q.SignIn.Chain = chain.OfGroup("alice") },
	} {
		q, r := page, record
		q.SignIn = &r
		change(&q)
		_, err := v.IssueToken(t.Context(), q)
		if !errors.Is(err, vaultwire.ErrNoClaim) && (q.Credential != nil || !errors.Is(err, vaultwire.ErrCredential)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	page.Page = ""
	if _, err := v.IssueToken(t.Context(), page); err == nil {
		t.Error("a session of the page without an id")
	}
}

// Threat 80: an API key is given once, for the record of it, and an earlier one of the account is good no more.
func TestThreat80KeysAreGivenForRecords(t *testing.T) { onEachWay(t, keysAreGivenForRecords) }

func keysAreGivenForRecords(t *testing.T, w way) {
	o := openingWith(t, w)
	made, err := o.MakeKey(t.Context(), vaultwire.MakeKey{Account: "alice"})
	must(t, err)
	record := made1("alice")
	for name, change := range map[string]func(*vaultwire.TakeKey){
		"another kind":       func(q *vaultwire.TakeKey) { q.Record.Kind = chain.KindFund },
		"another's chain":    func(q *vaultwire.TakeKey) { q.Record.Chain = chain.OfAccount("bob") },
		"no record":          func(q *vaultwire.TakeKey) { q.Record = chain.Record{} },
		"the record of none": func(q *vaultwire.TakeKey) { q.Record.Account, q.Record.Chain = "", chain.OfAccount("") },
	} {
		q := vaultwire.TakeKey{Held: made.Held, Record: record}
		change(&q)
		_, err := o.TakeKey(t.Context(), q)
		is(t, name, err, vaultwire.ErrNoClaim)
	}
	other := made1("bob")
	_, err = o.TakeKey(t.Context(), vaultwire.TakeKey{Held: made.Held, Record: other})
	is(t, "the record of another account", err, vaultwire.ErrHeld)
	o.says(0, 0, 0)
	taken, err := o.TakeKey(t.Context(), vaultwire.TakeKey{Held: made.Held, Record: record})
	must(t, err)
	_, err = o.TakeKey(t.Context(), vaultwire.TakeKey{Held: made.Held, Record: record})
	is(t, "again", err, vaultwire.ErrNoClaim)
	o.now = o.now.Add(time.Minute)
	o.says(0, 0, 1) // who has an API key made without a record is seen
	o.records(chain.OfAccount("alice"), record.Body())
	o.says(0, 0, 0)

	clock := func() time.Time { return o.now }
	alice := &account{o.Vault, t, "alice", clock, made.Credential, taken.Key, 0}
	alice.signsIn()
	o.now = o.now.Add(-time.Hour) // a clock that was set back
	newer, err := o.MakeKey(t.Context(), vaultwire.MakeKey{Account: "alice", Before: alice.credential})
	must(t, err)
	alice.signsIn() // nothing shows that the newer one was committed
	second := record
	second.Kind, second.Number = chain.KindRotateKey, 2
	key, err := o.TakeKey(t.Context(), vaultwire.TakeKey{Held: newer.Held, Record: second})
	must(t, err)
	(&account{o.Vault, t, "alice", clock, newer.Credential, key.Key, 0}).signsIn()
	q := alice.asks()
	q.Key = alice.key
	_, err = o.IssueToken(t.Context(), q)
	is(t, "the key of before", err, vaultwire.ErrCredential)
}

// Threat 81: an API key that is taken sealed alone begins no session in the clear, and none of the account page.
func TestThreat81SealedOnly(t *testing.T) { onEachWay(t, isSealedOnly) }

func isSealedOnly(t *testing.T, w way) {
	v, rows, _ := started(t, w, time.Now)
	alice := accountOf(t, v, "alice", time.Now)
	_, err := v.SealOnly(t.Context(), vaultwire.SealOnly{Account: "bob", Credential: alice.credential})
	is(t, "another's credential", err, vaultwire.ErrCredential)
	before := alice.credential
	made, err := v.SealOnly(t.Context(), vaultwire.SealOnly{Account: "alice", Credential: before})
	must(t, err)
	if alice.credential = made.Credential; !alice.credential.SealedOnly() || before.SealedOnly() {
		t.Error("it is not sealed only")
	}
	record := chain.Record{Kind: chain.KindSignIn, Account: "alice", Chain: chain.OfAccount("alice"), Number: 2}
	for _, q := range []vaultwire.IssueToken{{Key: alice.key}, {SignIn: &record}} {
		q.Claims, q.Credential, q.Page = alice.asks().Claims, alice.credential, "id"
		_, err = v.IssueToken(t.Context(), q)
		is(t, "in the clear, or by the page", err, vaultwire.ErrSealedOnly)
	}
	q := alice.asks()
	q.Opening, _ = alice.opening(rows, nil)
	if _, err := v.IssueToken(t.Context(), q); err != nil {
		t.Errorf("sealed: %v", err)
	}
	for _, q := range []vaultwire.IssueToken{{Key: alice.key}, {SignIn: &record}} {
		q.Claims, q.Credential, q.Page = alice.asks().Claims, before, "id"
		_, err = v.IssueToken(t.Context(), q)
		is(t, "with the credential of before", err, vaultwire.ErrCredential)
	}
}

// Threat 81: a session from before, in which keys come in the clear, opens nothing once the vault knows that the API
// key is taken sealed alone; and an account without a key has a credential of its own, with which no key signs in.
func TestThreat81ClearSessionsEnd(t *testing.T) { onEachWay(t, clearSessionsEnd) }

func clearSessionsEnd(t *testing.T, w way) {
	o := openingWith(t, w)
	alice := accountOf(t, o.Vault, "reader", func() time.Time { return o.now })
	token := alice.signsIn()
	made, err := o.SealOnly(t.Context(), vaultwire.SealOnly{Account: "reader", Credential: alice.credential})
	must(t, err)
	q := o.claim(1)
	q.Token = token
	o.opens(q) // nothing shows yet that the credential was kept
	alice.credential = made.Credential
	sealed := alice.asks()
	sealed.Opening, _ = alice.opening(o.rows, nil)
	_, err = o.IssueToken(t.Context(), sealed)
	must(t, err)
	q = o.claim(2)
	q.Token = token
	var refused *vaultwire.TokenError
	if _, err := o.OpenFile(t.Context(), q); !errors.As(err, &refused) {
		t.Errorf("a session in the clear: %v", err)
	}
	stays := func(what string) {
		t.Helper()
		_, err := o.Check(t.Context(), vaultwire.Check{WrappedKey: q.WrappedKey, Token: slices.Clone(token)})
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	stays("before it is paid")
	must(t, last(o.Keep(t.Context(), vaultwire.Keep{Rows: o.rows, Replace: true})))
	stays("the same keys in the place of themselves")
	for version := range int64(2) {
		other, err := o.Make(t.Context(), vaultwire.Make{Keys: []vaultwire.Key{{Purpose: vaultwire.PurposeCredentials,
			Version: 1 + version}}})
		must(t, err)
		for _, replace := range []bool{false, true} {
			is(t, "other credentials", last(o.Keep(t.Context(), vaultwire.Keep{Rows: other.Rows, Replace: replace})),
				vaultwire.ErrOtherKeys)
		}
	}
	stays("other credentials, which it does not take")
	if _, isDirect := o.Vault.(*vault.Vault); isDirect { // behind a socket so many questions take long
		for n := range 1<<16 + 1 {
			name := fmt.Sprint("nobody-", n)
			nobody, err := o.MakeKey(t.Context(), vaultwire.MakeKey{Account: name})
			must(t, err)
			must(t, last(o.SealOnly(t.Context(), vaultwire.SealOnly{Account: name, Credential: nobody.Credential})))
		}
		stays("as many accounts as it remembers, which nobody has")
	}
	untaken, err := o.MakeKey(t.Context(), vaultwire.MakeKey{Account: "reader", Before: made.Credential})
	must(t, err)
	_, err = o.SealOnly(t.Context(), vaultwire.SealOnly{Account: "reader", Credential: untaken.Credential})
	must(t, err)
	stays("a key that was made, and not taken")
	taken, err := o.TakeKey(t.Context(), vaultwire.TakeKey{Held: untaken.Held, Record: chain.Record{
		Kind: chain.KindRotateKey, Account: "reader", Chain: chain.OfAccount("reader"), Number: 9}})
	must(t, err)
	rotated := *alice
	rotated.credential, rotated.key = untaken.Credential, taken.Key
	token = rotated.signsIn()
	_, err = o.Check(t.Context(), vaultwire.Check{WrappedKey: q.WrappedKey, Token: slices.Clone(token)})
	is(t, "with the key that took its place", err, nil)
	none, err := o.MakeKey(t.Context(), vaultwire.MakeKey{Account: "page", NoKey: true})
	if err != nil || none.Held != nil {
		t.Errorf("%v, %v", none.Held, err)
	}
	page := vaultwire.IssueToken{Credential: none.Credential, Key: alice.key, Claims: alice.asks().Claims}
	page.Account = "page"
	_, err = o.IssueToken(t.Context(), page)
	is(t, "a key of an account without one", err, vaultwire.ErrWrongKey)

}

// A vault of an empty service takes the credentials that an import brings, also if they are older than its own.
func TestImportedCredentials(t *testing.T) { onEachWay(t, importedCredentials) }

func importedCredentials(t *testing.T, w way) {
	now := time.Now()
	clock := func() time.Time { return now }
	v, _, _ := started(t, w, clock)
	accountOf(t, v, "alice", clock).signsIn()
	other, err := v.Make(t.Context(), vaultwire.Make{Keys: []vaultwire.Key{{Purpose: vaultwire.PurposeCredentials,
		Version: 1}}})
	must(t, err)
	must(t, last(v.Keep(t.Context(), vaultwire.Keep{Rows: other.Rows, Replace: true})))
	now = now.Add(-time.Hour)
	accountOf(t, v, "alice", clock).signsIn()
}

// Threat 82: a key that is to be given sealed alone is given in the clear never, also after it was wrapped by another
// root, and is not taken in the clear.
func TestThreat82KeysAreGivenSealedAlone(t *testing.T) { onEachWay(t, keysAreGivenSealedAlone) }

func keysAreGivenSealedAlone(t *testing.T, w way) {
	o := openingWith(t, w)
	file := vaultwire.Binding{Group: "g", Ref: "bafy2", Version: 1, Sealed: true}
	_, err := o.Wrap(t.Context(),
		vaultwire.Wrap{Root: 1, Binding: file, Key: bytes.Repeat([]byte{7}, vaultwire.KeyBytes)})
	is(t, "a key in the clear", err, vaultwire.ErrSealedOnly)
	wrapped, err := o.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: file, Held: hold(t, o.Vault, o.rows)})
	must(t, err)
	alice := accountOf(t, o.Vault, "reader", func() time.Time { return o.now })
	q := alice.asks()
	q.Opening, _ = alice.opening(o.rows, nil)
	sealed, err := o.IssueToken(t.Context(), q)
	must(t, err)
	made, err := o.Make(t.Context(),
		vaultwire.Make{Keys: []vaultwire.Key{{Purpose: vaultwire.PurposeFiles, Version: 2}}})
	must(t, err)
	_, err = o.Keep(t.Context(), vaultwire.Keep{Rows: append(slices.Clone(o.rows), made.Rows...)})
	must(t, err)
	claimed := vaultwire.WrappedKey{Binding: vaultwire.Binding{Group: "g", Ref: "bafy2", Version: 1},
		Wrapped: wrapped.Wrapped}
	again, err := o.Rewrap(t.Context(), vaultwire.Rewrap{Root: 2, Keys: []vaultwire.WrappedKey{claimed}})
	must(t, err)
	for i, raw := range [][]byte{wrapped.Wrapped, again.Wrapped[0]} {
		claimed.Wrapped = raw
		for name, token := range map[string]vaultwire.Secret{"in the clear": alice.signsIn(), "sealed": sealed.Text} {
			q := o.claim(int64(i + 1))
			q.WrappedKey, q.Claim.Ref, q.Token = claimed, "bafy2", token
			_, checked := o.Check(t.Context(), vaultwire.Check{WrappedKey: claimed, Token: slices.Clone(token)})
			a, opened := o.OpenFile(t.Context(), q)
			want := error(nil)
			if name == "in the clear" {
				want = vaultwire.ErrSealedOnly
			} else if len(a.Sealed) != format.SessionKeyBytes {
				t.Errorf("%d bytes", len(a.Sealed))
			}
			is(t, name, opened, want)
			is(t, name+", before it is paid", checked, want)
		}
	}
	o.says(2, 0, 0)
}

// Threat 77: no token is longer than those that clients take, so that sessions take no more memory than there is.
func TestThreat77SessionsHaveBoundedMemory(t *testing.T) {
	o := openingWith(t, func(_ *testing.T, v *vault.Vault) vaultwire.Vault { return v })
	alice := accountOf(t, o.Vault, "reader", func() time.Time { return o.now })
	q := alice.asks()
	q.Key = alice.key
	q.Address = "http://" + strings.Repeat("a", 2000)
	_, err := o.IssueToken(t.Context(), q)
	must(t, err)
	q.Key, q.Address = alice.key, "http://"+strings.Repeat("a", 4000)
	if _, err := o.IssueToken(t.Context(), q); err == nil || !strings.Contains(err.Error(), "at most 8192") {
		t.Errorf("a token that names 4 KB of address: %v", err)
	}
}
