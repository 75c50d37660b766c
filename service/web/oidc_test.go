package web_test

import (
	"bytes"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

const (
	clientID     = "svcd"
	clientSecret = "a-client-secret-that-no-log-shows"
)

// idp is an OpenID Connect provider with a real key. It approves every sign-in, with its
// claims; lie changes its answers.
type idp struct {
	*httptest.Server
	issuer string
	key    *rsa.PrivateKey
	lie    lie

	mu     sync.Mutex
	codes  map[string]url.Values // of authorization requests
	issued int                   // codes so far
}

// lie changes one thing of an honest provider.
type lie struct {
	claims  map[string]any                                     // of the ID token; nil removes
	sign    func(o *idp, header, claims map[string]any) string // instead of RS256 by the published key
	back    func(q url.Values)                                 // changes the query that the browser carries back
	tokens  func(w http.ResponseWriter, answer map[string]any) // instead of the token answer
	issuer  string                                             // in the discovery document
	consume bool                                               // forget the code before it is used
}

// rsaKey is made once: it takes long.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func startIDP(t *testing.T, l lie) *idp {
	t.Helper()
	key, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	o := &idp{key: key, lie: l, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", o.discovery)
	mux.HandleFunc("GET /jwks", o.jwks)
	mux.HandleFunc("GET /authorize", o.authorize)
	mux.HandleFunc("POST /token", o.token)
	o.Server = httptest.NewServer(mux)
	o.issuer = strings.Replace(o.URL, "127.0.0.1", "localhost", 1) // another site than the service
	t.Cleanup(o.Close)
	return o
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (o *idp) discovery(w http.ResponseWriter, _ *http.Request) {
	issuer := o.issuer
	if o.lie.issuer != "" {
		issuer = o.lie.issuer
	}
	answer(w, object{"issuer": issuer, "authorization_endpoint": o.issuer + "/authorize",
		"token_endpoint": o.issuer + "/token", "jwks_uri": o.issuer + "/jwks",
		"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
		"response_types_supported":              []string{"code"}, "subject_types_supported": []string{"public"}})
}

func (o *idp) jwks(w http.ResponseWriter, _ *http.Request) {
	b64 := base64.RawURLEncoding.EncodeToString
	answer(
		w, object{"keys": []object{{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": b64(o.key.N.Bytes()),
			"e": b64([]byte{1, 0, 1})}}})
}

func (o *idp) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("response_type") != "code" || q.Get("client_id") != clientID || q.Get("code_challenge_method") != "S256" ||
		len(q.Get("state")) < 22 || len(q.Get("nonce")) < 22 {
		http.Error(w, "bad request: "+q.Encode(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	o.issued++
	code := "code-" + string(rune('a'+o.issued))
	if !o.lie.consume {
		o.codes[code] = q
	}
	o.mu.Unlock()
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {o.issuer}}
	if o.lie.back != nil {
		o.lie.back(back)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (o *idp) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	o.mu.Lock()
	q, ok := o.codes[r.Form.Get("code")]
	delete(o.codes, r.Form.Get("code"))
	o.mu.Unlock()
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.Form.Get("client_id"), r.Form.Get("client_secret")
	}
	challenge := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
	if !ok || id != clientID || secret != clientSecret || r.Form.Get("redirect_uri") != q.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(challenge[:]) != q.Get("code_challenge") {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, object{"error": "invalid_grant", "error_description": "you sent " + secret})
		return
	}
	now := time.Now().Unix()
	claims := map[string]any{"iss": o.issuer, "sub": "subject-1", "aud": clientID, "exp": now + 300, "iat": now,
		"nonce": q.Get("nonce"), "preferred_username": "Alice"}
	maps.Copy(claims, o.lie.claims)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	sign := o.lie.sign
	if sign == nil {
		sign = rs256
	}
	out := map[string]any{"access_token": "x", "token_type": "Bearer", "expires_in": 300,
		"id_token": sign(o, map[string]any{"alg": "RS256", "kid": "1"}, claims)}
	if o.lie.tokens != nil {
		o.lie.tokens(w, out)
		return
	}
	answer(w, out)
}

func unsigned(header, claims map[string]any) string {
	h, _ := json.Marshal(header)
	c, _ := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c)
}

func rs256(o *idp, header, claims map[string]any) string { return signWith(o.key, header, claims) }

func signWith(key *rsa.PrivateKey, header, claims map[string]any) string {
	text := unsigned(header, claims)
	sum := sha256.Sum256([]byte(text))
	raw, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(raw)
}

func (o *idp) config(create bool) func(*service.Config) {
	return func(c *service.Config) {
		c.OIDC = service.OIDC{Issuer: o.issuer, ClientID: clientID, ClientSecret: service.NewSecret(clientSecret),
			Create: create}
	}
}

// visit follows redirects like a browser and returns the last answer.
func visit(t *testing.T, c *http.Client, address string) (*http.Response, string) {
	t.Helper()
	for range 6 {
		resp, err := c.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		_, _ = body.ReadFrom(resp.Body)
		_ = resp.Body.Close()
		next, err := resp.Location()
		if err != nil {
			return resp, html.UnescapeString(body.String())
		}
		address = next.String()
	}
	t.Fatal("too many redirects")
	return nil, ""
}

func (s *site) who(c *http.Client) any {
	s.t.Helper()
	_, body := do(s.t, c, s.page(http.MethodGet, "session", nil))
	return decode(s.t, body)["account_id"]
}

func TestSignInAtAProvider(t *testing.T) {
	t.Parallel()
	o := startIDP(t, lie{})
	log := &lockedBuffer{}
	s := serve(t, o.config(false), withLog(log))
	alice := s.user("alice", "1")
	c := client(t)
	resp, body := visit(t, c, s.url+"/account/oidc/start")
	command := "svcd account identity NAME '" + o.issuer + "' 'subject-1'"
	if resp.StatusCode != http.StatusNotFound || !strings.Contains(body, command) || s.who(c) != "" {
		t.Fatalf("an unknown identity: %d %s", resp.StatusCode, body)
	}
	if _, err := s.svc.AddIdentity(t.Context(), "nobody", o.issuer, "subject-1"); err == nil ||
		!strings.Contains(err.Error(), "svcd account create") {
		t.Errorf("identity of nobody: %v", err)
	}
	if _, err := s.svc.AddIdentity(t.Context(), "alice", o.issuer, "subject-1"); err != nil {
		t.Fatal(err)
	}
	bob := s.user("bob", "1")
	if _, err := s.svc.AddIdentity(t.Context(), bob.id, o.issuer, "subject-1"); err == nil {
		t.Error("an identity got a second account")
	}
	resp, body = visit(t, c, s.url+"/account/oidc/start")
	if resp.StatusCode != http.StatusOK || s.who(c) != alice.id {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if strings.Contains(log.String(), clientSecret) || strings.Contains(log.String(), "code-") {
		t.Error("the log holds the client secret or a code")
	}
	address, _ := url.Parse(s.url)
	if cookies := c.Jar.Cookies(address); len(cookies) != 1 {
		t.Errorf("cookies left: %v", cookies)
	}
}

func TestFirstSignInMakesAnAccount(t *testing.T) {
	t.Parallel()
	o := startIDP(t, lie{})
	s := serve(t, o.config(true))
	c := client(t)
	resp, body := visit(t, c, s.url+"/account/oidc/start")
	if resp.StatusCode != http.StatusOK || s.who(c) != "alice.svc.testnet" {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	_, body = do(t, c, s.page(http.MethodGet, "session", nil))
	if v := decode(t, body); v["has_key"] != false || v["balance"] != "0" {
		t.Errorf("a new account: %s", body)
	}
	status, body := do(t, c, s.page(http.MethodPost, "key", object{}))
	if status != http.StatusOK {
		t.Fatalf("first key: %d %s", status, body)
	}
	u := &user{s, "alice.svc.testnet", decode(t, body)["api_key"].(string)}
	if status, body := u.tool(wire.OpGetOwnedGroups, nil); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	c = client(t)
	if visit(t, c, s.url+"/account/oidc/start"); s.who(c) != u.id {
		t.Errorf("the second time: %v", s.who(c))
	}
}

func TestAccountsAreNotTakenOver(t *testing.T) {
	t.Parallel()
	for name, claimed := range map[string]any{"of another": "alice", "with a suffix": "alice.svc.testnet", "none": nil,
		"markup": "<b>x</b>"} {
		t.Run(name, func(t *testing.T) {
			o := startIDP(t, lie{claims: map[string]any{"preferred_username": claimed}})
			s := serve(t, o.config(true))
			s.user("alice", "1")
			c := client(t)
			resp, body := visit(t, c, s.url+"/account/oidc/start")
			made, _ := s.who(c).(string)
			if resp.StatusCode != http.StatusOK ||
				!regexp.MustCompile(`^(alice|user)-[0-9a-f]{8}\.svc\.testnet$`).MatchString(made) {
				t.Errorf("%s: %d %s", made, resp.StatusCode, body)
			}
			again := client(t)
			if visit(t, again, s.url+"/account/oidc/start"); s.who(again) != made {
				t.Errorf("the second time: %v, want %s", s.who(again), made)
			}
		})
	}
}

// Threat 43: a name that others know already, as a member or from the ledger, is
// not given to a stranger whose provider calls him so.
func TestThreat43NamesOfOthersAreNotGivenAway(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]func(*testing.T, *user){
		"member": func(t *testing.T, alice *user) {
			if status, body := alice.tool(wire.OpAddGroupMember,
				object{"group_id": "board", "member_id": "bob"}); status != http.StatusOK ||
				!strings.Contains(body, `"exists":false`) {
				t.Errorf("adding nobody: %d %s", status, body)
			}
		},
		"was a member": func(t *testing.T, alice *user) {
			for _, op := range []string{wire.OpAddGroupMember, wire.OpRevokeGroupMember} {
				if status, body := alice.tool(op,
					object{"group_id": "board", "member_id": "bob"}); status != http.StatusOK {
					t.Errorf("%s: %d %s", op, status, body)
				}
			}
		},
		"by another identity": func(t *testing.T, alice *user) {
			t.Helper()
			o := startIDP(t, lie{claims: map[string]any{"preferred_username": "bob", "sub": "another"}})
			first := serve(t, o.config(true), func(c *service.Config) {
				c.DataDir, c.Database = alice.dir, alice.database
			})
			visit(t, client(t), first.url+"/account/oidc/start")
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := startIDP(t, lie{claims: map[string]any{"preferred_username": "bob"}})
			s := serve(t, o.config(true))
			alice := s.user("alice", "10")
			if status, body := alice.tool(wire.OpRegisterGroup, object{"group_id": "board"}); status != http.StatusOK {
				t.Fatal(status, body)
			}
			known(t, alice)
			c := client(t)
			visit(t, c, s.url+"/account/oidc/start")
			made, _ := s.who(c).(string)
			if !regexp.MustCompile(`^bob-[0-9a-f]{8}\.svc\.testnet$`).MatchString(made) {
				t.Errorf("the stranger is %q", made)
			}
			if list := decode(t, second(do(t, c, s.page(http.MethodGet, "groups", nil))))["mine"].([]any); len(
				list) != 0 {
				t.Errorf("the stranger belongs to %v", list)
			}
		})
	}
}

func second[A, B any](_ A, b B) B { return b }

func TestHostileProviders(t *testing.T) {
	t.Parallel()
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	claim := func(name string, value any) lie { return lie{claims: map[string]any{name: value}} }
	for name, l := range map[string]lie{
		"wrong nonce":       claim("nonce", "other"),
		"no nonce":          claim("nonce", nil),
		"wrong audience":    claim("aud", "another-client"),
		"no audience":       claim("aud", nil),
		"several audiences": claim("aud", []string{clientID, "another-client"}),
		"other party": {claims: map[string]any{"aud": []string{clientID, "another-client"},
			"azp": "another-client"}},
		"expired":       {claims: map[string]any{"exp": now - 3600, "iat": now - 7200}},
		"no expiry":     claim("exp", nil),
		"wrong issuer":  claim("iss", "https://other.example"),
		"no subject":    claim("sub", nil),
		"empty subject": claim("sub", ""),
		"another key":   {sign: func(_ *idp, h, c map[string]any) string { return signWith(other, h, c) }},
		"not signed": {sign: func(_ *idp, _, c map[string]any) string {
			return unsigned(map[string]any{"alg": "none"}, c) + "."
		}},
		"HMAC by public key": {sign: hmacByPublicKey},
		"no token": {tokens: func(w http.ResponseWriter, a map[string]any) {
			delete(a, "id_token")
			answer(w, a)
		}},
		"token of junk": {tokens: func(w http.ResponseWriter, a map[string]any) {
			a["id_token"] = "a.b.c"
			answer(w, a)
		}},
		"endless answer": {tokens: func(w http.ResponseWriter, _ map[string]any) { endless(w) }},
		"redirect": {tokens: func(w http.ResponseWriter, _ map[string]any) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(307)
		}},
		"used code":       {consume: true},
		"wrong state":     {back: func(q url.Values) { q.Set("state", "other") }},
		"no state":        {back: func(q url.Values) { q.Del("state") }},
		"mixed up":        {back: func(q url.Values) { q.Set("iss", "https://other.example") }},
		"refused":         {back: func(q url.Values) { q.Del("code"); q.Set("error", `access_denied<script>`) }},
		"other discovery": {issuer: "https://other.example"},
	} {
		t.Run(name, func(t *testing.T) {
			o := startIDP(t, l)
			log := &lockedBuffer{}
			s := serve(t, o.config(true), withLog(log))
			s.user("alice", "1")
			c := client(t)
			resp, body := visit(t, c, s.url+"/account/oidc/start")
			if resp.StatusCode < 400 || !strings.Contains(body, "Not signed in") || s.who(c) != "" {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			if strings.Contains(log.String(), clientSecret) {
				t.Error("the log holds the client secret")
			}
			if name == "refused" && !strings.Contains(body, "access_denied") {
				t.Errorf("the reason is not told: %s", body)
			}
		})
	}
}

func hmacByPublicKey(o *idp, header, claims map[string]any) string {
	header["alg"] = "HS256"
	text := unsigned(header, claims)
	mac := hmac.New(sha256.New, x509.MarshalPKCS1PublicKey(&o.key.PublicKey))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func endless(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"access_token":"`))
	for range 64 {
		if _, err := w.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
			return
		}
	}
}

// TestFlowBelongsToOneBrowser: an attacker's answer does not sign a victim in.
func TestFlowBelongsToOneBrowser(t *testing.T) {
	t.Parallel()
	o := startIDP(t, lie{})
	s := serve(t, o.config(true))
	attacker, victim := client(t), client(t)
	callback := ""
	for address := s.url + "/account/oidc/start"; callback == ""; {
		resp, err := attacker.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		next, err := resp.Location()
		if err != nil {
			t.Fatal(err)
		}
		if address = next.String(); strings.Contains(address, "/callback") {
			callback = address
		}
	}
	if resp, body := visit(t, victim, callback); resp.StatusCode != http.StatusUnauthorized || s.who(victim) != "" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	resp, err := victim.Get(s.url + "/account/oidc/start") // now with a flow of its own
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	own, err := resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	if resp, body := visit(t, victim, callback); resp.StatusCode != http.StatusUnauthorized || s.who(victim) != "" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := visit(t, victim, own.String()); resp.StatusCode != http.StatusOK || s.who(victim) == "" {
		t.Errorf("the victim's own flow afterwards: %d %.300s", resp.StatusCode, body)
	}
}

func TestProviderIsNotNeededToStart(t *testing.T) {
	t.Parallel()
	o := startIDP(t, lie{})
	o.Close()
	s := serve(t, o.config(false))
	resp, body := visit(t, client(t), s.url+"/account/oidc/start")
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "does not answer") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	s.user("alice", "1").signedIn() // links still work
}

func TestProviderSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]service.OIDC{
		"plain http": {Issuer: "http://id.example", ClientID: "x"}, "no client": {Issuer: "https://id.example"},
		"no host": {Issuer: "id.example", ClientID: "x"},
	} {
		if svc, err := openService(t.Context(),
			service.Config{DataDir: t.TempDir(), PublicURL: "https://files.example", OIDC: cfg}); err == nil {
			t.Errorf("%s: accepted", name)
			_ = svc.Close()
		}
	}
}

func TestProviderInTheBrowser(t *testing.T) {
	t.Parallel()
	o := startIDP(t, lie{})
	s := serve(t, o.config(false))
	alice := s.user("alice", "1")
	b := open(t, s.url+"/account/")
	b.expect("status of 404")
	host, _ := url.Parse(o.issuer)
	b.click("Sign in with " + host.Host)
	b.sees("svcd account identity NAME '" + o.issuer + "' 'subject-1'")
	if _, err := s.svc.AddIdentity(t.Context(), alice.id, o.issuer, "subject-1"); err != nil {
		t.Fatal(err)
	}
	b.click("Back to sign-in")
	b.click("Sign in with " + host.Host)
	b.await("document.getElementById('account')?.textContent === '" + alice.id + "'")
	if cookies := eval[string](b, "document.cookie"); cookies != "" {
		t.Errorf("scripts see the cookies %s", cookies)
	}
}
