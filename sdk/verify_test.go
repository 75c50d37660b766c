package sdk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/testkit"
)

// Records are hostile input: what cannot be read makes the answer corrupt, and
// pages that do not advance end.
func TestHostileLedgerRows(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("ab", 32)
	row := func(seq int) string {
		return fmt.Sprintf(`{"seq":%d,"timestamp":"1","kind":"fund","prev_hash":"%s","hash":"%s"}`, seq, hash, hash)
	}
	full := strings.Repeat(row(1)+",", wire.MaxPageRows-1) + row(1)
	for _, tc := range []struct {
		name, rows string
		dialect    testkit.Dialect
		want       error
	}{
		{"honest", row(1) + "," + row(2), testkit.Ours, nil},
		{"no checkpoints", row(1), testkit.Hosted, sdk.ErrUnsupported},
		{"no time", `{"seq":1,"prev_hash":"` + hash + `","hash":"` + hash + `"}`, testkit.Ours, sdk.ErrCorrupt},
		{"time of words", strings.Replace(row(1), `"1"`, `"now"`, 1), testkit.Ours, sdk.ErrCorrupt},
		{"no hash", `{"seq":1,"timestamp":"1"}`, testkit.Ours, sdk.ErrCorrupt},
		{"short hash", strings.Replace(row(1), hash, "ab", 1), testkit.Ours, sdk.ErrCorrupt},
		{"hash of words", strings.Replace(row(1), hash, strings.Repeat("xy", 32), 1), testkit.Ours, sdk.ErrCorrupt},
		{"number for a text", strings.Replace(row(1), `"fund"`, "7", 1), testkit.Ours, sdk.ErrCorrupt},
		{"pages that stand still", full, testkit.Ours, sdk.ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := world(t, tc.dialect)
			s.Answer(wire.PathTools+wire.OpGetGroupTransactions, answer(200, `{"result":[`+tc.rows+`]}`))
			rows, err := c.Group("g").Records(t.Context())
			if !errors.Is(err, tc.want) || tc.want == nil && len(rows) != 2 {
				t.Errorf("%d rows, %v; want %v", len(rows), err, tc.want)
			}
		})
	}
}

// smallShare is memory for a few files.
const smallShare = 6000

// livedIn is a group in which files and folders have changed in every way, with what a client that reads it in parts
// was told of the names in between.
func livedIn(t *testing.T) (s *testkit.Server, client func(change ...func(*sdk.Config)) *sdk.Client) {
	t.Helper()
	s = testkit.Start(t, testkit.Ours)
	alice, dir, ctx := s.Account("alice", "1000"), t.TempDir(), t.Context()
	client = func(change ...func(*sdk.Config)) *sdk.Client {
		return s.Client(t, alice, append(change, func(cfg *sdk.Config) { cfg.StateDir = dir })...)
	}
	c := client(func(cfg *sdk.Config) { cfg.SmallGroup = -1 })
	g := c.Group("g")
	steps := map[string]func() error{
		"rename":  func() error { return second(g.Rename(ctx, putText(t, g, "docs/named").Ref, "other/renamed")) },
		"remove":  func() error { return second(g.Remove(ctx, "docs/1")) },
		"restore": func() error { return second(g.Restore(ctx, "docs/1")) },
		"delete":  func() error { return second(g.Delete(ctx, putText(t, g, "docs/2").Ref)) },
		"attributes": func() error {
			return second(g.SetAttributes(ctx, putText(t, g, "docs/run").Ref, sdk.Attributes{Executable: true}))
		},
		"make":   func() error { return second(g.MakeFolder(ctx, "docs/empty")) },
		"make 2": func() error { return second(g.MakeFolder(ctx, "top")) },
		"unmake": func() error { return second(g.RemoveFolder(ctx, "top")) },
		"folder": func() error {
			return second(g.RenameFolder(ctx, "docs", "archive/docs", putText(t, g, "docs/3").Seq))
		},
		"trash": func() error { return second(g.Remove(ctx, "archive/docs/4")) },
	}
	if _, err := g.Register(ctx); err != nil {
		t.Fatal(err)
	}
	for i, step := range []string{"rename", "remove", "restore", "delete", "attributes", "make", "make 2", "unmake",
		"folder", "trash"} {
		for n := range 6 {
			putText(t, g, fmt.Sprint("docs/", n)) // versions of one name
		}
		if err := steps[step](); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if _, err := g.Child(ctx, "docs/0"); err != nil && !errors.Is(err, sdk.ErrNotFound) || i == 0 && err != nil {
			t.Fatal(err)
		}
	}
	// The log shows a root of these names, which are in no table, too.
	s.Log()
	s.AddRecords(alice, "g", []string{"", "a//b", "/", strings.Repeat("deep/", 50), "archive"}) // "" = without a name
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return s, client
}

