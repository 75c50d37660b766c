package testkit

import (
	"bytes"
	"context"
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

// liarBlock is the plaintext of a block, in bytes.
const liarBlock = format.MinBlockBytes

// addVersions makes a file of format version 2 in two versions of the same size, the last block short.
func (w *World) addVersions(tb testing.TB, g sdk.Group, large bool) {
	tb.Helper()
	blocks := 10
	if large {
		blocks = tileBlocks
	}
	w.Content = pattern((blocks-1)*int(liarBlock) + 100)
	older := slices.Clone(w.Content)
	slices.Reverse(older)
	w.before, _, w.beforeRef = w.addBlocks(w.Alice, g.ID, "film", older, liarBlock)
	w.sealed, w.key, w.Entry.Ref = w.addBlocks(w.Alice, g.ID, "film", w.Content, liarBlock)
	w.list(tb.Context(), g)
}

// list takes the entry of the file from the service's list.
func (w *World) list(ctx context.Context, g sdk.Group) {
	w.tb.Helper()
	entries, err := g.Entries(ctx)
	w.must(err)
	for _, e := range entries {
		if e.Ref == w.Entry.Ref {
			w.Entry = e
		}
	}
}

// pattern is content in which no two blocks are the same.
func pattern(size int) []byte {
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i*7 + i>>8 + size)
	}
	return content
}

// described changes the format object of the answer.
func described(change func(d *World, meta map[string]any)) Mutation {
	return changed(func(d *World, result map[string]any) { change(d, result["format"].(map[string]any)) })
}

// ranged sends other bytes than the honest ones, in an honest form.
func ranged(change func(d *World, honest []byte, from int64) []byte) Mutation {
	return sent(func(d *World, w http.ResponseWriter, honest *httptest.ResponseRecorder, from, _ int64) {
		raw := change(d, honest.Body.Bytes(), from)
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(raw)
	})
}

// sent answers requests for blocks. The header of the honest answer is set, but for its length; to is
// the byte after the last.
func sent(answer func(d *World, w http.ResponseWriter, honest *httptest.ResponseRecorder, from, to int64)) Mutation {
	return func(d *World, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			honest := record(next, r)
			var from, to int64
			_, _ = fmt.Sscanf(honest.Header().Get("Content-Range"), "bytes %d-%d/", &from, &to)
			maps.Copy(w.Header(), honest.Header())
			w.Header().Del("Content-Length")
			answer(d, w, honest, from, to+1)
		})
	}
}

// whole is a sealed block, in bytes.
const whole = liarBlock + format.Overhead

// replaced puts other sealed blocks in the place of some.
func replaced(with func(d *World, block int64) []byte) Mutation {
	return ranged(func(d *World, honest []byte, from int64) []byte {
		raw := bytes.Clone(honest)
		for at := int64(0); at < int64(len(raw)); at += whole {
			copy(raw[at:], with(d, (from+at)/whole))
		}
		return raw
	})
}

