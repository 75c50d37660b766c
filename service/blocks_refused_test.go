package service_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/fault"
)

// answers expects a status and code of a refusal.
func answers(t *testing.T, what string, status int, body []byte, code string) {
	t.Helper()
	var e wire.Error
	_ = json.Unmarshal(body, &e)
	if want := fault.New(code, "").Status(); status != want || e.Code != code || e.Error == "" {
		t.Errorf("%s: %d %.300s, want %d %s", what, status, body, want, code)
	}
}

// A part that is not what its request says is refused, and nothing of it is kept.
func TestPartsRefused(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	bob := r.user("bob", "10")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "whole"})
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "whole", "format": 1})
	s := alice.begins()
	body, _, _ := s.sealed(format.Extents{{First: 0, Count: 3}}, noise(3*smallBlocks-5))
	sealed := smallBlocks + format.Overhead
	with := func(name, value string) func(*http.Request) {
		return func(req *http.Request) { req.Header.Set(name, value) }
	}
	query := func(name, value string) func(*http.Request) {
		return func(req *http.Request) {
			q := req.URL.Query()
			q.Set(name, value)
			req.URL.RawQuery = q.Encode()
		}
	}
	blocks := func(blocks string) func(*http.Request) { return query("blocks", blocks) }
	path := func(path string) func(*http.Request) {
		return func(req *http.Request) { req.URL.Path = wire.PathParts + path }
	}
	size := func(body io.Reader, size int64) func(*http.Request) {
		return func(req *http.Request) { req.Body, req.ContentLength = io.NopCloser(body), size }
	}
	sent := func(body []byte) func(*http.Request) { return size(bytes.NewReader(body), int64(len(body))) }
	unsized := func(body []byte) func(*http.Request) { return size(bytes.NewReader(body), -1) }
	as := func(u *user) func(*http.Request) {
		return func(req *http.Request) { maps.Copy(req.Header, u.header()) }
	}
	for name, tc := range map[string]struct {
		change func(*http.Request)
		code   string
	}{
		"no id of a part":         {path(s.upload + "/x"), wire.CodeValidation},
		"another spelling of one": {path(s.upload + "/" + strings.ToUpper(newID()[:31]) + "F"), wire.CodeValidation},
		"no id of an upload":      {path("nothing/" + newID()), wire.CodeValidation},
		"no blocks":               {blocks(""), wire.CodeValidation},
		"blocks out of order":     {blocks("2,0-1"), wire.CodeValidation},
		"blocks twice":            {blocks("0-1,1"), wire.CodeValidation},
		"two spellings of blocks": {blocks("0,1,2"), wire.CodeValidation},
		"more blocks than a part": {blocks("0-127"), wire.CodeValidation},
		"beyond the largest file": {blocks("0-1,1024"), wire.CodeTooLarge},
		"fewer blocks than bytes": {blocks("0-1"), wire.CodeValidation},
		"more blocks than bytes":  {blocks("0-3"), wire.CodeValidation},
		"blocks too small":        {query("block_size", fmt.Sprint(smallBlocks/2)), wire.CodeValidation},
		"blocks too large":        {query("block_size", fmt.Sprint(2<<20)), wire.CodeValidation},
		"no power of two":         {query("block_size", "100000"), wire.CodeValidation},
		"negative blocks":         {query("block_size", fmt.Sprint(-smallBlocks)), wire.CodeValidation},
		"no size of blocks":       {query("block_size", "x"), wire.CodeValidation},
		"another digest": {with("Repr-Digest",
			"sha-256=:"+base64.StdEncoding.EncodeToString(make([]byte, 32))+":"), wire.CodeValidation},
		"no digest":               {with("Repr-Digest", "sha-256=:AAAA:"), wire.CodeValidation},
		"a body that is too long": {sent(make([]byte, wire.PartBytes+1)), wire.CodeTooLarge},
		"an empty body":           {sent(nil), wire.CodeValidation},
		"an empty last block":     {sent(body[:2*sealed+format.Overhead]), wire.CodeValidation},
		"unsized, too short":      {unsized(body[:2*sealed]), wire.CodeValidation},
		"unsized, empty":          {unsized(nil), wire.CodeValidation},
		"unsized, an empty block": {unsized(body[:2*sealed+format.Overhead]), wire.CodeValidation},
		"unsized, a hole":         {unsized(body[:sealed+100]), wire.CodeValidation},
		"unsized, too long": {unsized(append(body[:3*sealed-5:3*sealed-5], make([]byte, 6)...)),
			wire.CodeValidation},
		"a group of others":    {as(bob), wire.CodeNotAuthorized},
		"no group":             {query("group_id", "nothing"), wire.CodeGroupNotFound},
		"a group of version 1": {query("group_id", "whole"), wire.CodeUnsupported},
		"nobody":               {func(req *http.Request) { req.Header.Del("Authorization") }, wire.CodeAuthRequired},
	} {
		t.Run(name, func(t *testing.T) {
			req := s.putRequest(newID(), "0-2", bytes.NewReader(body))
			tc.change(req)
			status, answer := s.do(req)
			answers(t, name, status, answer, tc.code)
		})
	}
	if list := s.parts(); len(list) != 0 {
		t.Errorf("parts %+v", list)
	}
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	status, answer := alice.fetch(wire.PathParts+"nothing", "")
	answers(t, "parts of no id", status, answer, wire.CodeValidation)
	p := s.puts("0-2", noise(3*smallBlocks))
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "h"})
	for name, change := range map[string]func(*http.Request){"another group": query("group_id", "h"),
		"blocks of another size": query("block_size", fmt.Sprint(2*smallBlocks))} {
		req := s.putRequest(newID(), "0", bytes.NewReader(body[:sealed]))
		change(req)
		status, answer := s.do(req)
		answers(t, name+" than the upload", status, answer, wire.CodeValidation)
	}
	// An id is an account's own: that of another names no part of hers.
	alice.adds(bob)
	his := bob.begins()
	his.upload = s.upload
	if list := his.parts(); len(list) != 0 {
		t.Errorf("bob sees %+v", list)
	}
	his.puts("1", noise(3*smallBlocks))
	if list := s.parts(); len(list) != 1 || list[0] != p {
		t.Errorf("parts %+v", list)
	}
	status, answer = his.do(his.putRequest(p.ID, "0-2", bytes.NewReader(body)))
	answers(t, "the id of a part of another account", status, answer, wire.CodePartExists)
}

