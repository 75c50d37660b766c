package service_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
)

// sends finalizes an upload of content with attributes, "" for none.
func (u *user) sends(name, contentType, content, attributes string) (status int, body string,
	again func() (int, string)) {
	u.t.Helper()
	req := u.finalize("g", name, []byte(content))
	meta := format.NewMetadata(int64(len(content)), contentType, name)
	meta.Attributes = attributes
	var err error
	if req.Format, err = meta.MarshalJSON(); err != nil {
		u.t.Fatal(err)
	}
	again = func() (int, string) { return u.tool(wire.OpFinalizeUpload, req) }
	status, body = again()
	return status, body, again
}

// withAttributes uploads a file with attributes and returns its reference.
func (u *user) withAttributes(name, attributes string) string {
	u.t.Helper()
	if status, body, _ := u.sends(name, "", name, attributes); status != http.StatusOK {
		u.t.Fatalf("upload of %s: %d %s", name, status, body)
	}
	rows := u.rows("g")
	return rows[len(rows)-1].IPFSHash
}

func attributesRequest(ref, attributes string) object {
	return object{"group_id": "g", "ipfs_hash": ref, "attributes": rawJSON(attributes)}
}

// rawJSON is a field that is JSON already.
type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// attributesShown are the attributes of a file in a plain listing.
func (u *user) attributesShown(ref string) string {
	u.t.Helper()
	if text := u.row("g", ref).Attributes; text != nil {
		return *text
	}
	return ""
}

