package service_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
)

// saves uploads a version as a client that knows versions does.
func (u *user) saves(name, content string) string {
	u.t.Helper()
	req := u.finalize("g", name, []byte(content))
	req.Versioned = true
	return must[wire.FinalizeUploadResult](u, wire.OpFinalizeUpload, req).CID
}

func (u *user) keeps(keep string) string {
	u.t.Helper()
	return must[string](u, wire.OpSetGroupVersions, object{"group_id": "g", "keep": keep})
}

func (u *user) tries(keep string) wire.TryVersionsResult {
	u.t.Helper()
	return must[wire.TryVersionsResult](u, wire.OpTryGroupVersions, object{"group_id": "g", "keep": keep})
}

// living are the contents of the living versions of a name, oldest first.
func (g *trashGroup) living(name string) (contents string) {
	g.t.Helper()
	for _, row := range g.owner.rows("g") {
		if row.Deleted == nil && row.Filename != nil && *row.Filename == name {
			content, problem := g.owner.retrieve("g", row.IPFSHash)
			if problem != "" {
				g.t.Errorf("%s of %s: %s", row.IPFSHash, name, problem)
			}
			contents += string(content)
		}
	}
	return contents
}

func (g *trashGroup) lives(name, want string) {
	g.t.Helper()
	if got := g.living(name); got != want {
		g.t.Errorf("%s has the versions %q, want %q", name, got, want)
	}
}

// Threat 45: a group keeps all versions until its owner says otherwise. What the owner is
// told before is what goes, a day later, and nothing else.
func TestThreat45OnlyTheOwnerThins(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	for i := range 6 {
		u := g.alice
		if i%2 == 1 {
			u = g.bob
		}
		u.saves("doc", strconv.Itoa(i))
		g.bob.saves("once", "x")
	}
	g.alice.saves("one version", "x")
	must[string](g.owner, wire.OpSetGroupTrash, object{"group_id": "g", "days": 30})
	g.wait(400)
	g.running.removes(0)
	if got := must[wire.VersionsResult](g.visitor, wire.OpGetGroupVersions,
		object{"group_id": "g"}); got != (wire.VersionsResult{Keep: "all"}) {
		t.Errorf("the default is %+v", got)
	}
	for _, op := range []string{wire.OpSetGroupVersions, wire.OpTryGroupVersions} {
		for _, u := range []*user{g.alice, g.visitor} {
			if status, body := u.tool(op, object{"group_id": "g", "keep": "1"}); status != http.StatusForbidden {
				t.Errorf("%s: %s: %d %s", u.id, op, status, body)
			}
		}
		for _, bad := range []string{"", "0", "-1", "+2", "02", "0d", "3651d", "10001", "3 d", "ALL",
			"99999999999999999999"} {
			if status, body := g.owner.tool(op, object{"group_id": "g",
				"keep": bad}); status != http.StatusBadRequest || !strings.Contains(body, "30d") {
				t.Errorf("%s %q: %d %s", op, bad, status, body)
			}
		}
	}
	keys, before := g.wrappedKeys(), g.owner.ofFiles()
	would := g.owner.tries("2")
	if would.Files != 2 || would.Versions != 8 || would.More || len(would.Names) != 2 ||
		would.Names[0].Filename != "doc" || would.Names[0].Versions != 4 {
		t.Errorf("it would take %+v", would)
	}
	g.running.removes(0)
	g.audits()
	g.owner.keeps("2")
	if got := must[wire.VersionsResult](g.visitor, wire.OpGetGroupVersions,
		object{"group_id": "g"}); got.Keep != "all" || got.Next != "2" {
		t.Errorf("a member is told %+v", got)
	}
	g.audits()
	g.running.removes(0)
	g.wait(0.9)
	g.running.removes(0)
	g.wait(0.2)
	g.running.removes(8)
	g.lives("doc", "45")
	g.lives("once", "xx")
	g.lives("one version", "x")
	if after := g.owner.ofFiles(); before-after != would.Bytes {
		t.Errorf("%d bytes were freed, and %d promised", before-after, would.Bytes)
	}
	for _, row := range g.alice.rows("g") {
		switch d := row.Deleted; {
		case d == nil:
		case d.Reason != wire.ReasonVersionPolicy || d.DeletedBy != service.DefaultContractID || d.Trash:
			t.Errorf("it was deleted: %+v", d)
		case g.databaseHolds(keys[row.IPFSHash]):
			t.Errorf("%s: the wrapped key is still in the database", row.IPFSHash)
		default:
			g.bob.refusedAsDeleted(row.IPFSHash)
		}
	}
	for range 3 { // again changes nothing
		g.running.removes(0)
		g.wait(2)
	}
	g.audits()
}

