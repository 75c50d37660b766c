package web_test

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/format/formattest"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/enginetest"
)

// readVector is run in the page: it reads a vector as the page reads a file, and tells what came.
const readVector = `(async (name) => {
	const { readBlocks } = await import("/account/blocks.js");
	const { fromBase64, hex } = await import("/account/bytes.js");
	const { SHA256 } = await import("/account/sha256.js");
	const v = await (await fetch("/vectors/" + name)).json();
	const source = {
		manifest: async () => fromBase64(v.manifest),
		tile: async (path) => { if (!(path in v.tiles)) throw new Error("no such tile"); return fromBase64(v.tiles[path]); },
		stream: async (from) => (await fetch("/vectors/" + name + "/data?from=" + from)).body.getReader(),
	};
	const sum = new SHA256();
	let size = 0, why = "";
	try {
		for await (const plain of readBlocks(v, { key: v.key, format: v.format, size: v.size }, source)) { sum.update(plain); size += plain.length; }
	} catch (error) { why = error.constructor.name + ": " + error.message; }
	return { sum: hex(sum.digest()), size, why };
})(%q)`

// pageReasons match what the page says for a result.
var pageReasons = map[string]string{"content": "describes another file", "key": "a key that is not the file's",
	"version":        "another format",
	"authentication": "tag does not fit", "unsupported": "does not know", "proof": "tree",
	"corrupt": "Its manifest|key that is none|Its description|another length"}

// The page reads every frozen vector of format version 2 as the library does, and uses no byte that was
// not proven.
func TestPageReadsFrozenVectors(t *testing.T) {
	t.Parallel()
	s := serve(t)
	vectors := formattest.Read(t, os.DirFS("../../format/testdata/blocks"))
	data := map[string][]byte{}
	for name, v := range vectors {
		data[name] = v.Bytes(t)
	}
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rest, ok := strings.CutPrefix(r.URL.Path, "/vectors/")
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		name, wantsData := strings.CutSuffix(rest, "/data")
		v := vectors[name]
		if wantsData {
			var from int
			_, _ = fmt.Sscan(r.FormValue("from"), &from)
			_, _ = w.Write(data[name][from:])
			return
		}
		_ = json.NewEncoder(w).Encode(object{"content": v.Content, "file_hash": v.FileHash, "key": v.Key,
			"format": v.Format, "manifest": v.Manifest, "tiles": v.Tiles, "size": len(data[name])})
	}
	b := open(t, s.url+"/account/")
	proven := map[string]int64{"flip-iv": 0, "flip-tag": 0, "wrong-index": 65536, "wrong-index-recorded": 65536,
		"flip-last-block": 131072, "sealed-again": 0, "sealed-again-tile": 0,
		"tile-flip": 0, "leaf-for-node": 0, "sealed-again-deep": 0}
	for _, name := range slices.Sorted(maps.Keys(vectors)) {
		v := vectors[name]
		if v.Content == "" { // the page reads it as an earlier version
			continue
		}
		got := eval[struct {
			Sum, Why string
			Size     int64
		}](b, fmt.Sprintf(readVector, name))
		if v.Result == "ok" {
			if got.Why != "" || got.Sum != v.SHA256 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		want, some := proven[name]
		early := v.Result != "proof" && v.Result != "authentication" && !strings.HasPrefix(name, "appended")
		if name == "tile-absent" {
			want, some, early = 0, true, false
		} else if !strings.HasPrefix(got.Why, "Mismatch: ") ||
			!regexp.MustCompile(pageReasons[v.Result]).MatchString(got.Why) {
			t.Errorf("%s: %s: %+v", name, v.Result, got)
		}
		if got.Why == "" || some && got.Size != want || early && got.Size != 0 {
			t.Errorf("%s: %s: %+v, want %d bytes", name, v.Result, got, want)
		}
	}
}

// sent is a version in blocks, as its uploader knows it.
type sent struct {
	ref    string
	in     map[int64]format.PartID
	leaves map[int64]format.Hash
	keys   map[format.PartID]*format.Key
}

