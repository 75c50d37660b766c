package tree

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

const partsPath = wire.PathTools + wire.OpGetNames

// large is a mount of a group that is large for it, and the group for others.
type large struct {
	*mounted
	s            *testkit.Server
	account      testkit.Account
	other        sdk.Group
	bytes, lists atomic.Int64 // that arrived, and lists of the whole group
	key          string       // of the log: a machine asks for it once
	later        atomic.Int64 // by how much the clock of the mount is late, in ns
}

// newLarge mounts a group with files of others. Each change is made to the configuration of the client before.
func newLarge(t *testing.T, files []string, changes ...func(*sdk.Config)) *large {
	t.Helper()
	l := &large{s: testkit.Start(t, testkit.Ours)}
	l.account = l.s.Account("alice", "10000")
	l.other = l.s.Client(t, l.account).Group("team")
	resp, err := http.Get(l.s.URL + wire.PathTlog + "key")
	ok(t, err)
	raw, err := io.ReadAll(resp.Body)
	ok(t, err)
	_ = resp.Body.Close()
	l.key = strings.TrimSpace(string(raw))
	ok(t, last(l.other.Register(t.Context())))
	for _, name := range files {
		l.put(t, name, name)
	}
	l.s.Disturb("/*", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(counted{w, &l.bytes}, r)
		})
	})
	changes = append([]func(*sdk.Config){func(cfg *sdk.Config) { cfg.SmallGroup = -1 }}, changes...)
	l.mounted = l.mount(t, &l.lists, changes...)
	return l
}

// listing counts lists of whole groups.
type listing struct {
	Client
	lists *atomic.Int64
}

func (l listing) Entries(ctx context.Context, g sdk.GroupID, since *view.View) ([]sdk.Entry, error) {
	if since.After() == 0 {
		l.lists.Add(1)
	}
	return l.Client.Entries(ctx, g, since)
}

func (l *large) mount(t *testing.T, lists *atomic.Int64, changes ...func(*sdk.Config)) *mounted {
	t.Helper()
	changes = append([]func(*sdk.Config){func(cfg *sdk.Config) { cfg.LogKey = l.key }}, changes...)
	cfg := Config{Remote: listing{Client{l.s.Client(t, l.account, changes...)}, lists}, Ours: true,
		RefreshInterval: time.Hour, EmptyDelay: time.Hour, AttributesDelay: time.Hour, reopen: -1,
		clock: func() time.Time { return time.Now().Add(time.Duration(l.later.Load())) }}
	return &mounted{grow(t, cfg, nil), t, nil}
}

type counted struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (l *large) put(t *testing.T, name, content string) sdk.Receipt {
	t.Helper()
	r, err := l.other.Put(t.Context(), name, strings.NewReader(content))
	ok(t, err)
	return r
}

// mv renames a folder elsewhere.
func (l *large) mv(t *testing.T, folder, to string) {
	t.Helper()
	mv(t, l.other, folder, to)
}

func mv(t *testing.T, g sdk.Group, folder, to string) {
	t.Helper()
	list, err := g.Entries(t.Context())
	ok(t, err)
	seen := slices.MaxFunc(list, func(a, b sdk.Entry) int { return int(a.ChangedSeq - b.ChangedSeq) }).ChangedSeq
	ok(t, last(g.RenameFolder(t.Context(), folder, to, seen)))
}

// see has the mount look at the ledger.
func (l *large) see(t *testing.T) {
	t.Helper()
	ok(t, l.Refresh(t.Context()))
}

// wantLists checks how often the group was listed whole by now.
func (l *large) wantLists(n int64) {
	l.t.Helper()
	if got := l.lists.Load(); got != n {
		l.t.Errorf("the group was listed %d times, want %d", got, n)
	}
}

func hundred(folder string) (list []string) {
	for i := range 100 {
		list = append(list, fmt.Sprintf("%s/f%02d", folder, i))
	}
	return list
}

