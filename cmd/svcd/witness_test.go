package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire/cosign"
	"github.com/svcfs/svcfs/service/witness"
)

// logKey is a verifier key of nobody.
const logKey = "files.example.org/svc.testnet+1e1d2e5b+AQ=="

func TestWitnessRefusals(t *testing.T) {
	for want, args := range map[string][]string{
		"no data directory":      {"witness", "--log", logKey},
		"no log to witness":      {"witness", "--data", t.TempDir()},
		"want NAME+HASH+KEY":     {"witness", "--data", t.TempDir(), "--log", logKey},
		"--witness-key together": {"serve", "--data", t.TempDir(), "--witness", "https://witness.example.org"},
	} {
		var stderr strings.Builder
		if code := run(t.Context(), args, io.Discard, &stderr); code == exitOK ||
			!strings.Contains(stderr.String(), want) {
			t.Errorf("%q: exit code %d, %s", args, code, stderr.String())
		}
	}
}

// It shows its key, answers, and ends with its context.
func TestWitnessRuns(t *testing.T) {
	service := startServe(t)
	resp, err := http.Get(service.url + "/tlog/key")
	if err != nil {
		t.Fatal(err)
	}
	key, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"witness", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--replay",
			"--log", strings.TrimSpace(string(key))}, stdout, io.Discard)
	}()
	lines := bufio.NewReader(out)
	first, err1 := lines.ReadString('\n')
	second, err2 := lines.ReadString('\n')
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if _, err := cosign.NewVerifier(strings.TrimSpace(strings.TrimPrefix(first, "witness key "))); err != nil {
		t.Error(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(second, "listening on "))
	for _, path := range []string{witness.Path, witness.ReplayPath} {
		resp, err = http.Post(url+path, "", strings.NewReader("nothing"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s answered nothing with %d", path, resp.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	end()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// A witness has a folder of its own, without a default.
func TestHelpOfTheWitness(t *testing.T) {
	out, _, _ := execute(t, "witness", "--help")
	if strings.Contains(out, "default: /var/lib/svcd,") ||
		!strings.Contains(out, "folder with the key of the witness") {
		t.Error(out)
	}
}
