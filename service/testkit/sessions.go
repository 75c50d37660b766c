package testkit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/vaulttest"
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

// SealedKey is a key, in base64, as the vault seals it for the session of a request to prepare_retrieve; nil = its
// session is not sealed, or the key is none.
func (s *Server) SealedKey(r *http.Request, asked []byte, key string) []byte {
	var req wire.PrepareRetrieveRequest
	raw, err := base64.StdEncoding.DecodeString(key)
	if json.Unmarshal(asked, &req) != nil || err != nil || len(raw) != format.KeyBytes {
		return nil
	}
	var k format.Key
	copy(k.Bytes(), raw) // a liar's may be all zero
	return s.SealFor(r, req.GroupID, req.IPFSHash, &k)
}

// SealFor is a key as the vault seals it for the session of a request; nil = the session is not sealed.
func (s *Server) SealFor(r *http.Request, group, ref string, key *format.Key) []byte {
	session, err := vaulttest.Session(context.Background(), s.store(), s.masterKey(),
		strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	s.must(err)
	if session == nil {
		return nil
	}
	return session.Seal(group, ref, key)
}

// proving has a request that was changed on its way be proven as it is now, as a service that lies can.
func (s *Server) proving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		proof := strings.Fields(r.Header.Get(wire.HeaderProof))
		if len(proof) != 4 || proof[1] == "-" {
			next.ServeHTTP(w, r)
			return
		}
		sum := sha256.Sum256(bodyOf(r))
		proven := wire.ProvenRequest{Method: r.Method, Target: r.RequestURI, Token: token, Body: &sum}
		session, err := vaulttest.Session(context.Background(), s.store(), s.masterKey(), token)
		if err == nil && session != nil { // else the service has ended, or refuses the request by itself
			if proven.Time, err = strconv.ParseInt(proof[0], 10, 64); err == nil {
				r.Header.Set(wire.HeaderProof, proven.Prove(wire.ProofKeys{Service: session.RequestKey(),
					Vault: session.VouchKey()}))
			}
		}
		next.ServeHTTP(w, r)
	})
}