// Threat 45: what came from a client that knows no versions stays; it counts as a version all the same.
func TestThreat45ReferencesOfOtherClientsStay(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	js := &sdk12{user: g.alice}
	var held []string
	for i := range 3 {
		p := must[wire.PrepareUploadResult](g.alice, wire.OpPrepareUpload, object{"group_id": "g", "filename": "doc"})
		content := []byte(fmt.Sprint("js", i, " "))
		up, problem := js.call(wire.OpFinalizeUpload,
			object{"upload_id": p.UploadID, "encrypted_data": seal(t, p.Key, content), "file_hash": hash(content)})
		if problem != "" {
			t.Fatal(problem)
		}
		held = append(held, up.(object)["cid"].(string))
		g.bob.saves("doc", fmt.Sprint("ours", i, " "))
		g.alice.upload("g", "", []byte("without a name"))
	}
	if would := g.owner.tries("1"); would.Versions != 2 {
		t.Errorf("it would take %+v", would)
	}
	g.owner.keeps("1")
	g.wait(1.1)
	g.running.removes(2)
	g.lives("doc", "js0 js1 js2 ours2 ")
	for i, ref := range held {
		g.alice.reads(ref, fmt.Sprint("js", i, " "))
	}
	must[string](g.alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": held[0], "filename": "other"})
	g.alice.upload("g", "other", []byte("newest"))
	g.wait(2)
	g.running.removes(0)
	g.audits()
}

// Names are told apart beyond what the index of names holds, 200 characters.
func TestVersionsOfLongNames(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	var names []string
	for _, n := range []int{199, 200, 201, 400} {
		names = append(names, strings.Repeat("ü", n))
	}
	g.alice.upload("g", names[2], []byte("s")) // by a client that knows no versions
	for i := range 4 {
		for _, name := range names {
			g.alice.saves(name, strconv.Itoa(i))
		}
	}
	g.alice.upload("g", names[2], []byte("4"))
	g.owner.keeps("2")
	g.wait(0.9)
	g.alice.saves(names[3], "4") // has not waited
	g.wait(0.2)
	g.running.removes(3 + 2 + 2 + 2)
	for i, want := range []string{"23", "23", "s34", "234"} {
		g.lives(names[i], want)
	}
	g.audits()
	g.alice.saves(names[1], "4")
	g.alice.saves(names[2], "5")
	g.alice.saves(names[3], "5")
	g.owner.keeps("2")
	if got := must[wire.PendingResult](g.alice, wire.OpGetPending, object{"group_id": "g"}); got.Versions != 1+1+2 {
		t.Errorf("%d versions are announced", got.Versions)
	}
}

// Versions go when they were replaced long enough ago, and the newest never does.
func TestVersionsOfATime(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	soon := []string{g.alice.saves("soon", "a"), g.alice.saves("soon", "b")}
	for keep, want := range map[string]int64{"1d": 1, "2d": 0} { // when the setting begins
		if would := g.owner.tries(keep); would.Versions != want {
			t.Errorf("%s would take %+v", keep, would)
		}
	}
	for _, ref := range soon {
		must[string](g.alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
	}
	g.alice.saves("doc", "0")
	g.owner.keeps("3d")
	g.wait(10)
	g.running.removes(0)
	g.alice.saves("doc", "1")
	g.wait(2.9)
	g.running.removes(0)
	if would := g.owner.tries("1d"); would.Versions != 1 {
		t.Errorf("a shorter time would take %+v", would)
	}
	g.alice.saves("doc", "2")
	g.wait(0.2)
	g.running.removes(1)
	g.lives("doc", "12")
	g.wait(3)
	g.running.removes(1)
	g.lives("doc", "2")
	g.wait(100)
	g.running.removes(0)
	g.audits()
}

// Threat 45: nobody pushes versions out in a moment: neither by uploads, nor by new names,
// nor by bringing files back that were uploaded long ago. Versions in the trash count for
// nothing.
func TestThreat45PushedOutVersionsWait(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	g.owner.keeps("2")
	g.wait(1.1)
	g.running.removes(0)
	waits := func(want int64) {
		t.Helper()
		if got := must[wire.PendingResult](g.visitor, wire.OpGetPending,
			object{"group_id": "g"}); got.Versions != want {
			t.Errorf("%+v waits, want %d versions", got, want)
		}
	}
	g.alice.saves("doc", "a")
	one, two := g.bob.saves("elsewhere", "x"), g.bob.saves("elsewhere", "y")
	g.bob.removes("elsewhere", g.bob.lastSeq())
	g.wait(5)
	g.running.removes(0)
	g.bob.restores("elsewhere", g.bob.lastSeq())
	g.bob.rename(one, "doc")
	g.bob.rename(two, "doc")
	waits(1)
	g.running.removes(0)
	g.wait(0.9)
	g.running.removes(0)
	g.lives("doc", "axy")
	if text := must[string](g.owner, wire.OpKeepFiles, object{"group_id": "g"}); !strings.Contains(text,
		"all versions are kept") {
		t.Errorf("keeping files says %q", text)
	}
	waits(0)
	g.wait(5)
	g.running.removes(0)
	g.audits()
	g.owner.keeps("2")
	g.bob.removes("doc2", g.bob.rename(two, "doc2"))
	g.wait(2)
	g.running.removes(0)
	g.lives("doc", "ax")
	g.bob.saves("doc", "z")
	g.wait(0.5)
	waits(1)
	g.wait(0.6)
	g.running.removes(1)
	g.lives("doc", "xz")
	g.alice.saves("doc", "1")
	g.alice.saves("doc", "2")
	g.bob.saves("doc", "3")
	g.owner.removes("doc", g.owner.lastSeq())
	g.alice.restores("doc", g.alice.lastSeq()) // bob's stay in the trash, older and newer ones
	g.wait(2)
	g.running.removes(0)
	g.lives("doc", "12")
	g.audits()
}

// rename gives a file of g another name, and returns the sequence of that.
func (u *user) rename(ref, name string) int64 {
	u.t.Helper()
	must[string](u, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": ref, "filename": name})
	return u.lastSeq()
}

// Threat 45: each setting that takes more away waits, whatever came before, is shown to
// members, and is cancelled by the owner, by a wider setting, and when the operator
// disables the owner. No call hastens it.
func TestThreat45StepByStep(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	for i := range 9 {
		g.alice.saves("doc", strconv.Itoa(i))
	}
	pending := func(keep string) {
		t.Helper()
		got := must[wire.PendingResult](g.visitor, wire.OpGetPending, object{"group_id": "g"})
		if got.VersionsKeep != keep || (got.VersionsAt == "") != (keep == "") {
			t.Errorf("there waits %+v, want %q", got, keep)
		}
		g.audits()
	}
	seq := g.visitor.watch(0, 0).Seq
	g.owner.keeps("8")
	pending("8")
	if events := g.visitor.watch(seq, time.Second).Events; len(events) == 0 || events[0].Kind != chain.KindPending ||
		events[0].GroupID != "g" {
		t.Errorf("members are told %+v", events)
	}
	g.wait(0.7)
	g.owner.keeps("8") // again makes it no longer
	g.wait(0.4)
	g.running.removes(1)
	pending("")
	for _, step := range []string{"7", "6", "1d"} {
		if text := g.owner.keeps(step); !strings.Contains(text, "svcfs group keep") {
			t.Errorf("%s says %q", step, text)
		}
		pending(step)
		g.wait(0.5) // the next step begins its time anew
		g.running.removes(0)
	}
	g.owner.keeps("8")
	pending("")
	for _, cancel := range []func(){
		func() { must[string](g.owner, wire.OpKeepFiles, object{"group_id": "g"}) },
		func() { g.owner.keeps("all") },
		func() {
			for _, set := range []func(string) error{
				func(name string) error { return errOf(g.svc.DisableAccount(t.Context(), name)) },
				func(name string) error { return errOf(g.svc.EnableAccount(t.Context(), name)) },
			} {
				ok(t, set("owner"))
				g.audits()
			}
			g.owner.login()
		},
	} {
		g.owner.keeps("1")
		pending("1")
		cancel()
		pending("")
		g.wait(3)
		g.running.removes(0)
	}
	g.lives("doc", "12345678")
}

// The record of a version that went by a setting tells since when it had its name, so that
// an old upload makes no name older.
func TestEndedVersionsTellTheirName(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	must[string](g.owner, wire.OpSetGroupRetention, object{"group_id": "g", "retention_days": 20})
	first := g.alice.saves("elsewhere", "x")
	named := []int64{g.alice.rename(first, "doc")}
	second := g.alice.saves("doc", "y")
	named = append(named, g.alice.lastSeq())
	must[string](g.alice, wire.OpSetAttributes,
		object{"group_id": "g", "ipfs_hash": second, "attributes": object{"executable": true}})
	g.owner.keeps("1")
	g.wait(2.2)
	g.running.removes(1)
	g.wait(20)
	g.running.removes(1)
	var told []int64
	rows, _ := g.alice.chain("g", nil)
	for _, row := range rows {
		if row.Kind == chain.KindTombstone {
			number, _ := strconv.ParseInt(tag(row, chain.TagNamed), 10, 64)
			i := slices.IndexFunc(rows, func(r wire.TransactionRow) bool { return r.Number == number })
			told = append(told, rows[i].Seq)
		}
	}
	if !slices.Equal(told, named) {
		t.Errorf("the names are of the records %v, want %v", told, named)
	}
	g.audits()
}

// More versions than one transaction takes, of more names than it looks at, go in as many
// sweeps as it needs; a sweep that was interrupted continues.
func TestThinningInParts(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	for i := range 130 {
		g.alice.saves("many", strconv.Itoa(i%10))
	}
	for i := range 150 {
		g.owner.saves(fmt.Sprint("d/", i), "w")
		g.bob.saves(fmt.Sprint("d/", i), "x")
	}
	// one record for all
	must[wire.RenameFolderResult](g.owner, wire.OpRenameFolder,
		object{"group_id": "g", "folder": "d", "new_folder": "e", "seq": g.owner.lastSeq()})
	g.owner.keeps("1")
	g.wait(1.1)
	if list, err := g.svc.Surplus(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("before the setting begins %d would go, %v", len(list), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	tick := func() {
		if asked.Add(1) == 150 { // each record asks for the time
			cancel()
		}
	}
	g.tick.Store(&tick)
	n, err := g.svc.RemoveExpired(ctx)
	g.tick.Store(nil)
	if err == nil || n != 200 {
		t.Fatalf("interrupted after %d, %v", n, err)
	}
	g.audits()
	list, err := g.svc.Surplus(t.Context())
	if err != nil || len(list) != 279-n {
		t.Errorf("%d would go, want %d, %v", len(list), 279-n, err)
	}
	g.running.removes(279 - n)
	g.lives("many", "9")
	for _, i := range []int{0, 77, 149} {
		g.lives(fmt.Sprint("e/", i), "x")
	}
	if left := g.wrappedKeys(); len(left) != 151 {
		t.Errorf("%d keys are left", len(left))
	}
	g.audits()
}

// What would go is listed in pages.
func TestTryVersionsInPages(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	g.alice.saves("a", "0")
	g.alice.saves("b", "0")
	for _, name := range []string{"a", "b", "b"} {
		g.alice.saves(name, "1")
	}
	got := must[wire.TryVersionsResult](g.owner, wire.OpTryGroupVersions,
		object{"group_id": "g", "keep": "1", "after": "a"})
	if got.Files != 2 || got.Versions != 3 || len(got.Names) != 1 || got.Names[0].Filename != "b" ||
		got.Names[0].Versions != 2 {
		t.Errorf("after a: %+v", got)
	}
}

// The setting goes with a group to another database.
func TestVersionsAreExported(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	for i := range 5 {
		g.alice.saves("doc", strconv.Itoa(i))
	}
	g.owner.keeps("4")
	g.wait(1.1)
	g.running.removes(1)
	g.owner.keeps("2")
	var export bytes.Buffer
	if _, err := g.svc.Export(t.Context(), &export, nil); err != nil {
		t.Fatal(err)
	}
	there := runWith(t, service.Config{DataDir: masterKeyOnly(t, g.dir), Database: newDatabase(t),
		Now: func() time.Time { return time.Now().Add(48*time.Hour + time.Duration(g.ahead.Load())) }})
	if _, err := there.svc.Import(t.Context(), &export); err != nil {
		t.Fatal(err)
	}
	there.audits()
	there.removes(2)
	there.audits()
}

// Versions stay that a setting would take away which the owner takes back after the sweep looked for them.
func TestThinningTakenBackMeanwhile(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	g.alice.saves("f", "1")
	g.alice.saves("f", "2")
	g.owner.keeps("1")
	g.wait(1.1)
	var once sync.Once
	tick := func() {
		stack := make([]byte, 8<<10)
		if bytes.Contains(stack[:runtime.Stack(stack, false)], []byte("groups.Thinnings(")) { // it read the settings
			once.Do(func() { g.owner.keeps("all") })
		}
	}
	g.tick.Store(&tick)
	n, err := g.svc.RemoveExpired(t.Context())
	g.tick.Store(nil)
	if err != nil || n != 0 {
		t.Errorf("removed %d, %v", n, err)
	}
	g.lives("f", "12")
	once.Do(func() { t.Error("the sweep looked at no setting") })
	g.audits()
}
