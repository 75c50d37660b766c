package tree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/view"
)

// away has the service answer nothing any more, and back as before.
func (l *large) away() {
	l.s.Answer("/*", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
}

func (l *large) back() { l.s.Disturb("/*", nil) }

// living are the names of the living versions in the group, as others see them.
func (l *large) living() (list []string) {
	l.t.Helper()
	entries, err := l.other.Entries(l.t.Context())
	ok(l.t, err)
	for _, e := range entries {
		if e.Deleted == nil {
			list = append(list, e.Name)
		}
	}
	slices.Sort(list)
	return list
}

// wantLiving checks the names of all versions in the group.
func (l *large) wantLiving(want ...string) {
	l.t.Helper()
	if got := l.living(); !slices.Equal(got, want) {
		l.t.Errorf("the group has %q, want %q", got, want)
	}
}

// forgetNothing has the mount look for so many names that it does not know any more which ones are not there.
func (l *large) forgetNothing() {
	p := l.groups["team"].part.Load()
	for i := range 1001 {
		p.LearnName(fmt.Sprint("none", i), sdk.Part{Missing: true, At: p.At()})
	}
}

// Versions that nobody looked at are renamed and replaced with the one that is known; those of a file that a newer one
// follows stay beneath it, and nothing is asked for them.
func TestLargeGroupRenamesAllVersions(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"twice", "twice"})
	team := l.dir("/team")
	ok(t, team.Rename(t.Context(), "twice", team, "moved", false))
	l.wantLiving("moved", "moved")
	l.wantLists(1)

	l = newLarge(t, []string{"first", "replaced", "replaced"})
	team = l.dir("/team")
	ok(t, team.Rename(t.Context(), "first", team, "replaced", false))
	l.wantLiving("replaced")
	l.wantContent("/team/replaced", "first")
	l.wantLists(1)

	l = newLarge(t, []string{"twice", "twice", "replaced"})
	team = l.dir("/team")
	ok(t, team.Rename(t.Context(), "twice", team, "replaced", false))
	l.wantLiving("replaced", "replaced")
	l.wantLists(1)

	l = newLarge(t, []string{"there", "there", "newer"})
	team = l.dir("/team")
	ok(t, team.Rename(t.Context(), "newer", team, "there", false))
	l.wantLiving("there", "there", "there")
	l.wantContent("/team/there", "newer")
	l.wantLists(0)
}

// A folder is moved to a wastebasket with all that is in it, and a file without a list of the group.
func TestLargeGroupIsThrownAway(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/deep/a", "docs/b", "c", "d"})
	basket, err := l.Root().Mkdir(t.Context(), ".Trash-0")
	ok(t, err)
	ok(t, l.dir("/team").Rename(t.Context(), "c", basket, "c", false))
	l.wantLiving("d", "docs/b", "docs/deep/a")
	l.wantLists(0)
	ok(t, l.dir("/team").Rename(t.Context(), "docs", basket, "docs", false))
	l.wantLiving("d")
	l.wantLists(1)
}

// What is open is saved as a mount by lists saves it, whatever others made of it meanwhile.
func TestLargeGroupSavesWhatIsOpen(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(l *large){
		"renamed": func(l *large) { ok(t, last(l.other.Rename(t.Context(), l.ref("docs/a"), "docs/b"))) },
		"moved":   func(l *large) { l.mv(t, "docs", "papers") },
		"removed": func(l *large) { ok(t, last(l.other.Remove(t.Context(), "docs/a"))) },
		"deleted": func(l *large) { ok(t, last(l.other.Delete(t.Context(), l.ref("docs/a")))) },
		"saved":   func(l *large) { l.put(t, "docs/a", "by others") },
	} {
		var got [2][]string
		for i, small := range []int64{0, -1} {
			l := newLarge(t, []string{"docs/a", "docs/x"}, func(cfg *sdk.Config) { cfg.SmallGroup = small })
			h := l.open("/team/docs/a", OpenFlags{Read: true, Write: true})
			change(l)
			l.see(t)
			_, err := h.WriteAt(t.Context(), []byte("here"), 0)
			if err = errors.Join(err, h.Flush(t.Context())); err != nil {
				got[i] = append(got[i], err.Error())
			}
			h.Release()
			l.see(t)
			got[i] = append(append(got[i], l.living()...), shownIn(l.mounted, "docs")...)
			for j := range got[i] {
				got[i][j] = got[i][j][:min(len(got[i][j]), 12)]
			}
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s: %q, want %q", what, got[1], got[0])
		}
	}
}

