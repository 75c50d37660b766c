package service_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// sending is an upload of format version 2 by the package format alone.
type sending struct {
	*user
	prepared wire.PrepareUploadResult
	key      *format.Key
	block    int64 // plaintext of a block, in bytes
	runs     map[int64]format.Run
	leaves   map[int64]format.Hash
}

// smallBlocks is the size of the blocks of most tests, in bytes.
const smallBlocks = format.MinBlockBytes

// noise is content of which no two blocks are equal.
func noise(size int64) []byte {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content) // never fails
	return content
}

// begins prepares an upload in blocks; an empty block size is smallBlocks.
func (u *user) begins(req wire.PrepareUploadRequest) *sending {
	u.t.Helper()
	if req.BlockSize == 0 {
		req.BlockSize = smallBlocks
	}
	req.GroupID, req.Formats = "g", []int{1, 2}
	p := must[wire.PrepareUploadResult](u, wire.OpPrepareUpload, req)
	key, err := format.ParseKey(p.Key)
	if err != nil || p.PartsURL == "" || p.PartBytes != wire.PartBytes {
		u.t.Fatalf("prepare: %+v, %v", p, err)
	}
	return &sending{user: u, prepared: p, key: key, block: req.BlockSize, runs: map[int64]format.Run{}, leaves: map[int64]format.Hash{}}
}

// putRequest asks for a part.
func (s *sending) putRequest(number any, blocks, key string, body io.Reader) *http.Request {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPut, fmt.Sprintf("%s%s/%v?blocks=%s", s.url, s.prepared.PartsURL, number, blocks), body)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = s.header()
	req.Header.Set(wire.HeaderPartKey, key)
	return req
}

// sealed seals blocks of content under a new key, and returns them with the wrapped key.
func (s *sending) sealed(blocks format.Extents, content []byte) (body []byte, wrapped string, leaves []format.Hash) {
	s.t.Helper()
	part, err := format.RandomKey()
	ok(s.t, err)
	c, err := format.NewBlockCipher(part)
	ok(s.t, err)
	w, err := format.WrapKey(s.key, part)
	ok(s.t, err)
	for _, x := range blocks {
		body = slices.Grow(body, int(x.Count*(s.block+format.Overhead)))
		for i := x.First; i < x.First+x.Count; i++ {
			at := len(body)
			body, err = c.Seal(body, i, content[i*s.block:min((i+1)*s.block, int64(len(content)))])
			ok(s.t, err)
			leaves = append(leaves, format.Leaf(body[at:]))
		}
	}
	return body, base64.StdEncoding.EncodeToString(w[:]), leaves
}

// puts sends blocks of content as a part.
func (s *sending) puts(number int, blocks string, content []byte) wire.Part {
	s.t.Helper()
	e, err := format.ParseExtents(blocks, 1000)
	ok(s.t, err)
	body, wrapped, leaves := s.sealed(e, content)
	status, answer := s.do(s.putRequest(number, blocks, wrapped, bytes.NewReader(body)))
	var p wire.Part
	if status != http.StatusOK || json.Unmarshal(answer, &p) != nil || p.ETag != rootOf(leaves) || p.Blocks != blocks || p.Number != int64(number) || p.Key != wrapped {
		s.t.Fatalf("put %d: %d %s", number, status, answer)
	}
	s.has(p, leaves)
	return p
}

// rootOf is the ETag of a part with these blocks.
func rootOf(leaves []format.Hash) string {
	root := format.RootOf(leaves)
	return hex.EncodeToString(root[:])
}

// has notes where the blocks of a part lie.
func (s *sending) has(p wire.Part, leaves []format.Hash) {
	s.t.Helper()
	id, err1 := format.ParsePartID(p.ID)
	raw, err2 := base64.StdEncoding.DecodeString(p.Key)
	e, err3 := format.ParseExtents(p.Blocks, 1000)
	if err1 != nil || err2 != nil || err3 != nil || len(raw) != format.WrappedKeyBytes {
		s.t.Fatalf("part %+v", p)
	}
	n := 0
	for _, x := range e {
		for i := x.First; i < x.First+x.Count; i++ {
			s.runs[i], s.leaves[i] = format.Run{Part: id, First: i, Count: 1, Key: [format.WrappedKeyBytes]byte(raw)}, leaves[n]
			n++
		}
	}
}