// Of a part whose connection breaks nothing is kept.
func TestPartsThatBreakOff(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(5*smallBlocks + 9)
	s := alice.begins()
	const sealed = int(smallBlocks + format.Overhead)
	for _, came := range []int{4*sealed - 1, 2*sealed + 1000, sealed - 1, 0} {
		body, _, _ := s.sealed(format.Extents{{First: 0, Count: 4}}, content)
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		ok(t, err)
		fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n",
			strings.TrimPrefix(s.partURL(s.upload, newID(), "g", smallBlocks, "0-3"), r.url), alice.token, len(body))
		_, err = conn.Write(body[:came])
		ok(t, err)
		ok(t, conn.(*net.TCPConn).CloseWrite())
		_, err = io.Copy(io.Discard, conn) // ends when the service has answered
		ok(t, err)
		ok(t, conn.Close())
	}
	if list := s.parts(); len(list) != 0 {
		t.Errorf("parts %+v", list)
	}
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	s.puts("0-5", content)
	alice.readsBlocks(s.finishes(content, "f").CID, content)
}

// A record that does not fit its parts is refused, costs nothing, and can be repeated.
func TestRecordOfBlocksRefused(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(4*smallBlocks + 9)
	other := alice.begins()
	other.puts("0-4", content)
	s := alice.begins()
	s.puts("0-2", content)
	s.puts("3-4", content)
	s.puts("2,5", noise(6*smallBlocks)) // left over
	s.runs[2], s.leaves[2] = other.runs[2], other.leaves[2]
	before := alice.balance()
	type change = func(*sealedItem, format.Manifest, *format.Metadata) format.Manifest
	// finish changes a true upload.
	finish := func(change change) (int, []byte) {
		i := s.item(content, "f")
		meta, err := format.ParseMetadata(i.Format)
		ok(t, err)
		m, err := format.ParseManifest(i.blob, meta.Layout().Blocks())
		ok(t, err)
		i.blob = change(i, m, &meta).Encode()
		i.BlobSize, i.BlobHash = int64(len(i.blob)), hash(i.blob)
		if i.Format != nil {
			i.Format, err = json.Marshal(meta)
			ok(t, err)
		}
		alice.sealsKey(i, i.key, alice.id)
		status, answer := alice.puts(i)
		return status, []byte(answer)
	}
	meta := func(f func(*format.Metadata)) change {
		return func(_ *sealedItem, m format.Manifest, meta *format.Metadata) format.Manifest {
			f(meta)
			return m
		}
	}
	head := func(f func(*sealedItem)) change {
		return func(i *sealedItem, m format.Manifest, _ *format.Metadata) format.Manifest {
			f(i)
			return m
		}
	}
	runs := func(f func(format.Manifest) format.Manifest) change {
		return func(_ *sealedItem, m format.Manifest, _ *format.Metadata) format.Manifest { return f(m) }
	}
	// The block 2 of s lies in another upload: everything else is true.
	status, answer := finish(meta(func(*format.Metadata) {}))
	answers(t, "a part of another upload", status, answer, wire.CodeMissing)
	if !strings.Contains(string(answer), "than the size says: 2\"") {
		t.Errorf("the answer does not name the block: %s", answer)
	}
	s.puts("2", content)
	for name, tc := range map[string]struct {
		change change
		code   string
	}{
		"a part of nobody": {runs(func(m format.Manifest) format.Manifest {
			m[0].Part[3] ^= 1
			return m
		}), wire.CodeMissing},
		"a block that its part lacks": {runs(func(m format.Manifest) format.Manifest {
			m[1].Count, m[2].First, m[2].Count = 2, 4, 1
			return m
		}), wire.CodeMissing},
		"a hole": {runs(func(m format.Manifest) format.Manifest { return m[1:] }), wire.CodeValidation},
		"a run twice": {runs(func(m format.Manifest) format.Manifest { return append(m, m[0]) }),
			wire.CodeValidation},
		"no run":               {runs(func(format.Manifest) format.Manifest { return nil }), wire.CodeValidation},
		"another root":         {meta(func(m *format.Metadata) { m.Root[0] ^= 1 }), wire.CodeValidation},
		"a longer last block":  {meta(func(m *format.Metadata) { m.OriginalSize++ }), wire.CodeMissing},
		"a shorter last block": {meta(func(m *format.Metadata) { m.OriginalSize-- }), wire.CodeMissing},
		"a block less":         {meta(func(m *format.Metadata) { m.OriginalSize -= smallBlocks }), wire.CodeValidation},
		"a block more":         {meta(func(m *format.Metadata) { m.OriginalSize += smallBlocks }), wire.CodeValidation},
		"other blocks":         {meta(func(m *format.Metadata) { m.BlockBytes *= 2 }), wire.CodeValidation},
		"too large":            {meta(func(m *format.Metadata) { m.OriginalSize = 64<<20 + 1 }), wire.CodeTooLarge},
		"larger than JSON":     {meta(func(m *format.Metadata) { m.OriginalSize = 1<<53 + 1 }), wire.CodeValidation},
		"near 2^53":            {meta(func(m *format.Metadata) { m.OriginalSize = 1 << 53 }), wire.CodeTooLarge},
		"no name":              {meta(func(m *format.Metadata) { m.Filename = "" }), wire.CodeValidation},
		"a link": {meta(func(m *format.Metadata) { m.ContentType = format.TypeSymlink }),
			wire.CodeValidation},
		"no hash":              {head(func(i *sealedItem) { i.FileHash = "" }), wire.CodeValidation},
		"no hash, from itself": {head(func(i *sealedItem) { i.FileHash, i.From = "", "nothing" }), wire.CodeValidation},
		"no format":            {head(func(i *sealedItem) { i.Format = nil }), wire.CodeValidation},
		"another version":      {head(func(i *sealedItem) { i.Base = "another" }), wire.CodeHead},
		"another group":        {head(func(i *sealedItem) { i.GroupID = "nothing" }), wire.CodeGroupNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := finish(tc.change)
			answers(t, name, status, answer, tc.code)
		})
	}
	for name, change := range map[string]func(*sealedItem){
		"half a run":        func(i *sealedItem) { i.blob = i.blob[:50] },
		"another manifest":  func(i *sealedItem) { i.blob[0] ^= 1 },
		"a manifest longer": func(i *sealedItem) { i.blob = make([]byte, format.MaxManifestBytes+1) },
	} {
		i := s.item(content, "f")
		change(i)
		if i.BlobSize = int64(len(i.blob)); name != "another manifest" {
			i.BlobHash = hash(i.blob)
		}
		alice.sealsKey(i, i.key, alice.id)
		status, answer := alice.puts(i)
		answers(t, name, status, []byte(answer),
			map[bool]string{true: wire.CodeTooLarge, false: wire.CodeValidation}[len(i.blob) > format.MaxManifestBytes])
	}
	status, text := alice.post("/tools/"+wire.OpFinalizeUploads, alice.header(), s.item(content, "f").frame())
	if status != http.StatusOK || !strings.Contains(string(text), wire.CodeValidation) {
		t.Errorf("among small ones: %d %s", status, text)
	}
	whole := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g", "filename": "f"})
	status, refusal := alice.tool(wire.OpFinalizeUpload,
		object{"upload_id": whole.UploadID, "file_hash": hash(content), "format": s.item(content, "f").Format})
	answers(t, "as a whole file", status, []byte(refusal), wire.CodeValidation)
	if now := alice.balance(); now != before {
		t.Errorf("the refusals cost something: %s, then %s", before, now)
	}
	alice.readsBlocks(s.finishes(content, "f").CID, content)
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != 4 {
		t.Errorf("%d blobs are left: want one of the other upload and three of the file", n)
	}
	r.audits()
}

