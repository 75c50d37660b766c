package sdktest

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// OfferChunks makes an [Ours] service offer files of format version 2. Call it
// before the first client asks.
func (s *Server) OfferChunks() *Server {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.chunks = true
	return s
}

func (s *state) offersChunks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chunks
}

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
	if t.H != tileHeight || t.L < 0 || t.L > 6 || (t.N<<tileHeight+int64(t.W))<<(tileHeight*t.L) > int64(len(f.blocks)) {
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
	if _, err := tlog.TileHashReader(tlog.Tree{N: n, Hash: f.hashes.root(len(f.blocks))}, tileNotes{f}).ReadHashes(indexes); err != nil {
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

// sealBlocks seals content under key as a writer does, in parts of so many blocks.
func sealBlocks(key *format.Key, content []byte, blockBytes, partBlocks int64) *sealedFile {
	l := format.Layout{Size: int64(len(content)), BlockBytes: blockBytes}
	f := &sealedFile{}
	var runs format.Manifest
	for first := int64(0); first < l.Blocks(); first += partBlocks {
		run := format.Run{First: first, Count: min(partBlocks, l.Blocks()-first)}
		_, _ = rand.Read(run.Part[:])
		part := sealRun(key, &run)
		for i := first; i < first+run.Count; i++ {
			sealed, err := part.Seal(nil, i, content[i*blockBytes:i*blockBytes+l.Plain(i)])
			if err != nil {
				panic(err)
			}
			f.blocks = append(f.blocks, sealed)
		}
		runs = append(runs, run)
	}
	f.manifest = runs.Encode()
	f.finish()
	check, err := format.KeyCheck(key)
	if err != nil {
		panic(err)
	}
	f.meta = format.NewBlocksMetadata(l, f.hashes.root(len(f.blocks)), check, "", "")
	return f
}

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

// AddBlocks records content as a file of format version 2, in parts of four blocks, without a
// request. blockBytes is the plaintext of a block.
func (s *Server) AddBlocks(a Account, g sdk.GroupID, name string, content []byte, blockBytes int64) sdk.Ref {
	key, err := format.RandomKey()
	if err != nil {
		panic(err)
	}
	f := sealBlocks(key, content, blockBytes, 4)
	f.meta.Filename = name
	return s.addSealed(a, g, key, f, sdk.ComputeHash(content).String())
}

// AddHuge records a file of format version 2 that says to have 2^53-1 bytes. The service has one
// block of it.
func (s *Server) AddHuge(a Account, g sdk.GroupID, name string) sdk.Ref {
	key, err := format.RandomKey()
	if err != nil {
		panic(err)
	}
	f := sealBlocks(key, make([]byte, format.MinBlockBytes), format.MinBlockBytes, 1)
	f.meta.OriginalSize, f.meta.Filename = 1<<53-1, name
	run := format.Run{Count: f.meta.Layout().Blocks()}
	sealRun(key, &run)
	f.manifest = format.Manifest{run}.Encode()
	return s.addSealed(a, g, key, f, strings.Repeat("ab", sha256.Size))
}

func (s *Server) addSealed(a Account, g sdk.GroupID, key *format.Key, sealed *sealedFile, hash string) sdk.Ref {
	raw, err := json.Marshal(sealed.meta)
	if err != nil {
		panic(err)
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	u := &pending{account: string(a.ID), group: string(g), key: slices.Clone(key.Bytes())}
	f, err := s.state.record(u, wire.FinalizeUploadRequest{FileHash: hash, Format: raw}, nil, sealed)
	if err != nil {
		panic(err)
	}
	return sdk.Ref(f.row.IPFSHash)
}

// part is a part of an upload that is not finished.
type part struct {
	wire.Part
	id     format.PartID
	blocks format.Extents
	sealed [][]byte
}

// offerParts completes the answer to a prepare_upload that asks for format version 2. The
// caller holds the lock.
func (s *state) offerParts(u *pending, req wire.PrepareUploadRequest, out *wire.PrepareUploadResult) error {
	if !s.chunks || !slices.Contains(req.Formats, format.VersionBlocks) || s.groups[req.GroupID].format == format.Version {
		return nil
	}
	u.blockBytes = cmp.Or(req.BlockSize, format.BlockBytes)
	if err := (format.Layout{Size: 1, BlockBytes: u.blockBytes}).Check(); err != nil {
		return refuse(http.StatusBadRequest, wire.CodeValidation, "block_size must be a power of two from %d to %d", format.MinBlockBytes, format.MaxBlockBytes)
	}
	u.parts = map[int64]*part{}
	if base, err := s.base(u, req.Base); err == nil && base != nil && base.sealed.meta.BlockBytes == u.blockBytes {
		u.base, out.Base = req.Base, req.Base
	}
	out.PartsURL, out.PartBytes = wire.PathParts+out.UploadID, wire.PartBytes
	return nil
}

// base returns the file whose blocks an upload may take over, nil for "".
func (s *state) base(u *pending, ref string) (*file, error) {
	if ref == "" {
		return nil, nil
	}
	f, err := s.file(u.account, u.group, ref)
	if err != nil || f.living() != nil || f.sealed == nil || f.row.UserID != u.account || u.name != "" && *f.row.Filename != u.name {
		return nil, refuse(http.StatusConflict, wire.CodeBase, "blocks of the base cannot be taken over: send all blocks")
	}
	return f, nil
}

// resume repeats the answer to the prepare_upload of an unfinished upload.
func (s *state) resume(c call, req wire.PrepareUploadRequest) (any, error) {
	u, err := s.pending(req.Resume, c.account)
	if err != nil || u.parts == nil || u.result != nil {
		return nil, refuse(http.StatusNotFound, wire.CodeUploadUnknown, "Invalid or expired upload_id")
	}
	return wire.PrepareUploadResult{UploadID: req.Resume, Key: encode64(u.key), GroupID: u.group, Filename: u.name,
		PartsURL: wire.PathParts + req.Resume, PartBytes: wire.PartBytes, Base: u.base}, nil
}

// partRequest answers what is asked about the parts of an upload. path is the upload's id, or
// it and the number of a part.
func (s *state) partRequest(c call, path string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, number, isPut := strings.Cut(path, "/")
	u, err := s.pending(id, c.account)
	if err != nil {
		return nil, err
	}
	if u.parts == nil || u.result != nil {
		return nil, refuse(http.StatusNotFound, wire.CodeUploadUnknown, "Invalid or expired upload_id")
	}
	if !isPut {
		out := wire.PartsResult{Parts: []wire.Part{}}
		for _, p := range u.parts {
			out.Parts = append(out.Parts, p.Part)
		}
		slices.SortFunc(out.Parts, func(a, b wire.Part) int { return cmp.Compare(a.Number, b.Number) })
		return out, nil
	}
	if number == wire.ManifestPart {
		if len(c.body) > format.MaxManifestBytes {
			return nil, refuse(http.StatusRequestEntityTooLarge, wire.CodeTooLarge, "the manifest is too large")
		}
		if !c.cut {
			u.manifest = c.body
		}
		return []byte{}, nil
	}
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n < 0 {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "the number of the part")
	}
	return s.putPart(c, u, n)
}

func (s *state) putPart(c call, u *pending, n int64) (any, error) {
	whole := u.blockBytes + format.Overhead
	blocks, err := format.ParseExtents(c.r.URL.Query().Get("blocks"), wire.PartBytes/whole)
	wrapped, badKey := base64.StdEncoding.Strict().DecodeString(c.r.Header.Get(wire.HeaderPartKey))
	if err != nil || badKey != nil || len(wrapped) != format.WrappedKeyBytes {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "blocks, or the key of the part")
	}
	old := u.parts[n]
	if match := c.r.Header.Get("If-Match"); old != nil && match != strconv.Quote(old.ETag) || old == nil && match != "" {
		return nil, refuse(http.StatusPreconditionFailed, wire.CodePartExists, "the part has other content")
	}
	body := c.body
	if c.cut {
		body = body[:int64(len(body))/whole*whole]
	}
	if sum := sha256.Sum256(body); !c.cut && c.r.Header.Get("Repr-Digest") != "" && c.r.Header.Get("Repr-Digest") != "sha-256=:"+encode64(sum[:])+":" {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "the digest of the part")
	}
	p := &part{}
	_, _ = rand.Read(p.id[:])
	var tree format.Tree
	for _, x := range blocks {
		for i := x.First; i < x.First+x.Count && len(body) > 0; i++ {
			sealed := body[:min(whole, int64(len(body)))]
			body = body[len(sealed):]
			p.blocks, p.sealed = p.blocks.Add(i), append(p.sealed, sealed)
			tree.Add(format.Leaf(sealed))
		}
	}
	if len(body) > 0 || !c.cut && p.blocks.Blocks() != blocks.Blocks() || len(p.sealed) > 0 && len(p.sealed[len(p.sealed)-1]) <= format.Overhead {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "the part does not have the blocks that it lists")
	}
	root := tree.Root()
	p.Part = wire.Part{ID: p.id.String(), Number: n, Blocks: p.blocks.String(), ETag: hex.EncodeToString(root[:]), Key: encode64(wrapped)}
	if len(p.sealed) > 0 {
		u.parts[n] = p
	}
	return p.Part, nil
}

