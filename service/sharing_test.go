package service_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
)

// block is the plaintext of a block in these tests, in bytes.
const block = format.MinBlockBytes

// large is a version of a file of format version 2, and what its uploader knows.
type large struct {
	wire.FinalizeUploadResult
	plain  []byte
	leaves []format.Hash
	in     []format.PartID // of each block
	keys   map[format.PartID]*format.Key
}

// contentOf is the plaintext of so many blocks, the last of which is short. No two blocks are
// alike.
func contentOf(tag string, blocks int64) []byte {
	plain := make([]byte, (blocks-1)*block+1000)
	for i := int64(0); i < blocks; i++ {
		for at := i * block; at < min((i+1)*block, int64(len(plain))); at += 8 {
			copy(plain[at:], binary.BigEndian.AppendUint64([]byte(tag), uint64(at)))
		}
	}
	return plain
}

// changed is plain with another block.
func changed(plain []byte, number int64, tag string) []byte {
	plain = slices.Clone(plain)
	copy(plain[number*block:min((number+1)*block, int64(len(plain)))], bytes.Repeat([]byte(tag), int(block)))
	return plain
}

// largeUpload is an upload of format version 2 under way.
type largeUpload struct {
	*user
	upload, group, name, base string
	key                       *format.Key
	large
}

// beginsLarge begins an upload of blocks; base is the reference of an earlier version, or "".
func (u *user) beginsLarge(group, name, base string, plain []byte) *largeUpload {
	u.t.Helper()
	key, err := format.RandomKey()
	ok(u.t.(*testing.T), err)
	s := &largeUpload{user: u, upload: newID(), group: group, name: name, base: base, key: key,
		large: large{plain: plain, keys: map[format.PartID]*format.Key{}}}
	n := s.layout().Blocks()
	s.leaves, s.in = make([]format.Hash, n), make([]format.PartID, n)
	return s
}

func (s *largeUpload) layout() format.Layout {
	return format.Layout{Size: int64(len(s.plain)), BlockBytes: block}
}

