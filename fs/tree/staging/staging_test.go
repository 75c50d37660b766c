package staging

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const blockBytes = 64

func openSpool(t *testing.T, limit int64) *Spool {
	t.Helper()
	s, err := OpenSpool(t.TempDir(), limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newStore(t *testing.T, change func(o *Options)) *Store {
	t.Helper()
	o := Options{Pool: mem.NewPool(), Bytes: 1 << 20, FileBytes: 6 * blockBytes, WholeBytes: 100, BlockBytes: blockBytes, PartBlocks: 4, Spool: openSpool(t, 1<<20)}
	if change != nil {
		change(&o)
	}
	return NewStore(o)
}

// model is the content that programs should see, and what a service has of it.
type model struct {
	base, want []byte
	sent       map[int64]string
	c          *Content
}

func (m *model) fetch(t *rapid.T, off, n int64) {
	for range 10 {
		list := m.c.Missing(off, n)
		if list == nil {
			return
		}
		for _, i := range list {
			if err := m.c.Fetched(i, m.base[i*blockBytes:min(int64(len(m.base)), (i+1)*blockBytes)]); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatal("the same blocks are missing again and again")
}

func (m *model) put(t *rapid.T, list format.Extents) {
	for _, x := range list {
		for i := x.First; i < x.First+x.Count; i++ {
			p := make([]byte, blockBytes)
			n, mark, isBase, err := m.c.Block(i, p)
			if err != nil {
				t.Fatal(err)
			}
			if isBase {
				copy(p[:n], m.base[i*blockBytes:])
			}
			m.sent[i] = string(p[:n])
			m.c.Sent(i, mark)
		}
	}
}

// Random changes against a slice of bytes. At the end a service that has the base and what was
// sent has the content.
func TestModel(t *testing.T) {
	spool := openSpool(t, 1<<20)
	for _, disk := range []*Spool{spool, nil} {
		rapid.Check(t, func(t *rapid.T) {
			s := NewStore(Options{Pool: mem.NewPool(), Bytes: 1 << 20, FileBytes: 6 * blockBytes, WholeBytes: 100, BlockBytes: blockBytes, PartBlocks: 4, Spool: disk})
			m := &model{sent: map[int64]string{}}
			takesOver := false
			if rapid.Bool().Draw(t, "on a base") {
				m.base = rapid.SliceOfN(rapid.Byte(), 101, 1500).Draw(t, "base")
				m.c = s.NewOn(format.Layout{Size: int64(len(m.base)), BlockBytes: blockBytes})
				takesOver = rapid.Bool().Draw(t, "takes over")
			} else {
				var err error
				if m.c, err = s.New(); err != nil {
					t.Fatal(err)
				}
			}
			defer m.c.Release()
			m.want = bytes.Clone(m.base)
			t.Repeat(map[string]func(*rapid.T){
				"write": func(t *rapid.T) {
					off := rapid.IntRange(0, 1500).Draw(t, "off")
					p := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "bytes")
					m.fetch(t, int64(off), int64(len(p)))
					if err := m.c.WriteAt(p, int64(off)); err != nil {
						t.Fatal(err)
					}
					m.want = append(m.want, make([]byte, max(0, off+len(p)-len(m.want)))...)
					copy(m.want[off:], p)
				},
				"append": func(t *rapid.T) {
					p := bytes.Repeat([]byte{7}, rapid.IntRange(1, 300).Draw(t, "bytes"))
					m.fetch(t, int64(len(m.want)), int64(len(p)))
					if err := m.c.WriteAt(p, int64(len(m.want))); err != nil {
						t.Fatal(err)
					}
					m.want = append(m.want, p...)
				},
				"resize": func(t *rapid.T) {
					size := rapid.IntRange(0, 1800).Draw(t, "size")
					m.fetch(t, int64(size), 0)
					if err := m.c.Resize(int64(size)); err != nil {
						t.Fatal(err)
					}
					m.want = append(m.want, make([]byte, max(0, size-len(m.want)))...)[:size]
				},
				"send what rests": func(t *rapid.T) { m.put(t, m.c.Rested()) },
				"send some":       func(t *rapid.T) { m.put(t, m.c.Unsent(takesOver)[:min(1, len(m.c.Unsent(takesOver)))]) },
				"begin anew": func(t *rapid.T) {
					m.c.Unsend()
					clear(m.sent)
				},
				"hash": func(t *rapid.T) { m.hash(t) },
				"": func(t *rapid.T) {
					off := rapid.IntRange(0, len(m.want)).Draw(t, "from")
					p := make([]byte, rapid.IntRange(0, 400).Draw(t, "length"))
					n, rest, err := m.c.ReadAt(p, int64(off))
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range rest {
						copy(p[r.From:r.To], m.base[int64(off)+r.From:])
					}
					if want := m.want[off:min(len(m.want), off+len(p))]; !bytes.Equal(p[:n], want) {
						t.Fatalf("%d bytes at %d are %x, want %x", len(p), off, p[:n], want)
					}
					if m.c.Len() != int64(len(m.want)) {
						t.Fatalf("length %d, want %d", m.c.Len(), len(m.want))
					}
					if !m.c.Differs() && !bytes.Equal(m.want, m.base) {
						t.Fatal("the content differs from its base, and nobody knows")
					}
				},
			})
			m.hash(t)
			if m.c.Whole() == nil {
				m.put(t, m.c.Unsent(takesOver))
				var got []byte
				for i := range m.c.Layout().Blocks() {
					plain, ok := m.sent[i]
					if !ok {
						plain = string(m.base[i*blockBytes : min(int64(len(m.base)), (i+1)*blockBytes)])
					}
					got = append(got, plain...)
				}
				if !bytes.Equal(got, m.want) {
					t.Fatalf("a service has\n%x\nwant\n%x", got, m.want)
				}
			}
			m.c.Release()
			if s.Memory() != 0 || s.Spooled() != 0 {
				t.Fatalf("%d bytes of memory and %d of disk are not given back", s.Memory(), s.Spooled())
			}
		})
	}
}

func (m *model) hash(t *rapid.T) {
	sum, known, err := m.c.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if !known && m.base == nil {
		t.Fatal("the hash is unknown, although all content is here")
	}
	if known && sum != sha256.Sum256(m.want) {
		t.Fatal("the hash is that of other content")
	}
}

// write writes n bytes of one value in order.
func write(t *testing.T, c *Content, off, n int64, value byte) error {
	t.Helper()
	for at := off; at < off+n; at += 32 {
		if err := c.WriteAt(bytes.Repeat([]byte{value}, 32), at); err != nil {
			return err
		}
	}
	return nil
}

// Memory and disk end in an error of the write, and content that was there stays.
func TestFull(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    func(t *testing.T, o *Options)
		disk bool
		most int64 // that fits
	}{
		{"the spool", func(t *testing.T, o *Options) { o.Spool = openSpool(t, 10*blockBytes) }, true, 16 * blockBytes},
		{"memory without a spool", func(_ *testing.T, o *Options) { o.Spool, o.Bytes = nil, 8*blockBytes }, false, 8 * blockBytes},
		{"memory of all before the spool", func(t *testing.T, o *Options) { o.Spool, o.Bytes = openSpool(t, 10*blockBytes), 3*blockBytes }, true, 13 * blockBytes},
		{"whole content", func(_ *testing.T, o *Options) { o.WholeBytes, o.Bytes = -1, 200 }, false, 192},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t, func(o *Options) { tc.o(t, o) })
			c, err := s.New()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Release()
			err = write(t, c, 0, 100*blockBytes, 5)
			var full *Full
			if !errors.As(err, &full) || full.Disk != tc.disk || c.Len() != tc.most {
				t.Fatalf("%d bytes, then %v", c.Len(), err)
			}
			p := make([]byte, tc.most)
			if n, _, err := c.ReadAt(p, 0); n != len(p) || err != nil || !bytes.Equal(p, bytes.Repeat([]byte{5}, n)) {
				t.Errorf("%d bytes are left, %v", n, err)
			}
			if err := c.Resize(0); err != nil {
				t.Fatal(err)
			}
			if err := write(t, c, 0, tc.most, 6); err != nil {
				t.Errorf("after the file was emptied: %v", err)
			}
		})
	}
}

