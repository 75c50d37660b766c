package testkit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// BlockLiar lies about a file of format version 2, consistently.
type BlockLiar struct {
	Name string
	// Proven is a part of the error message: what the client proved false.
	Proven string
	// Blocks is how many blocks the file has, the last of them short; 0 = 10.
	Blocks int64
	// Uploader tells that the uploader lied, and the service told what was recorded: the
	// error is [sdk.ErrWrongContent].
	Uploader bool

	tell func(*BlockDeceit)
	make func(*BlockDeceit, *sealedFile) // of the uploader
}

// BlockDeceit is a service that was honest until [BlockDeceit.Lie], with a file of format version 2.
type BlockDeceit struct {
	*Server
	Alice   Account
	Group   sdk.GroupID
	Content []byte
	Entry   sdk.Entry // of the file, as a client lists it

	liar   BlockLiar
	key    *format.Key
	sealed *sealedFile
	before *sealedFile // an earlier version of the name, of the same size

	beforeRef sdk.Ref
}

// liarBlock is the plaintext of a block, in bytes.
const liarBlock = format.MinBlockBytes

// NewBlockDeceit starts a service for a lie.
func NewBlockDeceit(tb testing.TB, liar BlockLiar) *BlockDeceit {
	tb.Helper()
	d := &BlockDeceit{Server: Start(tb, Ours), Group: "films", liar: liar}
	d.Alice = d.Account("alice", "100")
	c := d.Client(tb, d.Alice)
	if _, err := c.Group(d.Group).Register(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	blocks := liar.Blocks
	if blocks == 0 {
		blocks = 10
	}
	d.Content = pattern(int((blocks-1)*liarBlock + 100))
	older := slices.Clone(d.Content)
	slices.Reverse(older)
	var ref sdk.Ref
	d.before, _, d.beforeRef = d.addBlocks(d.Alice, d.Group, "film", older, liarBlock)
	d.sealed, d.key, ref = d.addBlocks(d.Alice, d.Group, "film", d.Content, liarBlock)
	if liar.make != nil {
		liar.make(d, d.sealed)
		d.forge(ref, d.sealed)
	}
	entries, err := c.Group(d.Group).Entries(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		if e.Ref == ref {
			d.Entry = e
		}
	}
	return d
}

// pattern is content in which no two blocks are the same.
func pattern(size int) []byte {
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i*7 + i>>8 + size)
	}
	return content
}

// Lie begins the lie.
func (d *BlockDeceit) Lie() {
	if d.liar.tell != nil {
		d.liar.tell(d)
	}
}

// Repent ends it. What an uploader recorded stays.
func (d *BlockDeceit) Repent() {
	if d.liar.tell == nil {
		return
	}
	for _, path := range []string{wire.PathBlocks, wire.PathTiles, wire.PathManifest} {
		d.Disturb(path+"*", nil)
	}
	d.Disturb(wire.PathTools+wire.OpPrepareRetrieve, nil)
}

// answered lets the service answer a prepare_retrieve, and changes the result.
func answered(change func(d *BlockDeceit, result map[string]any)) func(*BlockDeceit) {
	return func(d *BlockDeceit) {
		d.Disturb(wire.PathTools+wire.OpPrepareRetrieve, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				honest := httptest.NewRecorder()
				next.ServeHTTP(honest, r)
				answer, ok := parsed(honest.Body.Bytes())
				if result, is := answer["result"].(map[string]any); ok && is && honest.Code == http.StatusOK {
					change(d, result)
					writeJSON(w, http.StatusOK, answer)
					return
				}
				forward(w, honest)
			})
		})
	}
}

// described changes the format object of the answer.
func described(change func(d *BlockDeceit, meta map[string]any)) func(*BlockDeceit) {
	return answered(func(d *BlockDeceit, result map[string]any) { change(d, result["format"].(map[string]any)) })
}

// ranged sends other bytes than the honest ones, in an honest form.
func ranged(change func(d *BlockDeceit, honest []byte, from int64) []byte) func(*BlockDeceit) {
	return sent(func(d *BlockDeceit, w http.ResponseWriter, honest *httptest.ResponseRecorder, from, _ int64) {
		raw := change(d, honest.Body.Bytes(), from)
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(raw)
	})
}

