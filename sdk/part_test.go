package sdk_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/testkit"
)

const partPath = wire.PathTools + wire.OpGetNames

// childrenOf lists a folder, each child as a text.
func childrenOf(t *testing.T, g sdk.Group, folder string) (list []string) {
	t.Helper()
	children, err := g.Children(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range children {
		if c.File == nil {
			c.Name += "/"
		} else if !strings.HasSuffix(c.File.Name, c.Name) {
			t.Errorf("%s is recorded as %s", c.Name, c.File.Name)
		}
		list = append(list, c.Name)
	}
	slices.Sort(list)
	return list
}

// asking has the service answer other questions about names.
func asking(change func(*wire.LivingRequest)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var req wire.LivingRequest
			if json.NewDecoder(r.Body).Decode(&req) == nil {
				change(&req)
			}
			raw, _ := json.Marshal(req)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(raw))), int64(len(raw))
			next.ServeHTTP(w, r)
		})
	}
}

// inParts is a new group that alice reads in parts, and the same group as another client of hers has it.
func inParts(t *testing.T, s *testkit.Server) (g, other sdk.Group) {
	t.Helper()
	alice := s.Account("alice", "1000")
	g, other = s.Client(t, alice, func(cfg *sdk.Config) { cfg.SmallGroup = -1 }).Group("g"), s.Client(t, alice).Group("g")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g, other
}

func putText(t *testing.T, g sdk.Group, name string) sdk.Receipt {
	t.Helper()
	r, err := g.Put(t.Context(), name, strings.NewReader(name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A folder is read in pages, of which each is proven; together they are the folder. One name takes one request.
func TestChildrenInPages(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g, _ := inParts(t, s)
	var want []string
	for i := range 9 {
		name := fmt.Sprint("file", i)
		putText(t, g, "docs/"+name)
		want = append(want, name)
	}
	putText(t, g, "docs/deep/x")
	if _, err := g.MakeFolder(t.Context(), "docs/made"); err != nil {
		t.Fatal(err)
	}
	newest := putText(t, g, "docs/file3")
	want = append(want, "deep/", "made/")
	slices.Sort(want)
	for _, most := range []int{0, 1, 3} {
		s.Disturb(partPath, asking(func(req *wire.LivingRequest) { req.Limit = most }))
		before := s.Hits(partPath)
		if got := childrenOf(t, g, "docs"); !slices.Equal(got, want) {
			t.Errorf("pages of %d have %q, want %q", most, got, want)
		}
		if n := s.Hits(partPath) - before; most == 0 && n != 1 || most > 0 && n < len(want)/most {
			t.Errorf("pages of %d took %d requests", most, n)
		}
	}
	if got := childrenOf(t, g, ""); !slices.Equal(got, []string{"docs/"}) {
		t.Errorf("the top has %q", got)
	}
	c, err := g.Child(t.Context(), "docs/file3")
	if err != nil || c.File == nil || c.Name != "file3" || c.File.Ref != newest.Ref ||
		c.File.Hash != newest.Hash || c.File.Size != newest.Size ||
		!c.File.Time.Equal(newest.Time) || c.File.Uploader != newest.Uploader || c.File.Seq != newest.Seq {
		t.Errorf("%+v, %v, want %+v", c.File, err, newest)
	}
	if once, err := g.Child(t.Context(), "docs/file4"); err != nil || !c.Older || once.Older {
		t.Errorf("older versions: %v, %v, %v", c.Older, once.Older, err)
	}
	if c, err := g.Child(t.Context(), "docs/deep"); err != nil || c.File != nil || c.Name != "deep" {
		t.Errorf("a folder is %+v, %v", c, err)
	}
	for _, path := range []string{"docs/none", "none/x", "docs/file1/x"} {
		if _, err := g.Child(t.Context(), path); !errors.Is(err, sdk.ErrNotFound) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := g.Children(t.Context(), path); !errors.Is(err, sdk.ErrNotFound) {
			t.Errorf("folder %s: %v", path, err)
		}
	}
}

// Threat 76: what the service says without a proof is not there, is not taken for missing.
func TestThreat76AbsenceIsProven(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g, _ := inParts(t, s)
	putText(t, g, "docs/x")
	for _, code := range []string{wire.CodeFileNotFound, ""} {
		s.Disturb(partPath, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotFound)
				_, _ = fmt.Fprintf(w, `{"error":"file not found","code":%q}`, code)
			})
		})
		if c, err := g.Child(t.Context(), "docs/x"); err == nil || errors.Is(err, sdk.ErrNotFound) {
			t.Errorf("code %q: %+v, %v", code, c, err)
		}
		if list, err := g.Children(t.Context(), "docs"); err == nil || errors.Is(err, sdk.ErrNotFound) {
			t.Errorf("code %q: %+v, %v", code, list, err)
		}
	}
}

