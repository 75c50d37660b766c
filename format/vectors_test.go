package format

import (
	"bytes"
	"crypto/aes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/format/formattest"
	"golang.org/x/mod/sumdb/tlog"
)

type (
	vector  = formattest.Vector
	piece   = formattest.Piece
	sealing = formattest.Seal
	tiles   map[string][]byte // of height 8, by their path
)

func unhex(text string) []byte { return must(hex.DecodeString(text)) }

// Height is the height of tiles.
func (tiles) Height() int { return 8 }

// ReadTiles returns tiles as they are in the vector.
func (m tiles) ReadTiles(list []tlog.Tile) (data [][]byte, err error) {
	for _, tile := range list {
		data = append(data, m[tile.Path()])
	}
	return data, nil
}

// SaveTiles keeps nothing.
func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

var (
	errVersion = errors.New("version 2 for a row without content, or an earlier one for a row with it")
	errContent = errors.New("size, blocks, root, manifest or key check are not those that the ledger recorded")
	errKeyFits = errors.New("another key than the file's")
	errProof   = errors.New("the block is not in the tree")
)

// results are the words of Result; the first that fits.
var results = []struct {
	name string
	is   error
}{{"version", errVersion}, {"content", errContent}, {"key", errKeyFits}, {"proof", errProof},
	{"authentication", ErrAuthentication}, {"corrupt", ErrCorrupt}, {"unsupported", ErrUnsupported},
	{"too large", ErrTooLarge}}

// readVector reads a whole file of version 2 by the rules of SPEC.md, in their order. Without
// commits it leaves out the key check, which nobody may.
func readVector(t testing.TB, v vector, commits bool) (plain []byte, err error) {
	t.Helper()
	meta, err := ParseMetadata(v.Format)
	if err != nil {
		return nil, err
	}
	if (meta.Version == VersionBlocks) != (v.Content != "") {
		return nil, errVersion
	}
	if len(v.Manifest) > MaxManifestBytes {
		return nil, ErrTooLarge
	}
	if content := meta.Content(ManifestSum(v.Manifest)); hex.EncodeToString(content[:]) != v.Content {
		return nil, errContent
	}
	key, err := ParseKey(v.Key)
	if err != nil {
		return nil, err
	}
	if check, err := KeyCheck(key); err != nil || commits && check != meta.KeyCheck {
		return nil, errKeyFits
	}
	layout := meta.Layout()
	manifest, err := ParseManifest(v.Manifest, layout.Blocks())
	if err != nil {
		return nil, err
	}
	data := v.Bytes(t)
	if int64(len(data)) != layout.SealedBytes() {
		return nil, ErrCorrupt
	}
	proven := tlog.TileHashReader(tlog.Tree{N: layout.Blocks(), Hash: meta.Root}, tiles(v.Tiles))
	for i := range layout.Blocks() {
		sealed := data[layout.Offset(i):][:layout.Sealed(i)]
		if leaf, err := proven.ReadHashes([]int64{tlog.StoredHashIndex(0, i)}); err != nil || leaf[0] != Leaf(sealed) {
			return nil, errors.Join(errProof, err)
		}
		part, err := UnwrapKey(key, manifest.Find(i).Key)
		if err != nil {
			return nil, err
		}
		cipher, err := NewBlockCipher(part)
		if err != nil {
			return nil, err
		}
		if plain, err = cipher.Open(plain, i, sealed); err != nil {
			return nil, err
		}
	}
	return plain, nil
}

const vectorDir = "testdata/blocks"

func vectors(t testing.TB) map[string]vector {
	t.Helper()
	return formattest.Read(t, os.DirFS(vectorDir))
}

func TestFrozenVectorsOfBlocks(t *testing.T) {
	for name, v := range vectors(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, err := readVector(t, v, true)
			got := "ok"
			if err != nil {
				got = err.Error()
			}
			if i := slices.IndexFunc(results, func(r struct {
				name string
				is   error
			}) bool {
				return errors.Is(err, r.is)
			}); i >= 0 {
				got = results[i].name
			}
			if sum := sha256.Sum256(plain); got != v.Result || got == "ok" && hex.EncodeToString(sum[:]) != v.SHA256 {
				t.Errorf("%s: read gives %q and %d bytes of %x, want %q", v.Comment, got, len(plain), sum, v.Result)
			}
		})
	}
}

