package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/enginetest"
)

// get is a question of the page.
func (s *site) get(c *http.Client, path string) object {
	s.t.Helper()
	status, body := do(s.t, c, s.page(http.MethodGet, path, nil))
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, status, body)
	}
	return decode(s.t, body)
}

func (s *site) post(c *http.Client, path string, body any) {
	s.t.Helper()
	if status, body := do(s.t, c, s.page(http.MethodPost, path, body)); status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, status, body)
	}
}

func list(v any) []object {
	var out []object
	for _, item := range v.([]any) {
		out = append(out, item.(object))
	}
	return out
}

func TestLedgerShowsWhatOneMaySee(t *testing.T) {
	t.Parallel()
	enginetest.OnBoth(t, func(t *testing.T) {
		s := serve(t)
		owner, reader, member, outsider := s.user("owner", "10"), s.user("reader", "10"), s.user("member", "10"),
			s.user("outsider", "10")
		owner.register("team")
		owner.add("team", reader.id)
		owner.add("team", member.id)
		file := owner.upload("team", "a.txt", []byte("hello"), nil, "")
		var got wire.PrepareRetrieveResult
		reader.must(wire.OpPrepareRetrieve, wire.PrepareRetrieveRequest{GroupID: "team", IPFSHash: file.CID}, &got)
		for u, want := range map[*user]string{
			owner: "sign_in claim_token record_transaction add_group_member add_group_member " +
				"register_group create_account",
			reader: "sign_in claim_token record_transaction add_group_member add_group_member " +
				"register_group create_account",
			member:   "sign_in record_transaction add_group_member add_group_member register_group create_account",
			outsider: "sign_in create_account",
		} {
			var kinds []string
			c := u.signedIn()
			for _, r := range list(s.get(c, "ledger")["records"]) {
				kinds = append(kinds, r["kind"].(string))
			}
			if got := strings.Join(kinds, " "); got != want {
				t.Errorf("%s sees %s, want %s", u.id, got, want)
			}
		}
		costs := s.get(owner.signedIn(), "costs")
		if costs["total"] != "0.705" { // 0.64 and twice 0.013 and 0.039
			t.Errorf("costs: %v", costs)
		}
		if balance := s.get(owner.signedIn(), "session")["balance"]; balance != "9.295" {
			t.Errorf("balance %v", balance)
		}
		for _, bad := range []string{"before=0", "before=x", "before=-1", "before=99999999999999999999"} {
			if status, body := do(t, owner.signedIn(),
				s.page(http.MethodGet, "ledger?"+bad, nil)); status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", bad, status, body)
			}
		}
	})
}

func TestPagesOfRows(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "1000")
	alice.register("team")
	for range 105 {
		alice.upload("team", "x", []byte("x"), nil, "")
	}
	c := alice.signedIn()
	first := s.get(c, "file?group=team&name=x")
	rows := list(first["files"])
	if len(rows) != 100 || first["more"] != true {
		t.Fatalf("%d versions, more %v", len(rows), first["more"])
	}
	next := s.get(c, "file?group=team&name=x&before="+strconv.Itoa(int(rows[99]["seq"].(float64))))
	seen := map[any]bool{}
	for _, row := range append(rows, list(next["files"])...) {
		seen[row["seq"]] = true
	}
	if len(seen) != 105 || next["more"] != false {
		t.Errorf("%d versions, more %v", len(seen), next["more"])
	}
}