// A manifest that is too long for the database is a blob, and is read by itself.
func TestLongManifest(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	const blocks = wire.InlineManifestBytes/format.RunBytes + 5
	content := noise(blocks*smallBlocks - 3)
	s := alice.begins()
	i := s.longManifest(blocks, content)
	before := countFiles(t, filepath.Join(r.dir, "blobs"))
	wrong := *i
	wrong.FileHash, wrong.From = "", "nothing"
	alice.sealsKey(&wrong, i.key, alice.id)
	status, answer := alice.puts(&wrong)
	answers(t, "one that is refused", status, []byte(answer), wire.CodeValidation)
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != before {
		t.Errorf("%d blobs, %d before", n, before)
	}
	out := alice.mustPut(i)
	if again := alice.mustPut(i); again.TransID != out.TransID {
		t.Errorf("recorded again: %+v", again)
	}
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != before+1 {
		t.Errorf("%d blobs, %d before", n, before)
	}
	o := alice.opens(out.CID)
	if o.answer.Manifest != "" || o.answer.ManifestURL == "" || len(o.manifest) != blocks {
		t.Errorf("manifest of %d runs, %+v", len(o.manifest), o.answer)
	}
	for _, first := range []int64{0, 126, 500, blocks - 2} {
		if !bytes.Equal(o.blocks(first, 2),
			content[first*smallBlocks:min((first+2)*smallBlocks, int64(len(content)))]) {
			t.Errorf("blocks %d and on", first)
		}
	}
	r.clean(1)
}

