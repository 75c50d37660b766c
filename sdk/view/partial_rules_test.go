package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
)

func (w *partialWorld) put(names ...string) (r sdk.Receipt) {
	w.t.Helper()
	for _, name := range names {
		var err error
		r, err = w.g.Put(w.t.Context(), name, strings.NewReader(name+fmt.Sprint(w.puts)))
		w.must(r, err)
		w.puts++
	}
	return r
}

func (w *partialWorld) mv(folder, to string) {
	w.t.Helper()
	part, err := w.g.PartOfName(w.t.Context(), "none")
	w.must(part, err)
	r, err := w.g.RenameFolder(w.t.Context(), folder, to, part.At.Seq())
	w.must(r, err)
}

func (w *partialWorld) lookAt(folders ...string) {
	w.t.Helper()
	for _, folder := range folders {
		w.look(folder, true, func() {})
	}
}

// knows checks which of some names are known.
func (w *partialWorld) knows(want bool, names ...string) {
	w.t.Helper()
	for _, name := range names {
		if w.p.Knows(name) != want {
			w.t.Errorf("%q is known: %v", name, !want)
		}
	}
}

// doubts are the names in doubt in some folders.
func (w *partialWorld) doubts(folders ...string) (all []string) {
	for _, folder := range folders {
		all = append(all, w.p.Doubts(folder)...)
	}
	return all
}

// After a renamed folder nothing is known beneath the old and the new name, nor whether their folders are there.
func TestPartialAfterARenamedFolder(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	moved := w.put("a/b/moved")
	w.put("c/x")
	w.lookAt("", "a", "a/b", "c")
	w.look("a/b/none", false, func() {})
	w.knows(true, "a", "a/b/none", "a/new", "c/b", "none")
	w.knows(true, "c/b/deep/er", "a/b/moved/in/it", "d/x")
	w.mv("a/b", "c/d")
	w.put("a/b/none")
	w.follow()
	w.knows(false, "a", "a/b", "a/b/none", "a/b/moved", "c/d", "c/d/moved")
	w.knows(true, "", "c", "c/x", "c/b", "none")
	if list := w.doubts("", "c"); fmt.Sprint(list) != "[a c/d]" {
		t.Errorf("in doubt are %q", list)
	}
	w.look("a", false, func() {})
	w.look("c/d", false, func() {})
	w.knows(true, "a", "c/d")
	w.check("")
	w.check("c")
	if list := w.doubts("", "c"); len(list) > 0 {
		t.Errorf("in doubt are %q", list)
	}
	if w.p.Entry(moved.Ref) != nil {
		t.Error("its row stays")
	}
}

// A part that is later than what is known is refused. Of one from before that is known which the changes since leave.
func TestPartialTakesPartsOfBefore(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(w *partialWorld, x sdk.Receipt){
		"a renamed folder": func(w *partialWorld, _ sdk.Receipt) { w.mv("a", "b") },
		"a renamed file": func(w *partialWorld, x sdk.Receipt) {
			e, err := w.g.Rename(w.t.Context(), x.Ref, "b/x")
			w.must(e, err)
		},
	} {
		w := newPartialWorld(t)
		x := w.put("a/x")
		w.look("none", false, func() {})
		early, err := w.g.PartOfFolder(t.Context(), "a")
		w.must(early, err)
		change(w, x)
		late, err := w.g.PartOfFolder(t.Context(), "b")
		w.must(late, err)
		if _, ok := w.p.LearnFolder("b", late); ok {
			t.Errorf("%s: a part that is later than what is known was taken", what)
		}
		w.follow()
		if _, ok := w.p.LearnFolder("a", early); !ok || len(w.shown("a")) > 0 || w.p.KnowsFolder("a") {
			t.Errorf("%s: of a part of before %q is known", what, w.shown("a"))
		}
		if _, ok := w.p.LearnFolder("b", late); !ok || w.p.Len() != 1 {
			t.Errorf("%s: the part of after was not taken", what)
		}
	}
}

