package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// liar is a proxy before a real service that changes lists, and leaves records with
// hashes, tiles and checkpoints alone.
type liar struct {
	mu     sync.Mutex
	change func(rows []map[string]any) []map[string]any
}

func newLiar(t *testing.T, service string) (l *liar, address string) {
	t.Helper()
	target, err := url.Parse(service)
	if err != nil {
		t.Fatal(err)
	}
	l = &liar{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = l.alter
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = target.Host
		if strings.HasSuffix(r.URL.Path, wire.OpGetGroupTransactions) {
			raw, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(raw))
			if bytes.Contains(raw, []byte(`"kinds":"all"`)) {
				r.Header.Set("X-Truth", "1")
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return l, server.URL
}

func (l *liar) tell(change func(rows []map[string]any) []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change = change
}

func (l *liar) alter(r *http.Response) error {
	l.mu.Lock()
	change := l.change
	l.mu.Unlock()
	if change == nil || !strings.HasSuffix(r.Request.URL.Path, wire.OpGetGroupTransactions) ||
		r.StatusCode != http.StatusOK || r.Request.Header.Get("X-Truth") != "" {
		return nil
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var answer map[string]any
	if err := d.Decode(&answer); err != nil {
		return err
	}
	var rows []map[string]any
	for _, row := range answer["result"].([]any) {
		rows = append(rows, row.(map[string]any))
	}
	answer["result"] = change(rows)
	if raw, err = json.Marshal(answer); err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	r.Header.Del("Content-Length")
	return nil
}

func swapNames(rows []map[string]any) []map[string]any {
	for _, row := range rows {
		for _, field := range []string{"detail", "filename"} {
			switch row[field] {
			case "payroll.txt":
				row[field] = "draft.txt"
			case "draft.txt":
				row[field] = "payroll.txt"
			}
		}
	}
	return rows
}

func dropNewest(rows []map[string]any) []map[string]any { return rows[:max(len(rows)-1, 0)] }

// fieldOfUploads changes a field of every row of a file.
func fieldOfUploads(field string, value any) func([]map[string]any) []map[string]any {
	return func(rows []map[string]any) []map[string]any {
		for _, row := range rows {
			if row["ipfs_hash"] != "" {
				row[field] = value
			}
		}
		return rows
	}
}

// Threat 5: the real service behind a proxy that lies consistently in lists. No
// command and no mount shows a false name, version, uploader, time or content.
func TestThreat5LyingListsOfARealService(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.account("alice", "100"), w.account("bob", "100")
	alice.must("group", "create", "board")
	alice.must("group", "add", "board", bob.id)
	for _, f := range [][2]string{{"payroll.txt", "version 1\n"}, {"draft.txt", "DRAFT: pay Mallory 999999\n"},
		{"payroll.txt", "version 2\n"}} {
		path := w.mkdir("in") + "/" + f[0]
		ok(t, os.WriteFile(path, []byte(f[1]), 0o600))
		alice.must("put", "board", path)
	}
	l, proxied := newLiar(t, w.url)
	w.url = proxied
	if got := bob.must("get", "board", "payroll.txt"); got != "version 2\n" {
		t.Fatalf("got %q", got)
	}
	m := bob.mount("bob")
	opening := chain.Opening{Size: 10, Hash: sha256.Sum256([]byte("version 3\n"))}
	for name, lie := range map[string]func([]map[string]any) []map[string]any{
		"names": swapNames, "newest version": dropNewest, "uploader": fieldOfUploads("user_id", "ceo.svc.testnet"),
		"time": fieldOfUploads("timestamp", "999999999000000000"), "hash": fieldOfUploads("opening", opening.String()),
	} {
		l.tell(lie)
		for _, args := range [][]string{{"get", "board", "payroll.txt"}, {"ls", "-l", "board"}, {"ledger", "board"},
			{"ledger", "board", "--verify"},
			{"put", "board", w.dir + "/in/draft.txt", "--update"}} {
			out, code := bob.try(args...)
			if code == 0 || !strings.Contains(out, "not what it signed") {
				t.Errorf("%s: svcfs %s: exit %d: %s", name, args[0], code, out)
			}
		}
		bob.try("refresh", m.dir)
	}
	if raw, err := os.ReadFile(m.path("board", "payroll.txt")); !errors.Is(err, syscall.EIO) {
		t.Errorf("a mount that saw nothing before: %q, %v", raw, err)
	}
	if why := m.control("errors"); !strings.Contains(why, "not what it signed") {
		t.Errorf("the mount told nobody: %q", why)
	}
	l.tell(nil)
	bob.must("refresh", m.dir)
	if raw, err := os.ReadFile(m.path("board", "payroll.txt")); err != nil || string(raw) != "version 2\n" {
		t.Errorf("after the truth: %q, %v", raw, err)
	}
	if got := bob.must("get", "board", "payroll.txt"); got != "version 2\n" {
		t.Errorf("after the truth: %q", got)
	}
}
