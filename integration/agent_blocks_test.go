package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/format/formattest"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

const vectorsDir = "../format/testdata/blocks"

// blockStore serves the vectors as a service does, each below its name; inline puts
// tiles and manifest into the answer.
type blockStore struct {
	vectors map[string]formattest.Vector
	data    map[string][]byte
	cut     bool // connections break after 40,000 bytes and a fifth of the file
}

func newBlockStore(t *testing.T) *blockStore {
	t.Helper()
	b := &blockStore{vectors: formattest.Read(t, os.DirFS(vectorsDir)), data: map[string][]byte{}}
	for name, v := range b.vectors {
		b.data[name] = v.Bytes(t)
	}
	return b
}

func (b *blockStore) answer(name string, inline bool) wire.PrepareRetrieveResult {
	v := b.vectors[name]
	out := wire.PrepareRetrieveResult{Key: v.Key, Format: v.Format, DataURL: wire.PathBlocks + name,
		DataSize: int64(len(b.data[name])),
		TilesURL: wire.PathTiles + name, ManifestURL: wire.PathManifest + name}
	if inline {
		out.Manifest, out.ManifestURL, out.Tiles = base64.StdEncoding.EncodeToString(v.Manifest), "",
			map[string]string{}
		for path, tile := range v.Tiles {
			out.Tiles[path] = base64.StdEncoding.EncodeToString(tile)
		}
	}
	return out
}

func (b *blockStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer token" {
		http.Error(w, `{"error":"Auth required"}`, http.StatusUnauthorized)
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, wire.PathBlocks); ok {
		if b.cut {
			w = &cutWriter{w, 40_000 + len(b.data[name])/5}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b.data[name]))
	} else if name, ok := strings.CutPrefix(r.URL.Path, wire.PathManifest); ok {
		_, _ = w.Write(b.vectors[name].Manifest)
	} else {
		name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, wire.PathTiles), "/")
		tile, ok := b.vectors[name].Tiles[path]
		if !ok {
			http.Error(w, `{"error":"no such tile"}`, http.StatusNotFound)
			return
		}
		_, _ = w.Write(tile)
	}
}

// cutWriter breaks a connection after some bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		_, _ = c.ResponseWriter.Write(p[:max(0, len(p)+c.left)])
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// manyRuns calls the helper for each line of standard input within one process: arguments and answer
// in; exit code, hash of standard output, standard error and the most memory so far out.
const manyRuns = `
import hashlib, io, json, sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import decrypt_svc
class Stream:
    def __init__(self, buffer): self.buffer = buffer
class Sink:
    def __init__(self): self.hash, self.size = hashlib.sha256(), 0
    def write(self, data):
        self.hash.update(data)
        self.size += len(data)
    def flush(self): pass
decrypt_svc.PAUSES = (0.01,)
lines, out = sys.stdin.readlines(), sys.stdout
for line in lines:
    run = json.loads(line)
    sys.argv, sys.stdin = ["decrypt_svc.py", *run["args"]], Stream(io.BytesIO(json.dumps(run["answer"]).encode()))
    sys.stdout, sys.stderr = Stream(Sink()), io.StringIO()
    code, sink = decrypt_svc.main(), sys.stdout.buffer
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(json.dumps({"code": code, "sha256": sink.hash.hexdigest(), "size": sink.size, "stderr": sys.stderr.getvalue(), "peak": peak}), file=out)
`

type helperRun struct {
	Args   []string                   `json:"args"`
	Answer wire.PrepareRetrieveResult `json:"answer"`
}

type helperResult struct {
	Code   int    `json:"code"`
	SHA256 string `json:"sha256"`
	Size   int    `json:"size"`
	Stderr string `json:"stderr"`
	Peak   int    `json:"peak"` // KiB
}

func runHelper(t *testing.T, a *agent, python string, runs []helperRun) []helperResult {
	t.Helper()
	var in bytes.Buffer
	for _, run := range runs {
		ok(t, json.NewEncoder(&in).Encode(run))
	}
	cmd := a.command(python, "-B", "-c", manyRuns, a.scripts)
	cmd.Stdin = &in
	r := a.finish(cmd)
	results := make([]helperResult, 0, len(runs))
	for line := range strings.Lines(string(r.out)) {
		var result helperResult
		ok(t, json.Unmarshal([]byte(line), &result))
		results = append(results, result)
	}
	if len(results) != len(runs) {
		t.Fatalf("%d results of %d runs, exit %d\n%s", len(results), len(runs), r.code, r.err)
	}
	return results
}