// put sends blocks as one part, and returns the answer.
func (s *largeUpload) put(blocks string) (status int, part wire.Part, key *format.Key) {
	s.t.Helper()
	list, err := format.ParseExtents(blocks, 1000)
	key, err2 := format.RandomKey()
	if err != nil || err2 != nil {
		s.t.Fatal(err, err2)
	}
	cipher, err := format.NewBlockCipher(key)
	if err != nil {
		s.t.Fatal(err)
	}
	var body []byte
	for _, x := range list {
		for i := x.First; i < x.First+x.Count; i++ {
			begin := len(body)
			if body, err = cipher.Seal(body, i, s.plain[i*block:i*block+s.layout().Plain(i)]); err != nil {
				s.t.Fatal(err)
			}
			s.leaves[i] = format.Leaf(body[begin:])
		}
	}
	req, err := http.NewRequest(http.MethodPut, s.partURL(s.upload, newID(), s.group, block, blocks),
		bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = s.header()
	status, answer := s.do(req)
	_ = json.Unmarshal(answer, &part)
	return status, part, key
}

// puts sends blocks as one part.
func (s *largeUpload) puts(blocks string) format.PartID {
	s.t.Helper()
	status, part, key := s.put(blocks)
	id, err := format.ParsePartID(part.ID)
	if status >= 300 || err != nil || part.Blocks != blocks {
		s.t.Fatalf("put %s: %d %+v %v", blocks, status, part, err)
	}
	s.has(id, key, blocks)
	return id
}

// has notes that blocks lie in a part.
func (s *largeUpload) has(part format.PartID, key *format.Key, blocks string) {
	s.keys[part] = key
	list, _ := format.ParseExtents(blocks, 1000)
	for _, x := range list {
		for i := x.First; i < x.First+x.Count; i++ {
			s.in[i] = part
		}
	}
}

// takes takes blocks over from another version.
func (s *largeUpload) takes(from large, blocks string) {
	list, _ := format.ParseExtents(blocks, 1000)
	for _, x := range list {
		for i := x.First; i < x.First+x.Count; i++ {
			s.in[i], s.leaves[i] = from.in[i], from.leaves[i]
			s.keys[from.in[i]] = from.keys[from.in[i]]
		}
	}
}

// manifest lists the runs.
func (s *largeUpload) manifest() (m format.Manifest) {
	s.t.Helper()
	for i, part := range s.in {
		if n := len(m); n > 0 && m[n-1].Part == part {
			m[n-1].Count++
			continue
		}
		wrapped, err := format.WrapKey(s.key, s.keys[part])
		if err != nil {
			s.t.Fatal(err)
		}
		m = append(m, format.Run{Part: part, First: int64(i), Count: 1, Key: wrapped})
	}
	return m
}

// finish records the upload with a manifest.
func (s *largeUpload) finish(m format.Manifest) (status int, body string) {
	s.t.Helper()
	i := s.sealsBlocks(s.upload, s.group, s.key, m, metaOf(s.t, s.key, s.layout(), format.RootOf(s.leaves), s.name),
		hash(s.plain))
	if i.From = s.base; i.From != "" {
		s.sealsKey(i, i.key, s.id)
	}
	return s.user.puts(i)
}

// finishes records the upload.
func (s *largeUpload) finishes() large {
	s.t.Helper()
	status, body := s.finish(s.manifest())
	var answer struct {
		Result wire.FinalizeUploadResult `json:"result"`
	}
	if status != http.StatusOK || json.Unmarshal([]byte(body), &answer) != nil {
		s.t.Fatalf("finalize: %d %s", status, body)
	}
	s.FinalizeUploadResult = answer.Result
	return s.large
}

// savesAll uploads a version in parts of four blocks.
func (u *user) savesAll(name string, plain []byte) large {
	u.t.Helper()
	s := u.beginsLarge("g", name, "", plain)
	n := s.layout().Blocks()
	for i := int64(0); i < n; i += 4 {
		last := min(i+3, n-1)
		blocks := fmt.Sprintf("%d-%d", i, last)
		if last == i {
			blocks = fmt.Sprint(i)
		}
		s.puts(blocks)
	}
	return s.finishes()
}

// savesBlock uploads a version with one block that differs from the version before.
func (u *user) savesBlock(name string, before large, number int64) large {
	u.t.Helper()
	s := u.beginsLarge("g", name, before.CID, changed(before.plain, number, name+before.CID))
	s.takes(before, format.Extents{{First: 0, Count: int64(len(before.in))}}.String())
	s.puts(fmt.Sprint(number))
	return s.finishes()
}

// readLarge reads a version as a member does, and returns why it cannot.
func (u *user) readLarge(v large) (problem string) {
	u.t.Helper()
	status, body := u.tool(wire.OpPrepareRetrieve,
		object{"group_id": "g", "ipfs_hash": v.CID, "formats": []int{1, 2}, "transfer": "raw"})
	var answer struct {
		Result wire.PrepareRetrieveResult `json:"result"`
	}
	if status != http.StatusOK || json.Unmarshal([]byte(body), &answer) != nil {
		return body
	}
	p := answer.Result
	key, err := format.ParseKey(p.Key)
	meta, err2 := format.ParseMetadata(p.Format)
	raw, err3 := base64.StdEncoding.DecodeString(p.Manifest)
	if err != nil || err2 != nil || err3 != nil {
		u.t.Fatal(err, err2, err3)
	}
	m, err := format.ParseManifest(raw, meta.Layout().Blocks())
	if err != nil {
		u.t.Fatal(err)
	}
	status, sealed := u.fetch(p.DataURL, "")
	if status != http.StatusOK || int64(len(sealed)) != meta.Layout().SealedBytes() {
		return fmt.Sprintf("%d, %d bytes, %.200s", status, len(sealed), sealed)
	}
	var plain []byte
	for i := int64(0); i < meta.Layout().Blocks(); i++ {
		run := m.Find(i)
		part, err := format.UnwrapKey(key, run.Key)
		if err != nil {
			u.t.Fatal(err)
		}
		cipher, err := format.NewBlockCipher(part)
		if err != nil {
			u.t.Fatal(err)
		}
		at := meta.Layout().Offset(i)
		if plain, err = cipher.Open(plain, i, sealed[at:at+meta.Layout().Sealed(i)]); err != nil {
			return fmt.Sprintf("block %d: %v", i, err)
		}
	}
	if !bytes.Equal(plain, v.plain) {
		return "other content"
	}
	return ""
}

func (u *user) readsLarge(versions ...large) {
	u.t.Helper()
	for _, v := range versions {
		if problem := u.readLarge(v); problem != "" {
			u.t.Errorf("%s: %s", v.CID, problem)
		}
	}
}

// partsKept are the blocks of each part, in order of the parts' sizes and blocks.
func (r *running) partsKept() (list []string) {
	r.t.Helper()
	db := r.openDatabase()
	defer db.Close()
	rows, err := db.Query("SELECT blocks FROM parts ORDER BY blocks")
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var blocks string
		ok(r.t.(*testing.T), rows.Scan(&blocks))
		list = append(list, blocks)
	}
	return list
}

