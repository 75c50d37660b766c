package integration

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/service/testkit"
)

// npmVersion is the newest nova-sdk-js in the npm registry. The versions 1.1 and
// 1.2 were never published there.
const npmVersion = "1.0.3"

// installed returns a folder with the npm package. It is installed once for a user, for that takes longer than the
// tests do, and serves machines without a network then.
func installed(t *testing.T) string {
	t.Helper()
	proctest.Need(t, "node", "npm")
	cache, err := os.UserCacheDir()
	ok(t, err)
	cache = filepath.Join(cache, "svcfs-tests")
	dir := filepath.Join(cache, "nova-sdk-js-"+npmVersion)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	ok(t, os.MkdirAll(cache, 0o700))
	fresh, err := os.MkdirTemp(cache, "fresh-")
	ok(t, err)
	defer os.RemoveAll(fresh)
	cmd := exec.Command("npm", "install", "--no-audit", "--no-fund", "--no-save", "--fetch-retry-mintimeout=1000",
		"--fetch-retry-maxtimeout=2000", "nova-sdk-js@"+npmVersion)
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); noNetwork.Match(out) {
		t.Skip(proctest.LeftOut + "npm reaches no registry, which has nova-sdk-js " + npmVersion)
	} else if err != nil {
		t.Fatalf("npm: %v\n%s", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another test may have been faster
		t.Fatal(err)
	}
	return dir
}

// noNetwork matches what npm says where it reaches nobody.
var noNetwork = regexp.MustCompile(`\b(EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT)\b`)

// javaScript starts one of our programs with the npm package, and returns how to have it do something.
func javaScript(t *testing.T, url, program string) func(p *person, group, command string,
	args ...string) (json.RawMessage, string) {
	t.Helper()
	dir := installed(t)
	script, err := filepath.Abs("testdata/" + program)
	ok(t, err)
	cmd := exec.Command("node", script, url)
	var stderr safeBuffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("node: %v\n%s", err, &stderr)
		}
	})
	calls, answers := json.NewEncoder(in), json.NewDecoder(out)
	return func(p *person, group, command string, args ...string) (json.RawMessage, string) {
		t.Helper()
		ok(t, calls.Encode(map[string]any{"account": p.id, "key": p.key, "group": group, "command": command,
			"args": args}))
		var answer struct {
			OK    json.RawMessage `json:"ok"`
			Error string          `json:"error"`
		}
		if err := answers.Decode(&answer); err != nil {
			t.Fatalf("node %s: %v\n%s", command, err, &stderr)
		}
		return answer.OK, answer.Error
	}
}