// What came between a part and now is applied to it. Rows that were proven later than it stay as they are.
func TestPartialTakesLateParts(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	x, y := w.put("a/x"), w.put("b/y")
	w.look("none", false, func() {})
	early, err := w.g.PartOfFolder(t.Context(), "a")
	w.must(early, err)
	for _, r := range []sdk.Receipt{x, y} {
		e, err := w.g.SetAttributes(t.Context(), r.Ref, sdk.Attributes{Executable: true})
		w.must(e, err)
	}
	w.follow()
	w.lookAt("b")
	changes, ok := w.p.LearnFolder("a", early)
	if e := w.p.Entry(x.Ref); !ok || e == nil || e.Attributes == nil || !e.Attributes.Executable {
		t.Errorf("%v, it is %+v", ok, e)
	}
	for _, c := range changes {
		if c.Now.Ref == y.Ref {
			t.Error("a row of later was changed by one of before")
		}
	}
}

// Where the newest version goes, an older one may live: the name is unknown if it has others. Versions that are rows
// tell what is there.
func TestPartialAndOlderVersions(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	w.put("a/x")
	newest := w.put("a/x")
	once := w.put("a/once")
	w.put("a/stays", "b/y")
	w.lookAt("", "a")
	if w.p.KnowsVersions("a/x") || !w.p.KnowsVersions("a/once") || !w.p.KnowsVersions("a/none") ||
		w.p.KnowsVersions("b/x") {
		t.Error("it is not known which names have older versions")
	}
	for _, r := range []sdk.Receipt{once, newest} {
		e, err := w.g.Delete(t.Context(), r.Ref)
		w.must(e, err)
		w.follow()
		if w.p.Entry(r.Ref) != nil {
			t.Errorf("the row of %s stays", r.Name)
		}
	}
	w.knows(false, "a/x")
	w.knows(true, "a", "a/stays", "a/more")
}

// A folder is unknown once nothing is known to be in it: also after a file that is not known got another name.
func TestPartialAndEmptyFolders(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	unknown := w.put("a/x")
	w.put("b/c/y")
	last := w.put("d/z")
	w.lookAt("", "b", "d")
	e, err := w.g.Rename(t.Context(), unknown.Ref, "b/x")
	w.must(e, err)
	w.follow()
	w.knows(false, "a", "a/more")
	w.knows(true, "b", "d", "b/none", "none")
	e, err = w.g.Delete(t.Context(), last.Ref)
	w.must(e, err)
	w.follow()
	w.knows(false, "d")
	w.knows(true, "b")
}

// Programs ask for many names that never were: the last ones are known, and those that came since.
func TestPartialForgetsWhatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	w.look("none", false, func() {})
	nothing := sdk.Part{Missing: true, At: w.p.At()}
	for i := range 1000 {
		if _, ok := w.p.LearnName(fmt.Sprint("name", i), nothing); !ok {
			t.Fatal("it is not learnt")
		}
	}
	w.knows(false, "none")
	w.put("name0")
	w.follow()
	w.p.LearnName("more", nothing)
	w.p.LearnName("most", nothing)
	w.knows(false, "name1")
	w.knows(true, "name0", "name2", "name999", "more", "most")
}

// Rows that this account made are taken under any name, and a part that was proven before does not take them away.
func TestPartialTakesOwnRows(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	w.put("a/x")
	was := w.put("a/x")
	w.look("none", false, func() {})
	early, err := w.g.PartOfFolder(t.Context(), "a")
	w.must(early, err)
	unknown, known := w.put("b/new"), w.put("a/new")
	w.p.Own(unknown.Entry, known.Entry)
	gone, err := w.g.Delete(t.Context(), was.Ref)
	w.must(gone, err)
	w.p.LearnFolder("a", early)
	w.p.Own(gone)
	for _, own := range []func(){func() {}, func() { w.p.LearnFolder("a", early) }, w.follow} {
		if own(); w.p.Entry(unknown.Ref) == nil || w.p.Entry(known.Ref) == nil {
			t.Error("an own row is gone")
		}
		if w.p.Knows("a/x") {
			t.Error("an older version lives under a name that is known")
		}
	}
	newest := w.put("a/newest")
	w.p.Own(newest.Entry)
	if changes := w.p.Restart(w.p.At(), noRow); len(changes) != 2 || w.p.Len() != 1 || w.p.Entry(newest.Ref) == nil {
		t.Errorf("%d rows are forgotten, %d stay", len(changes), w.p.Len())
	}
	w.knows(false, "a", "a/new", "none")
}

