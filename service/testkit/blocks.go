package testkit

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
)

// sealedFile is a file of format version 2 as a service keeps it.
type sealedFile struct {
	meta     format.Metadata
	manifest []byte
	blocks   [][]byte    // sealed
	hashes   storedTree  // over blocks
	tiles    []tlog.Tile // that prove the first and the last block
}

// storedTree reads the hashes of a tree.
type storedTree []tlog.Hash

// ReadHashes reads hashes of the tree.
func (t storedTree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x >= int64(len(t)) {
			return nil, fmt.Errorf("hash %d of %d", x, len(t))
		}
		out[i] = t[x]
	}
	return out, nil
}

// treeOver returns the tree over sealed blocks.
func treeOver(blocks [][]byte) (t storedTree) {
	for i, sealed := range blocks {
		hashes, err := tlog.StoredHashesForRecordHash(int64(i), format.Leaf(sealed), t)
		if err != nil {
			panic(err)
		}
		t = append(t, hashes...)
	}
	return t
}

func (t storedTree) root(blocks int) format.Hash {
	root, err := tlog.TreeHash(int64(blocks), t)
	if err != nil {
		panic(err)
	}
	return root
}

const tileHeight = 8

// tile returns the data of a tile, if a tree of so many leaves has it.
func (f *sealedFile) tile(t tlog.Tile) ([]byte, bool) {
	if t.H != tileHeight || t.L < 0 || t.L > 6 ||
		(t.N<<tileHeight+int64(t.W))<<(tileHeight*t.L) > int64(len(f.blocks)) {
		return nil, false
	}
	data, err := tlog.ReadTileData(t, f.hashes)
	return data, err == nil
}

// finish computes what a service answers with.
func (f *sealedFile) finish() *sealedFile {
	f.hashes = treeOver(f.blocks)
	n := int64(len(f.blocks))
	indexes := []int64{tlog.StoredHashIndex(0, 0), tlog.StoredHashIndex(0, n-1)}
	if _, err := tlog.TileHashReader(tlog.Tree{N: n, Hash: f.hashes.root(len(f.blocks))},
		tileNotes{f}).ReadHashes(indexes); err != nil {
		panic(err)
	}
	return f
}

// tileNotes reads tiles of a file and notes which.
type tileNotes struct{ f *sealedFile }

func (r tileNotes) Height() int { return tileHeight }

func (r tileNotes) ReadTiles(tiles []tlog.Tile) (data [][]byte, err error) {
	for _, t := range tiles {
		raw, ok := r.f.tile(t)
		if !ok {
			return nil, fmt.Errorf("no %s", t.Path())
		}
		data = append(data, raw)
	}
	r.f.tiles = tiles
	return data, nil
}

func (r tileNotes) SaveTiles([]tlog.Tile, [][]byte) {}

// sealRun gives a run a key of its own, and returns its cipher.
func sealRun(key *format.Key, run *format.Run) *format.BlockCipher {
	part, err := format.RandomKey()
	if err != nil {
		panic(err)
	}
	if run.Key, err = format.WrapKey(key, part); err != nil {
		panic(err)
	}
	c, err := format.NewBlockCipher(part)
	if err != nil {
		panic(err)
	}
	return c
}

// AddBlocks records content as a file of format version 2, in parts of four blocks, as another client
// of the account would: no request is counted. blockBytes is the plaintext of a block.
func (s *Server) AddBlocks(a Account, g sdk.GroupID, name string, content []byte, blockBytes int64) sdk.Ref {
	s.tb.Helper()
	_, _, ref := s.addBlocks(a, g, name, content, blockBytes)
	return ref
}

func (s *Server) addBlocks(a Account, g sdk.GroupID, name string, content []byte, blockBytes int64) (*sealedFile,
	*format.Key, sdk.Ref) {
	s.tb.Helper()
	const partBlocks = 4
	// costs the account nothing
	_, err := s.Service.Fund(context.Background(), string(a.ID), s.cfg.Fees[ledger.ActionUpload])
	s.must(err)
	key, err := format.RandomKey()
	s.must(err)
	upload := randomHex(wire.UploadIDBytes)
	l := format.Layout{Size: int64(len(content)), BlockBytes: blockBytes}
	f := &sealedFile{}
	var runs format.Manifest
	for first := int64(0); first < l.Blocks(); first += partBlocks {
		run := format.Run{First: first, Count: min(partBlocks, l.Blocks()-first)}
		part := sealRun(key, &run)
		for i := first; i < first+run.Count; i++ {
			sealed, err := part.Seal(nil, i, content[i*blockBytes:i*blockBytes+l.Plain(i)])
			s.must(err)
			f.blocks = append(f.blocks, sealed)
		}
		_, _ = rand.Read(run.Part[:]) // never fails
		query := url.Values{"group_id": {string(g)}, "block_size": {strconv.FormatInt(blockBytes, 10)},
			"blocks": {format.Extents{{First: first, Count: run.Count}}.String()}}
		s.send(a, httptest.NewRequest(http.MethodPut, wire.PathParts+upload+"/"+run.Part.String()+"?"+query.Encode(),
			bytes.NewReader(bytes.Join(f.blocks[first:], nil))), new(wire.Part))
		runs = append(runs, run)
	}
	f.manifest = runs.Encode()
	f.finish()
	check, err := format.KeyCheck(key)
	s.must(err)
	f.meta = format.NewBlocksMetadata(l, f.hashes.root(len(f.blocks)), check, "", name)
	f.meta.Filename = name
	meta, err := json.Marshal(f.meta)
	s.must(err)
	head := &wire.SealedHead{ID: upload, GroupID: string(g), FileHash: sdk.ComputeHash(content).String(),
		Salt: randomHex(chain.SaltBytes), Format: meta,
		BlobSize: int64(len(f.manifest)), BlobHash: sdk.ComputeHash(f.manifest).String()}
	s.must(s.sealHead(a.ID, head, key))
	frame, err := wire.AppendFrameHead(nil, head)
	s.must(err)
	var done struct{ Result wire.FinalizeUploadResult }
	s.send(a, httptest.NewRequest(http.MethodPut, wire.PathSealed+upload,
		bytes.NewReader(append(frame, f.manifest...))), &done)
	return f, key, sdk.Ref(done.Result.Location)
}