// longManifest sends the blocks of content, and returns an upload with a run for each.
func (s *sending) longManifest(blocks int64, content []byte) *sealedItem {
	s.t.Helper()
	for first := int64(0); first < blocks; first += 127 {
		s.puts(format.Extents{{First: first, Count: min(127, blocks-first)}}.String(), content)
	}
	i := s.item(content, "f")
	var m format.Manifest
	for block := range blocks {
		m = append(m, s.runs[block])
	}
	i.blob = m.Encode()
	i.BlobSize, i.BlobHash = int64(len(i.blob)), hash(i.blob)
	s.sealsKey(i, i.key, s.id)
	return i
}

// An upload that is recorded twice at once, while a part of it comes, is recorded once, and nothing else is left.
func TestRecordsAtOnce(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(2*smallBlocks + 1)
	for round := range 10 {
		s := alice.begins()
		s.puts("0-1", content)
		s.puts("2", content)
		body, _, _ := s.sealed(format.Extents{{First: 0, Count: 2}}, content)
		i := s.item(content, fmt.Sprint(round))
		var put int
		var refusal []byte
		var outs [2]wire.FinalizeUploadResult
		var all sync.WaitGroup
		all.Go(func() { put, refusal = s.do(s.putRequest(newID(), "0-1", bytes.NewReader(body))) })
		for n := range outs {
			all.Go(func() { outs[n] = alice.mustPut(i) })
		}
		all.Wait()
		if put != http.StatusOK && !strings.Contains(string(refusal), wire.CodeSpent) || outs[0].TransID == "" ||
			outs[0].TransID != outs[1].TransID {
			t.Errorf("round %d: the part answers %d %s, the records are %+v", round, put, refusal, outs)
		}
		alice.readsBlocks(outs[0].CID, content)
	}
	ok(t, r.svc.CheckStored(t.Context(), func(what string, err error) { t.Error(what, err) }))
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != 20 {
		t.Errorf("%d blobs are kept, want two for each file", n)
	}
}

