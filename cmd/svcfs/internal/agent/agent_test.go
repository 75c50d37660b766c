package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// world is a service with the groups team and secret, both of alice; bot, for whom the agent
// acts, is a member of both.
type world struct {
	*testkit.Server
	t          *testing.T
	alice, bot *sdk.Client
	account    testkit.Account // of bot
}

func newWorld(t *testing.T, flavour testkit.Dialect) *world {
	t.Helper()
	return worldOf(t, testkit.Start(t, flavour))
}

func worldOf(t *testing.T, s *testkit.Server) *world {
	t.Helper()
	w := &world{Server: s, t: t, alice: s.Client(t, s.Account("alice", "10")), account: s.Account("bot", "10")}
	w.bot = s.Client(t, w.account)
	for _, g := range []sdk.GroupID{"team", "secret"} {
		must(t)(w.alice.Group(g).Register(t.Context()))
		must(t)(w.alice.Group(g).Add(t.Context(), w.account.ID))
	}
	return w
}

// must ends the test on an error of the call whose results it gets.
func must(t *testing.T) func(_ any, err error) {
	t.Helper()
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) put(group sdk.GroupID, name, content string) sdk.Ref {
	w.t.Helper()
	r, err := w.alice.Group(group).Put(w.t.Context(), name, strings.NewReader(content))
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Ref
}

func tokens(t *testing.T, text string) sdk.Amount {
	t.Helper()
	a, err := wire.ParseTokens(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// options let an agent read, with a budget and room for bytes.
func (w *world) options() Options {
	return Options{Client: w.bot, Version: "test", Budget: tokens(w.t, "1"), ReadBytes: 1 << 20, WriteBytes: 1 << 20,
		Why: func(_ context.Context, group sdk.GroupID, name string) (any, error) {
			return map[string]any{"asked": string(group) + "/" + name}, nil
		}}
}

// session is an agent's side. What the two sides said is in log.
type session struct {
	*mcp.ClientSession
	t   *testing.T
	log *safeBuffer
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// connect serves an agent, whose user answers questions by ask; nil = its client cannot ask.
func (w *world) connect(o Options, version string, ask func(*mcp.ElicitRequest) *mcp.ElicitResult) *session {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ours, theirs := mcp.NewInMemoryTransports()
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, o, theirs) }()
	opts := &mcp.ClientOptions{}
	if ask != nil {
		opts.ElicitationHandler = func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return ask(req), nil
		}
	}
	s := &session{t: w.t, log: &safeBuffer{}}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	var err error
	s.ClientSession, err = client.Connect(ctx, &mcp.LoggingTransport{Transport: ours, Writer: s.log},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = s.Close()
		cancel()
		<-ended
	})
	return s
}

// call calls a tool. Of a failure ok is false, and the text says what failed.
func (s *session) call(tool string, args map[string]any) (result *mcp.CallToolResult, text string, ok bool) {
	s.t.Helper()
	result, err := s.CallTool(s.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, err.Error(), false
	}
	return result, textOf(result.Content[0]), !result.IsError
}

func textOf(c mcp.Content) string {
	if text, is := c.(*mcp.TextContent); is {
		return text.Text
	}
	return ""
}

// must calls a tool and returns its document.
func (s *session) must(tool string, args map[string]any) map[string]any {
	s.t.Helper()
	_, text, ok := s.call(tool, args)
	if !ok {
		s.t.Fatalf("%s %v: %s", tool, args, text)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		s.t.Fatalf("%s: %v: %s", tool, err, text)
	}
	return doc
}

// refused calls a tool that must fail with these words.
func (s *session) refused(tool string, args map[string]any, words ...string) {
	s.t.Helper()
	_, text, ok := s.call(tool, args)
	if ok {
		s.t.Errorf("%s %v was done: %s", tool, args, text)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			s.t.Errorf("%s %v: no %q in %q", tool, args, word, text)
		}
	}
}

