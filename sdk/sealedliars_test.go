package sdk_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// showing lets a service show another key of its vault.
func showing(s *testkit.Server, lie func(*wire.Capabilities)) {
	s.Disturb(wire.PathCapabilities, func(next http.Handler) http.Handler {
		return changedJSON(next, lie)
	})
}

// changedJSON changes an answer.
func changedJSON[T any](next http.Handler, change func(*T)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		honest := newRecorder()
		next.ServeHTTP(honest, r)
		var answer T
		if honest.status != http.StatusOK || json.Unmarshal(honest.body.Bytes(), &answer) != nil {
			w.WriteHeader(honest.status)
			_, _ = w.Write(honest.body.Bytes())
			return
		}
		change(&answer)
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// recorder keeps an answer.
type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func newRecorder() *recorder { return &recorder{status: http.StatusOK, header: http.Header{}} }

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// Threat 51: no key is sealed to a key of the vault that the pinned key of the log did not sign,
// that ended, or that is older than one seen before. Nothing is sent.
func TestThreat51KeysOfTheVault(t *testing.T) {
	t.Parallel()
	other, err := format.NewVaultSecret(bytes.Repeat([]byte{9}, 32))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		lie  func(s *testkit.Server, c *wire.Capabilities)
		says string
	}{
		"another key": {func(_ *testkit.Server, c *wire.Capabilities) {
			c.Vault.PublicKey = base64.StdEncoding.EncodeToString(other.Public())
		}, "was not signed with the key"},
		"another log": {func(_ *testkit.Server, c *wire.Capabilities) {
			testkit.Start(t, testkit.Ours).Log().SignVault(c.Vault, other.Public())
		}, "was not signed with the key"},
		"another end":   {func(_ *testkit.Server, c *wire.Capabilities) { c.Vault.NotAfter++ }, "was not signed with the key"},
		"another epoch": {func(_ *testkit.Server, c *wire.Capabilities) { c.Vault.Epoch++ }, "was not signed with the key"},
		"no signature":  {func(_ *testkit.Server, c *wire.Capabilities) { c.Vault.Signature = "" }, "was not signed with the key"},
		"no base64":     {func(_ *testkit.Server, c *wire.Capabilities) { c.Vault.PublicKey = "!" }, "is not base64"},
		"another kind": {func(s *testkit.Server, c *wire.Capabilities) {
			c.Vault.KEM = 0x20
			s.Log().SignVault(c.Vault, other.Public())
		}, "update svcfs"},
		"it ended": {func(s *testkit.Server, c *wire.Capabilities) {
			c.Vault.NotAfter = time.Now().Add(-time.Minute).Unix()
			s.Log().SignVault(c.Vault, other.Public())
		}, "look at the clock of this machine"},
		"an old epoch": {func(s *testkit.Server, c *wire.Capabilities) {
			c.Vault.Epoch = 2
			s.Log().SignVault(c.Vault, other.Public())
		}, "number 3 was seen before"},
		"no epoch": {func(s *testkit.Server, c *wire.Capabilities) {
			c.Vault.Epoch = 0
			s.Log().SignVault(c.Vault, other.Public())
		}, "its number is 0"},
		"a short key": {func(s *testkit.Server, c *wire.Capabilities) { s.Log().SignVault(c.Vault, other.Public()[1:]) }, "it has 1215 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testkit.Start(t, testkit.Ours)
			s.NextEpoch(false)
			s.NextEpoch(false)
			alice, dir := s.Account("alice", "10"), t.TempDir()
			client := func() *sdk.Client {
				return s.Client(t, alice, func(cfg *sdk.Config) { cfg.StateDir = dir })
			}
			c := client()
			if _, err := c.Group("g").Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(putNamed(t, c, "before"), c.Close()); err != nil {
				t.Fatal(err)
			}
			showing(s, func(caps *wire.Capabilities) { tc.lie(s, caps) })
			c = client()
			for range 2 {
				err := putNamed(t, c, "after")
				if sdk.KindOf(err) != sdk.ErrCorrupt || codeOf(err) != wire.CodeVaultKey || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("%v, want %q", err, tc.says)
				}
			}
			if s.Records() != 1 {
				t.Errorf("%d records", s.Records())
			}
			s.Disturb(wire.PathCapabilities, nil)
			if err := putNamed(t, client(), "after"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A service whose ledger proves nothing vouches for no key: its clients upload as before.
func TestThreat51NothingIsSealedWithoutALog(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	showing(s, func(caps *wire.Capabilities) {
		caps.Dialect = wire.Hosted
	})
	if err := putNamed(t, c, "f"); err != nil || s.Hits(wire.PathTools+wire.OpFinalizeUpload) != 1 {
		t.Errorf("%v", err)
	}
	if _, err := c.Group("g").Seal(t.Context(), "f", nil); !errors.Is(err, sdk.ErrUnsupported) {
		t.Errorf("seal: %v", err)
	}
}

// batchAnswer is the answer to finalize_uploads.
type batchAnswer struct {
	Result wire.FinalizeUploadsResult `json:"result"`
}

// Threat 13: in a batch, too, each upload has its own receipt, or the close fails: whatever the
// service swaps, leaves out, doubles or invents. Repeated, each is recorded and paid once.
func TestThreat13LiesInABatch(t *testing.T) {
	t.Parallel()
	type answers = []wire.SealedAnswer
	for name, tc := range map[string]struct {
		lie   func(answers) answers
		wrong int // uploads that are not confirmed, of 4
	}{
		"fewer":       {func(a answers) answers { return a[:3] }, 4},
		"none":        {func(answers) answers { return nil }, 4},
		"more":        {func(a answers) answers { return append(a, a[0]) }, 4},
		"swapped":     {func(a answers) answers { a[0], a[1] = a[1], a[0]; return a }, 2},
		"swapped ids": {func(a answers) answers { a[0].ID, a[1].ID = a[1].ID, a[0].ID; return a }, 2},
		"records":     {func(a answers) answers { a[0].Result, a[1].Result = a[1].Result, a[0].Result; return a }, 2},
		"one for all": {func(a answers) answers { return answers{a[0], a[0], a[0], a[0]} }, 3},
		"other id":    {func(a answers) answers { a[2].ID = strings.Repeat("0", 32); return a }, 1},
		"nothing":     {func(a answers) answers { a[3].Result = nil; return a }, 1},
		"both":        {func(a answers) answers { a[3].Error = &wire.Error{Error: "no"}; return a }, 1},
		"no receipt":  {func(a answers) answers { a[3].Result.Receipt = nil; return a }, 1},
		"ok and error": {func(a answers) answers {
			a[3] = wire.SealedAnswer{ID: a[3].ID, Error: &wire.Error{}, Status: 200}
			return a
		}, 1},
		"no base was named": {func(a answers) answers {
			a[3] = wire.SealedAnswer{ID: a[3].ID, Error: &wire.Error{Error: "changed", Code: wire.CodeHead}, Status: 409}
			return a
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := world(t, testkit.Ours)
			s.Disturb(wire.PathTools+wire.OpFinalizeUploads, func(next http.Handler) http.Handler {
				return changedJSON(next, func(a *batchAnswer) { a.Result.Uploads = tc.lie(a.Result.Uploads) })
			})
			var list []*sdk.Sealed
			for i := range 4 {
				list = append(list, sealed(t, c, fmt.Sprint(i), []byte{byte(i)}))
			}
			wrong := 0
			for i, sent := range c.SendSealed(t.Context(), list...) {
				switch {
				case sent.Err == nil && sent.Receipt.Hash == list[i].Hash():
				case errors.Is(sent.Err, sdk.ErrCorrupt):
					wrong++
				default:
					t.Errorf("upload %d: %+v", i, sent)
				}
			}
			if wrong != tc.wrong {
				t.Errorf("%d of 4 are not confirmed, want %d", wrong, tc.wrong)
			}
			s.Disturb(wire.PathTools+wire.OpFinalizeUploads, nil)
			for i, sent := range c.SendSealed(t.Context(), list...) {
				if sent.Err != nil || sent.Receipt.Hash != list[i].Hash() {
					t.Errorf("again, upload %d: %+v", i, sent)
				}
			}
			if s.Records() != 4 {
				t.Errorf("%d records", s.Records())
			}
		})
	}
}

// A batch whose answers lie fails each close, and the next ones find what was recorded.
func TestThreat13LiesToClosesThatWait(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	sdk.SlowLine(c, false)
	h := hold(s, 1)
	var all sync.WaitGroup
	var mu sync.Mutex
	failed := 0
	begin := func(name string) {
		all.Go(func() {
			if err := putNamed(t, c, name); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
				if !errors.Is(err, sdk.ErrCorrupt) {
					t.Error(err)
				}
			}
		})
	}
	begin("first")
	<-h.began
	for i := range 3 {
		begin(fmt.Sprint(i))
		wait(t, c, i+1)
	}
	s.Disturb(wire.PathTools+wire.OpFinalizeUploads, func(next http.Handler) http.Handler {
		return changedJSON(next, func(a *batchAnswer) { a.Result.Uploads = a.Result.Uploads[1:] })
	})
	close(h.let)
	all.Wait()
	s.Disturb(wire.PathTools+wire.OpFinalizeUploads, nil)
	for i := range 3 {
		if err := putNamed(t, c, fmt.Sprint(i)); err != nil {
			t.Error(err)
		}
	}
	if failed != 3 || s.Records() != 4 || sdk.Unsure(c) != 0 {
		t.Errorf("%d closes failed, %d records, %d are not sure", failed, s.Records(), sdk.Unsure(c))
	}
}

// Refusals that are lies end the call with their reason, and keep nothing from being saved later.
func TestThreat13FalseRefusals(t *testing.T) {
	t.Parallel()
	for code, tc := range map[string]struct {
		kind  sdk.Kind
		tries int
	}{
		wire.CodeSpent: {sdk.ErrConflict, 1}, wire.CodeHead: {sdk.ErrCorrupt, 1}, wire.CodeEpoch: {sdk.ErrConflict, 2}, wire.CodeInsufficient: {sdk.ErrInsufficient, 1},
	} {
		s, c := world(t, testkit.Ours)
		tries := 0
		s.DisturbUploads(func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tries++
				answer(409, wire.Error{Error: "no", Code: code})(w, r)
			})
		})
		if err := putNamed(t, c, "f"); sdk.KindOf(err) != tc.kind || tries != tc.tries || sdk.Unsure(c) != 0 {
			t.Errorf("%s: %v after %d tries, %d are kept", code, err, tries, sdk.Unsure(c))
		}
		s.DisturbUploads(nil)
		if err := putNamed(t, c, "f"); err != nil || s.Records() != 1 {
			t.Errorf("%s, later: %d records, %v", code, s.Records(), err)
		}
	}
}

