package format

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

// smallLayout is the layout of most tests.
func smallLayout(size int64) Layout { return Layout{Size: size, BlockBytes: MinBlockBytes} }

func newCipher(t testing.TB) *BlockCipher {
	t.Helper()
	c, err := NewBlockCipher(testKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// drawSize prefers sizes at the borders of blocks.
func drawSize(t *rapid.T) int64 {
	border := rapid.Int64Range(0, 4).Draw(t, "blocks") * MinBlockBytes
	return max(1, border+rapid.Int64Range(-2, 2).Draw(t, "beyond"))
}

func TestBlocksRoundTripAnySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := NewBlockCipher(must(RandomKey()))
		if err != nil {
			t.Fatal(err)
		}
		l := smallLayout(drawSize(t))
		content := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte"), 1, 2, 3, 5, 8, 13}, int(l.Size)/7+1)[:l.Size]
		var sealed []byte
		for i := range l.Blocks() {
			if int64(len(sealed)) != l.Offset(i) {
				t.Fatalf("block %d begins at %d, want %d", i, len(sealed), l.Offset(i))
			}
			from := i * l.BlockBytes
			if sealed, err = c.Seal(sealed, i, content[from:from+l.Plain(i)]); err != nil {
				t.Fatal(err)
			}
		}
		if int64(len(sealed)) != l.SealedBytes() {
			t.Fatalf("%d sealed bytes, want %d", len(sealed), l.SealedBytes())
		}
		var plain []byte
		for i := range l.Blocks() {
			if plain, err = c.Open(plain, i, sealed[l.Offset(i):][:l.Sealed(i)]); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(plain, content) {
			t.Fatalf("%d bytes come back as %d", len(content), len(plain))
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAnyChangedBitOfABlockIsNoticedAndNothingIsLeft(t *testing.T) {
	c := newCipher(t)
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "plain")
		sealed := must(c.Seal(nil, 7, want))
		bit := rapid.IntRange(0, 8*len(sealed)-1).Draw(t, "bit")
		sealed[bit/8] ^= 1 << (bit % 8)
		memory := bytes.Repeat([]byte{0xaa}, 4+len(want))
		got, err := c.Open(memory[:4], 7, sealed)
		if !errors.Is(err, ErrAuthentication) || len(got) != 4 {
			t.Fatalf("opened to %d bytes, %v", len(got), err)
		}
		if rest := memory[4:]; !bytes.Equal(rest, make([]byte, len(rest))) &&
			!bytes.Equal(rest, bytes.Repeat([]byte{0xaa}, len(rest))) {
			t.Fatalf("%x is left behind", rest)
		}
	})
}

func TestBlocksOpenOnlyWhereTheyBelong(t *testing.T) {
	c, other := newCipher(t), newCipher(t)
	sealed := must(c.Seal(nil, 1, []byte("some content of block one")))
	for name, open := range map[string]func() ([]byte, error){
		"block before":   func() ([]byte, error) { return c.Open(nil, 0, sealed) },
		"block 2^32 + 1": func() ([]byte, error) { return c.Open(nil, 1<<32+1, sealed) },
		"other key":      func() ([]byte, error) { return other.Open(nil, 1, sealed) },
		"cut":            func() ([]byte, error) { return c.Open(nil, 1, sealed[:len(sealed)-1]) },
		"extended":       func() ([]byte, error) { return c.Open(nil, 1, append(bytes.Clone(sealed), 0)) },
		"cut to a byte":  func() ([]byte, error) { return c.Open(nil, 1, sealed[:Overhead+1]) },
	} {
		if plain, err := open(); !errors.Is(err, ErrAuthentication) || len(plain) != 0 {
			t.Errorf("%s: %q, %v", name, plain, err)
		}
	}
	for name, open := range map[string]func() ([]byte, error){
		"empty":           func() ([]byte, error) { return c.Open(nil, 1, sealed[:Overhead]) },
		"nothing":         func() ([]byte, error) { return c.Open(nil, 1, nil) },
		"negative":        func() ([]byte, error) { return c.Open(nil, -1, sealed) },
		"longer than any": func() ([]byte, error) { return c.Open(nil, 1, make([]byte, MaxBlockBytes+Overhead+1)) },
	} {
		if _, err := open(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, plain := range map[string][]byte{"empty": nil, "longer than any": make([]byte, MaxBlockBytes+1)} {
		if got, err := c.Seal(nil, 0, plain); err == nil {
			t.Errorf("%s: sealed into %d bytes", name, len(got))
		}
	}
	if _, err := c.Seal(nil, -1, []byte("x")); err == nil {
		t.Error("a block with a negative number was sealed")
	}
	if blob, err := SealBlob(testKey(t), []byte("x")); err != nil || len(blob) != Overhead+1 {
		t.Fatal(err)
	} else if _, err := c.Open(nil, 0, blob); !errors.Is(err, ErrAuthentication) {
		t.Errorf("a blob of version 1 as a block: %v", err)
	}
}

// Threat 11: a nonce is never used twice, and a wiped key seals nothing.
func TestThreat11NoncesOfBlocksDoNotRepeat(t *testing.T) {
	c := newCipher(t)
	seen := map[[NonceBytes]byte]bool{}
	for range 50_000 { // the same block again, as a writer does after a change
		nonce := [NonceBytes]byte(must(c.Seal(nil, 3, []byte{1})))
		if seen[nonce] {
			t.Fatal("a nonce repeats")
		}
		seen[nonce] = true
	}
	wiped := testKey(t)
	wiped.Wipe()
	file := testKey(t)
	for name, err := range map[string]error{
		"cipher": second(NewBlockCipher(wiped)), "wrap": second(WrapKey(file, wiped)),
		"wrap under": second(WrapKey(wiped, file)),
		"unwrap":     second(UnwrapKey(wiped, [WrappedKeyBytes]byte{})), "check": second(KeyCheck(wiped)),
	} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s with a wiped key: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestWrappedKeys(t *testing.T) {
	file, part := testKey(t), testKey(t)
	wrapped := must(WrapKey(file, part))
	if got, err := UnwrapKey(file, wrapped); err != nil || *got != *part {
		t.Fatalf("unwrapped to another key, %v", err)
	}
	if bytes.Contains(wrapped[:], part.Bytes()[:8]) || wrapped == must(WrapKey(file, part)) {
		t.Error("the key shows, or the nonce repeats")
	}
	if _, err := UnwrapKey(testKey(t), wrapped); !errors.Is(err, ErrAuthentication) {
		t.Errorf("another file's key: %v", err)
	}
	for bit := range 8 * WrappedKeyBytes {
		bad := wrapped
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := UnwrapKey(file, bad); !errors.Is(err, ErrAuthentication) {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
	zero := wrapped
	aead := must(file.aead())
	aead.Seal(zero[NonceBytes:NonceBytes], zero[:NonceBytes], make([]byte, KeyBytes), []byte(partKeyLabel))
	if _, err := UnwrapKey(file, zero); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the key of only zeros: %v", err)
	}
}

func TestKeyCheckAndContentAreFixed(t *testing.T) {
	raw := make([]byte, KeyBytes)
	for i := range raw {
		raw[i] = byte(i)
	}
	check := must(KeyCheck(must(NewKey(raw))))
	// Made with Python: HKDF(SHA256(), 32, salt=None, info=b"svc-v2 key check").derive(bytes(range(32)))
	const wantCheck = "735658a0ef7e3c3f44547dbd53736bb0a79c9330f3c2c6b34ad8301a2d7960d2"
	if got := hex.EncodeToString(check[:]); got != wantCheck {
		t.Errorf("key check %s, want %s", got, wantCheck)
	}
	m := NewBlocksMetadata(Layout{Size: 0x010203, BlockBytes: BlockBytes}, Leaf([]byte("x")), check, "", "")
	content := m.Content(ManifestSum([]byte("manifest")))
	// Made with Python: sha256(b"svc-content-2" + pack(">QI", 0x010203, 262144) + sha256(b"\0x") + sha256(b"manifest")
	// + check)
	const wantContent = "cad01e884e0c9b46d2f1438cf6c3dd07a2d72b8909613ff6cb8ed7aead6dfb30"
	if got := hex.EncodeToString(content[:]); got != wantContent {
		t.Errorf("content %s, want %s", got, wantContent)
	}
	for name, change := range map[string]func(*Metadata){
		"size": func(m *Metadata) { m.OriginalSize++ }, "block size": func(m *Metadata) { m.BlockBytes *= 2 },
		"root": func(m *Metadata) { m.Root[31] ^= 1 }, "key": func(m *Metadata) { m.KeyCheck[0] ^= 1 },
	} {
		other := m
		change(&other)
		if other.Content(ManifestSum([]byte("manifest"))) == content {
			t.Errorf("content does not bind the %s", name)
		}
	}
	if m.Content(ManifestSum([]byte("Manifest"))) == content {
		t.Error("content does not bind the manifest")
	}
}

func TestLayouts(t *testing.T) {
	for _, l := range []Layout{{0, BlockBytes}, {-1, BlockBytes}, {maxSize + 1, BlockBytes}, {1, 0}, {1, -BlockBytes},
		{1, MinBlockBytes / 2},
		{1, 2 * MaxBlockBytes}, {1, MinBlockBytes + 1}, {1, 3 * MinBlockBytes}} {
		if err := l.Check(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	for _, block := range []int64{MinBlockBytes, BlockBytes, MaxBlockBytes} {
		for _, size := range []int64{1, block - 1, block, block + 1, 3*block - 1, maxSize - 1, maxSize} {
			l := Layout{size, block}
			last := l.Blocks() - 1
			if err := l.Check(); err != nil || l.Plain(last) < 1 || l.Plain(last) > block ||
				last*block+l.Plain(last) != size || last > 0 && l.Plain(0) != block ||
				l.Offset(last)+l.Sealed(last) != l.SealedBytes() || l.SealedBytes()-size != l.Blocks()*Overhead {
				t.Errorf("%+v: %d blocks, the last of %d bytes, %d sealed, %v", l, l.Blocks(), l.Plain(last),
					l.SealedBytes(), err)
			}
		}
	}
}

// hashesOf keeps what a tlog stores.
type hashesOf []tlog.Hash

func (h hashesOf) ReadHashes(indexes []int64) (list []tlog.Hash, err error) {
	for _, i := range indexes {
		list = append(list, h[i])
	}
	return list, nil
}

// Blocks that are written in pieces of any size have the root of their leaves.
func TestRootHashIsTheRootOfTheLeaves(t *testing.T) {
	const sealed = 40
	for n := range 5*sealed + 2 {
		var leaves []Hash
		body := bytes.Repeat([]byte("blocks!"), n)[:n]
		for block := range slices.Chunk(body, sealed) {
			leaves = append(leaves, Leaf(block))
		}
		for _, piece := range []int{1, 7, sealed, sealed + 1, 3 * sealed, n + 1} {
			h := NewRootHash(sealed)
			for p := range slices.Chunk(body, piece) {
				_, _ = h.Write(p) // never fails
			}
			if got := Hash(h.Sum(nil)); got != RootOf(leaves) {
				t.Fatalf("%d bytes in pieces of %d: root %v, want %v", n, piece, got, RootOf(leaves))
			}
		}
	}
}

func TestTreeIsTheOneOfTlog(t *testing.T) {
	const most = 600
	var stored hashesOf
	var leaves []Hash
	var tree Tree
	for n := range int64(most + 1) {
		if n > 0 {
			block := fmt.Appendf(nil, "block %d", n-1)
			leaves = append(leaves, Leaf(block))
			stored = append(stored, must(tlog.StoredHashes(n-1, block, stored))...)
			tree.Add(leaves[n-1])
		}
		want := must(tlog.TreeHash(n, stored))
		if got := tree.Root(); got != want || RootOf(leaves) != want || tree.Size() != n {
			t.Fatalf("%d leaves: root %v and %v of %d, want %v", n, got, RootOf(leaves), tree.Size(), want)
		}
	}
	rapid.Check(t, func(t *rapid.T) { // any mix of leaves and complete subtrees
		var tree Tree
		n := rapid.Int64Range(1, most).Draw(t, "leaves")
		for tree.Size() < n {
			fits := []int64{1}
			for w := int64(2); tree.Size()%w == 0 && tree.Size()+w <= n; w *= 2 {
				fits = append(fits, w)
			}
			w := rapid.SampledFrom(fits).Draw(t, "width")
			tree.AddComplete(RootOf(leaves[tree.Size():tree.Size()+w]), w)
		}
		if tree.Root() != RootOf(leaves[:n]) {
			t.Fatalf("another root over %d leaves", n)
		}
	})
	if node := tlog.NodeHash(leaves[0], leaves[1]); Leaf(append(leaves[0][:], leaves[1][:]...)) == node ||
		RootOf(leaves[:2]) != node {
		t.Error("a node can be shown as a leaf")
	}
}

func drawManifest(t *rapid.T) (m Manifest, blocks int64) {
	for range rapid.IntRange(1, 5).Draw(t, "runs") {
		run := Run{First: blocks, Count: rapid.Int64Range(1, 1<<40).Draw(t, "count")}
		copy(run.Part[:], rapid.SliceOfN(rapid.Byte(), PartIDBytes, PartIDBytes).Draw(t, "part"))
		copy(run.Key[:], rapid.SliceOfN(rapid.Byte(), WrappedKeyBytes, WrappedKeyBytes).Draw(t, "key"))
		m, blocks = append(m, run), blocks+run.Count
	}
	return m, blocks
}

func TestManifestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, blocks := drawManifest(t)
		raw := m.Encode()
		got, err := ParseManifest(raw, blocks)
		if err != nil || !slices.Equal(got, m) || len(raw) != len(m)*RunBytes {
			t.Fatalf("%v became %v, %v", m, got, err)
		}
		block := rapid.Int64Range(0, blocks-1).Draw(t, "block")
		if run := got.Find(block); block < run.First || block >= run.First+run.Count {
			t.Fatalf("block %d is said to be in %+v", block, run)
		}
		if id, err := ParsePartID(m[0].Part.String()); err != nil || id != m[0].Part {
			t.Fatalf("part id %v, %v", id, err)
		}
	})
}

func TestManifestsThatNoFileHas(t *testing.T) {
	run := func(first, count uint64) []byte {
		raw := make([]byte, RunBytes)
		binary.BigEndian.PutUint64(raw[PartIDBytes:], first)
		binary.BigEndian.PutUint64(raw[PartIDBytes+8:], count)
		return raw
	}
	join := func(runs ...[]byte) []byte { return bytes.Join(runs, nil) }
	const all = 1<<64 - 1
	for name, c := range map[string]struct {
		raw    []byte
		blocks int64
	}{
		"nothing": {nil, 1}, "cut": {run(0, 2)[:RunBytes-1], 2}, "a byte more": {append(run(0, 2), 0), 2},
		"gap": {join(run(0, 1), run(2, 1)), 3}, "overlap": {join(run(0, 2), run(1, 1)), 2},
		"twice": {join(run(0, 1), run(0, 1)), 1}, "out of order": {join(run(1, 1), run(0, 1)), 2},
		"count of zero": {join(run(0, 0), run(0, 1)), 1}, "a run behind the end": {join(run(0, 1), run(1, 1)), 1},
		"too many blocks": {run(0, 3), 2}, "too few": {run(0, 1), 2},
		"first above 2^63": {run(1<<63, 1), 1}, "count above 2^63": {run(0, all), 1},
		"around 2^64":         {join(run(0, 1), run(1, all), run(0, 1)), 1},
		"a file of no blocks": {run(0, 1), 0}, "a file of minus one": {run(0, all), -1},
	} {
		if m, err := ParseManifest(c.raw, c.blocks); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	if _, err := ParseManifest(make([]byte, MaxManifestBytes+1), 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too long: %v", err)
	}
	for _, text := range []string{"", "00", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("A", 32),
		strings.Repeat("g", 32)} {
		if _, err := ParsePartID(text); !errors.Is(err, ErrCorrupt) {
			t.Errorf("part id %q: %v", text, err)
		}
	}
}

func TestExtents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Extents
		var blocks []int64
		next := int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "blocks") {
			next += rapid.SampledFrom([]int64{0, 0, 1, 7, 1 << 35}).Draw(t, "gap")
			e, blocks = e.Add(next), append(blocks, next)
			next++
		}
		got, err := ParseExtents(e.String(), e.Blocks())
		if err != nil || !slices.Equal(got, e) || e.Blocks() != int64(len(blocks)) {
			t.Fatalf("%v has %d blocks, written as %s, read as %v, %v", blocks, e.Blocks(), e, got, err)
		}
		for i, block := range blocks {
			if before, ok := e.Index(block); !ok || before != int64(i) {
				t.Fatalf("block %d of %s comes after %d, %v", block, e, before, ok)
			}
			if _, ok := e.Index(block + 1); ok != slices.Contains(blocks, block+1) {
				t.Fatalf("block %d in %s: %v", block+1, e, ok)
			}
		}
		if _, err := ParseExtents(e.String(), e.Blocks()-1); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("more blocks than allowed: %v", err)
		}
	})
	for _, text := range []string{"", ",", "0,", ",0", "-1", "0-", "-", "1-0", "0-0", "0,1", "0-1,2", "0-1,1", "3,2",
		"+1", "01", "0-01", " 0", "0 ", "0x1", "1e3", "0-1-2", "a",
		"9007199254740992", "9223372036854775807", "9223372036854775808", "0-9223372036854775807",
		strings.Repeat("1,", 5000)} {
		if e, err := ParseExtents(text, 100); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%.40q is read as %v, %v", text, e, err)
		}
	}
}

