package chain

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// keptWorld is a tree in pages, beside all that lives.
type keptWorld struct {
	t     *testing.T
	rand  *rand.Rand
	pages map[int64][]byte
	kept  Kept
	read  map[int64]bool

	living map[string][]Living // versions by name, the newest last; a recorded folder has a slash at its end
	number int64
}

func (w *keptWorld) open() *Names {
	w.read = map[int64]bool{}
	return w.kept.Open(func(id int64) ([]byte, error) {
		w.read[id] = true
		if w.pages[id] == nil {
			return nil, fmt.Errorf("page %d is missing", id)
		}
		return w.pages[id], nil
	})
}

func (w *keptWorld) save(n *Names) {
	w.t.Helper()
	kept, gone, err := n.Save(func(id int64, raw []byte) error {
		w.pages[id] = raw
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, id := range gone {
		delete(w.pages, id)
	}
	w.kept = kept
}

func (w *keptWorld) all() (all []placed) {
	for name, list := range w.living {
		for _, v := range list {
			folder, made := strings.CutSuffix(name, "/")
			if strings.HasPrefix(name, "/") {
				folder, made = "", false
			}
			all = append(all, placed{v, folder, made})
		}
	}
	return all
}

// change changes one name, as a record does.
func (w *keptWorld) change(n *Names) {
	name := fmt.Sprintf("%s%d", []string{"", "", "a/", "a/deep/", "b/c/d/e/"}[w.rand.IntN(5)], w.rand.IntN(300))
	switch w.rand.IntN(20) {
	case 0:
		name += "/"
	case 1, 2, 3: // much goes again
		for name = range w.living {
			break
		}
	case 4:
		name = fmt.Sprintf("/ref%d", w.number+1)
	}
	w.number++
	v := Living{Ref: fmt.Sprint("ref", w.number), Place: Place{Number: w.number, Hash: keyOf(name)}}
	if w.rand.IntN(50) == 0 {
		v.Attributes = strings.Repeat("x", w.rand.IntN(2*pageBytes))
	}
	list := w.living[name]
	isMore := len(list) == 0 || w.rand.IntN(3) > 0 && name[0] != '/'
	if isMore {
		list = append(list, v)
	} else {
		at := w.rand.IntN(len(list))
		list = slices.Delete(slices.Clone(list), at, at+1)
	}
	if w.living[name] = list; len(list) == 0 {
		delete(w.living, name)
	}
	folder, isMade := strings.CutSuffix(name, "/")
	ref, isNameless := strings.CutPrefix(name, "/")
	switch {
	case isNameless:
		n.Renew("", ref, true, slices.Values(list))
	case isMade:
		n.RenewFolder(folder, slices.Values(list))
	case isMore:
		n.Renew(name, "", false, slices.Values(list)) // the older ones are left out
	default:
		n.Renew(name, "", true, slices.Values(list))
	}
}

// move renames a folder to one that is not there, or has other names.
func (w *keptWorld) move(n *Names) {
	before, after := []string{"a", "b/c", "a/deep"}[w.rand.IntN(3)], []string{"z", "y/x"}[w.rand.IntN(2)]
	if w.rand.IntN(2) == 0 {
		before, after = after, before
	}
	moved := map[string][]Living{}
	for name, list := range w.living {
		if rest, ok := strings.CutPrefix(name, before+"/"); ok {
			if w.living[after+"/"+rest] != nil {
				return // no service renames so
			}
			moved[name] = list
		}
	}
	for name, list := range moved {
		delete(w.living, name)
		w.living[after+strings.TrimPrefix(name, before)] = list
	}
	n.Move(before, after)
}

// check compares the tree with one that has all in memory: root, proofs, and that no page is left over.
func (w *keptWorld) check() {
	w.t.Helper()
	want, n := fresh(w.all()), w.open()
	if n.Root() != want.Root() {
		w.t.Fatal("another root")
	}
	names := slices.Sorted(maps.Keys(w.living))
	for range 20 {
		name := fmt.Sprint("none", w.rand.IntN(9))
		if len(names) > 0 && w.rand.IntN(4) > 0 {
			name = strings.TrimSuffix(names[w.rand.IntN(len(names))], "/")
		}
		if !bytes.Equal(n.Prove(name, 1).Encode(), want.Prove(name, 1).Encode()) {
			w.t.Fatalf("another proof of %q", name)
		}
		folder, from := []string{"", "a", "b/c/d/e", "z", name}[w.rand.IntN(5)], keyOf(name)
		got, there := n.ProveFolder(folder, from, 7)
		proof, is := want.ProveFolder(folder, from, 7)
		for i := range proof.Inside { // a folder's Older is of all but the newest in both
			proof.Inside[i].Versions = proof.Inside[i].Versions[:min(1, len(proof.Inside[i].Versions))]
		}
		if there != is || !bytes.Equal(got.Encode(), proof.Encode()) {
			w.t.Fatalf("another page of %q", folder)
		}
	}
	w.eachIs(w.open())
	if !maps.Equal(w.read, keysOf(w.pages)) {
		w.t.Fatalf("%d pages are kept, and the tree has %d", len(w.pages), len(w.read))
	}
}

func keysOf(pages map[int64][]byte) map[int64]bool {
	keys := map[int64]bool{}
	for id := range pages {
		keys[id] = true
	}
	return keys
}

func (w *keptWorld) eachIs(n *Names) {
	w.t.Helper()
	found := 0
	err := n.Each(func(f Found) error {
		name := f.Name
		if f.Ref != "" {
			name = "/" + f.Ref
		}
		if f.Versions != SumOf(slices.Values(w.living[name])) ||
			f.Name != "" && !slices.Equal(f.Made, w.living[name+"/"]) {
			return fmt.Errorf("%q has others", name)
		}
		found += len(w.living[name]) + len(f.Made)
		return nil
	})
	if err != nil || found != len(w.all()) {
		w.t.Fatalf("%d of %d names, %v", found, len(w.all()), err)
	}
	if most := 10; len(n.kept.opened) > most {
		w.t.Fatalf("%d pages are held", len(n.kept.opened))
	}
}

// A tree in pages has the root and the proofs of the one in memory, whatever changes in it, and no page too many.
func TestTreeInPages(t *testing.T) {
	for seed := range uint64(12) {
		w := &keptWorld{t: t, rand: rand.New(rand.NewPCG(seed, 1)), pages: map[int64][]byte{},
			living: map[string][]Living{}}
		for range 40 {
			n := w.open()
			for range w.rand.IntN(120) {
				w.change(n)
				if w.rand.IntN(100) == 0 {
					w.move(n)
				}
			}
			if w.rand.IntN(8) == 0 { // all go
				for name := range w.living {
					folder, isMade := strings.CutSuffix(name, "/")
					switch ref, isNameless := strings.CutPrefix(name, "/"); {
					case isNameless:
						n.Renew("", ref, true, slices.Values[[]Living](nil))
					case isMade:
						n.RenewFolder(folder, slices.Values[[]Living](nil))
					default:
						n.Renew(name, "", true, slices.Values[[]Living](nil))
					}
				}
				clear(w.living)
			}
			w.save(n)
			w.check()
		}
	}
}

// The first question about a large tree reads a few pages, and a change writes few.
func TestLargeTreeInPages(t *testing.T) {
	w := &keptWorld{t: t, pages: map[int64][]byte{}}
	n := w.open()
	v := Living{Ref: "ref", Place: Place{Number: 1}}
	for i := range 20_000 {
		n.Renew(fmt.Sprint("folder/", i), "", true, slices.Values([]Living{v}))
	}
	w.save(n)
	n = w.open()
	if found, ok := n.Prove("folder/77", 1).Open(w.kept.Root, "folder/77"); !ok || len(found.Versions) != 1 ||
		len(w.read) > 4 {
		t.Errorf("%d pages of %d were read", len(w.read), len(w.pages))
	}
	before := maps.Clone(w.pages)
	n = w.open()
	n.Move("folder", "other")
	n.Renew("other/77", "", true, slices.Values([]Living{v, {Ref: "next", Place: Place{Number: 2}}}))
	w.save(n)
	written := 0
	for id, raw := range w.pages {
		if !bytes.Equal(before[id], raw) {
			written++
		}
		if len(raw) > pageBytes {
			t.Errorf("page %d has %d bytes", id, len(raw))
		}
	}
	if written > 4 {
		t.Errorf("%d pages were written", written)
	}
}

// A page that is another one, is cut or is missing, is an error, and no answer.
func TestDamagedPages(t *testing.T) {
	w := &keptWorld{t: t, pages: map[int64][]byte{}}
	n := w.open()
	for i := range 500 {
		n.Renew(fmt.Sprint(i), "", true, slices.Values([]Living{{Ref: "ref", Place: Place{Number: 1}}}))
	}
	w.save(n)
	whole := maps.Clone(w.pages)
	for id, raw := range whole {
		for i := 0; i < len(raw); i += 997 {
			w.pages = maps.Clone(whole)
			w.pages[id] = slices.Clone(raw)
			w.pages[id][i] ^= 1
			n := w.open()
			if err := n.Each(func(Found) error { return nil }); !errors.Is(err, ErrPages) && err == nil {
				t.Fatalf("page %d with another byte %d: %v", id, i, err)
			}
		}
		w.pages[id] = raw[:len(raw)-1]
		if err := w.open().Each(func(Found) error { return nil }); !errors.Is(err, ErrPages) {
			t.Errorf("a page that was cut: %v", err)
		}
		delete(w.pages, id)
		n := w.open()
		for i := range 500 {
			n.Renew(fmt.Sprint(i), "", true, slices.Values[[]Living](nil))
		}
		if n.Err() == nil {
			t.Error("a page that is missing")
		}
	}
}
