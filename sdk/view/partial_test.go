package view_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/service/testkit"
)

// partialWorld is a group of which a Partial knows what was looked at, as a mount would.
type partialWorld struct {
	t *testing.T
	g sdk.Group
	p *view.Partial

	puts  int
	all   int // folders of which all was known
	mixed int // folders that were learnt from two answers
}

func newPartialWorld(t *testing.T) *partialWorld {
	t.Helper()
	s := testkit.Start(t, testkit.Ours)
	w := &partialWorld{t: t}
	w.g = s.Client(t, s.Account("alice", "1000"), func(c *sdk.Config) { c.SmallGroup = -1 }).Group("g")
	w.must(w.g.Register(t.Context()))
	return w
}

func (w *partialWorld) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// follow brings what is known up to date.
func (w *partialWorld) follow() {
	w.t.Helper()
	changes, err := w.g.Changes(w.t.Context(), w.p.At(), w.p)
	w.must(changes, err)
	w.p.Apply(changes)
}

// look asks for a folder, or a name, until what came is taken. between is done after the service answered.
func (w *partialWorld) look(what string, isFolder bool, between func()) {
	w.t.Helper()
	for range 5 {
		var part sdk.Part
		var err error
		if isFolder {
			part, err = w.g.PartOfFolder(w.t.Context(), what)
		} else {
			part, err = w.g.PartOfName(w.t.Context(), what)
		}
		w.must(part, err)
		if w.p == nil {
			w.p = view.NewPartial(view.New(), part.At)
		}
		between()
		if between = func() {}; part.At.Number() > w.p.At().Number() {
			w.follow()
		}
		ok := false
		if isFolder {
			_, ok = w.p.LearnFolder(what, part)
		} else {
			_, ok = w.p.LearnName(what, part)
		}
		if ok {
			return
		}
	}
	w.t.Fatalf("%q is not learnt", what)
}

// lookTwice asks for a folder twice, and takes the names before one from the first answer and the others from the
// second one, as pages of a folder come that changes between them.
func (w *partialWorld) lookTwice(folder, name string, between func()) {
	w.t.Helper()
	part, err := w.g.PartOfFolder(w.t.Context(), folder)
	w.must(part, err)
	between()
	second, err := w.g.PartOfFolder(w.t.Context(), folder)
	w.must(second, err)
	if part.Missing || second.Missing {
		return
	}
	part.Children = slices.DeleteFunc(part.Children, func(c sdk.Child) bool { return c.Name >= name })
	for _, c := range second.Children {
		if c.Name >= name {
			part.Children = append(part.Children, c)
		}
	}
	part.Until = second.Until
	w.follow()
	if _, ok := w.p.LearnFolder(folder, part); ok {
		w.mixed++
	}
}

// shown is what a Partial has directly in a folder.
func (w *partialWorld) shown(folder string) (list []string) {
	newest := map[string]*sdk.Entry{}
	for e := range w.p.All() {
		if e.Deleted == nil && !e.Folder && (newest[e.Name] == nil || newest[e.Name].Seq < e.Seq) {
			newest[e.Name] = e
		}
	}
	for name, e := range newest {
		if rest, in := strings.CutPrefix(name, prefixOf(folder)); in && !strings.Contains(rest, "/") {
			list = append(list, rest+" "+string(e.Ref)+fmt.Sprint(e.Attributes != nil && e.Attributes.Executable))
		}
	}
	for _, path := range w.p.Folders(folder) {
		list = append(list, strings.TrimPrefix(path, prefixOf(folder))+"/")
	}
	slices.Sort(list)
	return list
}

func prefixOf(folder string) string {
	if folder == "" {
		return ""
	}
	return folder + "/"
}

// check compares a folder that is known with what the service proves now.
func (w *partialWorld) check(folder string) {
	w.t.Helper()
	if !w.p.KnowsFolder(folder) {
		return
	}
	part, err := w.g.PartOfFolder(w.t.Context(), folder)
	w.must(part, err)
	doubts := w.p.Doubts(folder)
	isIn := func(shown string) bool { // in doubt
		name, _, _ := strings.Cut(strings.TrimSuffix(shown, "/"), " ")
		return slices.Contains(doubts, prefixOf(folder)+name)
	}
	want := []string{}
	for _, c := range part.Children {
		if c.File == nil {
			want = append(want, c.Name+"/")
		} else {
			isExecutable := c.File.Attributes != nil && c.File.Attributes.Executable
			want = append(want, c.Name+" "+string(c.File.Ref)+fmt.Sprint(isExecutable))
		}
	}
	slices.Sort(want)
	want = slices.DeleteFunc(want, isIn)
	if got := slices.DeleteFunc(w.shown(folder), isIn); fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Fatalf("%q has %q, want %q", folder, got, want)
	}
	if w.p.KnowsBeneath(folder) {
		w.beneath(folder)
	}
}

// recorded checks that the recorded folders of which a Partial has rows are there.
func (w *partialWorld) recorded() {
	w.t.Helper()
	list, err := w.g.Entries(w.t.Context(), sdk.ListOptions{Folders: true})
	w.must(list, err)
	for e := range w.p.All() {
		isThere := func(there sdk.Entry) bool {
			return there.Ref == e.Ref && there.Name == e.Name && there.Deleted == nil
		}
		if e.Folder && w.p.Knows(e.Name) && (!slices.ContainsFunc(list, isThere) || !w.p.IsFolder(e.Name)) {
			w.t.Fatalf("%+v is not there", e)
		}
	}
}

