package service_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/ledger"
)

func (u *user) renamesFolder(from, to string, seq int64) wire.RenameFolderResult {
	u.t.Helper()
	return must[wire.RenameFolderResult](u, wire.OpRenameFolder,
		object{"group_id": "g", "folder": from, "new_folder": to, "seq": seq})
}

// named maps the references of a group to their names.
func (u *user) named() map[string]string {
	u.t.Helper()
	names := map[string]string{}
	for _, row := range u.rows("g") {
		names[row.IPFSHash] = *row.Filename
	}
	return names
}

// A folder is renamed with one record: every living version beneath it, and nothing else.
// The ledger gives the same names as the table.
func TestRenameFolder(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	alice := g.alice
	long := strings.Repeat("ü", 250) // longer than the index of names
	want := map[string]string{}
	for name, renamed := range map[string]string{
		"a/x": "b/x", "a/deep/x": "b/deep/x", "a/": "b/", "a/ü": "b/ü", "a/a/x": "b/a/x",
		"a": "a", "a0": "a0", "a!": "a!", "ab/x": "ab/x", "b0": "b0", "c/a/x": "c/a/x", "A/x": "A/x",
	} {
		want[alice.upload("g", name, []byte(name)).CID] = renamed
	}
	want[alice.upload("g", "a/x", []byte("a second version")).CID] = "b/x"
	removed := alice.upload("g", "a/removed", []byte("r"))
	alice.removes("a/removed", removed.Seq)
	deleted := alice.upload("g", "a/deleted", []byte("d"))
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": deleted.CID})
	want[removed.CID], want[deleted.CID] = "a/removed", "a/deleted"
	seen := alice.lastSeq()

	out := alice.renamesFolder("a", "b", seen)
	if out.Files != 6 || out.Record == nil || out.Record.Kind != chain.KindRenameFolder || out.Record.Detail != "b" ||
		tag(*out.Record, chain.TagFolder) != "a" ||
		tag(*out.Record, chain.TagFiles) != "6" || out.Receipt == nil || out.Receipt.Number != out.Record.Number {
		t.Errorf("answered %+v with the record %+v", out, out.Record)
	}
	if got := alice.named(); !maps.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	for _, row := range alice.rows("g") {
		if isBeneath := strings.HasPrefix(*row.Filename, "b/"); isBeneath != (row.ChangedSeq == out.Record.Seq) {
			t.Errorf("%s changed at %d, the record is %d", *row.Filename, row.ChangedSeq, out.Record.Seq)
		}
	}
	if got := kinds(g.bob.watch(seen, time.Second).Events); got != "rename_folder g alice" {
		t.Errorf("a member is told %q", got)
	}
	g.audits()

	t.Run("who renamed a folder removes a file of it, with the list from before", func(t *testing.T) {
		if out := alice.removes("b/ü", seen); out.Files != 1 {
			t.Errorf("removed %+v", out)
		}
		alice.restores("b/ü", alice.lastSeq())
	})
	t.Run("what comes back, comes back to where it was", func(t *testing.T) {
		alice.restores("a/removed", alice.lastSeq())
		if again := alice.renamesFolder("a", "b", alice.lastSeq()); again.Files != 1 {
			t.Errorf("then %+v", again)
		}
		want[removed.CID] = "b/removed"
	})
	t.Run("from and to long names", func(t *testing.T) {
		for _, move := range [][2]string{{"b", long}, {long, long + "/" + long}, {long, long + "2"},
			{long + "2", "b"}} {
			status, body := alice.tool(wire.OpRenameFolder,
				object{"group_id": "g", "folder": move[0], "new_folder": move[1], "seq": alice.lastSeq()})
			if inside := strings.HasPrefix(move[1], move[0]+"/"); (status == http.StatusOK) == inside {
				t.Errorf("%.10q: %d %s", move, status, body)
			}
		}
		if got := alice.named(); !maps.Equal(got, want) {
			t.Errorf("names %v, want %v", got, want)
		}
	})
	t.Run("a repetition undoes no later change", func(t *testing.T) {
		seq := alice.lastSeq()
		first := alice.renamesFolder("b", "d", seq)
		late := alice.upload("g", "b/late", []byte("late")).CID
		again := alice.renamesFolder("b", "d", seq)
		if again.Record.Seq != first.Record.Seq || again.Files != first.Files {
			t.Errorf("again %+v, first %+v", again.Record, first.Record)
		}
		if got := alice.named()[late]; got != "b/late" {
			t.Errorf("a later upload is %q now", got)
		}
		if there := alice.renamesFolder("b", "d", alice.lastSeq()); there.Files != 1 ||
			there.Record.Seq == first.Record.Seq {
			t.Errorf("asked anew: %+v", there.Record)
		}
	})
	t.Run("it moves to another service", func(t *testing.T) {
		g.audits()
		moved := g.moved()
		moved.audits()
		if got := alice.signsInAt(moved).named(); !maps.Equal(got, alice.named()) {
			t.Errorf("names %v there", got)
		}
	})
}