func (r *running) keepsParts(want ...string) {
	r.t.Helper()
	slices.Sort(want)
	if got := r.partsKept(); !slices.Equal(got, want) {
		r.t.Errorf("the parts are %q, want %q", got, want)
	}
}

// blobs counts the blobs of the service, also those that nothing refers to.
func (r *running) sweeps() {
	r.t.Helper()
	if err := r.svc.Sweep(r.t.Context()); err != nil {
		r.t.Errorf("sweep: %v", err)
	}
}

// What a version ends gives its space back: parts that no other version uses at once, blocks
// in shared parts with the next sweep, which changes nothing for readers.
func TestSpaceOfEndedVersionsComesBack(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	first := alice.savesAll("f", contentOf("a", 10))
	second := alice.savesBlock("f", first, 2)
	third := alice.savesBlock("f", second, 9)
	r.keepsParts("0-3", "4-7", "8-9", "2", "9")
	alice.readsLarge(first, second, third)
	r.clean(3)
	full := int64(10*(block+format.Overhead)) - block + 1000
	one := int64(block + format.Overhead)
	if got := alice.stored("g"); got.Group.Bytes != full+one+1000+format.Overhead ||
		got.Account.Bytes != got.Group.Bytes {
		t.Errorf("%d bytes are stored", got.Group.Bytes)
	}
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": first.CID})
	r.keepsParts("0-3", "4-7", "8-9", "2", "9") // each has a block of another version
	r.clean(2)
	r.sweeps()
	r.keepsParts("0-1,3", "4-7", "8-9", "2", "9")
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": second.CID})
	r.sweeps()
	r.keepsParts("0-1,3", "4-7", "8", "2", "9")
	alice.readsLarge(third)
	r.clean(1)
	if n := countFiles(t, r.dir+"/blobs"); n != 5 {
		t.Errorf("%d blobs are there", n)
	}
	for _, gone := range []large{first, second} {
		if problem := alice.readLarge(gone); !strings.Contains(problem, wire.CodeFileDeleted) {
			t.Errorf("a deleted version: %s", problem)
		}
	}
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": third.CID})
	r.keepsParts()
	if n := countFiles(t, r.dir+"/blobs"); n != 0 || alice.stored("g").Group.Bytes != 0 {
		t.Errorf("%d blobs, %d bytes are stored", n, alice.stored("g").Group.Bytes)
	}
	r.sweeps()
	r.clean(0)
}

// refusedWith says that a record was refused with a code, and recorded and charged nothing.
func (s *largeUpload) refusedWith(code string, m format.Manifest) {
	s.t.Helper()
	before, seq := s.balance(), s.lastSeq()
	status, body := s.finish(m)
	if status < 400 || !strings.Contains(body, code) {
		s.t.Errorf("finalize: %d %s, want %s", status, body, code)
	}
	if s.balance() != before || s.lastSeq() != seq {
		s.t.Errorf("a refused finalize cost %s, and made records", before)
	}
}