// A key check is needed: without it one ciphertext opens under two keys, to two contents.
func TestTwoKeysOpenOneFileWithoutKeyCheck(t *testing.T) {
	list := vectors(t)
	first, err := readVector(t, list["two-keys-first"], true)
	if err != nil {
		t.Fatal(err)
	}
	other, err := readVector(t, list["two-keys"], false)
	if err != nil || bytes.Equal(first, other) || list["two-keys"].Content != list["two-keys-first"].Content {
		t.Errorf("the other key opens to the same content, or to none: %v", err)
	}
}

// The worked vector of version 2 is read from SPEC.md.
func TestSpecVectorOfBlocks(t *testing.T) {
	doc := must(os.ReadFile("SPEC.md"))
	value := func(name string) []byte {
		m := regexp.MustCompile(`(?m)^` + name + ` +([0-9a-f]+)$`).FindSubmatch(doc)
		if m == nil {
			t.Fatalf("SPEC.md has no %s", name)
		}
		return unhex(string(m[1]))
	}
	const text = "hello world"
	file, part, sealed, sum := must(NewKey(value("file-key"))), must(NewKey(value("part-key"))), value("sealed"),
		sha256.Sum256([]byte(text))
	wrapped := [WrappedKeyBytes]byte(value("wrapped"))
	check := must(KeyCheck(file))
	m := NewBlocksMetadata(Layout{int64(len(text)), MinBlockBytes}, Leaf(sealed), check, "", "")
	content := m.Content(ManifestSum(value("manifest")))
	manifestSum := ManifestSum(value("manifest"))
	for name, got := range map[string][]byte{
		"root": m.Root[:], "key-check": check[:], "content": content[:], "manifest-sha": manifestSum[:],
		"block-iv": sealed[:NonceBytes], "wrap-iv": wrapped[:NonceBytes],
		"part-key": must(UnwrapKey(file, wrapped)).Bytes(),
		"manifest": Manifest{{PartID(value("part-id")), 0, 1, wrapped}}.Encode(),
	} {
		if !bytes.Equal(got, value(name)) {
			t.Errorf("%s is %x, want %x", name, value(name), got)
		}
	}
	if plain, err := must(NewBlockCipher(part)).Open(nil, 0, sealed); err != nil || string(plain) != text {
		t.Errorf("the block opens to %q, %v", plain, err)
	}
	v := vector{Content: hex.EncodeToString(content[:]), FileHash: hexOf(sum), Key: file.Base64(),
		Format: must(json.Marshal(m)), Manifest: value("manifest"),
		Tiles: tiles{"tile/8/0/000.p/1": m.Root[:]}, Data: []piece{{Hex: hex.EncodeToString(sealed)}}}
	if plain, err := readVector(t, v, true); err != nil || string(plain) != text {
		t.Errorf("the file is read as %q, %v", plain, err)
	}
}

// TestFreezeBlocks writes new vectors with go test -freeze; existing ones are frozen.
func TestFreezeBlocks(t *testing.T) {
	if !*freeze {
		return
	}
	for name, v := range newVectors(t) {
		file := filepath.Join(vectorDir, name+".json")
		if _, err := os.Stat(file); err == nil {
			continue
		}
		raw := append(must(json.MarshalIndent(v, "", " ")), '\n')
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// named makes n bytes of a name.
func named(n int, format string, args ...any) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, format, args...))
	return sum[:n]
}

// stored is a stored file of which vectors are made.
type stored struct {
	layout   Layout
	key      *Key
	manifest Manifest
	data     []piece
	plain    []byte
}

