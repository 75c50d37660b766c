package web_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/enginetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	theBrowser.close()
	err := engines.Close()
	http.DefaultClient.CloseIdleConnections()
	if err = errors.Join(err, goleak.Find()); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// engines has the databases of the tests, theBrowser their tabs.
var (
	engines    = enginetest.New()
	theBrowser chromium
)

// sql changes the database beside the service.
func (s *site) sql(statement string, args ...any) {
	s.t.Helper()
	db := s.openDatabase()
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) openDatabase() *sql.DB {
	s.t.Helper()
	driver, address := "sqlite", "file:"+filepath.Join(s.dir, "svc.db")+"?_pragma=busy_timeout(10000)"
	if s.database != "" {
		driver, address = "pgx", s.database
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		s.t.Fatal(err)
	}
	return db
}

func TestSignInByLink(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "1")
	link := alice.link()
	if prefix := s.url + "/account/#link="; !strings.HasPrefix(link, prefix) || len(link) != len(prefix)+43 {
		t.Fatalf("link %q: want %s and 43 characters, 256 bits", link, prefix)
	}
	_, secret, _ := strings.Cut(link, "#link=")
	signIn := func(secret string) (int, string) {
		return do(t, client(t), s.page(http.MethodPost, "sign-in", object{"link": secret}))
	}
	if status, body := signIn(secret); status != http.StatusOK || decode(t, body)["account_id"] != alice.id {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := signIn(secret); status != http.StatusUnauthorized || !strings.Contains(body, "used already") {
		t.Errorf("second use: %d %s", status, body)
	}
	late := alice.secret()
	s.sql("UPDATE sign_in_links SET expires_ns = 1")
	for name, secret := range map[string]string{"late": late, "empty": "", "wrong": strings.Repeat("A", 43)} {
		if status, body := signIn(secret); status != http.StatusUnauthorized ||
			!strings.Contains(body, "svcd account link") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if link, err := s.svc.SignInLink(t.Context(), "alice", "http://0.0.0.0:8000/"); err != nil ||
		!strings.HasPrefix(link, "http://localhost:8000/account/#link=") {
		t.Errorf("link of a service that listens everywhere: %s, %v", link, err)
	}
	if _, err := s.svc.SignInLink(t.Context(), "alice", "files.example"); err == nil ||
		!strings.Contains(err.Error(), "https://HOST") {
		t.Errorf("link without a scheme: %v", err)
	}
	if _, err := s.svc.SignInLink(t.Context(), "nobody", s.url); err == nil ||
		!strings.Contains(err.Error(), "svcd account create") {
		t.Errorf("link of nobody: %v", err)
	}
	if _, err := s.svc.SignInLink(t.Context(), "alice", ""); err == nil ||
		!strings.Contains(err.Error(), "--public-url") {
		t.Errorf("link without an address: %v", err)
	}
}

func TestOneLinkSignsInOneOfMany(t *testing.T) {
	t.Parallel()
	s := serve(t)
	secret := s.user("alice", "1").secret()
	results := make(chan int)
	for range 20 {
		c, req := client(t), s.page(http.MethodPost, "sign-in", object{"link": secret})
		go func() {
			resp, err := c.Do(req)
			if err != nil {
				results <- 0
				return
			}
			_ = resp.Body.Close()
			results <- resp.StatusCode
		}()
	}
	signedIn := 0
	for range 20 {
		if <-results == http.StatusOK {
			signedIn++
		}
	}
	if signedIn != 1 {
		t.Errorf("%d of 20 signed in with one link", signedIn)
	}
}

func TestNoSecretOnDiskOrInTheLog(t *testing.T) {
	t.Parallel()
	if enginetest.OnPostgres(t) {
		t.Skip("it reads the files of SQLite")
	}
	log := &lockedBuffer{}
	s := serve(t, withLog(log))
	alice := s.user("alice", "1")
	secret := alice.secret()
	c := client(t)
	do(t, c, s.page(http.MethodPost, "sign-in", object{"link": secret}))
	status, body := do(t, c, s.page(http.MethodPost, "key", object{"replace": true}))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	address, _ := url.Parse(s.url)
	secrets := []string{secret, decode(t, body)["api_key"].(string), c.Jar.Cookies(address)[0].Value}
	files, err := filepath.Glob(filepath.Join(s.dir, "svc.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s holds a secret", filepath.Base(name))
			}
		}
	}
	for _, secret := range secrets {
		if strings.Contains(log.String(), secret) {
			t.Error("the log holds a secret")
		}
	}
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if r.Header.Get("X-Gives-Up") != "" {
			cancel()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	}
	alice := s.user("alice", "1")
	who := func(c *http.Client) any {
		_, body := do(t, c, s.page(http.MethodGet, "session", nil))
		return decode(t, body)["account_id"]
	}
	t.Run("by signing out", func(t *testing.T) {
		c := alice.signedIn()
		address, _ := url.Parse(s.url)
		kept := c.Jar.Cookies(address)
		if got := who(c); got != alice.id {
			t.Fatal(got)
		}
		do(t, c, s.page(http.MethodPost, "sign-out", object{}))
		if got := c.Jar.Cookies(address); len(got) != 0 {
			t.Errorf("cookies left: %v", got)
		}
		c.Jar.SetCookies(address, kept) // a copy of the cookie is of no use
		if got := who(c); got != "" {
			t.Errorf("after signing out: %v", got)
		}
	})
	t.Run("not by signing out in vain", func(t *testing.T) {
		c := alice.signedIn()
		out := s.page(http.MethodPost, "sign-out", object{})
		out.Header.Set("X-Gives-Up", "1")
		if status, body := do(t, c, out); status == http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		if got := who(c); got != alice.id {
			t.Errorf("the cookie is gone, and the session goes on: %v", got)
		}
	})
	t.Run("after 12 hours", func(t *testing.T) {
		c := alice.signedIn()
		s.sql("UPDATE web_sessions SET expires_ns = created_ns")
		if got := who(c); got != "" {
			t.Error(got)
		}
		if status, body := do(t, c, s.page(http.MethodGet, "groups", nil)); status != http.StatusUnauthorized ||
			!strings.Contains(body, "sign in again") {
			t.Errorf("%d %s", status, body)
		}
	})
	t.Run("by rotating the key elsewhere", func(t *testing.T) { // threat 23: a stolen session could make the next key
		c := alice.signedIn()
		link := alice.secret()
		if _, err := s.svc.RotateKey(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
		if got := who(c); got != "" {
			t.Errorf("still signed in: %v", got)
		}
		if status, body := do(t, client(t),
			s.page(http.MethodPost, "sign-in", object{"link": link})); status != http.StatusUnauthorized {
			t.Errorf("a link from before: %d %s", status, body)
		}
	})
	t.Run("not by rotating the key in it", func(t *testing.T) {
		c, other := alice.signedIn(), alice.signedIn()
		if status, body := do(t, c, s.page(http.MethodPost, "key", object{})); status != http.StatusConflict {
			t.Errorf("key without replace: %d %s", status, body)
		}
		if status, body := do(t, c, s.page(http.MethodPost, "key", object{"replace": true})); status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		if status, body := alice.tool("get_owned_groups", nil); status != http.StatusUnauthorized {
			t.Errorf("old key: %d %s", status, body)
		}
		if got := who(c); got != alice.id {
			t.Errorf("signed out: %v", got)
		}
		if got := who(other); got != "" {
			t.Errorf("another session goes on: %v", got)
		}
	})
}

