package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
)

func TestStreams(t *testing.T) {
	_, c := world(t, sdktest.Extended)
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 3<<20 + 5} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i >> 3)
		}
		r, err := c.UploadReader(t.Context(), "g", "stream", iotest.HalfReader(bytes.NewReader(content)))
		if err != nil || r.Size != int64(size) || r.Hash != sdk.ComputeHash(content) {
			t.Fatalf("%d bytes: %+v, %v", size, r, err)
		}
		var got bytes.Buffer
		if plain, err := c.RetrieveTo(t.Context(), "g", string(r.Ref), &got); err != nil || plain.Size != int64(size) || !bytes.Equal(got.Bytes(), content) {
			t.Errorf("%d bytes come back as %d, %v", size, got.Len(), err)
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "file.bin")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := c.UploadFile(t.Context(), "g", "", path); err != nil {
			t.Fatal(err)
		}
		if _, err := c.RetrieveFile(t.Context(), "g", "file.bin", path); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if back, readErr := os.ReadFile(path); err != nil || readErr != nil || !bytes.Equal(back, content) || info.Mode().Perm() != 0o600 {
			t.Errorf("the file has %d bytes, %v, %v, %v", len(back), info.Mode(), err, readErr)
		}
	}
}

func TestStreamRefusals(t *testing.T) {
	s, c := world(t, sdktest.GenB, func(cfg *sdk.Config) { cfg.MaxFileBytes = 1000 })
	broken := errors.New("the disk is gone")
	if _, err := c.UploadReader(t.Context(), "g", "f", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a broken reader gives %v", err)
	}
	endless := &counted{r: zeros{}}
	if _, err := c.UploadReader(t.Context(), "g", "f", endless); !errors.Is(err, sdk.ErrTooLarge) || endless.n > 1<<20 {
		t.Errorf("an endless reader gives %v after %d bytes", err, endless.n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.UploadReader(ctx, "g", "f", zeros{}); !errors.Is(err, sdk.ErrCanceled) {
		t.Errorf("a cancelled upload gives %v", err)
	}
	if _, err := c.UploadFile(t.Context(), "g", "", filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file gives %v", err)
	}
	if s.Records() != 0 {
		t.Errorf("%d records", s.Records())
	}
	r, err := c.UploadBytes(t.Context(), "g", "f", []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RetrieveTo(t.Context(), "g", string(r.Ref), failing{broken}); !errors.Is(err, broken) {
		t.Errorf("a broken writer gives %v", err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RetrieveFile(t.Context(), "g", "absent", path); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("an unknown name gives %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
		t.Errorf("the file was changed to %q, %v", got, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the folder holds %v, %v", names, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