// M6: the first stat in a large group takes one small request for each name on the way, and a folder one for its page;
// what was looked at is known then, and nothing else.
func TestM6LargeGroupIsAskedForWhatIsLookedAt(t *testing.T) {
	t.Parallel()
	l := newLarge(t, append(hundred("docs"), hundred("others")...))
	requests, bytes := l.s.Requests(), l.bytes.Load()
	if n := l.node("/team/docs/f05"); n.Attr().Size != int64(len("docs/f05")) {
		t.Errorf("%+v", n.Attr())
	}
	if n, b := l.s.Requests()-requests, l.bytes.Load()-bytes; n > 2 || b > 64<<10 {
		t.Errorf("the first stat took %d requests and %d bytes", n, b)
	}
	if n := l.groups["team"].view.Len(); n != 1 {
		t.Errorf("%d files are in memory", n)
	}
	requests, bytes = l.s.Requests(), l.bytes.Load()
	if names := l.names("/team/docs"); len(names) != 100 || names[5] != "f05" {
		t.Errorf("it has %q", names)
	}
	if n, b := l.s.Requests()-requests, l.bytes.Load()-bytes; n > 2 || b > 256<<10 {
		t.Errorf("a folder took %d requests and %d bytes", n, b)
	}
	requests = l.s.Requests()
	for i := range 100 {
		l.node(fmt.Sprintf("/team/docs/f%02d", i))
	}
	if n := l.s.Requests() - requests; n > 0 {
		t.Errorf("what is known took %d requests", n)
	}
	if _, err := l.lookup("/team/docs/none"); err == nil {
		t.Error("it has what is not there")
	}
	l.wantContent("/team/docs/f07", "docs/f07")
	l.wantNames("/team", "docs", "others")
	l.wantLists(0)
}

// What others change in a folder that is known in part is seen, also that its only version is another one.
func TestLargeGroupSeesWhatOthersChange(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "docs/b", "docs/deep/x", "others/c"})
	l.names("/team/docs")
	old := l.node("/team/docs/a")
	l.put(t, "docs/a", "newer")
	l.put(t, "docs/new", "new")
	l.put(t, "docs/made/y", "y")
	ok(t, last(l.other.Remove(t.Context(), "docs/b")))
	ok(t, last(l.other.Remove(t.Context(), "docs/deep/x")))
	l.see(t)
	l.wantContent("/team/docs/a", "newer")
	l.wantContent("/team/docs/made/y", "y")
	l.wantNames("/team/docs", "a", "made", "new")
	if l.node("/team/docs/a").Attr().Ino == old.Attr().Ino {
		t.Error("a file of others has the number of another file")
	}
	ok(t, last(l.other.Restore(t.Context(), "docs/b")))
	l.see(t)
	l.wantNames("/team/docs", "a", "b", "made", "new")
	l.wantLists(0)
}

// A folder that others rename is seen, with what is beneath; a file that is open goes on being read.
func TestLargeGroupSeesARenamedFolder(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/in/a", "docs/in/b", "others/c"})
	l.names("/team")
	l.names("/team/docs/in")
	h, err := l.node("/team/docs/in/a").(*File).Open(t.Context(), OpenFlags{Read: true})
	ok(t, err)
	l.mv(t, "docs", "papers")
	l.put(t, "docs/other", "another")
	l.see(t)
	l.wantNames("/team", "docs", "others", "papers")
	l.wantNames("/team/docs", "other")
	l.wantNames("/team/papers/in", "a", "b")
	if _, err := l.lookup("/team/docs/in"); err == nil {
		t.Error("the old name is there")
	}
	if text, err := readAll(t, h); err != nil || text != "docs/in/a" {
		t.Errorf("the open file has %q, %v", text, err)
	}
	l.wantContent("/team/papers/in/a", "docs/in/a")
	ok(t, last(l.other.Delete(t.Context(), h.File().entry.Load().Ref)))
	l.see(t)
	if _, err := l.lookup("/team/papers/in/a"); err == nil {
		t.Error("a destroyed file is there")
	}
	h.Release()
	l.wantLists(0)
}

// Programs save, rename and remove files of a large group, and make folders, without a list of it; older versions go
// with their file, for which it is listed.
func TestLargeGroupIsChanged(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "docs/b", "docs/c", "others/x", "twice", "twice"})
	docs := l.dir("/team/docs")
	ok(t, l.save("/team/docs/new", "new"))
	ok(t, l.save("/team/docs/a", "changed"))
	ok(t, docs.Unlink(t.Context(), "b"))
	ok(t, docs.Rename(t.Context(), "c", l.dir("/team/others"), "moved", false))
	made, err := docs.Mkdir(t.Context(), "made")
	ok(t, err)
	ok(t, l.save("/team/docs/made/deep", "deep"))
	ok(t, made.Unlink(t.Context(), "deep"))
	ok(t, docs.Rmdir(t.Context(), "made"))
	check := func() {
		t.Helper()
		l.wantNames("/team", "docs", "others", "twice")
		l.wantNames("/team/docs", "a", "new")
		l.wantNames("/team/others", "moved", "x")
		l.wantContent("/team/docs/a", "changed")
		l.wantContent("/team/docs/new", "new")
		l.wantContent("/team/others/moved", "docs/c")
	}
	check()
	l.see(t)
	check()
	l.wantLists(0)
	ok(t, l.dir("/team").Unlink(t.Context(), "twice"))
	l.wantNames("/team", "docs", "others")
	l.see(t)
	l.wantNames("/team", "docs", "others")
	l.wantLists(1)
	if list, err := l.other.Files(t.Context()); err != nil || len(list) != 4 {
		t.Errorf("others have %d files, %v", len(list), err)
	}
}