func TestThreat36Cookie(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.PublicURL = "https://files.example" })
	alice := s.user("alice", "1")
	port := s.url[strings.LastIndex(s.url, ":")+1:]
	for _, test := range []struct{ name, host, origin, cookie, refused string }{
		{"loopback", "", s.url, "svc_session_" + port, ""},
		{"localhost", "localhost:" + port, "http://localhost:" + port, "svc_session_" + port, ""},
		{"behind TLS", "files.example", "https://files.example", "__Host-svc_session", ""},
		{"without TLS", "files.example", "http://files.example", "", "needs https"},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := s.page(http.MethodPost, "sign-in", object{"link": alice.secret()})
			req.Header.Set("Origin", test.origin)
			if test.host != "" {
				req.Host = test.host
			}
			resp, err := client(t).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if test.refused != "" {
				if resp.StatusCode != http.StatusForbidden || len(resp.Cookies()) != 0 {
					t.Errorf("%d %v", resp.StatusCode, resp.Cookies())
				}
				return
			}
			if len(resp.Cookies()) != 1 {
				t.Fatalf("%d, cookies %v", resp.StatusCode, resp.Cookies())
			}
			c := resp.Cookies()[0]
			secure := strings.HasPrefix(test.cookie, "__Host-")
			if c.Name != test.cookie || c.Secure != secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode ||
				c.Path != "/" ||
				c.Domain != "" || c.MaxAge != 12*60*60 || strings.Count(c.Value, ".") != 2 {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestThreat36StateChangesNeedProof(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "1")
	c := alice.signedIn()
	paths := []string{"sign-in", "sign-out", "key", "uploads/none", "uploads/none/0?blocks=0"}
	for _, op := range operationsOfThePage() {
		paths = append(paths, "tools/"+op)
	}
	for name, change := range map[string]func(*http.Request){
		"form":            func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") },
		"plain text":      func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"no type":         func(r *http.Request) { r.Header.Del("Content-Type") },
		"no header":       func(r *http.Request) { r.Header.Del("X-Svc-Page") },
		"no origin":       func(r *http.Request) { r.Header.Del("Origin") },
		"null origin":     func(r *http.Request) { r.Header.Set("Origin", "null") },
		"other origin":    func(r *http.Request) { r.Header.Set("Origin", "http://attacker.example") },
		"other port":      func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") },
		"other scheme":    func(r *http.Request) { r.Header.Set("Origin", strings.Replace(s.url, "http", "ftp", 1)) },
		"two origins":     func(r *http.Request) { r.Header.Add("Origin", "http://attacker.example") },
		"prefixed origin": func(r *http.Request) { r.Header.Set("Origin", s.url+".attacker.example") },
		"user in origin": func(r *http.Request) {
			r.Header.Set("Origin", strings.Replace(s.url, "//", "//attacker.example/", 1))
		},
		"cross-site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"same-site":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"GET":        func(r *http.Request) { r.Method = http.MethodGet },
	} {
		for _, path := range paths {
			t.Run(name+"/"+path, func(t *testing.T) {
				req := s.page(http.MethodPost, path, object{})
				if strings.HasPrefix(path, "uploads/none") {
					req.Method = http.MethodPut
					req.Header.Set("Content-Type", "application/octet-stream")
				}
				change(req)
				status, body := do(t, c, req)
				// that upload is not known behind the guard
				isUnknown := status == http.StatusNotFound &&
					(req.Method == http.MethodGet || !strings.HasPrefix(path, "uploads/none"))
				if status != http.StatusForbidden && status != http.StatusBadRequest && !isUnknown {
					t.Errorf("%d %s", status, body)
				}
			})
		}
	}
	if _, body := alice.tool("get_owned_groups", object{}); !strings.Contains(body, `"result":[]`) {
		t.Errorf("something was done: %s", body)
	}
	if _, body := do(t, c, s.page(http.MethodGet, "session", nil)); decode(t, body)["account_id"] != alice.id {
		t.Errorf("somebody signed out: %s", body)
	}
}

// operationsOfThePage are those that a session may do.
func operationsOfThePage() []string {
	return []string{
		"auth_status", "register_group", "delete_group", "add_group_member", "revoke_group_member", "leave_group",
		"offer_group", "accept_group", "join_group", "create_hackathon_group", "close_hackathon_join",
		"get_pending_destruction", "keep_files", "set_group_retention", "get_trash", "set_group_trash", "remove_file",
		"restore_file", "set_group_versions", "try_group_versions", "prepare_retrieve", "make_folder", "remove_folder",
		"invite_to_group", "get_group_invites", "revoke_group_invite", "use_group_invite", "rename_file",
		"rename_folder",
	}
}

// A session does the operations of the page, and no others; an operation takes no session, and a session no key.
func TestSessionDoesWhatThePageDoes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "1")
	c := alice.signedIn()
	post := func(c *http.Client, path string, header http.Header) (int, string) {
		t.Helper()
		req := s.page(http.MethodPost, "", object{})
		req.URL.Path = path
		maps.Copy(req.Header, header)
		return do(t, c, req)
	}
	const ofPage = "/account/api" + wire.PathTools
	key := http.Header{wire.HeaderAPIKey: {alice.key}, wire.HeaderAccountID: {alice.id}}
	for _, op := range operationsOfThePage() {
		status, body := post(c, ofPage+op, nil)
		if status == http.StatusUnauthorized || strings.Contains(body, wire.CodeUnsupported) {
			t.Errorf("%s in a session: %d %s", op, status, body)
		}
		if status, body := post(client(t), ofPage+op, key); status != http.StatusUnauthorized {
			t.Errorf("%s on the page with a key: %d %s", op, status, body)
		}
		if status, body := post(c, wire.PathTools+op, nil); status != http.StatusUnauthorized {
			t.Errorf("%s of programs in a session: %d %s", op, status, body)
		}
	}
	for _, op := range []string{
		wire.OpPrepareUpload, wire.OpFinalizeUpload, wire.OpFinalizeUploads, wire.OpOpenJournalKey, wire.OpDeleteFile,
		wire.OpSetAttributes, wire.OpSealAPIKey,
		wire.OpGetGroupSettings, wire.OpSetGroupSettings, wire.OpGetGroupVersions, wire.OpGetGroupMembers,
		wire.OpGetStorage, wire.OpGetOwnedGroups, wire.OpGetMemberGroups, wire.OpGetGroupTransactions, wire.OpWatch, "",
	} {
		status, body := post(c, ofPage+op, nil)
		if status != http.StatusNotFound || !strings.Contains(body, wire.CodeUnsupported) {
			t.Errorf("%s in a session: %d %s", op, status, body)
		}
	}
}

