package sdk_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	account = sdk.AccountID("alice.svc.testnet")
	apiKey  = "svc_sk_0123456789012345678901234567890123456789012"
	token   = "token-that-must-never-show"
)

// server answers like a service; a test replaces the answers it lies in.
type server struct {
	t    testing.TB
	url  string
	mux  sync.Mutex
	lies map[string]http.HandlerFunc // by path
	hits map[string]*atomic.Int32
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{t: t, lies: map[string]http.HandlerFunc{}, hits: map[string]*atomic.Int32{}}
	h := httptest.NewServer(s)
	s.url = h.URL
	t.Cleanup(h.Close)
	s.lie(wire.PathSessionToken, answer(200, wire.SessionTokenResult{Token: token, AccountID: string(account), ExpiresIn: "24h"}))
	s.lie(wire.PathCapabilities, answer(404, wire.Error{Error: "not found"}))
	return s
}

func (s *server) lie(path string, f http.HandlerFunc) {
	s.mux.Lock()
	defer s.mux.Unlock()
	s.lies[path] = f
}

func (s *server) tool(op string, f http.HandlerFunc) { s.lie(wire.PathTools+op, f) }

func (s *server) count(path string) int {
	s.mux.Lock()
	defer s.mux.Unlock()
	if s.hits[path] == nil {
		return 0
	}
	return int(s.hits[path].Load())
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mux.Lock()
	f := s.lies[r.URL.Path]
	if s.hits[r.URL.Path] == nil {
		s.hits[r.URL.Path] = new(atomic.Int32)
	}
	s.hits[r.URL.Path].Add(1)
	s.mux.Unlock()
	if f == nil {
		f = answer(404, wire.Error{Error: "no such path"})
	}
	f(w, r)
}

func answer(status int, v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		if raw, ok := v.(string); ok {
			_, _ = w.Write([]byte(raw))
			return
		}
		_ = json.NewEncoder(w).Encode(v)
	}
}

func result(v any) http.HandlerFunc { return answer(200, map[string]any{"result": v}) }