// The ledger is listed in pages, each record once, and only those that are asked for.
func TestPagesOfTheLedger(t *testing.T) {
	t.Parallel()
	enginetest.OnBoth(t, func(t *testing.T) {
		s := serve(t)
		alice, bob := s.user("alice", "1000"), s.user("bob", "1000")
		alice.register("team")
		alice.register("another")
		alice.add("team", bob.id)
		for i := range 125 {
			[]*user{alice, bob}[i%2].upload("team", "x", []byte("x"), nil, "")
		}
		c := alice.signedIn()
		for query, want := range map[string]struct{ records, pages int }{
			"": {130, 5}, "group=team": {127, 5}, "group=another": {1, 1}, "group=none": {0, 1},
			"kind=record_transaction": {125, 5}, "kind=record_transaction&mine=1": {63, 3},
			"kind=register_group&kind=fund": {2, 1}, "group=another&kind=record_transaction": {0, 1},
			"group=team&kind=add_group_member": {1, 1},
		} {
			seen, pages := map[any]bool{}, 0
			for before, more := "", true; more && pages < 9; pages++ {
				got := s.get(c, "ledger?"+query+"&before="+before)
				for _, row := range list(got["records"]) {
					if seen[row["seq"]] {
						t.Errorf("%s: row %v twice", query, row["seq"])
					}
					seen[row["seq"]] = true
				}
				before, more = fmt.Sprint(int64(got["before"].(float64))), got["more"].(bool)
			}
			if len(seen) != want.records || pages != want.pages {
				t.Errorf("%s: %d records on %d pages, want %+v", query, len(seen), pages, want)
			}
		}
	})
}

// A folder is listed one level at a time, each entry once, in pages of any length.
func TestFoldersOnBothEngines(t *testing.T) {
	t.Parallel()
	enginetest.OnBoth(t, func(t *testing.T) {
		s := serve(t)
		alice := s.user("alice", "1000")
		alice.register("team")
		long := strings.Repeat("l", 210)
		for _, name := range []string{"b/2", "a", "a/x", "a!", "a0", "b/1", "b/1", "b/c/d/e", "b0", "/root", "b//none",
			long + "/1", long + "/2", long + "2", "é/%\u202e", "z/removed", "old"} {
			alice.upload("team", name, []byte(name), nil, "")
		}
		gone := alice.upload("team", "z/gone", []byte("gone"), nil, "")
		var said string
		alice.must(wire.OpDeleteFile, wire.FileRequest{GroupID: "team", IPFSHash: gone.CID}, &said)
		first := alice.upload("team", "", []byte("nameless"), nil, "")
		alice.upload("team", "", []byte("nameless too"), nil, "")
		var removed wire.NameResult
		alice.must(wire.OpRemoveFile, wire.NameRequest{GroupID: "team", Filename: "z/removed", Seq: first.Seq},
			&removed)
		made := func(folder string) {
			t.Helper()
			var out wire.FolderResult
			alice.must(wire.OpMakeFolder, wire.FolderRequest{GroupID: "team", Folder: folder}, &out)
		}
		for _, folder := range []string{"m/n", "b/empty", "b/c", "b", "zz", long + "/deep", "b/c-d"} {
			made(folder)
		}
		for range 2 * 25 { // of more versions than one query reads
			alice.upload("team", "old", []byte("x"), nil, "")
		}
		c := alice.signedIn()
		entries := func(folder, after string) (out []string, next string) {
			got := s.get(c, "folder?group=team&folder="+url.QueryEscape(folder)+"&after="+url.QueryEscape(after))
			for _, f := range list(got["folders"]) {
				out = append(out, f["folder"].(string)+"/ "+f["shown"].(string))
			}
			for _, f := range list(got["files"]) {
				name, _ := f["filename"].(string)
				out = append(out, name)
			}
			return out, got["after"].(string)
		}
		for folder, want := range map[string][]string{
			"": {"/ %2F", "a/ a", "b/ b", long + "/ " + long, "m/ m", "zz/ zz", "é/ é", "a", "a!", "a0", "b0",
				long + "2", "old", "", ""},
			"a/":       {"a/x"},
			"b/":       {"b// %2F", "b/c-d/ c-d", "b/c/ c", "b/empty/ empty", "b/1", "b/2"},
			"b/empty/": nil,
			"m/":       {"m/n/ n"},
			"b/c/":     {"b/c/d/ d"},
			"b//":      {"b//none"},
			"/":        {"/root"},
			long + "/": {long + "/deep/ deep", long + "/1", long + "/2"},
			"é/":       {"é/%\u202e"},
			"z/":       nil,
			"none/":    nil,
		} {
			if got, next := entries(folder, ""); !slices.Equal(got, want) || next != "" {
				t.Errorf("%q: %q, then %q; want %q", folder, got, next, want)
			}
		}
		if got, _ := entries("b/c/", ""); len(got) != 1 {
			t.Errorf("%q", got)
		}
		if path := s.get(c, "folder?group=team&folder="+url.QueryEscape("a%/\u202e//"))["path"]; fmt.Sprint(
			path) != "[a% %E2%80%AE %2F]" {
			t.Errorf("path %v", path)
		}
		for _, bad := range []string{"folder=a", "folder=%00/", "after=x", "after=n", "after=nx", "after=%ff",
			"folder=%ff/", "folder=" + strings.Repeat("a", 5000) + "/"} {
			if status, body := do(t, c, s.page(http.MethodGet, "folder?group=team&"+bad,
				nil)); status != http.StatusBadRequest {
				t.Errorf("%.40s: %d %s", bad, status, body)
			}
		}
		for i := range 120 { // more than a page, of each kind
			alice.upload("team", fmt.Sprintf([]string{"many/%03d", "many/%03d/x"}[i%2], i), []byte("x"), nil, "")
			if i < 95 {
				alice.upload("team", "", []byte(strconv.Itoa(i)), nil, "")
			}
			if i%2 == 0 {
				made(fmt.Sprintf("many/%03d+", i))
			}
		}
		for folder, want := range map[string]int{"": 16 + 95, "many/": 120 + 60} {
			seen, pages := map[string]int{}, 0
			for after := "-"; after != "" && pages < 9; pages++ {
				var got []string
				got, after = entries(folder, strings.TrimPrefix(after, "-"))
				for _, entry := range got {
					seen[entry]++
					if seen[entry] > 1 && entry != "" {
						t.Errorf("%q: %q twice", folder, entry)
					}
				}
			}
			if n := len(seen) + max(0, seen[""]-1); n != want || pages != 2 {
				t.Errorf("%q: %d entries in %d pages, want %d", folder, n, pages, want)
			}
		}
	})
}