// The unmodified JavaScript SDK 1.0.3 works with svcd, and exchanges files with
// the mount in both directions.
func TestJavaScriptSDK(t *testing.T) {
	w, alice, bob := team(t)
	js := javaScript(t, w.url, "sdk.mjs")
	must := func(p *person, group, command string, args ...string) string {
		t.Helper()
		out, problem := js(p, group, command, args...)
		if problem != "" {
			t.Fatalf("%s: %s", command, problem)
		}
		return string(out)
	}
	content := bytes.Repeat([]byte("from JavaScript \x00\xff"), 10_000)
	file := filepath.Join(w.dir, "upload.bin")
	write(t, file, content)
	var uploaded struct {
		CID  string `json:"cid"`
		Tx   string `json:"trans_id"`
		Hash string `json:"file_hash"`
	}
	ok(t, json.Unmarshal([]byte(must(alice, "team", "upload", file, "from-js.bin")), &uploaded))
	if len(uploaded.Hash) != 64 || len(uploaded.Tx) != 64 || !strings.HasPrefix(uploaded.CID, "bafy") {
		t.Errorf("upload returned %+v", uploaded)
	}
	b := bob.mount("b")
	if got := read(t, b.path("team/from-js.bin")); !bytes.Equal(got, content) {
		t.Error("the mount reads something else than JavaScript uploaded")
	}
	t.Run("it reads what a mount saved", func(t *testing.T) {
		for name, content := range map[string][]byte{"small.txt": []byte("from the mount"), "empty": {},
			"large.bin": bytes.Repeat(content, 20)} {
			write(t, b.path("team", name), content)
			// an empty file may take 2 s (W5)
			proctest.Eventually(t, fmt.Sprintf("%s has a reference", name), func() bool {
				ref := make([]byte, 300)
				n, err := unix.Getxattr(b.path("team", name), "user.svcfs.ref", ref)
				if err != nil {
					return false
				}
				back := filepath.Join(w.dir, "back")
				must(alice, "team", "retrieve", string(ref[:n]), back)
				if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s: JavaScript reads %d bytes, want %d", name, len(got), len(content))
				}
				return true
			})
		}
	})
	t.Run("it reads a file with attributes, and a link as its target", func(t *testing.T) {
		tree := w.mkdir("tree")
		ok(t, os.WriteFile(filepath.Join(tree, "run"), []byte("#!/bin/sh"), 0o700))
		ok(t, os.Symlink("run", filepath.Join(tree, "link")))
		list := json.NewDecoder(strings.NewReader(alice.must("put", "team", tree, "--json", "--jobs", "1")))
		for _, want := range []string{"run", "#!/bin/sh"} {
			var put struct{ CID string }
			ok(t, list.Decode(&put))
			back := filepath.Join(w.dir, "back")
			must(alice, "team", "retrieve", put.CID, back)
			if got, err := os.ReadFile(back); err != nil || string(got) != want {
				t.Errorf("JavaScript reads %q, %v, want %q", got, err, want)
			}
		}
		if got := alice.must("ls", "-Rl", "team"); !strings.Contains(got, "tree/link -> run\n") ||
			!strings.Contains(got, "tree/run*\n") {
			t.Errorf("listed:\n%s", got)
		}
	})
	t.Run("groups, fees and balances", func(t *testing.T) {
		must(alice, "js-group", "register")
		must(alice, "js-group", "add", bob.id)
		if got := must(alice, "js-group", "authorized", bob.id); got != "true" {
			t.Errorf("isAuthorized: %s", got)
		}
		must(alice, "js-group", "revoke", bob.id)
		for command, want := range map[string]string{"owner": `"alice.svc.testnet"`,
			"status": `"authorized_for_group":true`} {
			if got := must(alice, "js-group", command); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", command, got, want)
			}
		}
		if got := must(alice, "js-group", "fee", "register_group"); got != `"640000000000000000000000"` {
			t.Errorf("estimateFee: %s", got)
		}
		if got := must(alice, "js-group", "checksum"); len(got) != 66 {
			t.Errorf("checksum: %s", got)
		}
		if got := must(alice, "js-group", "balance"); !strings.HasSuffix(got, `000"`) {
			t.Errorf("balance: %s", got)
		}
	})
	t.Run("what its client does by itself", func(t *testing.T) {
		if got := must(alice, "team", "composite", file, "twice.bin"); got != "true" {
			t.Errorf("compositeUpload and compositeRetrieve: %s", got)
		}
		if got := must(alice, "team", "hash", file); strings.Count(got, uploaded.Hash) != 2 {
			t.Errorf("computeHash: %s, want %s", got, uploaded.Hash)
		}
		wantInReadme(t, filepath.Join(installed(t), "node_modules/nova-sdk-js/dist/index.d.ts"))
		if got := must(alice, "team", "network"); !strings.Contains(got, `"networkId":"testnet"`) {
			t.Errorf("getNetworkInfo: %s", got)
		}
		if got := must(alice, "team", "token"); got != "" && got != "null" {
			t.Errorf("refreshToken: %s", got)
		}
	})
	t.Run("an open group", func(t *testing.T) {
		alice.must("group", "create", "js-open", "--open", "--for", "1h")
		alice.must("put", "js-open", file)
		var rows []struct {
			Hash string `json:"file_hash"`
			CID  string `json:"ipfs_hash"`
		}
		ok(t, json.Unmarshal([]byte(must(w.account("carol", "1"), "js-open", "transactions")), &rows))
		if len(rows) != 1 || len(rows[0].Hash) != 64 || rows[0].Hash == uploaded.Hash || rows[0].CID == "" {
			t.Errorf("who is no member is told %+v", rows)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		if _, problem := js(alice, "team", "transactions"); !strings.Contains(problem, "Unauthorized") {
			t.Errorf("getTransactionsForGroup of a closed group by the free view: %q", problem)
		}
		for _, tc := range []struct{ name, group, command, arg, word string }{
			{"not a member", "js-group", "retrieve", uploaded.CID, "not authorized"},
			{"wrong group", "team", "add", alice.id, "Only group owner"},
			{"absent", "team", "retrieve", "bafyNothing", "not found"},
		} {
			if _, problem := js(bob, tc.group, tc.command, tc.arg,
				filepath.Join(w.dir, "x")); !strings.Contains(problem, tc.word) {
				t.Errorf("%s: %q holds no %q", tc.name, problem, tc.word)
			}
		}
		stranger := &person{w: w, id: "stranger.svc.testnet", key: alice.key}
		if _, problem := js(stranger, "team", "status"); !strings.Contains(problem, "not found") {
			t.Errorf("unknown account: %q", problem)
		}
	})
}

