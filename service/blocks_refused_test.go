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
	alice.adds(bob)
	s := alice.begins(wire.PrepareUploadRequest{})
	body, wrapped, _ := s.sealed(format.Extents{{First: 0, Count: 3}}, noise(3*smallBlocks-5))
	sealed := smallBlocks + format.Overhead
	whole := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g"})
	with := func(name, value string) func(*http.Request) {
		return func(req *http.Request) { req.Header.Set(name, value) }
	}
	to := func(number any, blocks string) func(*http.Request) {
		return func(req *http.Request) {
			req.URL = s.putRequest(number, blocks, "", nil).URL
		}
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
		"no number":                 {to("x", "0-2"), wire.CodeValidation},
		"a negative number":         {to("-1", "0-2"), wire.CodeValidation},
		"two spellings of a number": {to("01", "0-2"), wire.CodeValidation},
		"a number too large":        {to(int64(1)<<31, "0-2"), wire.CodeValidation},
		"no blocks":                 {to(1, ""), wire.CodeValidation},
		"blocks out of order":       {to(1, "2,0-1"), wire.CodeValidation},
		"blocks twice":              {to(1, "0-1,1"), wire.CodeValidation},
		"two spellings of blocks":   {to(1, "0,1,2"), wire.CodeValidation},
		"more blocks than a part":   {to(1, "0-127"), wire.CodeValidation},
		"beyond the largest file":   {to(1, "0-1,1024"), wire.CodeTooLarge},
		"fewer blocks than bytes":   {to(1, "0-1"), wire.CodeValidation},
		"more blocks than bytes":    {to(1, "0-3"), wire.CodeValidation},
		"no key":                    {with(wire.HeaderPartKey, ""), wire.CodeValidation},
		"a short key":               {with(wire.HeaderPartKey, "AAAA"), wire.CodeValidation},
		"a long key":                {with(wire.HeaderPartKey, base64.StdEncoding.EncodeToString(make([]byte, 61))), wire.CodeValidation},
		"no text for a key":         {with(wire.HeaderPartKey, "?"), wire.CodeValidation},
		"an ETag without quotes":    {with("If-Match", "abc"), wire.CodeValidation},
		"a part that is not there":  {with("If-Match", `"abc"`), wire.CodePartExists},
		"another digest":            {with("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(make([]byte, 32))+":"), wire.CodeValidation},
		"no digest":                 {with("Repr-Digest", "sha-256=:AAAA:"), wire.CodeValidation},
		"a body that is too long":   {sent(make([]byte, wire.PartBytes+1)), wire.CodeTooLarge},
		"an empty body":             {sent(nil), wire.CodeValidation},
		"an empty last block":       {sent(body[:2*sealed+format.Overhead]), wire.CodeValidation},
		"unsized, too short":        {unsized(body[:2*sealed]), wire.CodeValidation},
		"unsized, empty":            {unsized(nil), wire.CodeValidation},
		"unsized, an empty block":   {unsized(body[:2*sealed+format.Overhead]), wire.CodeValidation},
		"unsized, a hole":           {unsized(body[:sealed+100]), wire.CodeValidation},
		"unsized, too long":         {unsized(append(body[:3*sealed-5:3*sealed-5], make([]byte, 6)...)), wire.CodeValidation},
		"the upload of another":     {as(bob), wire.CodeNotAuthorized},
		"no upload":                 {func(req *http.Request) { req.URL.Path = wire.PathParts + "nothing/1" }, wire.CodeUploadUnknown},
		"an upload without parts":   {func(req *http.Request) { req.URL.Path = wire.PathParts + whole.UploadID + "/1" }, wire.CodeValidation},
		"nobody":                    {func(req *http.Request) { req.Header.Del("Authorization") }, wire.CodeAuthRequired},
	} {
		t.Run(name, func(t *testing.T) {
			req := s.putRequest(1, "0-2", wrapped, bytes.NewReader(body))
			tc.change(req)
			status, answer := s.do(req)
			answers(t, name, status, answer, tc.code)
		})
	}
	for path, code := range map[string]string{wire.PathParts + "nothing": wire.CodeUploadUnknown, wire.PathParts + whole.UploadID: wire.CodeValidation} {
		status, answer := alice.fetch(path, "")
		answers(t, path, status, answer, code)
	}
	if _, list := alice.fetch(s.prepared.PartsURL, ""); string(list) != `{"parts":[]}` {
		t.Errorf("parts %s", list)
	}
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	for name, request := range map[string]wire.PrepareUploadRequest{
		"blocks too small":   {GroupID: "g", Formats: []int{2}, BlockSize: smallBlocks / 2},
		"blocks too large":   {GroupID: "g", Formats: []int{2}, BlockSize: 2 << 20},
		"no power of two":    {GroupID: "g", Formats: []int{2}, BlockSize: 100_000},
		"negative blocks":    {GroupID: "g", Formats: []int{2}, BlockSize: -smallBlocks},
		"a file too large":   {GroupID: "g", Formats: []int{1, 2}, Size: 65 << 20},
		"resume nothing":     {GroupID: "g", Resume: "nothing"},
		"resume elsewhere":   {GroupID: "other", Resume: s.prepared.UploadID},
		"resume a whole one": {GroupID: "g", Resume: whole.UploadID},
	} {
		code := map[bool]string{true: wire.CodeUploadUnknown, false: wire.CodeValidation}[strings.HasPrefix(request.Resume, "n") || request.GroupID == "other"]
		if request.Size > 0 {
			code = wire.CodeTooLarge
		}
		status, answer := alice.tool(wire.OpPrepareUpload, request)
		answers(t, name, status, []byte(answer), code)
	}
	status, answer := bob.tool(wire.OpPrepareUpload, object{"resume": s.prepared.UploadID})
	answers(t, "resume the upload of another", status, []byte(answer), wire.CodeNotAuthorized)
}

// Of a part whose connection breaks the whole blocks are kept, and the rest comes as another
// part; one that breaks in its first block leaves nothing.
func TestPartsThatBreakOff(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(5*smallBlocks + 9)
	s := alice.begins(wire.PrepareUploadRequest{})
	const sealed = int(smallBlocks + format.Overhead)
	for number, came := range []int{2*sealed + 1000, sealed - 1, 0} {
		body, wrapped, leaves := s.sealed(format.Extents{{First: 0, Count: 4}}, content)
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		ok(t, err)
		fmt.Fprintf(conn, "PUT %s/%d?blocks=0-3 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n",
			s.prepared.PartsURL, number, alice.token, wire.HeaderPartKey, wrapped, len(body))
		_, err = conn.Write(body[:came])
		ok(t, err)
		ok(t, conn.Close())
		if number > 0 {
			continue
		}
		proctest.Eventually(t, "the whole blocks are there", func() bool {
			var parts wire.PartsResult
			_, list := alice.fetch(s.prepared.PartsURL, "")
			ok(t, json.Unmarshal(list, &parts))
			if len(parts.Parts) == 0 {
				return false
			}
			if p := parts.Parts[0]; p.Blocks != "0-1" || p.ETag != rootOf(leaves[:2]) || p.Key != wrapped {
				t.Fatalf("part %+v", p)
			}
			s.has(parts.Parts[0], leaves[:2])
			return true
		})
	}
	proctest.Eventually(t, "nothing is under way", func() bool { return r.metric(inFlight) == 0 })
	s.puts(7, "2-5", content)
	if _, list := alice.fetch(s.prepared.PartsURL, ""); strings.Count(string(list), `"id"`) != 2 {
		t.Errorf("parts %s", list)
	}
	alice.readsBlocks(s.finishes(content, "f").CID, content)
}

// A finalize that does not fit its parts is refused, costs nothing, and can be repeated.
func TestFinalizeOfBlocksRefused(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(4*smallBlocks + 9)
	other := alice.begins(wire.PrepareUploadRequest{})
	other.puts(0, "0-4", content)
	s := alice.begins(wire.PrepareUploadRequest{})
	s.puts(0, "0-2", content)
	s.puts(1, "3-4", content)
	s.puts(2, "2,5", noise(6*smallBlocks)) // left over
	s.runs[2], s.leaves[2] = other.runs[2], other.leaves[2]
	before := alice.balance()
	// finish changes a true request.
	finish := func(change func(*wire.FinalizeUploadRequest, format.Manifest, *format.Metadata) format.Manifest) (int, []byte) {
		again := alice.begins(wire.PrepareUploadRequest{})
		*again = *s
		var parts wire.PartsResult
		_, list := alice.fetch(s.prepared.PartsURL, "")
		ok(t, json.Unmarshal(list, &parts))
		req, raw := s.request(int64(len(content)), "f")
		req.FileHash = hash(content)
		meta, err := format.ParseMetadata(req.Format)
		ok(t, err)
		m, err := format.ParseManifest(raw, meta.Layout().Blocks())
		ok(t, err)
		req.Manifest = base64.StdEncoding.EncodeToString(change(&req, m, &meta).Encode())
		if bytes.Contains(req.Format, []byte("{")) {
			req.Format, err = json.Marshal(meta)
			ok(t, err)
		}
		status, answer := alice.tool(wire.OpFinalizeUpload, req)
		return status, []byte(answer)
	}
	type change = func(*wire.FinalizeUploadRequest, format.Manifest, *format.Metadata) format.Manifest
	meta := func(f func(*format.Metadata)) change {
		return func(_ *wire.FinalizeUploadRequest, m format.Manifest, meta *format.Metadata) format.Manifest {
			f(meta)
			return m
		}
	}
	// The block 2 of s lies in another upload: everything else is true.
	status, answer := finish(meta(func(*format.Metadata) {}))
	answers(t, "a part of another upload", status, answer, wire.CodeMissing)
	if !strings.Contains(string(answer), "than the size says: 2\"") {
		t.Errorf("the answer does not name the block: %s", answer)
	}
	s.puts(3, "2", content)
	for name, tc := range map[string]struct {
		change change
		code   string
	}{
		"a part of nobody": {func(_ *wire.FinalizeUploadRequest, m format.Manifest, _ *format.Metadata) format.Manifest {
			m[0].Part[3] ^= 1
			return m
		}, wire.CodeMissing},
		"a block that its part lacks": {func(_ *wire.FinalizeUploadRequest, m format.Manifest, _ *format.Metadata) format.Manifest {
			m[1].Count, m[2].First, m[2].Count = 2, 4, 1
			return m
		}, wire.CodeMissing},
		"a hole": {func(_ *wire.FinalizeUploadRequest, m format.Manifest, _ *format.Metadata) format.Manifest {
			return m[1:]
		}, wire.CodeValidation},
		"a run twice": {func(_ *wire.FinalizeUploadRequest, m format.Manifest, _ *format.Metadata) format.Manifest {
			return append(m, m[0])
		}, wire.CodeValidation},
		"no run": {func(_ *wire.FinalizeUploadRequest, m format.Manifest, _ *format.Metadata) format.Manifest { return nil }, wire.CodeValidation},
		"a long manifest inside": {func(_ *wire.FinalizeUploadRequest, m format.Manifest, _ *format.Metadata) format.Manifest {
			return make(format.Manifest, wire.InlineManifestBytes/format.RunBytes+1)
		}, wire.CodeTooLarge},
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
		"a link":               {meta(func(m *format.Metadata) { m.ContentType = format.TypeSymlink }), wire.CodeValidation},
		"no hash": {func(req *wire.FinalizeUploadRequest, m format.Manifest, _ *format.Metadata) format.Manifest {
			req.FileHash = ""
			return m
		}, wire.CodeValidation},
		"version 1": {func(req *wire.FinalizeUploadRequest, m format.Manifest, _ *format.Metadata) format.Manifest {
			req.Format = nil
			return m
		}, wire.CodeValidation},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := finish(tc.change)
			answers(t, name, status, answer, tc.code)
		})
	}
	for name, manifest := range map[string]any{"no manifest": "", "no text": "?", "half a run": "AAAA", "a number": 7} {
		req, _ := s.request(int64(len(content)), "f")
		status, answer := alice.tool(wire.OpFinalizeUpload, object{"upload_id": req.UploadID, "file_hash": hash(content), "format": req.Format, "manifest": manifest})
		code := map[bool]string{true: wire.CodeInvalidJSON, false: wire.CodeValidation}[name == "a number"]
		answers(t, name, status, []byte(answer), code)
	}
	whole := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g", "filename": "f"})
	req, _ := s.request(int64(len(content)), "f")
	req.UploadID, req.FileHash = whole.UploadID, hash(content)
	status, text := alice.tool(wire.OpFinalizeUpload, req)
	answers(t, "an upload without parts", status, []byte(text), wire.CodeValidation)
	if now := alice.balance(); now != before {
		t.Errorf("the refusals cost something: %s, then %s", before, now)
	}
	alice.readsBlocks(s.finishes(content, "f").CID, content)
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != 4 {
		t.Errorf("%d blobs are left: want one of the other upload and three of the file", n)
	}
	r.audits()
}