// M6: what needs all of a group has it listed, once; from then on it is known as a small one is.
func TestM6LargeGroupIsListedForWhatNeedsAll(t *testing.T) {
	t.Parallel()
	for what, do := range map[string]func(l *large) error{
		"mv of a folder": func(l *large) error {
			return l.dir("/team").Rename(t.Context(), "docs", l.dir("/team"), "papers", false)
		},
		"history": func(l *large) error {
			l.wantNames("/team/.svcfs/history", "docs", "others")
			return nil
		},
		"a name in history": func(l *large) error { l.node("/team/.svcfs/history/docs/a"); return nil },
		"trash":             func(l *large) error { l.wantNames("/team/.svcfs/trash"); return nil },
		"ledger.jsonl":      func(l *large) error { l.node("/team/.svcfs/ledger.jsonl"); return nil },
		"a name of two things": func(l *large) error {
			wantClass(t, last(l.lookup("/team/odd%41")), ClassNotExist)
			return nil
		},
	} {
		l := newLarge(t, []string{"docs/a", "docs/b", "others/c"})
		l.node("/team/docs/a")
		l.node("/team/.svcfs/owner")
		l.wantLists(0)
		if err := do(l); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		l.wantLists(1)
		docs := "docs"
		if what == "mv of a folder" {
			docs = "papers"
		}
		l.put(t, docs+"/new", "new")
		l.see(t)
		l.wantNames("/team/"+docs, "a", "b", "new")
		l.node("/team/.svcfs/history/" + docs)
		if l.wantLists(1); t.Failed() {
			t.Fatal(what)
		}
	}
}

// A group that is not large is listed, after one question whether it is.
func TestSmallGroupIsListed(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "docs/b"}, func(cfg *sdk.Config) { cfg.SmallGroup = 0 })
	l.node("/team/docs/a")
	l.wantNames("/team", "docs")
	l.wantLists(1)
	if n := l.s.Hits(partsPath); n != 1 {
		t.Errorf("%d questions", n)
	}
}

// M6: while the service reads the names of one group for the first time, the others are there, and are not away.
func TestM6LargeGroupWhoseNamesAreRead(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "docs/b"})
	fresh := l.s.Client(t, l.account).Group("fresh")
	ok(t, last(fresh.Register(t.Context())))
	ok(t, last(fresh.Put(t.Context(), "x/y", strings.NewReader("1"))))
	l.see(t)
	var asked atomic.Int32
	l.s.Disturb("/*", nil)
	l.s.Disturb(partsPath, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(raw))
			if !bytes.Contains(raw, []byte("fresh")) {
				next.ServeHTTP(w, r)
				return
			}
			asked.Add(1)
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(w, `{"error":"its names are read","code":%q}`, wire.CodeNamesUnread)
		})
	})
	for n := range int32(2) {
		_, err := l.lookup("/fresh/x")
		wantClass(t, err, ClassBusy)
		if asked.Load() != n+1 {
			t.Errorf("%d questions", asked.Load())
		}
	}
	l.node("/team/docs/a")
	if !l.look.Reached() {
		t.Error("the service counts as away")
	}
	l.s.Disturb(partsPath, nil)
	l.node("/fresh/x/y")
}

