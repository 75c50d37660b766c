package integration

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// The exit codes of the agent scripts (specification 7.2).
const (
	agentDone    = 0
	agentAuth    = 1
	agentMissing = 2
)

// agent runs the scripts for one account, in a directory of its own.
type agent struct {
	t       *testing.T
	env     []string
	dir     string // working directory
	scripts string
}

type agentRun struct {
	out  []byte
	err  string
	code int
}

// python is the program python3 itself: in PATH may be a script that finds it, which takes longer than it.
var python = sync.OnceValue(func() string {
	out, _ := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output() // else PATH finds it
	return strings.TrimSpace(string(out))
})

func newAgent(t *testing.T, url string, account sdk.AccountID, key string) *agent {
	t.Helper()
	proctest.Need(t, "curl", "jq", "python3")
	scripts, err := filepath.Abs("agent")
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, dir: t.TempDir(), scripts: scripts}
	a.env = []string{"PATH=" + filepath.Dir(python()) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"TMPDIR=" + a.dir, "SVC_URL=" + url, "SVC_ACCOUNT_ID=" + string(account), "SVC_API_KEY=" + key}
	return a
}

func (a *agent) command(program string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(a.t.Context(), proctest.Hang)
	a.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = a.dir, a.env
	return cmd
}

func (a *agent) finish(cmd *exec.Cmd) agentRun {
	a.t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		a.t.Fatal(err)
	}
	return agentRun{out.Bytes(), errs.String(), cmd.ProcessState.ExitCode()}
}

func (a *agent) run(script string, args ...string) agentRun {
	a.t.Helper()
	return a.finish(a.command(filepath.Join(a.scripts, script), args...))
}

// want runs a script that must end with code; without 0 it may print nothing.
func (a *agent) want(code int, script string, args ...string) agentRun {
	a.t.Helper()
	r := a.run(script, args...)
	if r.code != code || code != agentDone && len(r.out) != 0 || code != agentDone && strings.Count(r.err, "\n") != 1 {
		a.t.Errorf("%s %q: exit %d, want %d; %d bytes on standard output\n%s", script, args, r.code, code, len(r.out),
			r.err)
	}
	return r
}