// moved exports the service and imports it into another.
func (r *running) moved() *running {
	r.t.Helper()
	t := r.t.(*testing.T)
	cfg := service.Config{DataDir: masterKeyOnly(t, r.dir), Database: newDatabase(t)}
	there := runWith(t, cfg)
	stream := new(strings.Builder)
	if _, err := r.svc.Export(t.Context(), stream, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := there.svc.Import(t.Context(), strings.NewReader(stream.String())); err != nil {
		t.Fatal(err)
	}
	return there
}

// A refused rename of a folder changes nothing, and no record is left.
func TestRenameFolderIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	g.alice.upload("g", "mine/a", []byte("a"))
	g.alice.upload("g", "mixed/a", []byte("a"))
	g.bob.upload("g", "mixed/b", []byte("b"))
	g.alice.upload("g", "taken/a", []byte("a"))
	g.alice.upload("g", "beside/b", []byte("a"))
	outsider := g.user("outsider", "10")
	before, seq, head := g.owner.named(), g.owner.lastSeq(), g.owner.watch(0, 0).Seq
	for name, tc := range map[string]struct {
		u        *user
		from, to string
		seq      int64
		status   int
		says     string
	}{
		"files of others":      {g.alice, "mixed", "new", seq, 403, "not authorized: only bob"},
		"none of one's own":    {g.bob, "mine", "new", seq, 403, "not authorized"},
		"a reader":             {g.visitor, "mine", "new", seq, 403, wire.CodeReadOnly},
		"an outsider":          {outsider, "mine", "new", seq, 403, "not authorized"},
		"a name in use":        {g.alice, "mine", "taken", seq, 409, "taken/a"},
		"no such folder":       {g.alice, "none", "new", seq, 404, "no file is beneath"},
		"a file":               {g.alice, "mine/a", "new", seq, 404, "no file is beneath"},
		"into itself":          {g.alice, "mine", "mine/deeper", seq, 400, "lies in the other"},
		"above itself":         {g.alice, "mine/deeper", "mine", seq, 400, "lies in the other"},
		"to itself":            {g.alice, "mine", "mine", seq, 400, "lies in the other"},
		"nothing":              {g.alice, "", "new", seq, 400, "Required"},
		"to nothing":           {g.alice, "mine", "", seq, 400, "Required"},
		"a slash at the end":   {g.alice, "mine/", "new", seq, 400, "slash"},
		"a slash at the front": {g.alice, "mine", "/new", seq, 400, "slash"},
		"NUL":                  {g.alice, "mine", "a\x00b", seq, 400, "NUL"},
		"a name too long":      {g.alice, "mine", strings.Repeat("x", 4095), seq, 400, "4096 bytes"},
		"no sequence":          {g.alice, "mine", "new", 0, 400, "seq"},
	} {
		status, body := tc.u.tool(wire.OpRenameFolder,
			object{"group_id": "g", "folder": tc.from, "new_folder": tc.to, "seq": tc.seq})
		if status != tc.status || !strings.Contains(body, tc.says) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if got := g.owner.named(); !maps.Equal(got, before) || g.owner.watch(0, 0).Seq != head {
		t.Errorf("names %v, before %v", got, before)
	}
	if out := g.owner.renamesFolder("mixed", "all", seq); out.Files != 2 {
		t.Errorf("the owner renamed %+v", out)
	}
	g.audits()
}

// Names are told apart beyond what the index of names holds, 200 characters.
func TestFoldersWithLongNames(t *testing.T) {
	t.Parallel()
	for _, n := range []int{199, 200, 201, 400} {
		r := run(t)
		alice := r.owner()
		rest := strings.Repeat("ü", n-len("to/"))
		alice.upload("g", "folder/"+rest, []byte("x"))
		alice.upload("g", "to/"+rest+"y", []byte("x")) // begins alike
		alice.upload("g", "other/"+rest, []byte("x"))
		alice.renamesFolder("folder", "to", alice.lastSeq())
		if status, body := alice.tool(wire.OpRenameFolder,
			object{"group_id": "g", "folder": "other", "new_folder": "to",
				"seq": alice.lastSeq()}); status != http.StatusConflict {
			t.Errorf("%d characters: %d %s", n, status, body)
		}
		r.audits()
	}
}

// Threat 31: a refused rename costs nothing, so it is little work, however many names begin
// alike. Here it took a minute in which nobody could write.
func TestThreat31FoldersOfNamesThatBeginAlike(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	long := strings.Repeat("x", 210)
	fill(t, r.openDatabase(), "g", alice.id, 9000)
	r.exec("UPDATE files SET filename = ? || substr(filename, 13)", long+"/a/") // folder/file-N
	alice.upload("g", long+"/b/8999.txt", []byte("x"))
	if status, body := alice.tool(wire.OpRenameFolder, object{"group_id": "g", "folder": long + "/a",
		"new_folder": long + "/b", "seq": 1}); status != http.StatusConflict {
		t.Errorf("%d %s", status, body)
	}
}

// Threat 31: one request renames a bounded number of files, and counts like the renames
// that it stands for.
func TestThreat31RenamedFoldersAreBounded(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), FreeChanges: 5})
	alice := r.owner()
	for i := range 3 {
		alice.upload("g", fmt.Sprint("a/", i), []byte("x"))
	}
	alice.renamesFolder("a", "b", alice.lastSeq())
	status, body := alice.tool(wire.OpRenameFolder,
		object{"group_id": "g", "folder": "b", "new_folder": "c", "seq": alice.lastSeq()})
	if status != http.StatusTooManyRequests ||
		!strings.Contains(body, "counts as 3 free changes, and the account may make 2 more") {
		t.Errorf("beyond the free changes: %d %s", status, body)
	}
	if got := slices.Sorted(maps.Values(alice.named())); !slices.Equal(got, []string{"b/0", "b/1", "b/2"}) {
		t.Errorf("names %v", got)
	}
	r.audits()

	t.Run("a price is that of each file", func(t *testing.T) {
		fees := ledger.DefaultFees()
		price, err1 := wire.ParseTokens("0.1")
		all, err2 := wire.ParseTokens("0.3")
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		fees[chain.KindRename] = price
		r := runWith(t, service.Config{Database: newDatabase(t), Fees: fees})
		bob := r.user("bob", "0.64") // and nothing for renames
		must[string](bob, wire.OpRegisterGroup, object{"group_id": "g"})
		bob.recorded("g", 3, func(i int) string { return fmt.Sprint("a/", i) })
		if status, body := bob.tool(wire.OpRenameFolder,
			object{"group_id": "g", "folder": "a", "new_folder": "b", "seq": 9}); status != http.StatusPaymentRequired {
			t.Errorf("without tokens: %d %s", status, body)
		}
		if _, err := r.svc.Fund(t.Context(), "bob", all); err != nil {
			t.Fatal(err)
		}
		if out := bob.renamesFolder("a", "b", 9); out.Record.Fee != all.String() || bob.balance() != "0" {
			t.Errorf("fee %s, left %s", out.Record.Fee, bob.balance())
		}
	})
	t.Run("more files than one request renames", func(t *testing.T) {
		r := run(t)
		alice := r.owner()
		long := strings.Repeat(strings.Repeat("b", 200)+"/", 19) + "b"
		files := int(chain.MaxMoveBytes / chain.MoveBytes(long+"/0/1000") * 11 / 10)
		alice.recorded("g", files, func(i int) string { return fmt.Sprint("a/", i%2, "/", i) })
		status, body := alice.tool(wire.OpRenameFolder,
			object{"group_id": "g", "folder": "a", "new_folder": long, "seq": alice.lastSeq()})
		if status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "folders beneath it one by one") {
			t.Errorf("%d %s", status, body)
		}
		after := alice.lastSeq()
		if out := alice.renamesFolder("a/0", long, after); out.Files != int64(files+1)/2 {
			t.Errorf("half of it: %+v", out)
		}
		pagesByChange(t, alice, after, (files+1)/2)
	})
}

