package service_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/blob/s3test"
	"github.com/svcfs/svcfs/service/enginetest"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

func TestMain(m *testing.M) {
	for _, entry := range s3test.Env() { // where tests run beside each other, none may set it for itself
		name, value, _ := strings.Cut(entry, "=")
		_ = os.Setenv(name, value)
	}
	_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))) // tests also wait; -parallel comes later
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	err := errors.Join(engines.Close(), goleak.Find())
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// engines has the databases of the tests.
var engines = enginetest.New()

func newDatabase(t testing.TB) string { return engines.NewDatabase(t) }

// running is a service behind a real HTTP server.
type running struct {
	t   testing.TB
	svc *service.Service
	dir string
	url string
	// database is the address on PostgreSQL, "" on SQLite.
	database string
	// public is the address clients use, where it is not url.
	public string
}

func run(t *testing.T) *running {
	t.Helper()
	return runOn(t, newDatabase(t))
}

// runAtOnce is run for tests that destroy many files at once.
func runAtOnce(t *testing.T) *running {
	t.Helper()
	return runWith(t, service.Config{Database: newDatabase(t), DestructionDelay: -1})
}

// runWithGroup is run with an account, alice, that owns a group, g.
func runWithGroup(t *testing.T) (r *running, alice *user) {
	t.Helper()
	r = run(t)
	return r, r.owner()
}

// runInFiles is runWithGroup where small ciphertext lies in files of its own too.
func runInFiles(t *testing.T) (r *running, alice *user) {
	t.Helper()
	r = runWith(t, service.Config{Database: newDatabase(t), SmallBytes: -1})
	return r, r.owner()
}

// runWithMember is runWithGroup with a member, bob.
func runWithMember(t *testing.T) (r *running, alice, bob *user) {
	t.Helper()
	r, alice = runWithGroup(t)
	bob = r.user("bob", "10")
	alice.adds(bob)
	return r, alice, bob
}

func runOn(t testing.TB, database string) *running {
	t.Helper()
	return runWith(t, service.Config{Database: database})
}

// runWith runs a service of this configuration, completed with the settings of every
// test.
func runWith(t testing.TB, cfg service.Config) *running {
	t.Helper()
	dir := cmp.Or(cfg.DataDir, filepath.Join(t.TempDir(), "data"))
	server := httptest.NewUnstartedServer(nil)
	url := "http://" + server.Listener.Addr().String()
	cfg.DataDir, cfg.PublicURL, cfg.MaxFileBytes = dir, url, cmp.Or(cfg.MaxFileBytes, 1<<20)
	svc, err := openService(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = svc.Handler()
	server.Start()
	t.Cleanup(func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections()
		if err := svc.Close(); err != nil {
			t.Error(err)
		}
	})
	return &running{t: t, svc: svc, dir: dir, url: url, database: cfg.Database}
}

// openDatabase opens the service's database beside it, as an operator can.
func (r *running) openDatabase() *sql.DB {
	r.t.Helper()
	// the service has it open
	driver, address := "sqlite", "file:"+filepath.Join(r.dir, store.FileName)+"?_pragma=busy_timeout(10000)"
	if r.database != "" {
		driver, address = "pgx", r.database
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { db.Close() })
	return db
}

// withoutTriggers is the SQL that takes the ledger's protection away. Every record from before has its place then.
func (r *running) withoutTriggers() string {
	r.t.Helper()
	if r.database != "" {
		db := r.openDatabase()
		proctest.Eventually(r.t, "every record has its place", func() (all bool) {
			ok(r.t, db.QueryRow("SELECT NOT EXISTS (SELECT 1 FROM unplaced)").Scan(&all))
			return all
		})
		return "ALTER TABLE ledger DISABLE TRIGGER ALL; "
	}
	return "DROP TRIGGER ledger_no_update; DROP TRIGGER ledger_no_delete; "
}

// databaseHolds searches the files of SQLite, or every row of PostgreSQL.
func (r *running) databaseHolds(needle []byte) bool {
	r.t.Helper()
	if r.database == "" {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			raw, err := os.ReadFile(filepath.Join(r.dir, store.FileName) + suffix)
			if err == nil && bytes.Contains(raw, needle) {
				return true
			}
		}
		return false
	}
	db, held := r.openDatabase(), false
	defer db.Close()
	for _, table := range []string{"meta", "accounts", "groups", "members", "uploads", "files", "parts", "contents",
		"small_contents", "file_keys", "openings", "claims", "ledger"} {
		var found bool
		err := db.QueryRow("SELECT EXISTS (SELECT 1 FROM "+table+" t WHERE strpos(t::text, $1) > 0 OR "+
			"strpos(t::text, $2) > 0)",
			strings.ToValidUTF8(strings.ReplaceAll(string(needle), "\x00", ""), ""),
			hex.EncodeToString(needle)).Scan(&found)
		if err != nil {
			r.t.Fatal(err)
		}
		held = held || found
	}
	return held
}

// user is an account with a session token.
type user struct {
	*running
	id, key, token string
	session        *format.Session // nil = it is not sealed
}