// A group is verified in shares as it is at once, whatever happened in it: the same files, the same root of names, and
// the roots that were signed before. What is kept on disk is gone then.
func TestVerifyInShares(t *testing.T) {
	t.Parallel()
	s, client := livedIn(t)
	want, err := client().Group("g").Verify(t.Context())
	if err != nil || want.Names == "" {
		t.Fatalf("%+v, %v", want, err)
	}
	entries, err := client().Group("g").Entries(t.Context())
	if err != nil || len(entries) != want.Files {
		t.Fatalf("%d entries, %v; %d were verified", len(entries), err, want.Files)
	}
	spool, before := t.TempDir(), s.Hits(listPath)
	c := client(func(cfg *sdk.Config) { cfg.SpoolDir = spool })
	sdk.SetShare(c, smallShare)
	report, err := c.Group("g").Verify(t.Context())
	want.Before, want.Pinned, want.Opens = report.Before, report.Pinned, report.Opens
	if report != want || err != nil {
		t.Errorf("in shares %+v, %v; at once %+v", report, err, want)
	}
	if n := s.Hits(listPath) - before; n < 8 {
		t.Errorf("it took %d lists", n)
	}
	if list, err := os.ReadDir(spool); err != nil || len(list) != 0 || c.ListMemory() != 0 {
		t.Errorf("left are %v, %v, and %d bytes of memory", list, err, c.ListMemory())
	}
	c = client(func(cfg *sdk.Config) { cfg.SpoolDir = "/dev/null/none" })
	sdk.SetShare(c, smallShare)
	if _, err := c.Group("g").Verify(t.Context()); errorCode(err) != wire.CodeSpool || sdk.KindOf(err) != sdk.ErrOther {
		t.Errorf("without a disk: %v", err)
	}
}

// While a group is verified in shares, its chain may go on. It must not become another one, nor end earlier: nobody has
// remembered yet what the list before had.
func TestVerifyInSharesWhileTheChainMoves(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		between func(t *testing.T, s *testkit.Server, g sdk.Group)
		want    string // "" = all is well
	}{
		"goes on": {func(t *testing.T, _ *testkit.Server, g sdk.Group) { putText(t, g, "docs/new") }, ""},
		"a folder is renamed": {func(t *testing.T, _ *testkit.Server, g sdk.Group) {
			newest := putText(t, g, "docs/new").Seq
			if _, err := g.RenameFolder(t.Context(), "archive", "elsewhere", newest); err != nil {
				t.Error(err)
			}
		}, ""},
		"another one": {func(_ *testing.T, s *testkit.Server, _ sdk.Group) {
			s.Show(s.Log().Rewritten(func(r *chain.Record) bool {
				r.Detail = strings.ReplaceAll(r.Detail, "deep", "DEEP")
				return true
			}))
		}, "is not the one that was listed a moment ago"},
		"ends earlier": {func(_ *testing.T, s *testkit.Server, _ sdk.Group) {
			l := s.Log()
			n := l.Len()
			s.Show(l.Rewritten(func(*chain.Record) bool { n--; return n > 0 }))
		}, "records are listed, and a moment ago were"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, client := livedIn(t)
			g := client(func(cfg *sdk.Config) { cfg.StateDir = "" }).Group("g")
			entries, err := g.Entries(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := client(func(cfg *sdk.Config) { cfg.StateDir = "" })
			sdk.SetShare(c, smallShare)
			s.Disturb(listPath, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					var asked wire.TransactionsRequest
					raw, _ := io.ReadAll(r.Body)
					_ = json.Unmarshal(raw, &asked)
					r.Body = io.NopCloser(bytes.NewReader(raw))
					next.ServeHTTP(w, r)
					if asked.Kinds == wire.KindsChain && !asked.Names && tc.between != nil {
						tc.between(t, s, g)
						tc.between = nil
					}
				})
			})
			report, err := c.Group("g").Verify(t.Context())
			if tc.want == "" && (err != nil || report.Files != len(entries)) || tc.between != nil {
				t.Errorf("%d of %d files, %v", report.Files, len(entries), err)
			}
			if tc.want != "" && (!errors.Is(err, sdk.ErrCorrupt) || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