// An upload that was prepared for parts may be finished in format version 1; its parts go.
func TestPartsOfAWholeFile(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	s := alice.begins(wire.PrepareUploadRequest{Filename: "f"})
	s.puts(0, "0-1", noise(2*smallBlocks))
	out := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, wire.FinalizeUploadRequest{UploadID: s.prepared.UploadID,
		EncryptedData: seal(t, s.prepared.Key, []byte("small")), FileHash: hash([]byte("small"))})
	alice.reads(out.CID, "small")
	if n := countFiles(t, filepath.Join(r.dir, "blobs")); n != 0 { // the small file lies in the database
		t.Errorf("%d blobs are left", n)
	}
	r.clean(1)
}

// A manifest that is too long for JSON is sent before, and read by itself.
func TestLongManifest(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	const blocks = wire.InlineManifestBytes/format.RunBytes + 5
	content := noise(blocks*smallBlocks - 3)
	s := alice.begins(wire.PrepareUploadRequest{Filename: "f"})
	for first := int64(0); first < blocks; first += 127 {
		s.puts(int(first), format.Extents{{First: first, Count: min(127, blocks-first)}}.String(), content)
	}
	req, _ := s.request(int64(len(content)), "f")
	req.Manifest, req.FileHash = "", hash(content)
	put := func(raw []byte, size int64) (int, []byte) {
		t.Helper()
		put, err := http.NewRequest(http.MethodPut, r.url+s.prepared.PartsURL+"/"+wire.ManifestPart, bytes.NewReader(raw))
		ok(t, err)
		put.Header, put.ContentLength = s.header(), size
		put.Header.Set("Expect", "100-continue")
		return s.do(put)
	}
	status, answer := put([]byte("x"), format.MaxManifestBytes+1)
	answers(t, "a manifest that is too long", status, answer, wire.CodeTooLarge)
	var m format.Manifest // a run for each block
	for i := range int64(blocks) {
		m = append(m, s.runs[i])
	}
	for _, raw := range [][]byte{m[1:].Encode(), m.Encode()} { // the second replaces the first
		if status, answer := put(raw, int64(len(raw))); status != http.StatusNoContent {
			t.Fatalf("manifest: %d %s", status, answer)
		}
	}
	out := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, req)
	o := alice.opens(out.CID)
	if o.answer.Manifest != "" || o.answer.ManifestURL == "" || len(o.manifest) != blocks {
		t.Errorf("manifest of %d runs, %+v", len(o.manifest), o.answer)
	}
	for _, first := range []int64{0, 126, 500, blocks - 2} {
		if !bytes.Equal(o.blocks(first, 2), content[first*smallBlocks:min((first+2)*smallBlocks, int64(len(content)))]) {
			t.Errorf("blocks %d and on", first)
		}
	}
	r.clean(1)
}