func (r *running) user(name, tokens string) *user {
	r.t.Helper()
	balance, err := wire.ParseTokens(tokens)
	if err != nil {
		r.t.Fatal(err)
	}
	made, err := r.svc.CreateAccount(r.t.Context(), name, balance)
	if err != nil {
		r.t.Fatal(err)
	}
	u := &user{running: r, id: made.AccountID, key: made.APIKey.Reveal()}
	u.login()
	return u
}

// owner makes the account alice, with 1000 tokens less a fee, and its group g.
func (r *running) owner() *user {
	r.t.Helper()
	alice := r.user("alice", "1000")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	return alice
}

// adds makes another account a member of g.
func (u *user) adds(member *user) {
	u.t.Helper()
	must[string](u, wire.OpAddGroupMember, object{"group_id": "g", "member_id": member.id})
}

func (u *user) login() {
	u.t.Helper()
	var out wire.SessionTokenResult
	credential := http.Header{wire.HeaderAPIKey: {u.key}}
	if u.session != nil {
		credential = u.opening()
	}
	status, body := u.post("/api/auth/session-token", credential,
		wire.SessionTokenRequest{AccountID: u.id})
	if status != http.StatusOK || json.Unmarshal(body, &out) != nil || out.ExpiresIn != "24h" || out.AccountID != u.id {
		u.t.Fatalf("login: %d %s", status, body)
	}
	u.token = out.Token
}

// sealed is the account in a sealed session.
func (u *user) sealed() *user {
	u.t.Helper()
	again := &user{running: u.running, id: u.id, key: u.key, session: &format.Session{}}
	again.login()
	return again
}

// opening begins a sealed session.
func (u *user) opening() http.Header {
	u.t.Helper()
	v := u.vaultKey()
	raw, err := base64.StdEncoding.DecodeString(v.PublicKey)
	ok(u.t, err)
	vault, err := format.NewVaultPublic(raw)
	ok(u.t, err)
	opening, session, err := vault.NewSession(format.SessionFor{Service: "svc.testnet", Account: u.id, Epoch: v.Epoch},
		[]byte(u.key))
	ok(u.t, err)
	u.session = session
	return http.Header{wire.HeaderOpening: {wire.Opening{Epoch: v.Epoch, Sealed: opening}.String()}}
}

func (r *running) post(path string, header http.Header, request any) (int, []byte) {
	r.t.Helper()
	raw, ok := request.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(request); err != nil {
			r.t.Fatal(err)
		}
	}
	req, err := http.NewRequest(http.MethodPost, r.url+path, bytes.NewReader(raw))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	return r.do(req)
}

func (r *running) do(req *http.Request) (int, []byte) {
	r.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Error(err)
		return 0, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Error(err)
	}
	return resp.StatusCode, body
}

func (u *user) header() http.Header {
	return http.Header{"Authorization": {"Bearer " + u.token}, wire.HeaderAccountID: {u.id}}
}

func (u *user) tool(op string, request any) (int, string) {
	u.t.Helper()
	raw, isRaw := request.([]byte)
	if !isRaw {
		var err error
		raw, err = json.Marshal(request)
		ok(u.t, err)
	}
	status, body := u.post("/tools/"+op, u.proven(op, raw), raw)
	return status, string(body)
}

// proven is the header of a request for an operation, with the proof of a sealed session.
func (u *user) proven(op string, raw []byte) http.Header {
	u.t.Helper()
	header := u.header()
	if u.session != nil {
		sum := sha256.Sum256(raw)
		header.Set(wire.HeaderProof, wire.ProvenRequest{Method: http.MethodPost, Target: "/tools/" + op, Token: u.token,
			Time: issuedAt(u.t, u.token) + time.Now().UnixNano()%1e9, Body: &sum}.Prove(wire.ProofKeys{
			Service: u.session.RequestKey(), Vault: u.session.VouchKey()}))
	}
	return header
}