func random(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Specification 4.4, 7.2 and 2.6, against the service itself.
func TestAgentScripts(t *testing.T) {
	w, alice, bob := team(t)
	stranger := w.account("carol", "10")
	as := func(p *person) *agent { return newAgent(t, w.url, sdk.AccountID(p.id), p.key) }
	a, b, c := as(alice), as(bob), as(stranger)
	content := random(t, 1<<20)
	write(t, filepath.Join(a.dir, "random.bin"), content)
	ref := strings.TrimSuffix(string(a.want(agentDone, "upload_to_svc.sh", "team", "random.bin").out), "\n")

	t.Run("round trip of 1 MiB of random bytes", func(t *testing.T) {
		if got := b.want(agentDone, "retrieve_and_decrypt.sh", "team", ref); !bytes.Equal(got.out, content) ||
			got.err != "" {
			t.Errorf("%d bytes, not what was uploaded; %s", len(got.out), got.err)
		}
		if got := bob.must("get", "team", "random.bin"); got != string(content) {
			t.Error("svcfs reads something else")
		}
	})
	t.Run("a large file that svcfs put, in blocks", func(t *testing.T) {
		large := random(t, 5<<20+3)
		write(t, filepath.Join(a.dir, "large.bin"), large)
		alice.must("put", "team", filepath.Join(a.dir, "large.bin"))
		ok(t, os.Remove(filepath.Join(a.dir, "large.bin")))
		if got := b.want(agentDone, "retrieve_and_decrypt.sh", "team", refOf(t, b, "large.bin")); !bytes.Equal(got.out,
			large) || got.err != "" {
			t.Errorf("%d bytes, not what was put; %s", len(got.out), got.err)
		}
		if list := string(b.want(agentDone, "list_group_transactions.sh", "team").out); !strings.Contains(list,
			`"content":`) {
			t.Error("the service kept no file in blocks")
		}
	})
	t.Run("empty file, and one that svcfs put", func(t *testing.T) {
		write(t, filepath.Join(a.dir, "empty"), nil)
		alice.must("put", "team", filepath.Join(a.dir, "empty"))
		if got := b.want(agentDone, "retrieve_and_decrypt.sh", "team", refOf(t, b, "empty")); len(got.out) != 0 {
			t.Errorf("%d bytes", len(got.out))
		}
	})
	t.Run("authorization document", func(t *testing.T) {
		for who, want := range map[*agent]string{a: `{"authorized":true,"groups":["team"],"member_count":2}`,
			b: `{"authorized":true,"groups":["team"],"member_count":2}`,
			c: `{"authorized":false,"groups":[],"member_count":0}`} {
			var compact bytes.Buffer
			if err := json.Compact(&compact, who.want(agentDone, "check_auth.sh", "team").out); err != nil ||
				compact.String() != want {
				t.Errorf("%s, %v; want %s", compact.String(), err, want)
			}
		}
		if got := a.want(agentDone, "check_auth.sh", "no-such-group"); !bytes.Contains(got.out,
			[]byte(`"authorized": false`)) {
			t.Errorf("%s", got.out)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		alice.must("group", "create", "other")
		c.want(agentAuth, "retrieve_and_decrypt.sh", "team", ref)
		c.want(agentAuth, "list_group_transactions.sh", "team")
		c.want(agentAuth, "upload_to_svc.sh", "team", filepath.Join(a.dir, "random.bin"))
		a.want(agentMissing, "retrieve_and_decrypt.sh", "other", ref)
		a.want(agentMissing, "retrieve_and_decrypt.sh", "team", "QmWrong")
		a.want(agentMissing, "retrieve_and_decrypt.sh", "team", "")
		a.want(agentMissing, "retrieve_and_decrypt.sh", "team")
		a.want(agentMissing, "retrieve_and_decrypt.sh", "team", ref, "more")
		a.want(agentMissing, "check_auth.sh")
		a.want(agentMissing, "upload_to_svc.sh", "team", "absent")
		a.want(agentMissing, "upload_to_svc.sh", "team", ".")
		for _, script := range []string{"retrieve_and_decrypt.sh", "upload_to_svc.sh"} {
			limited := newAgent(t, w.url, sdk.AccountID(alice.id), alice.key)
			limited.env = append(limited.env, "SVC_MAX_BYTES=1000")
			limited.want(agentMissing, script, "team", map[string]string{"retrieve_and_decrypt.sh": ref,
				"upload_to_svc.sh": filepath.Join(a.dir, "random.bin")}[script])
		}
	})
	t.Run("credentials", func(t *testing.T) {
		for name, change := range map[string]string{
			"wrong key": "SVC_API_KEY=svc_sk_" + strings.Repeat("A", 43), "no key": "SVC_API_KEY=",
			"key with a newline": "SVC_API_KEY=a\nX-Evil: 1",
			"unknown account":    "SVC_ACCOUNT_ID=nobody.svc.testnet", "no account": "SVC_ACCOUNT_ID=",
		} {
			t.Run(name, func(t *testing.T) {
				wrong := newAgent(t, w.url, sdk.AccountID(alice.id), alice.key)
				wrong.env = append(wrong.env, change)
				wrong.want(agentAuth, "retrieve_and_decrypt.sh", "team", ref)
				wrong.want(agentAuth, "check_auth.sh", "team")
			})
		}
		for script, args := range map[string][]string{"check_auth.sh": {"team"}, "list_group_transactions.sh": {"team"},
			"retrieve_and_decrypt.sh": {"team", ref},
			"upload_to_svc.sh":        {"team", filepath.Join(a.dir, "random.bin")}} {
			unreachable := newAgent(t, "http://127.0.0.1:1", sdk.AccountID(alice.id), alice.key)
			unreachable.want(agentMissing, script, args...)
		}
		for _, address := range []string{"http://example.org", "http://127.evil.example", "file:///etc/passwd",
			"https://user:pass@example.org", "-oX", "https://h/?q", "nonsense"} {
			wrong := newAgent(t, address, sdk.AccountID(alice.id), alice.key)
			wrong.want(agentMissing, "check_auth.sh", "team")
		}
	})
	t.Run("revoked", func(t *testing.T) {
		alice.must("group", "revoke", "team", bob.id)
		b.want(agentAuth, "retrieve_and_decrypt.sh", "team", ref)
	})
}

// refOf finds a file's reference the way SKILL.md shows.
func refOf(t *testing.T, a *agent, name string) string {
	t.Helper()
	var rows []wire.TransactionRow
	ok(t, json.Unmarshal(a.want(agentDone, "list_group_transactions.sh", "team").out, &rows))
	for _, row := range slices.Backward(rows) {
		if row.Filename != nil && *row.Filename == name {
			return row.IPFSHash
		}
	}
	t.Fatalf("no file %s in %v", name, rows)
	return ""
}

// memoryWorld is a service in memory with a group and a client of its owner.
func memoryWorld(t *testing.T, flavour testkit.Dialect, group sdk.GroupID) (*testkit.Server, testkit.Account,
	*sdk.Client) {
	t.Helper()
	s := testkit.Start(t, flavour)
	alice := s.Account("alice", "100")
	c := s.Client(t, alice)
	if _, err := c.Group(group).Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, alice, c
}

// The service in each dialect.
func TestAgentScriptsMeetEveryGeneration(t *testing.T) {
	for _, flavour := range []testkit.Dialect{testkit.Hosted, testkit.Ours} {
		t.Run(flavour.String(), func(t *testing.T) {
			s, alice, c := memoryWorld(t, flavour, "team")
			a := newAgent(t, s.URL, alice.ID, alice.Key.Reveal())
			content := random(t, 100_000)
			write(t, filepath.Join(a.dir, "f"), content)
			ref := strings.TrimSpace(string(a.want(agentDone, "upload_to_svc.sh", "team", "f").out))
			if got := a.want(agentDone, "retrieve_and_decrypt.sh", "team", ref); !bytes.Equal(got.out, content) {
				t.Errorf("%d bytes", len(got.out))
			}
			receipt, err := c.Group("team").Put(t.Context(), "other", bytes.NewReader([]byte("of the library")))
			if err != nil {
				t.Fatal(err)
			}
			if got := a.want(agentDone, "retrieve_and_decrypt.sh", "team",
				string(receipt.Ref)); string(got.out) != "of the library" {
				t.Errorf("%q", got.out)
			}
			if got := a.want(agentDone, "check_auth.sh", "team"); !bytes.Contains(got.out,
				[]byte(`"authorized": true`)) || !bytes.Contains(got.out, []byte(`"member_count": 1`)) {
				t.Errorf("%s", got.out)
			}
			text := bytes.Repeat([]byte("the same thing again "), 10_000)
			if receipt, err = c.Group("team").Put(t.Context(), "packed", bytes.NewReader(text),
				sdk.PutOptions{Compress: true}); err != nil {
				t.Fatal(err)
			}
			if got := a.want(agentDone, "retrieve_and_decrypt.sh", "team", string(receipt.Ref)); !bytes.Equal(got.out,
				text) {
				t.Errorf("compressed: %d bytes", len(got.out))
			}
			if s.Records() != 3 {
				t.Errorf("%d records, want 3", s.Records())
			}
			carol := s.Account("carol", "100")
			newAgent(t, s.URL, carol.ID, carol.Key.Reveal()).want(agentAuth, "retrieve_and_decrypt.sh", "team", ref)
		})
	}
}

// A deleted file is refused before anything is asked for.
func TestAgentScriptsRefuseDeleted(t *testing.T) {
	s, alice, c := memoryWorld(t, testkit.Ours, "team")
	receipt, err := c.Group("team").Put(t.Context(), "f", bytes.NewReader([]byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Group("team").Delete(t.Context(), receipt.Ref)
	ok(t, err)
	a := newAgent(t, s.URL, alice.ID, alice.Key.Reveal())
	if got := a.want(agentMissing, "retrieve_and_decrypt.sh", "team", string(receipt.Ref)); !strings.Contains(got.err,
		"deleted") || s.Hits(wire.PathTools+wire.OpPrepareRetrieve) != 0 {
		t.Error(got.err)
	}
}

// A file that was compressed before it was encrypted comes out as it went in.
func TestAgentScriptsInflate(t *testing.T) {
	s, alice, c := memoryWorld(t, testkit.Hosted, "team")
	receipt, err := c.Group("team").Put(t.Context(), "f", bytes.NewReader(bytes.Repeat([]byte("compress me "), 10_000)))
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("compress me "), 10_000)
	s.Answer(wire.PathTools+wire.OpPrepareRetrieve, func(w http.ResponseWriter, _ *http.Request) {
		stream, err := format.Deflate(content)
		if err != nil {
			panic(err)
		}
		raw := bytes.Repeat([]byte{7}, format.KeyBytes)
		key, err := format.NewKey(raw)
		if err != nil {
			panic(err)
		}
		blob, err := format.SealBlob(key, stream)
		if err != nil {
			panic(err)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"key": base64.StdEncoding.EncodeToString(raw),
			"encrypted_b64": base64.StdEncoding.EncodeToString(blob),
			"format":        map[string]any{"version": 1, "compression": "deflate", "original_size": len(content)}})
	})
	a := newAgent(t, s.URL, alice.ID, alice.Key.Reveal())
	if got := a.want(agentDone, "retrieve_and_decrypt.sh", "team", string(receipt.Ref)); !bytes.Equal(got.out,
		content) {
		t.Errorf("%d bytes, want %d", len(got.out), len(content))
	}
}

// The helper reads every frozen sample of the format as the library does, with the
// Python that is found first and with the distribution's, whose package
// cryptography may be years older.
func TestAgentHelperReadsFrozenSamples(t *testing.T) {
	paths, err := filepath.Glob("../format/testdata/*.json")
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d samples, %v", len(paths), err)
	}
	type call struct {
		Args   []string `json:"args"`
		Answer string   `json:"answer"`
		want   string   // the result, and the hash of the content
		hash   string
	}
	var calls []call
	var lines bytes.Buffer
	for _, path := range paths {
		var sample struct {
			Key    string          `json:"key"`
			Blob   string          `json:"blob"`
			Format json.RawMessage `json:"format"`
			SHA256 string          `json:"sha256"`
			Result string          `json:"result"`
		}
		ok(t, json.Unmarshal(read(t, path), &sample))
		answer, err := json.Marshal(map[string]any{"result": map[string]any{"key": sample.Key,
			"encrypted_b64": sample.Blob, "format": sample.Format}})
		ok(t, err)
		if sample.SHA256 == "" {
			sample.SHA256 = strings.Repeat("0", 64)
		}
		c := call{[]string{"--sha256", sample.SHA256, "--max-bytes", "1048576"}, string(answer), sample.Result,
			sample.SHA256}
		calls = append(calls, c)
		ok(t, json.NewEncoder(&lines).Encode(c))
	}
	a := newAgent(t, "", "", "")
	for _, python := range pythons(t) {
		cmd := a.command(python, "-B", "-c", decryptEach, a.scripts)
		cmd.Stdin = bytes.NewReader(lines.Bytes())
		all := a.finish(cmd)
		answers := json.NewDecoder(bytes.NewReader(all.out))
		for i, c := range calls {
			var r struct {
				Code int    `json:"code"`
				Out  []byte `json:"out"`
				Err  string `json:"err"`
			}
			if err := answers.Decode(&r); err != nil {
				t.Fatalf("%s: %s: %v\n%s", python, paths[i], err, all.err)
			}
			if c.want == "ok" {
				if r.Code != agentDone || sdk.ComputeHash(r.Out).String() != c.hash {
					t.Errorf("%s: %s: exit %d with %d bytes: %s", python, paths[i], r.Code, len(r.Out), r.Err)
				}
			} else if r.Code != agentMissing || len(r.Out) != 0 || strings.Count(r.Err, "\n") != 1 {
				t.Errorf("%s: %s: %s: exit %d with %d bytes: %s", python, paths[i], c.want, r.Code, len(r.Out), r.Err)
			}
		}
	}
}

// decryptEach calls the helper for each line that it reads: starting a Python takes longer than decrypting.
const decryptEach = `
import base64, io, json, sys
sys.path.insert(0, sys.argv[1])
import decrypt_svc
lines, answers = sys.stdin, sys.stdout
for call in map(json.loads, lines):
    sys.argv = ["decrypt_svc.py", *call["args"]]
    streams = [io.BytesIO(call["answer"].encode()), io.BytesIO(), io.BytesIO()]
    sys.stdin, sys.stdout, sys.stderr = (io.TextIOWrapper(s, write_through=True) for s in streams)
    code = decrypt_svc.main()
    print(json.dumps({"code": code, "out": base64.b64encode(streams[1].getvalue()).decode(), "err": streams[2].getvalue().decode()}), file=answers)
`

// secretsOf listens to what a service is sent and what it answers.
func secretsOf(s *testkit.Server) func() map[string]string {
	var mu sync.Mutex
	found := map[string]string{}
	for _, op := range []string{wire.OpPrepareRetrieve, wire.OpPrepareUpload} {
		s.Disturb(wire.PathTools+op, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := httptest.NewRecorder()
				next.ServeHTTP(answer, r)
				var body struct {
					Result wire.PrepareRetrieveResult `json:"result"`
				}
				_ = json.Unmarshal(answer.Body.Bytes(), &body)
				mu.Lock()
				found["token"] = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				found["file key of "+op] = body.Result.Key
				if len(body.Result.EncryptedB64) > 64 {
					found["ciphertext"] = body.Result.EncryptedB64[:64]
				}
				mu.Unlock()
				w.WriteHeader(answer.Code)
				_, _ = w.Write(answer.Body.Bytes())
			})
		})
	}
	return func() map[string]string {
		mu.Lock()
		defer mu.Unlock()
		for name, value := range found {
			if value == "" {
				delete(found, name)
			}
		}
		return maps.Clone(found)
	}
}

