package sdk_test

import (
	"bytes"
	"compress/zlib"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// spied tells how large the last ciphertext was, and its format.
type spied struct {
	size   atomic.Int64
	format atomic.Pointer[json.RawMessage]
}

func spy(s *testkit.Server) *spied {
	p := &spied{}
	look := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			var req wire.FinalizeUploadRequest
			if json.Unmarshal(body, &req) != nil {
				p.size.Store(int64(len(body)))
			} else {
				p.format.Store(&req.Format)
				if req.EncryptedData != "" {
					p.size.Store(int64(len(req.EncryptedData)) / 4 * 3)
				}
			}
			next.ServeHTTP(w, r)
		})
	}
	s.Disturb(wire.PathTools+wire.OpFinalizeUpload, look)
	s.Disturb(wire.PathUploadBlob+"*", look)
	return p
}

// Compression is opt in, skipped where it does not pay, and comes back as it
// went in, through JSON and raw.
func TestDeflate(t *testing.T) {
	t.Parallel()
	random := make([]byte, 1<<18)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := zlib.NewWriter(&zipped)
	_, _ = z.Write([]byte(hex.EncodeToString(random)))
	_ = z.Close()
	text := []byte(strings.Repeat("a line of a log that says the same thing again and again\n", 5_000))
	for _, flavour := range []testkit.Dialect{testkit.Hosted, testkit.Keyless} {
		for _, tc := range []struct {
			name    string
			content []byte
			smaller bool
		}{
			{"empty", nil, false}, {"short", text[:1000], false}, {"text", text, true}, {"a little text", text[:2000], true}, {"random", random, false},
			{"compressed already", zipped.Bytes(), false},
			{"text with a random tail", append(bytes.Clone(text[:25_000]), random...), false},
		} {
			t.Run(flavour.String()+"/"+tc.name, func(t *testing.T) {
				s, c := world(t, flavour)
				seen := spy(s)
				b := buffer(t, int64(len(tc.content)))
				copy(b.Bytes(), tc.content)
				r, err := c.Group("g").Upload(t.Context(), "f.log", b, sdk.PutOptions{Compress: true})
				if err != nil || r.Hash != sdk.ComputeHash(tc.content) || r.Size != int64(len(tc.content)) {
					t.Fatalf("%+v, %v", r, err)
				}
				if !bytes.Equal(b.Bytes(), tc.content) {
					t.Error("the content in the buffer was changed")
				}
				if flavour != testkit.Hosted { // which finalizes elsewhere
					if smaller := seen.size.Load() < int64(len(tc.content)); smaller != tc.smaller {
						t.Errorf("%d bytes were sent for %d", seen.size.Load(), len(tc.content))
					}
					if says := strings.Contains(string(*seen.format.Load()), `"compression":"deflate"`); says != tc.smaller {
						t.Errorf("the format is %s", *seen.format.Load())
					}
				}
				got, plain, err := sdktest.Read(t.Context(), c.Group("g"), string(r.Ref))
				if err != nil || !bytes.Equal(got, tc.content) || plain.Size != int64(len(tc.content)) {
					t.Errorf("%d bytes come back, %+v, %v", len(got), plain, err)
				}
			})
		}
	}
	t.Run("off by default", func(t *testing.T) {
		s, c := world(t, testkit.Hosted)
		seen := spy(s)
		if _, err := c.Group("g").Put(t.Context(), "f.log", bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if seen.size.Load() < int64(len(text)) || strings.Contains(string(*seen.format.Load()), "compression") {
			t.Errorf("%d bytes, %s", seen.size.Load(), *seen.format.Load())
		}
	})
}

// A repeat after a lost answer is packed as the first time, whatever the
// repeat's options say: it is charged once and can be read.
func TestDeflateAndLostAnswers(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("the same thing again and again\n", 10_000))
	for _, deflateFirst := range []bool{true, false} {
		s, c := world(t, testkit.Keyless)
		s.Disturb(wire.PathTools+wire.OpFinalizeUpload, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		})
		first, then := []sdk.PutOptions(nil), []sdk.PutOptions{{Compress: true}}
		if deflateFirst {
			first, then = then, first
		}
		if _, err := c.Group("g").Put(t.Context(), "f", bytes.NewReader(text), first...); err == nil {
			t.Fatal("a lost answer is no error")
		}
		s.Disturb(wire.PathTools+wire.OpFinalizeUpload, nil)
		r, err := c.Group("g").Put(t.Context(), "f", bytes.NewReader(text), then...)
		if err != nil || s.Records() != 1 {
			t.Fatalf("%d records, %v", s.Records(), err)
		}
		if got, _, err := sdktest.Read(t.Context(), c.Group("g"), string(r.Ref)); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}