// Parts that are replaced while the upload is finished: either the finish is refused, or the
// file is whole; nothing else is left.
func TestPartsReplacedWhileFinished(t *testing.T) {
	t.Parallel()
	r, alice := runLarge(t)
	content := noise(2*smallBlocks + 1)
	for round := range 10 {
		s := alice.begins(wire.PrepareUploadRequest{Filename: fmt.Sprint(round)})
		p := s.puts(0, "0-1", content)
		s.puts(1, "2", content)
		body, wrapped, _ := s.sealed(format.Extents{{First: 0, Count: 2}}, content)
		req, _ := s.request(int64(len(content)), fmt.Sprint(round))
		req.FileHash = hash(content)
		var put, finished int
		var answer string
		var both sync.WaitGroup
		both.Go(func() {
			again := s.putRequest(0, "0-1", wrapped, bytes.NewReader(body))
			again.Header.Set("If-Match", `"`+p.ETag+`"`)
			put, _ = s.do(again)
		})
		both.Go(func() { finished, answer = alice.tool(wire.OpFinalizeUpload, req) })
		both.Wait()
		switch {
		case finished == http.StatusOK && put != http.StatusConflict, finished == http.StatusConflict && put != http.StatusOK:
			t.Errorf("round %d: the part answers %d, the end %d %s", round, put, finished, answer)
		case finished == http.StatusOK:
			var out struct{ Result wire.FinalizeUploadResult }
			ok(t, json.Unmarshal([]byte(answer), &out))
			alice.readsBlocks(out.Result.CID, content)
		case finished != http.StatusConflict:
			t.Errorf("round %d: %d %s", round, finished, answer)
		}
	}
	ok(t, r.svc.CheckStored(t.Context(), func(what string, err error) { t.Error(what, err) }))
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
	s := bob.begins(wire.PrepareUploadRequest{Filename: "b"})
	s.puts(0, "0-1", content)
	body, wrapped, _ := s.sealed(format.Extents{{First: 2, Count: 1}}, content)
	o := bob.readsBlocks(out.CID, content)
	o.answer.Tiles = nil
	must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": bob.id})
	for _, path := range []string{o.answer.DataURL, o.answer.TilesURL + "/tile/8/0/000.p/3", strings.Replace(o.answer.DataURL, wire.PathBlocks, wire.PathManifest, 1), s.prepared.PartsURL} {
		status, answer := bob.fetch(path, "bytes=0-9")
		answers(t, path[:12], status, answer, wire.CodeNotAuthorized)
	}
	status, answer := s.do(s.putRequest(1, "2", wrapped, bytes.NewReader(body)))
	answers(t, "a part", status, answer, wire.CodeNotAuthorized)
	s.leaves[2], s.runs[2] = s.leaves[1], s.runs[1]
	req, _ := s.request(int64(len(content)), "b")
	req.FileHash = hash(content)
	for op, request := range map[string]any{wire.OpFinalizeUpload: req, wire.OpPrepareUpload: object{"resume": s.prepared.UploadID}} {
		status, text := bob.tool(op, request)
		answers(t, op, status, []byte(text), wire.CodeNotAuthorized)
	}
	alice.readsBlocks(out.CID, content)
}