// ref is the file that others see under a name.
func (l *large) ref(name string) sdk.Ref {
	l.t.Helper()
	e, err := l.other.Stat(l.t.Context(), name)
	ok(l.t, err)
	return e.Ref
}

// Once a group is listed, its rows are those of a list.
func TestLargeGroupIsListedAsOthersListIt(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "docs/b", "docs/c", "docs/d", "other/e", "gone/f"})
	l.wantNames("/team", "docs", "gone", "other")
	l.names("/team/docs")
	l.save("/team/docs/d", "here")
	ok(t, last(l.other.Rename(t.Context(), l.ref("docs/a"), "other/a")))
	ok(t, last(l.other.Remove(t.Context(), "docs/b")))
	ok(t, last(l.other.Delete(t.Context(), l.ref("docs/c"))))
	ok(t, last(l.other.Remove(t.Context(), "gone/f")))
	l.mv(t, "other", "papers")
	l.node("/team/.svcfs/history/docs")
	l.wantLists(1)
	list, err := l.other.Entries(t.Context())
	ok(t, err)
	v := l.groups["team"].view
	for i := range list {
		if e := v.Entry(list[i].Ref); e == nil || !reflect.DeepEqual(*e, list[i]) {
			t.Errorf("it has %+v, others have %+v", e, list[i])
		}
	}
	if v.Len() != len(list) {
		t.Errorf("it has %d rows, others have %d", v.Len(), len(list))
	}
	l.wantNames("/team", "docs", "papers")
	l.wantNames("/team/docs", "d")
}

// What a look makes unknown is asked for at once: a name that was not there, and what is in a folder.
func TestLargeGroupAsksAgainAfterALook(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "others/in/b"})
	l.wantNames("/team", "docs", "others")
	l.wantNames("/team/docs", "a")
	l.mv(t, "others", "papers")
	l.later.Store(int64(time.Minute))
	l.node("/team/papers")
	l.mv(t, "papers/in", "docs/deep")
	l.later.Store(int64(2 * time.Minute))
	l.wantNames("/team/docs", "a", "deep")
	l.wantNames("/team/docs/deep", "b")
	l.wantLists(0)
}

// A folder in which nothing is known is not taken for an empty one; an empty one loses the record that others made.
func TestLargeGroupRemovesEmptyFoldersAlone(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "others/b"})
	ok(t, last(l.other.MakeFolder(t.Context(), "empty")))
	team := l.dir("/team")
	l.wantNames("/team", "docs", "empty", "others")
	wantClass(t, team.Rmdir(t.Context(), "docs"), ClassNotEmpty)
	l.wantLists(0)
	ok(t, team.Rmdir(t.Context(), "empty"))
	l.wantNames("/team", "docs", "others")
	l.see(t)
	l.wantNames("/team", "docs", "others")
	l.wantLiving("docs/a", "others/b")
	l.wantLists(1)
}

// A folder of which all that is known is gone stays the one that programs know: something else is in it.
func TestLargeGroupFolderThatStays(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "docs/b"})
	docs := l.dir("/team/docs")
	l.node("/team/docs/a")
	ok(t, last(l.other.Remove(t.Context(), "docs/a")))
	l.see(t)
	if l.dir("/team/docs") != docs {
		t.Error("it is another folder")
	}
	l.wantNames("/team/docs", "b")
}

