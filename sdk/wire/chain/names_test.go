package chain

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// placed is what lives under a name.
type placed struct {
	Living
	name string
	made bool
}

// naiveRoot is the root of names by the words of service/LEDGER.md, without a trie that is kept.
func naiveRoot(all []placed) Hash { return naiveTrie(naiveFolder(all, true), 0) }

// naiveFolder gives the hash of each component in a folder, by its key.
func naiveFolder(all []placed, isTop bool) map[Hash]Hash {
	type inside struct{ files, made, beneath []placed }
	components := map[string]*inside{}
	for _, p := range all {
		component, below, deeper := strings.Cut(p.name, "/")
		if p.name == "" && isTop {
			component = "/" + p.Ref
		}
		c := components[component]
		if c == nil {
			c = &inside{}
			components[component] = c
		}
		switch {
		case deeper:
			p.name = below
			c.beneath = append(c.beneath, p)
		case p.made:
			c.made = append(c.made, p)
		default:
			c.files = append(c.files, p)
		}
	}
	leaves := map[Hash]Hash{}
	for component, c := range components {
		folder := Hash{}
		if len(c.made)+len(c.beneath) > 0 {
			made, root := naiveList(4, c.made), naiveTrie(naiveFolder(c.beneath, false), 0)
			folder = sha256.Sum256(slices.Concat([]byte{5}, made[:], root[:]))
		}
		key, versions := sha256.Sum256([]byte(component)), naiveList(3, c.files)
		leaves[key] = sha256.Sum256(slices.Concat([]byte{2}, key[:], versions[:], folder[:]))
	}
	return leaves
}

func naiveList(domain byte, list []placed) (sum Hash) {
	slices.SortFunc(list, func(a, b placed) int { return int(a.Number - b.Number) })
	text := func(s string) []byte {
		return append(binary.BigEndian.AppendUint64(nil, uint64(len(s))), s...)
	}
	for _, p := range list {
		sum = sha256.Sum256(slices.Concat([]byte{domain}, text(p.Ref), binary.BigEndian.AppendUint64(nil, uint64(p.Number)), p.Hash[:],
			text(p.Attributes), sum[:]))
	}
	return sum
}

func naiveTrie(leaves map[Hash]Hash, depth int) Hash {
	switch len(leaves) {
	case 0:
		return Hash{}
	case 1:
		for _, sum := range leaves {
			return sum
		}
	}
	sides := [2]map[Hash]Hash{{}, {}}
	for key, sum := range leaves {
		sides[key[depth/8]>>(7-depth%8)&1][key] = sum
	}
	left, right := naiveTrie(sides[0], depth+1), naiveTrie(sides[1], depth+1)
	return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
}

// fresh is a tree of what lives, made at once.
func fresh(all []placed) (n Names) {
	for _, p := range all {
		if p.made {
			n.Make(p.name, p.Living)
		} else {
			n.Put(p.name, p.Living)
		}
	}
	return n
}

// inOrder is the root of what lives, computed without a tree.
func inOrder(all []placed) Hash {
	items := make([]Item, len(all))
	for i, p := range all {
		items[i] = NewItem(p.name, p.made, p.Living)
	}
	slices.SortFunc(items, Item.Compare)
	var root RootOf
	for _, item := range items {
		root.Add(item)
	}
	return root.Root()
}

// world is a group by its records, and what they mean by a search through all files.
type world struct {
	replay Replay
	files  map[string]*modeled
	number int64
}

type modeled struct {
	placed
	trash bool
}

func (w *world) record(kind, ref, detail string, tags ...Tag) Living {
	w.number++
	r := Row{Record: Record{Kind: kind, Ref: ref, Detail: detail, Number: w.number, Tags: tags}}
	r.Hash = r.Sum()
	w.replay.Apply(&r)
	return Living{Ref: ref, Place: Place{r.Number, r.Hash}, Attributes: r.Tag(TagAttributes)}
}