// assemble returns the file that a finalize_upload of format version 2 makes. The caller holds
// the lock.
func (s *state) assemble(u *pending, req wire.FinalizeUploadRequest, meta format.Metadata) (*sealedFile, error) {
	invalid := func(what string) (*sealedFile, error) {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "%s", what)
	}
	f := &sealedFile{meta: meta, manifest: u.manifest}
	if req.Manifest != "" {
		raw, err := base64.StdEncoding.Strict().DecodeString(req.Manifest)
		if err != nil {
			return invalid("the manifest is not base64")
		}
		f.manifest = raw
	}
	runs, err := format.ParseManifest(f.manifest, meta.Layout().Blocks())
	if err != nil || meta.BlockBytes != u.blockBytes {
		return invalid("the manifest, or the blocks")
	}
	if u.name == "" {
		u.name = meta.Filename
	}
	var missing format.Extents
	for i := range runs {
		for block := runs[i].First; block < runs[i].First+runs[i].Count; block++ {
			sealed, err := s.blockOf(u, &runs[i], block)
			if err != nil {
				return nil, err
			}
			if sealed == nil {
				missing = missing.Add(block)
			} else if int64(len(sealed)) != meta.Layout().Sealed(block) {
				return invalid("the size of a block")
			}
			f.blocks = append(f.blocks, sealed)
		}
	}
	if len(missing) > 0 {
		return nil, refuse(http.StatusConflict, wire.CodeMissing, "blocks are missing: %s", missing)
	}
	f.finish()
	if f.hashes.root(len(f.blocks)) != meta.Root {
		return invalid("the root is not that of the blocks")
	}
	return f, nil
}