func TestMetadataOfVersion2(t *testing.T) {
	const root, check = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
		"202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
	want := `{"version":2,"backend":"fastfs","encryption":"AES-256-GCM","wrapping":"AES-GCM-keywrap","original_size":5000000,"content_type":"application/octet-stream",` +
		`"filename":"a.txt","block_size":262144,"root":"` + root + `","key_check":"` + check +
		`","attributes":{"executable":true}}`
	m := NewBlocksMetadata(Layout{5_000_000, BlockBytes}, Hash(must(hex.DecodeString(root))),
		Hash(must(hex.DecodeString(check))), "", "a.txt")
	m.Attributes = `{"executable":true}`
	if raw, err := json.Marshal(m); err != nil || string(raw) != want {
		t.Fatalf("written as %s, %v", raw, err)
	}
	if back, err := ParseMetadata([]byte(want)); err != nil || back != m ||
		back.Layout() != (Layout{5_000_000, BlockBytes}) {
		t.Fatalf("read back as %+v, %v", back, err)
	}
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{`"original_size":5000000,`, ``, ErrCorrupt}, {`5000000`, `0`, ErrCorrupt}, {`5000000`, `-1`, ErrCorrupt},
		{`5000000`, `9007199254740993`, ErrCorrupt}, {`5000000`, `"5000000"`, ErrCorrupt},
		{`5000000`, `9007199254740992`, nil}, {`5000000`, `1`, nil}, {`5000000`, `5e6`, ErrCorrupt},
		{`"block_size":262144,`, ``, ErrCorrupt}, {`262144`, `65536`, nil}, {`262144`, `1048576`, nil},
		{`262144`, `32768`, ErrCorrupt}, {`262144`, `2097152`, ErrCorrupt},
		{`262144`, `262145`, ErrCorrupt}, {`262144`, `0`, ErrCorrupt}, {`262144`, `"262144"`, ErrCorrupt},
		{`262144`, `262144.0`, ErrCorrupt}, {`262144`, `null`, ErrCorrupt},
		{root, root[2:], ErrCorrupt}, {root, strings.ToUpper(root), ErrCorrupt}, {root, root + "00", ErrCorrupt},
		{`"` + root + `"`, `7`, ErrCorrupt}, {`"root":"` + root + `",`, ``, ErrCorrupt},
		{check, check[1:], ErrCorrupt}, {`"` + check + `"`, `null`, ErrCorrupt},
		{`"` + check + `"`, `["` + check + `"]`, ErrCorrupt},
		{`"filename"`, `"compression":"deflate","filename"`, ErrUnsupported},
		{`"filename"`, `"compression":"","filename"`, nil}, {`"filename"`, `"later":[1],"filename"`, nil},
		{`"version":2`, `"version":"2"`, ErrUnsupported}, {`"version":2`, `"version":2.0`, ErrUnsupported},
		{`"version":2`, `"version":4`, ErrUnsupported},
	} {
		text := strings.Replace(want, c.from, c.to, 1)
		if text == want {
			t.Fatalf("%s is not in the metadata", c.from)
		}
		if _, err := ParseMetadata([]byte(text)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", text, err, c.want)
		}
	}
	// Earlier versions do not know the fields, so that any value may stand there.
	for _, text := range []string{`{"version":1,"block_size":"x","root":5,"key_check":[]}`,
		`{"block_size":{},"root":null,"key_check":1.5}`} {
		if m, err := ParseMetadata([]byte(text)); err != nil || m.BlockBytes != 0 {
			t.Errorf("%s: %+v, %v", text, m, err)
		}
	}
}

