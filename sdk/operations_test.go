package sdk_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

const canary = "the plaintext that must never show in an error"

// called is an operation of specification 4.2, or one that belongs to it.
type called struct {
	name  string
	paths []string // where it asks; a lie is told at the first; none: it is local
	// message: a success without words is good enough, as in the JavaScript SDK.
	message bool
	call    func(ctx context.Context, c *sdk.Client, e sdk.Entry) error
}

func (o called) ledger() bool { return len(o.paths) > 0 && o.paths[0] == wire.PathRPC }

// calls are the twenty operations; moreCalls what services offer beside them.
func calls() []called {
	tool := func(op string) []string { return []string{wire.PathTools + op} }
	rpc := []string{wire.PathRPC}
	return []called{
		{"upload: prepare", tool(wire.OpPrepareUpload), false, uploadCanary},
		{"upload: finalize", tool(wire.OpFinalizeUpload), false, uploadCanary},
		{"retrieve", tool(wire.OpPrepareRetrieve), false, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			b, err := mem.NewPool().Get(0)
			if err != nil {
				return err
			}
			defer b.Release()
			_, err = c.Group(e.Group).Retrieve(ctx, e, b)
			return err
		}},
		{"registerGroup", tool(wire.OpRegisterGroup), true, func(ctx context.Context, c *sdk.Client, _ sdk.Entry) error { return last(c.Group("new").Register(ctx)) }},
		{"addGroupMember", tool(wire.OpAddGroupMember), true, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).Add(ctx, "bob"))
		}},
		{"joinGroup", tool(wire.OpJoinGroup), true, func(ctx context.Context, c *sdk.Client, _ sdk.Entry) error {
			return last(c.Group("elsewhere").Join(ctx))
		}},
		{"revokeGroupMember", tool(wire.OpRevokeGroupMember), true, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).Revoke(ctx, "bob"))
		}},
		{"authStatus", tool(wire.OpAuthStatus), false, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).AuthStatus(ctx))
		}},
		{"isAuthorized", rpc, false, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).IsAuthorized(ctx, ""))
		}},
		{"getGroupRetention", rpc, false, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			_, _, err := c.Group(e.Group).Settings().Retention(ctx)
			return err
		}},
		{"getGroupOwner", rpc, false, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error { return last(c.Group(e.Group).Owner(ctx)) }},
		{"getGroupChecksum", rpc, false, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).Checksum(ctx))
		}},
		{"getTransactionsForGroup", tool(wire.OpGetGroupTransactions), false, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).Entries(ctx))
		}},
		{"getOwnedGroups", tool(wire.OpGetOwnedGroups), false, func(ctx context.Context, c *sdk.Client, _ sdk.Entry) error { return last(c.OwnedGroups(ctx)) }},
		{"getMemberGroups", tool(wire.OpGetMemberGroups), false, func(ctx context.Context, c *sdk.Client, _ sdk.Entry) error { return last(c.MemberGroups(ctx)) }},
		{"getGroupMembers", tool(wire.OpGetGroupMembers), false, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).Members(ctx))
		}},
		{"getBalance", rpc, false, func(ctx context.Context, c *sdk.Client, _ sdk.Entry) error { return last(c.Balance(ctx, "")) }},
		{"estimateFee", rpc, false, func(ctx context.Context, c *sdk.Client, _ sdk.Entry) error { return last(c.EstimateFee(ctx, "upload")) }},
		{"refreshToken", []string{wire.PathSessionToken}, false, func(ctx context.Context, c *sdk.Client, _ sdk.Entry) error { return c.RefreshToken(ctx) }},
		{"getNetworkInfo", nil, false, func(_ context.Context, c *sdk.Client, _ sdk.Entry) error {
			if n := c.NetworkInfo(); n.Network != sdk.Testnet || n.ContractID != testkit.ContractID || n.RPCURL != n.MCPURL+wire.PathRPC || n.AuthURL != n.MCPURL {
				return fmt.Errorf("%+v", n)
			}
			return nil
		}},
		{"computeHash", nil, false, func(context.Context, *sdk.Client, sdk.Entry) error { return isABC(sdk.ComputeHash([]byte("abc")), nil) }},
		{"computeHashAsync", nil, false, func(context.Context, *sdk.Client, sdk.Entry) error {
			if _, err := sdk.ComputeHashReader(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
				return fmt.Errorf("a reader that fails gives %w", err)
			}
			return isABC(sdk.ComputeHashReader(iotest.OneByteReader(strings.NewReader("abc"))))
		}},
	}
}

