package sdk

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// FuzzAddress: an address that is accepted is https or loopback, and holds no
// password.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"https://h", "http://127.0.0.1", "http://localhost:1/", "http://127.0.0.1.evil", "http://[::1]", "http://user@h", "https://h#x", "http://0x7f.1", "\x00", "http://LOCALHOST"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		c, err := New("a", Config{URL: address})
		if err != nil || address == "" {
			return
		}
		u, err := url.Parse(c.NetworkInfo().MCPURL)
		if err != nil || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && !call.IsLoopback(u.Hostname()) {
			t.Errorf("%q was accepted as %v, %v", address, u, err)
		}
	})
}

// FuzzView: what a node of the ledger answers, with any status, never panics and
// is a value or an error of one line.
func FuzzView(f *testing.F) {
	numbers := func(text string) string {
		list := make([]int, len(text))
		for i, b := range []byte(text) {
			list[i] = int(b)
		}
		raw, _ := json.Marshal(list)
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"result":%s}}`, raw)
	}
	for _, seed := range []string{numbers("7"), numbers(`"alice"`), numbers("true"), numbers("null"), numbers(`"` + strings.Repeat("9", 100) + `"`), `{"result":{"amount":"5","locked":"0"}}`,
		`{"result":{"error":"wasm execution failed"}}`, `{"error":{"cause":{"name":"UNKNOWN_ACCOUNT"},"message":"Server error","data":"account x does not exist while viewing"}}`,
		`{"error":"text"}`, `{"error":[]}`, `{"result":null}`, `{"result":{"result":"AQI="}}`, `[]`, `<html>`} {
		f.Add(200, []byte(seed))
		f.Add(422, []byte(seed))
	}
	var status atomic.Int64
	var body atomic.Pointer[[]byte]
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write(*body.Load())
	}))
	f.Cleanup(h.Close)
	c, err := New("alice.svc.testnet", Config{URL: h.URL})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close() })
	f.Fuzz(func(t *testing.T, code int, raw []byte) {
		if code != 200 && (code < 400 || code > 499 || code == 408 || code == 429) {
			return // informational, or repeated with pauses
		}
		status.Store(int64(code))
		body.Store(&raw)
		ctx := context.Background()
		_, balance := c.Balance(ctx, "")
		_, fee := c.EstimateFee(ctx, "upload")
		owner, err := c.Group("g").Owner(ctx)
		if err == nil && owner == "" {
			t.Errorf("a group without an owner: %s", raw)
		}
		_, member := c.Group("g").IsAuthorized(ctx, "")
		_, sum := c.Group("g").Checksum(ctx)
		for _, err := range []error{balance, fee, err, member, sum} {
			var own *Error
			if err != nil && (!errors.As(err, &own) || strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 1000) {
				t.Errorf("%d %q: %v", code, raw, err)
			}
		}
	})
}

// FuzzAnswers: whatever a service answers to a token, to the question for its
// dialect and to every operation, each ends with a value or an error of one
// line, a file with its content, and the plaintext of an upload is restored.
func FuzzAnswers(f *testing.F) {
	const row = `{"trans_id":"t","user_id":"alice","ipfs_hash":"r","file_hash":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","timestamp":"1","filename":"../x","original_size":-5,"seq":9,"hash":"00","fee":"1"}`
	everything := `{"service":"svcd","dialect":1,"max_file_bytes":-1,"fees":{"upload":"x"}}`
	caps := []string{everything, `{"dialect":0}`, `{"dialect":9}`, `{"dialect":"1"}`, `{"dialect":-1}`, `{"fees":[]}`, `null`, `[]`, ``}
	answers := []string{`{"result":[` + row + `]}`, `{"result":[null,{}]}`, `[]`, `{"result":"words"}`, `{"message":"words"}`, `{"result":{"message":{"a":1}}}`, `{"error":"User not authorized","code":7}`,
		`{"result":["a","b",""]}`, `{"result":[1]}`, `{"result":{"events":[{"seq":2,"kind":"record_transaction","group_id":"g","time":"1"}],"seq":2}}`, `{"result":{"events":[{"seq":-9}],"seq":-9}}`,
		`{"result":{"upload_id":"u","key":"` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))) + `","upload_url":"/raw/upload/u","location":"r","trans_id":"\"t\"","file_hash":"` + ComputeHash([]byte("abc")).String() + `","fee":"5","seq":-1,"timestamp":"1e9"}}`,
		`{"result":{"key":7,"encrypted_b64":[],"format":{"version":1}}}`, `{"authenticated":true,"authorized_for_group":"yes"}`, `{"result":null}`, ``, `<html>`}
	for i, answer := range answers {
		f.Add(200, []byte(`{"token":"t","expires_in":"24h"}`), []byte(caps[i%len(caps)]), []byte(answer))
		f.Add(404, []byte(`{"token":"t"}`), []byte(everything), []byte(answer))
	}
	for _, token := range []string{`{"token":7}`, `{"token":""}`, `{"token":"a.b.c","expires_in":{}}`, `[]`, ``, `{"error":"Invalid API key"}`} {
		f.Add(200, []byte(token), []byte(everything), []byte(answers[0]))
	}
	var now atomic.Pointer[[3][]byte]
	var status atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		said := now.Load()
		switch r.URL.Path {
		case wire.PathSessionToken:
			_, _ = w.Write(said[0])
		case wire.PathCapabilities:
			_, _ = w.Write(said[1])
		default:
			w.WriteHeader(int(status.Load()))
			_, _ = w.Write(said[2])
		}
	}))
	f.Cleanup(h.Close)
	c, err := New("alice.svc.testnet", Config{URL: h.URL,
		APIKey: NewSecret("svc_sk_0123456789012345678901234567890123456789012"), MaxFileBytes: 1 << 20,
		Transport: http.DefaultTransport})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = c.Close() })
	f.Fuzz(func(t *testing.T, code int, token, caps, answer []byte) {
		if code != 200 && (code < 400 || code > 499 || code == 408 || code == 429) {
			return // informational, or repeated with pauses
		}
		status.Store(int64(code))
		now.Store(&[3][]byte{token, caps, answer})
		c.forgetAll()
		for name, err := range everyCall(t, c) {
			var own *Error
			if err != nil && (!errors.As(err, &own) || strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 1000) {
				t.Errorf("%s: %d %q %q %q: %v", name, code, token, caps, answer, err)
			}
		}
	})
}