// Threat 52: a service that gives another key than the upload was sealed with is found out, and the
// upload stays as it was.
func TestThreat52OtherKeysAfterARestart(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	up := sealed(t, c, "f", []byte("content"))
	raw, err := up.Encode(sdk.DiskKeys{})
	if err != nil {
		t.Fatal(err)
	}
	late, err := sdk.DecodeSealed(raw, sdk.DiskKeys{})
	if err != nil {
		t.Fatal(err)
	}
	late.KeepIn(up.Ciphertext())
	for _, key := range []string{base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{5}, 32)), base64.StdEncoding.EncodeToString(make([]byte, 32)), "", "short"} {
		s.Disturb(wire.PathTools+wire.OpOpenSealedKey, func(http.Handler) http.Handler {
			return http.HandlerFunc(answer(200, map[string]any{"result": wire.OpenSealedKeyResult{Key: key}}))
		})
		if err := c.OpenSealed(t.Context(), late, "g"); !errors.Is(err, sdk.ErrCorrupt) || late.HasKey() || !late.Locked() || strings.Contains(err.Error(), "BQUF") {
			t.Errorf("key %q: %v", key, err)
		}
	}
	s.Disturb(wire.PathTools+wire.OpOpenSealedKey, nil)
	if _, err := c.Group("other").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.OpenSealed(t.Context(), late, "other"); !errors.Is(err, sdk.ErrCorrupt) || late.HasKey() {
		t.Errorf("as one of another group: %v", err)
	}
	if err := c.OpenSealed(t.Context(), late, "g"); err != nil || late.Name() != "f" {
		t.Error(err)
	}
	up.Wipe()
	if err := c.OpenSealed(t.Context(), up, "g"); err != nil || !up.HasKey() {
		t.Errorf("after Wipe: %v", err)
	}
}