// sent answers requests for blocks. The header of the honest answer is set, but for its length; to is
// the byte after the last.
func sent(answer func(d *BlockDeceit, w http.ResponseWriter, honest *httptest.ResponseRecorder, from, to int64)) func(*BlockDeceit) {
	return func(d *BlockDeceit) {
		d.Disturb(wire.PathBlocks+"*", func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				honest := httptest.NewRecorder()
				next.ServeHTTP(honest, r)
				var from, to int64
				_, _ = fmt.Sscanf(honest.Header().Get("Content-Range"), "bytes %d-%d/", &from, &to)
				for name := range honest.Header() {
					if name != "Content-Length" {
						w.Header()[name] = honest.Header()[name]
					}
				}
				answer(d, w, honest, from, to+1)
			})
		})
	}
}

// whole is a sealed block, in bytes.
const whole = liarBlock + format.Overhead

// replaced puts other sealed blocks in the place of some.
func replaced(with func(d *BlockDeceit, block int64) []byte) func(*BlockDeceit) {
	return ranged(func(d *BlockDeceit, honest []byte, from int64) []byte {
		raw := bytes.Clone(honest)
		for at := int64(0); at < int64(len(raw)); at += whole {
			copy(raw[at:], with(d, (from+at)/whole))
		}
		return raw
	})
}

// BlockLiars returns every lie about blocks.
func BlockLiars() []BlockLiar {
	return slices.Concat(dataLiars(), answerLiars(), tileLiars(), uploadLiars())
}

