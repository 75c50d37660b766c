package hosted

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

func newSink(t testing.TB, limit int64) *Sink {
	t.Helper()
	pool := mem.NewPool()
	b, err := pool.Get(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Release()
		_ = pool.Close()
	})
	return &Sink{Buf: b, Limit: limit}
}

func (s *Sink) blob() []byte { return append(bytes.Clone(s.Nonce[:s.have]), s.Buf.Bytes()...) }

// decode decodes a document, or the field result in it.
func decode(raw []byte, into any) error {
	var whole struct{ Result json.RawMessage }
	if err := call.Decode(raw, &whole); err == nil && whole.Result != nil {
		raw = whole.Result
	}
	return call.Decode(raw, into)
}

// The scanner reads what encoding/json reads, in every envelope, however the
// bytes arrive.
func TestScanAgreesWithJSON(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, size := range []int{28, 29, 30, 31, 100, 4095, 9_000, 70_001} {
		blob := make([]byte, size)
		for i := range blob {
			blob[i] = byte(rnd.Uint32())
		}
		text := base64.StdEncoding.EncodeToString(blob)
		fields := `"key":"k\"\\","format":{"encrypted_b64":"inner","list":[1,-2.5e3,true,null,{}]},"encrypted_b64":"` + text + `","ipfs_hash":"ü"`
		other := strings.Replace(fields, text, base64.StdEncoding.EncodeToString(make([]byte, 40)), 1)
		for name, document := range map[string]string{
			"envelope": `{"result":{` + fields + `}}`, "bare": `{` + fields + `}`, "hybrid": ` {"result" : {` + fields + `}, ` + fields + `} `,
			"the result counts first": `{"result":{` + fields + `},` + other + `}`, "the result counts last": `{` + other + `,"result":{` + fields + `}}`,
			"escaped slashes": `{"result":{` + strings.ReplaceAll(fields, "/", `\/`) + `}}`, "escaped name": `{"result":{` + strings.Replace(fields, `"encrypted_b64":"`+text, `"encrypted\u005fb64":"`+text, 1) + `}}`,
		} {
			for how, in := range map[string]io.Reader{"whole": strings.NewReader(document), "halves": iotest.HalfReader(strings.NewReader(document)), "bytes": iotest.OneByteReader(strings.NewReader(document))} {
				sink := newSink(t, 1<<20)
				rest, found, err := ScanAnswer(in, -1, sink)
				if err != nil || !found || !bytes.Equal(sink.blob(), blob) {
					t.Fatalf("%s, %s, %d bytes: found %v, %d bytes, %v", name, how, size, found, len(sink.blob()), err)
				}
				var got, want wire.PrepareRetrieveResult
				if err := errors.Join(decode(rest, &got), decode([]byte(document), &want)); err != nil {
					t.Fatal(err)
				}
				want.EncryptedB64 = ""
				if got.Key != want.Key || got.IPFSHash != want.IPFSHash || !bytes.Contains(got.Format, []byte("inner")) {
					t.Errorf("%s: %+v, want %+v", name, got, want)
				}
			}
		}
	}
}

func TestScanRefuses(t *testing.T) {
	t.Parallel()
	good := base64.StdEncoding.EncodeToString(make([]byte, 60))
	for name, document := range map[string]string{
		"nothing": "", "spaces": "   ", "half": `{"result":`, "no colon": `{"a" 1}`, "no comma": `{"a":1 "b":2}`, "trailing comma": `{"a":1,}`, "bare name": `{a:1}`,
		"list without commas": `[1 2]`, "open list": `[1`, "open text": `{"a":"b`, "two documents": `{} {}`, "deep": strings.Repeat(`{"a":`, 100), "word and list": `tru[e]`,
		"twice": `{"encrypted_b64":"` + good + `","encrypted_b64":"` + good + `"}`, "escape": `{"encrypted_b64":"\u0041` + good + `"}`, "cut data": `{"encrypted_b64":"` + good,
		"long name": `{"` + strings.Repeat("n", 2000) + `":1}`, "too large": `{"encrypted_b64":"` + strings.Repeat("A", 4<<20) + `"}`,
	} {
		rest, _, err := ScanAnswer(strings.NewReader(document), -1, newSink(t, 1<<20))
		if err == nil {
			err = decode(rest, new(wire.PrepareRetrieveResult))
		}
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	broken := io.MultiReader(strings.NewReader(`{"encrypted_b64":"`+good), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, _, err := ScanAnswer(broken, -1, newSink(t, 1<<20)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken connection gives %v", err)
	}
}

// FuzzAnswer: an answer of any shape never panics, and what the scanner accepts
// with data is a document that encoding/json reads the same way.
func FuzzAnswer(f *testing.F) {
	good := base64.StdEncoding.EncodeToString(make([]byte, 60))
	for _, seed := range []string{`{"result":{"key":"k","encrypted_b64":"` + good + `"}}`, `{"encrypted_b64":"` + good + `"}`, `{"result":null}`, `{"result":"text","message":"text"}`,
		`[1,[2,{"a":[]}]]`, `{"error":"x","code":"y"}`, `{"encrypted_b64":"QUJD\/+=="}`, `{"result":{"encrypted_b64":null,"data_url":"/x"}}`, `nul`, `{"a":"\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		sink := newSink(t, 1<<20)
		rest, found, err := ScanAnswer(bytes.NewReader(raw), -1, sink)
		if err != nil {
			return
		}
		var got wire.PrepareRetrieveResult
		if decode(rest, &got) != nil || !found {
			return
		}
		if !json.Valid(raw) && json.Valid(rest) {
			t.Errorf("%q is not JSON, what is left of it is: %q", raw, rest)
		}
		if got.EncryptedB64 != "" && got.EncryptedB64 == base64.StdEncoding.EncodeToString(sink.blob()) {
			t.Errorf("the data is in what is left: %q", rest)
		}
	})
}