func (w *world) living() (all []placed) {
	for _, f := range w.files {
		if !f.trash {
			all = append(all, f.placed)
		}
	}
	return all
}

// some draws a file or folder, nil if there is none.
func (w *world) some(t *rapid.T, made, trash bool) *modeled {
	var refs []string
	for ref, f := range w.files {
		if f.made == made && f.trash == trash {
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return nil
	}
	slices.Sort(refs)
	return w.files[rapid.SampledFrom(refs).Draw(t, "ref")]
}

// aName draws a name of a few components, so that names meet: also as files and folders at once.
func aName(t *rapid.T) string {
	name := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 1, 3).Draw(t, "name"), "/")
	return cmp.Or(name, "a")
}

// aFolder draws a name that a folder may have.
func aFolder(t *rapid.T) string { return cmp.Or(strings.Trim(aName(t), "/"), "a") }

// Whatever happened in a group: the tree that followed its records is the one that what lives gives anew, also when
// it went on from a table; and its proofs hold.
func TestNamesFollowTheRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{files: map[string]*modeled{}}
		act := map[string]func(*rapid.T){"": w.check}
		maps.Copy(act, w.fileActions())
		maps.Copy(act, w.folderActions())
		t.Repeat(act)
	})
}

func (w *world) fileActions() map[string]func(*rapid.T) {
	change := func(trash bool, what func(*rapid.T, *modeled)) func(*rapid.T) {
		return func(t *rapid.T) {
			if f := w.some(t, false, trash); f != nil {
				what(t, f)
			}
		}
	}
	upload := func(t *rapid.T) {
		name, ref := aName(t), fmt.Sprint("ref", w.number)
		if rapid.IntRange(0, 9).Draw(t, "unnamed") == 0 {
			name = ""
		}
		v := w.record(KindRecord, ref, name, Tag{TagAttributes, rapid.SampledFrom([]string{"", "{}"}).Draw(t, "attributes")})
		w.files[ref] = &modeled{placed: placed{Living: v, name: name}}
	}
	return map[string]func(*rapid.T){
		"upload": upload, "upload too": upload,
		"rename": change(false, func(t *rapid.T, f *modeled) {
			f.name = aName(t)
			w.record(KindRename, f.Ref, f.name)
		}),
		"attributes": change(false, func(t *rapid.T, f *modeled) {
			f.Attributes = fmt.Sprint(w.number)
			w.record(KindAttributes, f.Ref, "", Tag{TagAttributes, f.Attributes})
		}),
		"remove":  change(false, func(_ *rapid.T, f *modeled) { w.record(KindRemove, f.Ref, ""); f.trash = true }),
		"restore": change(true, func(_ *rapid.T, f *modeled) { w.record(KindRestore, f.Ref, ""); f.trash = false }),
		"delete":  change(false, func(_ *rapid.T, f *modeled) { w.record(KindTombstone, f.Ref, ""); delete(w.files, f.Ref) }),
		"empty the trash": change(true, func(_ *rapid.T, f *modeled) {
			w.record(KindTombstone, f.Ref, "")
			delete(w.files, f.Ref)
		}),
		"end the group": func(t *rapid.T) {
			if rapid.IntRange(0, 19).Draw(t, "really") > 0 {
				return
			}
			w.record(KindDeleteGroup, "", "")
			for ref, f := range w.files {
				if !f.made {
					w.record(KindTombstone, ref, "")
					delete(w.files, ref)
				}
			}
		},
	}
}