// saveBlocks saves content in blocks of 64 KiB: those of changed in parts of two or a third of them, the others from
// the version before. sum is the hash that is recorded, "" for none.
func (u *user) saveBlocks(group, name string, content []byte, from *sent, changed []int64, sum string) *sent {
	u.t.Helper()
	must := func(err error) {
		u.t.Helper()
		if err != nil {
			u.t.Fatal(err)
		}
	}
	out := &sent{in: map[int64]format.PartID{}, leaves: map[int64]format.Hash{}, keys: map[format.PartID]*format.Key{}}
	head := object{"group_id": group, "file_hash": sum, "versioned": true}
	if from != nil {
		maps.Copy(out.in, from.in)
		maps.Copy(out.leaves, from.leaves)
		maps.Copy(out.keys, from.keys)
		head["from"] = from.ref
	}
	key, err := format.RandomKey()
	must(err)
	var upload format.PartID
	_, _ = rand.Read(upload[:]) // never fails
	for list := range slices.Chunk(changed, max(2, len(changed)/3)) {
		part, err := format.RandomKey()
		must(err)
		c, err := format.NewBlockCipher(part)
		must(err)
		var id format.PartID
		_, _ = rand.Read(id[:]) // never fails
		var body []byte
		var extents format.Extents
		for _, i := range list {
			at := len(body)
			body, err = c.Seal(body, i,
				content[i*format.MinBlockBytes:min((i+1)*format.MinBlockBytes, int64(len(content)))])
			must(err)
			out.in[i], out.leaves[i], extents = id, format.Leaf(body[at:]), extents.Add(i)
		}
		out.keys[id] = part
		query := url.Values{"group_id": {group}, "block_size": {fmt.Sprint(format.MinBlockBytes)},
			"blocks": {extents.String()}}
		req, err := http.NewRequest(http.MethodPut,
			u.url+wire.PathParts+upload.String()+"/"+id.String()+"?"+query.Encode(), bytes.NewReader(body))
		must(err)
		req.Header = http.Header{wire.HeaderAPIKey: {u.key}, wire.HeaderAccountID: {u.id}}
		if status, answer := do(u.t, http.DefaultClient, req); status != http.StatusOK {
			u.t.Fatalf("part: %d %s", status, answer)
		}
	}
	l := format.Layout{Size: int64(len(content)), BlockBytes: format.MinBlockBytes}
	var m format.Manifest
	var tree format.Tree
	for i := range l.Blocks() {
		wrapped, err := format.WrapKey(key, out.keys[out.in[i]])
		must(err)
		m = append(m, format.Run{Part: out.in[i], First: i, Count: 1, Key: wrapped})
		tree.Add(out.leaves[i])
	}
	check, err := format.KeyCheck(key)
	must(err)
	head["id"], head["key"], head["format"] = upload.String(), key.Base64(),
		format.NewBlocksMetadata(l, tree.Root(), check, "", name)
	c := u.signedIn()
	head["base"] = list(u.get(c, "names?group="+group+"&name="+url.QueryEscape(name))["names"])[0]["head"]
	status, answer := do(u.t, c, u.frame(head, m.Encode()))
	if status != http.StatusOK {
		u.t.Fatalf("record: %d %s", status, answer)
	}
	out.ref = decode(u.t, answer)["result"].(map[string]any)["location"].(string)
	return out
}

// frame is an upload as the page sends it.
func (s *site) frame(head object, body []byte) *http.Request {
	s.t.Helper()
	head["blob_size"] = len(body)
	if head["blob_hash"] == nil {
		head["blob_hash"] = fmt.Sprintf("%x", sumOf(body))
	}
	raw, err := json.Marshal(head)
	if err != nil {
		s.t.Fatal(err)
	}
	frame := slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw, body)
	req := s.page(http.MethodPut, fmt.Sprint("uploads/", head["id"]), nil)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(frame)), int64(len(frame))
	req.Header.Set("Content-Type", "application/octet-stream")
	return req
}

