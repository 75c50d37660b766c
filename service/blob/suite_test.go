package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/blob/s3test"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend is a kind of store, and where its blobs lie as files.
type backend struct {
	location string
	files    string
}

func (b backend) open(t *testing.T) blob.Store {
	t.Helper()
	return b.openAs(t, "")
}

// openAs opens the store under the mark of a service.
func (b backend) openAs(t *testing.T, mark string) blob.Store {
	t.Helper()
	s, err := blob.Open(t.Context(), b.location, mark)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Every kind of store passes the same suite.
func TestStores(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		suite(t, func(t *testing.T) backend {
			dir := filepath.Join(t.TempDir(), "blobs")
			return backend{dir, dir}
		})
	})
	server := s3test.Start(t)
	s3test.SetEnv(t)
	t.Run("S3", func(t *testing.T) {
		suite(t, func(t *testing.T) backend {
			bucket := server.NewBucket(t)
			return backend{server.Location(bucket), server.Dir(bucket)}
		})
	})
	t.Run("S3 below a prefix", func(t *testing.T) {
		suite(t, func(t *testing.T) backend {
			bucket := server.NewBucket(t)
			return backend{server.Location(bucket + "/some/prefix"), server.Dir(bucket)}
		})
	})
}

func suite(t *testing.T, start func(*testing.T) backend) {
	for name, check := range map[string]func(*testing.T, backend){
		"what was put comes back":        testRoundTrip,
		"reading at any place":           testSeek,
		"reading the whole at once":      testReadWhole,
		"more than the limit is refused": testLimit,
		"blobs that others prove":        testProved,
		"an interrupted put":             testInterrupted,
		"delete":                         testDelete,
		"sweep":                          testSweep,
		"sweep beside another service":   testSweepBeside,
		"many at once":                   testParallel,
		"Threat28HostileIDs":             testHostileIDs,
	} {
		t.Run(name, func(t *testing.T) { check(t, start(t)) })
	}
}

func content(n int) []byte {
	out := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = random.Read(out)
	return out
}