// A page comes compressed from a service that is far away, a short one does not; what is not as it says is refused.
func TestPagesComeCompressedFromFarAway(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	alice := s.Account("alice", "1000")
	c := s.Client(t, alice, func(cfg *sdk.Config) { cfg.SmallGroup = -1 })
	g := c.Group("g")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 120 {
		putText(t, g, fmt.Sprint("docs/file", i))
	}
	var coding, want string
	s.Disturb(partPath, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			coding = answer.Header().Get("Content-Encoding")
			w.Header().Set("Content-Encoding", want)
			_, _ = w.Write(answer.Body.Bytes())
		})
	})
	for _, tc := range []struct {
		far           bool
		folder        string
		coding, shown string
		ok            bool
	}{
		{false, "docs", "", "", true},
		{true, "", "", "", true},
		{true, "docs", "zstd", "zstd", true},
		{true, "docs", "zstd", "br", false},
		{true, "", "", "zstd", false},
	} {
		sdk.Far(c, tc.far)
		want = tc.shown
		list, err := g.Children(t.Context(), tc.folder)
		if coding != tc.coding || tc.ok && err != nil || !tc.ok && (!errors.Is(err, sdk.ErrCorrupt) || len(list) > 0) {
			t.Errorf("%+v: coded %q, %d children, %v", tc, coding, len(list), err)
		}
	}
}