// Threat 24: after a revocation no part comes, no upload ends, and no block is read, whatever
// was begun before.
func TestThreat24RevokedBetweenBlocks(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	bob := r.user("bob", "10")
	alice.adds(bob)
	content := noise(3 * smallBlocks)
	_, out := alice.uploadBlocks("f", content, 2)
	s := bob.begins()
	s.puts("0-1", content)
	body, _, _ := s.sealed(format.Extents{{First: 2, Count: 1}}, content)
	o := bob.readsBlocks(out.CID, content)
	o.answer.Tiles = nil
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
	for _, path := range []string{o.answer.DataURL, o.answer.TilesURL + "/tile/8/0/000.p/3",
		strings.Replace(o.answer.DataURL, wire.PathBlocks, wire.PathManifest, 1)} {
		status, answer := bob.fetch(path, "bytes=0-9")
		answers(t, path[:12], status, answer, wire.CodeNotAuthorized)
	}
	status, answer := s.do(s.putRequest(newID(), "2", bytes.NewReader(body)))
	answers(t, "a part", status, answer, wire.CodeNotAuthorized)
	s.leaves[2], s.runs[2] = s.leaves[1], s.runs[1]
	i := s.item(content, "b")
	status, text := bob.puts(i)
	answers(t, "the record", status, []byte(text), wire.CodeNotAuthorized)
	alice.readsBlocks(out.CID, content)
}

// Threat 24: a file that is removed or deleted while it is open gives no block more, and a
// ticket is good for one account, one file and seven days.
func TestThreat24BlocksOfAFileThatEnds(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: 1 << 20,
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	alice := r.owner()
	bob := r.user("bob", "10")
	alice.adds(bob)
	content := noise(3 * smallBlocks)
	_, out := alice.uploadBlocks("f", content, 2)
	whole := alice.uploadRaw("g", "whole", noise(100_000))
	mine, his := alice.opens(out.CID), bob.opens(out.CID)
	refused := func(what string, u *user, path, code string) {
		t.Helper()
		status, answer := u.fetch(path, "bytes=0-9")
		answers(t, what, status, answer, code)
	}
	ticket := strings.TrimPrefix(mine.answer.DataURL, wire.PathBlocks)
	refused("the ticket of another", bob, mine.answer.DataURL, wire.CodeFileNotFound)
	refused("a forged ticket", alice, wire.PathBlocks+ticket[:len(ticket)-1], wire.CodeFileNotFound)
	refused("blocks as a whole", alice, wire.PathReadBlob+ticket, wire.CodeFileNotFound)
	one := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": whole.CID, "transfer": "raw", "formats": []int{1, 2}})
	refused("a whole file in blocks", alice, strings.Replace(one.DataURL, wire.PathReadBlob, wire.PathBlocks, 1),
		wire.CodeFileNotFound)
	for _, path := range []string{"", "tile/8/0/001", "tile/8/0/000", "tile/8/0/000.p/4", "tile/8/1/000.p/1",
		"tile/8/data/000.p/3", "tile/4/0/000.p/3", "tile/8/62/000.p/1", "../f"} {
		refused("tile "+path, alice, mine.answer.TilesURL+"/"+path, wire.CodeFileNotFound)
	}
	if status, _ := alice.fetch(mine.answer.DataURL,
		"bytes=9999999-"); status != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range behind the end: %d", status)
	}
	if status, body := alice.fetch(mine.answer.DataURL, "bytes=0-1,5-6"); status != http.StatusOK ||
		int64(len(body)) != mine.answer.DataSize {
		t.Errorf("several ranges: %d, %d bytes", status, len(body))
	}
	later.Store(int64(7*24*time.Hour - time.Minute))
	alice.login()
	bob.login()
	if !bytes.Equal(mine.blocks(1, 1), content[smallBlocks:2*smallBlocks]) {
		t.Error("a file that is open for a week cannot be read")
	}
	alice.removes("f", alice.lastSeq())
	refused("in the trash", bob, his.answer.DataURL, wire.CodeFileDeleted)
	if !bytes.Equal(mine.blocks(2, 1), content[2*smallBlocks:]) {
		t.Error("who may bring a file back cannot read it")
	}
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": out.CID})
	for _, path := range []string{mine.answer.DataURL, mine.answer.TilesURL + "/tile/8/0/000.p/3",
		wire.PathManifest + ticket} {
		refused("deleted", alice, path, wire.CodeFileDeleted)
	}
	later.Add(int64(2 * time.Minute))
	refused("an old ticket", alice, mine.answer.DataURL, wire.CodeFileNotFound)
}

