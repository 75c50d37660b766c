package service_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
)

// wirePage is service/WIRE.md.
type wirePage string

var quotedWord = regexp.MustCompile("`([^`]+)`")

// words returns what is between backticks.
func words(text string) (list []string) {
	for _, m := range quotedWord.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// section returns the text below a title, with its subsections.
func (p wirePage) section(t *testing.T, title string) string {
	t.Helper()
	level := strings.Repeat("#", strings.Count(title, "#"))
	_, text, ok := strings.Cut("\n"+string(p), "\n"+title+"\n")
	if !ok {
		t.Fatalf("WIRE.md has no section %q", title)
	}
	if end := regexp.MustCompile(`(?m)^#{2,` + strconv.Itoa(len(level)) + `} `).FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	return text
}

// pageRows returns the cells of the tables of a text, without their heads.
func pageRows(text string) (list [][]string) {
	inTable := false
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case strings.HasPrefix(line, "|---"):
			inTable = true
		case inTable:
			list = append(list, cells)
		}
	}
	return list
}

// firsts returns the words of the first cells of the tables of a text, with a ? where one follows.
func firsts(text string) (list []string) {
	for _, cells := range pageRows(text) {
		list = append(list, words(strings.ReplaceAll(cells[0], "`?", "?`"))...)
	}
	return list
}

// tagsOf are the names of the fields of a value in JSON, with a ? for those that may be absent.
func tagsOf(value any, before string) (list []string) {
	for f := range reflect.TypeOf(value).Fields() {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			list = append(list, tagsOf(reflect.Zero(f.Type).Interface(), before)...)
			continue
		}
		if option != "" {
			name += "?"
		}
		list = append(list, before+name)
	}
	return list
}

// wantSame compares two sets.
func wantSame(t *testing.T, what string, page, code []string) {
	t.Helper()
	for _, name := range page {
		if !slices.Contains(code, name) {
			t.Errorf("%s: WIRE.md has %s, and the code does not", what, name)
		}
	}
	for _, name := range code {
		if !slices.Contains(page, name) {
			t.Errorf("%s: WIRE.md lacks %s", what, name)
		}
	}
}

// wireCode returns the texts of the constants of a package by their names, and the names of fields in JSON.
func wireCode(t *testing.T, dir string) (constants map[string]string, tags []string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources in %s: %v", dir, err)
	}
	constants = make(map[string]string)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						if text, ok := n.Values[i].(*ast.BasicLit); ok && text.Kind == token.STRING {
							constants[name.Name], _ = strconv.Unquote(text.Value)
						}
					}
				}
			case *ast.Field:
				if n.Tag != nil {
					text, _ := strconv.Unquote(n.Tag.Value)
					if tag, _, _ := strings.Cut(reflect.StructTag(text).Get("json"), ","); tag != "" && tag != "-" {
						tags = append(tags, tag)
					}
				}
			}
			return true
		})
	}
	return constants, tags
}

// withPrefix returns the texts of the constants whose names begin so.
func withPrefix(constants map[string]string, prefix string) (list []string) {
	for name, text := range constants {
		if rest, ok := strings.CutPrefix(name, prefix); ok && strings.ToLower(rest[:1]) != rest[:1] {
			list = append(list, text)
		}
	}
	return list
}