func (w *world) folderActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"make folder": func(t *rapid.T) {
			name, ref := aFolder(t), fmt.Sprint("ref", w.number)
			w.files[ref] = &modeled{placed: placed{Living: w.record(KindMakeFolder, ref, name), name: name, made: true}}
		},
		"remove folder": func(t *rapid.T) {
			if f := w.some(t, true, false); f != nil {
				w.record(KindRemoveFolder, f.Ref, f.name)
				delete(w.files, f.Ref)
			}
		},
		"rename folder": func(t *rapid.T) {
			before, after := aFolder(t), aName(t)
			w.record(KindRenameFolder, "", after, Tag{TagFolder, before})
			for _, f := range w.files {
				within := strings.HasPrefix(f.name, before+"/") || f.made && f.name == before
				if IsFolderMove(before, after) && within && !f.trash {
					f.name = after + strings.TrimPrefix(f.name, before)
				}
			}
		},
		"begin again from a table": func(*rapid.T) {
			again := Replay{Number: w.number}
			for _, f := range w.files {
				if f.made {
					again.AddFolder(f.name, f.Living)
				} else {
					again.AddFile(f.name, f.Living, f.trash)
				}
			}
			w.replay = again
		},
	}
}

func (w *world) check(t *rapid.T) {
	all := w.living()
	again := fresh(all)
	root := w.replay.Root()
	if again.Root() != root || naiveRoot(all) != root || w.replay.Number != w.number {
		t.Fatalf("the records give %x, what lives %x, its description %x", root, again.Root(), naiveRoot(all))
	}
	if got := inOrder(all); got != root {
		t.Fatalf("the records give %x, and what lives, one after the other, %x", root, got)
	}
	if got, want := w.replay.Names.Footprint(), again.Footprint(); got != want || len(all) == 0 && got != 0 {
		t.Fatalf("it counts %d bytes, one made anew %d", got, want)
	}
	checkName(t, &w.replay.Names, all, aName(t), rapid.IntRange(1, 3).Draw(t, "most"))
	checkFolder(t, &w.replay.Names, all, aName(t))
	checkFolder(t, &w.replay.Names, all, "")
}

// versionsOf are the versions of a name, the newest first.
func versionsOf(all []placed, name string) (list []Living) {
	for _, p := range all {
		if p.name == name && !p.made {
			list = append(list, p.Living)
		}
	}
	slices.SortFunc(list, func(a, b Living) int { return int(b.Number - a.Number) })
	return list
}

func checkName(t *rapid.T, n *Names, all []placed, name string, most int) {
	raw := n.Prove(name, most).Encode()
	p, err := ParseNameProof(raw)
	if err != nil {
		t.Fatal(err)
	}
	found, ok := p.Open(n.Root(), name)
	want := versionsOf(all, name)
	shown := want[:min(most, len(want))]
	isFolder := slices.ContainsFunc(all, func(p placed) bool {
		return strings.HasPrefix(p.name, name+"/") || p.made && p.name == name
	})
	if !ok || !slices.Equal(found.Versions, shown) || (found.Older != Hash{}) != (len(want) > most) || (found.Folder != Hash{}) != isFolder {
		t.Fatalf("the proof of %q has %+v %v, want %v, a folder: %v", name, found, ok, shown, isFolder)
	}
	if other := aName(t); other != name {
		want := versionsOf(all, other)
		if found, ok := p.Open(n.Root(), other); ok && !slices.Equal(found.Versions, want[:min(most, len(want))]) {
			t.Fatalf("the proof of %q proves %v of %q", name, found, other)
		}
	}
	for i, lie := range flipped(t, raw) {
		if p, err := ParseNameProof(lie); err == nil {
			if _, ok := p.Open(n.Root(), name); ok {
				t.Fatalf("the proof of %q holds with another byte %d", name, i)
			}
		}
	}
}