// Nothing opens that was not sealed under the key.
func FuzzOpenBlock(f *testing.F) {
	c := newCipher(f)
	f.Add(int64(0), must(newCipher(f).Seal(nil, 0, []byte("of another key"))))
	f.Add(int64(1<<40), must(c.Seal(nil, 0, []byte("of another place"))))
	f.Add(int64(-1), []byte{})
	f.Fuzz(func(t *testing.T, index int64, sealed []byte) {
		if plain, err := c.Open(nil, index, sealed); err == nil {
			t.Fatalf("%d bytes opened at %d", len(plain), index)
		}
	})
}

// Whatever parses covers the file, and is written the same way again.
func FuzzParseManifest(f *testing.F) {
	f.Add(Manifest{{First: 0, Count: 3}, {First: 3, Count: 1}}.Encode(), int64(4))
	f.Add(Manifest{{First: 0, Count: -1}}.Encode(), int64(-1))
	f.Add([]byte{}, int64(1))
	for _, v := range vectors(f) {
		f.Add(v.Manifest, int64(3))
	}
	f.Fuzz(func(t *testing.T, raw []byte, blocks int64) {
		m, err := ParseManifest(raw, blocks)
		if err != nil {
			return
		}
		next := int64(0)
		for _, run := range m {
			if run.First != next || run.Count < 1 {
				t.Fatalf("run %+v at block %d", run, next)
			}
			next += run.Count
		}
		if next != blocks || !bytes.Equal(m.Encode(), raw) {
			t.Fatalf("%x of %d blocks was read as %v", raw, blocks, m)
		}
	})
}