// isABC checks a SHA-256 of "abc" (FIPS 180-4, example 1).
func isABC(d sdk.Digest, err error) error {
	if err == nil && d.String() != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		err = fmt.Errorf("hash %s", d)
	}
	return err
}

func moreCalls() []called {
	tool := func(op string) []string { return []string{wire.PathTools + op} }
	days := int64(7)
	return []called{
		{"setGroupRetention", tool(wire.OpSetGroupRetention), true, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).Settings().SetRetention(ctx, days))
		}},
		{"openGroup", tool(wire.OpCreateHackathonGroup), true, func(ctx context.Context, c *sdk.Client, _ sdk.Entry) error {
			return last(c.Group("open").OpenJoin(ctx, time.Now().Add(time.Hour), sdk.JoinOptions{AtMost: 1}))
		}},
		{"closeGroup", tool(wire.OpCloseHackathonJoin), true, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).CloseJoin(ctx))
		}},
		{"delete", tool(wire.OpDeleteFile), true, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).Delete(ctx, e.Ref))
		}},
		{"rename", tool(wire.OpRenameFile), false, func(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
			return last(c.Group(e.Group).Rename(ctx, e.Ref, "changed"))
		}},
		{"watch", tool(wire.OpWatch), false, func(ctx context.Context, c *sdk.Client, _ sdk.Entry) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return last(c.Watch(ctx, 0))
		}},
	}
}

func last[T any](_ T, err error) error { return err }

func uploadCanary(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
	return last(c.Group(e.Group).Put(ctx, "f", bytes.NewReader([]byte(canary))))
}

// told is one lie told to every operation.
type told struct {
	name string
	want sdk.Kind
	http http.HandlerFunc
	rpc  http.HandlerFunc // nil: the same on the ledger
	// onlyTyped: an operation whose answer is a sentence survives it.
	onlyTyped bool
}