// beneath checks that all files of the group beneath a folder have rows, where everything is known there.
func (w *partialWorld) beneath(folder string) {
	w.t.Helper()
	list, err := w.g.Files(w.t.Context())
	w.must(list, err)
	w.all++
	for _, e := range list {
		if strings.HasPrefix(e.Name, prefixOf(folder)) && w.p.Entry(e.Entry.Ref) == nil {
			w.t.Fatalf("all beneath %q is known, and not %q", folder, e.Name)
		}
	}
}

// checkName compares what is under a name, if that is known, with what the service proves now.
func (w *partialWorld) checkName(name string) {
	w.t.Helper()
	if !w.p.Knows(name) {
		return
	}
	part, err := w.g.PartOfName(w.t.Context(), name)
	w.must(part, err)
	isFile, isFolder := false, w.p.IsFolder(name)
	for e := range w.p.All() {
		isFile = isFile || e.Deleted == nil && !e.Folder && e.Name == name
	}
	if part.Missing != (!isFile && !isFolder) || !part.Missing && isFile != (part.Children[0].File != nil) {
		w.t.Fatalf("%q is a file: %v, a folder: %v; want %+v", name, isFile, isFolder, part)
	}
}

var allFolders = []string{"a", "b", "a/c", "a/d", "b/c", "b/d", "a/c/e", "b/c/e"}

// What a Partial knows of a group is what the service proves, whatever happens in the group, in any order, also between
// an answer and its arrival.
func TestPartialIsTrue(t *testing.T) {
	t.Parallel()
	moved, all, mixed := 0, 0, 0
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newPartialWorld(t)
			random := rand.New(rand.NewPCG(seed, 1))
			one := func(list []string) string { return list[random.IntN(len(list))] }
			var refs []sdk.Ref
			name := func() string {
				return strings.TrimPrefix(one(append(allFolders, ""))+"/"+one([]string{"x", "y"}), "/")
			}
			var answers []sdk.Entry // to changes, which come late
			own := func(e sdk.Entry) {
				switch n := random.IntN(3); {
				case e.Ref == "": // nothing changed
				case n == 0:
					w.p.Own(e)
				case n == 1:
					answers = append(answers, e)
				}
			}
			change := func() {
				switch n := random.IntN(12 + 4*int(seed%2)); { // more renamed folders with every other seed
				case n < 5 || len(refs) == 0:
					r, err := w.g.Put(t.Context(), name(), strings.NewReader(fmt.Sprint(random.Uint64())))
					w.must(r, err)
					refs = append(refs, r.Ref)
					own(r.Entry)
				case n < 7:
					if e, err := w.g.Rename(t.Context(), refs[random.IntN(len(refs))], name()); err == nil {
						own(e)
					}
				case n < 9:
					if e, err := w.g.Delete(t.Context(), refs[random.IntN(len(refs))]); err == nil {
						own(e)
					}
				case n < 10:
					a := sdk.Attributes{Executable: random.IntN(2) == 0}
					if e, err := w.g.SetAttributes(t.Context(), refs[random.IntN(len(refs))], a); err == nil {
						own(e)
					}
				case n < 11 || n > 11:
					part, err := w.g.PartOfName(t.Context(), "none")
					w.must(part, err)
					_, err = w.g.RenameFolder(t.Context(), one(allFolders), one(allFolders), part.At.Seq())
					if err == nil {
						moved++
					}
				default:
					do := w.g.MakeFolder
					if random.IntN(2) == 0 {
						do = w.g.RemoveFolder
					}
					if e, err := do(t.Context(), one(allFolders)); err == nil {
						own(e)
					}
				}
			}
			w.look("", true, func() {})
			for range 5 {
				change()
			}
			for range 45 {
				for range random.IntN(4) {
					change()
				}
				answers = slices.DeleteFunc(answers, func(e sdk.Entry) bool {
					comes := random.IntN(3) > 0
					if comes {
						w.p.Own(e)
					}
					return comes
				})
				switch folder := one(append(allFolders, "")); random.IntN(20) / 3 {
				case 0:
					w.look(folder, true, func() { change(); w.follow() })
				case 1:
					w.look(folder, true, change)
				case 2:
					w.look(name(), false, change)
				case 3:
					w.lookTwice(folder, one([]string{"d", "y"}), change)
				case 6: // of 18 and 19
					part, err := w.g.PartOfName(t.Context(), "none")
					w.must(part, err)
					w.p.Restart(part.Until, func(*sdk.Entry) bool { return random.IntN(2) == 0 })
				}
				w.follow()
				for _, folder := range append(allFolders, "") {
					w.check(folder)
				}
				w.checkName(name())
				w.checkName(one(allFolders))
				w.recorded()
			}
			all, mixed = all+w.all, mixed+w.mixed
		})
	}
	if moved == 0 || all == 0 || mixed == 0 {
		t.Errorf("%d folders were renamed, of %d all was known, %d were of two answers", moved, all, mixed)
	}
}