func numbers(n int64) (list []int64) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// flipPart changes a byte of the last block of a file in blocks, which is short.
func (s *site) flipPart(ref string) {
	s.t.Helper()
	db := s.openDatabase()
	defer db.Close()
	var blob string
	query := fmt.Sprintf("SELECT blob_id FROM parts JOIN part_uses ON part = id WHERE ref = '%s' AND blob_size "+
		"%% %d > 0", ref, format.MinBlockBytes+format.Overhead)
	if err := db.QueryRow(query).Scan(&blob); err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.dir, "blobs", blob[:2], blob)
	raw, err := os.ReadFile(path)
	if err == nil {
		raw[len(raw)-20] ^= 1
		if err = os.Chmod(path, 0o600); err == nil {
			err = os.WriteFile(path, raw, 0o600)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestVerifyLargeFilesInTheBrowser(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *service.Config) { cfg.MaxFileBytes = 64 << 20 })
	var cuts atomic.Int32 // connections that break in the middle
	s.front = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/account/api"+wire.PathBlocks) && cuts.Add(-1) >= 0 {
			w = &cutWriter{w, 150_000}
		}
		next.ServeHTTP(w, r)
	}
	alice := s.user("alice", "10")
	alice.register("team")
	content := random(5*64<<10 + 77)
	sum := func(b []byte) string { return fmt.Sprintf("%x", sumOf(b)) }
	film := alice.saveBlocks("team", "film.mkv", content, nil, numbers(6), sum(content))
	alice.saveBlocks("team", "lie.bin", content, nil, numbers(6), sum([]byte("another")))
	long := random(260 * 64 << 10)
	alice.saveBlocks("team", "long.bin", long, nil, numbers(260), sum(long))
	const newest = `document.querySelector(".versions tbody tr .result")`
	b := alice.browse()
	verify := func(name, price, verdict string) {
		t.Helper()
		b.js("location.hash = '#/file/team/" + name + "'")
		b.click("Verify " + name)
		b.sees("Nothing is kept.")
		b.js(newest + `.replaceChildren()`)
		b.click("Verify" + price)
		b.await(newest + `?.querySelector(".badge")`)
		if got := eval[string](b, newest+`.innerText`); !strings.HasPrefix(got, verdict) {
			t.Errorf("%s: %s", name, got)
		}
	}
	verify("long.bin", " for 0.013 tokens", "byte-identical")
	verify("lie.bin", " for 0.013 tokens", "byte-mismatched")
	b.sees("its uploader recorded another")

	downloads := b.downloads()
	b.expect("ERR_CONTENT_LENGTH_MISMATCH")
	b.expect("ERR_INCOMPLETE_CHUNKED_ENCODING")
	cuts.Store(2)
	verify("film.mkv", " for 0.013 tokens", "byte-identical")
	if cuts.Load() >= 0 {
		t.Error("no connection broke")
	}
	if got := b.download("film.mkv"); got != "Verified and saved" {
		t.Error(got)
	}
	proctest.Eventually(t, "film.mkv is downloaded", func() bool {
		got, err := os.ReadFile(filepath.Join(downloads, "film.mkv"))
		return err == nil && bytes.Equal(got, content)
	})

	next := bytes.Clone(content)
	copy(next[2*64<<10:], "changed")
	alice.saveBlocks("team", "film.mkv", next, film, []int64{2}, "")
	b.js("location.hash = '#/ledger'")
	b.sees("Spent in")
	b.js("location.hash = '#/file/team/film.mkv'")
	b.click("Verify film.mkv")
	b.sees("none, because the uploader sent only what changed")
	b.click("Cancel")
	verify("film.mkv", " for 0.013 tokens", "byte-identical")
	s.flipPart(film.ref)
	if got := b.download("film.mkv"); !strings.HasPrefix(got, "byte-mismatched") {
		t.Error(got)
	}
	b.js(stubPicker)
	const saving = `import("/account/verify.js").then((v) => v.save("team", row, () => {})).then(() => "saved", (error) => error.constructor.name + " " + saved.name)`
	b.js(
		`fetch("api/file?group=team&name=film.mkv").then((r) => r.json()).then((page) => { window.row = page.files[0]; })`)
	b.await("window.row")
	if got := eval[string](b, saving); got != "Mismatch aborted" {
		t.Errorf("a damaged file that is written while it comes: %s", got)
	}
	verify("film.mkv", ", free", "byte-mismatched")
}

// stubPicker stands for the browser's own dialog, which is not there for tests: it takes what is saved.
const stubPicker = `window.saved = []; window.showSaveFilePicker = async ({ suggestedName }) => ({ createWritable: async () => ({
	write: async (part) => { saved.push(part); }, close: async () => { saved.name = suggestedName; }, abort: async () => { saved.length = 0; saved.name = "aborted"; } }) })`

const savedSum = `new Blob(saved).arrayBuffer().then((all) => crypto.subtle.digest("SHA-256", all)).then((d) => Array.from(new Uint8Array(d), (x) => x.toString(16).padStart(2, "0")).join(""))`

// cutWriter breaks a connection after some bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		_, _ = c.ResponseWriter.Write(p[:max(0, len(p)+c.left)])
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// Threat 31: downloads of the page that stall hold no memory, as those of programs hold none.
func TestThreat31DownloadsOfThePageHoldNoMemory(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *service.Config) { cfg.Memory, cfg.MaxFileBytes = service.MinMemory, 64<<20 })
	alice, bob := s.user("alice", "10"), s.user("bob", "10")
	alice.register("team")
	alice.add("team", bob.id)
	ref := alice.upload("team", "f", random(16<<20), nil, "").CID
	for _, u := range []*user{alice, bob} {
		c := u.signedIn()
		_, body := do(t, c, s.page(http.MethodPost, "tools/prepare_retrieve",
			object{"group_id": "team", "ipfs_hash": ref, "transfer": wire.TransferRaw}))
		address, _ := decode(t, body)["result"].(object)["data_url"].(string)
		for range 4 {
			resp, err := c.Do(s.page(http.MethodGet, strings.TrimPrefix(address, "/"), nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatal(resp.Status)
			}
		}
	}
	s.user("carol", "10").register("another")
}