// Clients that do not read format version 2 are told so, get no bytes, and pay nothing.
func TestBlocksForOldClients(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(3 * smallBlocks)
	_, out := alice.uploadBlocks("f", content, 2)
	before := alice.balance()
	for name, more := range map[string]object{"SDK 1.0.3": {}, "raw": {"transfer": "raw"},
		"format 1": {"formats": []int{1}}, "format 3": {"formats": []int{1, 3}, "transfer": "raw"}} {
		for k, v := range map[string]any{"group_id": "g", "ipfs_hash": out.CID} {
			more[k] = v
		}
		status, answer := alice.tool(wire.OpPrepareRetrieve, more)
		answers(t, name, status, []byte(answer), wire.CodeUnsupported)
		if !strings.Contains(answer, "sealed blocks") || !strings.Contains(answer, "nothing was charged") {
			t.Errorf("%s: %s", name, answer)
		}
	}
	status, answer := alice.post("/tools/"+wire.OpPrepareRetrieve,
		http.Header{"Authorization": {"Bearer " + alice.token}, wire.HeaderWalletID: {alice.id}},
		object{"group_id": "g", "ipfs_hash": out.CID})
	answers(t, "SDK 1.1.1", status, answer, wire.CodeUnsupported)
	if now := alice.balance(); now != before {
		t.Errorf("the refusals cost something: %s, then %s", before, now)
	}
	old := alice.upload("g", "old", []byte("old"))
	answered := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": old.CID, "formats": []int{1, 2}})
	if answered.EncryptedB64 == "" || answered.TilesURL != "" || answered.Manifest != "" {
		t.Errorf("a file of version 1: %+v", answered)
	}
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "format": 1})
	r.audits()
}

// A group that changes to version 1 takes no file of version 2 that was begun before.
func TestBlocksInAGroupThatChanges(t *testing.T) {
	t.Parallel()
	_, alice := runLarge(t)
	content := noise(3 * smallBlocks)
	s := alice.begins()
	s.puts("0-2", content)
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "format": 1})
	status, answer := alice.puts(s.item(content, "f"))
	answers(t, "version 1 now", status, []byte(answer), wire.CodeUnsupported)
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "format": 2})
	alice.readsBlocks(s.finishes(content, "f").CID, content)
}