// A Partial begins with rows that this account made before anybody looked at the group: what others made of them since
// is seen where it looks.
func TestPartialBeginsWithOwnRows(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	moved, stays := w.put("a/x"), w.put("a/stays")
	own := view.New()
	own.Apply(moved.Entry, stays.Entry)
	e, err := w.g.Rename(t.Context(), moved.Ref, "b/x")
	w.must(e, err)
	part, err := w.g.PartOfName(t.Context(), "a/x")
	w.must(part, err)
	w.p = view.NewPartial(own, part.At)
	if changes, ok := w.p.LearnName("a/x", part); !ok || len(changes) != 1 || w.p.Entry(moved.Ref) != nil {
		t.Errorf("%+v, %v", changes, ok)
	}
	w.knows(true, "a/x")
	w.knows(false, "a", "b", "a/stays")
	w.look("b", true, func() {})
	w.look("a", true, func() {})
	w.check("a")
	w.check("b")
}

// In a folder that was not there before nothing is that came since is not known: all of it is, as long as it stays so.
func TestPartialKnowsAllOfNewFolders(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	w.put("a/x")
	w.look("new", false, func() {})
	r, err := w.g.MakeFolder(t.Context(), "new")
	w.must(r, err)
	w.put("new/deep/er/x")
	w.follow()
	w.check("new")
	w.check("new/deep/er")
	w.knows(true, "new", "new/none", "new/deep/none", "new/deep/er/x")
	if !w.p.KnowsBeneath("new") || w.p.KnowsBeneath("") || w.p.KnowsBeneath("a") || !w.p.KnowsBeneath("new/none") {
		t.Error("it is not known of what all is known")
	}
	w.p.Opened()
	w.mv("a", "new/deep/moved")
	w.follow()
	if w.p.KnowsBeneath("new") || w.p.KnowsBeneath("new/deep") || !w.p.KnowsBeneath("new/deep/er") {
		t.Error("after a renamed folder all is known")
	}
	if list := w.p.Opened(); fmt.Sprint(list) != "[new/deep new]" || len(w.p.Opened()) > 0 {
		t.Errorf("not all is known any more of %q", list)
	}
	w.check("new/deep")
	w.look("new/deep/moved", false, func() {})
	if w.p.KnowsBeneath("new") {
		t.Error("all is known beneath a folder that nobody looked into")
	}
	w.lookAt("new/deep/moved")
	if !w.p.KnowsBeneath("new") {
		t.Error("not all is known")
	}
	w.check("new")
}

// A row of a recorded folder is there as long as the folder may be.
func TestPartialKeepsRowsOfFolders(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	w.look("none", false, func() {})
	made := func(name string, isLate bool, own func()) sdk.Ref {
		r, err := w.g.MakeFolder(t.Context(), name)
		w.must(r, err)
		own()
		if isLate {
			w.follow()
		}
		w.p.Own(r)
		return r.Ref
	}
	removed := func(name string) func() {
		return func() {
			r, err := w.g.RemoveFolder(t.Context(), name)
			w.must(r, err)
		}
	}
	has := func(ref sdk.Ref, want bool) {
		t.Helper()
		if e := w.p.Entry(ref); (e != nil) != want {
			t.Errorf("it has %+v", e)
		}
	}
	there := made("there", true, func() {})
	late := made("late", true, removed("late"))
	has(late, true)
	w.look("late", false, func() {})
	has(late, false)
	w.look("there", false, func() {})
	has(there, false) // it may be of another record
	there = made("over/there", false, func() {})
	late = made("late", true, removed("late"))
	w.look("over/there", false, func() {})
	w.lookAt("", "over")
	has(there, true)
	has(late, false)
	removed("over/there")()
	w.follow()
	has(there, false)
	gone := made("gone", false, func() {})
	removed("gone")()
	part, err := w.g.PartOfName(t.Context(), "none")
	w.must(part, err)
	if changes := w.p.Restart(part.Until, noRow); len(changes) != 1 {
		t.Errorf("%+v", changes)
	}
	has(gone, false)
	others, err := w.g.MakeFolder(t.Context(), "others")
	w.must(others, err)
	w.lookAt("")
	others, err = w.g.MakeFolder(t.Context(), "more")
	w.must(others, err)
	w.follow()
	has(others.Ref, true)
}