// addPart adds a part with blocks up to before until.
func (s *stored) addPart(t testing.TB, part string, until int64) {
	t.Helper()
	first := int64(0)
	if n := len(s.manifest); n > 0 {
		first = s.manifest[n-1].First + s.manifest[n-1].Count
	}
	p := sealing{Key: hex.EncodeToString(named(32, "key of part %s", part)),
		IV:   hex.EncodeToString(named(8, "iv of part %s", part)),
		Seed: "part " + part, BlockBytes: s.layout.BlockBytes, First: first, Count: until - first,
		Last: s.layout.BlockBytes}
	if until == s.layout.Blocks() {
		p.Last = s.layout.Plain(until - 1)
	}
	for i := first; i < until; i++ {
		s.plain = append(s.plain, p.Block(i)...)
	}
	s.manifest = append(s.manifest, Run{PartID(named(16, "id of part %s", part)), first, until - first,
		wrapWith(s.key, unhex(p.Key), named(12, "nonce of %x %s %d", s.key.Bytes(), part, first))})
	s.data = append(s.data, piece{Seal: &p})
}

func wrapWith(file *Key, part, nonce []byte) (wrapped [WrappedKeyBytes]byte) {
	must(file.aead()).Seal(append(wrapped[:0], nonce...), nonce, part, []byte(partKeyLabel))
	return wrapped
}

func newStored(name string, l Layout) *stored {
	return &stored{layout: l, key: must(NewKey(named(32, "key of file %s", name)))}
}

// leavesOf are the leaves of data that is cut into blocks.
func leavesOf(l Layout, data []byte) (leaves []Hash) {
	for i := range l.Blocks() {
		leaves = append(leaves, Leaf(data[l.Offset(i):][:l.Sealed(i)]))
	}
	return leaves
}

func tilesOf(leaves []Hash) tiles {
	var hashes hashesOf
	for i, leaf := range leaves {
		hashes = append(hashes, must(tlog.StoredHashesForRecordHash(int64(i), leaf, hashes))...)
	}
	out := tiles{}
	for _, tile := range tlog.NewTiles(8, 0, int64(len(leaves))) {
		out[tile.Path()] = must(tlog.ReadTileData(tile, hashes))
	}
	return out
}

// vector returns a vector of a good file over its data.
func (s *stored) vector(t testing.TB, comment string) vector {
	t.Helper()
	v := vector{Comment: comment, Key: s.key.Base64(), Manifest: s.manifest.Encode(), Data: slices.Clone(s.data),
		Result: "ok"}
	leaves := leavesOf(s.layout, v.Bytes(t))
	sum := sha256.Sum256(s.plain)
	v.SHA256 = hex.EncodeToString(sum[:])
	v.FileHash, v.Tiles = v.SHA256, tilesOf(leaves)
	record(&v, NewBlocksMetadata(s.layout, RootOf(leaves), must(KeyCheck(s.key)), "", ""))
	return v
}

// record makes the metadata m what the ledger recorded.
func record(v *vector, m Metadata) {
	content := m.Content(ManifestSum(v.Manifest))
	v.Content, v.Format = hex.EncodeToString(content[:]), must(json.Marshal(m))
}

func metaOf(v *vector) Metadata { return must(ParseMetadata(v.Format)) }