func dataLiars() []BlockLiar {
	const changed, short, long = "is not the one that the ledger recorded", "data of", "more data than asked for"
	cut := func(keep func(d *BlockDeceit, honest int64) int64) func(*BlockDeceit) {
		return ranged(func(d *BlockDeceit, honest []byte, _ int64) []byte { return honest[:keep(d, int64(len(honest)))] })
	}
	return []BlockLiar{
		{Name: "one bit of a block flipped", Proven: "block 3 " + changed, tell: replaced(func(d *BlockDeceit, i int64) []byte {
			sealed := bytes.Clone(d.sealed.blocks[i])
			if i == 3 {
				sealed[1000] ^= 1
			}
			return sealed
		})},
		{Name: "one bit of a tag flipped", Proven: "block 9 " + changed, tell: replaced(func(d *BlockDeceit, i int64) []byte {
			sealed := bytes.Clone(d.sealed.blocks[i])
			if i == 9 {
				sealed[len(sealed)-1] ^= 0x80
			}
			return sealed
		})},
		{Name: "two blocks of a part swapped", Proven: changed, tell: replaced(func(d *BlockDeceit, i int64) []byte {
			if i == 1 || i == 2 {
				i = 3 - i
			}
			return d.sealed.blocks[i]
		})},
		{Name: "a block at another index", Proven: "block 5 " + changed, tell: replaced(func(d *BlockDeceit, i int64) []byte {
			if i == 5 {
				i = 4
			}
			return d.sealed.blocks[i]
		})},
		{Name: "a block of an earlier version", Proven: "block 7 " + changed, tell: replaced(func(d *BlockDeceit, i int64) []byte {
			if i == 7 {
				return d.before.blocks[i]
			}
			return d.sealed.blocks[i]
		})},
		{Name: "all blocks of another file", Proven: changed, tell: replaced(func(d *BlockDeceit, i int64) []byte { return d.before.blocks[i] })},
		{Name: "a block that its key opens, with other content", Proven: "block 2 " + changed, tell: replaced(func(d *BlockDeceit, i int64) []byte {
			if i != 2 {
				return d.sealed.blocks[i]
			}
			runs, err := format.ParseManifest(d.sealed.manifest, int64(len(d.sealed.blocks)))
			if err != nil {
				panic(err)
			}
			key, err := format.UnwrapKey(d.key, runs.Find(i).Key)
			if err != nil {
				panic(err)
			}
			c, err := format.NewBlockCipher(key)
			if err != nil {
				panic(err)
			}
			sealed, err := c.Seal(nil, i, make([]byte, liarBlock))
			if err != nil {
				panic(err)
			}
			return sealed
		})},
		{Name: "cut after a block", Proven: short, tell: cut(func(_ *BlockDeceit, n int64) int64 { return min(n, whole) })},
		{Name: "cut after a part", Proven: short, tell: cut(func(_ *BlockDeceit, n int64) int64 { return min(n, 4*whole) })},
		{Name: "cut before the end of the file", Proven: short, tell: cut(func(_ *BlockDeceit, n int64) int64 { return n - 1 })},
		{Name: "cut, and no length is told", Proven: "less data than announced", tell: sent(func(_ *BlockDeceit, w http.ResponseWriter, honest *httptest.ResponseRecorder, _, _ int64) {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(honest.Body.Bytes()[:honest.Body.Len()-1])
			_ = http.NewResponseController(w).Flush()
		})},
		{Name: "bytes appended", Proven: short, tell: ranged(func(_ *BlockDeceit, honest []byte, _ int64) []byte { return append(bytes.Clone(honest), 0) })},
		{Name: "bytes appended, and no length is told", Proven: long, tell: sent(func(_ *BlockDeceit, w http.ResponseWriter, honest *httptest.ResponseRecorder, _, _ int64) {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(append(honest.Body.Bytes(), 0))
			_ = http.NewResponseController(w).Flush()
		})},
		{Name: "a body without an end", Proven: long, tell: sent(func(_ *BlockDeceit, w http.ResponseWriter, honest *httptest.ResponseRecorder, _, _ int64) {
			w.WriteHeader(http.StatusPartialContent)
			for _, err := w.Write(honest.Body.Bytes()); err == nil; {
				_, err = w.Write(make([]byte, 1<<20))
			}
		})},
		{Name: "another range", Proven: "was asked for", tell: sent(func(_ *BlockDeceit, w http.ResponseWriter, honest *httptest.ResponseRecorder, from, to int64) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from+whole, to+whole-1, 9*whole+100+format.Overhead))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(honest.Body.Bytes())
		})},
		{Name: "the range of a file of another size", Proven: "was asked for", tell: sent(func(_ *BlockDeceit, w http.ResponseWriter, honest *httptest.ResponseRecorder, from, to int64) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, 1<<40))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(honest.Body.Bytes())
		})},
		{Name: "another range under the name of the one asked for", Proven: changed, tell: ranged(func(d *BlockDeceit, honest []byte, from int64) []byte {
			var all []byte
			for _, b := range d.sealed.blocks {
				all = append(all, b...)
			}
			return append(all, all...)[from+whole:][:len(honest)]
		})},
		{Name: "the whole file instead of a range", Proven: "status 200", tell: sent(func(d *BlockDeceit, w http.ResponseWriter, _ *httptest.ResponseRecorder, _, _ int64) {
			w.Header().Del("Content-Range")
			for _, b := range d.sealed.blocks {
				_, _ = w.Write(b)
			}
		})},
		{Name: "another file from the second request on", Proven: "changed while the file was open", tell: func(d *BlockDeceit) {
			var n atomic.Int64
			sent(func(d *BlockDeceit, w http.ResponseWriter, honest *httptest.ResponseRecorder, _, _ int64) {
				if n.Add(1) > 1 {
					w.Header().Set("Etag", `"another"`)
				}
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(honest.Body.Bytes())
			})(d)
		}},
	}
}