// issuedAt is when a token was made, by the clock of the service, in ns.
func issuedAt(t testing.TB, token string) int64 {
	t.Helper()
	var claims struct {
		Issued int64 `json:"iat"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	ok(t, err)
	ok(t, json.Unmarshal(raw, &claims))
	return claims.Issued * time.Second.Nanoseconds()
}

// must calls an operation that has to succeed and decodes its result.
func must[T any](u *user, op string, request any) T {
	u.t.Helper()
	status, body := u.tool(op, request)
	var out struct {
		Result T `json:"result"`
	}
	if err := json.Unmarshal([]byte(body), &out); status != http.StatusOK || err != nil {
		u.t.Fatalf("%s: %d %s", op, status, body)
	}
	return out.Result
}

type object = map[string]any

func (u *user) upload(group, name string, content []byte) wire.FinalizeUploadResult {
	u.t.Helper()
	return must[wire.FinalizeUploadResult](u, wire.OpFinalizeUpload, u.finalize(group, name, content))
}

// reads expects that a file of g has this content.
func (u *user) reads(ref, want string) {
	u.t.Helper()
	if got, problem := u.retrieve("g", ref); string(got) != want {
		u.t.Errorf("%s reads %d bytes of %s instead of %d: %s", u.id, len(got), ref, len(want), problem)
	}
}

// finalize prepares an upload and returns the request that finishes it.
func (u *user) finalize(group, name string, content []byte) wire.FinalizeUploadRequest {
	u.t.Helper()
	p := must[wire.PrepareUploadResult](u, wire.OpPrepareUpload,
		wire.PrepareUploadRequest{GroupID: group, Filename: name})
	return wire.FinalizeUploadRequest{UploadID: p.UploadID, EncryptedData: seal(u.t, p.Key, content),
		FileHash: hash(content)}
}

// ok ends the test unless a step of it went well.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused expects an error that says word.
func refused(t testing.TB, what string, err error, word string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), word) {
		t.Errorf("%s: %v, want %q", what, err, word)
	}
}

// errOf keeps the error of a call that also returns something.
func errOf[T any](_ T, err error) error { return err }

func seal(t testing.TB, key string, content []byte) string {
	t.Helper()
	k, err := format.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := format.SealBlob(k, content)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(blob)
}

func hash(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

func (u *user) retrieve(group, ref string) ([]byte, string) {
	u.t.Helper()
	status, body := u.tool(wire.OpPrepareRetrieve, object{"group_id": group, "ipfs_hash": ref})
	if status != http.StatusOK {
		return nil, body
	}
	var out wire.PrepareRetrieveResult
	if err := json.Unmarshal([]byte(body), &out); err != nil { // the hybrid body is a bare one too
		u.t.Fatal(err)
	}
	blob, err := base64.StdEncoding.DecodeString(out.EncryptedB64)
	if err != nil {
		u.t.Fatal(err)
	}
	k, err := format.ParseKey(out.Key)
	if err != nil {
		u.t.Fatal(err)
	}
	plain, err := format.OpenBlob(k, blob)
	if err != nil {
		u.t.Fatal(err)
	}
	return plain, ""
}

func (u *user) balance() string {
	u.t.Helper()
	list, err := u.svc.Accounts(u.t.Context())
	if err != nil {
		u.t.Fatal(err)
	}
	for _, a := range list {
		if a.AccountID == u.id {
			return a.Balance.Tokens()
		}
	}
	return "?"
}

func TestUploadRetrieveListAndFees(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "team"})
	content := []byte("some content")
	up := alice.upload("team", "a/b.txt", content)
	if up.CID != up.Location || !strings.HasPrefix(up.CID, "bafy") || len(up.TransID) != 64 ||
		up.FileHash != hash(content) {
		t.Errorf("finalize answered %+v", up)
	}
	if got, problem := alice.retrieve("team", up.CID); !bytes.Equal(got, content) {
		t.Errorf("retrieved %q, %s", got, problem)
	}
	rows := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions, object{"group_id": "team"})
	if len(rows) != 1 || *rows[0].Filename != "a/b.txt" || *rows[0].OriginalSize != int64(len(content)) ||
		rows[0].TransID != up.TransID {
		t.Errorf("rows %+v", rows)
	}
	// 10 - 0.64 - 0.039 - 0.013
	if got := alice.balance(); got != "9.308" {
		t.Errorf("balance %s", got)
	}
	if n, err := r.svc.Audit(t.Context()); err != nil || n != 4 {
		t.Errorf("audit: %d, %v", n, err)
	}
	if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != 1 {
		t.Errorf("verify: %d, %v", n, err)
	}
}

// answered checks the status of a call with these credentials and returns the answer.
func (r *running) answered(t *testing.T, header http.Header, want int) string {
	t.Helper()
	status, body := r.post("/tools/get_owned_groups", header, object{})
	if status != want {
		t.Errorf("%d, want %d: %s", status, want, body)
	}
	return string(body)
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// goodClaims are those of a token that the service would give out.
func (r *running) goodClaims(account string) object {
	now := time.Now().Unix()
	return object{"account_id": account, "type": "svc_session", "gen": 1, "iss": r.url, "aud": r.url,
		"sub": "apikey|" + account, "iat": now, "exp": now + 3600}
}

// Threat 20: forged tokens.
func TestThreat20ForgedTokens(t *testing.T) {
	t.Parallel()
	r := run(t)
	secret, good := r.serviceKey(vaultwire.PurposeTokens), r.goodClaims(r.user("alice", "1").id)
	now := time.Now().Unix()
	with := func(changes object) object {
		out := maps.Clone(good)
		for k, v := range changes {
			if v == nil {
				delete(out, k)
			} else {
				out[k] = v
			}
		}
		return out
	}
	hs := object{"alg": "HS256", "typ": "JWT"}
	for _, tc := range []struct {
		name           string
		header, claims object
		secret         []byte
		want           int
	}{
		{"good", hs, good, secret, 200},
		{"alg none", object{"alg": "none"}, good, nil, 401},
		{"alg NONE", object{"alg": "NONE"}, good, nil, 401},
		{"empty secret", hs, good, []byte{}, 401},
		{"guessed secret", hs, good, []byte("secret"), 401},
		{"HS512", object{"alg": "HS512"}, good, secret, 401},
		{"RS256 named", object{"alg": "RS256"}, good, secret, 401},
		{"no exp", hs, with(object{"exp": nil}), secret, 401},
		{"past exp", hs, with(object{"exp": now - 60, "iat": now - 7200}), secret, 401},
		{"exp a string", hs, with(object{"exp": fmt.Sprint(now + 60)}), secret, 401},
		{"exp 1e30", hs, with(object{"exp": 1e30}), secret, 401},
		{"too long a life", hs, with(object{"exp": now + 90000}), secret, 401},
		{"no iat", hs, with(object{"iat": nil}), secret, 401},
		{"future iat", hs, with(object{"iat": now + 600}), secret, 401},
		{"no aud", hs, with(object{"aud": nil}), secret, 401},
		{"aud with slash", hs, with(object{"aud": r.url + "/"}), secret, 401},
		{"aud prefix", hs, with(object{"aud": r.url[:len(r.url)-1]}), secret, 401},
		{"aud list", hs, with(object{"aud": []string{r.url, "x"}}), secret, 401},
		{"wrong iss", hs, with(object{"iss": "x"}), secret, 401},
		{"wrong type", hs, with(object{"type": "other"}), secret, 401},
		{"no account", hs, with(object{"account_id": ""}), secret, 401},
		{"account a number", hs, with(object{"account_id": 7}), secret, 401},
		{"unknown account", hs, with(object{"account_id": "nobody.svc.testnet"}), secret, 401},
		{"old key generation", hs, with(object{"gen": 0}), secret, 401},
		{"kid with a path", object{"alg": "HS256", "kid": "../../etc/passwd"}, good, secret, 200},
		{"exp a fraction of a second ago, as a float", hs, with(object{"exp": float64(time.Now().Unix()) - 60.5}),
			secret, 401},
		{"jku is ignored", object{"alg": "HS256", "jku": "http://127.0.0.1:1/"}, good, []byte("x"), 401},
	} {
		t.Run(tc.name, func(t *testing.T) { r.answered(t, bearer(forge(t, tc.header, tc.claims, tc.secret)), tc.want) })
	}
	twice := forgeRaw([]byte(`{"alg":"HS256"}`), fmt.Appendf(nil,
		`{"aud":%q,"iss":%[1]q,"type":"svc_session","account_id":%q,"gen":1,"iat":%d,"exp":%d,"account_id":%q}`,
		r.url, good["account_id"], now, now+600, "nobody.svc.testnet"), secret)
	t.Run("a claim that is there twice", func(t *testing.T) { r.answered(t, bearer(twice), 401) })
	t.Run("wrong aud", func(t *testing.T) {
		if text := r.answered(t, bearer(forge(t, hs, with(object{"aud": "http://elsewhere:8000"}), secret)),
			401); !strings.Contains(text, "Audience") {
			t.Errorf("the text about a wrong audience: %s", text)
		}
	})
}

// Threat 20: the ways in which Wycheproof's JSON Web Signatures are spoilt, on a
// token that is good.
func TestThreat20SpoiltTokens(t *testing.T) {
	t.Parallel()
	r := run(t)
	whole := forge(t, object{"alg": "HS256", "typ": "JWT"}, r.goodClaims(r.user("alice", "1").id),
		r.serviceKey(vaultwire.PurposeTokens))
	r.answered(t, bearer(whole), 200)
	head, rest, _ := strings.Cut(whole, ".")
	body, mac, _ := strings.Cut(rest, ".")
	for name, token := range map[string]string{
		"modified header": "e30." + rest, "modified payload": head + ".e30." + mac,
		"modified signature": head + "." + body + "." + mac[1:] + "A",
		"no signature":       head + "." + body + ".", "no signature and separator": head + "." + body,
		"no payload": head + ".." + mac, "no header": "." + rest,
		"one part": body, "nothing but separators": "..", "an empty part more": whole + ".",
		"a part more": whole + "." + mac, "an empty part first": "." + whole,
		"JSON serialisation": `{"payload":"` + body + `","signatures":[{"protected":"` + head +
			`","signature":"` + mac + `"}]}`,
		"a space in the signature":       head + "." + body + "." + mac[:4] + " " + mac[4:],
		"a character that is not base64": head + "." + body + "." + mac[:4] + "?" + mac[4:],
		"padding":                        whole + "=", "spaces after the header": head + "  ." + rest,
		"marks after the header":       head + "####." + rest,
		"spaces before the payload":    head + ".  " + body + "." + mac,
		"a tab in the payload":         head + "." + body[:4] + "\t" + body[4:] + "." + mac,
		"unused bits of the signature": whole[:len(whole)-1] + nextInBase64(whole[len(whole)-1]),
		"signature of another encoding": head + "." + body + "." +
			strings.NewReplacer("-", "+", "_", "/").Replace(mac) + "+",
	} {
		t.Run(name, func(t *testing.T) { r.answered(t, bearer(token), 401) })
	}
}

// Threat 21: mixed credentials.
func TestThreat21MixedCredentials(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "1"), r.user("bob", "1")
	for _, tc := range []struct {
		name   string
		header http.Header
		want   int
	}{
		{"nothing", nil, 401},
		{"key and account", http.Header{wire.HeaderAPIKey: {alice.key}, wire.HeaderAccountID: {alice.id}}, 200},
		{"key alone", http.Header{wire.HeaderAPIKey: {alice.key}}, 401},
		{"key of another", http.Header{wire.HeaderAPIKey: {alice.key}, wire.HeaderAccountID: {bob.id}}, 401},
		{"token of another", http.Header{"Authorization": {"Bearer " + alice.token}, wire.HeaderAccountID: {bob.id}},
			401},
		{"bad token with a good key", http.Header{"Authorization": {"Bearer x"}, wire.HeaderAPIKey: {alice.key},
			wire.HeaderAccountID: {alice.id}}, 401},
		{"two tokens", http.Header{"Authorization": {"Bearer " + alice.token, "Bearer " + bob.token}}, 401},
		{"an empty scheme beside a good key",
			http.Header{"Authorization": {""}, wire.HeaderAPIKey: {alice.key}, wire.HeaderAccountID: {alice.id}}, 401},
		{"another scheme", http.Header{"Authorization": {"Basic " + alice.token}}, 401},
		{"token alone", bearer(alice.token), 200},
	} {
		t.Run(tc.name, func(t *testing.T) { r.answered(t, tc.header, tc.want) })
	}
}

// nextInBase64 returns the digit after one whose lowest two bits are zero, as in
// the last digit of 32 bytes: a lenient decoder takes both for the same bytes.
func nextInBase64(digit byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, digit)+1])
}