// Threat 49: blocks are taken over only from a version of the same uploader, name, group and
// group key that lives. From any other the service takes none.
func TestThreat49BasesThatAreNotTheCallers(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	bob, eve := r.user("bob", "10"), r.user("eve", "10")
	alice.adds(bob)
	must[string](eve, wire.OpRegisterGroup, object{"group_id": "hidden"})
	alices, bobs := alice.savesAll("f", contentOf("a", 3)), bob.savesAll("f", contentOf("b", 3))
	whole := alice.upload("g", "f", []byte("whole")).CID
	hidden := eve.beginsLarge("hidden", "f", "", contentOf("h", 3))
	hidden.puts("0-2")
	secret := hidden.finishes()
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "mine"})
	other := alice.beginsLarge("mine", "f", "", contentOf("o", 3))
	other.puts("0-2")
	elsewhere := other.finishes()
	removed := alice.savesAll("removed", contentOf("r", 3))
	must[wire.NameResult](alice, wire.OpRemoveFile,
		object{"group_id": "g", "filename": "removed", "seq": alice.lastSeq()})
	deleted := alice.savesAll("f", contentOf("d", 3))
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": deleted.CID})
	for what, tc := range map[string]struct {
		by   *user
		name string
		base large
	}{
		"of another uploader, who owns the group": {bob, "f", alices},
		"of another uploader, to the owner":       {alice, "f", bobs},
		"of a group that the caller cannot read":  {alice, "f", secret},
		"of another group of the caller":          {alice, "f", elsewhere},
		"of another name":                         {alice, "g", alices},
		"from the trash":                          {alice, "removed", removed},
		"whose key is destroyed":                  {alice, "f", deleted},
		"of format version 1": {alice, "f",
			large{FinalizeUploadResult: wire.FinalizeUploadResult{CID: whole}, in: alices.in, leaves: alices.leaves,
				keys: alices.keys}},
		"that nobody made": {alice, "f",
			large{in: alices.in, leaves: alices.leaves, keys: alices.keys}},
	} {
		t.Run(what, func(t *testing.T) {
			if tc.base.CID == "" {
				tc.base.CID = "nothing"
			}
			s := tc.by.beginsLarge("g", tc.name, tc.base.CID, contentOf("new", 3))
			s.puts("1")
			s.takes(tc.base, "0,2")
			s.refusedWith(wire.CodeBase, s.manifest())
		})
	}
	r.clean(-1)
	alice.readsLarge(alices)
}