func answerLiars() []BlockLiar {
	const recorded = "are not those that the ledger recorded"
	return []BlockLiar{
		{Name: "another size", Proven: "data of", tell: described(func(_ *BlockDeceit, m map[string]any) { m["original_size"] = 9*liarBlock + 99 })},
		{Name: "another size, which fits the data", Proven: recorded, tell: answered(func(_ *BlockDeceit, r map[string]any) {
			r["format"].(map[string]any)["original_size"] = 9*liarBlock + 99
			r["data_size"] = 9*whole + 99 + format.Overhead
		})},
		{Name: "another size of blocks", Proven: recorded, tell: answered(func(_ *BlockDeceit, r map[string]any) {
			r["format"].(map[string]any)["block_size"] = 2 * liarBlock
			r["data_size"] = format.Layout{Size: 9*liarBlock + 100, BlockBytes: 2 * liarBlock}.SealedBytes()
		})},
		{Name: "blocks of a size that no file has", Proven: "power of two", tell: described(func(_ *BlockDeceit, m map[string]any) { m["block_size"] = 100_000 })},
		{Name: "a size beyond all files", Proven: "want", tell: described(func(_ *BlockDeceit, m map[string]any) { m["original_size"] = json.Number("9007199254740993") })},
		{Name: "a huge size", Proven: recorded, tell: answered(func(_ *BlockDeceit, r map[string]any) {
			r["format"].(map[string]any)["original_size"] = int64(1<<53 - 1)
			r["data_size"] = format.Layout{Size: 1<<53 - 1, BlockBytes: liarBlock}.SealedBytes()
		})},
		{Name: "another length of the data", Proven: "data of", tell: answered(func(_ *BlockDeceit, r map[string]any) { r["data_size"] = 7 })},
		{Name: "another root", Proven: recorded, tell: described(func(d *BlockDeceit, m map[string]any) { m["root"] = hex.EncodeToString(d.before.meta.Root[:]) })},
		{Name: "another key", Proven: "the key is not the one", tell: answered(func(_ *BlockDeceit, r map[string]any) { r["key"] = encode64(bytes.Repeat([]byte{9}, format.KeyBytes)) })},
		{Name: "another key, and its check", Proven: recorded, tell: answered(func(_ *BlockDeceit, r map[string]any) {
			raw := bytes.Repeat([]byte{9}, format.KeyBytes)
			key, err := format.NewKey(raw)
			if err != nil {
				panic(err)
			}
			check, err := format.KeyCheck(key)
			if err != nil {
				panic(err)
			}
			r["key"], r["format"].(map[string]any)["key_check"] = encode64(raw), hex.EncodeToString(check[:])
		})},
		{Name: "a key of zeros", Proven: "all zero", tell: answered(func(_ *BlockDeceit, r map[string]any) { r["key"] = encode64(make([]byte, format.KeyBytes)) })},
		{Name: "another manifest", Proven: recorded, tell: answered(func(d *BlockDeceit, r map[string]any) { r["manifest"] = encode64(d.before.manifest) })},
		{Name: "keys of parts swapped", Proven: recorded, tell: answered(func(d *BlockDeceit, r map[string]any) {
			runs, err := format.ParseManifest(d.sealed.manifest, 10)
			if err != nil {
				panic(err)
			}
			runs[0].Key, runs[1].Key = runs[1].Key, runs[0].Key
			r["manifest"] = encode64(runs.Encode())
		})},
		{Name: "a manifest that is not base64", Proven: "not base64", tell: answered(func(_ *BlockDeceit, r map[string]any) { r["manifest"] = "…" })},
		{Name: "no manifest", Proven: "no manifest", tell: answered(func(_ *BlockDeceit, r map[string]any) { delete(r, "manifest") })},
		{Name: "a manifest elsewhere", Proven: "not a path on the service", tell: answered(func(_ *BlockDeceit, r map[string]any) {
			delete(r, "manifest")
			r["manifest_url"] = "https://elsewhere.example/manifest"
		})},
		{Name: "a manifest without an end", Proven: "too large", tell: func(d *BlockDeceit) {
			answered(func(_ *BlockDeceit, r map[string]any) {
				delete(r, "manifest")
				r["manifest_url"] = wire.PathManifest + "ticket"
			})(d)
			d.Disturb(wire.PathManifest+"*", func(http.Handler) http.Handler { return http.HandlerFunc(noEnd) })
		}},
		{Name: "a manifest of a terabyte is announced", Proven: "too large", tell: func(d *BlockDeceit) {
			answered(func(_ *BlockDeceit, r map[string]any) {
				delete(r, "manifest")
				r["manifest_url"] = wire.PathManifest + "ticket"
			})(d)
			d.Disturb(wire.PathManifest+"*", func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "1099511627776") })
			})
		}},
		{Name: "data elsewhere", Proven: "not a path on the service", tell: answered(func(_ *BlockDeceit, r map[string]any) { r["data_url"] = "//elsewhere.example/x" })},
		{Name: "no tiles", Proven: "an address is missing", tell: answered(func(_ *BlockDeceit, r map[string]any) { delete(r, "tiles_url") })},
		{Name: "a file that was sealed whole", Proven: "format version 1 of a file that the ledger recorded as version 2", tell: answered(func(d *BlockDeceit, r map[string]any) {
			blob, err := format.SealBlob(d.key, d.Content)
			if err != nil {
				panic(err)
			}
			clear(r)
			r["key"], r["encrypted_b64"], r["format"] = d.key.Base64(), encode64(blob[:100]), format.NewMetadata(int64(len(d.Content)), "", "")
		})},
		{Name: "a file without a format", Proven: "format version 0 of a file that the ledger recorded as version 2", tell: answered(func(_ *BlockDeceit, r map[string]any) { r["format"] = nil })},
		{Name: "all of an earlier version", Proven: recorded, tell: answered(func(d *BlockDeceit, r map[string]any) {
			var earlier map[string]any
			d.call(d.Alice, wire.OpPrepareRetrieve, wire.PrepareRetrieveRequest{GroupID: string(d.Group), IPFSHash: string(d.beforeRef), Formats: []int{format.Version, format.VersionBlocks}}, &earlier)
			earlier["ipfs_hash"], earlier["location"] = r["ipfs_hash"], r["location"]
			clear(r)
			maps.Copy(r, earlier)
		})},
	}
}