// A refused write of many blocks changes none of them.
func TestRefusedWriteChangesNothing(t *testing.T) {
	s := newStore(t, func(o *Options) { o.Spool, o.Bytes = nil, 4*blockBytes })
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := write(t, c, 0, 2*blockBytes, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteAt(bytes.Repeat([]byte{2}, 5*blockBytes), 32); err == nil {
		t.Fatal("five blocks went into the room of two")
	}
	p := make([]byte, 10*blockBytes)
	if n, _, _ := c.ReadAt(p, 0); !bytes.Equal(p[:n], bytes.Repeat([]byte{1}, 2*blockBytes)) {
		t.Errorf("the content became %x", p[:n])
	}
	if s.Memory() != 2*blockBytes {
		t.Errorf("%d bytes are held", s.Memory())
	}
}

// Holes take no memory and no disk.
func TestHolesCostNothing(t *testing.T) {
	s := newStore(t, nil)
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := c.Resize(1 << 40); err != nil {
		t.Fatal(err)
	}
	if s.Memory() != 0 || s.Spooled() != 0 || c.Unstored() != 1<<40 {
		t.Errorf("a hole holds %d bytes of memory and %d of disk; %d are to be sent", s.Memory(), s.Spooled(), c.Unstored())
	}
}

// Only parts that are complete and were left are offered, and each once.
func TestRested(t *testing.T) {
	s := newStore(t, nil)
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	rested := func(want string) {
		t.Helper()
		if got := c.Rested().String(); got != want {
			t.Errorf("parts at rest: %q, want %q", got, want)
		}
	}
	part := int64(4 * blockBytes)
	for i, want := range []string{"", "", "0-3", "4-7"} {
		if err := write(t, c, int64(i)*part, part, 1); err != nil {
			t.Fatal(err)
		}
		rested(want)
	}
	for _, at := range []int64{0, 1, 2, 3, 0} { // parts 0 and 1 changed later: at the end
		if err := write(t, c, at*part, 32, 2); err != nil {
			t.Fatal(err)
		}
	}
	rested("8-11")
	rested("12-15")
	rested("")
	rewrite := func() {
		t.Helper()
		if err := c.Resize(0); err != nil {
			t.Fatal(err)
		}
		if err := write(t, c, 0, 3*part, 3); err != nil {
			t.Fatal(err)
		}
	}
	rewrite() // the upload that has the parts goes on
	rested("")
	c.Unsend()
	rewrite()
	rested("0-3")
}

// The disk holds no plaintext, the file has no name, and what lay in a place before is refused.
func TestM4SpoolHoldsCiphertext(t *testing.T) {
	dir := t.TempDir()
	spool, err := OpenSpool(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("the spool has a name: %v", left)
	}
	info, err := spool.file.Stat()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	secret := []byte(strings.Repeat("canary", 100))
	var p place
	if err := spool.put(&p, secret); err != nil {
		t.Fatal(err)
	}
	first := onDisk(t, spool)
	if bytes.Contains(first, []byte("canary")) || len(first) != len(secret) {
		t.Errorf("the disk holds %d bytes %q", len(first), first)
	}
	got := make([]byte, len(secret))
	if err := spool.get(p, got); err != nil || !bytes.Equal(got, secret) {
		t.Fatalf("comes back as %q, %v", got, err)
	}
	if err := spool.put(&p, bytes.ToUpper(secret)); err != nil {
		t.Fatal(err)
	}
	if _, err := spool.file.WriteAt(first, 0); err != nil {
		t.Fatal(err)
	}
	if err := spool.get(p, got); !errors.Is(err, format.ErrAuthentication) {
		t.Errorf("what lay there before comes back: %q, %v", got, err)
	}
}

func onDisk(t *testing.T, s *Spool) []byte {
	t.Helper()
	info, err := s.file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, info.Size())
	if _, err := s.file.ReadAt(raw, 0); err != nil {
		t.Fatal(err)
	}
	return raw
}