// An owner of many open groups hides those of nobody else.
func TestOpenGroupsOfManyOwners(t *testing.T) {
	t.Parallel()
	enginetest.OnBoth(t, func(t *testing.T) {
		s := serve(t)
		alice, bob := s.user("alice", "10"), s.user("bob", "10")
		a, b := alice.signedIn(), bob.signedIn()
		window := strconv.FormatInt(time.Now().Add(time.Hour).UnixNano(), 10)
		s.post(a, "tools/create_hackathon_group", object{"group_id": "many", "expires_at": window})
		s.post(b, "tools/create_hackathon_group", object{"group_id": "one", "expires_at": window})
		var more []string
		for i := range 250 {
			more = append(more, fmt.Sprintf("('many-%03d')", i))
		}
		s.sql("INSERT INTO groups (id, owner, key_version, joinable, join_expires) SELECT column1, owner, " +
			"key_version, joinable, join_expires FROM groups, (VALUES " + strings.Join(more, ", ") +
			") AS more WHERE id = 'many'")
		open := list(s.get(s.user("carol", "0").signedIn(), "groups")["open"])
		if len(open) != 200 || open[0]["id"] != "many" || open[198]["id"] != "many-197" || open[199]["id"] != "one" {
			t.Errorf("%d groups, the last one %v", len(open), open[len(open)-1]["id"])
		}
	})
}

