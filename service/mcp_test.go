package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// withHeader adds credentials to the requests of an agent.
type withHeader struct{ header http.Header }

func (h withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h.header {
		r.Header[name] = values
	}
	return http.DefaultTransport.RoundTrip(r)
}

// agent connects the official client with the credentials of a user.
func (u *user) agent() *mcp.ClientSession {
	u.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(u.t.Context(), &mcp.StreamableClientTransport{Endpoint: u.url + wire.PathMCP,
		HTTPClient: &http.Client{Transport: withHeader{u.header()}}, DisableStandaloneSSE: true}, nil)
	ok(u.t, err)
	u.t.Cleanup(func() { _ = session.Close() })
	return session
}

// asks calls a tool and returns the text of its answer.
func asks(t *testing.T, s *mcp.ClientSession, tool string, args object) (text string, isError bool) {
	t.Helper()
	result, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	ok(t, err)
	if result.Meta["svcfs/untrusted"] != true {
		t.Errorf("%s: the answer is not marked as other people's", tool)
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

func TestAgentsWorkWithGroups(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	bob := r.user("bob", "10")
	agent := alice.agent()
	must := func(tool string, args object) string {
		t.Helper()
		text, isError := asks(t, agent, tool, args)
		if isError {
			t.Fatalf("%s: %s", tool, text)
		}
		return text
	}
	ref := alice.upload("g", "offer\u202efdp.exe", []byte("secret content")).CID
	alice.upload("g", "b", []byte("other content"))

	must(wire.OpAddGroupMember, object{"group_id": "g", "member_id": bob.id})
	if text := must(wire.OpGetGroupMembers, object{"group_id": "g"}); !strings.Contains(text, bob.id) {
		t.Errorf("the members are %s", text)
	}
	if text := must(wire.OpGetMemberGroups, object{}); !strings.Contains(text, `"g"`) {
		t.Errorf("the groups are %s", text)
	}
	page := must(wire.OpGetGroupTransactions, object{"group_id": "g", "limit": 1})
	if strings.Count(page, `"changed_seq"`) > 1 || !strings.Contains(page, ref) || strings.Contains(page, "\u202e") {
		t.Errorf("a page of one file is %q", page)
	}
	if rest := must(wire.OpGetGroupTransactions, object{"group_id": "g"}); strings.Count(rest, "ipfs_hash") < 2 {
		t.Errorf("the files are %s", rest)
	}
	must(wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": ref, "filename": "offer.pdf"})
	must(wire.OpRemoveFile, object{"group_id": "g", "filename": "offer.pdf", "seq": 1 << 20})
	must(wire.OpRestoreFile, object{"group_id": "g", "filename": "offer.pdf", "seq": 1 << 20})
	if row := alice.row("g", ref); row.Deleted != nil {
		t.Errorf("the file is %+v", row)
	}
	must(wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
	r.audits() // every change was recorded and paid as any other

	if text, isError := asks(t, bob.agent(), wire.OpGetGroupMembers, object{"group_id": "g"}); !isError ||
		!strings.Contains(text, wire.CodeNotAuthorized) {
		t.Errorf("a stranger is told %s", text)
	}
	if result, err := agent.CallTool(t.Context(),
		&mcp.CallToolParams{Name: wire.OpRenameFile, Arguments: object{"group_id": 7}}); err == nil && !result.IsError {
		t.Error("a number is taken for a group")
	}
}

// Many agents are answered at a service with little memory too: no call waits for memory that it has itself, nor behind
// another that waits for that.
func TestAgentsWithLittleMemory(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) { c.Memory = service.MinMemory })
	var calls errgroup.Group
	for _, name := range []string{"alice", "bob"} {
		u := s.user(name, "10")
		must[string](u, wire.OpRegisterGroup, object{"group_id": name})
		agent := u.agent()
		for range 8 {
			calls.Go(func() error {
				result, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: wire.OpGetGroupMembers,
					Arguments: object{"group_id": name}})
				if err == nil && result.IsError {
					err = errors.New(result.Content[0].(*mcp.TextContent).Text)
				}
				return err
			})
		}
	}
	ok(t, calls.Wait())
}

