package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

const listPath = wire.PathTools + wire.OpGetGroupTransactions

// Threat 8: the lists of a client that are read at the same time, and never end, take no more
// memory together than a client allows. Once they end they take none.
func TestThreat8ListsTogether(t *testing.T) { // alone: it measures the heap of the process
	const (
		limit  = 32 << 20
		groups = 40
	)
	for name, tc := range map[string]struct {
		lie   testkit.Invented
		least int // how many lists are refused
	}{
		"signed":     {testkit.Invented{Signed: true, Records: 6 << 10}, groups - 8},
		"not signed": {testkit.Invented{Records: 4 << 10}, groups - listsTogether},
	} {
		t.Run(name, func(t *testing.T) {
			w := testkit.NewWorld(t, testkit.OnChain, false)
			c := w.Client(t, w.Alice, func(cfg *sdk.Config) { cfg.ListMemory = limit })
			events := make(chan string, 2*groups) // groups whose list ended, or has no more rows
			tc.lie.Stopped = func(group string) { events <- group }
			w.Tell(testkit.Lie{Path: listPath, Mutate: tc.lie.Mutation()})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			before := heap()
			var done sync.WaitGroup
			errs := make([]error, groups)
			for i := range groups {
				done.Go(func() {
					group := fmt.Sprint("group ", i)
					_, errs[i] = c.Group(sdk.GroupID(group)).Entries(ctx)
					events <- group
				})
			}
			for seen := map[string]bool{}; len(seen) < groups; {
				seen[<-events] = true
			}
			if grown := heap() - before; grown > 2*limit {
				t.Errorf("the heap grew by %d bytes", grown)
			}
			if held := c.ListMemory(); held > limit+listsTogether*pageOfRecords {
				t.Errorf("%d bytes are counted", held)
			}
			stop()
			done.Wait()
			if held := c.ListMemory(); held != 0 {
				t.Errorf("after the lists %d bytes are counted", held)
			}
			refused := 0
			for _, err := range errs {
				if errorCode(err) == wire.CodeListMemory || strings.Contains(err.Error(), "without a signature") {
					refused++
				} else if !errors.Is(err, sdk.ErrCanceled) {
					t.Errorf("a list ends in %v", err)
				}
			}
			if refused < tc.least {
				t.Errorf("%d lists were refused, want %d", refused, tc.least)
			}
		})
	}
}

const (
	listsTogether = 16      // lists that a client reads at the same time
	pageOfRecords = 1 << 20 // bytes that each of them may count beyond the limit, before it is refused
)

func errorCode(err error) string {
	var own *sdk.Error
	_ = errors.As(err, &own)
	if own == nil {
		return ""
	}
	return own.Code
}

// heap returns the bytes of the heap that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestThreat8FoldersOfNames: names with very many folders count by the folders that they do not share with
// the name before: a deep tree is listed, and as many deep names beside one another are refused.
func TestThreat8FoldersOfNames(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	alice := s.Account("alice", "10")
	const files = 500
	deep := strings.Repeat("d/", 1500)
	shared, apart := make([]string, files), make([]string, files)
	for i := range files {
		shared[i], apart[i] = fmt.Sprint(deep, i), fmt.Sprint(i, "/", deep, "f")
	}
	c := s.Client(t, alice, func(cfg *sdk.Config) { cfg.ListMemory = 16 << 20 })
	for group, names := range map[sdk.GroupID][]string{"shared": shared, "apart": apart} {
		if _, err := c.Group(group).Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.AddRecords(alice, group, names)
	}
	if list, err := c.Group("shared").Entries(t.Context()); err != nil || len(list) != files {
		t.Errorf("%d of %d entries, %v", len(list), files, err)
	}
	if _, err := c.Group("apart").Entries(t.Context()); sdk.KindOf(err) != sdk.ErrTooLarge {
		t.Errorf("as many folders for each name: %v", err)
	}
	if held := c.ListMemory(); held != 0 {
		t.Errorf("%d bytes are held afterwards", held)
	}
}

// TestThreat8VerifyHoldsOnePage: a history that is verified takes the memory of one page, however long it is, and each
// page is checked: that it follows the one before, and that the log has its records.
func TestThreat8VerifyHoldsOnePage(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	alice := s.Account("alice", "10")
	c := s.Client(t, alice)
	g := c.Group("g")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.AddChanges(alice, "g", wire.MaxPageRows)
	type lie func(*wire.TransactionsRequest, http.Handler) http.Handler
	pages, last := 0, lie(func(_ *wire.TransactionsRequest, next http.Handler) http.Handler { return next })
	s.Disturb(listPath, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			var asked wire.TransactionsRequest
			answer := next
			if err := json.Unmarshal(raw, &asked); err == nil && asked.Kinds == wire.KindsAll {
				if pages++; c.ListMemory() != 0 {
					t.Errorf("while page %d is asked for, %d bytes are held", pages, c.ListMemory())
				}
				if asked.AfterSeq > 0 {
					answer = last(&asked, next)
					raw, _ = json.Marshal(asked)
				}
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
			answer.ServeHTTP(w, r)
		})
	})
	report, err := g.Verify(t.Context())
	if err != nil || report.Rows != wire.MaxPageRows+1 || pages != 2 {
		t.Errorf("%+v of %d pages, %v", report, pages, err)
	}
	for name, lie := range map[string]lie{
		"has a record at another place": func(_ *wire.TransactionsRequest, next http.Handler) http.Handler {
			return testkit.Changed(next, func(answer *struct {
				Result []wire.TransactionRow `json:"result"`
			}) {
				answer.Result[0].Place--
			})
		},
		"repeats a record": func(asked *wire.TransactionsRequest, next http.Handler) http.Handler {
			asked.AfterSeq--
			return next
		},
	} {
		last = lie
		if _, err := g.Verify(t.Context()); !errors.Is(err, sdk.ErrCorrupt) {
			t.Errorf("the last page %s: %v", name, err)
		}
	}
}

// TestThreat8VerifyHoldsAShare: a group that no list has room for is verified all the same, within the memory for
// lists.
func TestThreat8VerifyHoldsAShare(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	alice := s.Account("alice", "10")
	c := s.Client(t, alice, func(cfg *sdk.Config) { cfg.ListMemory = 6 << 20 })
	g := c.Group("g")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Log() // signs the root of their names
	names := make([]string, 8000)
	for i := range names {
		names[i] = fmt.Sprint("folder ", i%100, "/", strings.Repeat("long", 50), i)
	}
	s.AddRecords(alice, "g", names)
	if _, err := g.Entries(t.Context()); sdk.KindOf(err) != sdk.ErrTooLarge {
		t.Errorf("the list has room: %v", err)
	}
	report, err := g.Verify(t.Context())
	if err != nil || report.Files != len(names) || report.Names == "" {
		t.Errorf("%+v, %v", report, err)
	}
	if held := c.ListMemory(); held != 0 {
		t.Errorf("%d bytes are held afterwards", held)
	}
}