// The helper reads every frozen vector of format version 2 as the library does, over lost
// connections, and gives out no byte that was not proven.
func TestAgentHelperReadsFrozenVectors(t *testing.T) {
	a := newAgent(t, "", "", "")
	b := newBlockStore(t)
	b.cut = true
	server := httptest.NewServer(b)
	defer server.Close()
	write(t, filepath.Join(a.dir, "headers"), []byte("Content-Type: application/json\nAuthorization: Bearer token\n"))
	var names []string
	var runs []helperRun
	for _, name := range slices.Sorted(maps.Keys(b.vectors)) {
		v := b.vectors[name]
		args := []string{"--service", server.URL, "--headers", filepath.Join(a.dir, "headers")}
		if v.Content != "" {
			args = append(args, "--content", v.Content)
		}
		if v.FileHash != "" {
			args = append(args, "--sha256", v.FileHash)
		}
		for _, inline := range []bool{false, true} {
			names, runs = append(names, name), append(runs, helperRun{args, b.answer(name, inline)})
		}
	}
	for _, python := range pythons(t) {
		results := runHelper(t, a, python, runs)
		// files have up to 16 MiB, blocks up to 1 MiB
		if grown := results[len(results)-1].Peak - results[0].Peak; grown > 10<<10 {
			t.Errorf("%s: the helper's memory grew by %d KiB", python, grown)
		}
		for i, r := range results {
			v, name := b.vectors[names[i]], names[i]
			if v.Result == "ok" {
				if r.Code != agentDone || r.SHA256 != v.SHA256 {
					t.Errorf("%s: %s: exit %d with %d bytes: %s", python, name, r.Code, r.Size, r.Stderr)
				}
				continue
			}
			proven, some := proven[name]
			if r.Code == agentDone || strings.Count(r.Stderr, "\n") != 1 ||
				!regexp.MustCompile(reasons[v.Result]).MatchString(r.Stderr) || some && r.Size != proven ||
				!some && v.Result != "proof" && v.Result != "authentication" && r.Size != 0 {
				t.Errorf("%s: %s: %s: exit %d with %d bytes: %s", python, name, v.Result, r.Code, r.Size, r.Stderr)
			}
		}
	}
}

// reasons match what the helper says for a result.
var reasons = map[string]string{"content": "not about the file that the ledger recorded",
	"key":            "the key is not that of the file",
	"authentication": "wrong key or changed bytes", "unsupported": "unsupported", "version": "format version 2",
	"proof": "a block is not the one|tree of (the )?blocks|no such tile",
	"corrupt": "key is not one|key of a part is not one|the format (is not|are none)|the manifest|(of the|no) " +
		"manifest|stored bytes"}

// proven is how many bytes of a faulty vector come before the fault.
var proven = map[string]int{"flip-iv": 0, "flip-iv-recorded": 0, "flip-tag": 0, "wrong-index": 65536,
	"wrong-index-recorded": 65536, "flip-last-block": 131072,
	"tile-flip": 0, "tile-absent": 0, "leaf-for-node": 0, "manifest-keys-swapped": 0}

// pythons are the Python that is found first and the distribution's.
func pythons(t *testing.T) []string {
	t.Helper()
	const ofDistribution = "/usr/bin/python3"
	if first, _ := exec.LookPath("python3"); first != ofDistribution &&
		exec.CommandContext(t.Context(), ofDistribution, "-c", "import cryptography").Run() == nil {
		return []string{"python3", ofDistribution}
	}
	return []string{"python3"}
}

// agentBlocks is a service that offers format version 2, with a group and an agent of its owner.
func agentBlocks(t *testing.T) (*testkit.Server, sdk.Group, *agent) {
	t.Helper()
	s := testkit.Start(t, testkit.Ours)
	alice := s.Account("alice", "100")
	g := s.Client(t, alice).Group("team")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, g, newAgent(t, s.URL, alice.ID, alice.Key.Reveal())
}