// A JavaScript SDK that is open goes on over a restart of the service. New keys for sessions end its session too, and
// it signs in again with refreshToken.
func TestJavaScriptSDKThatIsOpen(t *testing.T) {
	w, alice, bob := team(t)
	js := javaScript(t, w.url, "sdk.mjs")
	works := func(command string, args ...string) {
		t.Helper()
		if _, problem := js(alice, "team", command, args...); problem != "" {
			t.Errorf("%s: %s", command, problem)
		}
	}
	works("revoke", bob.id)
	w.stop()
	w.start()
	works("add", bob.id)
	w.stop()
	if out, err := w.svcd("rotate-token-key"); err != nil {
		t.Fatal(err, out)
	}
	w.start()
	if _, problem := js(alice, "team", "revoke", bob.id); !strings.Contains(problem, "invalid session token") {
		t.Errorf("with a session of before: %q", problem)
	}
	works("token")
	works("revoke", bob.id)
}

// TestJavaScriptSDKOverAStepOfTheClock: the clock of the service is set ahead, and then right again. A JavaScript
// SDK that signed in before goes on over both steps; one that signed in meanwhile has to do that again.
func TestJavaScriptSDKOverAStepOfTheClock(t *testing.T) {
	s := testkit.Start(t, testkit.Ours)
	js := javaScript(t, s.URL, "sdk.mjs")
	works := func(a testkit.Account, command string, args ...string) {
		t.Helper()
		p := &person{id: string(a.ID), key: a.Key.Reveal()}
		if _, problem := js(p, string(a.ID), command, args...); problem != "" {
			t.Errorf("%s: %s", command, problem)
		}
	}
	before, meanwhile := s.Account("before", "10"), s.Account("meanwhile", "10")
	works(before, "register")
	s.SetClock(10 * time.Minute)
	works(before, "add", "one")
	works(meanwhile, "register")
	s.SetClock(0)
	works(before, "add", "two")
	p := &person{id: string(meanwhile.ID), key: meanwhile.Key.Reveal()}
	if _, problem := js(p, p.id, "add", "one"); !strings.Contains(problem, "invalid session token") {
		t.Errorf("with a session that the clock has not come to: %q", problem)
	}
	works(meanwhile, "token")
	works(meanwhile, "add", "one")
}