// noEnd sends bytes until the client leaves.
func noEnd(w http.ResponseWriter, _ *http.Request) {
	for err := error(nil); err == nil; {
		_, err = w.Write(make([]byte, 64<<10))
	}
}

// tileBlocks is a file with a whole group of leaves, and a second.
const tileBlocks = 256 + 1

func tileLiars() []BlockLiar {
	const unproven = "do not prove the root"
	// inline changes tiles that came with the answer, by path.
	inline := func(change func(d *BlockDeceit, t tlog.Tile, data []byte) []byte) func(*BlockDeceit) {
		return answered(func(d *BlockDeceit, r map[string]any) {
			tiles := r["tiles"].(map[string]any)
			for _, t := range d.sealed.tiles {
				data, _ := d.sealed.tile(t)
				tiles[t.Path()] = encode64(change(d, t, bytes.Clone(data)))
			}
		})
	}
	none := answered(func(_ *BlockDeceit, r map[string]any) { delete(r, "tiles") })
	// fetched answers requests for tiles, of which the first answer has none.
	fetched := func(answer func(d *BlockDeceit, t tlog.Tile, data []byte) []byte) func(*BlockDeceit) {
		return func(d *BlockDeceit) {
			none(d)
			d.Disturb(wire.PathTiles+"*", func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, path, _ := strings.Cut(r.URL.Path, "/tile/")
					t, err := tlog.ParseTilePath("tile/" + path)
					if err != nil {
						panic(err)
					}
					data, _ := d.sealed.tile(t)
					_, _ = w.Write(answer(d, t, bytes.Clone(data)))
				})
			})
		}
	}
	flip := func(_ *BlockDeceit, t tlog.Tile, data []byte) []byte {
		if t.L == 0 {
			data[5*tlog.HashSize] ^= 1
		}
		return data
	}
	return []BlockLiar{
		{Name: "a leaf changed", Proven: unproven, tell: inline(flip)},
		{Name: "a leaf changed, in a tile that is asked for", Proven: unproven, tell: fetched(flip)},
		{Name: "tiles of a smaller tree", Proven: unproven, tell: inline(func(_ *BlockDeceit, _ tlog.Tile, data []byte) []byte {
			return append(data[:len(data)-tlog.HashSize], data[:tlog.HashSize]...)
		})},
		{Name: "tiles of another file", Proven: unproven, tell: inline(func(d *BlockDeceit, t tlog.Tile, _ []byte) []byte {
			data, _ := d.before.tile(t)
			return data
		})},
		{Name: "tiles of another file from the second request on", Proven: unproven, tell: fetched(func(d *BlockDeceit, t tlog.Tile, _ []byte) []byte {
			data, _ := d.before.tile(t)
			return data
		})},
		{Name: "leaves in another order, with their blocks", Proven: unproven, tell: func(d *BlockDeceit) {
			swap := func(i int64) int64 {
				if i == 1 || i == 2 {
					return 3 - i
				}
				return i
			}
			inline(func(_ *BlockDeceit, _ tlog.Tile, data []byte) []byte {
				return slices.Concat(data[:tlog.HashSize], data[2*tlog.HashSize:3*tlog.HashSize], data[tlog.HashSize:2*tlog.HashSize], data[3*tlog.HashSize:])
			})(d)
			replaced(func(d *BlockDeceit, i int64) []byte { return d.sealed.blocks[swap(i)] })(d)
		}},
		{Name: "leaves taken for nodes", Proven: unproven, Blocks: tileBlocks, tell: inline(func(d *BlockDeceit, t tlog.Tile, data []byte) []byte {
			if t.L == 1 {
				leaves, _ := d.sealed.tile(tlog.Tile{H: tileHeight, W: t.W})
				return leaves
			}
			return data
		})},
		{Name: "nodes taken for leaves", Proven: unproven, Blocks: tileBlocks, tell: fetched(func(d *BlockDeceit, t tlog.Tile, data []byte) []byte {
			if t.L == 0 {
				nodes, _ := d.sealed.tile(tlog.Tile{H: tileHeight, L: 1, W: 1})
				copy(data, nodes)
			}
			return data
		})},
		{Name: "a tile that is too short", Proven: "has 32 bytes", tell: inline(func(_ *BlockDeceit, _ tlog.Tile, data []byte) []byte { return data[:tlog.HashSize] })},
		{Name: "a tile that is not base64", Proven: "not base64", tell: answered(func(_ *BlockDeceit, r map[string]any) {
			for path := range r["tiles"].(map[string]any) {
				r["tiles"].(map[string]any)[path] = "…"
			}
		})},
		{Name: "an empty tile", Proven: "has 0 bytes", tell: fetched(func(*BlockDeceit, tlog.Tile, []byte) []byte { return nil })},
		{Name: "a tile without an end", Proven: "too large", tell: func(d *BlockDeceit) {
			none(d)
			d.Disturb(wire.PathTiles+"*", func(http.Handler) http.Handler { return http.HandlerFunc(noEnd) })
		}},
	}
}