// A request has only fields that its operation reads, and texts of bounded length: the page refuses others.
func TestRequestsHaveWhatIsRead(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.user("alice", "1").signedIn()
	for op, field := range map[string]string{wire.OpInviteToGroup: "member_id", wire.OpRevokeGroupMember: "role",
		wire.OpOfferGroup: "role", wire.OpSetGroupVersions: "after"} {
		status, body := do(t, c, s.page(http.MethodPost, "tools/"+op, object{"group_id": "g", field: "x"}))
		if status != http.StatusBadRequest || !strings.Contains(body, wire.CodeInvalidJSON) {
			t.Errorf("%s with %s: %d %s", op, field, status, body)
		}
	}
	long := s.page(http.MethodPost, "tools/"+wire.OpKeepFiles, object{"group_id": strings.Repeat("x", 129)})
	if status, body := do(t, c, long); status != http.StatusBadRequest || !strings.Contains(body, "at most 128 bytes") {
		t.Errorf("a long group id: %d %s", status, body)
	}
}

// The end of a join window is recorded as a number, however long its request writes it.
func TestWindowEndIsRecordedAsANumber(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.user("alice", "10").signedIn()
	s.post(c, "tools/create_hackathon_group", object{"group_id": "g",
		"expires_at": "+" + strings.Repeat("0", 200) + "9000000000000000000", "max_uses": nil})
	proctest.Eventually(t, "the page shows it", func() bool { // on PostgreSQL a record gets its place later
		status, body := do(t, c, s.page(http.MethodGet, "ledger", nil))
		return status == http.StatusOK && strings.Contains(body, `"detail":"9000000000000000000"`)
	})
}

