package sdk_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A service that answers before it has read the request makes Upload restore
// the plaintext while the connection is still sending from the same memory. No
// byte of plaintext may follow the ciphertext.
func TestEarlyAnswerNeverReceivesPlaintext(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("canary!!"), 4<<20)
	needles := [][]byte{[]byte("canary!!canary!!")}
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("canary!!"), 6)[shift:])
		needles = append(needles, []byte(encoded[4:24]))
	}
	for name, d := range map[string]testkit.Dialect{"raw": testkit.Keyless, "inline": testkit.Hosted} {
		t.Run(name, func(t *testing.T) {
			s, c := world(t, d)
			var received sync.WaitGroup
			early := func(w http.ResponseWriter, r *http.Request) {
				received.Add(1)
				defer received.Done()
				rc := http.NewResponseController(w)
				_ = rc.EnableFullDuplex()
				_, _ = io.CopyN(io.Discard, r.Body, 64<<10)
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				_, _ = w.Write(make([]byte, 128<<10)) // more than the client reads of an error: it leaves early
				_ = rc.Flush()
				time.Sleep(10 * time.Millisecond)
				rest, _ := io.ReadAll(r.Body)
				for _, needle := range needles {
					if bytes.Contains(rest, needle) {
						t.Errorf("the service received plaintext: %q among %d bytes", needle, len(rest))
					}
				}
			}
			s.Answer(wire.PathTools+wire.OpPrepareUpload, result(wire.PrepareUploadResult{UploadID: "u", UploadURL: wire.PathUploadBlob + "u",
				Key: base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))}))
			s.Answer(wire.PathUploadBlob+"u", early)
			s.Answer(wire.PathTools+wire.OpFinalizeUpload, early)
			b := buffer(t, int64(len(content)))
			copy(b.Bytes(), content)
			if _, err := c.Group("g").Upload(t.Context(), "f", b); sdk.KindOf(err) != sdk.ErrTooLarge {
				t.Errorf("upload: %v", err)
			}
			if !bytes.Equal(b.Bytes(), content) {
				t.Error("the plaintext was not restored")
			}
			received.Wait()
		})
	}
}

// Content is decrypted while the service still works on what it received. When it
// then wants it once more, it gets the same ciphertext, and never content.
func TestThreat11RepeatedTransferIsTheSameMessage(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("canary!!"), 1<<18)
	s, c := world(t, testkit.Keyless)
	var bodies [][]byte
	s.Answer(wire.PathTools+wire.OpPrepareUpload, result(wire.PrepareUploadResult{UploadID: "u", UploadURL: wire.PathUploadBlob + "u",
		Key: base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))}))
	s.Answer(wire.PathUploadBlob+"u", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if bodies = append(bodies, body); len(bodies) < 3 {
			answer(http.StatusServiceUnavailable, wire.Error{Error: "later"})(w, r)
			return
		}
		answer(http.StatusRequestEntityTooLarge, wire.Error{Error: "too large"})(w, r)
	})
	b := buffer(t, 0)
	if _, err := b.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Group("g").Upload(t.Context(), "f", b); sdk.KindOf(err) != sdk.ErrTooLarge {
		t.Errorf("upload: %v", err)
	}
	if !bytes.Equal(b.Bytes(), content) || b.Hash() != sdk.ComputeHash(content) {
		t.Error("the plaintext was not restored")
	}
	if len(bodies) != 3 || !bytes.Equal(bodies[0], bodies[1]) || !bytes.Equal(bodies[1], bodies[2]) || bytes.Contains(bodies[0], content[:16]) {
		t.Errorf("%d transfers: not always the same ciphertext", len(bodies))
	}
}