// uploadLiars are uploaders: what they recorded fits together, but no content does.
func uploadLiars() []BlockLiar {
	reroot := func(f *sealedFile) {
		f.finish()
		f.meta.Root = f.hashes.root(len(f.blocks))
	}
	runs := func(f *sealedFile) format.Manifest {
		m, err := format.ParseManifest(f.manifest, int64(len(f.blocks)))
		if err != nil {
			panic(err)
		}
		return m
	}
	return []BlockLiar{
		{Name: "blocks sealed for other places", Proven: "does not open with its key", Uploader: true, make: func(_ *BlockDeceit, f *sealedFile) {
			f.blocks[1], f.blocks[2] = f.blocks[2], f.blocks[1]
			reroot(f)
		}},
		{Name: "a block of an earlier version, which has another key", Proven: "does not open with its key", Uploader: true, make: func(d *BlockDeceit, f *sealedFile) {
			f.blocks[6] = d.before.blocks[6]
			reroot(f)
		}},
		{Name: "a key that is not wrapped", Proven: "the key of blocks 4 to 7 cannot be unwrapped", Uploader: true, make: func(_ *BlockDeceit, f *sealedFile) {
			m := runs(f)
			m[1].Key[20] ^= 1
			f.manifest = m.Encode()
		}},
		{Name: "a manifest with a gap", Proven: "does not follow", Uploader: true, make: func(_ *BlockDeceit, f *sealedFile) {
			m := runs(f)
			m[1].First++
			f.manifest = m.Encode()
		}},
		{Name: "a manifest that ends early", Proven: "the file has 10", Uploader: true, make: func(_ *BlockDeceit, f *sealedFile) {
			m := runs(f)
			f.manifest = m[:len(m)-1].Encode()
		}},
	}
}
