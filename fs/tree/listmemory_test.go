package tree

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
)

// files puts files into a group of the world.
func files(w *world, g string, n int) {
	for i := range n {
		w.Put(sdk.GroupID(g), "bob", fmt.Sprintf("a folder/a name of some length %d", i), []byte("x"))
	}
}

// M6, threat 8: a group that has no room in the memory for lists is not listed, and the error says
// so; what was listed before stays as it is. A group that is gone makes room.
func TestThreat8ListsFillTheMemory(t *testing.T) {
	w := treetest.NewWorld()
	for _, g := range []string{"small", "large"} {
		w.Member(sdk.GroupID(g), "alice", "bob")
	}
	files(w, "small", 500)
	files(w, "large", 2000)
	m := mount(t, w, "alice", func(*Config) { w.ListMemory = 3 << 20 })
	names := m.names("/small/a folder")
	held := w.Held()
	_, err := m.dir("/large").Entries(t.Context())
	if wrapRemote("", "", err).Class != ClassNoMemory {
		t.Fatalf("the large group is listed: %v", err)
	}
	if w.Held() != held || held == 0 {
		t.Errorf("%d bytes are held after the refusal, %d before", w.Held(), held)
	}
	if got := m.names("/small/a folder"); !slices.Equal(got, names) || len(got) != 500 {
		t.Errorf("the small group has %d names", len(got))
	}
	w.Revoke("small", "alice")
	ok(t, m.look.Groups.Refresh(t.Context(), 0))
	if n := len(m.names("/large/a folder")); n != 2000 {
		t.Errorf("once there is room, the large group has %d names", n)
	}
	w.Revoke("large", "alice")
	ok(t, m.look.Groups.Refresh(t.Context(), 0))
	if w.Held() > 2600*givenBytes {
		t.Errorf("without groups %d bytes are held", w.Held())
	}
}

// M6, threat 8: groups of others take half of the memory for lists together, so that there are news
// of own groups always; and what was deleted is gone, though nothing new has room.
func TestThreat8GroupsOfOthersShareTheMemory(t *testing.T) {
	w := treetest.NewWorld()
	w.Member("own", "alice", "bob")
	files(w, "own", 100)
	for _, g := range []sdk.GroupID{"theirs", "theirs too"} {
		w.Member(g, "bob", "alice")
	}
	gone := w.Put("theirs", "bob", "gone", []byte("x"))
	w.Put("theirs", "bob", "there", []byte("x"))
	m := mount(t, w, "alice", func(*Config) { w.ListMemory = 3 << 20 })
	m.names("/own/a folder")
	m.names("/theirs")
	for _, g := range []string{"theirs", "theirs too"} {
		for i := range 2 {
			w.Put(sdk.GroupID(g), "bob", fmt.Sprint(i, strings.Repeat("/d", 1000)), []byte("x"))
		}
	}
	w.Shred("theirs", gone.Ref)
	for range 2 {
		if err := m.groups["theirs"].list.Refresh(t.Context(), 0); wrapRemote("", "", err).Class != ClassNoMemory {
			t.Errorf("names of 2,000 folders are listed: %v", err)
		}
		if got := m.names("/theirs"); !slices.Equal(got, []string{"there"}) {
			t.Errorf("what was deleted shows: %q", got)
		}
	}
	if m.groups["theirs too"].list.IsListed() {
		t.Error("the other group was listed")
	}
	files(w, "own", 500)
	ok(t, m.groups["own"].list.Refresh(t.Context(), 0))
	if n := len(m.names("/own/a folder")); n != 500 {
		t.Errorf("the own group has %d names", n)
	}
	for i := range 300 {
		w.Member(sdk.GroupID(fmt.Sprint("invited ", i)), "bob", "alice")
	}
	w.Member("own too", "alice")
	if err := m.look.Groups.Refresh(t.Context(), 0); wrapRemote("", "", err).Class != ClassNoMemory {
		t.Errorf("300 groups of others are listed: %v", err)
	}
	m.names("/own too")
}