// newVectors makes one vector per shape and one per fault.
func newVectors(t *testing.T) map[string]vector {
	t.Helper()
	const block = MinBlockBytes
	list := map[string]vector{}
	good := func(name, comment string, l Layout, parts ...int64) *stored {
		s := newStored(name, l)
		for i, until := range parts {
			s.addPart(t, fmt.Sprintf("%c of %s", 'A'+i, name), until)
		}
		list[name] = s.vector(t, comment)
		return s
	}
	one := good("one-byte", "one byte", Layout{1, block}, 1)
	full := one.vector(t, "one byte, in hex")
	full.Data = []piece{{Hex: hex.EncodeToString(full.Bytes(t))}}
	list["one-byte-hex"] = full
	good("one-block", "exactly a block", Layout{block, block}, 1)
	good("block-and-byte", "a block and a byte", Layout{block + 1, block}, 2)
	good("blocks-256k", "blocks of 256 KiB, a block and a byte", Layout{BlockBytes + 1, BlockBytes}, 1, 2)
	good("blocks-1m", "blocks of 1 MiB, a block and a byte", Layout{MaxBlockBytes + 1, MaxBlockBytes}, 2)
	good("blocks-256", "256 blocks: one complete tile, and a partial one above", Layout{256 * block, block}, 100, 256)
	good("blocks-257", "257 blocks: a complete tile, a partial one beside and one above", Layout{256*block + 1, block},
		256, 257)
	three := good("three-blocks", "three blocks in two parts", Layout{2*block + 100, block}, 2, 3)

	newer := newStored("newer", three.layout) // a version made from three-blocks: block 1 changed
	part := func(s *stored, from *stored, run int, first, count int64, p piece) {
		s.manifest = append(s.manifest, Run{from.manifest[run].Part, first, count,
			wrapWith(s.key, unhex(from.data[run].Seal.Key), named(12, "nonce of newer %d", first))})
		s.data = append(s.data, p)
	}
	sealedBlock := three.layout.Sealed(0)
	a, b := three.data[0], three.data[1]
	firstOf, secondOf := piece{Seal: a.Seal, Take: sealedBlock}, piece{Seal: a.Seal, Skip: sealedBlock}
	part(newer, three, 0, 0, 1, firstOf)
	newer.plain = append(newer.plain, three.plain[:block]...)
	newer.addPart(t, "A of newer", 2)
	part(newer, three, 1, 2, 1, b)
	newer.plain = append(newer.plain, three.plain[2*block:]...)
	list["taken-over"] = newer.vector(t,
		"a newer version of three-blocks, whose blocks 0 and 2 it takes over, wrapped under its own key")
	noHash := newer.vector(t, "the writer did not have all of the plaintext: no file_hash")
	noHash.FileHash = ""
	list["no-file-hash"] = noHash
	otherHash := newer.vector(t, "file_hash is that of another content: each block is proven all the same")
	otherHash.FileHash = hex.EncodeToString(make([]byte, sha256.Size))
	list["other-file-hash"] = otherHash
	sparse := newStored("sparse", three.layout)
	part(sparse, three, 0, 0, 1, firstOf)
	part(sparse, three, 0, 1, 1, secondOf)
	part(sparse, three, 1, 2, 1, b)
	sparse.plain = three.plain
	list["runs-that-touch"] = sparse.vector(t, "two runs of one part follow one another, each with its own wrapped key")
	other := newStored("other", three.layout)
	other.addPart(t, "A of other", 2)
	other.addPart(t, "B of other", 3)

	// fault makes a vector of three-blocks that must not be read.
	fault := func(name, result, comment string, change func(v *vector)) {
		v := three.vector(t, comment)
		v.Result, v.SHA256 = result, ""
		v.Tiles = maps.Clone(v.Tiles)
		change(&v)
		list[name] = v
	}
	rooted := func(v *vector) { // the uploader recorded the data as they are now
		m := metaOf(v)
		leaves := leavesOf(m.Layout(), v.Bytes(t))
		v.Tiles, m.Root = tilesOf(leaves), RootOf(leaves)
		record(v, m)
	}
	data := func(pieces ...piece) func(*vector) { return func(v *vector) { v.Data = pieces } }
	both := func(changes ...func(*vector)) func(*vector) {
		return func(v *vector) {
			for _, change := range changes {
				change(v)
			}
		}
	}
	flip := func(bit int64, p piece) piece { p.Flip = &bit; return p }
	for name, bit := range map[string]int64{"iv": 8 * 3, "ciphertext": 8*40_000 + 5, "tag": 8*sealedBlock - 1} {
		fault("flip-"+name, "proof", "a bit of the "+name+" of block 0 is flipped", data(flip(bit, a), b))
		fault("flip-"+name+"-recorded", "authentication",
			"a bit of the "+name+" of block 0 is flipped, and the tree is over that",
			both(data(flip(bit, a), b), rooted))
	}
	fault("flip-last-block", "proof", "a bit of the last block is flipped", data(a, flip(100, b)))
	fault("swap-in-file", "proof", "blocks 0 and 1 are swapped", data(secondOf, firstOf, b))
	fault("swap-in-file-recorded", "authentication", "blocks 0 and 1 are swapped, and the tree is over that: each is "+
		"right but for its index", both(data(secondOf, firstOf, b), rooted))
	fault("wrong-index", "proof", "block 0 also stands at index 1", data(firstOf, firstOf, b))
	fault("wrong-index-recorded", "authentication", "block 0 also stands at index 1, and the tree is over that",
		both(data(firstOf, firstOf, b), rooted))
	foreign := piece{Seal: other.data[0].Seal, Take: sealedBlock}
	fault("swap-between-files", "proof", "block 0 is that of another file", data(foreign, secondOf, b))
	fault("swap-between-files-recorded", "authentication", "block 0 is that of another file, and the tree is over that",
		both(data(foreign, secondOf, b), rooted))
	fault("swap-between-versions", "proof", "block 1 is that of the newer version", data(firstOf, newer.data[1], b))
	fault("swap-between-versions-recorded", "authentication",
		"block 1 is that of the newer version, and the tree is over that",
		both(data(firstOf, newer.data[1], b), rooted))
	fault("whole-other-version", "proof", "all blocks and tiles are those of the newer version", func(v *vector) {
		w := newer.vector(t, "")
		v.Data, v.Tiles = w.Data, w.Tiles
	})
	fault("answer-of-other-version", "content",
		"key, metadata, manifest, tiles and blocks are those of the newer version", func(v *vector) {
			w := newer.vector(t, "")
			w.Comment, w.Result, w.SHA256, w.Content, w.FileHash = v.Comment, v.Result, "", v.Content, v.FileHash
			*v = w
		})
	cutLast := b
	cutLast.Take = 127
	fault("cut-block", "corrupt", "the first block is missing", data(secondOf, b))
	fault("cut-part", "corrupt", "the data end with the first part", data(a))
	fault("cut-end", "corrupt", "the last byte is missing", data(a, cutLast))
	fault("cut-all", "corrupt", "no data", data())
	fault("appended", "corrupt", "a byte is appended", data(a, b, piece{Hex: "00"}))
	fault("appended-block", "corrupt", "the last block is appended once more", data(a, b, b))
	lie := func(from, to string) func(*vector) {
		return func(v *vector) {
			text := strings.Replace(string(v.Format), from, to, 1)
			if text == string(v.Format) {
				t.Fatalf("%s is not in %s", from, text)
			}
			v.Format = json.RawMessage(text)
		}
	}
	v := three.vector(t, "")
	rootHex, check := hexOf(metaOf(&v).Root), hexOf(metaOf(&v).KeyCheck)
	fault("lie-size", "content", "original_size is another", lie("131172", "131171"))
	fault("lie-block-size", "content", "block_size is another", lie("65536", "131072"))
	fault("lie-root", "content", "root is another", lie(rootHex, check))
	fault("lie-key-check", "content", "key_check is another", lie(check, rootHex))
	fault("lie-content", "content", "the ledger recorded something else", func(v *vector) { v.Content = rootHex })
	fault("key-other", "key", "the key of another file", func(v *vector) { v.Key = other.key.Base64() })
	fault("key-of-part", "key", "the key of the first part",
		func(v *vector) { v.Key = base64.StdEncoding.EncodeToString(unhex(a.Seal.Key)) })
	fault("key-16", "corrupt", "a key of 16 bytes",
		func(v *vector) { v.Key = base64.StdEncoding.EncodeToString(make([]byte, 16)) })
	fault("key-zero", "corrupt", "a key of only zeros",
		func(v *vector) { v.Key = base64.StdEncoding.EncodeToString(make([]byte, 32)) })
	fault("version-1", "version", "the metadata say version 1, the row has content", lie(`"version":2`, `"version":1`))
	fault("version-none", "version", "no metadata, the row has content",
		func(v *vector) { v.Format = json.RawMessage("null") })
	fault("no-content", "version", "the metadata say version 2, the row has no content",
		func(v *vector) { v.Content = "" })
	fault("compression", "unsupported", "version 2 with compression",
		lie(`"block_size"`, `"compression":"deflate","block_size"`))
	for name, c := range map[string][2]string{
		"block-size-odd": {"65536", "65537"}, "block-size-small": {"65536", "32768"},
		"block-size-large": {"65536", "2097152"}, "block-size-text": {"65536", `"65536"`},
		"block-size-absent": {`"block_size":65536,`, ""}, "size-zero": {"131172", "0"},
		"size-huge": {"131172", "9007199254740993"}, "size-absent": {`"original_size":131172,`, ""},
		"root-short": {rootHex, rootHex[2:]}, "root-upper": {rootHex, strings.ToUpper(rootHex)},
		"root-absent": {`"root":"` + rootHex + `",`, ""}, "key-check-number": {`"` + check + `"`, "7"},
	} {
		fault(name, "corrupt", "metadata with "+c[1]+" for "+c[0], lie(c[0], c[1]))
	}
	const leafTile = "tile/8/0/000.p/3"
	fault("tile-other-version", "proof", "the tile is that of the newer version",
		func(v *vector) { v.Tiles = newer.vector(t, "").Tiles })
	fault("tile-other-size", "proof", "the tile is that of a tree of two blocks",
		func(v *vector) { v.Tiles[leafTile] = v.Tiles[leafTile][:64] })
	fault("tile-too-long", "proof", "the tile has a hash more",
		func(v *vector) { v.Tiles[leafTile] = append(bytes.Clone(v.Tiles[leafTile]), make([]byte, 32)...) })
	fault("tile-absent", "proof", "the tile is missing", func(v *vector) { v.Tiles = tiles{} })
	fault("tile-flip", "proof", "a bit of the tile is flipped", func(v *vector) {
		v.Tiles[leafTile] = append([]byte{v.Tiles[leafTile][0] ^ 1}, v.Tiles[leafTile][1:]...)
	})
	upper := list["blocks-257"]
	upper.Comment, upper.Result, upper.SHA256, upper.Tiles = "a bit of a complete tile is flipped", "proof", "",
		maps.Clone(upper.Tiles)
	upper.Tiles["tile/8/0/000"] = append(bytes.Clone(upper.Tiles["tile/8/0/000"][:8191]),
		upper.Tiles["tile/8/0/000"][8191]^1)
	list["tile-complete-flip"] = upper
	resealed := func(p piece, first, count, last int64) piece { // blocks under the same key at the same place
		again := *p.Seal
		again.IV, again.Seed, again.First, again.Count, again.Last = hex.EncodeToString(named(8, "another iv")),
			"something else", first, count, last
		return piece{Seal: &again}
	}
	again := resealed(a, 0, 1, block)
	fault("sealed-again", "proof", "block 0 was sealed again under the same key with other content: only the "+
		"tree tells", data(again, secondOf, b))
	fault("sealed-again-tile", "proof",
		"block 0 was sealed again under the same key, and the tile is over that: only the root tells", func(v *vector) {
			v.Data = []piece{again, secondOf, b}
			v.Tiles = tilesOf(leavesOf(three.layout, v.Bytes(t)))
		})
	deep := list["blocks-257"]
	head, tail := deep.Data[0], deep.Data[0]
	head.Take, tail.Skip = 5*sealedBlock, 6*sealedBlock
	deep.Comment, deep.Result, deep.SHA256 = "block 5 of 257 was sealed again under the same key, and the complete "+
		"tile is over that: only the tile above tells", "proof", ""
	deep.Data = []piece{head, resealed(deep.Data[0], 5, 1, block), tail, deep.Data[1]}
	changed := tilesOf(leavesOf(Layout{256*block + 1, block}, deep.Bytes(t)))
	deep.Tiles = maps.Clone(deep.Tiles)
	deep.Tiles["tile/8/0/000"] = changed["tile/8/0/000"]
	list["sealed-again-deep"] = deep
	leaves := leavesOf(three.layout, three.vector(t, "").Bytes(t))[:2]
	node, root := append(leaves[0][:], leaves[1][:]...), tlog.NodeHash(leaves[0], leaves[1])
	fault("leaf-for-node", "proof", "the two hashes below a node stand where its block should: a leaf is not a node",
		func(v *vector) {
			v.Data, v.Manifest = []piece{{Hex: hex.EncodeToString(node)}},
				Manifest{{three.manifest[0].Part, 0, 1, three.manifest[0].Key}}.Encode()
			v.Tiles = tiles{"tile/8/0/000.p/1": root[:]}
			record(v, NewBlocksMetadata(Layout{64 - Overhead, block}, root, must(KeyCheck(three.key)), "", ""))
		})
	manifest := func(name, result, comment string, change func(m Manifest) []byte) {
		fault("manifest-"+name, result, comment, func(v *vector) {
			v.Manifest = change(slices.Clone(three.manifest))
			record(v, metaOf(v))
		})
	}
	manifest("gap", "corrupt", "no run has block 1", func(m Manifest) []byte { m[0].Count = 1; return m.Encode() })
	manifest("overlap", "corrupt", "two runs have block 1",
		func(m Manifest) []byte { m[1].First, m[1].Count = 1, 2; return m.Encode() })
	manifest("zero", "corrupt", "a run of no blocks",
		func(m Manifest) []byte { return append(Manifest{{Part: m[1].Part, Key: m[1].Key}}, m...).Encode() })
	manifest("long", "corrupt", "the last run goes beyond the file",
		func(m Manifest) []byte { m[1].Count = 2; return m.Encode() })
	manifest("longer", "corrupt", "a run behind the file",
		func(m Manifest) []byte { return append(m, Run{m[1].Part, 3, 1, m[1].Key}).Encode() })
	manifest("short", "corrupt", "no run has block 2", func(m Manifest) []byte { return m[:1].Encode() })
	manifest("order", "corrupt", "the runs are not in order",
		func(m Manifest) []byte { return Manifest{m[1], m[0]}.Encode() })
	manifest("huge", "corrupt", "a run of 2^64-1 blocks",
		func(m Manifest) []byte { m[1].Count = -1; return m.Encode() })
	manifest("cut", "corrupt", "the last byte is missing", func(m Manifest) []byte { return m.Encode()[:2*RunBytes-1] })
	manifest("appended", "corrupt", "a byte is appended", func(m Manifest) []byte { return append(m.Encode(), 0) })
	manifest("none", "corrupt", "no runs", func(Manifest) []byte { return []byte{} })
	manifest("keys-swapped", "authentication", "the keys of the two parts are swapped",
		func(m Manifest) []byte { m[0].Key, m[1].Key = m[1].Key, m[0].Key; return m.Encode() })
	manifest("key-flip", "authentication", "a bit of a wrapped key is flipped",
		func(m Manifest) []byte { m[0].Key[20] ^= 1; return m.Encode() })
	manifest("key-zero", "corrupt", "a part has the key of only zeros", func(m Manifest) []byte {
		m[0].Key = wrapWith(three.key, make([]byte, KeyBytes), make([]byte, NonceBytes))
		return m.Encode()
	})
	manifest("key-bare", "authentication", "a key is wrapped without additional data", func(m Manifest) []byte {
		nonce := make([]byte, NonceBytes)
		m[0].Key = [WrappedKeyBytes]byte(must(three.key.aead()).Seal(nonce, nonce, unhex(a.Seal.Key), nil))
		return m.Encode()
	})
	fault("manifest-other", "content", "the manifest is another than the ledger recorded",
		func(v *vector) { v.Manifest[0] ^= 1 })

	first, second := twoKeys(t)
	list["two-keys-first"], list["two-keys"] = first, second
	return list
}

