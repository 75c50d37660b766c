package format

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sample is one frozen file of testdata: a stored file and what reading it gives.
type sample struct {
	Comment string          `json:"comment"`
	Key     string          `json:"key"`
	Blob    string          `json:"blob"`
	Format  json.RawMessage `json:"format"`
	SHA256  string          `json:"sha256"`
	Result  string          `json:"result"`
}

// sampleLimit is the largest file the samples may inflate to, in bytes.
const sampleLimit = 1 << 20

// readSample reads a stored file by the rules of SPEC.md, in their order.
func readSample(s sample) (plain []byte, err error) {
	meta, err := ParseMetadata(s.Format)
	if err != nil {
		return nil, err
	}
	key, err := ParseKey(s.Key)
	if err != nil {
		return nil, err
	}
	blob, err := base64.StdEncoding.Strict().DecodeString(s.Blob)
	if err != nil {
		return nil, errors.Join(ErrCorrupt, err)
	}
	if plain, err = OpenBlob(key, blob); err != nil {
		return nil, err
	}
	if meta.Compression == CompressionDeflate {
		size, err := InflatedSize(meta, sampleLimit)
		if err != nil {
			return nil, err
		}
		inflated := make([]byte, size)
		if err := Inflate(inflated, plain); err != nil {
			return nil, err
		}
		plain = inflated
	}
	sum := sha256.Sum256(plain)
	if hex.EncodeToString(sum[:]) != s.SHA256 {
		return nil, errHash
	}
	return plain, nil
}

var errHash = errors.New("another file than the ledger recorded")

func resultOf(err error) string {
	for name, want := range map[string]error{"authentication": ErrAuthentication, "corrupt": ErrCorrupt,
		"unsupported": ErrUnsupported, "too large": ErrTooLarge, "hash": errHash} {
		if errors.Is(err, want) {
			return name
		}
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func TestFrozenSamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 30 {
		t.Fatalf("found %d samples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s sample
			if err := json.Unmarshal(raw, &s); err != nil {
				t.Fatal(err)
			}
			if _, err := readSample(s); resultOf(err) != s.Result {
				t.Errorf("%s: read gives %q, want %q", s.Comment, resultOf(err), s.Result)
			}
		})
	}
}