// An upload in parts goes on at another process, lives a day from its last part, and seven
// days at most.
func TestPartsOutliveTheService(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	cfg := service.Config{Database: newDatabase(t), MaxFileBytes: 1 << 20,
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }}
	r := runWith(t, cfg)
	alice := r.owner()
	content := noise(9 * smallBlocks)
	s := alice.begins()
	for day := range 7 {
		s.puts(fmt.Sprint(day), content)
		later.Add(int64(23*time.Hour + 30*time.Minute))
		alice.login()
	}
	s.user = alice.at(r.againWith(cfg))
	s.puts("7-8", content)
	s.readsBlocks(s.finishes(content, "f").CID, content)

	late := func(what string) {
		t.Helper()
		alice.login()
		body, _, _ := s.sealed(format.Extents{{First: 0, Count: 1}}, content)
		status, answer := s.do(s.putRequest(newID(), "0", bytes.NewReader(body)))
		answers(t, what, status, answer, wire.CodeUploadUnknown)
	}
	s = alice.begins()
	s.puts("0", content)
	later.Add(int64(24*time.Hour + time.Minute))
	late("a day later")
	s = alice.begins()
	s.puts("0", content)
	for range 8 {
		later.Add(int64(20 * time.Hour))
		alice.login()
		s.puts("0", content)
	}
	later.Add(int64(9 * time.Hour)) // seven days and an hour after the first part
	late("a week later")
}

// Threat 31: parts count like other bytes that are not finished, or kept.
func TestThreat31Parts(t *testing.T) {
	t.Parallel()
	const file = 64 * smallBlocks
	for name, tc := range map[string]struct {
		cfg  service.Config
		code string
	}{
		"unfinished": {service.Config{MaxFileBytes: file, MaxOpenBytes: file}, wire.CodeRateLimited},
		"account":    {service.Config{MaxFileBytes: file, MaxAccountBytes: 5 * file / 2}, wire.CodeStorageFull},
		"group":      {service.Config{MaxFileBytes: file, MaxGroupBytes: 5 * file / 2}, wire.CodeStorageFull},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg.Database, tc.cfg.RequestRate = newDatabase(t), -1
			r := runWith(t, tc.cfg)
			alice := r.owner()
			var status int
			var answer []byte
			sent := 0
			content := noise(file)
			for number := 0; status != fault.New(tc.code, "").Status() && number < 200; number++ {
				s := alice.begins()
				body, _, _ := s.sealed(format.Extents{{First: 0, Count: 64}}, content)
				if status, answer = s.do(s.putRequest(newID(), "0-63",
					bytes.NewReader(body))); status == http.StatusOK {
					sent++
				}
			}
			answers(t, name, status, answer, tc.code)
			if sent == 0 {
				t.Error("not even one file could be sent")
			}
			if kept := alice.stored("g"); kept.Account.Bytes != int64(sent)*(file+64*format.Overhead) ||
				countFiles(t, filepath.Join(r.dir, "blobs")) != sent {
				t.Errorf("%d parts were sent, %d bytes are counted", sent, kept.Account.Bytes)
			}
			ok(t, r.svc.CheckStored(t.Context(), func(what string, err error) { t.Error(what, err) }))
		})
	}
}

// Threat 31: the number of parts is bounded, of an upload and of an account.
func TestThreat31ManyParts(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	s, other := alice.begins(), alice.begins()
	last := s.puts("0", noise(smallBlocks))
	other.puts("0", noise(smallBlocks))
	put := func(what, code string) {
		t.Helper()
		body, _, _ := s.sealed(format.Extents{{First: 0, Count: 1}}, noise(smallBlocks))
		status, answer := s.do(s.putRequest(newID(), "0", bytes.NewReader(body)))
		answers(t, what, status, answer, code)
	}
	r.multiplies(last, 32_767)
	put("of an upload", wire.CodeTooLarge)
	_, raw := alice.fetch(wire.PathParts+s.upload, "")
	if list := s.parts(); len(list) != 32_768 || len(raw) > wire.MaxJSONBytes {
		t.Errorf("%d parts in %d bytes", len(list), len(raw))
	}
	r.exec("UPDATE part_uploads SET parts = 32767 WHERE parts > 1")
	r.exec("UPDATE part_uploads SET parts = ? WHERE parts = 1", 3*32_768+1)
	put("of an account", wire.CodeRateLimited)
}

