package service_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// part asks about names of group g.
func (u *user) part(more object) wire.LivingResult {
	u.t.Helper()
	request := object{"group_id": "g", "nonce": nonce}
	for name, value := range more {
		request[name] = value
	}
	return must[wire.LivingResult](u, wire.OpGetNames, request)
}

// living replays the chain of group g, and checks the signed root of names beside an answer.
func (u *user) living(t *testing.T, answer wire.LivingResult) *chain.Replay {
	t.Helper()
	rows, _ := u.chain("g", nil)
	replay, at := &chain.Replay{}, chain.Place{}
	for _, row := range rows {
		r := chain.Row{Record: *hashed(t, row, "g", at.Hash)}
		at = chain.PlaceOf(&r.Record)
		r.Hash = at.Hash
		replay.Apply(&r)
	}
	root := replay.Root()
	if p := answer.Proof; p == nil || p.Names == nil || p.Names.Root != hex.EncodeToString(root[:]) {
		t.Fatalf("the proof is %+v, want the root of names %x", p, root)
	}
	u.signed(answer.Proof.Names.ChainHead, chain.Statement{Chain: chain.OfGroup("g"), Place: at},
		func(s chain.Statement) []byte { return s.NamesText(nonce, root) })
	return replay
}

// recorded checks that the rows of an answer are the records of versions, in their order.
func recorded(t *testing.T, rows []wire.TransactionRow, versions []chain.Living) {
	t.Helper()
	if len(rows) != len(versions) {
		t.Fatalf("%d records of %d versions", len(rows), len(versions))
	}
	for i, row := range rows {
		var prev chain.Hash
		if _, err := hex.Decode(prev[:], []byte(row.PrevHash)); err != nil {
			t.Fatal(err)
		}
		if r := hashed(t, row, "g", prev); chain.PlaceOf(r) != versions[i].Place || r.Ref != versions[i].Ref {
			t.Errorf("record %d is %+v, want that of %+v", i, r, versions[i])
		}
	}
}

// While the names of a group are read for the first time, a client is told to ask again; where they cannot be read, to
// list the group.
func TestNamesThatAreNotReadYet(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	alice.upload("g", "a/x", []byte("1"))
	ask := func() (int, string) {
		return alice.tool(wire.OpGetNames, object{"group_id": "g", "name": "a/x", "nonce": nonce})
	}
	r.exec("ALTER TABLE name_pages RENAME TO pages_elsewhere")
	status, body := ask()
	answers(t, "names that cannot be read", status, []byte(body), wire.CodeUnsupported)
	r.exec("ALTER TABLE pages_elsewhere RENAME TO name_pages")
	db := r.openDatabase()
	defer db.Close()
	tx, err := db.Begin()
	ok(t, err)
	hold := "UPDATE service_keys SET version = version" // which keeps all writers of SQLite waiting
	if r.database != "" {
		hold = "LOCK TABLE name_pages"
	}
	_, err = tx.Exec(hold)
	ok(t, err)
	status, body = ask()
	answers(t, "names that are being read", status, []byte(body), wire.CodeNamesUnread)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "try again in a minute") {
		t.Errorf("%d %s", status, body)
	}
	ok(t, tx.Rollback())
	proctest.Eventually(t, "they are read", func() bool {
		status, _ := ask()
		return status == http.StatusOK
	})
	alice.living(t, alice.part(object{"name": "a/x"}))
}

