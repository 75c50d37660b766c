package service_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
)

// bounded are texts of requests, and how many bytes they may have, in the order of WIRE.md. A text is sent to an
// operation, to a path as JSON, as the head of a frame, in the place {} of a path, behind the ? of one, or as a header.
var bounded = []struct {
	to, fields string
	most       int
}{
	{"header", "X-Api-Key X-Svc-Proof", 256},
	{"header", "X-Account-Id X-Wallet-Id", 584},
	{"header", "X-Svc-Opening", 2048},
	{"header", "Authorization", 8192},
	{"/api/auth/session-token", "account_id", 584},
	{"/api/invites/redeem", "secret", 256},
	{"PUT /raw/upload/{}", "id", 256},
	{"PUT /raw/sealed/{}", "id", 256},
	{"GET /raw/read/{}", "ticket", 4096},
	{"GET /raw/blocks/{}", "ticket", 4096},
	{"GET /raw/manifest/{}", "ticket", 4096},
	{"GET /raw/tiles/x/{}", "tile", 256},
	{"PUT /raw/parts/{}/x", "id", 256},
	{"PUT /raw/parts/x/{}", "part", 256},
	{"PUT /raw/parts/x/x?", "group_id", 128},
	{"PUT /raw/parts/x/x?", "blocks", 4096},
	{"PUT /raw/parts/x/x?", "block_size", 256},
	{"GET /raw/parts/x?", "part", 256},
	{"add_group_member", "member_id", 584},
	{"add_group_member", "group_id", 128},
	{"add_group_member", "role", 256},
	{"create_hackathon_group", "expires_at", 256},
	{"get_member_groups", "after", 4096},
	{"prepare_upload", "filename", 4096},
	{"finalize_upload", "upload_id file_hash salt base upon", 256},
	{"finalize_upload", "format", 65536},
	{"prepare_retrieve", "ipfs_hash transfer", 256},
	{"prepare_retrieve", "claim_id", 128},
	{"revoke_group_invite", "invite", 256},
	{"use_group_invite", "secret", 256},
	{"set_group_settings", "appends keys", 256},
	{"set_group_trash", "who", 256},
	{"try_group_versions", "keep", 256},
	{"try_group_versions", "after", 4096},
	{"set_attributes", "attributes", 32768},
	{"rename_folder", "folder new_folder", 4096},
	{"get_names", "name folder", 4096},
	{"get_names", "from", 256},
	{"get_names", "nonce", 64},
	{"get_group_transactions", "kinds", 256},
	{"get_group_transactions", "nonce", 64},
	{"open_journal_key", "journal", 256},
	{"open_journal_key", "sealed_key", 1560},
	{"frame", "file_hash salt blob_hash base tag upon from", 256},
	{"frame", "group_id", 128},
	{"frame", "sealed_key", 1560},
}

// sendsText sends a text with a request that is good for nothing else.
func (u *user) sendsText(to, field, text string) (status int, body string) {
	u.t.Helper()
	var value any = text
	if field == "format" || field == "attributes" { // any JSON
		value = json.RawMessage(`"` + text[2:] + `"`)
	}
	method, address, isAddress := strings.Cut(to, " ")
	switch {
	case to == "frame":
		return u.putsFrame("x", frameOf(u.t, object{"id": "x", field: value}))
	case strings.HasPrefix(to, "/"):
		status, raw := u.post(to, http.Header{wire.HeaderAPIKey: {u.key}}, object{field: value})
		return status, string(raw)
	case to != "header" && !isAddress:
		return u.tool(to, object{"group_id": "g", "nonce": nonce, field: value})
	case to == "header":
		method, address = http.MethodGet, wire.PathCapabilities
	}
	address = strings.ReplaceAll(address, "{}", text)
	if strings.HasSuffix(address, "?") {
		address += url.Values{field: {text}}.Encode()
	}
	req, err := http.NewRequestWithContext(u.t.Context(), method, u.url+address, nil)
	ok(u.t, err)
	req.Header = u.header()
	if to == "header" {
		req.Header.Set(field, text)
	}
	status, raw := u.do(req)
	return status, string(raw)
}

func frameOf(t testing.TB, head object) []byte {
	t.Helper()
	raw, err := json.Marshal(head)
	ok(t, err)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)
}