// A disk that fails is told apart from one that is full, to who writes and to who reads.
func TestSpoolWhoseDiskFails(t *testing.T) {
	spool := openSpool(t, 1<<20)
	s := newStore(t, func(o *Options) { o.Spool = spool })
	c, err := s.New()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := write(t, c, 0, 10*blockBytes, 5); err != nil {
		t.Fatal(err)
	}
	if err := spool.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := write(t, c, 10*blockBytes, 10*blockBytes, 5); !errors.Is(err, ErrSpool) {
		t.Errorf("a write: %v", err)
	}
	if _, _, err := c.ReadAt(make([]byte, blockBytes), 0); !errors.Is(err, ErrSpool) {
		t.Errorf("a read: %v", err)
	}
}

// A folder that takes no file makes no spool.
func TestSpoolNeedsAFolder(t *testing.T) {
	if s, err := OpenSpool(filepath.Join(t.TempDir(), "none"), 1); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, %v", s, err)
	}
}

// A write of many blocks does not take the memory of a block that was fetched for it.
func TestWriteKeepsWhatWasFetchedForIt(t *testing.T) {
	base := bytes.Repeat([]byte{9}, 20*blockBytes)
	s := newStore(t, nil) // memory for six blocks
	c := s.NewOn(format.Layout{Size: int64(len(base)), BlockBytes: blockBytes})
	defer c.Release()
	for _, i := range []int64{8, 12, 13, 14, 15, 16} { // block 8 was used longest ago
		if err := c.Fetched(i, base[:blockBytes]); err != nil {
			t.Fatal(err)
		}
	}
	const from, n = 5 * blockBytes, 3*blockBytes + 10
	if list := c.Missing(from, n); list != nil {
		t.Fatalf("blocks %v are missing", list)
	}
	if err := c.WriteAt(bytes.Repeat([]byte{1}, n), from); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, blockBytes)
	if _, rest, err := c.ReadAt(p, 8*blockBytes); err != nil || rest != nil || !bytes.Equal(p[10:], base[:blockBytes-10]) {
		t.Errorf("behind the write lies %x, %v, %v", p, rest, err)
	}
}