// Threat 8: the folders of a long name count, too.
func TestThreat8NamesOfManyFolders(t *testing.T) { // alone: it measures the heap of the process
	w := treetest.NewWorld()
	w.Member("g", "alice", "bob")
	m := mount(t, w, "alice")
	m.names("/g")
	deep := func(i int) string { return fmt.Sprint(i, strings.Repeat("/d", 400)) }
	for i := range 10 {
		w.Put("g", "bob", deep(i), []byte("x"))
	}
	before, held := heap(), w.Held()
	ok(t, m.groups["g"].list.Refresh(t.Context(), 0))
	m.names("/g/.svcfs/history/0/d")
	if taken := int64(heap() - before); w.Held()-held < taken {
		t.Errorf("they take %d bytes, and %d are counted", taken, w.Held()-held)
	}
	w.ListMemory = w.Held() + 1<<20
	for i := range 10 {
		w.Put("g", "bob", deep(10+i), []byte("x"))
	}
	if err := m.groups["g"].list.Refresh(t.Context(), 0); wrapRemote("", "", err).Class != ClassNoMemory {
		t.Errorf("10 names more are listed: %v", err)
	}
	m.wantContent("/g/"+deep(3), "x")
}

// Threat 8: very many groups take no more memory than lists may. The groups that were there stay.
func TestThreat8ManyGroups(t *testing.T) { // alone: it measures the heap of the process
	w := treetest.NewWorld()
	w.Member("first", "alice")
	w.Put("first", "alice", "file", []byte("x"))
	m := mount(t, w, "alice")
	m.names("/first")
	const groups = 500
	before, held := heap(), w.Held()
	for i := range groups {
		w.Member(sdk.GroupID(fmt.Sprint("group ", i)), "alice")
	}
	ok(t, m.look.Groups.Refresh(t.Context(), 0))
	if taken := int64(heap() - before); w.Held()-held < taken {
		t.Errorf("%d groups take %d bytes, and %d are counted", groups, taken, w.Held()-held)
	}
	w.ListMemory = w.Held() + 100*groupBytes
	for i := range groups {
		w.Member(sdk.GroupID(fmt.Sprint("another group ", i)), "alice")
	}
	if err := m.look.Groups.Refresh(t.Context(), 0); wrapRemote("", "", err).Class != ClassNoMemory {
		t.Errorf("500 groups more are listed: %v", err)
	}
	if n := len(m.groups); n != groups+1 {
		t.Errorf("there are %d groups", n)
	}
	m.wantContent("/first/file", "x")
}

// Threat 8: one name after the other for a file takes no memory for ever.
func TestThreat8NamesThatAreNoMore(t *testing.T) {
	w := treetest.NewWorld()
	w.Member("g", "alice", "bob")
	e := w.Put("g", "bob", "first", []byte("x"))
	files(w, "g", 10)
	m := mount(t, w, "alice")
	m.names("/g")
	m.names("/g/.svcfs/history")
	before := w.Held()
	const moves = 200
	for i := range moves {
		ok(t, last(w.As("bob").RenameFile(t.Context(), "g", e.Ref, fmt.Sprintf("folder %d/name %d", i, i))))
		ok(t, m.groups["g"].list.Refresh(t.Context(), 0))
		if i%2 == 0 {
			m.names("/g/.svcfs/history")
		}
	}
	g := m.groups["g"]
	if grown := w.Held() - before; len(g.names) != 11 || len(g.unlearned) > 1 || len(g.history.under) > 2 || grown > moves*2*givenBytes+100 {
		t.Errorf("%d names, %d of them new to the history, %d names there, %d bytes more", len(g.names), len(g.unlearned), len(g.history.under), grown)
	}
}