func client(t *testing.T, url string) *sdk.Client {
	t.Helper()
	c, err := sdk.New(account, sdk.Config{
		URL: url, APIKey: sdk.NewSecret(apiKey), MaxFileBytes: 8 << 20, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// buffer is released with the test.
func buffer(t *testing.T, size int64) *mem.Buffer {
	t.Helper()
	b, err := mem.NewPool().Get(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Release)
	return b
}

// stored is a file as a service keeps it.
type stored struct {
	key  string
	blob []byte
	meta any
}

func store(t testing.TB, content []byte) stored {
	t.Helper()
	raw := bytes.Repeat([]byte{7}, format.KeyBytes)
	k, err := format.NewKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := format.SealBlob(k, content)
	if err != nil {
		t.Fatal(err)
	}
	return stored{base64.StdEncoding.EncodeToString(raw), blob, format.NewMetadata(int64(len(content)), "", "")}
}

func (f stored) answer() map[string]any {
	return map[string]any{"key": f.key, "encrypted_b64": base64.StdEncoding.EncodeToString(f.blob), "ipfs_hash": "ref", "group_id": "g", "format": f.meta}
}

// Compressed files are read, and both generations' envelopes.
func TestRetrieveForms(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("compressible "), 1000)
	deflated, err := format.Deflate(content)
	if err != nil {
		t.Fatal(err)
	}
	compressed := store(t, deflated)
	meta := format.NewMetadata(int64(len(content)), "", "")
	meta.Compression = format.CompressionDeflate
	compressed.meta = meta
	v0 := store(t, content)
	v0.meta = nil
	hybrid := v0.answer()
	hybrid["result"] = v0.answer()
	for name, lie := range map[string]http.HandlerFunc{"compressed": result(compressed.answer()), "version 0": result(v0.answer()),
		"generation A": answer(200, v0.answer()), "hybrid": answer(200, hybrid)} {
		s := newServer(t)
		c := client(t, s.url)
		s.tool(wire.OpPrepareRetrieve, lie)
		s.tool(wire.OpGetGroupTransactions, result([]wire.TransactionRow{{IPFSHash: "ref", FileHash: strings.ToUpper(sdk.ComputeHash(content).String()), TransID: `"tx"`}}))
		got, _, err := sdktest.Read(t.Context(), c.Group("g"), "ref")
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// One token for many callers; one more when it is refused, never a loop.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := client(t, s.url)
	s.tool(wire.OpGetOwnedGroups, result([]string{}))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.OwnedGroups(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.count(wire.PathSessionToken); n != 1 {
		t.Errorf("%d tokens were fetched", n)
	}
	var refused atomic.Bool
	s.tool(wire.OpGetOwnedGroups, func(w http.ResponseWriter, r *http.Request) {
		if !refused.Swap(true) {
			answer(401, wire.Error{Error: "Auth failed: Audience mismatch"})(w, r)
			return
		}
		result([]string{"g"})(w, r)
	})
	if got, err := c.OwnedGroups(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("after one refusal: %v, %v", got, err)
	}
	s.tool(wire.OpGetOwnedGroups, answer(401, wire.Error{Error: "Auth failed: invalid session token"}))
	before := s.count(wire.PathTools + wire.OpGetOwnedGroups)
	if _, err := c.OwnedGroups(t.Context()); !errors.Is(err, sdk.ErrUnauthenticated) {
		t.Error(err)
	}
	if n := s.count(wire.PathTools+wire.OpGetOwnedGroups) - before; n != 2 {
		t.Errorf("a refused token was tried %d times", n)
	}
	for _, expires := range []any{"5m", "1h", "2d", "30s", 86400, "soon", nil, ""} {
		s := newServer(t)
		s.lie(wire.PathSessionToken, answer(200, map[string]any{"token": token, "expires_in": expires}))
		if err := client(t, s.url).RefreshToken(t.Context()); err != nil {
			t.Errorf("expires_in %v: %v", expires, err)
		}
	}
	s.lie(wire.PathSessionToken, answer(404, wire.Error{Error: "account not found"}))
	if err := c.RefreshToken(t.Context()); !errors.Is(err, sdk.ErrNotFound) {
		t.Error(err)
	}
}

// uploads is the honest side of an upload, which a test may disturb.
type uploads struct {
	mu       sync.Mutex
	recorded int
	rows     []wire.TransactionRow
	done     map[string]wire.FinalizeUploadResult
	prepared int
	cut      int // answers to lose after recording
}

func (u *uploads) prepare(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.prepared++
	key := bytes.Repeat([]byte{byte(u.prepared)}, 32)
	result(wire.PrepareUploadResult{UploadID: fmt.Sprint("upload", u.prepared), Key: base64.StdEncoding.EncodeToString(key)})(w, r)
}

func (u *uploads) finalize(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var req wire.FinalizeUploadRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		answer(400, wire.Error{Error: err.Error()})(w, r)
		return
	}
	out, ok := u.done[req.UploadID]
	if !ok {
		u.recorded++
		out = wire.FinalizeUploadResult{Location: fmt.Sprint("ref", u.recorded), TransID: `"tx"`, FileHash: req.FileHash}
		u.done[req.UploadID] = out
		u.rows = append(u.rows, wire.TransactionRow{IPFSHash: out.Location, FileHash: req.FileHash, UserID: string(account)})
	}
	if u.cut > 0 {
		u.cut--
		panic(http.ErrAbortHandler)
	}
	result(out)(w, r)
}

func uploadServer(t *testing.T, d wire.Dialect) (*server, *uploads) {
	s := newServer(t)
	u := &uploads{done: map[string]wire.FinalizeUploadResult{}}
	s.lie(wire.PathCapabilities, answer(200, wire.Capabilities{Dialect: d}))
	s.tool(wire.OpPrepareUpload, u.prepare)
	s.tool(wire.OpFinalizeUpload, u.finalize)
	s.tool(wire.OpGetGroupTransactions, func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		defer u.mu.Unlock()
		result(u.rows)(w, r)
	})
	return s, u
}

// Fault "answer lost after commit": recorded once, paid once, and the caller
// hears of it.
func TestLostAnswerIsNotPaidTwice(t *testing.T) {
	t.Parallel()
	for _, cut := range []int{1, 3, 6} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			s, u := uploadServer(t, wire.Hosted)
			u.cut = cut
			c := client(t, s.url)
			var receipt sdk.Receipt
			var err error
			for range 3 { // a program that saves again
				if receipt, err = c.Group("g").Put(t.Context(), "f", bytes.NewReader([]byte("content"))); err == nil {
					break
				}
			}
			if err != nil || u.recorded != 1 || receipt.Ref != "ref1" || receipt.Hash != sdk.ComputeHash([]byte("content")) {
				t.Errorf("recorded %d times, receipt %+v, %v", u.recorded, receipt, err)
			}
		})
	}
}

// A refusal stays one, also when the same content was recorded just before
// under another name and the service tells neither names nor codes.
func TestRefusalIsNotAnEarlierRecord(t *testing.T) {
	t.Parallel()
	s, u := uploadServer(t, wire.Hosted)
	c := client(t, s.url)
	if _, err := c.Group("g").Put(t.Context(), "first", bytes.NewReader([]byte("content"))); err != nil {
		t.Fatal(err)
	}
	s.tool(wire.OpFinalizeUpload, answer(500, wire.Error{Error: "Insufficient balance"}))
	if r, err := c.Group("g").Put(t.Context(), "second", bytes.NewReader([]byte("content"))); !errors.Is(err, sdk.ErrInsufficient) || u.recorded != 1 {
		t.Errorf("%+v, %v; recorded %d times", r, err, u.recorded)
	}
}

