package auth_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/service/auth"
)

// Strangers add only a few lines a minute to the log of sign-ins, and take no room from
// those of accounts.
func TestThreat32SignInLogIsBounded(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	s := auth.NewSignIns(slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	for i := range 50_000 {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		s.Failed(auth.WithClient(t.Context(), addr), "api key", fmt.Sprintf("account%d", i), "INVALID_KEY")
	}
	if n := strings.Count(log.String(), "\n"); n > 60 {
		t.Errorf("%d lines of failures in a minute", n)
	}
	log.Reset()
	for range 1000 {
		s.Good(t.Context(), "api key", "alice.svc.testnet")
	}
	s.Good(t.Context(), "api key", "bob.svc.testnet")
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "account=alice.svc.testnet") ||
		!strings.Contains(text, "account=bob.svc.testnet") {
		t.Errorf("sign-ins:\n%s", text)
	}
	log.Reset()
	now = now.Add(2 * time.Hour)
	s.Flush(t.Context())
	if text := log.String(); !strings.Contains(text, "count=999") || !strings.Contains(text, "count=49940") {
		t.Errorf("what was not listed is not counted:\n%s", text)
	}
	s.Flush(t.Context())
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("counted twice: %d lines", n)
	}
}

// A few failures of one kind are a line each, for programs that count them; the rest are counted.
func TestEachOfAFewFailuresIsALine(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	s := auth.NewSignIns(slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	for range 8 {
		s.Failed(t.Context(), "api key", "alice.svc.testnet", "INVALID_KEY")
	}
	if n := strings.Count(log.String(), "account=alice.svc.testnet"); n != 5 {
		t.Errorf("%d lines of 8 failures, want 5", n)
	}
	log.Reset()
	now = now.Add(time.Minute)
	s.Flush(t.Context())
	if text := log.String(); !strings.Contains(text, "count=3") {
		t.Errorf("the rest is not counted:\n%s", text)
	}
}

// Accounts without a log of sign-ins have none to write to.
func TestNoSignInLog(t *testing.T) {
	var s *auth.SignIns
	s.Good(t.Context(), "api key", "alice.svc.testnet")
	s.Failed(t.Context(), "session token", "", "X")
	s.Flush(t.Context())
}