// Content is for members with a ticket of theirs, at each request.
func TestContentOfThePageIsForMembers(t *testing.T) {
	t.Parallel()
	enginetest.OnBoth(t, func(t *testing.T) {
		s := serve(t)
		alice, bob := s.user("alice", "10"), s.user("bob", "10")
		alice.register("team")
		alice.add("team", bob.id)
		content := random(2*64<<10 + 1)
		ref := alice.saveBlocks("team", "f", content, nil, numbers(3), fmt.Sprintf("%x", sumOf(content))).ref
		whole := alice.upload("team", "whole", random(wire.InlineBlobBytes), nil, "").CID
		member, stranger, nobody := bob.signedIn(), s.user("carol", "10").signedIn(), client(t)
		retrieve := func(c *http.Client, ref string) (int, string) {
			return do(t, c, s.page(http.MethodPost, "tools/prepare_retrieve",
				object{"group_id": "team", "ipfs_hash": ref, "formats": []int{1, 2}, "transfer": wire.TransferRaw}))
		}
		read := func(c *http.Client, address, ranges string) (int, string) {
			req := s.page(http.MethodGet, "", nil)
			req.URL.Path = address
			if ranges != "" {
				req.Header.Set("Range", ranges)
			}
			return do(t, c, req)
		}
		statuses := func(do func(*http.Client) (int, string)) (list []int) {
			for _, c := range []*http.Client{member, stranger, nobody} {
				status, _ := do(c)
				list = append(list, status)
			}
			return list
		}
		tickets := map[string]string{}
		for ref, path := range map[string]string{ref: wire.PathBlocks, whole: wire.PathReadBlob} {
			got := statuses(func(c *http.Client) (int, string) { return retrieve(c, ref) })
			if !slices.Equal(got, []int{200, 403, 401}) {
				t.Errorf("%v retrieve as a member, a stranger and nobody", got)
			}
			_, body := retrieve(member, ref)
			address, _ := decode(t, body)["result"].(object)["data_url"].(string)
			var isAddress bool
			if tickets[ref], isAddress = strings.CutPrefix(address, path); !isAddress {
				t.Fatal(body)
			}
		}
		inBlocks, inOnePiece := tickets[ref], tickets[whole]
		const ofPage = "/account/api"
		addresses := []string{ofPage + wire.PathBlocks + inBlocks, ofPage + wire.PathManifest + inBlocks,
			ofPage + wire.PathTiles + inBlocks + "/tile/8/0/000.p/3", ofPage + wire.PathReadBlob + inOnePiece}
		for _, address := range addresses {
			got := statuses(func(c *http.Client) (int, string) { return read(c, address, "") })
			if !slices.Equal(got, []int{200, 404, 401}) {
				t.Errorf("%s: %v of a member with his ticket, a stranger and nobody", address, got)
			}
			status, body := read(member, strings.TrimPrefix(address, ofPage), "")
			if status != http.StatusUnauthorized {
				t.Errorf("%s of programs in a session: %d %s", address, status, body)
			}
		}
		for _, address := range []string{
			wire.PathBlocks + inOnePiece, wire.PathManifest + inOnePiece, wire.PathReadBlob + inBlocks,
			wire.PathTiles + inOnePiece + "/tile/8/0/000.p/3", wire.PathTiles + inBlocks + "/tile/8/0/000",
			wire.PathTiles + inBlocks + "/", wire.PathBlocks + "none", wire.PathReadBlob + "none.none",
		} {
			if got, body := read(member, ofPage+address, ""); got != http.StatusNotFound {
				t.Errorf("%s: %d %s", address, got, body)
			}
		}
		for _, ranges := range []string{"bytes=131157-", "bytes=x-", "bytes=9223372036854775808-"} {
			if got, _ := read(member, addresses[0], ranges); got != http.StatusRequestedRangeNotSatisfiable {
				t.Errorf("%s: %d", ranges, got)
			}
		}
		status, last := read(member, addresses[0], "bytes=131155-")
		_, all := read(member, addresses[0], "")
		if status != http.StatusPartialContent || len(all) != 131157 || last != all[131155:] {
			t.Errorf("from a byte on: %d with %d of %d bytes", status, len(last), len(all))
		}
		s.post(alice.signedIn(), "tools/revoke_group_member", object{"group_id": "team", "member_id": bob.id})
		for _, address := range addresses {
			if got, body := read(member, address, ""); got != http.StatusForbidden {
				t.Errorf("%s after the revocation: %d %s", address, got, body)
			}
		}
	})
}