// request finishes the upload of a content of so many bytes.
func (s *sending) request(size int64, name string) (req wire.FinalizeUploadRequest, manifest []byte) {
	s.t.Helper()
	l := format.Layout{Size: size, BlockBytes: s.block}
	var m format.Manifest
	var tree format.Tree
	for i := range l.Blocks() {
		tree.Add(s.leaves[i])
		if n := len(m); n > 0 && m[n-1].Part == s.runs[i].Part {
			m[n-1].Count++
		} else {
			m = append(m, s.runs[i])
		}
	}
	check, err := format.KeyCheck(s.key)
	ok(s.t, err)
	raw, err := json.Marshal(format.NewBlocksMetadata(l, tree.Root(), check, "", name))
	ok(s.t, err)
	manifest = m.Encode()
	return wire.FinalizeUploadRequest{UploadID: s.prepared.UploadID, Format: raw, Manifest: base64.StdEncoding.EncodeToString(manifest), Versioned: true}, manifest
}

// finishes records the upload.
func (s *sending) finishes(content []byte, name string) wire.FinalizeUploadResult {
	s.t.Helper()
	req, _ := s.request(int64(len(content)), name)
	req.FileHash = hash(content)
	return must[wire.FinalizeUploadResult](s.user, wire.OpFinalizeUpload, req)
}

// uploadBlocks uploads content in blocks, in parts of so many blocks.
func (u *user) uploadBlocks(name string, content []byte, perPart int64) (*sending, wire.FinalizeUploadResult) {
	u.t.Helper()
	s := u.begins(wire.PrepareUploadRequest{Filename: name})
	blocks := format.Layout{Size: int64(len(content)), BlockBytes: s.block}.Blocks()
	for first := int64(0); first < blocks; first += perPart {
		s.puts(int(first/perPart), format.Extents{{First: first, Count: min(perPart, blocks-first)}}.String(), content)
	}
	return s, s.finishes(content, name)
}

// opened is a file of format version 2 as a client reads it, which proves every block.
type opened struct {
	*user
	answer   wire.PrepareRetrieveResult
	meta     format.Metadata
	manifest format.Manifest
	key      *format.Key
	only     bool // the tiles of the answer
}

// opens retrieves a file of g.
func (u *user) opens(ref string) *opened {
	u.t.Helper()
	o := &opened{user: u, answer: must[wire.PrepareRetrieveResult](u, wire.OpPrepareRetrieve, wire.PrepareRetrieveRequest{GroupID: "g", IPFSHash: ref, Formats: []int{1, 2}})}
	var err error
	o.meta, err = format.ParseMetadata(o.answer.Format)
	ok(u.t, err)
	o.key, err = format.ParseKey(o.answer.Key)
	ok(u.t, err)
	raw, err := base64.StdEncoding.DecodeString(o.answer.Manifest)
	ok(u.t, err)
	if o.answer.ManifestURL != "" {
		_, raw = u.fetch(o.answer.ManifestURL, "")
	}
	o.manifest, err = format.ParseManifest(raw, o.meta.Layout().Blocks())
	ok(u.t, err)
	content := o.meta.Content(format.ManifestSum(raw))
	if row := u.row("g", ref); row.Content == nil || *row.Content != hex.EncodeToString(content[:]) {
		u.t.Errorf("the row commits to %v, not to %x", row.Content, content)
	}
	if o.answer.DataSize != o.meta.Layout().SealedBytes() || o.answer.EncryptedB64 != "" {
		u.t.Errorf("answer %+v", o.answer)
	}
	return o
}

func (*opened) Height() int                     { return 8 }
func (*opened) SaveTiles([]tlog.Tile, [][]byte) {}
func (o *opened) ReadTiles(list []tlog.Tile) (data [][]byte, err error) {
	for _, tile := range list {
		raw, err := base64.StdEncoding.DecodeString(o.answer.Tiles[tile.Path()])
		if o.answer.Tiles[tile.Path()] == "" {
			if o.only {
				return nil, fmt.Errorf("%s is not inside the answer", tile.Path())
			}
			var status int
			if status, raw = o.fetch(o.answer.TilesURL+"/"+tile.Path(), ""); status != http.StatusOK {
				err = fmt.Errorf("%d %s", status, raw)
			}
			o.answer.Tiles[tile.Path()] = base64.StdEncoding.EncodeToString(raw)
		}
		if err != nil {
			return nil, err
		}
		data = append(data, raw)
	}
	return data, nil
}

