package api

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// session returns the account that sent a request, from the headers alone. If there is a Bearer token, only the token
// counts, and the answer has the account checked. An API key needs its account beside it.
func (s *server) session(r *http.Request) (*auth.Session, error) {
	if len(r.Header.Values("Authorization")) > 1 || len(r.Header.Values(wire.HeaderAPIKey)) > 1 ||
		len(r.Header.Values(wire.HeaderAccountID)) > 1 {
		return nil, fault.New(wire.CodeInvalidToken, "Auth failed: malformed credential: a header was sent twice")
	}
	claimed := r.Header.Get(wire.HeaderAccountID)
	if headers := r.Header.Values("Authorization"); len(headers) > 0 { // also an empty one
		token, ok := strings.CutPrefix(headers[0], "Bearer ")
		if !ok {
			return nil, fault.New(wire.CodeInvalidToken, "Auth failed: malformed credential")
		}
		by, err := s.Tokens.Open(r.Context(), token)
		if err == nil {
			err = s.proven(r, by, token)
		}
		if err == nil && claimed != "" && claimed != by.Account {
			err = fault.New(wire.CodeInvalidToken, "Auth failed: account ID mismatch")
		}
		if err == nil {
			by.Guard(r.Context())
		}
		return by, err
	}
	key := r.Header.Get(wire.HeaderAPIKey)
	switch {
	case key == "":
		return nil, fault.New(wire.CodeAuthRequired, "Auth required: missing Bearer session token")
	case claimed == "":
		return nil, fault.New(wire.CodeAuthRequired,
			"Auth required: x-account-id must accompany the X-API-Key credential")
	}
	by, err := s.Tokens.ByKey(r.Context(), claimed, key)
	if err == nil {
		by.Guard(r.Context())
	}
	return by, err
}

// proven checks the proof of a request whose session is sealed, and has its body be read as it was proven.
func (s *server) proven(r *http.Request, by *auth.Session, token string) error {
	if !by.IsSealed() {
		return nil
	}
	asked := wire.ProvenRequest{Method: r.Method, Target: r.RequestURI, Token: token}
	asked, err := asked.CheckProof(by.RequestKey(), r.Header.Get(wire.HeaderProof))
	off := s.Ledger.Now().Sub(time.Unix(0, asked.Time)).Abs()
	if err == nil && off > wire.ProofLife && s.Tokens.Problem() == nil { // after a step of the clock nobody signs in
		err = fmt.Errorf("the request came %s after its proof, at most %s are allowed: sign in again; a proxy must "+
			"pass requests on as they come (nginx: proxy_request_buffering off)", off.Round(time.Second),
			wire.ProofLife)
	}
	if err != nil {
		return fault.New(wire.CodeInvalidToken, "Auth failed: %s", err.Error())
	}
	if asked.Body == nil {
		return nil
	}
	asked.Token = "" // it goes beside it
	body := &provenBody{ReadCloser: r.Body, left: r.ContentLength, sum: sha256.New(), want: *asked.Body}
	if vaultwire.AskedKind(asked.Target) != "" {
		body.kept = &bytes.Buffer{}
		by.Asked(asked, body.kept.Bytes)
	}
	r.Body = body
	return nil
}

// provenBody is a body that has an error in the place of its last bytes if it is not the one that was proven: who reads
// as many bytes as it expects sees no end.
type provenBody struct {
	io.ReadCloser
	left int64 // bytes that have not come; negative = not known
	sum  hash.Hash
	want [sha256.Size]byte
	kept *bytes.Buffer // what was read, of at most maxRequestBytes; nil = it is not needed
}

func (b *provenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.sum.Write(p[:n])
	if b.kept != nil && b.kept.Len() <= maxRequestBytes {
		b.kept.Write(p[:n])
	}
	b.left -= int64(n)
	if (err == io.EOF || b.left == 0) && [sha256.Size]byte(b.sum.Sum(nil)) != b.want {
		return 0, fault.New(wire.CodeInvalidToken, "Auth failed: the proof of the request is of another body")
	}
	return n, err
}