func forge(t *testing.T, header, claims object, secret []byte) string {
	t.Helper()
	h, err1 := json.Marshal(header)
	c, err2 := json.Marshal(claims)
	ok(t, errors.Join(err1, err2))
	return forgeRaw(h, c, secret)
}

// forgeRaw signs any bytes as a token.
func forgeRaw(header, claims, secret []byte) string {
	body := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	if secret == nil {
		return body + "."
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(body))
	return body + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Threat 22: guessing is slowed down, and the database holds no key.
func TestThreat22GuessingIsSlowedDown(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "1")
	seen := map[int]int{}
	for i := range 30 {
		status, _ := r.post("/api/auth/session-token", http.Header{wire.HeaderAPIKey: {fmt.Sprintf("svc_sk_%043d", i)}},
			wire.SessionTokenRequest{AccountID: alice.id})
		seen[status]++
	}
	if seen[401] > 11 || seen[429] < 19 {
		t.Errorf("statuses %v", seen)
	}
	if status, body := r.post("/api/auth/session-token", http.Header{wire.HeaderAPIKey: {alice.key}},
		wire.SessionTokenRequest{AccountID: alice.id}); status != 200 {
		t.Errorf("somebody else's guessing locks out the account: %d %s", status, body)
	}
	if status, body := r.post("/api/auth/session-token", http.Header{wire.HeaderAPIKey: {alice.key}},
		wire.SessionTokenRequest{AccountID: "nobody.svc.testnet"}); status != 404 ||
		!strings.Contains(string(body), "not found") {
		t.Errorf("unknown account: %d %s", status, body)
	}
	if r.databaseHolds([]byte(alice.key)) {
		t.Error("the database holds the API key")
	}
}