// Threat 24: a file that is removed or deleted while it is open gives no block more, and a
// ticket is good for one account, one file and seven days.
func TestThreat24BlocksOfAFileThatEnds(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: 1 << 20, Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
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
	one := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": whole.CID, "transfer": "raw", "formats": []int{1, 2}})
	refused("a whole file in blocks", alice, strings.Replace(one.DataURL, wire.PathReadBlob, wire.PathBlocks, 1), wire.CodeFileNotFound)
	for _, path := range []string{"", "tile/8/0/001", "tile/8/0/000", "tile/8/0/000.p/4", "tile/8/1/000.p/1", "tile/8/data/000.p/3", "tile/4/0/000.p/3", "tile/8/62/000.p/1", "../f"} {
		refused("tile "+path, alice, mine.answer.TilesURL+"/"+path, wire.CodeFileNotFound)
	}
	if status, _ := alice.fetch(mine.answer.DataURL, "bytes=9999999-"); status != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range behind the end: %d", status)
	}
	if status, body := alice.fetch(mine.answer.DataURL, "bytes=0-1,5-6"); status != http.StatusOK || int64(len(body)) != mine.answer.DataSize {
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
	for _, path := range []string{mine.answer.DataURL, mine.answer.TilesURL + "/tile/8/0/000.p/3", wire.PathManifest + ticket} {
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
	for name, more := range map[string]object{"SDK 1.0.3": {}, "raw": {"transfer": "raw"}, "format 1": {"formats": []int{1}}, "format 3": {"formats": []int{1, 3}, "transfer": "raw"}} {
		for k, v := range map[string]any{"group_id": "g", "ipfs_hash": out.CID} {
			more[k] = v
		}
		status, answer := alice.tool(wire.OpPrepareRetrieve, more)
		answers(t, name, status, []byte(answer), wire.CodeUnsupported)
		if !strings.Contains(answer, "sealed blocks") || !strings.Contains(answer, "nothing was charged") {
			t.Errorf("%s: %s", name, answer)
		}
	}
	status, answer := alice.post("/tools/"+wire.OpPrepareRetrieve, http.Header{"Authorization": {"Bearer " + alice.token}, wire.HeaderWalletID: {alice.id}}, object{"group_id": "g", "ipfs_hash": out.CID})
	answers(t, "SDK 1.1.1", status, answer, wire.CodeUnsupported)
	if now := alice.balance(); now != before {
		t.Errorf("the refusals cost something: %s, then %s", before, now)
	}
	old := alice.upload("g", "old", []byte("old"))
	answered := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": old.CID, "formats": []int{1, 2}})
	if answered.EncryptedB64 == "" || answered.TilesURL != "" || answered.Manifest != "" {
		t.Errorf("a file of version 1: %+v", answered)
	}
	must[string](alice, wire.OpSetGroupFormat, object{"group_id": "g", "format": 1})
	p := must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload, object{"group_id": "g", "formats": []int{1, 2}})
	if p.PartsURL != "" || p.PartBytes != 0 {
		t.Errorf("in a group of version 1: %+v", p)
	}
	r.audits()
}

