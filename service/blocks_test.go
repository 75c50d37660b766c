package service_test

import (
	"bytes"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
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
	upload string // id
	key    *format.Key
	block  int64 // plaintext of a block, in bytes
	runs   map[int64]format.Run
	leaves map[int64]format.Hash
}

// smallBlocks is the size of the blocks of most tests, in bytes.
const smallBlocks = format.MinBlockBytes

// noise is content of which no two blocks are equal.
func noise(size int64) []byte {
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content) // never fails
	return content
}

// begins begins an upload in small blocks. Nothing is sent.
func (u *user) begins() *sending {
	u.t.Helper()
	key, err := format.RandomKey()
	ok(u.t, err)
	return &sending{user: u, upload: newID(), key: key, block: smallBlocks, runs: map[int64]format.Run{},
		leaves: map[int64]format.Hash{}}
}

// newID is an id of an upload or of a part.
func newID() string {
	var id format.PartID
	_, _ = crand.Read(id[:]) // never fails
	return id.String()
}

// partURL is the address of a part of an upload to a group.
func (r *running) partURL(upload, part, group string, blockBytes int64, blocks string) string {
	query := url.Values{"group_id": {group}, "block_size": {fmt.Sprint(blockBytes)}, "blocks": {blocks}}
	return r.url + wire.PathParts + upload + "/" + part + "?" + query.Encode()
}

// putRequest asks for a part.
func (s *sending) putRequest(part, blocks string, body io.Reader) *http.Request {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPut, s.partURL(s.upload, part, "g", s.block, blocks), body)
	ok(s.t, err)
	req.Header = s.header()
	return req
}

// sealed seals blocks of content under a new key, and returns them with the wrapped key.
func (s *sending) sealed(blocks format.Extents, content []byte) (body []byte, wrapped [format.WrappedKeyBytes]byte,
	leaves []format.Hash) {
	s.t.Helper()
	part, err := format.RandomKey()
	ok(s.t, err)
	c, err := format.NewBlockCipher(part)
	ok(s.t, err)
	wrapped, err = format.WrapKey(s.key, part)
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
	return body, wrapped, leaves
}

// puts sends blocks of content as a part.
func (s *sending) puts(blocks string, content []byte) wire.Part {
	s.t.Helper()
	e, err := format.ParseExtents(blocks, 1000)
	ok(s.t, err)
	body, wrapped, leaves := s.sealed(e, content)
	id := newID()
	status, answer := s.do(s.putRequest(id, blocks, bytes.NewReader(body)))
	var p wire.Part
	if status != http.StatusOK || json.Unmarshal(answer, &p) != nil ||
		p != (wire.Part{ID: id, Blocks: blocks, ETag: rootOf(leaves)}) {
		s.t.Fatalf("put %s: %d %s", blocks, status, answer)
	}
	s.has(p, wrapped, leaves)
	return p
}

// parts asks which parts of the upload the service has.
func (s *sending) parts() (list []wire.Part) {
	s.t.Helper()
	status, raw := s.fetch(wire.PathParts+s.upload, "")
	var out wire.PartsResult
	if err := json.Unmarshal(raw, &out); status != http.StatusOK || err != nil || out.Parts == nil {
		s.t.Fatalf("parts: %d %s", status, raw)
	}
	return out.Parts
}

// rootOf is the ETag of a part with these blocks.
func rootOf(leaves []format.Hash) string {
	root := format.RootOf(leaves)
	return hex.EncodeToString(root[:])
}

// has notes where the blocks of a part lie.
func (s *sending) has(p wire.Part, wrapped [format.WrappedKeyBytes]byte, leaves []format.Hash) {
	s.t.Helper()
	id, err1 := format.ParsePartID(p.ID)
	e, err2 := format.ParseExtents(p.Blocks, 1000)
	if err1 != nil || err2 != nil {
		s.t.Fatalf("part %+v", p)
	}
	n := 0
	for _, x := range e {
		for i := x.First; i < x.First+x.Count; i++ {
			s.runs[i], s.leaves[i] = format.Run{Part: id, First: i, Count: 1, Key: wrapped}, leaves[n]
			n++
		}
	}
}

// item is the upload of a content as it is recorded.
func (s *sending) item(content []byte, name string) *sealedItem {
	s.t.Helper()
	l := format.Layout{Size: int64(len(content)), BlockBytes: s.block}
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
	return s.sealsBlocks(s.upload, "g", s.key, m, metaOf(s.t, s.key, l, tree.Root(), name), hash(content))
}

// metaOf describes a file in blocks.
func metaOf(t testing.TB, key *format.Key, l format.Layout, root format.Hash, name string) format.Metadata {
	t.Helper()
	check, err := format.KeyCheck(key)
	ok(t, err)
	return format.NewBlocksMetadata(l, root, check, "", name)
}

// sealsBlocks makes the item of an upload whose parts were sent.
func (u *user) sealsBlocks(upload, group string, key *format.Key, m format.Manifest, meta format.Metadata,
	hashOf string) *sealedItem {
	u.t.Helper()
	raw, err := json.Marshal(meta)
	ok(u.t, err)
	blob := m.Encode()
	i := &sealedItem{blob: blob, key: key, SealedHead: wire.SealedHead{ID: upload, GroupID: group, FileHash: hashOf,
		Salt: hash([]byte(upload)), Format: raw,
		BlobSize: int64(len(blob)), BlobHash: hash(blob), Versioned: true}}
	u.sealsKey(i, key, u.id)
	return i
}

// finishes records the upload.
func (s *sending) finishes(content []byte, name string) wire.FinalizeUploadResult {
	s.t.Helper()
	return s.mustPut(s.item(content, name))
}