// read reads a piece as text.
func (s *session) read(args map[string]any) (head map[string]any, content string) {
	s.t.Helper()
	head = s.must("read_file", args)
	result, _, _ := s.call("read_file", args)
	return head, textOf(result.Content[1])
}

func (w *world) balance() sdk.Amount {
	w.t.Helper()
	b, err := w.bot.Balance(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// spent runs do and returns what the account paid meanwhile.
func (w *world) spent(do func()) string {
	w.t.Helper()
	before := w.balance()
	do()
	paid, ok := before.Sub(w.balance())
	if !ok {
		w.t.Fatal("the balance grew")
	}
	return paid.Tokens()
}

// The tools, their texts, hints and arguments are what a host shows to its user: a change of
// them is read before it is made.
func TestToolsAreAsWritten(t *testing.T) {
	w := newWorld(t, testkit.Ours)
	all := w.options()
	all.AllowWrite, all.AllowDelete = true, true
	tools, err := w.connect(all, "", nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	for _, tool := range tools.Tools {
		if a := tool.Annotations; a == nil || a.DestructiveHint == nil || a.OpenWorldHint == nil || a.Title == "" {
			t.Errorf("%s leaves hints to the defaults", tool.Name)
		}
		must(t)(nil, enc.Encode(tool))
	}
	const golden = "testdata/tools.json"
	if *update {
		must(t)(nil, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the tools are not those of %s: go test -update writes it anew", golden)
	}

	for name, tc := range map[string]struct {
		write, delete bool
		want          []string
	}{
		"reading": {false, false, reading()},
		"writing": {true, false, append(reading(), "put_file", "rename", "create_group", "add_member", "revoke_member",
			"confirm")},
		"deleting": {false, true, append(reading(), "remove_file", "destroy_file", "confirm")},
	} {
		o := w.options()
		o.AllowWrite, o.AllowDelete = tc.write, tc.delete
		tools, err := w.connect(o, "", nil).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range tools.Tools {
			names = append(names, tool.Name)
		}
		slices.Sort(names)
		slices.Sort(tc.want)
		if !slices.Equal(names, tc.want) {
			t.Errorf("%s: %v, want %v", name, names, tc.want)
		}
	}
}

func reading() []string {
	return []string{"list_groups", "list_files", "stat", "history", "cost", "balance", "verify_ledger", "why",
		"read_file"}
}

// A tool that costs is no mere read, also a list where lists cost.
func TestNoToolThatCostsIsReadOnly(t *testing.T) {
	for _, flavour := range []testkit.Dialect{testkit.Hosted, testkit.Ours} {
		tools, err := newWorld(t, flavour).listTools()
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools.Tools {
			want := tool.Name != "read_file"
			if slices.Contains([]string{"list_groups", "list_files", "stat", "history"}, tool.Name) {
				want = flavour == testkit.Ours
			}
			if tool.Annotations.ReadOnlyHint != want {
				t.Errorf("%s: %s says read only: %t", flavour, tool.Name, !want)
			}
		}
	}
}

func (w *world) listTools() (*mcp.ListToolsResult, error) {
	return w.connect(w.options(), "", nil).ListTools(w.t.Context(), nil)
}

// Files are found page by page, and described; names that could trick a reader are shown escaped.
func TestFindingFiles(t *testing.T) {
	w := newWorld(t, testkit.Ours)
	for i := range 5 {
		w.put("team", fmt.Sprintf("reports/%d.txt", i), "content")
	}
	w.put("team", "evil\n\u202etxt.exe", "x")
	first := w.put("team", "notes.txt", "one")
	second := w.put("team", "notes.txt", "two, longer")
	s := w.connect(w.options(), "", nil)

	groups := s.must("list_groups", nil)
	if got := fmt.Sprint(groups["groups"]); !strings.Contains(got, "team") || !strings.Contains(got, "secret") {
		t.Errorf("groups: %s", got)
	}
	var names []string
	for cursor, pages := "", 0; ; pages++ {
		page := s.must("list_files", map[string]any{"group": "team", "limit": 2, "cursor": cursor,
			"prefix": "reports/"})
		for _, f := range page["files"].([]any) {
			names = append(names, f.(map[string]any)["name"].(string))
		}
		next, more := page["next_cursor"].(string)
		if !more {
			if pages != 2 {
				t.Errorf("%d pages", pages+1)
			}
			break
		}
		cursor = next
	}
	if want := []string{"reports/0.txt", "reports/1.txt", "reports/2.txt", "reports/3.txt",
		"reports/4.txt"}; !slices.Equal(names, want) {
		t.Errorf("files %v", names)
	}
	if got := s.must("stat", map[string]any{"group": "team", "name": "notes.txt"}); got["cid"] != string(second) ||
		got["size"] != 11.0 {
		t.Errorf("stat: %v", got)
	}
	if got := s.must("history", map[string]any{"group": "team",
		"name": "notes.txt"})["versions"].([]any); len(got) != 2 || got[1].(map[string]any)["cid"] != string(first) {
		t.Errorf("history: %v", got)
	}
	if _, content := s.read(map[string]any{"group": "team", "name": string(first)}); content != "one" {
		t.Errorf("the first version has %q", content)
	}
	_, text, _ := s.call("list_files", map[string]any{"group": "team"})
	if strings.ContainsAny(text, "\n\u202e") || !strings.Contains(text, "%0A") {
		t.Errorf("a name is not escaped: %q", text)
	}
	s.refused("list_files", map[string]any{"group": "team", "limit": 201}, "limit 201", "Next: ")
	s.refused("list_files", map[string]any{"group": "team", "cursor": "%"}, "cursor", "Next: ")
	s.refused("stat", map[string]any{"group": "team", "name": "none"}, "there is no file", "Next: list_files")
	if got := s.must("why", map[string]any{"group": "team", "name": "f"}); got["asked"] != "team/f" {
		t.Errorf("why: %v", got)
	}
	if got := s.must("balance", nil); got["account"] != string(w.account.ID) {
		t.Errorf("balance: %v", got)
	}
}

// A file is read in pieces that fit together, text at whole characters, for one retrieval.
func TestReadingInPieces(t *testing.T) {
	w := newWorld(t, testkit.Ours)
	text := strings.Repeat("héllo €uro 𝄞 ", 400)
	w.put("team", "text", text)
	binary := string([]byte{0, 1, 0xff, 0xfe, 7})
	w.put("team", "binary", binary)
	w.put("team", "empty", "")
	s := w.connect(w.options(), "", nil)
	var got strings.Builder
	paid := w.spent(func() {
		for offset, pieces := 0.0, 0; ; pieces++ {
			result, head, ok := s.call("read_file",
				map[string]any{"group": "team", "name": "text", "offset": offset, "length": 1001})
			var doc map[string]any
			if err := json.Unmarshal([]byte(head), &doc); err != nil || !ok {
				t.Fatalf("piece %d: %s", pieces, head)
			}
			if doc["encoding"] != "text" {
				t.Fatalf("piece %d: %v", pieces, doc)
			}
			got.WriteString(textOf(result.Content[1]))
			next, more := doc["next_offset"].(float64)
			if !more {
				break
			}
			offset = next
		}
	})
	if got.String() != text {
		t.Error("the pieces are not the file")
	}
	if paid != "0.013" {
		t.Errorf("paid %s", paid)
	}
	result, head, _ := s.call("read_file", map[string]any{"group": "team", "name": "binary"})
	r, is := result.Content[1].(*mcp.EmbeddedResource)
	if !is || string(r.Resource.Blob) != binary || !strings.Contains(head, `"base64"`) {
		t.Errorf("binary: %s", head)
	}
	if head, content := s.read(map[string]any{"group": "team", "name": "empty"}); content != "" ||
		head["next_offset"] != nil {
		t.Errorf("empty: %v", head)
	}
	s.refused("read_file", map[string]any{"group": "team", "name": "text", "length": MaxRead + 1}, "Next: ")
	s.refused("read_file", map[string]any{"group": "team", "name": "text", "offset": -1}, "Next: ")
	s.refused("read_file", map[string]any{"group": "team", "name": "text", "offset": 1 << 30}, "nothing at offset")
}

// A resource is one small file, asked for by name; there is no list that a host would fetch
// and pay for.
func TestResources(t *testing.T) {
	w := newWorld(t, testkit.Ours)
	w.put("team", "dir/a file.txt", "content")
	w.put("team", "large", strings.Repeat("x", MaxRead+1))
	s := w.connect(w.options(), "", nil)
	list, err := s.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 0 {
		t.Errorf("resources %v, %v", list, err)
	}
	templates, err := s.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 1 {
		t.Errorf("templates %v, %v", templates, err)
	}
	got, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "svc://team/dir/a%20file.txt"})
	if err != nil || len(got.Contents) != 1 || got.Contents[0].Text != "content" ||
		got.Contents[0].Meta[metaUntrusted] != true {
		t.Errorf("resource %v, %v", got, err)
	}
	for uri, word := range map[string]string{"svc://team/large": "read_file", "svc://team/none": "no file",
		"svc://other/x": "may not use"} {
		if paid := w.spent(func() {
			if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil ||
				!strings.Contains(err.Error(), word) && uri != "svc://other/x" {
				t.Errorf("%s: %v", uri, err)
			}
		}); paid != "0" {
			t.Errorf("%s cost %s", uri, paid)
		}
	}
}

// Every version of the protocol that the library has is served.
func TestProtocolVersions(t *testing.T) {
	w := newWorld(t, testkit.Ours)
	w.put("team", "file", "content")
	for _, version := range mcp.SupportedProtocolVersions() {
		for _, canAsk := range []bool{false, true} {
			asked := 0
			var ask func(*mcp.ElicitRequest) *mcp.ElicitResult
			if canAsk {
				ask = func(*mcp.ElicitRequest) *mcp.ElicitResult { asked++; return &mcp.ElicitResult{Action: "accept"} }
			}
			o := w.options()
			o.AllowWrite = true
			s := w.connect(o, version, ask)
			if _, content := s.read(map[string]any{"group": "team", "name": "file"}); content != "content" {
				t.Errorf("%s: %q", version, content)
			}
			name := fmt.Sprintf("made-%s-%t", version, canAsk)
			doc := s.must("put_file", map[string]any{"group": "team", "name": name, "text": "x"})
			if !canAsk {
				doc = s.must("confirm", map[string]any{"token": doc["confirm_token"]})
			}
			if doc["saved"] != name || canAsk != (asked == 1) {
				t.Errorf("%s: %v, asked %d times", version, doc, asked)
			}
		}
	}
}

// A file is renamed with all its versions, or none, and naming them back is within what was set aside.
func TestRenamesAllVersionsOrNone(t *testing.T) {
	w := worldOf(t, testkit.Start(t, testkit.Ours, testkit.FeeOf(sdk.EventRenamed, tokens(t, "0.01"))))
	g := w.bot.Group("team")
	for _, content := range []string{"1", "2", "3"} {
		must(t)(g.Put(t.Context(), "f", strings.NewReader(content)))
	}
	var asked atomic.Int64
	w.Disturb(wire.PathTools+wire.OpRenameFile, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 3 {
				http.Error(rw, `{"error":"refused"}`, http.StatusBadRequest)
				return
			}
			next.ServeHTTP(rw, r)
		})
	})
	o := w.options()
	o.AllowWrite, o.Budget = true, tokens(t, "0.1")
	s := w.connect(o, "", nil)
	rename := func() map[string]any {
		return map[string]any{"token": s.must("rename",
			map[string]any{"group": "team", "name": "f", "new_name": "g"})["confirm_token"]}
	}
	s.refused("confirm", rename(), "refused")
	entries, err := g.Entries(t.Context())
	must(t)(nil, err)
	for _, e := range entries {
		if e.Name != "f" {
			t.Errorf("version %d is named %s", e.Number, e.Name)
		}
	}
	if got := s.must("balance", nil)["budget"].(map[string]any)["spent"]; got != "0.04" { // two, and two back
		t.Errorf("it spent %s", got)
	}
	if doc := s.must("confirm", rename()); doc["renamed"] != "g" {
		t.Errorf("it answers %v", doc)
	}
	if got := s.must("balance", nil)["budget"].(map[string]any)["spent"]; got != "0.07" {
		t.Errorf("it spent %s", got)
	}
}