func hexOf(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:]) }

// twoKeys makes a file that opens under two keys: GCM commits to neither.
func twoKeys(t *testing.T) (first, second vector) {
	t.Helper()
	l := Layout{KeyBytes, MinBlockBytes}
	keys := [2][]byte{named(32, "first of two keys"), named(32, "second of two keys")}
	wrapped, parts := sealTwice(t, keys, named(12, "nonce of the wrapped key"), []byte(partKeyLabel))
	data, plain := sealTwice(t, parts, named(12, "iv of the block"), blockContext(0))
	s := &stored{layout: l, key: must(NewKey(keys[0])), plain: plain[0], data: []piece{{Hex: hex.EncodeToString(data)}},
		manifest: Manifest{{PartID(named(16, "part with two keys")), 0, 1, [WrappedKeyBytes]byte(wrapped)}}}
	first = s.vector(t, "the first of two keys under which one ciphertext opens, the one that the key check names")
	first.FileHash = ""
	second = first
	second.Comment, second.Result, second.SHA256 = "the other of two keys under which one ciphertext opens: only the "+
		"key check tells them apart", "key", ""
	second.Key = base64.StdEncoding.EncodeToString(keys[1])
	return first, second
}

// sealTwice makes nonce | ciphertext | tag of 32 bytes that open under both keys, and what they
// open to: the two blocks of the ciphertext solve two linear equations over GF(2^128).
func sealTwice(t *testing.T, keys [2][]byte, nonce, context []byte) (sealed []byte, plain [2][]byte) {
	t.Helper()
	tag := named(TagBytes, "tag of %x", nonce)
	var h, s [2]element
	for i, key := range keys {
		block := must(aes.NewCipher(key))
		var zero, mask [16]byte
		block.Encrypt(zero[:], zero[:])
		block.Encrypt(mask[:], binary.BigEndian.AppendUint32(slices.Clone(nonce), 1))
		h[i] = toElement(zero[:])
		lengths := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(8*len(context))), 8*KeyBytes)
		additional := toElement(append(slices.Clone(context), make([]byte, 16-len(context))...))
		s[i] = toElement(tag).add(toElement(mask[:])).add(additional.mul(h[i].pow(4))).add(toElement(lengths).mul(h[i]))
	}
	inverse := h[0].pow(3).mul(h[1].pow(2)).add(h[1].pow(3).mul(h[0].pow(2))).inverse()
	c1 := s[0].mul(h[1].pow(2)).add(s[1].mul(h[0].pow(2))).mul(inverse)
	c2 := s[1].mul(h[0].pow(3)).add(s[0].mul(h[1].pow(3))).mul(inverse)
	sealed = slices.Concat(nonce, c1.bytes(), c2.bytes(), tag)
	for i, key := range keys {
		var err error
		if plain[i], err = must(must(NewKey(key)).aead()).Open(nil, nonce, sealed[NonceBytes:], context); err != nil {
			t.Fatal(err)
		}
	}
	return sealed, plain
}

// element is an element of GF(2^128) as GCM writes it.
type element struct{ high, low uint64 }

func toElement(raw []byte) element {
	return element{binary.BigEndian.Uint64(raw), binary.BigEndian.Uint64(raw[8:])}
}

func (e element) bytes() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, e.high), e.low)
}

func (e element) add(f element) element { return element{e.high ^ f.high, e.low ^ f.low} }

func (e element) mul(f element) (z element) {
	for i := range 128 {
		bits := [2]uint64{e.high, e.low}[i/64]
		if bits>>(63-i%64)&1 == 1 {
			z = z.add(f)
		}
		carry := f.low & 1
		f = element{f.high >> 1, f.low>>1 | f.high<<63}
		f.high ^= carry * 0xe1 << 56
	}
	return z
}

func (e element) pow(n int) element {
	out := e
	for range n - 1 {
		out = out.mul(e)
	}
	return out
}

// inverse is e to the power of 2^128 - 2.
func (e element) inverse() element {
	out, square := element{1 << 63, 0}, e
	for range 127 {
		square = square.mul(square)
		out = out.mul(square)
	}
	return out
}