// uploadBlocks uploads content in blocks, in parts of so many blocks.
func (u *user) uploadBlocks(name string, content []byte, perPart int64) (*sending, wire.FinalizeUploadResult) {
	u.t.Helper()
	s := u.begins()
	blocks := format.Layout{Size: int64(len(content)), BlockBytes: s.block}.Blocks()
	for first := int64(0); first < blocks; first += perPart {
		s.puts(format.Extents{{First: first, Count: min(perPart, blocks-first)}}.String(), content)
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
	o := &opened{user: u, answer: must[wire.PrepareRetrieveResult](u, wire.OpPrepareRetrieve,
		wire.PrepareRetrieveRequest{GroupID: "g", IPFSHash: ref, Formats: []int{1, 2}})}
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
	for _, size := range []int64{1, smallBlocks - 1, smallBlocks, smallBlocks + 1, 256 * smallBlocks,
		300*smallBlocks - 1} {
		content := noise(size)
		_, out := alice.uploadBlocks(fmt.Sprint("f", size), content, 50)
		alice.readsBlocks(out.CID, content)
		o := alice.opens(out.CID)
		o.only = true
		last := o.meta.Layout().Blocks() - 1
		if o.answer.Fee == "0" || !bytes.Equal(o.blocks(0, 1), content[:min(size, smallBlocks)]) ||
			!bytes.Equal(o.blocks(last, 1), content[last*smallBlocks:]) {
			t.Errorf("%d bytes: the first or the last block", size)
		}
		if row := alice.row("g", out.CID); *row.OriginalSize != size || row.FileHash != hash(content) {
			t.Errorf("row %+v", row)
		}
	}
	r.audits()
	if n, err := r.svc.Verify(t.Context(), true, func(ref string, err error) { t.Error(ref, err) }); err != nil ||
		n != 6 {
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
	for most, want := range map[int64]int64{0: 0, whole - 1: 0, whole: 1, 3 * whole: 3, 3*whole + 6: 3,
		o.meta.Layout().SealedBytes(): 4, 1 << 60: 4} {
		status, body := alice.tool(wire.OpPrepareRetrieve,
			object{"group_id": "g", "ipfs_hash": out.CID, "formats": []int{1, 2}, "transfer": "raw",
				"first_bytes": most})
		head, sealed, _ := strings.Cut(body, "\n")
		var answer struct{ Result wire.PrepareRetrieveResult }
		if err := json.Unmarshal([]byte(head), &answer); err != nil || status != http.StatusOK ||
			answer.Result.FirstBlocks != want || answer.Result.Key == "" {
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
	answer := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": out.CID, "formats": []int{1, 2}, "transfer": "raw",
			"first_bytes": 1 << 20})
	if answer.FirstBlocks != 0 || answer.Key == "" {
		t.Errorf("blocks that are gone: %+v", answer)
	}
}

// Parts come in any order, with holes, and blocks more than once; a part is written once.
func TestPartsInAnyOrder(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(9*smallBlocks + 7)
	s := alice.begins()
	s.puts("3,9", content)
	s.puts("4-8", content)
	old := s.puts("0-2", noise(int64(len(content)) / 2)[1:])
	body, wrapped, leaves := s.sealed(format.Extents{{First: 0, Count: 3}}, content)
	status, answer := s.do(s.putRequest(old.ID, "0-2", bytes.NewReader(body)))
	answers(t, "an id that is taken", status, answer, wire.CodePartExists)
	req := s.putRequest(newID(), "0-2", bytes.NewReader(body))
	sum := sha256.Sum256(body)
	req.Header.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	status, answer = s.do(req)
	var p wire.Part
	if status != http.StatusOK || json.Unmarshal(answer, &p) != nil || p.ID == old.ID {
		t.Fatalf("the same blocks again: %d %s", status, answer)
	}
	s.has(p, wrapped, leaves)
	list := s.parts()
	if len(list) != 4 || !slices.Contains(list, old) || !slices.Contains(list, p) ||
		!slices.IsSortedFunc(list, func(a, b wire.Part) int { return strings.Compare(a.ID, b.ID) }) {
		t.Errorf("parts %+v", list)
	}
	if _, raw := alice.fetch(wire.PathParts+s.upload+"?part="+p.ID, ""); strings.Count(string(raw), `"id"`) != 1 ||
		!strings.Contains(string(raw), p.ETag) {
		t.Errorf("one part: %s", raw)
	}
	out := s.finishes(content, "a name")
	alice.readsBlocks(out.CID, content)
	if repeated := s.finishes(content, "a name"); repeated.TransID != out.TransID {
		t.Errorf("finished twice: %+v", repeated)
	}
	if n := countFiles(t, r.dir+"/blobs"); n != 3 {
		t.Errorf("%d blobs are kept", n)
	}
	if kept := alice.stored("g"); kept.Account.Bytes != (format.Layout{Size: int64(len(content)),
		BlockBytes: smallBlocks}).SealedBytes() {
		t.Errorf("%d bytes are counted", kept.Account.Bytes)
	}
	ok(t, r.svc.CheckStored(t.Context(), func(what string, err error) { t.Error(what, err) }))
	if list := s.parts(); len(list) != 0 {
		t.Errorf("parts of an upload that is recorded: %+v", list)
	}
	status, answer = s.do(s.putRequest(newID(), "0-2", bytes.NewReader(body)))
	answers(t, "a part of an upload that is recorded", status, answer, wire.CodeSpent)
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
		if got := o.blocks(first, 2); !bytes.Equal(got,
			content[first*smallBlocks:min((first+2)*smallBlocks, int64(len(content)))]) {
			t.Errorf("blocks %d and on", first)
		}
	}
}