func TestPageRulesOnBothEngines(t *testing.T) {
	t.Parallel()
	enginetest.OnBoth(t, func(t *testing.T) {
		s := serve(t)
		alice, bob := s.user("alice", "10"), s.user("bob", "10")
		a, b := alice.signedIn(), bob.signedIn()
		until := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).UnixNano(), 10) }
		s.post(a, "tools/create_hackathon_group",
			object{"group_id": "open", "expires_at": until(time.Hour), "max_uses": 1})
		s.post(a, "tools/register_group", object{"group_id": "closed"})
		if open := list(s.get(b, "groups")["open"]); len(open) != 1 || open[0]["id"] != "open" ||
			open[0]["role"] != "" {
			t.Errorf("open to bob: %v", open)
		}
		if open := list(s.get(a, "groups")["mine"]); len(open) != 2 || open[0]["role"] != "owner" ||
			open[0]["members"] != 1.0 {
			t.Errorf("of alice: %v", open)
		}
		s.post(b, "tools/join_group", object{"group_id": "open"})
		s.post(a, "tools/set_group_retention", object{"group_id": "open", "retention_days": 7})
		if g := s.get(b, "group?group=open"); g["role"] != "writer" || g["retention_days"] != 7.0 ||
			len(g["member_ids"].([]any)) != 2 {
			t.Errorf("open: %v", g)
		}
		for _, refused := range []struct {
			op   string
			body object
		}{
			{"add_group_member", object{"group_id": "open", "member_id": "carol"}},
			{"revoke_group_member", object{"group_id": "open", "member_id": bob.id}},
			{"create_hackathon_group", object{"group_id": "open", "expires_at": until(time.Hour), "max_uses": nil}},
			{"create_hackathon_group", object{"group_id": "closed", "expires_at": until(time.Hour)}},
			{"close_hackathon_join", object{"group_id": "open"}},
			{"set_group_retention", object{"group_id": "open", "retention_days": nil}},
			{"set_group_trash", object{"group_id": "open", "days": 7}},
			{"set_group_versions", object{"group_id": "open", "keep": "7"}},
			{"try_group_versions", object{"group_id": "open", "keep": "1"}},
			{"try_group_versions", object{"group_id": "closed", "keep": "1"}},
			{"join_group", object{"group_id": "closed"}},
			{"get_pending_destruction", object{"group_id": "closed"}},
			{"get_trash", object{"group_id": "closed"}},
			{"restore_file", object{"group_id": "closed", "filename": "x", "seq": 9}},
			{"remove_file", object{"group_id": "closed", "filename": "x", "seq": 9}},
			{"prepare_retrieve", object{"group_id": "closed", "ipfs_hash": "x"}},
		} {
			status, body := do(t, b, s.page(http.MethodPost, "tools/"+refused.op, refused.body))
			if status != http.StatusForbidden {
				t.Errorf("%s %v by another: %d %s", refused.op, refused.body, status, body)
			}
		}
		for _, path := range []string{
			"group?group=closed", "folder?group=closed", "file?group=closed&name=x", "trash?group=closed",
		} {
			if status, body := do(t, b, s.page(http.MethodGet, path, nil)); status != http.StatusForbidden {
				t.Errorf("%s by an outsider: %d %s", path, status, body)
			}
		}
		for op, bad := range map[string]object{
			"register_group":         {"group_id": "open"},
			"create_hackathon_group": {"group_id": "none", "expires_at": until(-time.Hour)},
			"join_group":             {"group_id": 5},
			"close_hackathon_join":   {"group_id": "open", "other": 1},
			"add_group_member":       {"group_id": "open", "member_id": "not a name"},
		} {
			status, body := do(t, a, s.page(http.MethodPost, "tools/"+op, bad))
			if status < 400 || status > 409 || !strings.Contains(body, `"error"`) {
				t.Errorf("%s: %d %s", op, status, body)
			}
		}
	})
}

func TestIdentitiesOnBothEngines(t *testing.T) {
	t.Parallel()
	enginetest.OnBoth(t, func(t *testing.T) {
		o := startIDP(t, lie{})
		s := serve(t, o.config(true))
		c := client(t)
		if resp, body := visit(t, c, s.url+"/account/oidc/start"); resp.StatusCode != http.StatusOK ||
			s.who(c) != "alice.svc.testnet" {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		bob := s.user("bob", "1")
		secret := bob.secret()
		for i, want := range []int{http.StatusOK, http.StatusUnauthorized} {
			if status, body := do(t, client(t),
				s.page(http.MethodPost, "sign-in", object{"link": secret})); status != want {
				t.Errorf("use %d: %d %s", i+1, status, body)
			}
		}
	})
}