// pagesByChange lists what changed after a sequence in pages, as clients without chains do,
// and wants so many files, each once. A client that names the last row has pages of the length that it wants.
func pagesByChange(t *testing.T, u *user, after int64, want int) {
	t.Helper()
	const limit = 100
	exact := 0
	for request := (object{"group_id": "g", "after_seq": after, "after_upload_seq": 0, "limit": limit}); ; {
		page := must[[]wire.TransactionRow](u, wire.OpGetGroupTransactions, request)
		if exact += len(page); len(page) > limit {
			t.Fatalf("a page of %d rows", len(page))
		}
		if len(page) < limit {
			break
		}
		last := page[limit-1]
		request["after_seq"], request["after_upload_seq"] = last.ChangedSeq, last.Seq
	}
	if exact != want {
		t.Errorf("%d of %d files in exact pages", exact, want)
	}
	seen := map[string]bool{}
	for range 10 {
		page := must[[]wire.TransactionRow](u, wire.OpGetGroupTransactions,
			object{"group_id": "g", "after_seq": after, "limit": 100})
		for _, row := range page {
			if seen[row.IPFSHash] {
				t.Fatalf("%s comes twice", row.IPFSHash)
			}
			seen[row.IPFSHash], after = true, row.ChangedSeq
		}
		if len(page) < 100 {
			break
		}
	}
	if len(seen) != want {
		t.Errorf("%d of %d files", len(seen), want)
	}
}

// A client that pages by change gets all files of a renamed folder, although they have one
// sequence and more follow.
func TestPagesHoldRenamedFoldersAsAWhole(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	alice.recorded("g", 250, func(i int) string { return fmt.Sprint([]string{"a/", "b/", ""}[i%3], i) })
	after := alice.lastSeq()
	alice.renamesFolder("a", "c", after)
	alice.renamesFolder("b", "d", after)
	alice.upload("g", "last", []byte("x"))
	pagesByChange(t, alice, after, 84+83+1)
}