// A name, an absence and the pages of a folder are answered with what the signed root of names proves, and with the
// records of the versions; from the names that are kept, not from all files.
func TestThreat76NamesAndFoldersAreProven(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	alice.upload("g", "a/x", []byte("1"))
	second := alice.upload("g", "a/x", []byte("2"))
	for i := range 70 {
		alice.upload("g", fmt.Sprint("a/file", i), []byte("x"))
	}
	alice.makesFolder("a/made")
	alice.upload("g", "", []byte("without a name"))
	alice.part(nil)
	alice.renamesFolder("a", "b", alice.lastSeq())
	must[string](alice, wire.OpSetAttributes, attributesRequest(second.CID, `{"executable":true}`))
	var replay *chain.Replay
	for _, name := range []string{"b/x", "b/made", "a/x", "b/x/y", "none"} {
		answer := alice.part(object{"name": name})
		replay = alice.living(t, answer)
		want := replay.Prove(name, 1)
		if !bytes.Equal(answer.Names, want.Encode()) {
			t.Errorf("%s is proven by %x, want %x", name, answer.Names, want.Encode())
		}
		recorded(t, answer.Rows, want.Versions)
	}
	if answer := alice.part(object{"folder": "a"}); !bytes.Equal(answer.Names, replay.Prove("a", 1).Encode()) {
		t.Errorf("a folder that is not there is proven by %x", answer.Names)
	}
	r.exec("UPDATE files SET filename = 'elsewhere' WHERE group_id = 'g' AND filename LIKE 'b/file%'")
	for _, folder := range []string{"", "b"} {
		for _, most := range []int{0, 10} {
			var from chain.Hash
			for isLast := false; !isLast; {
				answer := alice.part(object{"folder": folder, "limit": most, "from": hex.EncodeToString(from[:])})
				want, _ := replay.ProveFolder(folder, from, cmp.Or(most, wire.MaxPageComponents))
				page, ok := want.Open(replay.Root(), folder, from)
				if !ok || !bytes.Equal(answer.Names, want.Encode()) {
					t.Fatalf("folder %q is proven by %x, want %x", folder, answer.Names, want.Encode())
				}
				var versions []chain.Living
				for _, c := range want.Inside {
					versions = append(versions, c.Versions...)
				}
				recorded(t, answer.Rows, versions)
				from, isLast = page.Next, page.Next == chain.Hash{}
			}
		}
	}
}

// What is asked is bounded before work is done, and so is an answer.
func TestThreat31PartsAreBounded(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	bob := alice.running.user("bob", "10")
	const files = 160
	for i := range files {
		alice.upload("g", fmt.Sprintf("a/%04000d", i), []byte("x"))
	}
	for what, c := range map[string]struct {
		u      *user
		more   object
		status int
		text   string
	}{
		"an outsider":         {bob, nil, 403, "not authorized"},
		"no nonce":            {alice, object{"nonce": ""}, 400, "nonce"},
		"a page too large":    {alice, object{"limit": wire.MaxPageComponents + 1}, 400, "limit"},
		"a page of less":      {alice, object{"limit": -1}, 400, "limit"},
		"a place that is no":  {alice, object{"from": "zz"}, 400, "from"},
		"a short place":       {alice, object{"from": "00"}, 400, "from"},
		"a name too long":     {alice, object{"name": strings.Repeat("x", 4097)}, 400, "4096"},
		"a folder too long":   {alice, object{"folder": strings.Repeat("x", 4097)}, 400, "4096"},
		"a folder with a NUL": {alice, object{"folder": "a\x00"}, 400, "NUL"},
	} {
		request := object{"group_id": "g", "nonce": nonce}
		for name, value := range c.more {
			request[name] = value
		}
		if status, body := c.u.tool(wire.OpGetNames, request); status != c.status || !strings.Contains(body, c.text) {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	status, body := alice.tool(wire.OpGetNames, object{"group_id": "g", "nonce": nonce, "folder": "a"})
	p, err := chain.ParseFolderProof(alice.part(object{"folder": "a"}).Names)
	if err != nil || status != http.StatusOK || len(p.Inside) == 0 || len(p.Inside) == files || len(body) > 3<<20 {
		t.Errorf("a page has %d of %d files in %d bytes, %v", len(p.Inside), files, len(body), err)
	}
	if _, ok := wire.ParseNames([]byte(body), 1000, 100); !ok {
		t.Error("a page is left to encoding/json")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &fields); err != nil || len(fields) != 1 {
		t.Errorf("an answer has its names twice: %d fields, %v", len(fields), err)
	}
	if few := alice.part(object{"folder": "a", "beyond": 1000}); few.Proof != nil || few.Names != nil || few.Rows != nil {
		t.Errorf("of a group with few records it answers %+v", few)
	}
}