// refusals are the classes of specification 7.1 and the shapes no protocol has.
func refusals(elsewhere string) []told {
	fault := func(text string) http.HandlerFunc { // as the network says it: status 200
		return answer(200, map[string]any{"jsonrpc": "2.0", "id": 1, "error": map[string]any{"code": -32000, "name": "HANDLER_ERROR",
			"cause": map[string]any{"name": "CONTRACT_EXECUTION_ERROR"}, "message": "Server error", "data": text}})
	}
	said := func(status int, text string, want sdk.Kind) told {
		return told{name: text, want: want, http: answer(status, wire.Error{Error: text}), rpc: fault("Smart contract panicked: " + text)}
	}
	echo := func(w http.ResponseWriter, r *http.Request) {
		var all strings.Builder
		for _, secret := range []string{strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get(wire.HeaderAPIKey)} {
			for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)),
				base64.RawURLEncoding.EncodeToString([]byte(secret)), secret[:min(len(secret), 40)]} {
				fmt.Fprintf(&all, "got %s and (%s) ", form, form)
			}
		}
		answer(500, wire.Error{Error: "\x1b[31m" + all.String()})(w, r)
	}
	wrong := func(name, body string) told {
		return told{name: name, want: sdk.ErrCorrupt, http: answer(200, body), onlyTyped: true}
	}
	return []told{
		said(401, "Auth failed: Audience mismatch", sdk.ErrAudience),
		said(500, "account alice not found", sdk.ErrNotFound),
		said(500, "User not authorized", sdk.ErrNotAuthorized),
		said(500, "Insufficient balance", sdk.ErrInsufficient),
		said(500, "the moon is in the wrong place", sdk.ErrOther),
		{name: "secrets", want: sdk.ErrOther, http: echo},
		{name: "an HTML page of an error", want: sdk.ErrOther, http: answer(500, "<html><script>alert(1)</script>")},
		{name: "an HTML page", want: sdk.ErrUnavailable, http: answer(200, "<html><script>alert(1)</script>")},
		{name: "nothing", want: sdk.ErrCorrupt, http: answer(200, "")},
		{name: "deep JSON", want: sdk.ErrCorrupt, http: answer(200, strings.Repeat(`{"result":[`, 10_000))},
		{name: "null", want: sdk.ErrCorrupt, http: answer(200, `{"result":null}`)},
		{name: "busy", want: sdk.ErrRateLimited, http: answer(429, wire.Error{Error: "too many requests"})},
		{name: "down", want: sdk.ErrUnavailable, http: answer(503, "<html>maintenance")},
		{name: "redirect", want: sdk.ErrOther, http: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		}},
		wrong("a number", `{"result":7}`), wrong("a list of lists", `{"result":[[1]]}`), wrong("wrong fields",
			`{"result":{"events":7,"seq":"x","key":7,"encrypted_b64":[],"upload_id":{},"file_hash":1,"authenticated":"yes","amount":{},"result":"x","token":[]},"token":7}`),
	}
}

// Specification 4.2 and 7.1, threats 4, 7, 8 and 10: every operation meets every
// refusal and every shape that makes no sense. It ends with the right kind and
// what to do next, shows no secret and asks nobody else; then it works.
func TestThreat4And7EveryOperationMeetsEveryLie(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a second host was asked") }))
	defer elsewhere.Close()
	for flavour, ops := range map[testkit.Dialect][]called{testkit.Hosted: calls(), testkit.Ours: moreCalls()} {
		for _, op := range ops {
			t.Run(op.name, func(t *testing.T) {
				t.Parallel()
				meetAll(t, testkit.Start(t, flavour), op, refusals(elsewhere.URL))
			})
		}
	}
}

// meetAll has an operation meet lies, each with a client of its own.
func meetAll(t *testing.T, s *testkit.Server, op called, lies []told) {
	alice := s.Account("alice", "100")
	c := s.Client(t, alice)
	if _, err := c.Group("g").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := c.Group("g").Put(t.Context(), "first", bytes.NewReader([]byte(canary+", first")))
	if err != nil {
		t.Fatal(err)
	}
	e := sdk.Entry{Group: "g", Ref: r.Ref, Hash: r.Hash, Size: r.Size}
	if op.paths == nil {
		before := s.Requests()
		if err := op.call(t.Context(), c, e); err != nil || s.Requests() != before {
			t.Errorf("%d requests, %v", s.Requests()-before, err)
		}
		return
	}
	for _, lie := range lies {
		t.Run(lie.name, func(t *testing.T) { meet(t, s, alice, e, op, lie) })
	}
}

func meet(t *testing.T, s *testkit.Server, alice testkit.Account, e sdk.Entry, op called, lie told) {
	c := s.Client(t, alice)
	handler := lie.http
	if op.ledger() && lie.rpc != nil {
		handler = lie.rpc
	}
	var token string
	s.Answer(op.paths[0], func(w http.ResponseWriter, r *http.Request) {
		token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		_, _ = io.Copy(io.Discard, r.Body)
		handler(w, r)
	})
	err := op.call(t.Context(), c, e)
	if op.message && lie.onlyTyped {
		if err != nil {
			t.Errorf("a success without words is %v", err)
		}
	} else if want := lie.want; op.name == "refreshToken" && want == sdk.ErrCorrupt && sdk.KindOf(err) == sdk.ErrUnauthenticated {
		judge(t, err, sdk.ErrUnauthenticated) // a document without a token
	} else {
		judge(t, err, want)
	}
	text := fmt.Sprintf("%v %+v %#v ", err, err, err)
	for _, secret := range []string{alice.Key.Reveal(), token} {
		for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)),
			base64.RawURLEncoding.EncodeToString([]byte(secret)), secret[:min(len(secret), 40)]} {
			if form != "" && strings.Contains(text, form) {
				t.Errorf("the error shows a credential: %v", err)
			}
		}
	}
	for _, word := range []string{canary, "<script", "\x1b"} {
		if strings.Contains(text, word) {
			t.Errorf("the error shows %q: %s", word, text)
		}
	}
}