// namingCalls are the system calls that run a program or make something with a
// name.
const namingCalls = "execve,open,openat,creat,mknod,mknodat,mkdir,mkdirat,link,linkat,rename,renameat,renameat2,symlink,symlinkat,memfd_create"

// Threat 40: no secret is in an argument, in the environment of a child, in a
// file or in a trace.
func TestThreat40AgentSecretsStayInPipes(t *testing.T) {
	s, alice, _ := memoryWorld(t, testkit.Hosted, "team")
	key := alice.Key.Reveal()
	a := newAgent(t, s.URL, alice.ID, key)
	content := []byte("canary-" + strings.Repeat("0123456789abcdef", 8))
	write(t, filepath.Join(a.dir, "f"), content)
	seen := secretsOf(s)
	ref := strings.TrimSpace(string(a.want(agentDone, "upload_to_svc.sh", "team", "f").out))
	calls := [][]string{{"retrieve_and_decrypt.sh", "team", ref}, {"check_auth.sh", "team"},
		{"list_group_transactions.sh", "team"}, {"upload_to_svc.sh", "team", "f"}}

	t.Run("arguments, environments and files", func(t *testing.T) {
		proctest.Need(t, "strace")
		for _, call := range calls {
			log := filepath.Join(t.TempDir(), "strace")
			args := []string{"-f", "-v", "-s", "100000", "-o", log, "-e", "trace=" + namingCalls,
				filepath.Join(a.scripts, call[0])}
			r := a.finish(a.command("strace", append(args, call[1:]...)...))
			if r.code != agentDone {
				t.Fatalf("%v: exit %d\n%s", call, r.code, r.err)
			}
			checkTrace(t, string(read(t, log)), call[0], key, seen())
		}
		for _, d := range []string{a.dir, strings.TrimPrefix(a.env[1], "HOME=")} {
			names, err := os.ReadDir(d)
			if err != nil || len(names) > 1 {
				t.Errorf("%s holds %v, %v", d, names, err)
			}
		}
	})
	t.Run("traces of the shell", func(t *testing.T) {
		for _, call := range calls {
			r := a.finish(a.command("bash", append([]string{"-xv", filepath.Join(a.scripts, call[0])}, call[1:]...)...))
			if r.code != agentDone {
				t.Fatalf("%v: exit %d\n%s", call, r.code, r.err)
			}
			reveals(t, call[0]+" -xv", r.err, key, seen(), string(content))
		}
	})
	t.Run("values edited into the script", func(t *testing.T) {
		edited := t.TempDir()
		shell(t, edited, "cp "+a.scripts+"/* . && sed -i "+
			"'s/<account_id>/"+string(alice.ID)+"/; s/<API_KEY>/"+key+"/' *.sh")
		b := newAgent(t, s.URL, "", "")
		b.scripts = edited
		if got := b.want(agentDone, "retrieve_and_decrypt.sh", "team", ref); !bytes.Equal(got.out, content) {
			t.Errorf("%q", got.out)
		}
		r := b.finish(b.command("bash", "-xv", filepath.Join(edited, "retrieve_and_decrypt.sh"), "team", ref))
		reveals(t, "edited -xv", r.err, key, seen(), string(content))
	})
}

