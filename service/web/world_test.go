package web_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/vaulttest"
)

// site is a real service behind a real HTTP server.
type site struct {
	t   *testing.T
	svc *service.Service
	dir string
	url string // http://127.0.0.1:PORT
	// database is the address on PostgreSQL, "" on SQLite.
	database string

	// front, set before the first request, may answer in the place of the service, which is next.
	front func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// serve starts a service; change may alter its configuration. With a public
// address that has https and its very port it speaks TLS.
func serve(t *testing.T, change ...func(*service.Config)) *site {
	t.Helper()
	s := &site{t: t, dir: filepath.Join(t.TempDir(), "data")}
	server := httptest.NewUnstartedServer(nil)
	s.url = "http://" + server.Listener.Addr().String()
	cfg := service.Config{DataDir: s.dir, PublicURL: s.url, MaxFileBytes: 4 << 20, Database: engines.NewDatabase(t)}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if s.svc, err = openService(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	s.database = cfg.Database
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }
	handler := s.svc.Handler()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.front(w, r, handler) })
	if strings.HasPrefix(cfg.PublicURL, "https://") &&
		strings.HasSuffix(cfg.PublicURL, s.url[strings.LastIndex(s.url, ":"):]) {
		server.StartTLS()
		s.url = cfg.PublicURL
	} else {
		server.Start()
	}
	t.Cleanup(func() {
		server.Close()
		if err := s.svc.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// user is an account that calls the operations below /tools/ with its key.
type user struct {
	*site
	id, key string
}

func (s *site) user(name, tokens string) *user {
	s.t.Helper()
	balance, err := wire.ParseTokens(tokens)
	if err != nil {
		s.t.Fatal(err)
	}
	made, err := s.svc.CreateAccount(s.t.Context(), name, balance)
	if err != nil {
		s.t.Fatal(err)
	}
	return &user{s, made.AccountID, made.APIKey.Reveal()}
}

// tool calls an operation with an API key and returns status and body.
func (u *user) tool(op string, request any) (int, string) {
	u.t.Helper()
	raw, err := json.Marshal(request)
	if err != nil {
		u.t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, u.url+wire.PathTools+op, bytes.NewReader(raw))
	if err != nil {
		u.t.Fatal(err)
	}
	req.Header = http.Header{wire.HeaderAPIKey: {u.key}, wire.HeaderAccountID: {u.id}}
	return do(u.t, http.DefaultClient, req)
}

func do(t *testing.T, client *http.Client, req *http.Request) (int, string) {
	t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (u *user) must(op string, request, result any) {
	u.t.Helper()
	status, body := u.tool(op, request)
	out := struct {
		Result any `json:"result"`
	}{result}
	if err := json.Unmarshal([]byte(body), &out); status != http.StatusOK || err != nil {
		u.t.Fatalf("%s: %d %s", op, status, body)
	}
}

func (u *user) register(group string) {
	u.t.Helper()
	var text string
	u.must(wire.OpRegisterGroup, wire.GroupRequest{GroupID: group}, &text)
}

func (u *user) add(group, member string) {
	u.t.Helper()
	var text string
	u.must(wire.OpAddGroupMember, wire.AddMemberRequest{GroupID: group, MemberID: member}, &text)
}

// upload saves content as its SDK would; format may be nil, and sum overrides the
// recorded hash.
func (u *user) upload(group, name string, content []byte, format any, sum string) wire.FinalizeUploadResult {
	u.t.Helper()
	var prepared wire.PrepareUploadResult
	u.must(wire.OpPrepareUpload, wire.PrepareUploadRequest{GroupID: group, Filename: name}, &prepared)
	if sum == "" {
		sum = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	raw, err := json.Marshal(format)
	if err != nil {
		u.t.Fatal(err)
	}
	var out wire.FinalizeUploadResult
	u.must(wire.OpFinalizeUpload, wire.FinalizeUploadRequest{UploadID: prepared.UploadID, FileHash: sum, Format: raw,
		EncryptedData: seal(u.t, prepared.Key, content)}, &out)
	return out
}

// saves uploads a version of a name, as a client that knows versions does.
func (u *user) saves(group, name string, content []byte) {
	u.t.Helper()
	var prepared wire.PrepareUploadResult
	u.must(wire.OpPrepareUpload, wire.PrepareUploadRequest{GroupID: group, Filename: name}, &prepared)
	var out wire.FinalizeUploadResult
	u.must(wire.OpFinalizeUpload, wire.FinalizeUploadRequest{UploadID: prepared.UploadID,
		FileHash:      fmt.Sprintf("%x", sha256.Sum256(content)),
		EncryptedData: seal(u.t, prepared.Key, content), Versioned: true}, &out)
}

func seal(t *testing.T, key string, content []byte) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	iv := make([]byte, gcm.NonceSize())
	if _, err := rand.Read(iv); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(gcm.Seal(iv, iv, content, nil))
}

func (u *user) link() string {
	u.t.Helper()
	link, err := u.svc.SignInLink(u.t.Context(), u.id, u.url)
	if err != nil {
		u.t.Fatal(err)
	}
	return link
}

func (u *user) secret() string {
	u.t.Helper()
	_, secret, ok := strings.Cut(u.link(), "/account/#link=")
	if !ok {
		u.t.Fatal("the link has no fragment")
	}
	return secret
}

// client is a browser's HTTP side: it keeps cookies and follows nothing.
func client(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// page is a request as the page's own script sends it.
func (s *site) page(method, path string, body any) *http.Request {
	s.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequest(method, s.url+"/account/api/"+path, bytes.NewReader(raw))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Origin": {s.url}, "X-Svc-Page": {"1"},
		"Sec-Fetch-Site": {"same-origin"}}
	return req
}

// signedIn is a client with a session of the page.
func (u *user) signedIn() *http.Client {
	u.t.Helper()
	c := client(u.t)
	if status, body := do(u.t, c, u.page(http.MethodPost, "sign-in",
		map[string]string{"link": u.secret()})); status != http.StatusOK {
		u.t.Fatalf("sign-in: %d %s", status, body)
	}
	return c
}

type object = map[string]any

func sumOf(content []byte) [sha256.Size]byte { return sha256.Sum256(content) }

func decode(t *testing.T, body string) object {
	t.Helper()
	var v object
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

// files lists the records of a group.
func (u *user) files(group string) (list []wire.TransactionRow) {
	u.t.Helper()
	u.must(wire.OpGetGroupTransactions, wire.TransactionsRequest{GroupID: group}, &list)
	return list
}

// openService opens a service whose vault is in the process of the test.
func openService(ctx context.Context, cfg service.Config) (*service.Service, error) {
	cfg.Vault = vaulttest.InProcess
	return service.Open(ctx, cfg)
}