// blockOf finds a block of a run: in a part of the upload, or in the same part of the base.
func (s *state) blockOf(u *pending, run *format.Run, block int64) ([]byte, error) {
	for _, p := range u.parts {
		if p.id == run.Part {
			if at, ok := p.blocks.Index(block); ok {
				return p.sealed[at], nil
			}
			return nil, nil
		}
	}
	base, err := s.base(u, u.base)
	if err != nil || base == nil || block >= int64(len(base.sealed.blocks)) {
		return nil, err
	}
	runs, err := format.ParseManifest(base.sealed.manifest, int64(len(base.sealed.blocks)))
	if err != nil {
		panic(err) // it was recorded
	}
	if runs.Find(block).Part != run.Part {
		return nil, nil
	}
	return base.sealed.blocks[block], nil
}

// retrieveBlocks completes the answer to a prepare_retrieve.
func (s *state) retrieveBlocks(f *file, req wire.PrepareRetrieveRequest, out *wire.PrepareRetrieveResult) {
	ticket := f.row.TransID
	out.DataURL, out.DataSize = wire.PathBlocks+ticket, f.sealed.meta.Layout().SealedBytes()
	out.TilesURL, out.Tiles = wire.PathTiles+ticket, map[string]string{}
	for _, t := range f.sealed.tiles {
		data, _ := f.sealed.tile(t)
		out.Tiles[t.Path()] = encode64(data)
	}
	if len(f.sealed.manifest) <= wire.InlineManifestBytes {
		out.Manifest = encode64(f.sealed.manifest)
	} else {
		out.ManifestURL = wire.PathManifest + ticket
	}
	if req.FirstBlock {
		out.FirstBlock = encode64(f.sealed.blocks[0])
	}
}

// firstBlocks is an answer to a prepare_retrieve with blocks behind it.
type firstBlocks struct {
	wire.PrepareRetrieveResult
	blocks [][]byte
}

// withFirst returns an answer with the blocks behind it that the request asks for, if any.
func withFirst(f *file, req wire.PrepareRetrieveRequest, out wire.PrepareRetrieveResult) any {
	a := firstBlocks{PrepareRetrieveResult: out}
	left := min(req.FirstBytes, wire.MaxFirstBytes)
	for _, b := range f.sealed.blocks {
		if left -= int64(len(b)); left < 0 {
			break
		}
		a.blocks = append(a.blocks, b)
	}
	if a.FirstBlocks = int64(len(a.blocks)); a.FirstBlocks == 0 {
		return out
	}
	return a
}

