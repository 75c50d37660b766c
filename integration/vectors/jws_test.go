package vectors

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"testing"
	"time"

	"github.com/c2sp/wycheproof"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// Threat 20: signatures of all kinds, good and spoilt, are no session tokens,
// also where the service's secret is the key they were made with: signed is not
// enough.
func TestThreat20WycheproofJSONWebSignatures(t *testing.T) {
	raw, err := fs.ReadFile(wycheproof.TestVectors, "json_web_signature_test.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TestGroups []struct {
			Private struct{ Kty, K string }
			Tests   []struct {
				TcID         int
				Comment, JWS string
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	accounts := auth.NewAccounts(db, nil, "svc.testnet", nil)
	n, own := 0, 0
	for _, g := range file.TestGroups {
		var secret [32]byte
		if key, err := base64.RawURLEncoding.DecodeString(g.Private.K); err == nil && g.Private.Kty == "oct" &&
			len(key) == len(secret) {
			copy(secret[:], key)
			own += len(g.Tests)
		}
		tokens := auth.NewTokens(accounts, secret, "http://127.0.0.1:8000", time.Hour, time.Now)
		for _, tc := range g.Tests {
			n++
			account, err := tokens.Verify(t.Context(), tc.JWS)
			if code := fault.Of(err).Code; account != "" ||
				(code != wire.CodeInvalidToken && code != wire.CodeAudience) {
				t.Errorf("case %d, %s: account %q, %v", tc.TcID, tc.Comment, account, err)
			}
		}
	}
	if n < 401 || own < 40 {
		t.Errorf("only %d cases, %d of them with a key that could be ours", n, own)
	}
	t.Logf("%d cases, %d with a key that could be ours", n, own)
}