func FuzzParseExtents(f *testing.F) {
	for _, text := range []string{"0", "0-31,40", "0-1,2", "9007199254740991", "-", ""} {
		f.Add(text, int64(32))
	}
	f.Fuzz(func(t *testing.T, text string, most int64) {
		e, err := ParseExtents(text, most)
		if err != nil {
			return
		}
		if e.String() != text || e.Blocks() > most || e.Blocks() < 1 {
			t.Fatalf("%q of at most %d was read as %v", text, most, e)
		}
		if before, ok := e.Index(e[len(e)-1].First); !ok || before != e.Blocks()-e[len(e)-1].Count {
			t.Fatalf("%q: the last range comes after %d, %v", text, before, ok)
		}
	})
}

func TestExtentsWithout(t *testing.T) {
	for _, tc := range []struct{ from, other, want string }{
		{"0-9", "", "0-9"}, {"0-9", "0-9", ""}, {"0-9", "2-3,7", "0-1,4-6,8-9"}, {"3,5,8-9", "0-4,8", "5,9"},
		{"", "1", ""},
	} {
		if got := extents(t, tc.from).Without(extents(t, tc.other)).String(); got != tc.want {
			t.Errorf("%q without %q is %q, want %q", tc.from, tc.other, got, tc.want)
		}
	}
}

func extents(t *testing.T, text string) Extents {
	t.Helper()
	if text == "" {
		return nil
	}
	e, err := ParseExtents(text, 10)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