// randomHex is n random bytes in hex.
func randomHex(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}

// call calls an operation beside every filter.
func (s *Server) call(a Account, op string, req, result any) {
	s.tb.Helper()
	raw, err := json.Marshal(req)
	s.must(err)
	s.send(a, httptest.NewRequest(http.MethodPost, wire.PathTools+op, bytes.NewReader(raw)), &struct {
		Result any `json:"result"`
	}{result})
}

func (s *Server) send(a Account, r *http.Request, answer any) {
	s.tb.Helper()
	s.mu.Lock()
	r.Header.Set(wire.HeaderAPIKey, s.keys[a.ID])
	s.mu.Unlock()
	r.Header.Set(wire.HeaderAccountID, string(a.ID))
	got := record(s.behind, r)
	if got.Code != http.StatusOK {
		s.tb.Fatalf("%s: %d %s", r.URL.Path, got.Code, got.Body)
	}
	s.must(json.Unmarshal(got.Body.Bytes(), answer))
}

// AddHuge records a file of format version 2 that says to have 2^53-1 bytes. The service has one block
// of it.
func (s *Server) AddHuge(a Account, g sdk.GroupID, name string) sdk.Ref {
	s.tb.Helper()
	f, key, ref := s.addBlocks(a, g, name, make([]byte, format.MinBlockBytes), format.MinBlockBytes)
	f.meta.OriginalSize = 1<<53 - 1
	run := format.Run{Count: f.meta.Layout().Blocks()}
	sealRun(key, &run)
	f.manifest = format.Manifest{run}.Encode()
	s.forge(ref, f)
	return ref
}

// forge makes the service tell, in its ledger as well, that its uploader recorded f under a reference. It
// returns where.
func (s *Server) forge(ref sdk.Ref, f *sealedFile) (paths []string) {
	s.tb.Helper()
	sum := f.meta.Content(format.ManifestSum(f.manifest))
	l := s.Log()
	var o chain.Opening
	forged := l.Rewritten(func(r *chain.Record) bool {
		if r.Ref != string(ref) {
			return true
		}
		if known := l.Opening(r); known != (chain.Opening{}) {
			o = known
			o.Size = f.meta.OriginalSize
			r.FileHash = o.Commitment()
		}
		for i := range r.Tags {
			if tag := &r.Tags[i]; tag.Name == chain.TagContent {
				tag.Value = hex.EncodeToString(sum[:])
			}
		}
		return true
	})
	s.Show(forged.Know(o))
	const ticket = "forged"
	s.Disturb(retrievePath, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, ok := parsed(record(next, r).Body.Bytes())
			result, isFile := answer["result"].(map[string]any)
			if !ok || !isFile || result["ipfs_hash"] != string(ref) {
				next.ServeHTTP(w, r)
				return
			}
			for _, name := range []string{"first_blocks", "manifest_url"} {
				delete(result, name)
			}
			result["format"], result["manifest"], result["data_size"] = f.meta, encode64(f.manifest),
				f.meta.Layout().SealedBytes()
			result["data_url"], result["tiles_url"], result["tiles"] = wire.PathBlocks+ticket, wire.PathTiles+ticket,
				f.inlineTiles()
			writeJSON(w, http.StatusOK, map[string]any{"result": result})
		})
	})
	for path, serve := range map[string]http.HandlerFunc{wire.PathBlocks: f.sendRange, wire.PathTiles: f.sendTile} {
		s.Disturb(path+ticket+"*", func(http.Handler) http.Handler { return serve })
		paths = append(paths, path+ticket+"*")
	}
	return append(paths, retrievePath)
}

// inlineTiles are the tiles that come with an answer.
func (f *sealedFile) inlineTiles() map[string]string {
	tiles := map[string]string{}
	for _, t := range f.tiles {
		data, _ := f.tile(t)
		tiles[t.Path()] = encode64(data)
	}
	return tiles
}

func (f *sealedFile) sendTile(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(r.URL.Path, "/tile/")
	if t, err := tlog.ParseTilePath("tile/" + path); err == nil {
		if data, ok := f.tile(t); ok {
			_, _ = w.Write(data)
			return
		}
	}
	http.NotFound(w, r)
}

func (f *sealedFile) sendRange(w http.ResponseWriter, r *http.Request) {
	var from, to int64
	size := f.meta.Layout().SealedBytes()
	_, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
	all := bytes.Join(f.blocks, nil)
	if to = min(to+1, size); err != nil || from >= int64(len(all)) {
		writeJSON(w, http.StatusRequestedRangeNotSatisfiable, wire.Error{Error: "the range", Code: wire.CodeValidation})
		return
	}
	w.Header().Set("Etag", strconv.Quote(hex.EncodeToString(f.meta.Root[:])))
	w.Header().Set("Content-Length", strconv.FormatInt(to-from, 10))
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, size))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write(all[from:min(to, int64(len(all)))]) // the client may be gone
}

func encode64(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }

func decode64(text string) ([]byte, error) { return base64.StdEncoding.Strict().DecodeString(text) }

// body reads the body of a request, and returns the request as it was before.
func body(r *http.Request) ([]byte, *http.Request) {
	raw, _ := io.ReadAll(r.Body) // a client that is gone gets no answer
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return raw, again
}