// Threat 23.
func TestThreat23RotationKillsKeyAndTokens(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	ref := alice.upload("g", "f", []byte("content")).CID
	small := alice.sealsFor(alice.vaultKey(), "g", "small", []byte("x"))
	left := alice.balance()
	made, err := r.svc.RotateKey(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time before anything else
		status, body := alice.puts(small)
		refuses(t, "a small save with the old token", status, body, wire.CodeInvalidToken)
		status, body = alice.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})
		refuses(t, "a retrieval with the old token", status, body, wire.CodeInvalidToken)
	}
	if status, _ := alice.tool(wire.OpGetOwnedGroups, object{}); status != 401 {
		t.Errorf("the old token still works: %d", status)
	}
	if status, _ := r.post("/api/auth/session-token", http.Header{wire.HeaderAPIKey: {alice.key}},
		wire.SessionTokenRequest{AccountID: alice.id}); status != 401 {
		t.Errorf("the old key still works: %d", status)
	}
	alice.key = made.APIKey.Reveal()
	alice.login()
	if now := alice.balance(); now != left {
		t.Errorf("the old token cost %s, and left %s", left, now)
	}
	if alice.mustPut(small).Repeated {
		t.Error("the old token saved")
	}
	if text := fmt.Sprintf("%v %+v %#v", made, made, made); strings.Contains(text, alice.key) {
		t.Error("a new account prints its key")
	}
}