// A group that changes to version 1 takes no file of version 2 that was begun before.
func TestBlocksInAGroupThatChanges(t *testing.T) {
	t.Parallel()
	_, alice := runLarge(t)
	content := noise(3 * smallBlocks)
	s := alice.begins(wire.PrepareUploadRequest{})
	s.puts(0, "0-2", content)
	req, _ := s.request(int64(len(content)), "f")
	req.FileHash = hash(content)
	must[string](alice, wire.OpSetGroupFormat, object{"group_id": "g", "format": 1})
	status, answer := alice.tool(wire.OpFinalizeUpload, req)
	answers(t, "version 1 now", status, []byte(answer), wire.CodeUnsupported)
	must[string](alice, wire.OpSetGroupFormat, object{"group_id": "g", "format": 2})
	alice.readsBlocks(s.finishes(content, "f").CID, content)
}

// An upload with parts goes on in another process, lives a day from its last part, and seven
// days at most.
func TestPartsOutliveTheService(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	cfg := service.Config{Database: newDatabase(t), MaxFileBytes: 1 << 20, Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }}
	r := runWith(t, cfg)
	alice := r.owner()
	content := noise(9 * smallBlocks)
	s := alice.begins(wire.PrepareUploadRequest{Filename: "f"})
	for day := range 7 {
		s.puts(day, fmt.Sprint(day), content)
		later.Add(int64(23*time.Hour + 30*time.Minute))
		alice.login()
	}
	s.user = alice.at(r.againWith(cfg))
	again := must[wire.PrepareUploadResult](s.user, wire.OpPrepareUpload, object{"resume": s.prepared.UploadID})
	if again != s.prepared {
		t.Errorf("resumed as %+v", again)
	}
	s.puts(7, "7-8", content)
	s.readsBlocks(s.finishes(content, "f").CID, content)

	s = alice.begins(wire.PrepareUploadRequest{Filename: "f"})
	s.puts(0, "0", content)
	later.Add(int64(24*time.Hour + time.Minute))
	alice.login()
	status, answer := alice.fetch(s.prepared.PartsURL, "")
	answers(t, "a day later", status, answer, wire.CodeUploadUnknown)
	s = alice.begins(wire.PrepareUploadRequest{Filename: "f"})
	for i := range int64(8) {
		later.Add(int64(20 * time.Hour))
		alice.login()
		body, wrapped, _ := s.sealed(format.Extents{{First: 0, Count: 1}}, content)
		if status, answer := s.do(s.putRequest(i, "0", wrapped, bytes.NewReader(body))); status/100 != 2 {
			t.Errorf("a part after %v: %d %s", time.Duration(later.Load()), status, answer)
		}
	}
	later.Add(int64(9 * time.Hour))
	alice.login()
	status, answer = alice.fetch(s.prepared.PartsURL, "")
	answers(t, "a week later", status, answer, wire.CodeUploadUnknown)
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
				s := alice.begins(wire.PrepareUploadRequest{})
				body, wrapped, _ := s.sealed(format.Extents{{First: 0, Count: 64}}, content)
				if status, answer = s.do(s.putRequest(number, "0-63", wrapped, bytes.NewReader(body))); status == http.StatusOK {
					sent++
				}
			}
			answers(t, name, status, answer, tc.code)
			if sent == 0 {
				t.Error("not even one file could be sent")
			}
			if kept := alice.stored("g"); kept.Account.Bytes != int64(sent)*(file+64*format.Overhead) || countFiles(t, filepath.Join(r.dir, "blobs")) != sent {
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
	s, other := alice.begins(wire.PrepareUploadRequest{}), alice.begins(wire.PrepareUploadRequest{})
	last := s.puts(0, "0", noise(smallBlocks))
	put := func(what, code string) {
		t.Helper()
		body, wrapped, _ := s.sealed(format.Extents{{First: 0, Count: 1}}, noise(smallBlocks))
		status, answer := s.do(s.putRequest(40_000, "0", wrapped, bytes.NewReader(body)))
		answers(t, what, status, answer, code)
	}
	r.multiplies(last, s.prepared.UploadID, 32_767)
	put("of an upload", wire.CodeTooLarge)
	var parts wire.PartsResult
	_, list := alice.fetch(s.prepared.PartsURL, "")
	if err := json.Unmarshal(list, &parts); err != nil || len(parts.Parts) != 32_768 || len(list) > wire.MaxJSONBytes {
		t.Errorf("%d parts in %d bytes, %v", len(parts.Parts), len(list), err)
	}
	r.exec("UPDATE uploads SET parts = parts + ? WHERE id = ?", 3*32_768, other.prepared.UploadID)
	put("of an account", wire.CodeRateLimited)
}