// blocks reads count blocks from first on.
func (o *opened) blocks(first, count int64) []byte {
	o.t.Helper()
	l := o.meta.Layout()
	from, to := l.Offset(first), min(l.Offset(first+count), l.SealedBytes())
	status, raw := o.fetch(o.answer.DataURL, fmt.Sprintf("bytes=%d-%d", from, to-1))
	if status != http.StatusPartialContent || int64(len(raw)) != to-from {
		o.t.Fatalf("blocks %d+%d: %d, %d bytes", first, count, status, len(raw))
	}
	return o.plain(first, raw)
}

// plain proves and decrypts sealed blocks.
func (o *opened) plain(first int64, raw []byte) (plain []byte) {
	o.t.Helper()
	l := o.meta.Layout()
	tree := tlog.Tree{N: l.Blocks(), Hash: o.meta.Root}
	plain = make([]byte, 0, len(raw))
	for i := first; len(raw) > 0; i++ {
		sealed := raw[:l.Sealed(i)]
		raw = raw[len(sealed):]
		leaf, err := tlog.TileHashReader(tree, o).ReadHashes([]int64{tlog.StoredHashIndex(0, i)})
		if err != nil || leaf[0] != format.Leaf(sealed) {
			o.t.Fatalf("block %d is not proven: %v", i, err)
		}
		part, err := format.UnwrapKey(o.key, o.manifest.Find(i).Key)
		ok(o.t, err)
		c, err := format.NewBlockCipher(part)
		ok(o.t, err)
		plain, err = c.Open(plain, i, sealed)
		ok(o.t, err)
	}
	return plain
}

// readsBlocks expects that a file of g in blocks has this content.
func (u *user) readsBlocks(ref string, want []byte) *opened {
	u.t.Helper()
	o := u.opens(ref)
	status, raw := u.fetch(o.answer.DataURL, "")
	if status != http.StatusOK || int64(len(raw)) != o.answer.DataSize {
		u.t.Fatalf("all blocks: %d, %d bytes", status, len(raw))
	}
	if !bytes.Equal(o.plain(0, raw), want) {
		u.t.Errorf("%s has other content", ref)
	}
	return o
}

// runLarge is a service for files of many blocks, with alice and her group g.
func runLarge(t *testing.T) (*running, *user) {
	t.Helper()
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: 64 << 20, RequestRate: -1})
	return r, r.owner()
}

// A file of format version 2 is what was sent, in any size and order of parts.
func TestBlocksRoundTrip(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	for _, size := range []int64{1, smallBlocks - 1, smallBlocks, smallBlocks + 1, 256 * smallBlocks, 300*smallBlocks - 1} {
		content := noise(size)
		_, out := alice.uploadBlocks(fmt.Sprint("f", size), content, 50)
		alice.readsBlocks(out.CID, content)
		o := alice.opens(out.CID)
		o.only = true
		last := o.meta.Layout().Blocks() - 1
		if o.answer.Fee == "0" || !bytes.Equal(o.blocks(0, 1), content[:min(size, smallBlocks)]) || !bytes.Equal(o.blocks(last, 1), content[last*smallBlocks:]) {
			t.Errorf("%d bytes: the first or the last block", size)
		}
		if row := alice.row("g", out.CID); *row.OriginalSize != size || row.FileHash != hash(content) {
			t.Errorf("row %+v", row)
		}
	}
	r.audits()
	if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil || n != 6 {
		t.Errorf("verify: %d, %v", n, err)
	}
}

// The first blocks come behind the answer to those who ask, as many as fit.
func TestFirstBlocksBehindTheAnswer(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(3*smallBlocks + 7)
	_, out := alice.uploadBlocks("f", content, 2)
	o := alice.opens(out.CID)
	whole := int64(smallBlocks + format.Overhead)
	for most, want := range map[int64]int64{0: 0, whole - 1: 0, whole: 1, 3 * whole: 3, 3*whole + 6: 3, o.meta.Layout().SealedBytes(): 4, 1 << 60: 4} {
		status, body := alice.tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": out.CID, "formats": []int{1, 2}, "transfer": "raw", "first_bytes": most})
		head, sealed, _ := strings.Cut(body, "\n")
		var answer struct{ Result wire.PrepareRetrieveResult }
		if err := json.Unmarshal([]byte(head), &answer); err != nil || status != http.StatusOK || answer.Result.FirstBlocks != want || answer.Result.Key == "" {
			t.Errorf("%d bytes: status %d, %d blocks, %v", most, status, answer.Result.FirstBlocks, err)
			continue
		}
		l := o.meta.Layout()
		for i := range want {
			got := o.plain(i, []byte(sealed[l.Offset(i):l.Offset(i)+l.Sealed(i)]))
			if !bytes.Equal(got, content[i*smallBlocks:i*smallBlocks+l.Plain(i)]) {
				t.Errorf("%d bytes: block %d differs", most, i)
			}
		}
		if want > 0 && int64(len(sealed)) != l.Offset(want-1)+l.Sealed(want-1) {
			t.Errorf("%d bytes: %d came", most, len(sealed))
		}
	}
	ok(t, os.RemoveAll(r.dir+"/blobs"))
	answer := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": out.CID, "formats": []int{1, 2}, "transfer": "raw", "first_bytes": 1 << 20})
	if answer.FirstBlocks != 0 || answer.Key == "" {
		t.Errorf("blocks that are gone: %+v", answer)
	}
}