// Threat 27: money is spent once. 50 parallel uploads with money for 10.
func TestThreat27MoneyForTenUploadsPaysTen(t *testing.T) {
	t.Parallel()
	r := run(t)
	owner, poor := r.user("owner", "5"), r.user("poor", "0.395") // ten uploads and a little
	must[string](owner, wire.OpRegisterGroup, object{"group_id": "g"})
	must[string](owner, wire.OpAddGroupMember, object{"group_id": "g", "member_id": "poor"})
	var requests []wire.FinalizeUploadRequest
	for i := range 50 {
		requests = append(requests, poor.finalize("g", fmt.Sprint(i), []byte(fmt.Sprint(i))))
	}
	var paid, refused atomic.Int32
	var all sync.WaitGroup
	for _, req := range requests {
		all.Go(func() {
			status, body := poor.tool(wire.OpFinalizeUpload, req)
			switch {
			case status == 200:
				paid.Add(1)
			case status == 402 && strings.Contains(body, "Insufficient"):
				refused.Add(1)
			default:
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all.Wait()
	if paid.Load() != 10 || refused.Load() != 40 || poor.balance() != "0.005" {
		t.Errorf("%d paid, %d refused, balance %s", paid.Load(), refused.Load(), poor.balance())
	}
	if rows := must[[]wire.TransactionRow](owner, wire.OpGetGroupTransactions,
		object{"group_id": "g"}); len(rows) != 10 {
		t.Errorf("%d rows", len(rows))
	}
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Threat 24: nothing that starts after a revocation returned succeeds, also not
// the end of an upload begun before.
func TestThreat24RevocationWinsEveryRace(t *testing.T) {
	t.Parallel()
	r := run(t)
	owner, member := r.user("owner", "50"), r.user("member", "50")
	must[string](owner, wire.OpRegisterGroup, object{"group_id": "g"})
	must[string](owner, wire.OpAddGroupMember, object{"group_id": "g", "member_id": "member"})
	ref := owner.upload("g", "f", []byte("x")).CID
	begun := member.finalize("g", "late", []byte("late"))
	var revoked atomic.Bool
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			after := revoked.Load()
			status, _ := member.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref})
			if after && status == 200 {
				t.Error("a key was handed out after the revocation returned")
			}
		})
	}
	must[string](owner, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": "member"})
	revoked.Store(true)
	for range 10 {
		all.Go(func() {
			if status, _ := member.tool(wire.OpPrepareRetrieve,
				object{"group_id": "g", "ipfs_hash": ref}); status == 200 {
				t.Error("a key was handed out after the revocation returned")
			}
		})
	}
	all.Wait()
	if status, body := member.tool(wire.OpFinalizeUpload, begun); status != 403 {
		t.Errorf("an upload begun before ended after: %d %s", status, body)
	}
	owner.reads(ref, "x")
}

func TestFinalizeIsIdempotent(t *testing.T) {
	t.Parallel()
	r, alice := runInFiles(t)
	req := alice.finalize("g", "f", []byte("x"))
	var first atomic.Pointer[string]
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			status, body := alice.tool(wire.OpFinalizeUpload, req)
			if status != 200 {
				t.Errorf("%d %s", status, body)
			}
			if !first.CompareAndSwap(nil, &body) && *first.Load() != body {
				t.Errorf("answers differ: %s and %s", *first.Load(), body)
			}
		})
	}
	all.Wait()
	if got := alice.balance(); got != "999.321" {
		t.Errorf("balance %s: charged more than once", got)
	}
	if blobs := countFiles(t, filepath.Join(r.dir, "blobs")); blobs != 1 {
		t.Errorf("%d blobs for one file", blobs)
	}
	ref := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions, object{"group_id": "g"})[0].IPFSHash
	for range 3 {
		must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
			object{"group_id": "g", "ipfs_hash": ref, "claim_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7"})
	}
	if got := alice.balance(); got != "999.308" {
		t.Errorf("balance %s: one claim was charged more than once", got)
	}
}

func countFiles(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Ciphertext beside the JSON.
func TestRawTransfer(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice, bob := r.user("alice", "10"), r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	content := bytes.Repeat([]byte("large "), 50_000)
	p := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g", "filename": "f"})
	blob, err := base64.StdEncoding.DecodeString(seal(t, p.Key, content))
	if err != nil {
		t.Fatal(err)
	}
	put := func(u *user, body []byte) int {
		req, err := http.NewRequest(http.MethodPut, r.url+p.UploadURL, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = u.header()
		status, _ := r.do(req)
		return status
	}
	t.Run("only its account sends it, and only so much", func(t *testing.T) {
		if got := put(bob, blob); got != 403 {
			t.Errorf("somebody else's upload was taken: %d", got)
		}
		if got := put(alice, make([]byte, 2<<20)); got != 413 {
			t.Errorf("too large: %d", got)
		}
		if got := put(alice, blob[:20]); got != 400 {
			t.Errorf("too short: %d", got)
		}
	})
	if got := put(alice, blob); got != 204 {
		t.Fatalf("put: %d", got)
	}
	up := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload,
		object{"upload_id": p.UploadID, "file_hash": strings.ToUpper(hash(content))})
	got := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": up.CID, "transfer": "raw"})
	if got.EncryptedB64 != "" || got.DataSize != int64(len(blob)) {
		t.Fatalf("answered %+v", got.DataSize)
	}
	fetch := func(u *user, target, ranges string) (int, []byte) {
		req, err := http.NewRequest(http.MethodGet, r.url+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = u.header()
		if ranges != "" {
			req.Header.Set("Range", ranges)
		}
		return r.do(req)
	}
	t.Run("whole and in ranges", func(t *testing.T) {
		if status, body := fetch(alice, got.DataURL, ""); status != 200 || !bytes.Equal(body, blob) {
			t.Errorf("fetched %d bytes: %d", len(body), status)
		}
		if status, body := fetch(alice, got.DataURL, "bytes=5-9"); status != 206 || !bytes.Equal(body, blob[5:10]) {
			t.Errorf("range: %d %x", status, body)
		}
	})
	t.Run("another account and a forged ticket get nothing", func(t *testing.T) {
		if status, _ := fetch(bob, got.DataURL, ""); status != 404 {
			t.Errorf("another account used the ticket: %d", status)
		}
		if status, _ := fetch(alice, got.DataURL[:len(got.DataURL)-20]+strings.Repeat("A", 20), ""); status != 404 {
			t.Errorf("a forged ticket: %d", status)
		}
	})
}

// Threat 26: the audit names the first bad row. Threat 34's base: rows cannot be
// changed through the database by accident.
func TestThreat26AuditNamesTheBadRow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, statement, want string }{
		{"edited", "UPDATE ledger SET fee = '0' WHERE seq = 3", "row 3"},
		{"deleted", "DELETE FROM ledger WHERE seq = 2", "row 2"},
		{"swapped", "UPDATE ledger SET seq = 5 - seq WHERE seq IN (2, 3)", "since is 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := run(t)
			alice := r.user("alice", "10")
			for _, g := range []string{"a", "b", "c"} {
				must[string](alice, wire.OpRegisterGroup, object{"group_id": g})
			}
			db := r.openDatabase()
			if _, err := db.Exec(tc.statement); err == nil {
				t.Error("the ledger let itself be changed")
			}
			statement := tc.statement
			if tc.name == "swapped" { // a key cannot be swapped in place
				statement = "UPDATE ledger SET seq = -2 WHERE seq = 2; UPDATE ledger SET seq = 2 WHERE seq = 3; " +
					"UPDATE ledger SET seq = 3 WHERE seq = -2"
			}
			if _, err := db.Exec(r.withoutTriggers() + statement); err != nil {
				t.Fatal(err)
			}
			refused(t, "audit", errOf(r.svc.Audit(t.Context())), tc.want)
		})
	}
}

