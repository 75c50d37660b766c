package integration

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSignInLinkOfTheOperator takes the link that svcd prints beside the running
// service through a sign-in, as the account page does it.
func TestSignInLinkOfTheOperator(t *testing.T) {
	w := newWorld(t)
	w.account("alice", "10")
	cmd := exec.Command(filepath.Join(w.bin, "svcd"), "account", "link", "alice", "--data", w.data)
	var said bytes.Buffer
	cmd.Env, cmd.Stderr = w.env(), &said
	out, err := cmd.Output()
	link, secret, found := strings.Cut(strings.TrimSpace(string(out)), "#link=")
	if err != nil || !found || link != w.url+"/account/" || len(secret) != 43 {
		t.Fatalf("%v: %q, %s", err, out, &said)
	}
	if !strings.Contains(said.String(), "once, for 15 minutes") || strings.Contains(said.String(), secret) {
		t.Errorf("svcd said %q", &said)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
	if status, body := fetch(t, client, http.MethodGet, link, ""); status != http.StatusOK ||
		!strings.Contains(body, `src="app.js"`) {
		t.Errorf("the page: %d %s", status, body)
	}
	signIn := func(client *http.Client) (int, string) {
		return fetch(t, client, http.MethodPost, link+"api/sign-in", `{"link":"`+secret+`"}`)
	}
	if status, body := signIn(client); status != http.StatusOK {
		t.Fatalf("sign-in: %d %s", status, body)
	}
	if status, body := fetch(t, client, http.MethodGet, link+"api/session", ""); status != http.StatusOK ||
		!strings.Contains(body, `"alice.svc.testnet"`) {
		t.Errorf("session: %d %s", status, body)
	}
	if status, body := signIn(http.DefaultClient); status != http.StatusUnauthorized {
		t.Errorf("second use: %d %s", status, body)
	}
	if strings.Contains(w.log.String(), secret) {
		t.Error("the log holds the link's secret")
	}
	if out, err := w.svcd("account", "link", "nobody"); err == nil || !strings.Contains(out, "svcd account create") {
		t.Errorf("link of nobody: %v %s", err, out)
	}
}

func fetch(t *testing.T, client *http.Client, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Svc-Page": {"1"},
		"Origin": {req.URL.Scheme + "://" + req.URL.Host}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}
