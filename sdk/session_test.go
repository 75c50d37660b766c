package sdk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// seen is what a service gets and answers, at one path.
type seen struct {
	mu      sync.Mutex
	headers []http.Header
	bodies  [][]byte // of requests
	answers [][]byte
	codes   []int
}

// watching notes all requests to a path.
func watching(s *shelf, path string) *seen {
	all := &seen{}
	s.Disturb(path, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			kept := httptest.NewRecorder()
			next.ServeHTTP(kept, r)
			all.mu.Lock()
			all.headers, all.bodies = append(all.headers, r.Header.Clone()), append(all.bodies, body)
			all.answers, all.codes = append(all.answers, kept.Body.Bytes()), append(all.codes, kept.Code)
			all.mu.Unlock()
			w.WriteHeader(kept.Code)
			_, _ = w.Write(kept.Body.Bytes())
		})
	})
	return all
}

// Threat 79: neither the API key, nor the key of a file that a client reads, is in what comes to the service or goes
// out of it, whole or in blocks, also after the epoch of the vault ended; and where a service has no sealed sessions,
// keys come as they always did.
func TestThreat79KeysComeSealed(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	signIns, reads := watching(s, wire.PathSessionToken), watching(s, wire.PathTools+wire.OpPrepareRetrieve)
	put, err := s.g.Put(t.Context(), "a.txt", strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	whole, blocks := s.entry(t, put.Ref), s.add(t, noise(3*small))
	c := s.Client(t, s.alice)
	read := func() {
		t.Helper()
		b := buffers(t, 1)[0]
		if _, err := c.Group("shelf").Retrieve(t.Context(), whole, b); err != nil || string(b.Bytes()) != "content" {
			t.Errorf("%q: %v", b.Bytes(), err)
		}
		f, err := c.Group("shelf").OpenBlocks(t.Context(), blocks)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	given := func(sealed bool) {
		t.Helper()
		for i, raw := range reads.answers {
			var a struct{ Result wire.PrepareRetrieveResult }
			if err := json.Unmarshal(raw, &a); err != nil || (a.Result.Key == "") != sealed ||
				sealed != (len(a.Result.SealedKey) == format.SessionKeyBytes) ||
				sealed != (reads.headers[i].Get(wire.HeaderProof) != "") {
				t.Errorf("%s: %v", raw, err)
			}
		}
		for i, raw := range signIns.bodies {
			hasKey := signIns.headers[i].Get(wire.HeaderAPIKey) != "" ||
				bytes.Contains(raw, []byte(s.alice.Key.Reveal()))
			if hasKey == sealed || sealed != (signIns.headers[i].Get(wire.HeaderOpening) != "") {
				t.Errorf("the service sees %s with %q", raw, signIns.headers[i].Get(wire.HeaderAPIKey))
			}
		}
		if len(reads.answers) != 2 || len(signIns.bodies) == 0 {
			t.Errorf("%d answers, %d sign-ins", len(reads.answers), len(signIns.bodies))
		}
		*reads, *signIns = seen{}, seen{}
	}
	*signIns = seen{} // of the client that put the files
	read()
	given(true)
	s.NextEpoch(true)
	if err := c.RefreshToken(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(signIns.codes); n != 2 || signIns.codes[0] != http.StatusConflict || signIns.codes[1] != http.StatusOK {
		t.Errorf("after the epoch ended: %v", signIns.codes)
	}
	read()
	given(true)
	s.Disturb(wire.PathCapabilities, func(next http.Handler) http.Handler {
		return testkit.Changed(next, func(c *wire.Capabilities) { c.Vault.Sessions = false })
	})
	c = s.Client(t, s.alice)
	read()
	given(false)
}

// Threat 79: a service that took the API key sealed gets it in the clear no more, whatever it says of itself.
func TestThreat79NoWayBackToTheClear(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	dir := t.TempDir()
	remembers := func(c *sdk.Config) { c.StateDir = dir }
	c := s.Client(t, s.alice, remembers)
	if _, err := c.Groups(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	signIns := watching(s, wire.PathSessionToken)
	for name, change := range map[string]func(*wire.Capabilities){
		"no sessions": func(c *wire.Capabilities) { c.Vault.Sessions = false },
		"no vault":    func(c *wire.Capabilities) { c.Vault = nil },
	} {
		s.Disturb(wire.PathCapabilities, func(next http.Handler) http.Handler { return testkit.Changed(next, change) })
		c := s.Client(t, s.alice, remembers)
		if _, err := c.Groups(t.Context()); !errors.Is(err, sdk.ErrUnavailable) || len(signIns.bodies) > 0 {
			t.Errorf("%s: %v after %d sign-ins", name, err, len(signIns.bodies))
		}
	}
}

// Threat 80: a token that was copied is of no use, nor is a request with another body, at another path or another time.
func TestThreat80CopiedTokens(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	seen := watching(s, wire.PathTools+wire.OpGetOwnedGroups)
	if _, err := s.c.Groups(t.Context()); err != nil {
		t.Fatal(err)
	}
	good, body := seen.headers[0], seen.bodies[0]
	s.Disturb(wire.PathTools+wire.OpGetOwnedGroups, nil)
	ask := func(what string, want int, change func(h http.Header, path *string, body *[]byte)) {
		t.Helper()
		h, path, b := good.Clone(), wire.PathTools+wire.OpGetOwnedGroups, body
		change(h, &path, &b)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = h
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", what, resp.StatusCode, want)
		}
	}
	proof := strings.Fields(good.Get(wire.HeaderProof))
	ask("the same request", http.StatusOK, func(http.Header, *string, *[]byte) {})
	ask("no proof", http.StatusUnauthorized, func(h http.Header, _ *string, _ *[]byte) { h.Del(wire.HeaderProof) })
	ask("another body", http.StatusUnauthorized, func(_ http.Header, _ *string, b *[]byte) {
		*b = []byte(`{"limit":3}`)
	})
	ask("no digest", http.StatusUnauthorized, func(h http.Header, _ *string, _ *[]byte) {
		h.Set(wire.HeaderProof, proof[0]+" - "+proof[2]+" "+proof[3])
	})
	ask("another path", http.StatusUnauthorized, func(_ http.Header, path *string, _ *[]byte) {
		*path = wire.PathTools + wire.OpGetMemberGroups
	})
	ask("another query", http.StatusUnauthorized, func(_ http.Header, path *string, _ *[]byte) { *path += "?x=1" })
	ask("another time", http.StatusUnauthorized, func(h http.Header, _ *string, _ *[]byte) {
		h.Set(wire.HeaderProof, "1"+proof[0][1:]+"0 "+proof[1]+" "+proof[2]+" "+proof[3])
	})
}

// Threat 81: a key that is taken sealed alone signs nobody in who sends it in the clear, nor does a sign-in link, until
// the operator makes another key.
func TestThreat81SealedOnly(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	link, err := s.Service.SignInLink(t.Context(), string(s.alice.ID), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var token wire.SessionTokenResult
	clear := func(key string) int {
		t.Helper()
		code, answer := s.posts(t, wire.PathSessionToken, http.Header{wire.HeaderAPIKey: {key}},
			wire.SessionTokenRequest{AccountID: string(s.alice.ID)})
		_ = json.Unmarshal(answer, &token)
		return code
	}
	if code := clear(s.alice.Key.Reveal()); code != http.StatusOK {
		t.Errorf("before: %d", code)
	}
	before := http.Header{"Authorization": {"Bearer " + token.Token}}
	groups := func() int {
		t.Helper()
		code, _ := s.posts(t, wire.PathTools+wire.OpGetOwnedGroups, before.Clone(), struct{}{})
		return code
	}
	if code := groups(); code != http.StatusOK {
		t.Errorf("a session in the clear: %d", code)
	}
	for range 2 {
		if err := s.c.SealAPIKey(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if code := clear(s.alice.Key.Reveal()); code != http.StatusForbidden {
		t.Errorf("in the clear: %d", code)
	}
	if code := groups(); code != http.StatusUnauthorized {
		t.Errorf("a session from before: %d", code)
	}
	_, secret, _ := strings.Cut(link, "#link=")
	if code, _ := s.posts(t, "/account/api/sign-in", http.Header{"Origin": {s.URL}, "X-Svc-Page": {"1"}},
		map[string]string{"link": secret}); code != http.StatusUnauthorized {
		t.Errorf("a link from before: %d", code)
	}
	if _, err = s.Service.SignInLink(t.Context(), string(s.alice.ID), s.URL); err == nil ||
		!strings.Contains(err.Error(), "rotate-key") {
		t.Errorf("a link: %v", err)
	}
	if _, err := s.Client(t, s.alice).Groups(t.Context()); err != nil {
		t.Errorf("sealed: %v", err)
	}
	made, err := s.Service.RotateKey(t.Context(), string(s.alice.ID))
	if err != nil {
		t.Fatal(err)
	}
	if code := clear(made.APIKey.Reveal()); code != http.StatusOK {
		t.Errorf("another key: %d", code)
	}
}

// posts sends JSON and returns the answer.
func (s *shelf) posts(t *testing.T, path string, header http.Header, body any) (int, []byte) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// Threat 80: a proxy may serve the service below a path of its own, which it takes off: the proof names what is left.
func TestThreat80ProofBehindAPath(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	to, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(to)
	var proofs atomic.Int64
	counts := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(wire.HeaderProof) != "" {
			proofs.Add(1)
		}
		behind.ServeHTTP(w, r)
	})
	proxy := httptest.NewServer(http.StripPrefix("/files", counts))
	t.Cleanup(proxy.Close)
	c := s.Client(t, s.alice, func(c *sdk.Config) {
		c.URL, c.MCPURL, c.AuthURL, c.RPCURL = proxy.URL+"/files/", "", "", ""
	})
	if _, err := c.Groups(t.Context()); err != nil || proofs.Load() != 2 {
		t.Errorf("%d requests were proven: %v", proofs.Load(), err)
	}
}