// Threats 28, 29: references and names are only ever values.
func TestThreat28Threat29HostileInputIsOnlyAValue(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	alice.upload("g", "f", []byte("x"))
	for _, evil := range []string{"../../svc.db", "/etc/passwd", "..%2f..", "x\x00y", "'; DROP TABLE files; --",
		`" OR 1=1 --`, "http://127.0.0.1:1/", strings.Repeat("a", 50_000)} {
		if status, body := alice.tool(wire.OpPrepareRetrieve,
			object{"group_id": "g", "ipfs_hash": evil}); status != 404 && status != 400 {
			t.Errorf("reference %.30q: %d %s", evil, status, body)
		}
		for _, op := range []string{wire.OpGetGroupTransactions, wire.OpPrepareUpload, wire.OpRegisterGroup} {
			if status, body := alice.tool(op, object{"group_id": evil}); status >= 500 {
				t.Errorf("%s of %.30q: %d %s", op, evil, status, body)
			}
		}
		if status, body := alice.tool(wire.OpPrepareUpload, object{"group_id": "g", "filename": evil}); status >= 500 {
			t.Errorf("name %.30q: %d %s", evil, status, body)
		}
		if status, body := alice.tool(wire.OpAddGroupMember,
			object{"group_id": "g", "member_id": evil}); status != 400 {
			t.Errorf("member %.30q: %d %s", evil, status, body)
		}
	}
	for _, raw := range []string{"", "null", "[]", "7", `"x"`, "{", `{"group_id":7}`, `{"group_id":{"a":1}}`,
		strings.Repeat("[", 5000), `{"group_id":null}`} {
		for _, op := range []string{wire.OpRegisterGroup, wire.OpPrepareUpload, wire.OpFinalizeUpload,
			wire.OpPrepareRetrieve, wire.OpGetGroupTransactions} {
			if status, body := alice.tool(op, []byte(raw)); status < 400 || status >= 500 {
				t.Errorf("%s with body %.20q: %d %s", op, raw, status, body)
			}
		}
		if status, body := r.post("/rpc", nil, []byte(raw)); status != 200 {
			t.Errorf("rpc with body %.20q: %d %s", raw, status, body)
		}
	}
	if status, _ := alice.tool(wire.OpGetOwnedGroups, bytes.Repeat([]byte(" "), 2<<20)); status != 413 {
		t.Errorf("a large request: %d", status)
	}
	if status, _ := alice.tool("no_such_operation", object{}); status != 404 {
		t.Errorf("an unknown operation: %d", status)
	}
	if rows := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
		object{"group_id": "g"}); len(rows) != 1 {
		t.Errorf("%d rows are left", len(rows))
	}
}

// Threat 33: without the master key the rest is noise.
func TestThreat33MasterKeyIsNeededAndGuarded(t *testing.T) {
	t.Parallel()
	r := run(t)
	info, err := os.Stat(filepath.Join(r.dir, "master.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	master, err := os.ReadFile(filepath.Join(r.dir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	alice := r.owner()
	p := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	fileKey, err := base64.StdEncoding.DecodeString(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	if r.databaseHolds(master) || r.databaseHolds(fileKey) {
		t.Error("the database holds a key in the clear")
	}
	if !r.databaseHolds([]byte(alice.id)) {
		t.Error("the search finds nothing at all")
	}
	loose := filepath.Join(t.TempDir(), "data")
	ok(t, os.MkdirAll(loose, 0o700))
	ok(t, os.WriteFile(filepath.Join(loose, "master.key"), master, 0o644))
	if _, err := openService(context.Background(), service.Config{DataDir: loose}); !errors.Is(err,
		ownfile.ErrReadable) {
		t.Errorf("a master key that others may read was accepted: %v", err)
	}
}

func TestPagingTellsEveryChangeOnce(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	for i := range 7 {
		alice.upload("g", fmt.Sprint(i), []byte{byte(i)})
	}
	var names []string
	after := int64(0)
	for {
		rows := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
			object{"group_id": "g", "after_seq": after, "limit": 3})
		for _, row := range rows {
			names = append(names, *row.Filename)
			after = row.ChangedSeq
		}
		if len(rows) < 3 {
			break
		}
	}
	if got := strings.Join(names, ""); got != "0123456" {
		t.Errorf("pages told %s", got)
	}
}

func TestOpenGroups(t *testing.T) {
	t.Parallel()
	r := run(t)
	owner, guest, late := r.user("owner", "10"), r.user("guest", "1"), r.user("late", "1")
	in := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).UnixNano()) }
	must[string](owner, wire.OpCreateHackathonGroup,
		object{"group_id": "h", "expires_at": in(time.Hour), "max_uses": 1})
	for range 2 {
		must[string](guest, wire.OpJoinGroup, object{"group_id": "h"})
	}
	if got := guest.balance(); got != "0.999" {
		t.Errorf("joining twice cost %s of 1", got)
	}
	for _, step := range []struct{ word string }{{"Join window full"}, {"Join window closed"}} {
		if status, body := late.tool(wire.OpJoinGroup, object{"group_id": "h"}); status != 403 ||
			!strings.Contains(body, step.word) {
			t.Errorf("want %q: %d %s", step.word, status, body)
		}
		must[string](owner, wire.OpCloseHackathonJoin, object{"group_id": "h"})
	}
}