// A file that was paid for is closed when nobody reads it any more, and is handed out only
// while the account may read it.
func TestReadingEndsWithTheRight(t *testing.T) {
	w := newWorld(t, testkit.Ours)
	ref := w.put("team", "gone", "content")
	w.put("team", "file", "content")
	s := w.connect(w.options(), "", nil)
	s.must("read_file", map[string]any{"group": "team", "name": "gone"})
	s.must("read_file", map[string]any{"group": "team", "name": "file"})
	must(t)(w.alice.Group("team").Delete(t.Context(), ref))
	s.refused("read_file", map[string]any{"group": "team", "name": "gone"}, "there is no file")
	s.refused("read_file", map[string]any{"group": "team", "name": string(ref)}, "was removed")
	must(t)(w.alice.Group("team").Revoke(t.Context(), w.account.ID))
	s.refused("read_file", map[string]any{"group": "team", "name": "file"})
}

// The least recently read file is closed when another is opened beyond the bound.
func TestFewFilesAreOpen(t *testing.T) {
	w := newWorld(t, testkit.Ours)
	for i := range maxOpen + 1 {
		w.put("team", fmt.Sprint(i), "content")
	}
	s := w.connect(w.options(), "", nil)
	read := func(i int) string {
		return w.spent(func() { s.must("read_file", map[string]any{"group": "team", "name": fmt.Sprint(i)}) })
	}
	for i := range maxOpen + 1 {
		read(i)
	}
	if again := read(maxOpen); again != "0" {
		t.Errorf("a file that is open cost %s", again)
	}
	if again := read(0); again != "0.013" {
		t.Errorf("a file that was closed cost %s", again)
	}
}