// Parts come in any order, with holes, and a part may be replaced.
func TestPartsInAnyOrder(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(9*smallBlocks + 7)
	s := alice.begins(wire.PrepareUploadRequest{})
	s.puts(7, "3,9", content)
	s.puts(0, "4-8", content)
	old := s.puts(3, "0-2", noise(int64(len(content)) / 2)[1:])
	body, wrapped, leaves := s.sealed(format.Extents{{First: 0, Count: 3}}, content)
	for match, want := range map[string]int{"": 412, `"` + strings.Repeat("0", 64) + `"`: 412, "W/" + `"` + old.ETag + `"`: 400, `"` + old.ETag + `"`: 200} {
		if want == 200 {
			continue
		}
		req := s.putRequest(3, "0-2", wrapped, bytes.NewReader(body))
		if match != "" {
			req.Header.Set("If-Match", match)
		}
		if status, answer := s.do(req); status != want {
			t.Errorf("If-Match %s: %d %s", match, status, answer)
		}
	}
	req := s.putRequest(3, "0-2", wrapped, bytes.NewReader(body))
	req.Header.Set("If-Match", `"`+old.ETag+`"`)
	sum := sha256.Sum256(body)
	req.Header.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	status, answer := s.do(req)
	var p wire.Part
	if status != http.StatusOK || json.Unmarshal(answer, &p) != nil || p.ID == old.ID {
		t.Fatalf("replace: %d %s", status, answer)
	}
	s.has(p, leaves)
	again := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"resume": s.prepared.UploadID, "group_id": "g"})
	if again != s.prepared {
		t.Errorf("resumed as %+v, not %+v", again, s.prepared)
	}
	_, list := alice.fetch(s.prepared.PartsURL, "")
	var parts wire.PartsResult
	if err := json.Unmarshal(list, &parts); err != nil || len(parts.Parts) != 3 || parts.Parts[0].Number != 0 || parts.Parts[1] != p || parts.Parts[2].Blocks != "3,9" {
		t.Errorf("parts %s, %v", list, err)
	}
	out := s.finishes(content, "late name")
	alice.readsBlocks(out.CID, content)
	if repeated := s.finishes(content, "late name"); repeated.TransID != out.TransID {
		t.Errorf("finished twice: %+v", repeated)
	}
	if n := countFiles(t, r.dir+"/blobs"); n != 3 {
		t.Errorf("%d blobs are kept", n)
	}
	if kept := alice.stored("g"); kept.Account.Bytes != (format.Layout{Size: int64(len(content)), BlockBytes: smallBlocks}).SealedBytes() {
		t.Errorf("%d bytes are counted", kept.Account.Bytes)
	}
	ok(t, r.svc.CheckStored(t.Context(), func(what string, err error) { t.Error(what, err) }))
	for _, path := range []string{s.prepared.PartsURL} {
		if status, body := alice.fetch(path, ""); status != http.StatusConflict {
			t.Errorf("parts of a finished upload: %d %s", status, body)
		}
	}
	if status, answer := s.do(s.putRequest(9, "0-2", wrapped, bytes.NewReader(body))); status != http.StatusConflict {
		t.Errorf("put to a finished upload: %d %s", status, answer)
	}
}

// Files of format version 2 in a bucket.
func TestBlocksOnS3(t *testing.T) {
	t.Parallel()
	r, _, _, _ := onS3(t)
	alice := r.owner()
	content := noise(70*smallBlocks + 9)
	_, out := alice.uploadBlocks("f", content, 30)
	o := alice.readsBlocks(out.CID, content)
	for _, first := range []int64{0, 29, 30, 69, 70} {
		if got := o.blocks(first, 2); !bytes.Equal(got, content[first*smallBlocks:min((first+2)*smallBlocks, int64(len(content)))]) {
			t.Errorf("blocks %d and on", first)
		}
	}
}