// TestAttributesAreRecorded: with the upload, with set_attributes, and in every later record
// about the file, in their canonical form.
func TestAttributesAreRecorded(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	const first, second = `{"mtime":"7","executable":true}`, `{"xattrs":{"user.a":"AA==","user.b":""}}`
	ref := alice.withAttributes("f", ` {"executable":true, "later":{"x":[1]}, "mtime":"7"} `)
	if got := alice.attributesShown(ref); got != first {
		t.Errorf("uploaded: %s", got)
	}
	start := alice.watch(0, 0).Seq
	for range 2 { // as after a lost answer
		must[string](alice, wire.OpSetAttributes, attributesRequest(ref, `{"xattrs":{"user.b":"","user.a":"AA=="}}`))
	}
	if got := kinds(alice.watch(start, 0).Events); got != "set_attributes g alice" {
		t.Errorf("events: %s", got)
	}
	changed := must[[]wire.TransactionRow](alice, wire.OpGetGroupTransactions,
		object{"group_id": "g", "after_seq": start})
	if len(changed) != 1 || *changed[0].Attributes != second || *changed[0].Filename != "f" {
		t.Errorf("a listing after the change shows %+v", changed)
	}
	must[string](alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": ref, "filename": "g"})
	must[wire.NameResult](alice, wire.OpRemoveFile, object{"group_id": "g", "filename": "g", "seq": alice.lastSeq()})
	if status, body := alice.tool(wire.OpSetAttributes, attributesRequest(ref, "{}")); status != http.StatusNotFound ||
		!strings.Contains(body, "trash") {
		t.Errorf("in the trash: %d %s", status, body)
	}
	alice.restores("g", alice.lastSeq())
	must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
	if status, body := alice.tool(wire.OpSetAttributes, attributesRequest(ref, "{}")); status != http.StatusNotFound ||
		!strings.Contains(body, wire.CodeFileDeleted) {
		t.Errorf("deleted: %d %s", status, body)
	}
	rows, _ := alice.chain("g", nil)
	want := []string{"register_group ", "record_transaction " + first, "set_attributes " + second,
		"rename_file " + second, "remove_file " + second,
		"restore_file " + second, "tombstone_transaction " + second}
	var got []string
	for _, row := range rows {
		got = append(got, row.Kind+" "+tag(row, chain.TagAttributes))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("records:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if named := tag(rows[2], chain.TagNamed); named != strconv.FormatInt(rows[1].Number, 10) {
		t.Errorf("named by record %s", named)
	}
	if tag(rows[2], chain.TagName) != "f" || rows[2].Detail != "" || tag(rows[2], chain.TagUpload) == "" {
		t.Errorf("the record %+v", rows[2])
	}
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	plain := alice.upload("g", "plain", []byte("x")).CID
	if row := alice.row("g", plain); row.Attributes != nil || tag(alice.newest(), chain.TagAttributes) != "" {
		t.Errorf("a file without attributes: %+v", row)
	}
}

// newest is the newest record of the group.
func (u *user) newest() wire.TransactionRow {
	rows, _ := u.chain("g", nil)
	return rows[len(rows)-1]
}

// TestThreat48AttributesThatCannotBeRecorded: a wrong form, what is too large, names that
// belong to the mount, and links that would show different targets to different clients.
func TestThreat48AttributesThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	long := strings.Repeat("a", format.MaxAttributeBytes)
	plain := alice.withAttributes("plain", "")
	for _, tc := range []struct {
		attributes, contentType, content, want string
	}{
		{`[]`, "", "x", "not understood"},
		{`"text"`, "", "x", "not understood"},
		{`{"mtime":1}`, "", "x", "not understood"},
		{`{"mtime":"x"}`, "", "x", "ns since 1970"},
		{`{"xattrs":{"user.svcfs.ref":""}}`, "", "x", "belong to the mount"},
		{`{"xattrs":{"security.capability":""}}`, "", "x", "want user."},
		{`{"xattrs":{"user.a\u0000":""}}`, "", "x", "want user."},
		{`{"xattrs":{"user.a":"` + long + `","user.b":"` + long + `"}}`, "", "x", "at most 4096"},
		{`{"target":"x"}`, "", "x", "needs both"},
		{``, format.TypeSymlink, "x", "needs both"},
		{`{"target":"y"}`, format.TypeSymlink, "x", "must be its target"},
		{`{"target":"a\u0000"}`, format.TypeSymlink, "a\x00", "without NUL"},
		{`{"target":"` + long + `"}`, format.TypeSymlink, long, "at most 4095"},
	} {
		if status, body, _ := alice.sends("f", tc.contentType, tc.content,
			tc.attributes); status != http.StatusBadRequest || !strings.Contains(body, tc.want) {
			t.Errorf("upload with %.60s: %d %s, want %s", tc.attributes, status, body, tc.want)
		}
		if tc.attributes == "" {
			continue
		}
		if status, body := alice.tool(wire.OpSetAttributes,
			attributesRequest(plain, tc.attributes)); status != http.StatusBadRequest {
			t.Errorf("set %.60s: %d %s", tc.attributes, status, body)
		}
	}
	if rows := alice.rows("g"); len(rows) != 1 || rows[0].Attributes != nil {
		t.Errorf("something was recorded: %+v", rows)
	}
	t.Run("a link keeps its target", func(t *testing.T) {
		status, body, _ := alice.sends("l", format.TypeSymlink, "../x", `{"target":"../x"}`)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		link := alice.rows("g")[1]
		for attributes, want := range map[string]int{`{}`: 400, `{"target":"../y"}`: 400,
			`{"mtime":"5","target":"../x"}`: 200} {
			if status, body := alice.tool(wire.OpSetAttributes,
				attributesRequest(link.IPFSHash, attributes)); status != want {
				t.Errorf("%s: %d %s", attributes, status, body)
			}
		}
		if status, body := alice.tool(wire.OpSetAttributes,
			attributesRequest(plain, `{"target":"plain"}`)); status != http.StatusBadRequest {
			t.Errorf("a file became a link: %d %s", status, body)
		}
		if got := alice.attributesShown(link.IPFSHash); got != `{"mtime":"5","target":"../x"}` {
			t.Errorf("the link has %s", got)
		}
		alice.reads(link.IPFSHash, "../x")
	})
}

// TestFinalizeRepeatedKeepsItsFirstAttributes: a client that repeats finalize with others
// sets them afterwards.
func TestFinalizeRepeatedKeepsItsFirstAttributes(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	_, first, again := alice.sends("f", "", "x", `{"mtime":"1"}`)
	if status, second := again(); status != http.StatusOK || second != first {
		t.Errorf("repeated: %d %s, first %s", status, second, first)
	}
	if rows := alice.rows("g"); len(rows) != 1 || *rows[0].Attributes != `{"mtime":"1"}` {
		t.Errorf("rows %+v", rows)
	}
}

// TestRemovalAfterAChangeOfAttributes: an account that changed the attributes of a file does
// not know the sequence of that record when it removes the name.
func TestRemovalAfterAChangeOfAttributes(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	ref := alice.withAttributes("f", "")
	seen := alice.lastSeq()
	must[string](alice, wire.OpSetAttributes, attributesRequest(ref, `{"mtime":"1"}`))
	if done := alice.removes("f", seen); done.Files != 1 {
		t.Errorf("removed %+v", done)
	}
}

// TestThreat17AttributesDoNotMakeNamesYounger: a name that two files want stays with the
// older, also after several changes of attributes.
func TestThreat17AttributesDoNotMakeNamesYounger(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	ref := alice.withAttributes("f", "")
	named := func(mtime, want string) {
		t.Helper()
		must[string](alice, wire.OpSetAttributes, attributesRequest(ref, `{"mtime":"`+mtime+`"}`))
		if got := tag(alice.newest(), chain.TagNamed); got != want {
			t.Errorf("named by record %s, want %s", got, want)
		}
	}
	upload := strconv.FormatInt(alice.newest().Number, 10)
	named("1", upload)
	named("2", upload)
	must[string](alice, wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": ref, "filename": "g"})
	renamed := strconv.FormatInt(alice.newest().Number, 10)
	named("3", renamed)
	named("4", renamed)
}

// TestThreat31ChangesOfAttributesAreBounded: they are free changes. One that changes nothing
// is none.
func TestThreat31ChangesOfAttributesAreBounded(t *testing.T) {
	t.Parallel()
	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(36 * time.Hour)
	r := runWith(t, service.Config{Database: newDatabase(t), FreeChanges: 2, Now: func() time.Time { return noon }})
	alice := r.owner()
	ref := alice.withAttributes("f", "")
	for _, tc := range []struct {
		attributes string
		want       int
	}{{`{"mtime":"1"}`, 200}, {`{"mtime":"1"}`, 200}, {`{"mtime":"2"}`, 200}, {`{"mtime":"2"}`, 200},
		{`{"mtime":"3"}`, 429}} {
		if status, body := alice.tool(wire.OpSetAttributes, attributesRequest(ref, tc.attributes)); status != tc.want {
			t.Errorf("%s: %d %s", tc.attributes, status, body)
		}
	}
}

// TestThreat31LongAttributesCountMore: every record about a file repeats its attributes, and
// stays in the ledger.
func TestThreat31LongAttributesCountMore(t *testing.T) {
	t.Parallel()
	r := runWith(t, service.Config{Database: newDatabase(t), FreeChanges: 14})
	alice := r.owner()
	ref := alice.withAttributes("f", "")
	long := fmt.Sprintf(`{"xattrs":{"user.a":"%s"}}`, strings.Repeat("A", 5000))
	for _, tc := range []struct {
		op      string
		request object
		want    int
	}{
		{wire.OpSetAttributes, attributesRequest(ref, long), 200}, // 6, and so the rename
		{wire.OpRenameFile, object{"group_id": "g", "ipfs_hash": ref, "filename": "g"}, 200},
		{wire.OpSetAttributes, attributesRequest(ref, `{"mtime":"1"}`), 200}, // 1
		{wire.OpSetAttributes, attributesRequest(ref, long), 429},
		{wire.OpSetAttributes, attributesRequest(ref, `{"mtime":"2"}`), 200},
	} {
		if status, body := alice.tool(tc.op, tc.request); status != tc.want {
			t.Errorf("%s %.40v: %d %s", tc.op, tc.request, status, body)
		}
	}
	r.audits()
}