// Threat 8: programs that make thousands of temporary files, and rename or remove them, take no memory for their names.
func TestThreat8TemporaryNames(t *testing.T) {
	w := treetest.NewWorld()
	w.Member("team", "alice")
	m := mount(t, w, "alice", ours)
	ok(t, m.save("/team/x", "first"))
	for i := range 10 {
		temp := fmt.Sprintf("new%d", i)
		ok(t, m.save("/team/"+temp, temp))
		ok(t, m.rename(temp, "x"))
		h := m.create("/team/" + temp) // renamed before it was saved
		ok(t, m.rename(temp, "x"))
		m.write(h, "once more", 0)
		ok(t, h.Flush(t.Context()))
		h.Release()
		m.create("/team/" + temp).Release()
		ok(t, m.dir("/team").Unlink(t.Context(), temp))
	}
	ok(t, m.Refresh(t.Context()))
	g := m.groups["team"]
	if len(g.names) != 1 || len(g.unlearned) != 1 {
		t.Errorf("%d names, %d of them new to the history", len(g.names), len(g.unlearned))
	}
	m.wantNames("/team", "x")
	m.wantContent("/team/x", "once more")
}

// W11: a name is remembered, though nothing that is known has it, while what was saved under it may be a conflict yet.
func TestW11NameThatWasForgotten(t *testing.T) {
	m := mount(t, team(), bob)
	m.names("/team")
	g := m.groups["team"]
	m.mu.Lock()
	defer m.mu.Unlock()
	for raw, v := range map[string]versions{
		"another was saved before": {saved: 9, base: 7},
		"a save without an answer": {saved: 9, base: 9, unsure: []sdk.Digest{{}}},
		"no conflict":              {saved: 9, base: 9},
	} {
		now := g.version(raw)
		now.saved, now.base, now.unsure = v.saved, v.base, v.unsure
		g.place(now)
		if is := g.names[raw] != nil; is != (raw != "no conflict") {
			t.Errorf("%s: remembered %v", raw, is)
		}
	}
}

// M6: what counts as held is no less than what the names take, with history and ledger.
func TestM6HeldIsWhatItTakes(t *testing.T) { // alone: it measures the heap of the process
	w := treetest.NewWorld()
	w.Member("g", "alice", "bob")
	files(w, "g", 5000)
	m := mount(t, w, "alice")
	before := heap()
	m.names("/g/a folder")
	listed := heap() - before
	for _, name := range m.names("/g/.svcfs/history/a folder") {
		m.names("/g/.svcfs/history/a folder/" + name)
	}
	_ = m.groups["g"].ledgerText()
	all := int64(heap() - before)
	t.Logf("of 5,000 files: %d bytes in a list, %d with history and ledger, %d counted", listed, all, w.Held())
	if w.Held() < all {
		t.Errorf("%d bytes are counted, and %d taken", w.Held(), all)
	}
	runtime.KeepAlive(m)

	counted := w.Held()
	before = heap()
	m = mount(t, w, "alice", func(cfg *Config) { cfg.Remote = inParts{remote{w.As("alice")}} })
	m.names("/g/a folder")
	all, counted = int64(heap()-before), w.Held()-counted
	p := m.groups["g"].part.Load()
	if p == nil {
		t.Fatal("the group is listed")
	}
	more := all - int64(listed)
	t.Logf("in part: %d bytes, %d counted, %d of them for %d more than a list takes", all, counted, p.Footprint(), more)
	if counted < all || m.groups["g"].partHeld != p.Footprint() || p.Footprint() < more {
		t.Error("less is counted than taken")
	}
	runtime.KeepAlive(m)
}

// inParts is a service that tells what is in a folder.
type inParts struct{ remote }

func (r inParts) PartOfName(context.Context, sdk.GroupID, string) (sdk.Part, error) {
	return sdk.Part{Children: []sdk.Child{{Name: "a folder"}}}, nil
}

func (r inParts) PartOfFolder(ctx context.Context, g sdk.GroupID, folder string) (p sdk.Part, err error) {
	entries, err := r.Entries(ctx, g, view.New())
	for i := range entries {
		if name, is := strings.CutPrefix(entries[i].Name, folder+"/"); is {
			p.Children = append(p.Children, sdk.Child{Name: name, File: &entries[i]})
		}
	}
	return p, err
}

func (r inParts) Changes(context.Context, sdk.GroupID, sdk.Cursor, *view.Partial) (sdk.Changes, error) {
	return sdk.Changes{}, nil
}