// Each try asks for what is there then: a folder that comes back between two questions is known with what is in it.
func TestLargeGroupFolderThatComesBack(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"b"})
	l.node("/team/b")
	team := l.groups["team"]
	l.s.Disturb("/*", nil)
	l.s.Disturb(partsPath, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.s.Disturb(partsPath, nil)
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			l.put(t, "docs/a", "a") // after it was proven missing
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		})
	})
	ok(t, team.know(t.Context(), wanted{path: "docs", isFolder: true}))
	if p := team.part.Load(); !p.KnowsFolder("docs") {
		t.Error("it is not known what is in the folder")
	}
}

// A folder that a program holds may be gone: it is found out with two questions, and shows nothing.
func TestLargeGroupFolderThatIsGone(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/deep/a", "b"})
	l.wantNames("/team/docs/deep", "a")
	deep := l.dir("/team/docs/deep")
	ok(t, last(l.other.Remove(t.Context(), "docs/deep/a")))
	l.see(t)
	requests := l.s.Requests()
	if list, err := deep.Entries(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("it has %d names, %v", len(list), err)
	}
	if n := l.s.Requests() - requests; n > 2 {
		t.Errorf("%d questions", n)
	}
	l.wantNames("/team", "b")
	l.wantLists(0)
}

// While the service is away, the mount answers at once, and what is of this mount alone is there.
func TestLargeGroupShowsWhatIsHereWhileTheServiceIsAway(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "b"})
	team, h := l.dir("/team"), l.create("/team/new")
	l.forgetNothing()
	l.away()
	l.node("/team/new")
	_, err := l.lookup("/team/docs")
	wantClass(t, err, ClassUnreachable)
	requests := l.s.Requests()
	_, err = l.lookup("/team/b")
	wantClass(t, err, ClassUnreachable)
	if n := l.s.Requests() - requests; n > 0 {
		t.Errorf("%d questions", n)
	}
	l.node("/team/.svcfs")
	for range 2 { // until a program looks again, nothing is asked a second time
		l.later.Add(int64(time.Hour))
		l.look.Tick(t.Context())
		l.look.Wait()
	}
	l.back()
	_, err = team.Lookup(t.Context(), "b")
	wantClass(t, err, ClassUnreachable)
	l.later.Add(int64(time.Hour))
	l.look.Tick(t.Context())
	l.look.Wait()
	h.Release()
	requests = l.s.Requests()
	ok(t, l.dir("/team").Unlink(t.Context(), "new"))
	if n := l.s.Requests() - requests; n > 0 {
		t.Errorf("%d questions", n)
	}
	l.node("/team/docs")
	l.wantLists(0)
}

// A save that is made from a version that nobody looked at finds it.
func TestLargeGroupOpensTheVersionOfASave(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a"})
	ref := l.s.AddBlocks(l.account, "team", "large", make([]byte, 100<<10), 64<<10)
	l.node("/team/docs/a")
	opened, err := l.claimVersion(t.Context(), outbox.From{Group: "team", Ref: ref})
	ok(t, err)
	ok(t, opened.Close())
	_, err = l.claimVersion(t.Context(), outbox.From{Group: "team", Ref: "gone"})
	wantClass(t, err, ClassNotExist)
	l.wantLists(1)
}

// What waits for the service is not sent while a look at the group is under way, which it may need itself.
func TestLargeGroupIsListedWhileContentWaits(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a"})
	h := l.open("/team/docs/a", OpenFlags{Read: true, Write: true})
	l.put(t, "docs/a", "by others")
	l.write(h, "here", 0)
	l.away()
	if err := h.Flush(t.Context()); err == nil {
		t.Error("it is saved")
	}
	h.Release()
	_, err := l.lookup("/team/.svcfs/history/docs")
	wantClass(t, err, ClassUnreachable)
	l.back()
	done := make(chan error, 1)
	go func() { done <- last(l.lookup("/team/.svcfs/history/docs")) }()
	proctest.Eventually(t, "the group is listed", func() bool { return len(done) > 0 })
	ok(t, <-done)
}

