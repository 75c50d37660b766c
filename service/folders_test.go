package service_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
)

func (u *user) makesFolder(name string) wire.FolderResult {
	u.t.Helper()
	return must[wire.FolderResult](u, wire.OpMakeFolder, object{"group_id": "g", "folder": name})
}

func (u *user) removesFolder(name string) wire.FolderResult {
	u.t.Helper()
	return must[wire.FolderResult](u, wire.OpRemoveFolder, object{"group_id": "g", "folder": name})
}

// folders lists the recorded folders as table, each with its maker.
func (r *running) folders() (list []string) {
	r.t.Helper()
	rows, err := r.openDatabase().Query("SELECT path, account FROM folders ORDER BY path")
	ok(r.t, err)
	defer rows.Close()
	for rows.Next() {
		var path, account string
		ok(r.t, rows.Scan(&path, &account))
		list = append(list, path+" of "+strings.TrimSuffix(account, ".svc.testnet"))
	}
	ok(r.t, rows.Err())
	return list
}

// A folder is recorded once, for free, by every writer; its maker and the owner of the group
// remove it while nothing is beneath it.
func TestMakeFolder(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	alice, bob, owner := g.alice, g.bob, g.owner
	file := alice.upload("g", "file", []byte("x"))
	alice.upload("g", "full/x", []byte("x"))
	seen, had := alice.lastSeq(), alice.balance()
	made := alice.makesFolder("refs/heads")
	if r := made.Record; r == nil || r.Kind != chain.KindMakeFolder || r.Detail != "refs/heads" || r.IPFSHash == "" ||
		r.UserID != alice.id || r.Fee != "0" ||
		made.Receipt == nil || made.Receipt.Number != r.Number {
		t.Errorf("answered %+v with the record %+v", made, made.Record)
	}
	if got := kinds(bob.watch(seen, time.Second).Events); got != "make_folder g alice" {
		t.Errorf("a member is told %q", got)
	}
	if again := bob.makesFolder("refs/heads"); again.Record != nil || again.Receipt != nil {
		t.Errorf("a second time: %+v", again.Record)
	}
	long := strings.Repeat("ü", 2048) // 4096 bytes
	bob.makesFolder(long)
	bob.makesFolder("refs")
	outsider := g.user("outsider", "10")
	alice.makesFolder("full")
	for name, tc := range map[string]struct {
		u      *user
		op     string
		folder string
		status int
		says   string
	}{
		"a reader":                    {g.visitor, wire.OpMakeFolder, "new", 403, wire.CodeReadOnly},
		"an outsider":                 {outsider, wire.OpMakeFolder, "new", 403, "not authorized"},
		"a file":                      {bob, wire.OpMakeFolder, "file", 409, "that of a file"},
		"no name":                     {bob, wire.OpMakeFolder, "", 400, "slash"},
		"a slash at the end":          {bob, wire.OpMakeFolder, "a/", 400, "slash"},
		"a slash at the front":        {bob, wire.OpMakeFolder, "/a", 400, "slash"},
		"NUL":                         {bob, wire.OpMakeFolder, "a\x00b", 400, "NUL"},
		"a name too long":             {bob, wire.OpMakeFolder, strings.Repeat("x", 4097), 400, "4096 bytes"},
		"removed by a reader":         {g.visitor, wire.OpRemoveFolder, "refs/heads", 403, wire.CodeReadOnly},
		"removed by another":          {bob, wire.OpRemoveFolder, "refs/heads", 403, "not authorized: only alice"},
		"removed with a folder in it": {bob, wire.OpRemoveFolder, "refs", 409, "not empty"},
		"removed with a file in it":   {alice, wire.OpRemoveFolder, "full", 409, "not empty"},
		"none":                        {bob, wire.OpRemoveFolder, "none", 404, "no recorded folder"},
		"not recorded":                {bob, wire.OpRemoveFolder, "file", 404, "no recorded folder"},
	} {
		status, body := tc.u.tool(tc.op, object{"group_id": "g", "folder": tc.folder})
		if status != tc.status || !strings.Contains(body, tc.says) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if want := []string{"full/ of alice", "refs/ of bob", "refs/heads/ of alice",
		long + "/ of bob"}; !slices.Equal(g.folders(), want) {
		t.Errorf("recorded: %v", g.folders())
	}
	g.audits()
	if out := owner.removesFolder("refs/heads"); out.Record.Kind != chain.KindRemoveFolder ||
		out.Record.Detail != "refs/heads" ||
		out.Record.IPFSHash != made.Record.IPFSHash || tag(*out.Record, chain.TagUploader) != alice.id ||
		out.Receipt == nil {
		t.Errorf("the owner: %+v", out.Record)
	}
	bob.removesFolder("refs")
	bob.removesFolder(long)
	if again := bob.makesFolder("refs"); again.Record == nil {
		t.Error("a removed folder cannot be made again")
	}
	if alice.balance() != had {
		t.Errorf("it cost %s, had %s", alice.balance(), had)
	}
	if rows := alice.rows("g"); len(rows) != 2 || rows[0].IPFSHash != file.CID {
		t.Errorf("a list of files has %d rows", len(rows))
	}
	g.audits()
	if moved := g.moved(); !slices.Equal(moved.folders(), g.folders()) {
		t.Errorf("elsewhere: %v", moved.folders())
	}
}

// A renamed folder takes the recorded folders along: itself, and those beneath it.
func TestRecordedFoldersAreRenamed(t *testing.T) {
	t.Parallel()
	g := runTrash(t)
	alice, long := g.alice, strings.Repeat("ü", 250)
	for _, name := range []string{"a", "a/b", "a0", "ab", "a/b/c", "z/a"} {
		alice.makesFolder(name)
	}
	alice.upload("g", "a/x", []byte("x"))
	out := alice.renamesFolder("a", "n", alice.lastSeq())
	if want := []string{"a0/", "ab/", "n/", "n/b/", "n/b/c/", "z/a/"}; out.Files != 4 ||
		fmt.Sprint(g.paths()) != fmt.Sprint(want) {
		t.Errorf("renamed %d: %v", out.Files, g.paths())
	}
	g.audits()
	// without a file
	for _, move := range [][2]string{{"n/b", long}, {long, long + "2"}, {long + "2", "n/b"}, {"a0", "a"}} {
		alice.renamesFolder(move[0], move[1], alice.lastSeq())
		g.audits()
	}
	for name, tc := range map[string]struct {
		u        *user
		from, to string
		status   int
	}{
		"of another":             {g.bob, "ab", "new", 403},
		"to a recorded folder":   {alice, "ab", "a", 409},
		"one beneath is there":   {alice, "z", "n/b/..", 200},
		"too long with its rest": {alice, "n/b", strings.Repeat("x", 4095), 400},
		"a removed one":          {alice, "a0", "new", 404},
	} {
		if status, body := tc.u.tool(wire.OpRenameFolder,
			object{"group_id": "g", "folder": tc.from, "new_folder": tc.to,
				"seq": alice.lastSeq()}); status != tc.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	g.audits()
	if moved := g.moved(); fmt.Sprint(moved.paths()) != fmt.Sprint(g.paths()) {
		t.Errorf("elsewhere: %v", moved.paths())
	}
}

func (r *running) paths() (list []string) {
	for _, line := range r.folders() {
		path, _, _ := strings.Cut(line, " of ")
		list = append(list, path)
	}
	return list
}

// Threat 31: an account has a bounded number of recorded folders in a group, and each is a free
// change of its day; removals work on a full disk.
func TestThreat31RecordedFoldersAreBounded(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), FreeChanges: 3})
	alice, bob := r.owner(), r.user("bob", "10")
	alice.gives(bob, "g", "writer")
	r.exec("UPDATE free_changes SET made = 0")
	for i := range 3 {
		alice.makesFolder(fmt.Sprint("a", i))
	}
	request := object{"group_id": "g", "folder": "more"}
	if status, body := alice.tool(wire.OpMakeFolder, request); status != http.StatusTooManyRequests {
		t.Errorf("beyond the free changes: %d %s", status, body)
	}
	r.exec("UPDATE free_changes SET made = 0")
	for from := 0; from < wire.MaxFolders-3; from += 1000 {
		var rows []string
		for i := from; i < min(from+1000, wire.MaxFolders-3); i++ {
			rows = append(rows, fmt.Sprintf("('f%d', 'g', '%s', 1, 1, 'many/%d/')", i, alice.id, i))
		}
		r.exec("INSERT INTO folders (ref, group_id, account, seq, time_ns, path) VALUES " + strings.Join(rows, ", "))
	}
	if status, body := alice.tool(wire.OpMakeFolder, request); status != http.StatusRequestEntityTooLarge ||
		!strings.Contains(body, "10000 recorded folders") {
		t.Errorf("beyond the bound: %d %s", status, body)
	}
	bob.makesFolder("more") // has a bound of its own
	alice.removesFolder("a0")
	alice.makesFolder("a0")
	if status, body := alice.tool(wire.OpRenameFolder, object{"group_id": "g", "folder": "many", "new_folder": "a1/b",
		"seq": 1}); status != http.StatusTooManyRequests {
		t.Errorf("renaming many: %d %s", status, body)
	}
}

// Lists of files have no recorded folders, and the names of renamed ones.
func TestListsOfFilesHaveNoFolders(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	alice.upload("g", "a/x", []byte("x"))
	alice.makesFolder("b")
	alice.renamesFolder("a", "c", alice.lastSeq())
	for _, request := range []object{{"group_id": "g"}, {"group_id": "g", "after_seq": 1, "limit": 10}} {
		rows := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions, request)
		if len(rows) != 1 || *rows[0].Filename != "c/x" {
			t.Errorf("%v: %+v", request, rows)
		}
	}
}