// Threat 31: each text and each list of a request has a bound, which is looked at before anything is done.
func TestThreat31TextsOfRequestsAreBounded(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	var sent []string
	for _, b := range bounded {
		for _, field := range strings.Fields(b.fields) {
			sent = append(sent, field)
			want := fmt.Sprintf("%s has %d bytes: at most %d bytes are allowed", field, b.most+1, b.most)
			status, body := alice.sendsText(b.to, field, strings.Repeat("x", b.most+1))
			code := wire.CodeValidation
			switch field {
			case "Authorization", wire.HeaderProof:
				code = wire.CodeInvalidToken
			case wire.HeaderAPIKey:
				code = wire.CodeInvalidKey
			}
			if status/100 != 4 || !strings.Contains(body, want) || !strings.Contains(body, code) {
				t.Errorf("%s to %s: %d %.300s", field, b.to, status, body)
			}
			status, body = alice.sendsText(b.to, field, strings.Repeat("x", b.most))
			if strings.Contains(body, "are allowed") || status == http.StatusRequestEntityTooLarge {
				t.Errorf("the longest %s to %s: %d %.300s", field, b.to, status, body)
			}
		}
	}
	texts, lists := fieldsOfRequests(t)
	wantSame(t, "lists", []string{"formats", "layouts"}, lists)
	for _, field := range texts {
		if !slices.Contains(sent, field) && field != "encrypted_data" {
			t.Errorf("%s of a request is not in the table", field)
		}
	}
	constants, _ := wireCode(t, "../sdk/wire")
	for _, name := range withPrefix(constants, "Header") {
		if !slices.Contains(sent, name) && name != wire.HeaderRequestID { // which is of an answer
			t.Errorf("the header %s is not in the table", name)
		}
	}
}

// Threat 31: a list has a bound, and so has each of its entries.
func TestThreat31ListsOfRequestsAreBounded(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	file := alice.upload("g", "f", []byte("x"))
	layouts := func(n int, last string) object {
		return object{"group_id": "g", "kinds": wire.KindsAll, "layouts": append(slices.Repeat(layouts(), n), last)}
	}
	formats := func(n int) object {
		return object{"group_id": "g", "ipfs_hash": file.CID, "formats": slices.Repeat([]int{1}, n)}
	}
	for _, tc := range []struct {
		op      string
		request object
		refusal string // "" = none
	}{
		{wire.OpGetGroupTransactions, layouts(63, ""), ""},
		{wire.OpGetGroupTransactions, layouts(64, ""), "layouts has 65 entries: at most 64 are allowed"},
		{wire.OpGetGroupTransactions, layouts(1, strings.Repeat("x", 256)), ""},
		{wire.OpGetGroupTransactions, layouts(1, strings.Repeat("x", 257)), "an entry of layouts has 257 bytes"},
		{wire.OpPrepareRetrieve, formats(64), ""},
		{wire.OpPrepareRetrieve, formats(65), "formats has 65 entries: at most 64 are allowed"},
	} {
		status, body := alice.tool(tc.op, tc.request)
		if want := tc.refusal != ""; want != (status == http.StatusBadRequest) || !strings.Contains(body, tc.refusal) {
			t.Errorf("%s, want %q: %d %.300s", tc.op, tc.refusal, status, body)
		}
	}
}

// A head with a text that is too long is refused alone: the other frames of its request are recorded.
func TestLongHeadIsRefusedAlone(t *testing.T) {
	t.Parallel()
	_, alice := runWithGroup(t)
	long := alice.seals("g", "long", []byte("x"))
	long.Base = strings.Repeat("x", 257)
	good := alice.seals("g", "good", []byte("x"))
	out := must[wire.FinalizeUploadsResult](alice, wire.OpFinalizeUploads, append(long.frame(), good.frame()...))
	if len(out.Uploads) != 2 || out.Uploads[0].Error == nil || out.Uploads[1].Result == nil {
		t.Fatalf("%+v", out)
	}
	if e := out.Uploads[0].Error; e.Code != wire.CodeValidation || !strings.HasPrefix(e.Error, "base has 257 bytes") {
		t.Errorf("%+v", e)
	}
}

// fieldsOfRequests are the names of the fields of all requests of package wire that are texts or JSON, and lists.
func fieldsOfRequests(t *testing.T) (texts, lists []string) {
	t.Helper()
	files, err := filepath.Glob("../sdk/wire/*.go")
	ok(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		ok(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, isType := n.(*ast.TypeSpec)
			if !isType || !strings.HasSuffix(spec.Name.Name, "Request") && spec.Name.Name != "SealedHead" {
				return true
			}
			request, _ := spec.Type.(*ast.StructType)
			for _, f := range request.Fields.List {
				if f.Tag == nil {
					continue
				}
				tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
				name, _, _ := strings.Cut(tag.Get("json"), ",")
				switch kind := f.Type.(type) {
				case *ast.ArrayType:
					lists = append(lists, name)
				case *ast.SelectorExpr:
					texts = append(texts, name)
				case *ast.Ident:
					if !slices.Contains([]string{"bool", "int", "int64"}, kind.Name) {
						texts = append(texts, name)
					}
				}
			}
			return true
		})
	}
	return texts, lists
}