func put(t *testing.T, s blob.Store, data []byte) blob.Info {
	t.Helper()
	info, err := s.Put(t.Context(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func get(s blob.Store, id string) ([]byte, error) {
	r, size, err := s.Open(context.Background(), id)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err == nil && int64(len(data)) != size {
		err = errors.New("the size is wrong")
	}
	return data, err
}

// files counts the regular files below a folder.
func files(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testReadWhole(t *testing.T, b backend) {
	s := b.open(t)
	for _, n := range []int{1, 28, 4096, 300_000, 5<<20 + 1} {
		data := content(n)
		info := put(t, s, data)
		if got, err := s.Read(t.Context(), info.ID, info.Size); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %d came, %v", n, len(got), err)
		}
		for _, wrong := range []int64{info.Size - 1, info.Size + 1, 10 * info.Size} {
			if wrong == 0 {
				continue
			}
			if _, err := s.Read(t.Context(), info.ID, wrong); !errors.Is(err, blob.ErrSize) {
				t.Errorf("%d bytes, %d wanted: %v", n, wrong, err)
			}
		}
	}
	if _, err := s.Read(t.Context(), strings.Repeat("a", 32), 28); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing one: %v", err)
	}
	if _, err := s.Read(t.Context(), "../x", 28); err == nil {
		t.Error("a hostile id is read")
	}
}

func testRoundTrip(t *testing.T, b backend) {
	s := b.open(t)
	const part = 5 << 20
	const piece = 256 << 10 // bytes that one write of a folder store has
	for _, n := range []int{0, 1, 28, 4095, 4096, 70_000, piece - 1, piece, piece + 1, 2 * piece, 2*piece + 1, part - 1,
		part, part + 1, 2*part + 12_345} {
		data := content(n)
		info := put(t, s, data)
		if info.Size != int64(n) || info.Sum != sha256.Sum256(data) {
			t.Errorf("%d bytes: put says %d, %x", n, info.Size, info.Sum)
		}
		if got, err := get(b.open(t), info.ID); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %d came back, %v", n, len(got), err)
		}
		if !strings.HasSuffix(s.Where(info.ID), info.ID[:2]+"/"+info.ID) {
			t.Errorf("it lies at %q", s.Where(info.ID))
		}
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func testSeek(t *testing.T, b backend) {
	s := b.open(t)
	data := content(300_000)
	r, size, err := s.Open(t.Context(), put(t, s, data).ID)
	if err != nil || size != int64(len(data)) {
		t.Fatal(size, err)
	}
	defer r.Close()
	for _, tc := range []struct {
		offset int64
		whence int
		at, n  int64
	}{
		{0, io.SeekEnd, size, 0}, {0, io.SeekStart, 0, 10}, {-10, io.SeekEnd, size - 10, 10},
		{100, io.SeekStart, 100, 5},
		{20, io.SeekCurrent, 125, 70_000}, {-1000, io.SeekCurrent, 69_125, 1000}, {5, io.SeekEnd, size + 5, 0},
		{0, io.SeekStart, 0, size},
	} {
		at, err := r.Seek(tc.offset, tc.whence)
		if err != nil || at != tc.at {
			t.Fatalf("seek %d from %d: %d, %v; want %d", tc.offset, tc.whence, at, err, tc.at)
		}
		got := make([]byte, tc.n)
		if _, err := io.ReadFull(r, got); err != nil || tc.n > 0 && !bytes.Equal(got, data[at:at+tc.n]) {
			t.Errorf("%d bytes at %d differ, %v", tc.n, at, err)
		}
		if tc.n == 0 {
			if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("read at %d: %v, want EOF", at, err)
			}
		}
	}
	if _, err := r.Seek(-1, io.SeekStart); err == nil {
		t.Error("a place before the start was accepted")
	}
}

func testLimit(t *testing.T, b backend) {
	s := b.open(t)
	before := files(t, b.files)
	more := content(12 << 20)
	for name, put := range puts(s) {
		for _, limit := range []int64{0, 10, 5_000, 9 << 20} {
			endless := &counted{r: bytes.NewReader(more)}
			if _, err := put(t.Context(), endless, limit); !errors.Is(err, blob.ErrTooLarge) {
				t.Errorf("%s: limit %d: %v", name, limit, err)
			}
			if endless.n > limit+1 {
				t.Errorf("%s: limit %d: %d bytes were read", name, limit, endless.n)
			}
			if _, err := put(t.Context(), bytes.NewReader(more), limit); !errors.Is(err, blob.ErrTooLarge) {
				t.Errorf("%s: limit %d, written by the source: %v", name, limit, err)
			}
		}
		if _, err := put(t.Context(), bytes.NewReader(content(10)), 10); err != nil {
			t.Errorf("%s: exactly the limit: %v", name, err)
		}
	}
	if left := files(t, b.files) - before; left != 2 {
		t.Errorf("%d files for two blobs", left)
	}
}

// puts are the ways to put a blob.
func puts(s blob.Store) map[string]func(context.Context, io.Reader, int64) (blob.Info, error) {
	return map[string]func(context.Context, io.Reader, int64) (blob.Info, error){"put": s.Put,
		"put proved": s.PutProved}
}

// testProved puts blobs that others prove, of which no sum is taken.
func testProved(t *testing.T, b backend) {
	s := b.open(t)
	for _, n := range []int{0, 1, 300_000, 17<<20 + 5} {
		data := content(n)
		for name, source := range map[string]io.Reader{"read": &counted{r: bytes.NewReader(data)},
			"written by the source": bytes.NewReader(data)} {
			info, err := s.PutProved(t.Context(), source, int64(n))
			if err != nil || info.Size != int64(n) || info.Sum != [sha256.Size]byte{} {
				t.Errorf("%d bytes, %s: %+v, %v", n, name, info, err)
			}
			if got, err := get(s, info.ID); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %s: %d came back, %v", n, name, len(got), err)
			}
		}
	}
}

type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func testInterrupted(t *testing.T, b backend) {
	s := b.open(t)
	before := files(t, b.files)
	all := content(12 << 20)
	for name, put := range puts(s) {
		for i, n := range []int{0, 1, 100_000, 6 << 20, len(all)} { // the last two are several parts of an object
			broken := errors.New("the sender is gone")
			if i%2 == 1 {
				broken = io.ErrUnexpectedEOF // the error of a cut body, not its end
			}
			_, err := put(t.Context(), io.MultiReader(bytes.NewReader(all[:n]), failing{broken}), 1<<30)
			if !errors.Is(err, broken) || errors.Is(err, blob.ErrUnavailable) {
				t.Errorf("%s: after %d bytes: %v", name, n, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			_, err = put(ctx, io.MultiReader(bytes.NewReader(all[:n]), calling{cancel}), 1<<30)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: given up after %d bytes: %v", name, n, err)
			}
		}
	}
	if left := files(t, b.files) - before; left != 0 {
		t.Errorf("%d files are left", left)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type calling struct{ f func() }

func (c calling) Read(p []byte) (int, error) {
	c.f()
	p[0] = 'x'
	return 1, nil
}

func testDelete(t *testing.T, b backend) {
	s := b.open(t)
	kept, gone := put(t, s, content(100)), put(t, s, content(101))
	for range 2 {
		if err := s.Delete(t.Context(), gone.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := get(s, gone.ID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the deleted blob: %v", err)
	}
	if _, err := get(s, kept.ID); err != nil {
		t.Errorf("the other blob: %v", err)
	}
}

func testSweep(t *testing.T, b backend) {
	s := b.open(t)
	want := map[string]bool{}
	for i := range 5 {
		want[put(t, s, content(i)).ID] = true
	}
	collect := func(age time.Duration) map[string]bool {
		found := map[string]bool{}
		err := b.open(t).Sweep(t.Context(), age, func(id string, _ int64) error {
			found[id] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := collect(time.Hour); len(found) != 0 {
		t.Errorf("young blobs were shown: %v", found)
	}
	// Times of the store may be whole seconds, so the newest may look younger.
	proctest.Eventually(t, fmt.Sprintf("%v are found", want), func() bool { return len(collect(0)) == len(want) })
	stop := errors.New("stop")
	if err := b.open(t).Sweep(t.Context(), 0, func(string, int64) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the visitor's error became %v", err)
	}
}

// A sweep shows what was stored under its mark, also by another process.
func testSweepBeside(t *testing.T, b backend) {
	mark := blob.NewMark()
	want := []string{put(t, b.openAs(t, mark), content(1)).ID}
	theirs := put(t, b.openAs(t, blob.NewMark()), content(2)).ID
	proctest.Eventually(t, "both are old", func() bool { // where times are whole seconds, too
		n := 0
		err := b.open(t).List(t.Context(), 0, func(string, int64) error { n++; return nil })
		return err == nil && n == 2
	})
	var shown []string
	if err := b.openAs(t, mark).Sweep(t.Context(), 0, func(id string, _ int64) error {
		shown = append(shown, id)
		return nil
	}); err != nil || !slices.Equal(shown, want) {
		t.Errorf("shown %v, want %v and not %s: %v", shown, want, theirs, err)
	}
}

func testParallel(t *testing.T, b backend) {
	s := b.open(t)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			data := content(1000 * i)
			info, err := s.Put(t.Context(), bytes.NewReader(data), 1<<20)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := get(s, info.ID); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
			if i%2 == 0 {
				if err := s.Delete(t.Context(), info.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// Only names the store makes are names: nothing a caller sends reaches a path.
func testHostileIDs(t *testing.T, b backend) {
	s := b.open(t)
	id := put(t, s, content(10)).ID
	for _, evil := range []string{"", "..", "../../etc/passwd", "/etc/passwd", "..%2f..", id[:31], id + "0",
		strings.ToUpper("abcdef" + id[6:]), id[:31] + "\x00",
		id[:30] + "/x", "http://127.0.0.1/" + id[:15], strings.Repeat("../", 10) + "tm", strings.Repeat("a", 1<<20)} {
		if _, _, err := s.Open(t.Context(), evil); err == nil || errors.Is(err, fs.ErrNotExist) ||
			errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("open %.40q: %v", evil, err)
		}
		if err := s.Delete(t.Context(), evil); err == nil {
			t.Errorf("delete %.40q was accepted", evil)
		}
		if got := s.Where(evil); got != "" {
			t.Errorf("%.40q lies at %q", evil, got)
		}
	}
	if _, err := get(s, id); err != nil {
		t.Error(err)
	}
}

// A file planted in the directory under a blob's name is not followed.
func TestThreat28PlantedLinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s := backend{dir, dir}.open(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := put(t, s, content(50))
	plant := func(id string, make func(name string) error) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, id[:2]), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := make(filepath.Join(dir, id[:2], id)); err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := func(last string) string { return strings.Repeat("7", 31) + last }
	outside := func(name string) error { return os.Symlink(secret, name) }
	inside := func(name string) error { return os.Symlink("../"+other.ID[:2]+"/"+other.ID, name) }
	for _, id := range []string{plant(id("1"), outside), plant(id("2"), inside),
		plant(id("3"), func(name string) error { return syscall.Mkfifo(name, 0o600) }),
		plant(id("4"), func(name string) error { return os.Mkdir(name, 0o700) })} {
		if _, _, err := s.Open(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", id, err)
		}
	}
	folder := "ff" + strings.Repeat("7", 30)
	if other.ID[:2] == "ff" { // its folder is there
		folder = "fe" + folder[2:]
	}
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(dir, folder[:2])); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(secret, filepath.Join(filepath.Dir(secret), folder)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Open(t.Context(), folder); err == nil {
		t.Error("a folder that is a link out of the store was followed")
	}
	if err := s.Delete(t.Context(), folder); err == nil {
		t.Error("a file outside of the store was deleted")
	}
	if err := s.Delete(t.Context(), id("1")); err != nil {
		t.Error(err)
	}
	if raw, err := os.ReadFile(filepath.Join(filepath.Dir(secret), folder)); err != nil || string(raw) != "secret" {
		t.Errorf("the file outside: %q, %v", raw, err)
	}
}