// M6: while the service is away, memory answers for what is known; what nobody looked at is not taken for missing.
func TestM6LargeGroupWhileTheServiceIsAway(t *testing.T) {
	t.Parallel()
	l := newLarge(t, []string{"docs/a", "docs/b", "others/c"})
	l.names("/team/docs")
	l.s.Answer("/*", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	for range 2 {
		_, err := l.lookup("/team/others")
		wantClass(t, err, ClassUnreachable)
	}
	l.wantNames("/team/docs", "a", "b")
	l.node("/team/docs/a")
}

// A mount by parts shows what a mount by lists shows, whatever others do meanwhile.
func TestLargeGroupShowsWhatAListShows(t *testing.T) {
	t.Parallel()
	folders := []string{"", "a", "b", "a/c", "b/c"}
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			l := newLarge(t, []string{"a/x", "b/c/y"})
			whole := l.mount(t, new(atomic.Int64))
			random := rand.New(rand.NewPCG(seed, 7))
			one := func(list []string) string { return list[random.IntN(len(list))] }
			name := func() string { return path.Join(one(folders), one([]string{"x", "y", "z"})) }
			var refs []sdk.Ref
			change := func() {
				switch n := random.IntN(14); {
				case n < 4 || len(refs) == 0:
					refs = append(refs, l.put(t, name(), fmt.Sprint(random.Uint64())).Ref)
				case n < 5:
					_, _ = l.other.Rename(t.Context(), refs[random.IntN(len(refs))], name())
				case n < 6:
					_, _ = l.other.Delete(t.Context(), refs[random.IntN(len(refs))])
				case n < 7:
					_, _ = l.other.MakeFolder(t.Context(), one(folders[1:]))
				case n < 8:
					list, err := l.other.Entries(t.Context())
					ok(t, err)
					seen := sdk.Seq(0)
					for _, e := range list {
						seen = max(seen, e.ChangedSeq)
					}
					_, _ = l.other.RenameFolder(t.Context(), one(folders[1:]), one(folders[1:]), seen)
				case n < 10: // here
					if d, is := lookedUp(l, path.Dir("/team/"+name())).(*Dir); is {
						name, flags := one([]string{"x", "y"}), OpenFlags{Write: true, Truncate: true}
						if _, h, err := d.Create(t.Context(), name, false, flags); err == nil {
							_, _ = h.WriteAt(t.Context(), fmt.Append(nil, random.Uint64()), 0)
							ok(t, h.Flush(t.Context()))
							h.Release()
						}
					}
				case n < 12:
					if d, is := lookedUp(l, path.Dir("/team/"+name())).(*Dir); is {
						_ = d.Unlink(t.Context(), one([]string{"x", "y"}))
					}
				default:
					from, isFrom := lookedUp(l, path.Dir("/team/"+name())).(*Dir)
					to, isTo := lookedUp(l, path.Dir("/team/"+name())).(*Dir)
					if isFrom && isTo {
						_ = from.Rename(t.Context(), one([]string{"x", "y"}), to, one([]string{"x", "y", "z"}), false)
					}
				}
			}
			for range 40 {
				for range random.IntN(4) {
					change()
				}
				if random.IntN(2) == 0 {
					_ = lookedUp(l, "/team/"+name())
				}
				if d, is := lookedUp(l, "/team/"+one(folders)).(*Dir); is && random.IntN(2) == 0 {
					ok(t, last(d.Entries(t.Context())))
				}
				if random.IntN(3) > 0 {
					continue
				}
				ok(t, l.Refresh(t.Context()))
				whole.node("/team")
				whole.names("/team")
				ok(t, whole.Refresh(t.Context()))
				for _, folder := range folders {
					got, want := shownIn(l.mounted, folder), shownIn(whole, folder)
					ours := func(name string) bool { // it stays, because this mount removed what was in it
						d, is := lookedUp(l, path.Join("/team", folder, name)).(*Dir)
						return is && d.isLocal() && len(d.files(nil)) == 0
					}
					got, want = slices.DeleteFunc(got, ours), slices.DeleteFunc(want, ours)
					if !slices.Equal(got, want) {
						t.Fatalf("%q has %q, want %q", folder, got, want)
					}
				}
			}
		})
	}
}

// lookedUp is what is at a path, nil = nothing.
func lookedUp(l *large, p string) Node {
	n, err := l.lookup(p)
	if err != nil {
		return nil
	}
	return n
}

// shownIn is what a mount shows in a folder of its group.
func shownIn(m *mounted, folder string) (list []string) {
	n, err := m.lookup("/team/" + folder)
	d, isDir := n.(*Dir)
	if err != nil || !isDir {
		return nil
	}
	entries, err := d.Entries(m.t.Context())
	ok(m.t, err)
	for _, e := range entries {
		if f, isFile := e.Node.(*File); isFile {
			list = append(list, fmt.Sprint(e.Name, " ", f.entry.Load().Ref, " ", f.Attr().Size))
		} else {
			list = append(list, e.Name+"/")
		}
	}
	return list
}

// isLocal reports whether d, or a folder beneath, is in this mount alone.
func (d *Dir) isLocal() bool {
	is := d.local
	for _, n := range d.children {
		if in, ok := n.(*Dir); ok {
			is = is || in.isLocal()
		}
	}
	return is
}