// multiplies gives an upload more parts without bytes, in the database alone.
func (r *running) multiplies(p wire.Part, upload string, n int) {
	r.exec(fmt.Sprintf(`INSERT INTO parts (id, blob_id, blob_size, group_id, account, upload_id, number, blocks, block_size, leaves, wrapped_key)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)
		SELECT '%s' || i, '%s' || i, 0, group_id, account, '%s', i, blocks, block_size, leaves, wrapped_key FROM parts, n WHERE id = '%s'`, n, upload, upload, upload, p.ID))
	r.exec("UPDATE uploads SET parts = parts + ? WHERE id = ?", n, upload)
}

// Threat 31: the parts of an upload that ended go some at a time, so that other writers get
// their turn, and nothing of them stays.
func TestThreat31ManyPartsGo(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	s := g.alice.begins(wire.PrepareUploadRequest{})
	g.multiplies(s.puts(0, "0", noise(smallBlocks)), s.prepared.UploadID, 2500)
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

// Threat 31: an upload with parts ends seven days after it began, also while bytes of its
// manifest come.
func TestThreat31PartsEnd(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	s := g.alice.begins(wire.PrepareUploadRequest{})
	content := noise(smallBlocks)
	p := s.puts(0, "0", content)
	for range 7 * 24 / 23 {
		g.ahead.Add(int64(23 * time.Hour))
		g.alice.login()
		body, wrapped, leaves := s.sealed(format.Extents{{First: 0, Count: 1}}, content)
		again := s.putRequest(0, "0", wrapped, bytes.NewReader(body))
		again.Header.Set("If-Match", `"`+p.ETag+`"`)
		if status, answer := s.do(again); status != http.StatusOK {
			t.Fatalf("part: %d %s", status, answer)
		}
		p.ETag = rootOf(leaves)
	}
	g.ahead.Store(int64(7*24*time.Hour - time.Minute))
	g.alice.login()
	if status, answer := g.alice.put(s.prepared, bytes.NewReader(make([]byte, 100))); status != http.StatusNoContent {
		t.Fatalf("manifest: %d %s", status, answer)
	}
	g.ahead.Add(int64(2 * time.Minute))
	status, answer := g.alice.tool(wire.OpPrepareUpload, wire.PrepareUploadRequest{Resume: s.prepared.UploadID})
	answers(t, "resumed after seven days", status, []byte(answer), wire.CodeUploadUnknown)
}

// Threat 31: a finalize without blocks is refused without work on as many as it names.
func TestThreat31FinalizeOfNothing(t *testing.T) {
	t.Parallel()
	const terabytes = int64(1) << 50
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: terabytes, RequestRate: -1})
	alice := r.owner()
	s := alice.begins(wire.PrepareUploadRequest{Filename: "f"})
	p := s.puts(0, "0", noise(smallBlocks))
	l := format.Layout{Size: terabytes, BlockBytes: smallBlocks}
	raw, err := json.Marshal(format.NewBlocksMetadata(l, format.Hash{}, [32]byte{1}, "", "f"))
	ok(t, err)
	for _, part := range []string{p.ID, strings.Repeat("00", 16)} {
		m := format.Manifest{{First: 0, Count: l.Blocks()}}
		m[0].Part, err = format.ParsePartID(part)
		ok(t, err)
		status, answer := alice.tool(wire.OpFinalizeUpload, wire.FinalizeUploadRequest{UploadID: s.prepared.UploadID, Format: raw,
			Manifest: base64.StdEncoding.EncodeToString(m.Encode()), FileHash: hash(nil)})
		answers(t, "blocks that nobody sent", status, []byte(answer), wire.CodeMissing)
	}
}