func checkFolder(t *rapid.T, n *Names, all []placed, name string) {
	p, ok := n.ProveFolder(name, Hash{}, math.MaxInt)
	prefix, isThere, inside := "", name == "", map[string]bool{}
	if name != "" {
		prefix = name + "/"
	}
	for _, p := range all {
		rest, within := strings.CutPrefix(p.name, prefix)
		component, _, _ := strings.Cut(rest, "/")
		if p.name == "" {
			component = "/" + p.Ref
			within = name == ""
		}
		isThere = isThere || within || p.made && p.name == name
		if within {
			inside[component] = true
		}
	}
	if ok != isThere {
		t.Fatalf("a folder %q is there: %v", name, ok)
	}
	if !ok {
		return
	}
	if p.Path != nil || len(p.Inside) != len(inside) {
		t.Fatalf("folder %q is not on one page", name)
	}
	var from, folder Hash
	most, pages := rapid.IntRange(1, 4).Draw(t, "page"), 0
	for isLast := false; !isLast; pages++ {
		p, _ := n.ProveFolder(name, from, most)
		raw := p.Encode()
		opened, err := ParseFolderProof(raw)
		page, ok := opened.Open(n.Root(), name, from)
		if err != nil || !ok || !page.IsNext || len(opened.Inside) > most || pages > 0 && page.Folder != folder {
			t.Fatalf("the proof of folder %q does not hold: %v %v", name, opened, err)
		}
		for i, c := range p.Inside {
			if !inside[c.Name] {
				t.Fatalf("%q is shown, and not or twice in folder %q", c.Name, name)
			}
			delete(inside, c.Name)
			lie := p
			lie.Inside = slices.Delete(slices.Clone(p.Inside), i, i+1)
			if _, ok := lie.Open(n.Root(), name, from); ok {
				t.Fatalf("folder %q is whole without %q", name, c.Name)
			}
		}
		for i, lie := range flipped(t, raw) {
			if p, err := ParseFolderProof(lie); err == nil {
				if _, ok := p.Open(n.Root(), name, from); ok {
					t.Fatalf("the proof of folder %q holds with another byte %d", name, i)
				}
			}
		}
		folder, from, isLast = page.Folder, page.Next, page.Next == Hash{}
	}
	if len(inside) > 0 {
		t.Fatalf("folder %q lacks %v on %d pages", name, inside, pages)
	}
}