// The tools are these and no others: none has keys, content, or destroys a file for good.
func TestThreat73AgentGetsNoKeys(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	list, err := alice.agent().ListTools(t.Context(), nil)
	ok(t, err)
	var reads, changes []string
	for _, tool := range list.Tools {
		a := tool.Annotations
		if a == nil || a.DestructiveHint == nil || a.OpenWorldHint == nil || a.Title == "" {
			t.Errorf("%s has the annotations %+v", tool.Name, a)
			continue
		}
		if a.ReadOnlyHint {
			reads = append(reads, tool.Name)
			continue
		}
		changes = append(changes, tool.Name)
		if destroys := tool.Name == wire.OpRevokeGroupMember ||
			tool.Name == wire.OpRemoveFile; *a.DestructiveHint != destroys {
			t.Errorf("%s: destructive is %v", tool.Name, *a.DestructiveHint)
		}
	}
	slices.Sort(reads)
	slices.Sort(changes)
	if want := []string{wire.OpAuthStatus, wire.OpGetGroupMembers, wire.OpGetGroupSettings,
		wire.OpGetGroupTransactions, wire.OpGetGroupVersions, wire.OpGetMemberGroups,
		wire.OpGetOwnedGroups, wire.OpGetPending, wire.OpGetStorage, wire.OpGetTrash,
		wire.OpTryGroupVersions}; !slices.Equal(reads, want) {
		t.Errorf("an agent may look with %q", reads)
	}
	if want := []string{wire.OpAddGroupMember, wire.OpKeepFiles, wire.OpRegisterGroup, wire.OpRemoveFile,
		wire.OpRenameFile, wire.OpRenameFolder, wire.OpRestoreFile,
		wire.OpRevokeGroupMember}; !slices.Equal(changes, want) {
		t.Errorf("an agent may change with %q", changes)
	}
}

// An answer that is too long for an agent is refused, and ends neither the service nor the next call.
func TestThreat73LongAnswersEndNothing(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	for n := range 70 {
		alice.upload("g", fmt.Sprint(strings.Repeat("n", 4000), n), []byte("content"))
	}
	agent := alice.agent()
	if text, isError := asks(t, agent, wire.OpGetGroupTransactions, object{"group_id": "g"}); !isError ||
		!strings.Contains(text, "more than 256 KiB") {
		t.Errorf("all files: %.200s", text)
	}
	if text, isError := asks(t, agent, wire.OpGetGroupTransactions, object{"group_id": "g", "limit": 5}); isError ||
		strings.Count(text, `"ipfs_hash"`) != 5 {
		t.Errorf("five files: %.200s", text)
	}
}

// A panic while a tool is called ends that call alone.
func TestThreat73PanicsEndNothing(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	r := runWith(t, service.Config{Database: newDatabase(t), Logger: slog.New(slog.NewTextHandler(&log,
		&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.String() == wire.OpGetGroupMembers {
				panic("a fault of whoever is told of the call")
			}
			return a
		}}))})
	agent := r.owner().agent()
	if _, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: wire.OpGetGroupMembers,
		Arguments: object{"group_id": "g"}}); err == nil || !strings.Contains(err.Error(), "ask again") {
		t.Errorf("the call: %v", err)
	}
	told := regexp.MustCompile(`msg=panic request=\w+ panic=string stack=.*ServeHTTP`)
	if text := log.String(); !told.MatchString(text) {
		t.Errorf("the log is %s", text)
	}
	if text, isError := asks(t, agent, wire.OpGetStorage, object{"group_id": "g"}); isError {
		t.Errorf("the next call: %s", text)
	}
	if status, health := r.get("/health"); status != http.StatusOK {
		t.Errorf("then: status %d %s", status, health)
	}
}

// Without credentials nothing is told, not even the list of tools, and calls count as requests.
func TestThreat73AgentSignsIn(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	hello := object{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": object{}}
	mcpHeader := func(h http.Header) http.Header {
		h = h.Clone()
		h.Set("Accept", "application/json, text/event-stream")
		h.Set("Content-Type", "application/json")
		return h
	}
	if status, body := r.post(wire.PathMCP, mcpHeader(alice.header()), hello); status != http.StatusOK ||
		!strings.Contains(string(body), wire.OpGetGroupMembers) {
		t.Fatalf("status %d, %s", status, body)
	}
	for what, header := range map[string]http.Header{"nothing": {},
		"a wrong token": {"Authorization": {"Bearer x.y.z"}}} {
		if status, body := r.post(wire.PathMCP, mcpHeader(header), hello); status != http.StatusUnauthorized ||
			strings.Contains(string(body), wire.OpGetGroupMembers) {
			t.Errorf("with %s: status %d, %s", what, status, body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+wire.PathMCP, nil)
	ok(t, err)
	if status, _ := r.do(req); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d", status)
	}
	batch := []object{hello, hello} // whose answers would be in memory at once
	header := mcpHeader(alice.header())
	header.Set("Mcp-Protocol-Version", "2025-03-26")
	if status, body := r.post(wire.PathMCP, header, batch); status != http.StatusBadRequest ||
		!strings.Contains(string(body), "one message in each request") {
		t.Errorf("a batch: status %d, %s", status, body)
	}
	long, err := json.Marshal(strings.Repeat("x", 1<<20))
	ok(t, err)
	if status, _ := r.post(wire.PathMCP, mcpHeader(alice.header()),
		object{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": json.RawMessage(long)}); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a message of 1 MiB: status %d", status)
	}
}