// member is the group for another account.
func (l *large) member(name string) sdk.Group {
	l.t.Helper()
	a := l.s.Account(name, "100")
	ok(l.t, last(l.other.Add(l.t.Context(), a.ID)))
	return l.s.Client(l.t, a).Group("team")
}

// A5, threat 15: a folder in which something is not known may hold files of others: it is shown as another account's
// until all of it is known, and one that was made here is ours until others come there.
func TestA5LargeGroupFoldersNobodyLookedInto(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"own/a", "docs/x"})
	bob := l.member("bob")
	ok(t, last(bob.Put(t.Context(), "docs/deep/.git/config", strings.NewReader("monitor"))))
	foreign := func(name string, want bool) {
		t.Helper()
		if a := l.node(name).Attr(); a.Foreign != want {
			t.Errorf("%s is another account's: %v", name, a.Foreign)
		}
	}
	l.node("/team/own/a")
	foreign("/team/own", true)
	if !l.node("/team/own").Attr().Unsure {
		t.Error("it is shown so for longer than it is true")
	}
	l.names("/team/own")
	foreign("/team/own", false)
	l.node("/team/docs/x")
	l.names("/team/docs")
	foreign("/team/docs", true)
	foreign("/team/docs/deep", true)
	foreign("/team", true)
	ok(t, last(l.dir("/team/own").Mkdir(t.Context(), "made")))
	ok(t, l.save("/team/own/made/file", "file"))
	foreign("/team/own/made", false)
	ok(t, last(bob.Put(t.Context(), "own/made/in/it", strings.NewReader("theirs"))))
	l.see(t)
	foreign("/team/own/made", true)
	foreign("/team/own", true)
	l.wantLists(0)
}

// owners is a Kernel that notes which folders may have other owners.
type owners struct {
	noKernel
	told []string
}

func (k *owners) OwnerChanged(d *Dir) { k.told = append(k.told, d.Path()) }

// A5, threat 15: a folder that was known to be ours is not taken for it from the moment others move a folder there: the
// kernel is told, and once all of it is known it stays another account's. What this account renames elsewhere is known
// again once it was looked at.
func TestA5LargeGroupFoldersThatOthersMove(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"own/in/a", "mine/b", "elsewhere/c"})
	bob := l.member("bob")
	ok(t, last(bob.Put(t.Context(), "theirs/.git/config", strings.NewReader("monitor"))))
	for _, name := range []string{"/team", "/team/own", "/team/own/in", "/team/mine", "/team/elsewhere"} {
		l.names(name)
	}
	l.wantForeign("what was looked at", []string{"/team/own", "/team/mine"})
	kernel := &owners{}
	l.SetKernel(kernel)
	mv(t, bob, "theirs", "own/in/moved")
	l.see(t)
	all := []string{"/team", "/team/mine", "/team/own", "/team/own/in"}
	told := func(folder string, want bool) {
		t.Helper()
		if slices.Contains(kernel.told, folder) != want {
			t.Errorf("the kernel was told of %q", kernel.told)
		}
	}
	told("/team/own", true)
	told("/team/own/in", true)
	told("/team/mine", false)
	l.wantForeign("moved", all, "/team", "/team/own", "/team/own/in")
	mv(t, bob, "own/in/moved", "theirs")
	l.see(t)
	l.names("/team/own/in")
	l.wantForeign("moved away", all, "/team", "/team/own", "/team/own/in")
	l.mv(t, "elsewhere", "mine/elsewhere")
	l.see(t)
	told("/team/mine", true)
	l.wantForeign("ours moved", []string{"/team/mine"}, "/team/mine")
	l.names("/team/mine")
	l.names("/team/mine/elsewhere")
	l.wantForeign("ours moved, and looked at", []string{"/team/mine"})
	l.wantLists(0)
}