// flipped is a proof with another bit, by the place of its byte.
func flipped(t *rapid.T, raw []byte) map[int][]byte {
	at := rapid.IntRange(0, len(raw)-1).Draw(t, "byte")
	lie := bytes.Clone(raw)
	lie[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	return map[int][]byte{at: lie}
}

// A renamed folder takes all beneath it along in one step, however much that is: no hash beneath changes.
func TestAFolderMovesInOneStep(t *testing.T) {
	var n Names
	for i := range 1000 {
		n.Put("old/deep/"+strconv.Itoa(i), Living{Ref: strconv.Itoa(i), Place: Place{Number: int64(i + 1)}})
	}
	n.Root()
	inside := n.top.get(keyOf("old")).folder.inside.root
	n.Move("old", "new")
	if moved := n.top.get(keyOf("new")); moved == nil || moved.folder.inside.root != inside || inside.hash == (Hash{}) || n.top.get(keyOf("old")) != nil {
		t.Error("the folder was made anew")
	}
}

// A folder that is renamed to one that is there is put into it, as deep as both reach.
func TestFoldersMeetInOne(t *testing.T) {
	var before, after []placed
	for i, name := range []string{"old/deep/x", "old/deep/both", "new/deep/both", "new/deep/y", "new/deep", "old/deep"} {
		p := placed{Living: Living{Ref: name, Place: Place{Number: int64(i + 1)}}, name: name, made: i > 3}
		before = append(before, p)
		p.name = "new" + name[len("new"):]
		after = append(after, p)
	}
	n, want := fresh(before), fresh(after)
	n.Move("old", "new")
	if n.Root() != want.Root() || n.Root() != naiveRoot(after) || n.Footprint() != want.Footprint() {
		t.Errorf("root %x of %d bytes, want %x of %d", n.Root(), n.Footprint(), want.Root(), want.Footprint())
	}
}

// namesVector is a file of testdata: what lives in a group, its root and its proofs, which any other program must get too.
type namesVector struct {
	Files, Folders []struct {
		Name, Ref, Hash, Attributes string
		Number                      int64
	}
	Root  string
	Names []struct {
		Name  string
		Most  int
		Proof string
	}
	Pages []struct {
		Folder, From, Next string
		Most               int
		Proof              string
	}
}

func unhex(s string) []byte {
	raw, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return raw
}

// The layout of service/LEDGER.md, byte by byte: a change makes every root that was signed a lie.
func TestFrozenNames(t *testing.T) {
	raw, err := os.ReadFile("testdata/names.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors map[string]namesVector
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	for name, v := range vectors {
		var all []placed
		for i, f := range slices.Concat(v.Files, v.Folders) {
			p := placed{Living: Living{Ref: f.Ref, Place: Place{Number: f.Number}, Attributes: f.Attributes}, name: f.Name, made: i >= len(v.Files)}
			if _, err := hex.Decode(p.Hash[:], []byte(f.Hash)); err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		n := fresh(all)
		root := n.Root()
		if got := hex.EncodeToString(root[:]); got != v.Root {
			t.Errorf("%s: root %s, want %s", name, got, v.Root)
		}
		for i, p := range v.Names {
			raw, _ := hex.DecodeString(p.Proof)
			opened, err := ParseNameProof(raw)
			if _, ok := opened.Open(root, p.Name); err != nil || !ok || !bytes.Equal(raw, n.Prove(p.Name, p.Most).Encode()) {
				t.Errorf("%s: name %d %q is proven by %x, want %s", name, i, p.Name, n.Prove(p.Name, p.Most).Encode(), p.Proof)
			}
		}
		for i, p := range v.Pages {
			raw, _ := hex.DecodeString(p.Proof)
			opened, err := ParseFolderProof(raw)
			var from Hash
			copy(from[:], unhex(p.From))
			made, ok := n.ProveFolder(p.Folder, from, p.Most)
			page, proven := opened.Open(root, p.Folder, from)
			next := hex.EncodeToString(page.Next[:])
			if err != nil || !ok || !proven || next != p.Next || !bytes.Equal(raw, made.Encode()) {
				t.Errorf("%s: page %d of folder %q is proven by %x, and %s follows, want %s, %s",
					name, i, p.Folder, made.Encode(), next, p.Proof, p.Next)
			}
		}
	}
}

// What no tree has proves nothing.
func TestProofsOfNoTree(t *testing.T) {
	var n Names
	for _, name := range []string{"a", "a/b", "c"} {
		n.Put(name, Living{Ref: name, Place: Place{Number: int64(len(name))}})
	}
	n.Put("c", Living{Ref: "newer", Place: Place{Number: 9}})
	root := n.Root()
	honest, gone := n.Prove("c", 2), n.Prove("nothing", 1)
	whole, _ := n.ProveFolder("", Hash{}, 9)
	page, _ := n.ProveFolder("", Hash{}, 1)
	names := map[string]func() (NameProof, string){
		"no version is shown": func() (NameProof, string) { return n.Prove("c", 0), "c" },
		"a way that leads on": func() (NameProof, string) { return n.Prove("a", 1), "a/b" },
		"a way beyond":        func() (NameProof, string) { return n.Prove("a/b", 1), "a" },
		"a path too long":     func() (NameProof, string) { p := gone; p.Path = make([]Hash, 257); return p, "nothing" },
		"a path too long to what is there": func() (NameProof, string) {
			p := honest
			p.Path = make([]Hash, 257)
			return p, "c"
		},
		"another in the place of itself": func() (NameProof, string) {
			c := n.top.get(keyOf("c"))
			return NameProof{Path: honest.Path, Other: &Other{keyOf("c"), c.versions.sum(domainVersion), Hash{}}}, "c"
		},
		"another elsewhere": func() (NameProof, string) {
			c := n.top.get(keyOf("c"))
			p := NameProof{Path: honest.Path, Other: &Other{keyOf("c"), c.versions.sum(domainVersion), Hash{}}}
			for i := range math.MaxInt {
				if name := fmt.Sprint(i); len(p.Path) > 0 && bit(keyOf(name), 0) != bit(keyOf("c"), 0) {
					return p, name
				}
			}
			return p, ""
		},
		"both there and not": func() (NameProof, string) { p := honest; p.Other = &Other{}; return p, "c" },
		"the oldest first": func() (NameProof, string) {
			p := honest
			p.Versions = []Living{honest.Versions[1], honest.Versions[0]}
			return p, "c"
		},
		"one version twice": func() (NameProof, string) {
			p := honest
			p.Versions = []Living{honest.Versions[0], honest.Versions[0]}
			return p, "c"
		},
	}
	for what, lie := range names {
		if p, name := lie(); what != "" {
			if _, ok := p.Open(root, name); ok {
				t.Errorf("%s: it proves %q", what, name)
			}
		}
	}
	for what, lie := range map[string]func(*FolderProof){
		"one twice":            func(p *FolderProof) { p.Inside = append(slices.Clone(p.Inside), p.Inside[0]) },
		"one of nothing":       func(p *FolderProof) { p.Inside = append(slices.Clone(p.Inside), Component{Name: "x"}) },
		"another name":         func(p *FolderProof) { p.Inside = slices.Clone(p.Inside); p.Inside[0].Name = "x" },
		"a recorded top":       func(p *FolderProof) { p.Made = []Living{{Ref: "x"}} },
		"a way":                func(p *FolderProof) { p.Way = []Step{{}} },
		"older but none newer": func(p *FolderProof) { p.Inside = append(slices.Clone(p.Inside), Component{Name: "x", Older: Hash{1}}) },
	} {
		p := whole
		lie(&p)
		if _, ok := p.Open(root, "", Hash{}); ok {
			t.Errorf("%s: the folder is proven", what)
		}
	}
	if _, ok := page.Open(root, "", Hash{}); !ok || len(page.Path) == 0 {
		t.Error("a page is not proven")
	}
	if _, ok := page.Open(root, "", Hash{0xff}); ok {
		t.Error("the page of the other half is proven")
	}
	if page, ok := page.Open(root, "", Hash{31: 1}); !ok || page.IsNext {
		t.Error("a page that begins before is no other page")
	}
	page.Path = make([]Hash, 257)
	if _, ok := page.Open(root, "", Hash{}); ok {
		t.Error("a path too long: the page is proven")
	}
	if _, ok := n.ProveFolder("c", Hash{}, 9); ok {
		t.Error("a file is a folder")
	}
}

// The root of many names in order is that of their tree, also where the names lie deep.
func TestRootInOrder(t *testing.T) {
	deep := strings.Repeat("d/", 100)
	for files := 0; files < 3000; files = 2*files + 1 {
		var all []placed
		for i := range files {
			name := strconv.Itoa(i/3) + "/" + strconv.Itoa(i/2)
			if i%7 == 0 {
				name = deep + name
			}
			all = append(all, placed{name: name, made: i%5 == 0, Living: Living{Ref: strconv.Itoa(i),
				Place: Place{Number: int64(i + 1)}}})
		}
		if n := fresh(all); inOrder(all) != n.Root() {
			t.Errorf("%d files have another root in order", files)
		}
	}
}

// The pages of a large folder are all of it, and each has at least a fraction of what it may.
func TestPagesOfALargeFolder(t *testing.T) {
	const files, most = 10_000, 100
	var n Names
	for i := range files {
		n.Put("folder/"+strconv.Itoa(i), Living{Ref: strconv.Itoa(i), Place: Place{Number: int64(i + 1)}})
	}
	seen, pages := map[string]bool{}, 0
	for from, isLast := (Hash{}), false; !isLast; pages++ {
		p, _ := n.ProveFolder("folder", from, most)
		page, ok := p.Open(n.Root(), "folder", from)
		if !ok || len(p.Inside) > most {
			t.Fatalf("page %d of %d is not proven", pages, len(p.Inside))
		}
		for _, c := range p.Inside {
			seen[c.Name] = true
		}
		from, isLast = page.Next, page.Next == Hash{}
	}
	if len(seen) != files || pages > 3*files/most {
		t.Errorf("%d files on %d pages", len(seen), pages)
	}
}

func proofSeeds(f *testing.F, encode func(*Names) [][]byte) {
	var n Names
	n.Put("a/b", Living{Ref: "1", Place: Place{Number: 1}, Attributes: "{}"})
	n.Put("a", Living{Ref: "2", Place: Place{Number: 2}})
	n.Make("a", Living{Ref: "3", Place: Place{Number: 3}})
	for _, raw := range encode(&n) {
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
	}
}

func FuzzNameProof(f *testing.F) {
	proofSeeds(f, func(n *Names) [][]byte {
		return [][]byte{n.Prove("a/b", 1).Encode(), n.Prove("a", 0).Encode(), n.Prove("c", 1).Encode()}
	})
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ParseNameProof(raw)
		if err != nil {
			return
		}
		if !bytes.Equal(p.Encode(), raw) {
			t.Error("two encodings of one proof")
		}
		if _, ok := p.Open(Hash{1}, "a/b"); ok {
			t.Error("a root was met")
		}
	})
}

func FuzzFolderProof(f *testing.F) {
	proofSeeds(f, func(n *Names) (list [][]byte) {
		for _, folder := range []string{"", "a"} {
			p, _ := n.ProveFolder(folder, Hash{}, 1)
			list = append(list, p.Encode())
		}
		return list
	})
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ParseFolderProof(raw)
		if err != nil {
			return
		}
		if !bytes.Equal(p.Encode(), raw) {
			t.Error("two encodings of one proof")
		}
		if _, ok := p.Open(Hash{1}, "a", Hash{}); ok {
			t.Error("a root was met")
		}
	})
}