// Wire protocol 8.3: a member joins without any call that could cost; whatever
// the ledger answers to the question before, joining goes on; and having become
// a member meanwhile is no error.
func TestJoinGroupsShortcut(t *testing.T) {
	t.Parallel()
	const join, already = wire.PathTools + wire.OpJoinGroup, "Already a member of 'g'"
	s, c := world(t, testkit.Hosted)
	if done, err := c.Group("g").Join(t.Context()); err != nil || done.Message != already || s.Hits(join) != 0 {
		t.Errorf("a member: %+v, %v, %d requests", done, err, s.Hits(join))
	}
	for i, lie := range refusals(s.URL) {
		handler := lie.http
		if lie.rpc != nil {
			handler = lie.rpc
		}
		s.Answer(wire.PathRPC, handler)
		open := sdk.GroupID(fmt.Sprint("open ", i))
		s.Answer(join, result("Joined group"))
		if done, err := c.Group(open).Join(t.Context()); err != nil || done.Message != "Joined group" {
			t.Errorf("%s: %+v, %v", lie.name, done, err)
		}
	}
	for _, status := range []int{409, 500} {
		s.Answer(join, answer(status, wire.Error{Error: "Smart contract panicked: Already a member"}))
		if done, err := c.Group("g").Join(t.Context()); err != nil || done.Message != already {
			t.Errorf("%d: %+v, %v", status, done, err)
		}
	}
}

// judge checks an error as a caller sees it.
func judge(t *testing.T, err error, want sdk.Kind) {
	t.Helper()
	var own *sdk.Error
	if !errors.As(err, &own) || own.Kind != want {
		t.Errorf("kind %q, want %q: %v", sdk.KindOf(err), want, err)
		return
	}
	if len(err.Error()) > 1000 {
		t.Errorf("the error has %d characters", len(err.Error()))
	}
}