func dataLies() []Lie {
	const other, short, long = "is not the one that the ledger recorded", "data of", "more data than asked for"
	cut := func(keep func(d *World, honest int64) int64) Mutation {
		return ranged(func(d *World, honest []byte, _ int64) []byte { return honest[:keep(d, int64(len(honest)))] })
	}
	return like(Lie{On: OnBlocks, Threat: 50, Path: wire.PathBlocks + "*", Want: sdk.ErrCorrupt},
		Lie{Name: "one bit of a block flipped", Proven: "block 3 " + other,
			Mutate: replaced(func(d *World, i int64) []byte {
				sealed := bytes.Clone(d.sealed.blocks[i])
				if i == 3 {
					sealed[1000] ^= 1
				}
				return sealed
			})},
		Lie{Name: "one bit of a tag flipped", Proven: "block 9 " + other,
			Mutate: replaced(func(d *World, i int64) []byte {
				sealed := bytes.Clone(d.sealed.blocks[i])
				if i == 9 {
					sealed[len(sealed)-1] ^= 0x80
				}
				return sealed
			})},
		Lie{Name: "two blocks of a part swapped", Proven: other, Mutate: replaced(func(d *World, i int64) []byte {
			if i == 1 || i == 2 {
				i = 3 - i
			}
			return d.sealed.blocks[i]
		})},
		Lie{Name: "a block at another index", Proven: "block 5 " + other,
			Mutate: replaced(func(d *World, i int64) []byte {
				if i == 5 {
					i = 4
				}
				return d.sealed.blocks[i]
			})},
		Lie{Name: "a block of an earlier version", Proven: "block 7 " + other,
			Mutate: replaced(func(d *World, i int64) []byte {
				if i == 7 {
					return d.before.blocks[i]
				}
				return d.sealed.blocks[i]
			})},
		Lie{Name: "all blocks of another file", Proven: other,
			Mutate: replaced(func(d *World, i int64) []byte { return d.before.blocks[i] })},
		Lie{Name: "a block that its key opens, with other content", Proven: "block 2 " + other,
			Mutate: replaced(func(d *World, i int64) []byte {
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
		Lie{Name: "cut after a block", Proven: short,
			Mutate: cut(func(_ *World, n int64) int64 { return min(n, whole) })},
		Lie{Name: "cut after a part", Proven: short,
			Mutate: cut(func(_ *World, n int64) int64 { return min(n, 4*whole) })},
		Lie{Name: "cut before the end of the file", Proven: short,
			Mutate: cut(func(_ *World, n int64) int64 { return n - 1 })},
		Lie{Name: "cut, and no length is told", Proven: "less data than announced",
			Mutate: sent(func(_ *World, w http.ResponseWriter, honest *httptest.ResponseRecorder, _, _ int64) {
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(honest.Body.Bytes()[:honest.Body.Len()-1])
				_ = http.NewResponseController(w).Flush()
			})},
		Lie{Name: "bytes appended", Proven: short,
			Mutate: ranged(func(_ *World, honest []byte, _ int64) []byte { return append(bytes.Clone(honest), 0) })},
		Lie{Name: "bytes appended, and no length is told", Proven: long,
			Mutate: sent(func(_ *World, w http.ResponseWriter, honest *httptest.ResponseRecorder, _, _ int64) {
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(append(honest.Body.Bytes(), 0))
				_ = http.NewResponseController(w).Flush()
			})},
		Lie{Name: "a body without an end", Proven: long,
			Mutate: sent(func(_ *World, w http.ResponseWriter, honest *httptest.ResponseRecorder, _, _ int64) {
				w.WriteHeader(http.StatusPartialContent)
				for _, err := w.Write(honest.Body.Bytes()); err == nil; {
					_, err = w.Write(make([]byte, 1<<20))
				}
			})},
		Lie{Name: "another range", Proven: "was asked for",
			Mutate: sent(func(_ *World, w http.ResponseWriter, honest *httptest.ResponseRecorder, from, to int64) {
				w.Header().Set("Content-Range",
					fmt.Sprintf("bytes %d-%d/%d", from+whole, to+whole-1, 9*whole+100+format.Overhead))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(honest.Body.Bytes())
			})},
		Lie{Name: "the range of a file of another size", Proven: "was asked for",
			Mutate: sent(func(_ *World, w http.ResponseWriter, honest *httptest.ResponseRecorder, from, to int64) {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, 1<<40))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(honest.Body.Bytes())
			})},
		Lie{Name: "another range under the name of the one asked for", Proven: other,
			Mutate: ranged(func(d *World, honest []byte, from int64) []byte {
				var all []byte
				for _, b := range d.sealed.blocks {
					all = append(all, b...)
				}
				return append(all, all...)[from+whole:][:len(honest)]
			})},
		Lie{Name: "the whole file instead of a range", Proven: "status 200",
			Mutate: sent(func(d *World, w http.ResponseWriter, _ *httptest.ResponseRecorder, _, _ int64) {
				w.Header().Del("Content-Range")
				for _, b := range d.sealed.blocks {
					_, _ = w.Write(b)
				}
			})},
		Lie{Name: "another file from the second request on", Proven: "changed while the file was open",
			Mutate: anotherLater()},
	)
}

// anotherLater names another file from the second answer on.
func anotherLater() Mutation {
	var n atomic.Int64
	return sent(func(_ *World, w http.ResponseWriter, honest *httptest.ResponseRecorder, _, _ int64) {
		if n.Add(1) > 1 {
			w.Header().Set("Etag", `"another"`)
		}
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(honest.Body.Bytes())
	})
}

func answerLies() []Lie {
	const recorded = "are not those that the ledger recorded"
	return like(Lie{On: OnBlocks, Threat: 50, Path: retrievePath, Want: sdk.ErrCorrupt},
		Lie{Name: "another size", Proven: "data of",
			Mutate: described(func(_ *World, m map[string]any) { m["original_size"] = 9*liarBlock + 99 })},
		Lie{Name: "another size, which fits the data", Proven: recorded,
			Mutate: changed(func(_ *World, r map[string]any) {
				r["format"].(map[string]any)["original_size"] = 9*liarBlock + 99
				r["data_size"] = 9*whole + 99 + format.Overhead
			})},
		Lie{Name: "another size of blocks", Proven: recorded, Mutate: changed(func(_ *World, r map[string]any) {
			r["format"].(map[string]any)["block_size"] = 2 * liarBlock
			r["data_size"] = format.Layout{Size: 9*liarBlock + 100, BlockBytes: 2 * liarBlock}.SealedBytes()
		})},
		Lie{Name: "blocks of a size that no file has", Proven: "power of two",
			Mutate: described(func(_ *World, m map[string]any) { m["block_size"] = 100_000 })},
		Lie{Name: "a size beyond all files", Proven: "want",
			Mutate: described(func(_ *World, m map[string]any) {
				m["original_size"] = json.Number("9007199254740993")
			})},
		Lie{Name: "a huge size", Proven: recorded, Mutate: changed(func(_ *World, r map[string]any) {
			r["format"].(map[string]any)["original_size"] = int64(1<<53 - 1)
			r["data_size"] = format.Layout{Size: 1<<53 - 1, BlockBytes: liarBlock}.SealedBytes()
		})},
		Lie{Name: "another length of the data", Proven: "data of",
			Mutate: changed(func(_ *World, r map[string]any) { r["data_size"] = 7 })},
		Lie{Name: "another root", Proven: recorded,
			Mutate: described(func(d *World, m map[string]any) {
				m["root"] = hex.EncodeToString(d.before.meta.Root[:])
			})},
		Lie{Name: "another key", Proven: "the key is not the one",
			Mutate: changed(func(_ *World, r map[string]any) {
				r["key"] = encode64(bytes.Repeat([]byte{9}, format.KeyBytes))
			})},
		Lie{Name: "another key, and its check", Proven: recorded, Mutate: changed(func(_ *World, r map[string]any) {
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
		Lie{Name: "a key of zeros", Proven: "all zero",
			Mutate: changed(func(_ *World, r map[string]any) { r["key"] = encode64(make([]byte, format.KeyBytes)) })},
		Lie{Name: "the key in the clear", Proven: "came sealed", Threat: 79,
			Mutate: changed(func(d *World, r map[string]any) {
				delete(r, "sealed_key")
				r[inClear], r["key"] = true, d.key.Base64()
			})},
		Lie{Name: "a sealed key of nobody", Proven: "came sealed", Threat: 79,
			Mutate: changed(func(_ *World, r map[string]any) {
				r["sealed_key"] = encode64(make([]byte, format.SessionKeyBytes))
			})},
		Lie{Name: "no key at all", Proven: "came sealed", Threat: 79,
			Mutate: changed(func(_ *World, r map[string]any) { delete(r, "sealed_key") })},
		Lie{Name: "another manifest", Proven: recorded,
			Mutate: changed(func(d *World, r map[string]any) { r["manifest"] = encode64(d.before.manifest) })},
		Lie{Name: "keys of parts swapped", Proven: recorded, Mutate: changed(func(d *World, r map[string]any) {
			runs, err := format.ParseManifest(d.sealed.manifest, 10)
			if err != nil {
				panic(err)
			}
			runs[0].Key, runs[1].Key = runs[1].Key, runs[0].Key
			r["manifest"] = encode64(runs.Encode())
		})},
		Lie{Name: "a manifest that is not base64", Proven: "not base64",
			Mutate: changed(func(_ *World, r map[string]any) { r["manifest"] = "…" })},
		Lie{Name: "no manifest", Proven: "no manifest",
			Mutate: changed(func(_ *World, r map[string]any) { delete(r, "manifest") })},
		Lie{Name: "a manifest elsewhere", Proven: "not a path on the service",
			Mutate: changed(func(_ *World, r map[string]any) {
				delete(r, "manifest")
				r["manifest_url"] = "https://elsewhere.example/manifest"
			})},
		Lie{Name: "a manifest without an end", Proven: "too large", tell: manifest(noEnd)},
		Lie{Name: "a manifest of a terabyte is announced", Proven: "too large",
			tell: manifest(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1099511627776")
			})},
		Lie{Name: "data elsewhere", Proven: "not a path on the service",
			Mutate: changed(func(_ *World, r map[string]any) { r["data_url"] = "//elsewhere.example/x" })},
		Lie{Name: "no tiles", Proven: "an address is missing",
			Mutate: changed(func(_ *World, r map[string]any) { delete(r, "tiles_url") })},
		Lie{Name: "a file that was sealed whole", Proven: "format version 1 of a file that the ledger recorded as " +
			"version 2", Mutate: changed(func(d *World, r map[string]any) {
			blob, err := format.SealBlob(d.key, d.Content)
			if err != nil {
				panic(err)
			}
			clear(r)
			r["key"], r["encrypted_b64"], r["format"] = d.key.Base64(), encode64(blob[:100]),
				format.NewMetadata(int64(len(d.Content)), "", "")
		})},
		Lie{Name: "a file without a format", Proven: "format version 0 of a file that the ledger recorded as version 2",
			Mutate: changed(func(_ *World, r map[string]any) { r["format"] = nil })},
		Lie{Name: "all of an earlier version", Proven: recorded, Mutate: changed(func(d *World, r map[string]any) {
			var earlier map[string]any
			d.call(d.Alice, wire.OpPrepareRetrieve, wire.PrepareRetrieveRequest{GroupID: string(d.Group),
				IPFSHash: string(d.beforeRef), Formats: []int{format.Version, format.VersionBlocks}}, &earlier)
			earlier["ipfs_hash"], earlier["location"] = r["ipfs_hash"], r["location"]
			clear(r)
			maps.Copy(r, earlier)
		})},
	)
}

// manifest tells of a manifest that does not come with the answer, and sends it.
func manifest(send http.HandlerFunc) func(*World) {
	return func(d *World) {
		d.at(retrievePath, changed(func(_ *World, r map[string]any) {
			delete(r, "manifest")
			r["manifest_url"] = wire.PathManifest + "ticket"
		}))
		d.at(wire.PathManifest+"*", answers(send))
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

func tileLies() []Lie {
	const unproven = "do not prove the root"
	// inline changes tiles that came with the answer, by path.
	inline := func(change func(d *World, t tlog.Tile, data []byte) []byte) Mutation {
		return changed(func(d *World, r map[string]any) {
			tiles := r["tiles"].(map[string]any)
			for _, t := range d.sealed.tiles {
				data, _ := d.sealed.tile(t)
				tiles[t.Path()] = encode64(change(d, t, bytes.Clone(data)))
			}
		})
	}
	// sent answers requests for tiles, of which the first answer has none.
	sent := func(answer http.HandlerFunc) func(*World) {
		return func(d *World) {
			d.at(retrievePath, changed(func(_ *World, r map[string]any) { delete(r, "tiles") }))
			d.at(wire.PathTiles+"*", answers(answer))
		}
	}
	fetched := func(answer func(d *World, t tlog.Tile, data []byte) []byte) func(*World) {
		return func(d *World) {
			sent(func(w http.ResponseWriter, r *http.Request) {
				_, path, _ := strings.Cut(r.URL.Path, "/tile/")
				t, err := tlog.ParseTilePath("tile/" + path)
				if err != nil {
					panic(err)
				}
				data, _ := d.sealed.tile(t)
				_, _ = w.Write(answer(d, t, bytes.Clone(data)))
			})(d)
		}
	}
	flip := func(_ *World, t tlog.Tile, data []byte) []byte {
		if t.L == 0 {
			data[5*tlog.HashSize] ^= 1
		}
		return data
	}
	return like(Lie{On: OnBlocks, Threat: 50, Path: retrievePath, Want: sdk.ErrCorrupt},
		Lie{Name: "a leaf changed", Proven: unproven, Mutate: inline(flip)},
		Lie{Name: "a leaf changed, in a tile that is asked for", Proven: unproven, tell: fetched(flip)},
		Lie{Name: "tiles of a smaller tree", Proven: unproven,
			Mutate: inline(func(_ *World, _ tlog.Tile, data []byte) []byte {
				return append(data[:len(data)-tlog.HashSize], data[:tlog.HashSize]...)
			})},
		Lie{Name: "tiles of another file", Proven: unproven,
			Mutate: inline(func(d *World, t tlog.Tile, _ []byte) []byte {
				data, _ := d.before.tile(t)
				return data
			})},
		Lie{Name: "tiles of another file from the second request on", Proven: unproven,
			tell: fetched(func(d *World, t tlog.Tile, _ []byte) []byte {
				data, _ := d.before.tile(t)
				return data
			})},
		Lie{Name: "leaves in another order, with their blocks", Proven: unproven, tell: func(d *World) {
			swap := func(i int64) int64 {
				if i == 1 || i == 2 {
					return 3 - i
				}
				return i
			}
			d.at(retrievePath, inline(func(_ *World, _ tlog.Tile, data []byte) []byte {
				return slices.Concat(data[:tlog.HashSize], data[2*tlog.HashSize:3*tlog.HashSize],
					data[tlog.HashSize:2*tlog.HashSize], data[3*tlog.HashSize:])
			}))
			d.at(wire.PathBlocks+"*", replaced(func(d *World, i int64) []byte { return d.sealed.blocks[swap(i)] }))
		}},
		Lie{Name: "leaves taken for nodes", Proven: unproven, Large: true,
			Mutate: inline(func(d *World, t tlog.Tile, data []byte) []byte {
				if t.L == 1 {
					leaves, _ := d.sealed.tile(tlog.Tile{H: tileHeight, W: t.W})
					return leaves
				}
				return data
			})},
		Lie{Name: "nodes taken for leaves", Proven: unproven, Large: true,
			tell: fetched(func(d *World, t tlog.Tile, data []byte) []byte {
				if t.L == 0 {
					nodes, _ := d.sealed.tile(tlog.Tile{H: tileHeight, L: 1, W: 1})
					copy(data, nodes)
				}
				return data
			})},
		Lie{Name: "a tile that is too short", Proven: "has 32 bytes",
			Mutate: inline(func(_ *World, _ tlog.Tile, data []byte) []byte { return data[:tlog.HashSize] })},
		Lie{Name: "a tile that is not base64", Proven: "not base64", Mutate: changed(func(_ *World, r map[string]any) {
			for path := range r["tiles"].(map[string]any) {
				r["tiles"].(map[string]any)[path] = "…"
			}
		})},
		Lie{Name: "an empty tile", Proven: "has 0 bytes",
			tell: fetched(func(*World, tlog.Tile, []byte) []byte { return nil })},
		Lie{Name: "a tile without an end", Proven: "too large", tell: sent(noEnd)},
	)
}

// uploaderLies are of uploaders: what they recorded fits together, but no content does.
func uploaderLies() []Lie {
	recorded := func(change func(d *World, f *sealedFile)) func(*World) {
		return func(d *World) {
			f := *d.sealed
			f.blocks = slices.Clone(f.blocks)
			change(d, &f)
			d.honest = d.Log()
			d.paths = append(d.paths, d.forge(d.Entry.Ref, &f)...)
			d.list(d.tb.Context(), d.Client(d.tb, d.Alice).Group(d.Group))
		}
	}
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
	return like(Lie{On: OnBlocks, Threat: 50, Want: sdk.ErrCorrupt, Uploader: true},
		Lie{Name: "blocks sealed for other places", Proven: "does not open with its key",
			tell: recorded(func(_ *World, f *sealedFile) {
				f.blocks[1], f.blocks[2] = f.blocks[2], f.blocks[1]
				reroot(f)
			})},
		Lie{Name: "a block of an earlier version, which has another key", Proven: "does not open with its key",
			tell: recorded(func(d *World, f *sealedFile) {
				f.blocks[6] = d.before.blocks[6]
				reroot(f)
			})},
		Lie{Name: "a key that is not wrapped", Proven: "the key of blocks 4 to 7 cannot be unwrapped",
			tell: recorded(func(_ *World, f *sealedFile) {
				m := runs(f)
				m[1].Key[20] ^= 1
				f.manifest = m.Encode()
			})},
		Lie{Name: "a manifest with a gap", Proven: "does not follow", tell: recorded(func(_ *World, f *sealedFile) {
			m := runs(f)
			m[1].First++
			f.manifest = m.Encode()
		})},
		Lie{Name: "a manifest that ends early", Proven: "the file has 10",
			tell: recorded(func(_ *World, f *sealedFile) {
				m := runs(f)
				f.manifest = m[:len(m)-1].Encode()
			})},
	)
}
