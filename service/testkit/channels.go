package testkit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// bodyOf reads the body of a request, and leaves it there.
func bodyOf(r *http.Request) []byte {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// WantsChannel asks for the whole channel, which [Server.SealedKey] needs, if a request to prepare_retrieve has its id
// alone.
func WantsChannel(w http.ResponseWriter, asked []byte) bool {
	var req wire.PrepareRetrieveRequest
	if json.Unmarshal(asked, &req) != nil || req.Channel == nil || req.Channel.Encapsulated != nil {
		return false
	}
	writeJSON(w, http.StatusConflict, wire.Error{Error: "send the channel whole", Code: wire.CodeChannel})
	return true
}

// SealedKey is a key, in base64, as the vault sends it through the channel of a request to prepare_retrieve; nil = the
// request has none, or the key is none.
func (s *Server) SealedKey(r *http.Request, asked []byte, key string) []byte {
	var req wire.PrepareRetrieveRequest
	raw, err := base64.StdEncoding.DecodeString(key)
	if json.Unmarshal(asked, &req) != nil || req.Channel == nil || err != nil || len(raw) != format.KeyBytes {
		return nil
	}
	seed, err := vaulttest.Secret(context.Background(), s.store(), s.masterKey(), vaultwire.PurposeUploads)
	s.must(err)
	secret, err := format.NewVaultSecret(seed)
	s.must(err)
	to := format.ChannelFor{Service: ContractID, Account: signedIn(r), Epoch: req.Channel.Epoch}
	channel, err := secret.OpenChannel(to, req.Channel.Encapsulated)
	s.must(err)
	var k format.Key
	copy(k.Bytes(), raw) // a liar's may be all zero
	return channel.Seal(req.GroupID, req.IPFSHash, &k)
}

// signedIn is the account of the token of a request.
func signedIn(r *http.Request) string {
	parts := strings.Split(r.Header.Get("Authorization"), ".")
	var claims struct {
		Account string `json:"account_id"`
	}
	if raw, err := base64.RawURLEncoding.DecodeString(parts[min(1, len(parts)-1)]); err == nil {
		_ = json.Unmarshal(raw, &claims)
	}
	return claims.Account
}
