package service_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// signInLog is a log that a running service writes.
type signInLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *signInLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *signInLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Threat 32: the log names sign-ins and failed ones, and no secret, even one that was
// sent in the wrong place.
func TestThreat32SignInsAreLogged(t *testing.T) {
	t.Parallel()
	var log signInLog
	r := runWith(t, service.Config{SignInLogger: slog.New(slog.NewTextHandler(&log, nil)), Database: newDatabase(t)})
	alice := r.user("alice", "1")
	for _, want := range []string{"signed in", `by="api key"`, "account=alice.svc.testnet", "client=127.0.0.1",
		"request="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("a sign-in: no %q in\n%s", want, log.String())
		}
	}
	wrong := strings.Repeat("w", 20) + "-canary"
	try := func(header http.Header, request any) {
		t.Helper()
		if code, _ := r.post(wire.PathSessionToken, header, request); code < 400 {
			t.Errorf("signed in: %d", code)
		}
	}
	try(http.Header{wire.HeaderAPIKey: {alice.key + wrong}}, object{"account_id": alice.id})
	try(http.Header{wire.HeaderAPIKey: {alice.key}}, object{"account_id": alice.key})
	try(http.Header{wire.HeaderAPIKey: {wrong}}, object{"account_id": alice.id})
	r.post(wire.PathTools+wire.OpRegisterGroup, http.Header{"Authorization": {"Bearer " + alice.token + "x"}}, object{})
	if _, err := r.svc.SignInLink(t.Context(), "alice", ""); err == nil {
		t.Error("a link without an address")
	}
	text := log.String()
	if n := strings.Count(text, "level=WARN msg=\"sign-in failed\""); n < 4 {
		t.Errorf("%d failures in\n%s", n, text)
	}
	// also of a key that is none
	if n := strings.Count(text, `by="api key" account=alice.svc.testnet code=`+wire.CodeInvalidKey); n != 2 {
		t.Errorf("%d failures name alice in\n%s", n, text)
	}
	if !strings.Contains(text, `by="session token"`) {
		t.Errorf("failures in\n%s", text)
	}
	for _, secret := range []string{alice.key, alice.token, "canary"} {
		if strings.Contains(text, secret) {
			t.Errorf("a secret in\n%s", text)
		}
	}
}