// Threat 24: an open window is no way back for a revoked member.
func TestThreat24RevokedDoesNotJoinAgain(t *testing.T) {
	t.Parallel()
	r := run(t)
	owner, guest := r.user("owner", "10"), r.user("guest", "1")
	open := object{"group_id": "h", "expires_at": fmt.Sprint(time.Now().Add(time.Hour).UnixNano())}
	must[string](owner, wire.OpCreateHackathonGroup, open)
	must[string](guest, wire.OpJoinGroup, object{"group_id": "h"})
	must[string](owner, wire.OpRevokeGroupMember, object{"group_id": "h", "member_id": guest.id})
	must[string](owner, wire.OpCreateHackathonGroup, open) // also not by a new window
	before := guest.balance()
	if status, body := guest.tool(wire.OpJoinGroup, object{"group_id": "h"}); status != 403 ||
		!strings.Contains(body, "not authorized") || !strings.Contains(body, "owner") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := guest.tool(wire.OpPrepareUpload, object{"group_id": "h"}); status != 403 {
		t.Errorf("upload: %d %s", status, body)
	}
	other := r.user("other", "1")
	for op, req := range map[string]object{wire.OpPrepareUpload: {"group_id": "h"},
		wire.OpPrepareRetrieve: {"group_id": "h", "ipfs_hash": "x"}, wire.OpGetPending: {"group_id": "h"}} {
		for u, revoked := range map[*user]bool{guest: true, other: false} {
			_, body := u.tool(op, req)
			if !strings.Contains(body, "not authorized") || !strings.Contains(body, "not a member") ||
				strings.Contains(body, "revoked") != revoked {
				t.Errorf("%s of %s: %s", op, u.id, body)
			}
		}
	}
	if guest.balance() != before {
		t.Error("the refusal was charged")
	}
	must[string](owner, wire.OpAddGroupMember, object{"group_id": "h", "member_id": guest.id})
	must[wire.PrepareUploadResult](guest, wire.OpPrepareUpload, object{"group_id": "h"})
	must[string](other, wire.OpJoinGroup, object{"group_id": "h"}) // others can still join
}

// Threat 28: no new name can be taken for another one.
func TestThreat28NamesThatLookLikeAnother(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "100")
	for _, id := range []string{"te\u200bam", "te\u200dam", "te\u00adam", "\ufeffteam", "team\ufe0f", "te\u034fam",
		"\u202emaet", "te\u2066am", "team\u2028", "te\u00a0am",
		" team", "team ", "team\u3000", "\u3164", "te\u0007am", "te\ue000am"} {
		for _, op := range []string{wire.OpRegisterGroup, wire.OpCreateHackathonGroup} {
			if status, body := alice.tool(op,
				object{"group_id": id, "expires_at": "9000000000000000000"}); status != 400 {
				t.Errorf("%s %q: %d %s", op, id, status, body)
			}
		}
	}
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "Größe 100 %, 日本/a🙂"})
	for _, member := range []string{"\u212aate", "ka\u0301te", "k\u0430te", "kate\u200b"} {
		if status, body := alice.tool(wire.OpAddGroupMember,
			object{"group_id": "Größe 100 %, 日本/a🙂", "member_id": member}); status != 400 {
			t.Errorf("member %q: %d %s", member, status, body)
		}
	}
	if got := must[string](alice, wire.OpAddGroupMember,
		object{"group_id": "Größe 100 %, 日本/a🙂", "member_id": "KATE"}); !strings.Contains(got, "kate.svc.testnet") {
		t.Error(got)
	}
}

// openService opens a service whose vault, unless it has one, is in the process of the test.
func openService(ctx context.Context, cfg service.Config) (*service.Service, error) {
	if cfg.Vault == nil {
		cfg.Vault = vaulttest.InProcess
	}
	if cfg.MasterKey == (service.MasterKey{}) {
		cfg.NextMasterKey = vaultwire.InDirectory(cfg.DataDir).Next()
	}
	return service.Open(ctx, cfg)
}
