package sdk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// putWrong records an upload of alice's whose hash is that of something else.
func putWrong(t *testing.T, s *testkit.Server, alice *sdk.Client, g sdk.GroupID, content []byte) sdk.Entry {
	t.Helper()
	right, wrong := sdk.ComputeHash(content).String(), sdk.ComputeHash([]byte("something else")).String()
	path := wire.PathTools + wire.OpFinalizeUpload
	s.Disturb(path, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			body = bytes.ReplaceAll(body, []byte(right), []byte(wrong))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			next.ServeHTTP(w, r)
		})
	})
	_, _ = alice.Group(g).Put(t.Context(), "wrong", bytes.NewReader(content)) // she is told that it is not what she sent
	s.Disturb(path, nil)
	list, err := alice.Group(g).Entries(t.Context())
	if err != nil || len(list) != 1 || list[0].Hash.String() != wrong {
		t.Fatalf("recorded is %v, %v", list, err)
	}
	return list[0]
}

// Content with a wrong hash is charged once, however often it is asked for, and
// everything that failed shares its claim with the next try.
func TestFailedRetrievalsShareAClaim(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Keyless)
	alice, bob := s.Client(t, s.Account("alice", "10")), s.Client(t, s.Account("bob", "1"))
	if _, err := alice.Group("g").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.Group("g").Add(t.Context(), bob.Account()); err != nil {
		t.Fatal(err)
	}
	e := putWrong(t, s, alice, "g", []byte("content"))
	b := buffer(t, 0)
	for range 10 {
		_, err := bob.Group(e.Group).Retrieve(t.Context(), e, b)
		if !errors.Is(err, sdk.ErrWrongContent) || !errors.Is(err, sdk.ErrCorrupt) || strings.Contains(err.Error(), "content of") || b.Len() != 0 {
			t.Fatalf("%v, and %d bytes", err, b.Len())
		}
	}
	left, err := bob.Balance(t.Context(), "")
	if err != nil || left.Tokens() != "0.987" {
		t.Errorf("after ten tries bob has %s, %v; want one charge of 0.013", left.Tokens(), err)
	}
	// A retrieval that succeeded is over: the next one is another.
	r, err := alice.Group("g").Put(t.Context(), "right", bytes.NewReader([]byte("right")))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := bob.Group(sdk.Entry{Group: "g", Ref: r.Ref, Hash: r.Hash, Size: r.Size}.Group).Retrieve(t.Context(), sdk.Entry{Group: "g", Ref: r.Ref, Hash: r.Hash, Size: r.Size}, b); err != nil {
			t.Fatal(err)
		}
	}
	if left, err = bob.Balance(t.Context(), ""); err != nil || left.Tokens() != "0.961" {
		t.Errorf("bob has %s, %v; want two charges more", left.Tokens(), err)
	}
}

// The claims that are kept are bounded.
func TestKeptClaimsAreBounded(t *testing.T) {
	t.Parallel()
	c, err := sdk.New("a", sdk.Config{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		if n := sdk.KeepClaim(c, sdk.Ref(fmt.Sprint(i))); n > 4096 {
			t.Fatalf("%d claims are kept", n)
		}
	}
}