// A line that is too long, or that is not one message, is answered with an error, and the conversation goes on.
func TestTransportRefusesALine(t *testing.T) {
	w := newWorld(t, testkit.Ours)
	long := `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", maxLine) + `"}`
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	asked := strings.Join([]string{"what?", hello, long, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "",
		"[]", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, long}, "\n")
	var out safeBuffer
	_ = Serve(t.Context(), w.options(), Transport(io.NopCloser(strings.NewReader(asked)), nopCloser{&out}))
	for what, want := range map[string]int{`"id":null,"error":{"code":-32700,`: 2,
		`"id":null,"error":{"code":-32600,`: 2, `"result":`: 2, `"id":7`: 1} {
		if got := strings.Count(out.String(), what); got != want {
			t.Errorf("%d times %s, want %d", got, what, want)
		}
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// What was asked before the end of standard input is answered before the program ends.
func TestTransportAnswersBeforeTheEnd(t *testing.T) {
	w := newWorld(t, testkit.Ours)
	var asked strings.Builder
	asked.WriteString(
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	const calls = 20
	for i := range calls {
		fmt.Fprintf(
			&asked,
			`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_files","arguments":{"group":"team"}}}`+"\n", i+1)
	}
	var out safeBuffer
	// an end of the input, however it is told
	_ = Serve(t.Context(), w.options(), Transport(io.NopCloser(strings.NewReader(asked.String())), nopCloser{&out}))
	if got := strings.Count(out.String(), `"result":`); got != calls+1 {
		t.Errorf("%d answers to %d questions:\n%s", got, calls+1, out.String())
	}
}