// A file above 4 MiB that svcfs saved is refused to the JavaScript SDK, with the command of the group's owner,
// and read once the owner ran it.
func TestJavaScriptSDKAboveFourMiB(t *testing.T) {
	w, alice, _ := team(t)
	js := javaScript(t, w.url, "sdk.mjs")
	content, file := bytes.Repeat([]byte("large \x00\xff"), 700_000), filepath.Join(w.dir, "upload.bin") // 5.6 MB
	write(t, file, content)
	cid := func() (cid string) {
		var listed []struct{ Name, CID string }
		ok(t, json.Unmarshal([]byte(alice.must("ls", "team", "--json")), &listed))
		for _, f := range listed {
			cid = f.CID
		}
		return cid
	}
	alice.must("put", "team", file)
	back := filepath.Join(w.dir, "back")
	_, problem := js(alice, "team", "retrieve", cid(), back)
	if !strings.Contains(problem, "svcfs group config GROUP format 1 --existing") {
		t.Errorf("JavaScript is told %q", problem)
	}
	alice.must("group", "config", "team", "format", "1", "--existing", "--yes")
	if _, problem := js(alice, "team", "retrieve", cid(), back); problem != "" {
		t.Fatal(problem)
	}
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, content) {
		t.Errorf("JavaScript reads %d bytes, %v, want %d", len(got), err, len(content))
	}
}

// wantInReadme checks that the table in sdk/README.md names every public method
// that the types of the npm package declare.
func wantInReadme(t *testing.T, types string) {
	t.Helper()
	readme := string(read(t, "../sdk/README.md"))
	methods := regexp.MustCompile(`(?m)^    (\w+)\(`).FindAllStringSubmatch(string(read(t, types)), -1)
	if len(methods) < 20 {
		t.Errorf("%s declares %d methods", types, len(methods))
	}
	for _, m := range methods {
		if name := m[1]; name != "constructor" && !strings.Contains(readme, "`"+name+"(") &&
			!strings.Contains(readme, "`"+name+"`") {
			t.Errorf("%s of nova-sdk-js %s is not in sdk/README.md", name, npmVersion)
		}
	}
}

// Exchange with JavaScript, compressed and not, in both directions. The npm
// package 1.0.3 knows no format: what it uploads is never compressed, and a
// compressed file, whose zlib stream it would hand out as content, it is refused. A
// client that reads the format, as 1.2 does, gets and sends both.
func TestJavaScriptCompression(t *testing.T) {
	w, alice, bob := team(t)
	npm, v1 := javaScript(t, w.url, "sdk.mjs"), javaScript(t, w.url, "format1.mjs")
	c, err := sdk.New(sdk.AccountID(bob.id), sdk.Config{URL: w.url, APIKey: sdk.NewSecret(bob.key)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	noise := make([]byte, 100_000)
	_, _ = rand.Read(noise)
	x := &exchange{t: t, w: w, c: c, alice: alice, npm: npm, v1: v1}
	for name, content := range map[string][]byte{"text": bytes.Repeat([]byte("compressible \x00\xff text "), 10_000),
		"noise": noise, "empty": {}, "short": []byte("x")} {
		for _, deflate := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deflate %v", name, deflate), func(t *testing.T) {
				x.t = t
				x.fromGo(name, content, deflate)
				x.fromJavaScript(name, content, deflate)
			})
		}
	}
}

// exchange moves files between bob, who runs our SDK, and alice, who runs Node.
type exchange struct {
	t       *testing.T
	w       *world
	c       *sdk.Client
	alice   *person
	npm, v1 func(p *person, group, command string, args ...string) (json.RawMessage, string)
}

// read retrieves ref with a program of Node.
func (x *exchange) read(with func(*person, string, string, ...string) (json.RawMessage, string), ref string) ([]byte,
	string) {
	x.t.Helper()
	file := filepath.Join(x.w.dir, "out")
	said, problem := with(x.alice, "team", "retrieve", ref, file)
	if problem != "" {
		x.t.Fatalf("retrieve: %s", problem)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		x.t.Fatal(err)
	}
	return got, string(said)
}