// A5: a folder that others record is theirs, and what they record is removed where it is gone.
func TestA5LargeGroupFoldersOthersRecord(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"own/a"})
	bob := l.member("bob")
	l.names("/team")
	l.names("/team/own")
	ok(t, last(bob.MakeFolder(t.Context(), "own/theirs")))
	l.see(t)
	l.wantForeign("recorded", []string{"/team/own", "/team/own/theirs"}, "/team/own", "/team/own/theirs")
	ok(t, last(bob.RemoveFolder(t.Context(), "own/theirs")))
	l.see(t)
	l.wantNames("/team/own", "a")
	l.wantLists(0)
}

// N6, threat 47: a link of another account is shown as one once all that it leads over was looked at, which a look at
// the link does: behind a link of this account it would lead anywhere.
func TestThreat47LargeGroupLinksOfOthers(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/x"})
	bob := l.member("bob")
	link := func(g sdk.Group, name, target string) {
		t.Helper()
		attributes := sdk.Attributes{Target: target}
		ok(t, last(g.Put(t.Context(), name, strings.NewReader(target), sdk.PutOptions{Attributes: attributes})))
	}
	link(l.other, "way", "/etc")
	link(bob, "over", "way/passwd")
	link(bob, "good", "docs/x")
	link(bob, "far", "docs/"+strings.Repeat("a/", 9)+"x")
	link(bob, "none", "new/x")
	link(l.other, "unseen/way", "/etc") // known with its folder, before the tree shows it
	link(bob, "later", "elsewhere/"+strings.Repeat("./", 9)+"x")
	l.put(t, "elsewhere/x", "x")
	link(bob, "behind", "unseen/"+strings.Repeat("./", 9)+"way/passwd")
	shown := func(name string, isLink bool, why string) {
		t.Helper()
		f, is := l.node("/team/" + name).(*File)
		if !is || f.IsLink() != isLink || !strings.Contains(f.linkFault(), why) {
			t.Errorf("%s is a link: %v; %q", name, f.IsLink(), f.linkFault())
		}
	}
	shown("over", false, "over another link")
	shown("good", true, "")
	shown("none", true, "")
	shown("far", false, "nobody looked at")
	l.names("/team")
	shown("behind", false, "nobody looked at")
	shown("later", false, "nobody looked at")
	l.names("/team/elsewhere")
	shown("later", true, "")
	link(l.other, "new", "/etc")
	l.see(t)
	shown("none", false, "over another link")
	l.wantLists(0)
}

// M6: what is in doubt since a change is asked for by its name, and while the service is away it is as it was shown.
func TestM6LargeGroupFoldersInDoubt(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/deep/a", "docs/b", "c"})
	l.names("/team")
	l.names("/team/docs")
	ok(t, last(l.other.Remove(t.Context(), "docs/deep/a")))
	l.see(t)
	l.away()
	l.node("/team/c")
	wantClass(t, last(l.lookup("/team/docs/deep/a")), ClassUnreachable)
	l.wantNames("/team", "c", "docs")
	l.wantNames("/team/docs", "b", "deep")
	l.back()
	l.later.Add(int64(time.Hour))
	l.look.Tick(t.Context())
	l.look.Wait()
	before := l.s.Hits(partsPath)
	l.wantNames("/team/docs", "b")
	if n := l.s.Hits(partsPath) - before; n != 1 {
		t.Errorf("%d questions", n)
	}
	l.wantLists(0)
}

// tooLarge refuses to tell what changed, twice: the mount makes room before the second time.
type tooLarge struct {
	listing
	told *int
}

func (l tooLarge) Changes(ctx context.Context, g sdk.GroupID, at sdk.Cursor, known *view.Partial) (sdk.Changes, error) {
	if *l.told < 2 {
		*l.told++
		return sdk.Changes{}, &sdk.Error{Kind: sdk.ErrTooLarge, Err: errors.New("these are more than a list may have")}
	}
	return l.listing.Changes(ctx, g, at, known)
}