// The page for people who write another client has all that the code has, and nothing else.
func TestWirePage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("WIRE.md")
	if err != nil {
		t.Fatal(err)
	}
	page := wirePage(raw)
	constants, tags := wireCode(t, "../sdk/wire")
	kinds, _ := wireCode(t, "../sdk/wire/chain")

	operations := withPrefix(constants, "Op")
	wantSame(t, "operations", firsts(page.section(t, "## Operations")), operations)
	wantSame(t, "headers", firsts(page.section(t, "## Headers")), withPrefix(constants, "Header"))
	var paths []string
	for _, cells := range pageRows(page.section(t, "## Paths")) {
		paths = append(paths, words(cells[0])[0])
	}
	wantSame(t, "paths", paths, withPrefix(constants, "Path"))
	wantSame(t, "capabilities", firsts(page.section(t, "## Capabilities")),
		slices.Concat(tagsOf(wire.Capabilities{}, ""), tagsOf(wire.Vault{}, "vault.")))
	wantSame(t, "head of a frame", firsts(page.section(t, "## A sealed upload")), tagsOf(wire.SealedHead{}, ""))
	lists, listed, _ := strings.Cut(page.section(t, "## Lists"), "\n### Rows\n")
	wantSame(t, "list", append(firsts(lists), "group_id"), tagsOf(wire.TransactionsRequest{}, ""))
	wantSame(t, "row", firsts(listed), slices.Concat(tagsOf(wire.TransactionRow{}, ""), tagsOf(wire.Deleted{}, "")))
	all := strings.NewReplacer("`?", "?`").Replace(string(page))
	for _, tag := range tags {
		isThere := slices.Contains(slices.Concat(words(string(page)), fieldsElsewhere), tag)
		if !isThere && !strings.Contains(all, "vault."+tag) {
			t.Errorf("WIRE.md lacks the field %s", tag)
		}
	}
	known := slices.Concat(tags, operations, slices.Collect(maps.Values(constants)), slices.Collect(maps.Values(kinds)),
		namesElsewhere)
	snake := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)+$`)
	for _, word := range words(string(page)) {
		if snake.MatchString(word) && !slices.Contains(known, word) {
			t.Errorf("WIRE.md names %s, which the code does not have", word)
		}
	}
	testCodesOfPage(t, page, withPrefix(constants, "Code"))
	testBoundsOfPage(t, page)

	handler := serve(t, nil).svc.Handler()
	for _, op := range operations {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, wire.PathTools+op, nil))
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s without an account: %d, want 401", op, w.Code)
		}
	}
}

// namesElsewhere are in WIRE.md and no constant or field of package wire: of /health, of a query, of the views.
var namesElsewhere = []string{"rpc_reachable", "block_size", "get_transaction_meta"}

// fieldsElsewhere are those of the hosted service that a row of WIRE.md only adds to, and those of the line of a
// checkpoint that LEDGER.md describes.
var fieldsElsewhere = []string{"expires_at", "max_uses", "authenticated", "near_account_id", "authorized_for_group",
	"auth_error", "upload_id", "cid", "since", "clear", "unrecorded"}

func testCodesOfPage(t *testing.T, page wirePage, codes []string) {
	section := page.section(t, "## Codes")
	_, own, _ := strings.Cut(section, "which no service sends:")
	var sent []string
	for _, cells := range pageRows(section) {
		for _, code := range words(cells[0]) {
			sent = append(sent, code)
			if want := fmt.Sprint(fault.New(code, "").Status()); strings.TrimSpace(cells[1]) != want {
				t.Errorf("WIRE.md has %s as %s, the service answers it as %s", code, cells[1], want)
			}
		}
	}
	wantSame(t, "codes", slices.Concat(sent, words(own)), codes)
	for _, word := range words(string(page)) {
		if regexp.MustCompile(`^[A-Z]+(_[A-Z]+)+$`).MatchString(word) && !slices.Contains(codes, word) {
			t.Errorf("WIRE.md names the code %s, which is none", word)
		}
	}
}

func testBoundsOfPage(t *testing.T, page wirePage) {
	want := map[string]int64{
		"answer without content that is no list of rows, in bytes, for which a client has room": wire.MaxJSONBytes,
		"row, in bytes":                                         wire.MaxRowBytes,
		"rows of a page":                                        wire.MaxPageRows,
		"groups of a page":                                      wire.MaxPageNames,
		"parts of names on a page of a folder":                  wire.MaxPageComponents,
		"recorded folders of an account in a group":             wire.MaxFolders,
		"nonce, in letters and digits":                          wire.MaxNonceBytes,
		"wait of `watch`, in ms":                                wire.MaxWatchMillis,
		"ciphertext inside the JSON of `raw`, in bytes":         wire.InlineBlobBytes,
		"`first_bytes` that are heeded":                         wire.MaxFirstBytes,
		"manifest inside the JSON, in bytes":                    wire.InlineManifestBytes,
		"part, in bytes":                                        wire.PartBytes,
		"head of a frame, in bytes":                             wire.MaxSealedHead,
		"ciphertext of a frame of version 1, in bytes":          wire.WholeFileBytes + format.Overhead,
		"ciphertext of a frame in `finalize_uploads`, in bytes": wire.SealedBatchBlob,
		"frames of `finalize_uploads`":                          wire.MaxSealedBatch,
		"their bytes":                                           wire.MaxSealedBatchBytes,
		"group id, in bytes":                                    wire.MaxGroupIDBytes,
		"account id, in bytes":                                  wire.MaxAccountIDBytes,
		"name, folder, or `after`, in bytes":                    names.MaxPathBytes,
		"`format`, in bytes":                                    format.MaxMetadataBytes,
		"`attributes`, in bytes":                                wire.MaxAttributesBytes,
		"`sealed_key`, in bytes":                                1560,
		"`blocks` of a part, in bytes":                          wire.MaxBlocksBytes,
		"ticket, in bytes":                                      wire.MaxTicketBytes,
		"`Authorization`, in bytes":                             wire.MaxTokenBytes,
		"`X-Svc-Opening`, in bytes":                             wire.MaxOpeningTextBytes,
		"any other text, such as a reference, in bytes":         wire.MaxTextBytes,
		"entries of a list":                                     wire.MaxListEntries,
		"headers of a request, in bytes":                        64 << 10,
		"request of `/rpc`, in bytes":                           16 << 10,
		"members of a group":                                    groups.MaxMembers,
		"invites to a group that were not used":                 groups.MaxInvites,
		"request without content, in bytes":                     64 << 10,
		"request of a sign-in or an invite, in bytes":           4 << 10,
		"nesting of a request":                                  32,
		"claim id, in bytes":                                    wire.MaxClaimIDBytes,
		"parts of an upload":                                    32_768,
	}
	var have, code []string
	for _, cells := range pageRows(page.section(t, "## Bounds")) {
		have = append(have, strings.TrimSpace(cells[0])+": "+strings.TrimSpace(cells[1]))
	}
	for what, bound := range want {
		code = append(code, fmt.Sprintf("%s: %d", what, bound))
	}
	wantSame(t, "bounds", have, code)
}