func TestThreat36HostNames(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.PublicURL = "https://Files.example:443" })
	port := s.url[strings.LastIndex(s.url, ":")+1:]
	for host, want := range map[string]int{
		"127.0.0.1:" + port: http.StatusOK, "localhost:" + port: http.StatusOK, "files.example": http.StatusOK,
		"FILES.example:443": http.StatusOK,
		"attacker.example":  421, "attacker.example:" + port: 421, "127.0.0.1": 421, "127.0.0.1:1": 421,
		"127.0.0.2:" + port: 421, "[::1]:" + port: 421,
		"localhost.attacker.example:" + port: 421, "files.example.attacker.example": 421, "files.example:8000": 421,
		"10.0.0.1:" + port: 421, "localhost": 421,
	} {
		for _, path := range []string{"", "api/session", "style.css"} {
			req := s.page(http.MethodGet, "../"+path, nil)
			req.URL.Path, req.Host = "/account/"+path, host
			if status, body := do(t, client(t), req); status != want {
				t.Errorf("Host %s, path %q: %d %s", host, path, status, body)
			}
		}
	}
}

func TestThreat36Headers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, path := range []string{"/account/", "/account/app.js", "/account/style.css", "/account/api/session",
		"/account/api/nothing", "/account/nothing"} {
		resp, err := client(t).Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		h := resp.Header
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'",
			"connect-src 'self'", "img-src 'self' data:",
			"frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(h.Get("Content-Security-Policy"), part+";") {
				t.Errorf("%s: policy without %s", path, part)
			}
		}
		if strings.Contains(h.Get("Content-Security-Policy"), "unsafe") {
			t.Errorf("%s: %s", path, h.Get("Content-Security-Policy"))
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": ""} {
			if h.Get(name) != want {
				t.Errorf("%s: %s %q, want %q", path, name, h.Get(name), want)
			}
		}
		if strings.Contains(path, "/api/") && h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be stored: %q", path, h.Get("Cache-Control"))
		}
	}
}

