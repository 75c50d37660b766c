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
	"github.com/svcfs/svcfs/service/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	account = sdk.AccountID("alice.svc.testnet")
	apiKey  = "svc_sk_0123456789012345678901234567890123456789012"
)

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
		s, c := world(t, testkit.Hosted)
		s.Answer(wire.PathTools+wire.OpPrepareRetrieve, lie)
		s.Answer(wire.PathTools+wire.OpGetGroupTransactions, result([]wire.TransactionRow{{IPFSHash: "ref", FileHash: strings.ToUpper(sdk.ComputeHash(content).String()), TransID: `"tx"`}}))
		got, _, err := sdktest.Read(t.Context(), c.Group("g"), "ref")
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// One token for many callers; one more when it is refused, never a loop.
func TestTokens(t *testing.T) {
	t.Parallel()
	const owned = wire.PathTools + wire.OpGetOwnedGroups
	s := testkit.Start(t, testkit.Hosted)
	c := s.Client(t, s.Account("alice", "100"))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := c.OwnedGroups(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.Hits(wire.PathSessionToken); n != 1 {
		t.Errorf("%d tokens were fetched", n)
	}
	var refused atomic.Bool
	s.Answer(owned, func(w http.ResponseWriter, r *http.Request) {
		if !refused.Swap(true) {
			answer(401, wire.Error{Error: "Auth failed: Audience mismatch"})(w, r)
			return
		}
		result([]string{"g"})(w, r)
	})
	if got, err := c.OwnedGroups(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("after one refusal: %v, %v", got, err)
	}
	s.Answer(owned, answer(401, wire.Error{Error: "Auth failed: invalid session token"}))
	before := s.Hits(owned)
	if _, err := c.OwnedGroups(t.Context()); !errors.Is(err, sdk.ErrUnauthenticated) {
		t.Error(err)
	}
	if n := s.Hits(owned) - before; n != 2 {
		t.Errorf("a refused token was tried %d times", n)
	}
	for _, expires := range []any{"5m", "1h", "2d", "30s", 86400, "soon", nil, ""} {
		s.Answer(wire.PathSessionToken, answer(200, map[string]any{"token": "token", "expires_in": expires}))
		if err := c.RefreshToken(t.Context()); err != nil {
			t.Errorf("expires_in %v: %v", expires, err)
		}
	}
	s.Answer(wire.PathSessionToken, answer(404, wire.Error{Error: "account not found"}))
	if err := c.RefreshToken(t.Context()); !errors.Is(err, sdk.ErrNotFound) {
		t.Error(err)
	}
}

// A refusal stays one, also when the same content was recorded just before
// under another name and the service tells neither names nor codes.
func TestRefusalIsNotAnEarlierRecord(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Hosted)
	if _, err := c.Group("g").Put(t.Context(), "first", bytes.NewReader([]byte("content"))); err != nil {
		t.Fatal(err)
	}
	s.DisturbUploads(func(http.Handler) http.Handler { return answer(500, wire.Error{Error: "Insufficient balance"}) })
	if r, err := c.Group("g").Put(t.Context(), "second", bytes.NewReader([]byte("content"))); !errors.Is(err, sdk.ErrInsufficient) || s.Records() != 1 {
		t.Errorf("%+v, %v; recorded %d times", r, err, s.Records())
	}
}

// A file over the service's limit is refused before anything is asked.
func TestUploadOverTheServicesLimit(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours, testkit.MaxFileBytes(10))
	if _, err := s.Client(t, s.Account("alice", "1")).Group("g").Put(t.Context(), "f", strings.NewReader("more than ten bytes")); !errors.Is(err, sdk.ErrTooLarge) || s.Hits(wire.PathTools+wire.OpPrepareUpload) != 0 {
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
	if c, err := sdk.New("alice.near", sdk.Config{}); err != nil || c.NetworkInfo().Network != sdk.Mainnet {
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
	s := testkit.Start(t, testkit.Hosted)
	hang := make(chan struct{})
	defer close(hang)
	s.Answer(wire.PathTools+wire.OpGetOwnedGroups, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	c := s.Client(t, s.Account("alice", "1"), func(cfg *sdk.Config) { cfg.Timeout = 100 * time.Millisecond })
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
	s, c := world(t, testkit.Hosted)
	for _, status := range []int{429, 502, 503} {
		var n atomic.Int32
		s.Answer(wire.PathTools+wire.OpGetOwnedGroups, func(w http.ResponseWriter, r *http.Request) {
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
	s.Answer(wire.PathTools+wire.OpRegisterGroup, func(w http.ResponseWriter, r *http.Request) { n.Add(1); answer(503, wire.Error{Error: "later"})(w, r) })
	if _, err := c.Group("g").Register(t.Context()); !errors.Is(err, sdk.ErrUnavailable) || n.Load() != 1 {
		t.Errorf("a change was sent %d times, %v", n.Load(), err)
	}
}

// Threat 8: a hundred thousand records in one answer are listed; more than may
// be are refused.
func TestThreat8ManyRows(t *testing.T) {
	t.Parallel()
	const rows = 100_000
	s, c := world(t, testkit.Hosted)
	row := fmt.Sprintf(`{"trans_id":"%s","group_id":"g","user_id":"%s","file_hash":"%s","ipfs_hash":"nova-sdk.near/fastfs.near/%s/%%d","backend":"FastFS","timestamp":"1","deleted":null}`,
		strings.Repeat("ab", 32), c.Account(), strings.Repeat("cd", 32), strings.Repeat("ef", 32))
	s.Answer(wire.PathTools+wire.OpGetGroupTransactions, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"result":[`))
		for i := range rows {
			if i > 0 {
				_, _ = w.Write([]byte(","))
			}
			_, _ = fmt.Fprintf(w, row, i)
		}
		_, _ = w.Write([]byte(`]}`))
	})
	if got, err := c.Group("g").Entries(t.Context()); err != nil || len(got) != rows || got[0].Ref == got[rows-1].Ref {
		t.Errorf("%d entries, %v", len(got), err)
	}
	small := s.Client(t, s.Account("small", "1"), func(cfg *sdk.Config) { cfg.MaxFileBytes = 8 << 20 })
	if _, err := small.Group("g").Entries(t.Context()); !errors.Is(err, sdk.ErrCorrupt) {
		t.Errorf("a client of small files takes it: %v", err)
	}
}