// Stat asks for the name alone; a name that is shown otherwise than it is recorded is found in the whole list.
func TestStatAsksForOneName(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g, _ := inParts(t, s)
	want, odd := putText(t, g, "docs/a"), putText(t, g, "docs/b\x01")
	lists := s.Hits(wire.PathTools + wire.OpGetGroupTransactions)
	if e, err := g.Stat(t.Context(), "docs/a"); err != nil || e.Ref != want.Ref {
		t.Errorf("%+v, %v", e, err)
	}
	for _, name := range []string{"docs/none", "docs"} {
		if e, err := g.Stat(t.Context(), name); !errors.Is(err, sdk.ErrNotFound) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	if n := s.Hits(wire.PathTools+wire.OpGetGroupTransactions) - lists; n != 0 {
		t.Errorf("%d lists", n)
	}
	if e, err := g.Stat(t.Context(), "docs/b%01"); err != nil || e.Ref != odd.Ref {
		t.Errorf("%+v, %v", e, err)
	}
}

// A folder that changes between its pages is read again, and never shown half before and half after.
func TestChildrenOfAChangingFolder(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g, other := inParts(t, s)
	for i := range 4 {
		putText(t, g, fmt.Sprint("docs/", i))
	}
	changes, most := 0, 1
	s.Disturb(partPath, asking(func(req *wire.LivingRequest) {
		if req.Limit = 1; req.From != "" && changes < most {
			changes++
			putText(t, other, fmt.Sprint("docs/new", changes))
		}
	}))
	if got := childrenOf(t, g, "docs"); len(got) != 5 {
		t.Errorf("it has %q", got)
	}
	most = 1000
	if list, err := g.Children(t.Context(), "docs"); !errors.Is(err, sdk.ErrUnavailable) || len(list) > 0 {
		t.Errorf("%d children, %v", len(list), err)
	}
}

// A program that follows what changes takes a folder that changes between its pages: nothing of it is missing then, and
// nothing is there twice, whether names come, go or are replaced on pages of before and of after.
func TestPartOfAChangingFolder(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(t *testing.T, g sdk.Group, n int){
		"new names":      func(t *testing.T, g sdk.Group, n int) { putText(t, g, fmt.Sprint("docs/new", n)) },
		"replaced names": func(t *testing.T, g sdk.Group, n int) { putText(t, g, fmt.Sprint("docs/", n)) },
		"removed names": func(t *testing.T, g sdk.Group, n int) {
			_, _ = g.Remove(t.Context(), fmt.Sprint("docs/", n))
		},
		"renamed names": func(t *testing.T, g sdk.Group, n int) {
			if e, err := g.Stat(t.Context(), fmt.Sprint("docs/", n)); err == nil {
				_, _ = g.Rename(t.Context(), e.Ref, fmt.Sprint("docs/more", n))
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, testkit.Ours)
			g, other := inParts(t, s)
			for i := range 6 {
				putText(t, g, fmt.Sprint("docs/", i))
			}
			n := 0
			s.Disturb(partPath, asking(func(req *wire.LivingRequest) {
				if req.Limit = 1; req.From != "" && n < 4 {
					change(t, other, n)
					n++
				}
			}))
			part, err := g.PartOfFolder(t.Context(), "docs")
			must(t, err)
			s.Disturb(partPath, nil)
			if part.At.Number() == part.Until.Number() {
				t.Error("it is of one place")
			}
			p := view.NewPartial(view.New(), part.At)
			changes, err := g.Changes(t.Context(), p.At(), p)
			must(t, err)
			p.Apply(changes)
			if _, ok := p.LearnFolder("docs", part); !ok || !p.KnowsFolder("docs") || len(p.Doubts("docs")) > 0 {
				t.Fatalf("it is not known: %v, in doubt %q", ok, p.Doubts("docs"))
			}
			newest := map[string]*sdk.Entry{}
			for e := range p.All() {
				if was := newest[e.Name]; e.Deleted == nil && (was == nil || was.Seq < e.Seq) {
					newest[e.Name] = e
				}
			}
			var got, want []string
			for name, e := range newest {
				got = append(got, name+" "+string(e.Ref))
			}
			list, err := g.Children(t.Context(), "docs")
			must(t, err)
			for _, c := range list {
				want = append(want, "docs/"+c.Name+" "+string(c.File.Ref))
			}
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("it has %q, want %q", got, want)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Where a group is to be read as a whole, a part of it is refused as not offered, whatever the reason.
func TestPartsThatAreNotOffered(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g, small := inParts(t, s)
	for _, name := range []string{"both", "both/x", "odd/%41", "odd~01234567/x", "012345678901.txt"} {
		putText(t, g, name)
	}
	for what, try := range map[string]func() error{
		"a small group":               func() error { return second(small.Children(t.Context(), "")) },
		"a file and a folder":         func() error { return second(g.Children(t.Context(), "both")) },
		"beneath a file":              func() error { return second(g.Child(t.Context(), "both/x")) },
		"a file that is a folder":     func() error { return second(g.Child(t.Context(), "both")) },
		"both on a page":              func() error { return second(g.Children(t.Context(), "")) },
		"what looks like an escape":   func() error { return second(g.Children(t.Context(), "odd")) },
		"what looks like a suffix":    func() error { return second(g.Children(t.Context(), "odd~01234567")) },
		"what looks like a hash":      func() error { return second(g.Child(t.Context(), "012345678901.txt")) },
		"a path that is none":         func() error { return second(g.Child(t.Context(), "a//b")) },
		"no path":                     func() error { return second(g.Child(t.Context(), "")) },
		"another name of the control": func() error { return second(g.Children(t.Context(), ".svcfs")) },
	} {
		if err := try(); !errors.Is(err, sdk.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// While the service reads the names of a group for the first time, the client says so at once, and does not list the
// group. Where the service cannot read them, the group is listed.
func TestPartsOfATreeThatIsNotBuilt(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g, _ := inParts(t, s)
	want := putText(t, g, "docs/x")
	lists := s.Hits(wire.PathTools + wire.OpGetGroupTransactions)
	s.Answer(partPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, `{"error":"its names are read for the first time","code":%q}`, wire.CodeNamesUnread)
	})
	for i, err := range []error{second(g.Child(t.Context(), "docs/x")), second(g.Children(t.Context(), "docs")),
		second(g.Stat(t.Context(), "docs/x"))} {
		if !errors.Is(err, sdk.ErrUnavailable) || !strings.Contains(err.Error(), "its names are read") {
			t.Errorf("%d: %v", i, err)
		}
	}
	if questions, n := s.Hits(partPath), s.Hits(wire.PathTools+wire.OpGetGroupTransactions)-lists; questions != 3 ||
		n != 0 {
		t.Errorf("%d questions, %d lists", questions, n)
	}
	s.Disturb(partPath, nil)
	if c, err := g.Child(t.Context(), "docs/x"); err != nil || c.File.Ref != want.Ref {
		t.Errorf("%+v, %v", c, err)
	}
	s.Answer(partPath, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"error":"its names cannot be read","code":%q}`, wire.CodeUnsupported)
	})
	if _, err := g.Children(t.Context(), "docs"); !errors.Is(err, sdk.ErrUnsupported) {
		t.Error(err)
	}
	if e, err := g.Stat(t.Context(), "docs/x"); err != nil || e.Ref != want.Ref {
		t.Errorf("%+v, %v", e, err)
	}
}

func second[T any](_ T, err error) error { return err }

// What a part told of the end of a group is remembered: a list that ends before is refused.
func TestThreat6PartsAreRemembered(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g, other := inParts(t, s)
	putText(t, other, "docs/a")
	s.Log()
	newest := putText(t, other, "docs/b")
	if got := childrenOf(t, g, "docs"); len(got) != 2 {
		t.Fatalf("it has %q", got)
	}
	s.Show(s.Log().Rewritten(func(r *chain.Record) bool { return r.Ref != string(newest.Ref) }))
	if list, err := g.Entries(t.Context()); !errors.Is(err, sdk.ErrCorrupt) ||
		!strings.Contains(fmt.Sprint(err), "newer ones are left out") || len(list) > 0 {
		t.Errorf("%d entries, %v", len(list), err)
	}
}

// nothingKnown knows nothing of a group.
type nothingKnown struct{}

func (nothingKnown) Entry(sdk.Ref) *sdk.Entry            { return nil }
func (nothingKnown) Beneath(string) ([]*sdk.Entry, bool) { return nil, false }

// What changes after a part is listed without the rest of the group, also where the part told of records that were in
// no checkpoint.
func TestChangesAfterAPart(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g, other := inParts(t, s)
	for i := range 5 {
		putText(t, other, fmt.Sprint("docs/", i))
	}
	moved := putText(t, other, "docs/moved")
	part, err := g.PartOfName(t.Context(), "docs/1")
	if err != nil || part.Missing || len(part.Children) != 1 || part.At.Number() < 7 {
		t.Fatalf("%+v, %v", part, err)
	}
	none, err := g.Changes(t.Context(), part.At, nothingKnown{})
	if err != nil || len(none.Entries)+len(none.Renamed)+len(none.Left) > 0 || none.At.Number() != part.At.Number() {
		t.Errorf("%+v, %v", none, err)
	}
	newest := putText(t, other, "docs/new")
	if _, err := other.Rename(t.Context(), moved.Ref, "docs/there"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.RenameFolder(t.Context(), "docs", "papers", newest.Seq+1); err != nil {
		t.Fatal(err)
	}
	for _, at := range []sdk.Cursor{part.At, none.At} {
		c, err := g.Changes(t.Context(), at, nothingKnown{})
		if err != nil || len(c.Entries) != 2 || c.Entries[0].Ref != newest.Ref || c.Entries[1].Ref != moved.Ref ||
			c.Entries[0].Name != "papers/new" || c.Entries[1].Name != "papers/there" ||
			!slices.Equal(c.Left, []string{"docs/moved"}) || len(c.Renamed) != 1 ||
			c.Renamed[0] != (sdk.FolderMove{From: "docs", To: "papers", By: newest.Uploader, Number: c.At.Number()}) ||
			c.At.Number() != at.Number()+3 {
			t.Errorf("%+v, %v", c, err)
		}
	}
	missing, err := g.PartOfName(t.Context(), "docs/1")
	if err != nil || !missing.Missing || len(missing.Children) > 0 || missing.At.Number() != part.At.Number()+3 {
		t.Errorf("%+v, %v", missing, err)
	}
	if folder, err := g.PartOfFolder(t.Context(), "docs"); err != nil || !folder.Missing {
		t.Errorf("%+v, %v", folder, err)
	}
}

// Threat 76: the sequence of the end that a part tells of is not signed. Whatever it is, no change is left out.
func TestThreat76SequenceOfAPart(t *testing.T) {
	t.Parallel()
	for what, seq := range map[string]func(of float64) float64{
		"of a record before": func(of float64) float64 { return of - 1 },
		"of the next record": func(of float64) float64 { return of + 1 },
		"none":               func(float64) float64 { return 0 },
		"below all":          func(float64) float64 { return -5 },
		"above all":          func(of float64) float64 { return of + 1000 },
	} {
		s := testkit.Start(t, testkit.Ours)
		g, other := inParts(t, s)
		putText(t, other, "a")
		putText(t, other, "b")
		s.Disturb(partPath, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := httptest.NewRecorder()
				next.ServeHTTP(answer, r)
				var all map[string]any
				if err := json.Unmarshal(answer.Body.Bytes(), &all); err != nil {
					t.Error(err)
				}
				of := all["result"].(map[string]any)
				of["seq"] = seq(of["seq"].(float64))
				_ = json.NewEncoder(w).Encode(all)
			})
		})
		part, err := g.PartOfName(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		putText(t, other, "c")
		putText(t, other, "d")
		c, err := g.Changes(t.Context(), part.At, nothingKnown{})
		if !errors.Is(err, sdk.ErrCorrupt) || len(c.Entries) > 0 {
			t.Errorf("%s: %+v, %v", what, c, err)
		}
	}
}
