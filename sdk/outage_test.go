package sdk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
)

// E7: the token expired while the network was gone: the first request fetches a new one, and the
// program notices nothing.
func TestE7TokenExpiredMeanwhile(t *testing.T) {
	t.Parallel()
	var signIns, refused atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == wire.PathSessionToken:
			signIns.Add(1)
			_, _ = io.WriteString(w, `{"token":"token-`+string('0'+rune(signIns.Load()))+`","account_id":"a.svc","expires_in":"24h"}`)
		case r.URL.Path != wire.PathTools+wire.OpGetOwnedGroups:
			http.NotFound(w, r)
		case signIns.Load() == 1 && refused.Load() == 1: // the first token is over
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"the token has expired","code":"`+wire.CodeInvalidToken+`"}`)
		default:
			refused.CompareAndSwap(0, 1)
			_, _ = io.WriteString(w, `{"result":[]}`)
		}
	}))
	defer server.Close()
	c, err := New("a.svc", Config{URL: server.URL, APIKey: NewSecret("key")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 3 {
		if _, err := c.OwnedGroups(t.Context()); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if signIns.Load() != 2 || refused.Load() != 2 {
		t.Errorf("%d sign-ins, %d steps", signIns.Load(), refused.Load())
	}
}

// A key that the service refuses is no good key, whatever is said about the place where another one is looked for.
func TestRefusedKeyIsUnauthenticated(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"Invalid API key","code":"`+wire.CodeInvalidKey+`"}`)
	}))
	t.Cleanup(server.Close)
	unreadable := &Error{Op: "read the key", Kind: ErrInvalid, Code: "other", Err: errors.New("others may read it")}
	c, err := New("a.svc", Config{URL: server.URL, APIKey: NewSecret("key"),
		NewKey: func(context.Context) (Secret, error) { return Secret{}, unreadable }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one is not asked
		var own *Error
		_, err := c.AuthStatus(t.Context())
		if !errors.As(err, &own) || own.Kind != ErrUnauthenticated || own.Code != wire.CodeInvalidKey ||
			!errors.Is(err, unreadable) {
			t.Errorf("%v: %+v", err, own)
		}
	}
}