// authenticate returns the session of a request, which it checks.
func (s *server) authenticate(r *http.Request) (*auth.Session, error) {
	by, err := s.session(r)
	if err == nil {
		err = by.Look(r.Context())
	}
	return by, err
}

// signedIn authenticates a request from its headers, before anything of its body is
// read, and counts it.
func (s *server) signedIn(r *http.Request) (*auth.Session, error) {
	by, err := s.authenticate(r)
	if err == nil {
		err = s.admitAccount(r, by.Account)
	}
	return by, err
}

// caller is signedIn for the account alone.
func (s *server) caller(r *http.Request) (account string, err error) {
	by, err := s.signedIn(r)
	if err != nil {
		return "", err
	}
	return by.Account, nil
}

// unchecked is caller for a request whose answer has the session checked, before it tells or changes anything.
func (s *server) unchecked(r *http.Request) (*auth.Session, error) {
	by, err := s.session(r)
	if err != nil {
		return nil, err
	}
	return by, s.admitAccount(r, by.Account)
}

// sessionToken exchanges an API key for a token. The body names the account, and is not
// read unless the headers hold a key.
func (s *server) sessionToken(w http.ResponseWriter, r *http.Request) error {
	key, sealed := auth.Key{Clear: r.Header.Get(wire.HeaderAPIKey)}, r.Header.Get(wire.HeaderOpening)
	if key.Clear == "" && sealed == "" {
		return errNoKey()
	}
	raw, err := body(w, r, maxSignInBytes)
	if err != nil {
		return err
	}
	var req wire.SessionTokenRequest
	if err := decode(raw, &req); err != nil {
		return err
	}
	if key.Account = req.AccountID; key.Account == "" {
		return errNoKey()
	}
	if sealed != "" {
		opening, err := wire.ParseOpening(sealed)
		if err != nil {
			return fault.New(wire.CodeValidation, "%s: want the number of an epoch, and an opening in base64url",
				wire.HeaderOpening)
		}
		key.Opening = &vaultwire.Opening{Sealed: opening.Sealed,
			For: format.SessionFor{Service: s.ContractID, Account: key.Account, Epoch: opening.Epoch}}
	}
	token, err := s.Tokens.SignIn(r.Context(), key)
	if err != nil {
		return err
	}
	traceOf(r.Context()).account = key.Account
	writeJSON(w, http.StatusOK, wire.SessionTokenResult{Token: token, AccountID: key.Account,
		ExpiresIn: s.Tokens.Lifetime()})
	return nil
}

// sealAPIKey has the API key of the account be taken sealed alone from now on.
func (s *server) sealAPIKey(w http.ResponseWriter, r *http.Request, by *auth.Session, _ func(any) error) error {
	if !by.IsSealed() {
		return fault.New(wire.CodeValidation, "this program sends the API key in the clear, and could not sign in any "+
			"more: do it with svcfs seal-key")
	}
	if err := s.Accounts.SealKey(r.Context(), by.Account); err != nil {
		return err
	}
	result(w, "the API key is taken sealed alone from now on")
	return nil
}

// redeemInvite makes the account of an invite. This answer alone holds its key.
func (s *server) redeemInvite(w http.ResponseWriter, r *http.Request) error {
	raw, err := body(w, r, maxSignInBytes)
	if err != nil {
		return err
	}
	var req wire.InviteRequest
	if err := decode(raw, &req); err != nil {
		return err
	}
	account, key, err := s.Accounts.RedeemInvite(r.Context(), req.Secret)
	if err != nil {
		return err
	}
	traceOf(r.Context()).account = account
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, wire.InviteResult{AccountID: account, APIKey: key.Reveal()})
	return nil
}

func errNoKey() error {
	return fault.New(wire.CodeAuthRequired, "API key required: send X-API-Key and account_id; the operator makes a "+
		"key with: svcd account create NAME")
}

func (s *server) loginProbe(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"authenticated": false, "message": "no session"})
}
