package api

import (
	"net/http"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
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
	generation, err := s.Accounts.CheckKey(r.Context(), claimed, key)
	if err == nil {
		s.Accounts.GuardKey(r.Context(), claimed, generation)
	}
	return auth.Checked(claimed), err
}

// authenticate returns the account that sent a request, which it checks.
func (s *server) authenticate(r *http.Request) (account string, err error) {
	by, err := s.session(r)
	if err == nil {
		err = by.Look(r.Context())
	}
	if err != nil {
		return "", err
	}
	return by.Account, nil
}

// caller authenticates a request from its headers, before anything of its body is
// read, and counts it.
func (s *server) caller(r *http.Request) (account string, err error) {
	if account, err = s.authenticate(r); err != nil {
		return "", err
	}
	return account, s.admitAccount(r, account)
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
	key := r.Header.Get(wire.HeaderAPIKey)
	if key == "" {
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
	if req.AccountID == "" {
		return errNoKey()
	}
	generation, err := s.Accounts.CheckKey(r.Context(), req.AccountID, key)
	if err != nil {
		return err
	}
	token, err := s.Tokens.Issue(r.Context(), req.AccountID, generation)
	if err != nil {
		return err
	}
	traceOf(r.Context()).account = req.AccountID
	s.SignedIn(r.Context())
	writeJSON(w, http.StatusOK, wire.SessionTokenResult{Token: token, AccountID: req.AccountID,
		ExpiresIn: s.Tokens.Lifetime()})
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