// forgetAll makes the client as if new, with its connections.
func (c *Client) forgetAll() {
	c.caps, c.uploads = &capabilities{c: c}, newUploader(c)
	c.calls = call.New(c.cfg.calls(c.account))
}

// everyCall makes every call that reads what a service answers.
func everyCall(t *testing.T, c *Client) map[string]error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	errs := map[string]error{}
	note := func(name string, err error) { errs[name] = err }
	const g, member = GroupID("g"), AccountID("bob")
	change := func(name string, call func() (Change, error)) { _, err := call(); note(name, err) }
	change("register", func() (Change, error) { return c.Group(g).Register(ctx) })
	change("add", func() (Change, error) { return c.Group(g).Add(ctx, member) })
	change("revoke", func() (Change, error) { return c.Group(g).Revoke(ctx, member) })
	change("join", func() (Change, error) { return c.Group(g).Join(ctx) })
	change("close", func() (Change, error) { return c.Group(g).CloseJoin(ctx) })
	change("retention", func() (Change, error) { return c.Group(g).Settings().ClearRetention(ctx) })
	_, err := c.Group(g).Delete(ctx, "r")
	note("delete", err)
	_, err = c.Group(g).Rename(ctx, "r", "n")
	note("rename", err)
	_, err = c.Group(g).RenameFolder(ctx, "a", "b", 1)
	note("rename folder", err)
	_, err = c.Group(g).MakeFolder(ctx, "a")
	note("make folder", err)
	_, err = c.Group(g).RemoveFolder(ctx, "a")
	note("remove folder", err)
	_, err = c.Group(g).AuthStatus(ctx)
	note("status", err)
	_, err = c.Groups(ctx)
	note("groups", err)
	_, err = c.Group(g).Members(ctx)
	note("members", err)
	_, err = c.Group(g).Records(ctx)
	note("ledger", err)
	_, err = c.log.fetch(ctx, "checkpoint")
	note("tlog", c.wrap("read", "", "", err))
	_, _ = c.Price("upload")
	entries, err := c.Group(g).Entries(ctx)
	note("entries", err)
	for _, e := range entries {
		if e.Ref == "" || e.Size < SizeUnknown || e.Seq < 0 || e.ChangedSeq < e.Seq {
			t.Errorf("entry %+v", e)
		}
	}
	events, err := c.Watch(ctx, 1)
	note("watch", err)
	note("upload", uploadABC(t, c))
	note("retrieve", retrieveABC(t, c))
	cancel()
	if events != nil {
		for range events { // ends with an error
		}
	}
	return errs
}

func uploadABC(t *testing.T, c *Client) error {
	content := []byte("abc")
	if known := c.caps.seen(); known != nil && known.Dialect.IsOurs() {
		content = bytes.Repeat(content, 30_000)
	}
	b, err := c.pool.Get(int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	copy(b.Bytes(), content)
	r, err := c.Group("g").Upload(context.Background(), "f", b)
	if !bytes.Equal(b.Bytes(), content) {
		t.Error("the plaintext was not restored")
	}
	if err == nil && (r.Ref == "" || r.Hash != ComputeHash(content)) {
		t.Errorf("receipt %+v", r)
	}
	return err
}

func retrieveABC(t *testing.T, c *Client) error {
	b, err := c.pool.Get(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	_, err = c.Group("g").Retrieve(context.Background(), Entry{Group: "g", Ref: "r", Hash: ComputeHash([]byte("abc")), Size: SizeUnknown}, b)
	if err == nil && string(b.Bytes()) != "abc" || err != nil && b.Len() != 0 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	return err
}

// FuzzClassify: no text of a service panics, goes unbounded into a message, or
// carries a control character or our key there.
func FuzzClassify(f *testing.F) {
	for _, seed := range []string{"Audience", "not found", "User not authorized", "Insufficient", "File deleted", "Bearer abc", "svc_sk_x", "<html>", "\x1b[31m\u202e"} {
		f.Add(500, "", seed)
		f.Add(404, wire.CodeFileDeleted, seed)
	}
	const key = "svc_sk_0123456789012345678901234567890123456789012"
	c, err := New("alice.svc.testnet", Config{URL: "http://127.0.0.1:1", APIKey: NewSecret(key)})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, code, text string) {
		wrapped := c.wrap("try", "g", "r", refusalOf(c, status, code, text+key+text))
		message := wrapped.Error()
		if len(message) > 700 || strings.Contains(message, key) ||
			strings.ContainsFunc(message, func(r rune) bool { return r < ' ' || r == '\u202e' }) {
			t.Errorf("message %q", message)
		}
		if KindOf(wrapped) > ErrPending {
			t.Errorf("kind %d", KindOf(wrapped))
		}
	})
}