// A length that changes while a block is on its way makes that block one to be sent again.
func TestSentAtAnotherLength(t *testing.T) {
	for _, tc := range []struct {
		name   string
		base   int64
		before int64   // length when the block is read
		then   []int64 // lengths until it arrived
		again  bool
	}{
		{"as it was", 0, 3 * blockBytes, nil, false},
		{"longer in the block", 0, 3*blockBytes - 10, []int64{3*blockBytes - 5}, true},
		{"longer behind the block", 0, 3 * blockBytes, []int64{9 * blockBytes}, false},
		{"shorter and as it was", 0, 3 * blockBytes, []int64{2 * blockBytes, 3 * blockBytes}, false},
		{"the base's, cut off and zero", 3 * blockBytes, 3 * blockBytes, []int64{2 * blockBytes, 3 * blockBytes}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t, nil)
			c := s.NewOn(format.Layout{Size: tc.base, BlockBytes: blockBytes})
			defer c.Release()
			if err := c.Resize(tc.before); err != nil {
				t.Fatal(err)
			}
			_, mark, _, err := c.Block(2, make([]byte, blockBytes))
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range tc.then {
				if err := c.Resize(size); err != nil {
					t.Fatal(err)
				}
			}
			c.Sent(2, mark)
			if again := slices.Contains(slices.Collect(c.Unsent(false).All()), 2); again != tc.again {
				t.Errorf("is sent again: %v", again)
			}
		})
	}
}