// fromGo uploads with our SDK and reads with both JavaScript clients.
func (x *exchange) fromGo(name string, content []byte, deflate bool) {
	x.t.Helper()
	var opts []sdk.PutOptions
	if deflate {
		opts = []sdk.PutOptions{{Compress: true}}
	}
	r, err := x.c.Group("team").Put(x.t.Context(), name, bytes.NewReader(content), opts...)
	if err != nil {
		x.t.Fatal(err)
	}
	packed := deflate && name == "text" // the others do not pay
	got, said := x.read(x.v1, string(r.Ref))
	if !bytes.Equal(got, content) || strings.Contains(said, `"compression":"deflate"`) != packed ||
		!strings.Contains(said, fmt.Sprintf(`"original_size":%d`, len(content))) {
		x.t.Errorf("a reader of the format reads %d bytes of %d, %s", len(got), len(content), said)
	}
	x.wantFromNPM(string(r.Ref), content, packed)
}

// wantFromNPM reads with the npm package: the content, or of a compressed file a
// refusal that says why.
func (x *exchange) wantFromNPM(ref string, content []byte, packed bool) {
	x.t.Helper()
	if packed {
		if _, problem := x.npm(x.alice, "team", "retrieve", ref,
			filepath.Join(x.w.dir, "out")); !strings.Contains(problem, "this file is compressed") {
			x.t.Errorf("nova-sdk-js %s reads a compressed file: %q", npmVersion, problem)
		}
		return
	}
	if got, _ := x.read(x.npm, ref); !bytes.Equal(got, content) {
		x.t.Errorf("nova-sdk-js %s reads %d bytes of %d", npmVersion, len(got), len(content))
	}
}

// fromJavaScript uploads with both JavaScript clients and reads with our SDK.
func (x *exchange) fromJavaScript(name string, content []byte, deflate bool) {
	x.t.Helper()
	file := filepath.Join(x.w.dir, "in")
	write(x.t, file, content)
	uploads := map[string]func() (json.RawMessage,
		string){"format1": func() (json.RawMessage, string) { return x.v1(x.alice, "team", "upload", file, name) }}
	if deflate {
		uploads["format1"] = func() (json.RawMessage, string) {
			return x.v1(x.alice, "team", "upload", file, name, "deflate")
		}
	} else {
		uploads["npm"] = func() (json.RawMessage, string) { return x.npm(x.alice, "team", "upload", file, name) }
	}
	for program, upload := range uploads {
		said, problem := upload()
		var uploaded struct {
			CID  string `json:"cid"`
			Hash string `json:"file_hash"`
		}
		if err := json.Unmarshal(said, &uploaded); err != nil || problem != "" {
			x.t.Fatalf("%s: %s, %s, %v", program, said, problem, err)
		}
		got, plain, err := sdktest.Read(x.t.Context(), x.c.Group("team"), uploaded.CID)
		if err != nil || !bytes.Equal(got, content) || plain.Hash.String() != uploaded.Hash {
			x.t.Errorf("%s uploaded %d bytes, our SDK reads %d: %v", program, len(content), len(got), err)
		}
		x.wantFromNPM(uploaded.CID, content, deflate)
	}
}

// Accounts that are named after the host of a service work with the JavaScript SDK 1.0.3, and it takes the service for
// no main network, because the contract stays.
func TestJavaScriptAccountsOfAHost(t *testing.T) {
	proctest.Need(t, "node", "npm")
	s := testkit.Start(t, testkit.Ours, testkit.AccountsOf("files.example.org"))
	made := s.Account("alice", "10")
	if made.ID != "alice.files.example.org" {
		t.Fatalf("the account is %s", made.ID)
	}
	alice := &person{id: string(made.ID), key: made.Key.Reveal()}
	js := javaScript(t, s.URL, "sdk.mjs")
	for _, step := range [][]string{{"register"}, {"status"}, {"owner", "alice.files.example.org"},
		{"network", `"networkId":"testnet"`}, {"add"}} {
		var args []string
		if step[0] == "add" {
			args = []string{"bob.files.example.org"}
		}
		out, problem := js(alice, "team", step[0], args...)
		if problem != "" || len(step) > 1 && !strings.Contains(string(out), step[1]) {
			t.Errorf("%s: %s %s", step[0], out, problem)
		}
	}
}