// A mount that fell behind by more than a list may have goes on from what is there now.
func TestLargeGroupFarBehind(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "docs/b", "c"})
	l.names("/team/docs")
	l.node("/team/c")
	l.wantContent("/team/docs/b", "docs/b")
	_, err := l.dir("/team").Mkdir(t.Context(), "made")
	ok(t, err)
	told := 0
	l.parts = tooLarge{l.cfg.Remote.(listing), &told}
	ok(t, last(l.other.RemoveFolder(t.Context(), "made")))
	ok(t, last(l.other.Remove(t.Context(), "docs/b")))
	ok(t, last(l.other.Remove(t.Context(), "c")))
	l.put(t, "new/d", "d")
	l.see(t)
	if n := l.contents.Cache.Stats().Entries; n > 0 {
		t.Errorf("the cache has %d files, which may be deleted", n)
	}
	l.wantNames("/team", "docs", "new")
	l.wantNames("/team/docs", "a")
	l.put(t, "docs/e", "e")
	l.see(t)
	l.wantNames("/team/docs", "a", "e")
	if l.wantLists(0); told < 2 {
		t.Error("it did not fall behind")
	}
}

// What is open while the mount falls behind is saved as if it had not.
func TestLargeGroupFarBehindWhileAFileIsOpen(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		l := newLarge(t, []string{"docs/a", "docs/b", "docs/c", "c"})
		l.names("/team/docs")
		h := l.open("/team/docs/a", OpenFlags{Read: true, Write: true})
		r := l.open("/team/docs/b", OpenFlags{Read: true})
		if early {
			l.write(h, "here", 0)
		}
		told := 0
		l.parts = tooLarge{l.cfg.Remote.(listing), &told}
		l.put(t, "new/d", "d")
		l.see(t)
		if told < 2 {
			t.Fatal("it did not fall behind")
		}
		if !early {
			l.write(h, "here", 0)
		}
		ok(t, h.Flush(t.Context()))
		h.Release()
		l.wantContent("/team/docs/a", "here/a")
		l.wantNames("/team/docs", "a", "b", "c")
		if text, err := readAll(t, r); err != nil || text != "docs/b" {
			t.Errorf("%q, %v", text, err)
		}
		r.Release()
		l.wantLiving("c", "docs/a", "docs/a", "docs/b", "docs/c", "new/d")
		l.wantLists(0)
	}
}

// M6: where memory is short, what was looked at is forgotten, and asked for again: all of a group can be read that has
// no room. Folders stay those that programs know.
func TestM6LargeGroupIsForgottenWhereMemoryIsShort(t *testing.T) {
	t.Parallel()
	const folders = 8
	var files []string
	for i := range folders {
		files = append(files, hundred(fmt.Sprint("f", i))...)
	}
	l := newLarge(t, files, func(cfg *sdk.Config) { cfg.ListMemory = 1 << 20 })
	h := l.open("/team/f0/f07", OpenFlags{Read: true})
	first, numbers := l.dir("/team/f0"), map[string]uint64{}
	for range 2 {
		for i := range folders {
			for _, name := range []string{fmt.Sprintf("/team/f%d/f05", i), "/team/f0/f07"} {
				ino := l.node(name).Attr().Ino
				if was := numbers[name]; was != 0 && was != ino {
					t.Errorf("%s has another number", name)
				}
				numbers[name] = ino
			}
			if n := len(l.names(fmt.Sprint("/team/f", i))); n != 100 {
				t.Errorf("folder %d has %d names", i, n)
			}
			l.node(fmt.Sprintf("/team/f%d/f05", i))
		}
	}
	if l.dir("/team/f0") != first || l.node("/team/f0/f07") != Node(h.File()) {
		t.Error("it is another folder, or another file")
	}
	if text, err := readAll(t, h); err != nil || text != "f0/f07" {
		t.Errorf("%q, %v", text, err)
	}
	h.Release()
	if n := l.groups["team"].view.Len(); n < 100 || n >= 100*folders {
		t.Errorf("%d files are in memory", n)
	}
	l.wantLists(0)
}