// The worked vector of SPEC.md is read from the document.
func TestSpecVector(t *testing.T) {
	doc, err := os.ReadFile("SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) []byte {
		m := regexp.MustCompile(`(?m)^` + name + ` +([0-9a-f]+)$`).FindSubmatch(doc)
		if m == nil {
			t.Fatalf("SPEC.md has no %s", name)
		}
		raw, err := hex.DecodeString(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	key, err := NewKey(value("key"))
	if err != nil {
		t.Fatal(err)
	}
	blob := value("blob")
	if got, want := hex.EncodeToString(blob[:NonceBytes]), hex.EncodeToString(value("iv")); got != want {
		t.Errorf("the blob begins with %s, want the IV %s", got, want)
	}
	plain, err := OpenBlob(key, blob)
	if err != nil || string(plain) != string(value("plain")) {
		t.Errorf("the vector opens to %q, %v", plain, err)
	}
	if sum := sha256.Sum256(plain); string(sum[:]) != string(value("sha")) {
		t.Error("the hash in the document is wrong")
	}
}

var freeze = flag.Bool("freeze", false, "write samples that do not exist yet into testdata")

// TestFreeze writes new samples with go test -freeze; existing ones are frozen.
func TestFreeze(t *testing.T) {
	if !*freeze {
		return
	}
	for name, s := range newSamples(t) {
		file := filepath.Join("testdata", name+".json")
		if _, err := os.Stat(file); err == nil {
			continue
		}
		raw, err := json.MarshalIndent(s, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(raw, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// newSamples makes one good sample per shape and one per fault.
func newSamples(t *testing.T) map[string]sample {
	t.Helper()
	rawKey := make([]byte, KeyBytes)
	for i := range rawKey {
		rawKey[i] = byte(200 - i)
	}
	key, err := NewKey(rawKey)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("encrypted group files ", 20))
	deflated, err := Deflate(text)
	if err != nil {
		t.Fatal(err)
	}
	bomb, err := Deflate(make([]byte, 4<<20))
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.StdEncoding.EncodeToString
	make1 := func(comment string, stored, file []byte, format, result string, spoil func(blob []byte) []byte) sample {
		blob, err := SealBlob(key, stored)
		if err != nil {
			t.Fatal(err)
		}
		if spoil != nil {
			blob = spoil(blob)
		}
		sum := sha256.Sum256(file)
		return sample{comment, b64(rawKey), b64(blob), json.RawMessage(format), hex.EncodeToString(sum[:]), result}
	}
	v1 := func(size, extra string) string {
		return `{"version":1,"backend":"fastfs","encryption":"AES-256-GCM","wrapping":"AES-GCM-keywrap","original_size":` + size + `,"content_type":"text/plain"` + extra + `}`
	}
	deflate := `,"compression":"deflate"`
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			if at < 0 {
				b[len(b)+at] ^= 0x80
			} else {
				b[at] ^= 0x80
			}
			return b
		}
	}
	samples := map[string]sample{
		"v0": make1("version 0", text, text, `null`, "ok", nil),
		"v0-explicit": make1("version 0 said explicitly; compression is ignored", text, text,
			`{"version":0,"compression":"deflate"}`, "ok", nil),
		"v0-no-version": make1("an object without version is version 0", text, text, `{"backend":"ipfs"}`, "ok",
			nil),
		"v0-empty": make1("empty file, 28 bytes", nil, nil, `null`, "ok", nil),
		"v1":       make1("version 1", text, text, v1("440", ""), "ok", nil),
		"v1-filename": make1("version 1 with a name and an unknown field", text, text,
			v1("440", `,"filename":"a/b.txt","later":[1]`), "ok", nil),
		"v1-attributes": make1("version 1 with attributes", text, text,
			v1("440", `,"attributes":{"mtime":"1700000000000000001","executable":true,"xattrs":{"user.a":"AP8="}}`),
			"ok", nil),
		"v1-link": make1("a symbolic link, read as a file that holds its target", []byte("../a<b>"),
			[]byte("../a<b>"),
			`{"version":1,"original_size":7,"content_type":"inode/symlink","attributes":{"target":"../a<b>"}}`, "ok",
			nil),
		"v1-attributes-no": make1("attributes of another form do not keep the content from its readers", text, text,
			v1("440", `,"attributes":[{"mtime":5}]`), "ok", nil),
		"v1-deflate":     make1("version 1, compressed", deflated, text, v1("440", deflate), "ok", nil),
		"bad-iv":         make1("a bit of the IV is flipped", text, text, `null`, "authentication", flip(3)),
		"bad-ciphertext": make1("a bit of the ciphertext is flipped", text, text, `null`, "authentication", flip(40)),
		"bad-tag":        make1("a bit of the tag is flipped", text, text, `null`, "authentication", flip(-1)),
		"truncated": make1("the last byte is missing", text, text, `null`, "authentication",
			func(b []byte) []byte { return b[:len(b)-1] }),
		"appended": make1("a byte is appended", text, text, `null`, "authentication",
			func(b []byte) []byte { return append(b, 0) }),
		"too-short": make1("27 bytes", nil, nil, `null`, "corrupt", func(b []byte) []byte { return b[:27] }),
		"nothing":   make1("no bytes", nil, nil, `null`, "corrupt", func([]byte) []byte { return nil }),
		"other-file": make1("another valid file under the right key", []byte("something else"), text, `null`,
			"hash", nil),
		"stripped-deflate": make1("the compression field was taken away", deflated, text, v1("440", ""), "hash", nil),
		"added-deflate":    make1("a compression field was added", text, text, v1("440", deflate), "corrupt", nil),
		"bad-adler": make1("wrong checksum of the compressed stream",
			append(deflated[:len(deflated)-1:len(deflated)-1], deflated[len(deflated)-1]^1), text, v1("440", deflate),
			"corrupt", nil),
		"trailing-deflate": make1("a byte behind the compressed stream",
			append(deflated[:len(deflated):len(deflated)], 0), text, v1("440", deflate), "corrupt", nil),
		"cut-deflate": make1("the compressed stream is cut", deflated[:len(deflated)-6], text, v1("440", deflate),
			"corrupt", nil),
		"size-too-small": make1("original_size is one too small", deflated, text, v1("439", deflate), "corrupt", nil),
		"size-too-large": make1("original_size is one too large", deflated, text, v1("441", deflate), "corrupt", nil),
		"size-absent": make1("compressed without original_size", deflated, text,
			`{"version":1,"compression":"deflate"}`, "corrupt", nil),
		"size-negative": make1("original_size is negative", text, text, v1("-1", ""), "corrupt", nil),
		"size-huge": make1("original_size is 2^62", deflated, text, v1("4611686018427387904", deflate),
			"corrupt", nil),
		"size-fraction": make1("original_size is no integer", text, text, v1("440.5", ""), "corrupt", nil),
		"bomb": make1("inflates to 4 MiB and says 440 bytes", bomb, text, v1("440", deflate), "corrupt",
			nil),
		"bomb-honest": make1("inflates to 4 MiB and says so: over the reader's limit", bomb, text,
			v1("4194304", deflate), "too large", nil),
		"version-3":      make1("unknown version", text, text, `{"version":3}`, "unsupported", nil),
		"version-string": make1("version is a string", text, text, `{"version":"1"}`, "unsupported", nil),
		"version-float":  make1("version is 1.0", text, text, `{"version":1.0}`, "unsupported", nil),
		"brotli": make1("unknown compression", text, text, v1("440", `,"compression":"brotli"`),
			"unsupported", nil),
		"format-list": make1("the metadata is a list", text, text, `[1]`, "corrupt", nil),
		"format-type": make1("a field has the wrong type", text, text, `{"version":1,"compression":7}`, "corrupt",
			nil),
	}
	for name, wrong := range map[string][]byte{"key-16": rawKey[:16], "key-24": rawKey[:24], "key-31": rawKey[:31],
		"key-zero": make([]byte, 32)} {
		s := samples["v0"]
		s.Comment, s.Key, s.Result = "a key that must be refused: "+name, b64(wrong), "corrupt"
		samples[name] = s
	}
	s := samples["v0"]
	s.Comment, s.Key, s.Result = "the key of another file", b64([]byte(strings.Repeat("k", 32))), "authentication"
	samples["key-wrong"] = s
	s = samples["v0"]
	s.Comment, s.Key, s.Result = "a key whose base64 has no padding", strings.TrimRight(s.Key, "="), "corrupt"
	samples["key-unpadded"] = s
	s = samples["v0"]
	s.Comment, s.Blob, s.Result = "base64 with a character it does not have", "_"+s.Blob[1:], "corrupt"
	samples["blob-base64url"] = s
	return samples
}