// Threat 49: a base that stops being one between the two requests ends the takeover, and
// all that is recorded later refers to parts that are there.
func TestThreat49BaseEndsWhileTheUploadIsUnderWay(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		do   func(t *testing.T, g *trashGroup, base large)
		want string
	}{
		"deleted": {func(_ *testing.T, g *trashGroup, base large) {
			must[string](g.alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": base.CID})
		}, wire.CodeBase},
		"into the trash": {func(_ *testing.T, g *trashGroup, base large) {
			must[wire.NameResult](g.alice, wire.OpRemoveFile,
				object{"group_id": "g", "filename": "f", "seq": g.alice.lastSeq()})
		}, wire.CodeBase},
		"another name": {func(_ *testing.T, g *trashGroup, base large) {
			must[string](g.alice, wire.OpRenameFile,
				object{"group_id": "g", "ipfs_hash": base.CID, "filename": "other"})
		}, wire.CodeBase},
		"a revocation": {func(_ *testing.T, g *trashGroup, base large) {
			must[string](g.owner, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": g.bob.id})
		}, wire.CodeBase},
		"the caller is a reader": {func(_ *testing.T, g *trashGroup, base large) {
			g.owner.gives(g.alice, "g", "reader")
		}, wire.CodeReadOnly},
	} {
		t.Run(what, func(t *testing.T) {
			g := runTrash(t)
			base := g.alice.savesAll("f", contentOf("a", 6))
			s := g.alice.beginsLarge("g", "f", base.CID, changed(base.plain, 4, "new"))
			s.takes(base, "0-3,5")
			s.puts("4")
			tc.do(t, g, base)
			g.sweeps()
			s.refusedWith(tc.want, s.manifest())
			g.clean(-1)
			if tc.want != wire.CodeBase || what == "into the trash" {
				return
			}
			again := g.alice.beginsLarge("g", "f", base.CID, s.plain) // sends all, as it is told
			again.puts("0-5")
			g.alice.readsLarge(again.finishes())
			g.clean(-1)
			g.audits()
		})
	}
}

// Threat 49: a base that is thinned while an upload is under way is refused like a deleted
// one; its parts go, and no version refers to them.
func TestThreat49BaseIsThinnedWhileTheUploadIsUnderWay(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	g.owner.keeps("1")
	base := g.alice.savesAll("f", contentOf("a", 6))
	g.wait(1.1)
	g.running.removes(0)
	g.alice.savesBlock("f", base, 1)
	s := g.alice.beginsLarge("g", "f", base.CID, changed(base.plain, 4, "new"))
	s.takes(base, "0-3,5")
	s.puts("4")
	g.ahead.Add(int64(23 * 60 * 60 * 1e9))
	s.puts("5") // the upload goes on
	s.takes(base, "5")
	g.ahead.Add(int64(2 * 60 * 60 * 1e9))
	g.alice.login()
	g.running.removes(1)
	g.sweeps()
	s.refusedWith(wire.CodeBase, s.manifest())
	g.clean(1)
}

// Threat 49: a manifest that names parts which are not the upload's own, nor those of the
// base at the same place.
func TestThreat49ManifestsNameForeignParts(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	bob := r.user("bob", "10")
	alice.adds(bob)
	base := alice.savesAll("f", contentOf("a", 9)) // the parts are 0-3, 4-7, 8
	mine, bobs := alice.savesAll("other", contentOf("o", 9)), bob.savesAll("f", contentOf("b", 9))
	open := alice.beginsLarge("g", "f", "", contentOf("x", 9))
	open.puts("0-8")
	his := bob.beginsLarge("g", "f", "", contentOf("y", 9))
	his.puts("0-8")
	for what, take := range map[string]func(s *largeUpload){
		"of another file of the caller":                  func(s *largeUpload) { s.takes(mine, "0-7") },
		"of another account":                             func(s *largeUpload) { s.takes(bobs, "0-7") },
		"of an unfinished upload of the caller":          func(s *largeUpload) { s.takes(open.large, "0-7") },
		"of an unfinished upload of another account":     func(s *largeUpload) { s.takes(his.large, "0-7") },
		"one block of another file":                      func(s *largeUpload) { s.takes(mine, "3") },
		"the base shifted by a part":                     func(s *largeUpload) { s.shifts(base, 4) },
		"the base shifted by a block":                    func(s *largeUpload) { s.shifts(base, 1) },
		"the short last block of the base as a full one": func(s *largeUpload) { s.takes(base, "8") },
		"a part that nobody made": func(s *largeUpload) {
			s.has(format.PartID{1}, s.keys[base.in[0]], "0")
		},
		"a block of the upload that its part does not have": func(s *largeUpload) { s.in[7] = s.in[9] },
	} {
		t.Run(what, func(t *testing.T) {
			s := alice.beginsLarge("g", "f", base.CID, contentOf("new", 11))
			s.takes(base, "0-7")
			s.puts("8-10")
			take(s)
			s.refusedWith(wire.CodeMissing, s.manifest())
		})
	}
	s := alice.beginsLarge("g", "f", base.CID, contentOf("new", 11)) // the same without a lie
	copy(s.plain, base.plain[:8*block])
	s.takes(base, "0-7")
	s.puts("8-10")
	alice.readsLarge(s.finishes(), base, mine)
	bob.readsLarge(bobs)
	r.clean(4)
}

// shifts takes blocks over from other places.
func (s *largeUpload) shifts(from large, by int) {
	for i := 0; i+by < 8; i++ {
		s.in[i], s.leaves[i] = from.in[i+by], from.leaves[i+by]
	}
}

// Threat 49: deletions, sweeps and uploads that take blocks over race; no version ever refers
// to a block that is gone.
func TestThreat49DeletionRacesTakeover(t *testing.T) {
	t.Parallel()
	r := runAtOnce(t)
	alice := r.owner()
	newest := alice.savesAll("f", contentOf("a", 9))
	versions := make(chan large, 100)
	var all sync.WaitGroup
	var stop atomic.Bool
	all.Go(func() {
		for v := range versions {
			if status, body := alice.tool(wire.OpDeleteFile,
				object{"group_id": "g", "ipfs_hash": v.CID}); status != http.StatusOK {
				t.Errorf("delete: %d %s", status, body)
			}
		}
	})
	all.Go(func() {
		for !stop.Load() {
			if err := r.svc.Sweep(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("sweep: %v", err)
			}
		}
	})
	refusals := 0
	for i := range 16 {
		number := int64(i % 9)
		s := alice.beginsLarge("g", "f", newest.CID, changed(newest.plain, number, fmt.Sprint("new", i)))
		s.takes(newest, "0-8")
		s.puts(fmt.Sprint(number))
		if i%2 == 0 {
			versions <- newest // now
		}
		status, body := s.finish(s.manifest())
		var answer struct {
			Result wire.FinalizeUploadResult `json:"result"`
		}
		switch {
		case status == http.StatusOK && json.Unmarshal([]byte(body), &answer) == nil:
			s.FinalizeUploadResult, newest = answer.Result, s.large
			newest.FinalizeUploadResult = answer.Result
		case strings.Contains(body, wire.CodeBase) || strings.Contains(body, wire.CodeMissing):
			refusals++
			newest = alice.savesAll("f", s.plain)
		default:
			t.Fatalf("finalize: %d %s", status, body)
		}
	}
	close(versions)
	stop.Store(true)
	all.Wait()
	t.Logf("%d of 16 were refused", refusals)
	r.sweeps()
	r.clean(-1)
	alice.readsLarge(newest)
}