// What the ledger answers is a number, a truth or a name, or it is an error: a
// missing value is never zero or false (specification 4.2).
func TestThreat7LedgerAnswersWithoutValues(t *testing.T) {
	t.Parallel()
	bytesOf := func(text string) json.RawMessage {
		numbers := make([]int, len(text))
		for i, b := range []byte(text) {
			numbers[i] = int(b)
		}
		raw, err := json.Marshal(map[string]any{"result": map[string]any{"result": numbers}})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	s, c := world(t, testkit.Hosted)
	for _, tc := range []struct {
		call   string
		answer json.RawMessage
		want   sdk.Kind
	}{
		{"getBalance", json.RawMessage(`{"result":{}}`), sdk.ErrCorrupt},
		{"getBalance", json.RawMessage(`{"result":{"amount":null}}`), sdk.ErrCorrupt},
		{"getBalance", json.RawMessage(`{"result":{"amount":"-1"}}`), sdk.ErrCorrupt},
		{"getBalance", json.RawMessage(`{"result":{"amount":"1e3"}}`), sdk.ErrCorrupt},
		{"getBalance", json.RawMessage(`{"result":[]}`), sdk.ErrCorrupt},
		{"isAuthorized", bytesOf("null"), sdk.ErrCorrupt},
		{"isAuthorized", bytesOf(""), sdk.ErrCorrupt},
		{"isAuthorized", bytesOf(`"true"`), sdk.ErrCorrupt},
		{"isAuthorized", bytesOf("1"), sdk.ErrCorrupt},
		{"estimateFee", bytesOf("null"), sdk.ErrCorrupt},
		{"estimateFee", bytesOf("-5"), sdk.ErrCorrupt},
		{"estimateFee", bytesOf("1.5"), sdk.ErrCorrupt},
		{"estimateFee", json.RawMessage(`{"result":{"result":[-1,300]}}`), sdk.ErrCorrupt},
		{"estimateFee", json.RawMessage(`{"result":{"result":"MTIz"}}`), sdk.ErrCorrupt},
		{"getGroupOwner", bytesOf("null"), sdk.ErrNotFound},
		{"getGroupOwner", bytesOf(`""`), sdk.ErrNotFound},
		{"getGroupOwner", bytesOf("7"), sdk.ErrCorrupt},
		{"getGroupRetention", bytesOf("-1"), sdk.ErrCorrupt},
		{"getGroupRetention", bytesOf(`"7"`), sdk.ErrCorrupt},
		{"getGroupOwner", json.RawMessage(`{"result":{}}`), sdk.ErrCorrupt},
		{"getGroupOwner", json.RawMessage(`{"error":{"cause":7}}`), sdk.ErrCorrupt},
		{"getGroupOwner", json.RawMessage(`{"error":{"cause":{"name":"UNKNOWN_ACCOUNT"},"data":{"a":1},"message":"gone"}}`), sdk.ErrNotFound},
		{"getGroupChecksum", bytesOf("[]"), sdk.ErrCorrupt},
	} {
		t.Run(tc.call+" "+string(tc.answer), func(t *testing.T) {
			s.Answer(wire.PathRPC, answer(200, string(tc.answer)))
			for _, op := range calls() {
				if op.name == tc.call {
					judge(t, op.call(t.Context(), c, sdk.Entry{Group: "g"}), tc.want)
				}
			}
		})
	}
}

// Nodes of the network tell errors with status 200 or 4xx, and 408 or 500 when
// another try may help (wire protocol 4.1).
func TestLedgerNodes(t *testing.T) {
	t.Parallel()
	unknown := map[string]any{"jsonrpc": "2.0", "id": 1, "error": map[string]any{"code": -32000, "name": "HANDLER_ERROR", "message": "Server error",
		"cause": map[string]any{"name": "UNKNOWN_ACCOUNT", "info": map[string]any{}}, "data": "account x does not exist while viewing"}}
	s, c := world(t, testkit.Hosted)
	for _, status := range []int{200, 400, 404, 422} {
		s.Answer(wire.PathRPC, answer(status, unknown))
		before := s.Hits(wire.PathRPC)
		_, err := c.Balance(t.Context(), "x")
		judge(t, err, sdk.ErrNotFound)
		if n := s.Hits(wire.PathRPC) - before; !strings.Contains(err.Error(), "does not exist") || n != 1 {
			t.Errorf("%d: %v after %d requests", status, err, n)
		}
	}
	for _, status := range []int{408, 429, 500, 502, 503, 504} {
		tries := 0
		s.Answer(wire.PathRPC, func(w http.ResponseWriter, r *http.Request) {
			if tries++; tries <= 2 {
				answer(status, "<html>try again")(w, r)
				return
			}
			answer(200, `{"result":{"amount":"5","locked":"0"}}`)(w, r)
		})
		if got, err := c.Balance(t.Context(), "x"); err != nil || got.String() != "5" {
			t.Errorf("%d twice: %s, %v", status, got, err)
		}
	}
	s.Answer(wire.PathRPC, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	hasty := s.Client(t, s.Account("hasty", "1"), func(cfg *sdk.Config) { cfg.Timeout = 100 * time.Millisecond })
	_, err := hasty.Balance(t.Context(), "x")
	judge(t, err, sdk.ErrTimeout)
}