// An own row whose answer comes later than a list that went past it may be of a file that is gone.
func TestPartialDoubtsLateOwnRows(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	w.put("b/y")
	w.look("a/x", false, func() {})
	made := w.put("a/x")
	e, err := w.g.Delete(t.Context(), made.Ref)
	w.must(e, err)
	w.follow()
	w.knows(true, "a/x")
	w.p.Own(made.Entry)
	w.knows(false, "a/x")
	w.look("a/x", false, func() {})
	w.knows(true, "a/x")
	if w.p.Entry(made.Ref) != nil {
		t.Error("a removed file is there again")
	}
	w.check("a")
	w.look("new", false, func() {})
	made = w.put("new/deep/x")
	e, err = w.g.Delete(t.Context(), made.Ref)
	w.must(e, err)
	w.follow()
	w.look("new", false, func() {})
	w.knows(true, "new", "new/deep/x")
	w.p.Own(made.Entry)
	w.knows(false, "new", "new/deep", "new/deep/x")
	if w.p.IsFolder("new") {
		t.Error("a folder that is not there is")
	}
}

func noRow(*sdk.Entry) bool { return false }

// Rows may stay where all is forgotten. They are as before where nothing came between, and keep no folder else.
func TestPartialRestartsWithRows(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	stays := w.put("a/x")
	w.put("a/y")
	w.lookAt("", "a")
	isIt := func(e *sdk.Entry) bool { return e.Ref == stays.Ref }
	if changes := w.p.Restart(w.p.At(), isIt); len(changes) != 1 || w.p.Entry(stays.Ref) == nil {
		t.Errorf("%d rows are forgotten", len(changes))
	}
	w.knows(false, "", "a", "a/x", "a/y")
	e, err := w.g.SetAttributes(t.Context(), stays.Ref, sdk.Attributes{Executable: true})
	w.must(e, err)
	w.follow()
	if e := w.p.Entry(stays.Ref); e == nil || e.Attributes == nil {
		t.Errorf("what stays is not followed: %+v", e)
	}
	w.lookAt("")
	w.check("")
	e, err = w.g.Delete(t.Context(), stays.Ref)
	w.must(e, err)
	made := w.put("b/z")
	part, err := w.g.PartOfName(t.Context(), "none")
	w.must(part, err)
	w.p.Restart(part.Until, isIt)
	w.p.Restart(part.Until, isIt)
	w.lookAt("")
	e, err = w.g.Delete(t.Context(), made.Ref)
	w.must(e, err)
	removed, err := w.g.Remove(t.Context(), "a/y")
	w.must(removed, err)
	w.follow()
	w.knows(false, "a", "a/x", "b")
	w.lookAt("", "a")
	w.look("a", false, func() {})
	if w.p.IsFolder("a") || w.p.Len() > 0 {
		t.Errorf("a folder that is gone is there, with %d rows", w.p.Len())
	}
}

// A row that came late keeps no folder.
func TestPartialDoubtsFoldersOfLateRows(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	stays := w.put("a/y")
	w.lookAt("", "a")
	late := w.put("a/x")
	e, err := w.g.Delete(t.Context(), late.Ref)
	w.must(e, err)
	w.follow()
	w.p.Own(late.Entry)
	e, err = w.g.Delete(t.Context(), stays.Ref)
	w.must(e, err)
	w.follow()
	w.knows(false, "a", "a/x")
	w.look("a/x", false, func() {})
	w.look("a", false, func() {})
	w.knows(true, "a", "a/x", "a/y")
	if w.p.IsFolder("a") || w.p.Len() > 0 {
		t.Errorf("a folder that is gone is there, with %d rows", w.p.Len())
	}
}

// Where too much changed to be told, a Partial goes on from another place, with rows of later alone.
func TestPartialRestarts(t *testing.T) {
	t.Parallel()
	w := newPartialWorld(t)
	gone := w.put("a/x")
	w.lookAt("", "a")
	e, err := w.g.Delete(t.Context(), gone.Ref)
	w.must(e, err)
	w.put("a/y")
	part, err := w.g.PartOfFolder(t.Context(), "a")
	w.must(part, err)
	late := w.put("b/late")
	w.p.Own(late.Entry)
	if changes := w.p.Restart(part.Until, noRow); len(changes) != 1 || changes[0].Was.Ref != gone.Ref {
		t.Errorf("%+v", changes)
	}
	w.knows(false, "", "a", "a/x", "b", "b/late")
	if w.p.Entry(late.Ref) == nil || w.p.At().Number() != part.Until.Number() {
		t.Error("it does not go on from there")
	}
	w.follow()
	w.lookAt("", "a", "b")
	for _, folder := range []string{"", "a", "b"} {
		w.check(folder)
	}
}
