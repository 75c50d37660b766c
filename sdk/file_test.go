package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

func TestStreams(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 300<<10 + 5} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i >> 3)
		}
		r, err := c.Group("g").Put(t.Context(), "stream", iotest.HalfReader(bytes.NewReader(content)))
		if err != nil || r.Size != int64(size) || r.Hash != sdk.ComputeHash(content) {
			t.Fatalf("%d bytes: %+v, %v", size, r, err)
		}
		f, err := c.Group("g").OpenRef(t.Context(), r.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if err := iotest.TestReader(f, content); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if info, err := f.Stat(); err != nil || info.Size() != int64(size) || info.Name() != "stream" || f.Entry().Hash != r.Hash {
			t.Errorf("%d bytes: stat says %+v, %v", size, info, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		path := filepath.Join(t.TempDir(), "file.bin")
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if r, err := c.Group("g").Put(t.Context(), "file", file); err != nil || r.Hash != sdk.ComputeHash(content) {
			t.Errorf("a file of %d bytes: %+v, %v", size, r, err)
		}
	}
}

// What is left of a file counts, not what was read of it before.
func TestPutOfTheRestOfAFile(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Hosted, func(cfg *sdk.Config) { cfg.MaxFileBytes = 1000 })
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Seek(4500, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Group("g").Put(t.Context(), "rest", file); err != nil || r.Size != 500 {
		t.Errorf("the last 500 bytes of a file: %+v, %v", r, err)
	}
}

// A closed file has no content any more, however it is asked for.
func TestClosedFile(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	if _, err := c.Group("g").Put(t.Context(), "f", strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	f, err := c.Group("g").Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 8)
	_, read := f.Read(p)
	_, readAt := f.ReadAt(p, 0)
	_, seek := f.Seek(0, io.SeekStart)
	_, writeTo := f.WriteTo(io.Discard)
	for name, err := range map[string]error{"Read": read, "ReadAt": readAt, "Seek": seek, "WriteTo": writeTo, "Close": f.Close()} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

// A writer may use the file that is written to it, and even close it; it gets all of
// the content in every case.
func TestWriteToHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	if _, err := c.Group("g").Put(t.Context(), "f", strings.NewReader("all of the content")); err != nil {
		t.Fatal(err)
	}
	f, err := c.Group("g").Open(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(4, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the disk is full")
	var got string
	n, err := f.WriteTo(writerFunc(func(p []byte) (int, error) {
		if n, err := f.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("what is being written is read again: %d bytes, %v", n, err)
		}
		return 3, broken
	}))
	if n != 3 || !errors.Is(err, broken) {
		t.Errorf("a broken writer: %d bytes, %v", n, err)
	}
	n, err = f.WriteTo(writerFunc(func(p []byte) (int, error) {
		start := make([]byte, 3)
		if _, err := f.ReadAt(start, 0); err != nil || string(start) != "all" {
			t.Errorf("read meanwhile: %q, %v", start, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := f.ReadAt(start, 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
		got = string(p)
		return len(p), nil
	}))
	if n != 11 || err != nil || got != "the content" {
		t.Errorf("closed meanwhile: %d bytes, %q, %v", n, got, err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// What an option asks for and cannot be is refused before anything is sent.
func TestOptionsAreRefused(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	g := c.Group("g")
	requests := func() (n int) {
		for _, path := range []string{wire.PathCapabilities, wire.PathTools + wire.OpGetGroupTransactions, wire.PathTools + wire.OpAddGroupMember, wire.PathTools + wire.OpPrepareUpload, wire.PathTools + wire.OpCreateHackathonGroup} {
			n += s.Hits(path)
		}
		return n
	}
	before := requests()
	_, err := g.OpenJoin(t.Context(), time.Now().Add(time.Hour), sdk.JoinOptions{AtMost: -1})
	if sdk.KindOf(err) != sdk.ErrInvalid {
		t.Errorf("AtMost -1: %v", err)
	}
	if requests() != before {
		t.Errorf("%d requests were sent", requests()-before)
	}
}

func TestStreamRefusals(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Hosted, func(cfg *sdk.Config) { cfg.MaxFileBytes = 1000 })
	broken := errors.New("the disk is gone")
	if _, err := c.Group("g").Put(t.Context(), "f", iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a broken reader gives %v", err)
	}
	endless := &counted{r: zeros{}}
	if _, err := c.Group("g").Put(t.Context(), "f", endless); !errors.Is(err, sdk.ErrTooLarge) || endless.n > 1<<20 {
		t.Errorf("an endless reader gives %v after %d bytes", err, endless.n)
	}
	cut := fmt.Errorf("the connection is gone: %w", io.EOF)
	if _, err := c.Group("g").Put(t.Context(), "f", iotest.ErrReader(cut)); !errors.Is(err, cut) {
		t.Errorf("a reader that ends early gives %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Group("g").Put(ctx, "f", zeros{}); !errors.Is(err, sdk.ErrCanceled) {
		t.Errorf("a cancelled upload gives %v", err)
	}
	if _, err := c.Group("g").Put(t.Context(), "f", liar{1 << 40}); !errors.Is(err, sdk.ErrTooLarge) {
		t.Errorf("a reader that says it holds more gives %v", err)
	}
	if s.Records() != 0 {
		t.Errorf("%d records", s.Records())
	}
	r, err := c.Group("g").Put(t.Context(), "f", bytes.NewReader([]byte("content")))
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Group("g").OpenRef(t.Context(), r.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteTo(failing{broken}); !errors.Is(err, broken) {
		t.Errorf("a broken writer gives %v", err)
	}
	if _, err := c.Group("g").Open(t.Context(), "absent"); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("an unknown name gives %v", err)
	}
}

// liar is a reader that says how much it holds.
type liar struct{ size int }

func (l liar) Len() int               { return l.size }
func (liar) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

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

// What was put under a name is what that name opens, whatever names others chose.
func TestNobodyShadowsARecordedName(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	g := c.Group("g")
	for _, name := range []string{"c\nd", "c%0Ad"} { // the first is shown as the second is recorded
		if _, err := g.Put(t.Context(), name, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"c\nd", "c%0Ad"} {
		if e, err := g.Stat(t.Context(), name); err != nil || e.Name != name {
			t.Errorf("%q is %q, %v", name, e.Name, err)
		}
	}
}