// multiplies gives the upload of a part more parts without bytes, in the database alone.
func (r *running) multiplies(p wire.Part, n int) {
	r.exec(fmt.Sprintf(`INSERT INTO parts (id, blob_id, blob_size, group_id, account, upload_id, blocks, block_size, leaves)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)
		SELECT id || i, id || i, 0, group_id, account, upload_id, blocks, block_size, leaves FROM parts, n WHERE id = '%s'`, n, p.ID))
	r.exec("UPDATE part_uploads SET parts = parts + ? WHERE id = (SELECT upload_id FROM parts WHERE id = ?)", n, p.ID)
}

// Threat 31: the parts of an upload that ended go some at a time, so that other writers get
// their turn, and nothing of them stays.
func TestThreat31ManyPartsGo(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	s := g.alice.begins()
	g.multiplies(s.puts("0", noise(smallBlocks)), 2500)
	g.ahead.Add(int64(25 * time.Hour))
	const writes = `svcd_part_duration_seconds_count{call="write",part="database"}`
	before := g.metric(writes)
	g.sweeps()
	if n := g.metric(writes) - before; n < 3 {
		t.Errorf("2501 parts went in %d transactions", n)
	}
	g.keepsParts()
	g.alice.login()
	if kept := g.alice.stored("g"); kept.Account.Bytes != 0 {
		t.Errorf("%d bytes are counted", kept.Account.Bytes)
	}
	g.clean(0)
}

// Threat 31: a record without blocks is refused without work on as many as it names.
func TestThreat31FinalizeOfNothing(t *testing.T) {
	t.Parallel()
	const terabytes = int64(1) << 50
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: terabytes, RequestRate: -1})
	alice := r.owner()
	s := alice.begins()
	p := s.puts("0", noise(smallBlocks))
	l := format.Layout{Size: terabytes, BlockBytes: smallBlocks}
	for _, part := range []string{p.ID, strings.Repeat("00", 16)} {
		m := format.Manifest{{First: 0, Count: l.Blocks()}}
		var err error
		m[0].Part, err = format.ParsePartID(part)
		ok(t, err)
		status, answer := alice.puts(alice.sealsBlocks(s.upload, "g", s.key, m, metaOf(t, s.key, l, format.Hash{}, "f"),
			hash(nil)))
		answers(t, "blocks that nobody sent", status, []byte(answer), wire.CodeMissing)
	}
}

// Threat 31: a manifest that is long is counted in the memory of its account while a request
// with it is answered.
func TestThreat31MemoryOfManifests(t *testing.T) {
	t.Parallel()
	const blocks = wire.InlineManifestBytes/format.RunBytes + 1
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: blocks * smallBlocks, RequestRate: -1,
		Memory: 5 * wire.InlineManifestBytes / 2})
	alice := r.owner()
	ref := alice.mustPut(alice.begins().longManifest(blocks, noise(blocks*smallBlocks))).CID
	o := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve,
		wire.PrepareRetrieveRequest{GroupID: "g", IPFSHash: ref, Formats: []int{1, 2}})
	slow, err := http.NewRequest(http.MethodGet, r.url+o.DataURL, nil)
	ok(t, err)
	slow.Header = alice.header()
	answer, err := http.DefaultClient.Do(slow)
	ok(t, err)
	defer answer.Body.Close() // that nobody reads
	status, refusal := alice.fetch(o.TilesURL+"/tile/8/0/000", "")
	answers(t, "beside a slow reader", status, refusal, wire.CodeUnavailable)
	ok(t, answer.Body.Close())
	proctest.Eventually(t, "memory again", func() bool {
		status, _ = alice.fetch(o.TilesURL+"/tile/8/0/000", "")
		return status == http.StatusOK
	})
}

// Threat 31: who finishes an upload does not wait until thousands of parts that the file does
// not use are removed: the sweep removes most of them.
func TestThreat31UnusedParts(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(smallBlocks)
	s := alice.begins()
	r.multiplies(s.puts("0", content), 1100)
	s.finishes(content, "f")
	if n := r.metric(`svcd_part_duration_seconds_count{call="delete",part="blobs"}`); n > 1000 {
		t.Errorf("%d blobs were removed at once", n)
	}
	if n := len(r.partsKept()); n > 1 {
		t.Errorf("%d parts are kept", n)
	}
	r.clean(1)
}