// Threat 31: a manifest that is long is counted in the memory of its account while a request
// with it is answered.
func TestThreat31MemoryOfManifests(t *testing.T) {
	t.Parallel()
	const blocks = wire.InlineManifestBytes/format.RunBytes + 1
	r := runWith(t, service.Config{Database: newDatabase(t), MaxFileBytes: blocks * smallBlocks, RequestRate: -1, Memory: 5 * wire.InlineManifestBytes / 2})
	alice := r.owner()
	s := alice.begins(wire.PrepareUploadRequest{Filename: "f"})
	content := noise(blocks * smallBlocks)
	var m format.Manifest
	for first := int64(0); first < blocks; first += 127 {
		s.puts(int(first), format.Extents{{First: first, Count: min(127, blocks-first)}}.String(), content)
	}
	for i := range int64(blocks) {
		m = append(m, s.runs[i])
	}
	req, _ := s.request(int64(len(content)), "f")
	req.Manifest, req.FileHash = "", hash(content)
	if status, answer := alice.put(wire.PrepareUploadResult{UploadURL: s.prepared.PartsURL + "/" + wire.ManifestPart}, bytes.NewReader(m.Encode())); status != http.StatusNoContent {
		t.Fatalf("manifest: %d %s", status, answer)
	}
	ref := must[wire.FinalizeUploadResult](alice, wire.OpFinalizeUpload, req).CID
	o := must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, wire.PrepareRetrieveRequest{GroupID: "g", IPFSHash: ref, Formats: []int{1, 2}})
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
	for name, finish := range map[string]func(*sending, []byte){
		"in blocks": func(s *sending, content []byte) { s.finishes(content, "f") },
		"whole": func(s *sending, _ []byte) {
			must[wire.FinalizeUploadResult](s.user, wire.OpFinalizeUpload, object{"upload_id": s.prepared.UploadID, "file_hash": hash(nil), "encrypted_data": make([]byte, 100)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, alice := runLarge(t)
			content := noise(smallBlocks)
			s := alice.begins(wire.PrepareUploadRequest{Filename: "f"})
			r.multiplies(s.puts(0, "0", content), s.prepared.UploadID, 1100)
			finish(s, content)
			if n := r.metric(`svcd_part_duration_seconds_count{call="delete",part="blobs"}`); n > 1000 {
				t.Errorf("%d blobs were removed at once", n)
			}
			if n := len(r.partsKept()); n > 1 {
				t.Errorf("%d parts are kept", n)
			}
			r.clean(1)
		})
	}
}
