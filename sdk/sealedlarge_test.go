package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// sealedLarge seals content in blocks into a file.
func sealedLarge(t *testing.T, g sdk.Group, name string, content []byte, opts ...sdk.UploadOption) (*sdk.Sealed, *os.File) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "body"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	s, err := g.SealLarge(t.Context(), name, sdk.LargeContent{Layout: format.Layout{Size: int64(len(content)), BlockBytes: format.BlockBytes},
		Read: func(_ context.Context, i int64, into []byte) (int, error) {
			return copy(into, content[i*format.BlockBytes:]), nil
		},
		Body: func(string) (io.Writer, error) { return f, nil }}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	s.KeepIn(f)
	return s, f
}

// What lies on a disk of a large upload shows neither key, name, group, hash nor content; it can be read, and
// sent, after its key was fetched, and what was changed is refused.
func TestThreat52LargeSealedUploadOnDisk(t *testing.T) {
	t.Parallel()
	server := testkit.Start(t, testkit.Ours)
	c := server.Client(t, server.Account("alice", "100"))
	g := c.Group("the-group")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("canary 0123456789"), wire.WholeFileBytes/17+9_000)
	s, f := sealedLarge(t, g, "the-name.txt", content, sdk.Base(""))
	keys := diskKeys(t)
	raw, err := s.Encode(keys)
	if err != nil {
		t.Fatal(err)
	}
	cipher, err := os.ReadFile(f.Name())
	if err != nil || int64(len(cipher)) != s.BlobSize() {
		t.Fatalf("%d bytes, want %d, %v", len(cipher), s.BlobSize(), err)
	}
	shown := string(raw) + string(cipher)
	for _, secret := range []string{"the-name", "canary", s.Hash().String(), "the-group"} {
		if strings.Contains(shown, secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	if s.Hash() != sdk.ComputeHash(content) {
		t.Error("it has another hash")
	}
	keys.Names = nil
	again, err := sdk.DecodeSealed(raw, keys)
	if err != nil || !again.Locked() {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := again.OpenBody(f); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("opened without a key: %v", err)
	}
	if err := c.OpenSealed(t.Context(), again, g.ID); err != nil {
		t.Fatal(err)
	}
	body, err := again.OpenBody(f)
	if err != nil {
		t.Fatal(err)
	}
	into := []*mem.Buffer{buffer(t, 0), buffer(t, 0)}
	if err := body.Read(t.Context(), body.Layout().Blocks()-2, into); err != nil || !bytes.HasSuffix(content, append(bytes.Clone(into[0].Bytes()), into[1].Bytes()...)) {
		t.Errorf("read: %v", err)
	}
	again.KeepIn(f)
	again.ResumeIn(t.TempDir())
	sent := c.SendSealed(t.Context(), again)
	if sent[0].Err != nil || sent[0].Receipt.Hash != s.Hash() || sent[0].Receipt.Content == (sdk.Digest{}) {
		t.Fatalf("%+v", sent[0])
	}
	if twice := c.SendSealed(t.Context(), s); twice[0].Err != nil || twice[0].Receipt.Ref != sent[0].Receipt.Ref {
		t.Errorf("sent again: %+v", twice[0])
	}
	other, _ := sealedLarge(t, g, "the-name.txt", content[1:], sdk.Base(""))
	var refused *sdk.Error
	if got := c.SendSealed(t.Context(), other); !errors.As(got[0].Err, &refused) || refused.Code != wire.CodeHead {
		t.Errorf("upon another version: %+v", got[0])
	}
	cipher[len(cipher)-1] ^= 1
	if body, err = again.OpenBody(bytes.NewReader(cipher)); err != nil {
		t.Fatal(err)
	}
	if err := body.Read(t.Context(), body.Layout().Blocks()-1, into[:1]); !errors.Is(err, sdk.ErrCorrupt) || into[0].Len() != 0 {
		t.Errorf("a changed block: %v", err)
	}
}

// What arrived of a large upload before its process ended is not sent again.
func TestLargeSealedUploadGoesOn(t *testing.T) {
	t.Parallel()
	server := testkit.Start(t, testkit.Ours)
	alice := server.Account("alice", "100")
	c := server.Client(t, alice)
	g := c.Group("g")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	content := noise(20 << 20)
	s, f := sealedLarge(t, g, "film", content)
	keys, dir := diskKeys(t), filepath.Join(t.TempDir(), "parts")
	raw, err := s.Encode(keys)
	if err != nil {
		t.Fatal(err)
	}
	var bytesSent atomic.Int64
	arrived := make(chan struct{}, 100)
	server.Disturb(wire.PathParts+"*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			if r.Method == http.MethodPut {
				bytesSent.Add(r.ContentLength)
				arrived <- struct{}{}
			}
		})
	})
	broken := errors.New("the process ends")
	s.KeepIn(endingFile{f, func() error { <-arrived; return broken }, format.Layout{Size: int64(len(content)), BlockBytes: format.BlockBytes}.Offset(40)})
	s.ResumeIn(dir)
	if sent := c.SendSealed(t.Context(), s); !errors.Is(sent[0].Err, broken) {
		t.Fatalf("%+v", sent[0])
	}
	bytesSent.Store(0)
	again, err := sdk.DecodeSealed(raw, keys)
	if err != nil {
		t.Fatal(err)
	}
	again.KeepIn(f)
	again.ResumeIn(dir)
	sent := server.Client(t, alice).SendSealed(t.Context(), again)
	if sent[0].Err != nil || sent[0].Receipt.Hash != s.Hash() {
		t.Fatalf("%+v", sent[0])
	}
	if n := bytesSent.Load(); n <= 0 || n >= s.BlobSize() {
		t.Errorf("%d of %d bytes were sent again", n, s.BlobSize())
	}
	if got := readBlocks(t, g, newest(t, g, "film")); !bytes.Equal(got, content) {
		t.Error("other content comes back")
	}
}

// endingFile is a file whose content ends with an error.
type endingFile struct {
	*os.File
	err  func() error
	from int64
}

func (f endingFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.from {
		return 0, f.err()
	}
	return f.File.ReadAt(p, off)
}