func reveals(t *testing.T, where, text, key string, secrets map[string]string, more ...string) {
	t.Helper()
	secrets["API key"] = key
	for name, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows the %s", where, name)
		}
	}
	for _, secret := range more {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows content", where)
		}
	}
}

// created matches a system call that succeeded in making something with a name.
var created = regexp.MustCompile(
	`(?:O_CREAT.*|^\d+ +(?:creat|mknod|mknodat|mkdir|mkdirat|link|linkat|rename|renameat|renameat2|symlink|symlinkat)\(.*) = \d+`)

func checkTrace(t *testing.T, trace, script, key string, secrets map[string]string) {
	t.Helper()
	for line := range strings.Lines(trace) {
		if created.MatchString(line) && !strings.Contains(line, `"/dev/null"`) {
			t.Errorf("%s makes a file: %s", script, line)
		}
		// The script itself is given the key in its environment.
		if strings.Contains(line, "execve(") && !strings.Contains(line, script+`"`) {
			reveals(t, script+": "+line[:min(len(line), 120)], line, key, secrets)
		}
	}
}

// Threat 41: names of groups, references and files are never read as anything
// but names.
func TestThreat41AgentHostileNames(t *testing.T) {
	proctest.Long(t)
	names := []string{`"`, `'`, "a\nb", "$(touch pwned)", "`touch pwned`", "-rf", "--help", "-", "; touch pwned",
		"a b  c",
		`\`, `\n`, "*", "~", "@f", "%s%n", `"},"x":{"`, "ü\u202e", "$HOME", "${x}", "&touch pwned", "\tx"}
	s, alice, c := memoryWorld(t, testkit.Hosted, "first")
	for i, name := range names {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, s.URL, alice.ID, alice.Key.Reveal())
			content := []byte(fmt.Sprint("content ", i))
			if _, err := c.Group(sdk.GroupID(name)).Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(a.dir, name), content)
			ref := strings.TrimSpace(string(a.want(agentDone, "upload_to_svc.sh", name, name).out))
			if got := a.want(agentDone, "retrieve_and_decrypt.sh", name, ref); !bytes.Equal(got.out, content) {
				t.Errorf("%q", got.out)
			}
			if got := a.want(agentDone, "check_auth.sh", name); !bytes.Contains(got.out, []byte(`"authorized": true`)) {
				t.Errorf("%s", got.out)
			}
			a.want(agentMissing, "retrieve_and_decrypt.sh", name, name)
			entries, err := os.ReadDir(a.dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("the working directory holds %v, %v", entries, err)
			}
		})
	}
}

// Threat 42: whatever the one lie is, standard output stays empty and the exit
// code is right; a fault that passes may be survived.
func TestThreat42AgentHostileService(t *testing.T) {
	proctest.Long(t)
	asked := []testkit.Subject{testkit.OnRetrieve, testkit.OnUpload, testkit.OnList, testkit.OnToken}
	// the scripts ask for nothing else
	list := slices.DeleteFunc(testkit.Lies(), func(l testkit.Lie) bool { return !slices.Contains(asked, l.On) })
	slices.SortFunc(list, func(a, b testkit.Lie) int { return strings.Compare(a.Name, b.Name) })
	for _, lie := range list {
		t.Run(lie.Name, func(t *testing.T) {
			t.Parallel()
			h := testkit.NewWorld(t, lie.On, lie.Large)
			h.Tell(lie)
			a := newAgent(t, h.URL, h.Alice.ID, h.Alice.Key.Reveal())
			a.env = append(a.env, "SVC_MAX_BYTES=8388608")
			if lie.Want == sdk.ErrTimeout {
				a.env = append(a.env, "SVC_TIMEOUT=1")
			}
			args := []string{"retrieve_and_decrypt.sh", string(h.Group), string(h.Entry.Ref)}
			if lie.On == testkit.OnUpload {
				write(t, filepath.Join(a.dir, "f"), []byte("the plaintext that goes up"))
				args = []string{"upload_to_svc.sh", string(h.Group), "f"}
			}
			r := a.run(args[0], args[1:]...)
			judge(t, h, lie, r)
			if n := h.AskedElsewhere(); n != 0 {
				t.Errorf("%d requests went to another host", n)
			}
			for _, secret := range []string{h.Alice.Key.Reveal(), "session.", "the plaintext that", "\x1b", "\u202e"} {
				if strings.Contains(r.err, secret) {
					t.Errorf("standard error shows %q: %s", secret, r.err)
				}
			}
		})
	}
}

func judge(t *testing.T, h *testkit.World, lie testkit.Lie, r agentRun) {
	t.Helper()
	// The scripts ask for no transfer beside the JSON, and cannot know the keys
	// of earlier runs: these lies do not reach them. A passing fault may be waited out.
	harmless := strings.HasPrefix(lie.Name, "raw:") || lie.Name == "upload: reused key" || lie.Survives
	if r.code == agentDone {
		if !harmless || lie.On != testkit.OnUpload && !bytes.Equal(r.out, h.Content) {
			t.Errorf("ends with 0 and %d bytes", len(r.out))
		}
		return
	}
	want := agentMissing
	switch {
	// nothing is said about the account
	case lie.Name == "token: endless", lie.Name == "token: echo", lie.Name == "token: HTML 500":
	case lie.On == testkit.OnToken, lie.Want == sdk.ErrUnauthenticated, lie.Want == sdk.ErrAudience,
		lie.Want == sdk.ErrNotAuthorized:
		want = agentAuth
	}
	if r.code != want || len(r.out) != 0 || r.err == "" {
		t.Errorf("exit %d, want %d; %d bytes on standard output; %s", r.code, want, len(r.out), r.err)
	}
}