// putBlocks saves content in blocks of 64 KiB: those of changed, and the others from base unless it is nil.
func putBlocks(t *testing.T, g sdk.Group, base *sdk.Blocks, changed format.Extents, content []byte,
	hash sdk.Digest) sdk.Receipt {
	t.Helper()
	u, err := g.BeginBlocks(t.Context(), base, format.MinBlockBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Abandon()
	for _, x := range changed {
		for first := x.First; first < x.First+x.Count; first += u.PartBlocks() {
			part := format.Extents{{First: first, Count: min(u.PartBlocks(), x.First+x.Count-first)}}
			ok(t, u.PutPart(t.Context(), part, func(i int64, into []byte) (int, error) {
				return copy(into, content[i*format.MinBlockBytes:]), nil
			}))
		}
	}
	receipt, err := u.Finish(t.Context(), "large", int64(len(content)), hash)
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

func TestAgentScriptsReadLargeFiles(t *testing.T) {
	s, g, a := agentBlocks(t)
	content := random(t, 24<<20+1)
	blocks := format.Layout{Size: int64(len(content)), BlockBytes: format.MinBlockBytes}.Blocks()
	all := format.Extents{{First: 0, Count: blocks}}
	first := putBlocks(t, g, nil, all, content, sdk.ComputeHash(content))
	a.want(agentMissing, "retrieve_and_decrypt.sh", "team", "QmWrong")
	s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&cutWriter{w, 11 << 20}, r)
		})
	})
	if r := a.run("retrieve_and_decrypt.sh", "team", string(first.Ref)); r.code != agentDone ||
		!bytes.Equal(r.out, content) || r.err != "" {
		t.Fatalf("exit %d with %d bytes, not what was saved: %s", r.code, len(r.out), r.err)
	}
	limited := *a
	limited.env = append(slices.Clone(a.env), "SVC_MAX_BYTES=1000000")
	limited.want(agentMissing, "retrieve_and_decrypt.sh", "team", string(first.Ref))

	t.Run("a version that took blocks over, without a hash", func(t *testing.T) {
		entry, err := g.Stat(t.Context(), "large")
		ok(t, err)
		base, err := g.OpenBlocks(t.Context(), entry)
		ok(t, err)
		defer base.Close()
		copy(content[5*format.MinBlockBytes:], "something new")
		second := putBlocks(t, g, base, format.Extents{{First: 5, Count: 1}}, content, sdk.Digest{})
		if got := a.want(agentDone, "retrieve_and_decrypt.sh", "team", string(second.Ref)); !bytes.Equal(got.out,
			content) {
			t.Errorf("%d bytes, not what was saved", len(got.out))
		}
	})
	t.Run("another hash than the content's", func(t *testing.T) {
		liar := putBlocks(t, g, nil, format.Extents{{First: 0, Count: 2}}, content[:format.MinBlockBytes+1],
			sdk.ComputeHash(content))
		if got := a.want(agentDone, "retrieve_and_decrypt.sh", "team", string(liar.Ref)); !bytes.Equal(got.out,
			content[:format.MinBlockBytes+1]) {
			t.Errorf("%d bytes, not those that are proven", len(got.out))
		}
	})
	t.Run("membership that ends between two ranges", func(t *testing.T) {
		cuts := 0
		s.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if cuts++; cuts > 1 {
					http.Error(w, `{"error":"not authorized: not a member of the group"}`, http.StatusForbidden)
					return
				}
				next.ServeHTTP(&cutWriter{w, 11 << 20}, r)
			})
		})
		if r := a.run("retrieve_and_decrypt.sh", "team", string(first.Ref)); r.code != agentAuth ||
			len(r.out) >= 11<<20 || len(r.out) == 0 || strings.Count(r.err, "\n") != 1 {
			t.Errorf("exit %d with %d bytes: %s", r.code, len(r.out), r.err)
		}
	})
}

// Threat 40: of a large file no secret is in an argument, an environment or a file.
func TestThreat40AgentSecretsOfLargeFiles(t *testing.T) {
	s, g, a := agentBlocks(t)
	content := random(t, 64<<10+1)
	receipt := putBlocks(t, g, nil, format.Extents{{First: 0, Count: 2}}, content, sdk.ComputeHash(content))
	seen := secretsOf(s)
	proctest.Need(t, "strace")
	log := filepath.Join(t.TempDir(), "strace")
	r := a.finish(a.command("strace", "-f", "-v", "-s", "100000", "-o", log, "-e", "trace="+namingCalls,
		filepath.Join(a.scripts, "retrieve_and_decrypt.sh"), "team", string(receipt.Ref)))
	if r.code != agentDone || !bytes.Equal(r.out, content) {
		t.Fatalf("exit %d with %d bytes: %s", r.code, len(r.out), r.err)
	}
	_, key, _ := strings.Cut(a.env[len(a.env)-1], "=")
	checkTrace(t, string(read(t, log)), "retrieve_and_decrypt.sh", key, seen())
}