func TestRootIsThePageForBrowsersOnly(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for accept, want := range map[string]int{"text/html,application/xhtml+xml;q=0.9": http.StatusSeeOther,
		"application/json": http.StatusOK, "*/*": http.StatusOK, "": http.StatusOK} {
		req := httptest.NewRequest(http.MethodGet, s.url+"/", nil)
		req.RequestURI = ""
		req.Header.Set("Accept", accept)
		status, body := do(t, client(t), req)
		if status != want || want == http.StatusOK && decode(t, body)["status"] != "ok" {
			t.Errorf("Accept %q: %d %s", accept, status, body)
		}
	}
	if resp, body := visit(t, client(t), s.url+"/account"); resp.StatusCode != http.StatusOK ||
		!strings.Contains(body, "app.js") {
		t.Errorf("/account: %d %s", resp.StatusCode, body)
	}
}

func TestTooManyRequestsOfThePage(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.RequestRate = 2 })
	alice := s.user("alice", "1")
	c, refused := alice.signedIn(), 0
	for range 20 {
		if status, body := do(t, c, s.page(http.MethodGet, "groups", nil)); status == http.StatusTooManyRequests {
			refused++
		} else if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
	}
	if refused == 0 {
		t.Error("20 requests at once were answered, 2 a second are allowed")
	}
}

// Threat 31: keys are made at the rate of a person, since each is a record that
// costs nothing; the operator may make one at any time.
func TestThreat31KeysMadeOnThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "1")
	c := alice.signedIn()
	var status, made int
	var body string
	for made = 0; made < 20; made++ {
		if status, body = do(t, c, s.page(http.MethodPost, "key",
			map[string]any{"replace": true})); status != http.StatusOK {
			break
		}
	}
	if status != http.StatusTooManyRequests || made != 10 {
		t.Errorf("after %d keys: %d %s", made, status, body)
	}
	if _, err := s.svc.RotateKey(t.Context(), "alice"); err != nil {
		t.Errorf("the operator: %v", err)
	}
}