func (a firstBlocks) send(w http.ResponseWriter) {
	head, err := json.Marshal(map[string]any{"result": a.PrepareRetrieveResult})
	if err != nil {
		panic(err) // our own shapes
	}
	w.Header().Set("Content-Type", wire.TypeFirstBlocks)
	for _, piece := range append([][]byte{append(head, '\n')}, a.blocks...) {
		if _, err := w.Write(piece); err != nil {
			return // the client is gone
		}
	}
}

// unsupportedVersion refuses a client that does not read format version 2.
func unsupportedVersion() error {
	return refuse(http.StatusNotFound, wire.CodeUnsupported, "the file has format version 2, which this client does not read: update the client")
}

// blockRoute answers the transfers of files of format version 2.
func (s *Server) blockRoute(r *http.Request) (route, bool) {
	if path, ok := strings.CutPrefix(r.URL.Path, wire.PathParts); ok {
		return route{run: func(c call) (any, error) { return s.state.partRequest(c, path) }, bare: true}, true
	}
	for prefix, answer := range map[string]func(*sealedFile, call, string) (any, error){wire.PathBlocks: readRange, wire.PathTiles: readTile,
		wire.PathManifest: func(f *sealedFile, _ call, _ string) (any, error) { return f.manifest, nil }} {
		if path, ok := strings.CutPrefix(r.URL.Path, prefix); ok && r.Method == http.MethodGet {
			ticket, rest, _ := strings.Cut(path, "/")
			return route{run: func(c call) (any, error) {
				f, err := s.state.sealed(c.account, ticket)
				if err != nil {
					return nil, err
				}
				return answer(f, c, rest)
			}}, true
		}
	}
	return route{}, false
}

// sealed finds the file of a ticket for a member.
func (s *state) sealed(account, ticket string) (*sealedFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if f.row.TransID == ticket {
			if _, err := s.member(account, f.row.GroupID); err != nil {
				return nil, err
			}
			return f.sealed, f.living()
		}
	}
	return nil, refuse(http.StatusNotFound, wire.CodeFileNotFound, "transfer not found")
}

func readTile(f *sealedFile, _ call, path string) (any, error) {
	t, err := tlog.ParseTilePath(path)
	if err == nil {
		if data, ok := f.tile(t); ok {
			return data, nil
		}
	}
	return nil, refuse(http.StatusNotFound, wire.CodeFileNotFound, "no such tile")
}

// rangeAnswer is a part of the sealed blocks of a file.
type rangeAnswer struct {
	f        *sealedFile
	from, to int64 // to is the byte after the last
}

func readRange(f *sealedFile, c call, _ string) (any, error) {
	a := rangeAnswer{f: f}
	size := f.meta.Layout().SealedBytes()
	if _, err := fmt.Sscanf(c.r.Header.Get("Range"), "bytes=%d-%d", &a.from, &a.to); err != nil {
		return rangeAnswer{f, 0, size}, nil
	}
	if a.to = min(a.to+1, size); a.from < 0 || a.from >= a.to || a.from/(f.meta.BlockBytes+format.Overhead) >= int64(len(f.blocks)) {
		return nil, refuse(http.StatusRequestedRangeNotSatisfiable, wire.CodeValidation, "the range")
	}
	return a, nil
}

func (a rangeAnswer) send(w http.ResponseWriter, r *http.Request) {
	size := a.f.meta.Layout().SealedBytes()
	w.Header().Set("Etag", strconv.Quote(hex.EncodeToString(a.f.meta.Root[:])))
	w.Header().Set("Content-Length", strconv.FormatInt(a.to-a.from, 10))
	status := http.StatusOK
	if r.Header.Get("Range") != "" {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a.from, a.to-1, size))
		status = http.StatusPartialContent
	}
	w.WriteHeader(status)
	whole := a.f.meta.BlockBytes + format.Overhead
	for at := a.from; at < a.to && at/whole < int64(len(a.f.blocks)); {
		piece := a.f.blocks[at/whole][at%whole:]
		piece = piece[:min(int64(len(piece)), a.to-at)]
		if _, err := w.Write(piece); err != nil {
			return // the client is gone
		}
		at += int64(len(piece))
	}
}

// isBlocks reports whether a finalize_upload is of format version 2, by its format object.
func isBlocks(raw json.RawMessage) (format.Metadata, bool) {
	meta, err := format.ParseMetadata(raw)
	return meta, err == nil && meta.Version == format.VersionBlocks
}