// A group of a million names: memory of the tree beside the texts of its references, time of a build, of the first root, of a
// change with its root, and the size of proofs.
func BenchmarkNames(b *testing.B) {
	const files, folders = 1_000_000, 1000
	name := func(i int) string { return fmt.Sprintf("folder%d/file%d.txt", i%folders, i) }
	living := func(i int) Living {
		h := sha256.Sum256([]byte(strconv.Itoa(i)))
		return Living{Ref: hex.EncodeToString(h[:30]), Place: Place{int64(i + 1), h}}
	}
	var n Names
	b.Run("build", func(b *testing.B) {
		for b.Loop() {
			n = Names{}
			before := heap()
			for i := range files {
				n.Put(name(i), living(i))
			}
			n.Root()
			b.ReportMetric(float64(heap()-before)/files, "heap-B/name")
			b.ReportMetric(float64(n.Footprint())/files, "counted-B/name")
		}
	})
	b.Run("update", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			v := living(i % files)
			v.Attributes = strconv.Itoa(i)
			n.Put(name(i%files), v)
			n.Root()
		}
	})
	b.Run("versions of one name", func(b *testing.B) { // 25,000 took 7 s while each moved all the others
		for b.Loop() {
			var n Names
			for i := range files {
				n.Put("f", living(i))
			}
			n.Root()
		}
	})
	b.Run("move", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			n.Move([]string{"folder0", "moved"}[i%2], []string{"moved", "folder0"}[i%2])
			n.Root()
		}
	})
	b.Run("prove", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			b.ReportMetric(float64(len(n.Prove(name(i%files), 1).Encode())), "proof-B")
		}
	})
	b.Run("open", func(b *testing.B) {
		p, root := n.Prove(name(7), 1), n.Root()
		for b.Loop() {
			p.Open(root, name(7))
		}
	})
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