// A file over the service's limit is refused before anything is asked.
func TestUploadOverTheServicesLimit(t *testing.T) {
	t.Parallel()
	s, _ := uploadServer(t, wire.Hosted)
	s.lie(wire.PathCapabilities, answer(200, wire.Capabilities{MaxFileBytes: 10}))
	if _, err := client(t, s.url).Group("g").Put(t.Context(), "f", strings.NewReader("more than ten bytes")); !errors.Is(err, sdk.ErrTooLarge) || s.count(wire.PathTools+wire.OpPrepareUpload) != 0 {
		t.Error(err)
	}
}

// Threat 9: keys do not travel over plain http to another machine.
func TestThreat9Addresses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url string
		ok  bool
	}{
		{"http://127.0.0.1:8000", true}, {"http://localhost:8000/", true}, {"http://[::1]:8000", true}, {"https://files.example.org", true},
		{"http://files.example.org", false}, {"http://127.0.0.1.example.org", false}, {"ftp://127.0.0.1", false}, {"127.0.0.1:8000", false},
		{"https://user:secret@example.org", false}, {"https://example.org/?key=1", false}, {"https://", false}, {"://", false},
	} {
		_, err := sdk.New(account, sdk.Config{URL: tc.url})
		if (err == nil) != tc.ok || err != nil && (!errors.Is(err, sdk.ErrInvalid) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", tc.url, err)
		}
	}
	if c, err := sdk.New(account, sdk.Config{}); err != nil || c.NetworkInfo().Network != sdk.Mainnet {
		t.Error(err)
	}
	if _, err := sdk.New("", sdk.Config{}); !errors.Is(err, sdk.ErrInvalid) {
		t.Error(err)
	}
	// Threat 9: a certificate nobody signed is refused.
	tls := httptest.NewTLSServer(answer(200, "{}"))
	defer tls.Close()
	tls.Config.ErrorLog = nil
	if err := client(t, tls.URL).Health(t.Context()); !errors.Is(err, sdk.ErrUnavailable) {
		t.Errorf("a self-signed certificate gives %v", err)
	}
}

// Threat 12: a dead service ends in an error in time; cancelling ends at once.
func TestThreat12DeadService(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	hang := make(chan struct{})
	defer close(hang)
	s.tool(wire.OpGetOwnedGroups, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	c, err := sdk.New(account, sdk.Config{URL: s.url, APIKey: sdk.NewSecret(apiKey), Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.OwnedGroups(t.Context()); !errors.Is(err, sdk.ErrTimeout) {
		t.Errorf("a hanging service gives %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.OwnedGroups(ctx); !errors.Is(err, sdk.ErrCanceled) {
		t.Errorf("a cancelled call gives %v", err)
	}
	if _, err := client(t, "http://127.0.0.1:1").OwnedGroups(t.Context()); !errors.Is(err, sdk.ErrUnavailable) {
		t.Errorf("nobody listening gives %v", err)
	}
}

// Passing faults are waited out where repeating is free.
func TestReadsAreRepeated(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := client(t, s.url)
	for _, status := range []int{429, 502, 503} {
		var n atomic.Int32
		s.tool(wire.OpGetOwnedGroups, func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) <= 2 {
				answer(status, wire.Error{Error: "later"})(w, r)
				return
			}
			result([]string{"g"})(w, r)
		})
		if got, err := c.OwnedGroups(t.Context()); err != nil || len(got) != 1 {
			t.Errorf("%d twice: %v, %v", status, got, err)
		}
	}
	var n atomic.Int32
	s.tool(wire.OpRegisterGroup, func(w http.ResponseWriter, r *http.Request) { n.Add(1); answer(503, wire.Error{Error: "later"})(w, r) })
	if _, err := c.Group("g").Register(t.Context()); !errors.Is(err, sdk.ErrUnavailable) || n.Load() != 1 {
		t.Errorf("a change was sent %d times, %v", n.Load(), err)
	}
}

// Threat 8: a hundred thousand records in one answer are listed; more than may
// be are refused.
func TestThreat8ManyRows(t *testing.T) {
	t.Parallel()
	const rows = 100_000
	s := newServer(t)
	row := fmt.Sprintf(`{"trans_id":"%s","group_id":"g","user_id":"%s","file_hash":"%s","ipfs_hash":"nova-sdk.near/fastfs.near/%s/%%d","backend":"FastFS","timestamp":"1","deleted":null}`,
		strings.Repeat("ab", 32), account, strings.Repeat("cd", 32), strings.Repeat("ef", 32))
	s.tool(wire.OpGetGroupTransactions, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"result":[`))
		for i := range rows {
			if i > 0 {
				_, _ = w.Write([]byte(","))
			}
			_, _ = fmt.Fprintf(w, row, i)
		}
		_, _ = w.Write([]byte(`]}`))
	})
	c, err := sdk.New(account, sdk.Config{URL: s.url, APIKey: sdk.NewSecret(apiKey)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.Group("g").Entries(t.Context()); err != nil || len(got) != rows || got[0].Ref == got[rows-1].Ref {
		t.Errorf("%d entries, %v", len(got), err)
	}
	if _, err := client(t, s.url).Group("g").Entries(t.Context()); !errors.Is(err, sdk.ErrCorrupt) {
		t.Errorf("a client of small files takes it: %v", err)
	}
}
