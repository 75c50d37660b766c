package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// queued writes wait behind one that is under way, in the order of the list, and
// are let go together. It returns their answers.
func queued(t *testing.T, s *store.Store, writes []func(*store.Tx) error) []error {
	t.Helper()
	return queuedOf(t, s, slices.Repeat([]store.Chains{store.Named("a")}, len(writes)), writes)
}

// queuedOf is queued for writes that name these chains.
func queuedOf(t *testing.T, s *store.Store, chains []store.Chains, writes []func(*store.Tx) error) []error {
	t.Helper()
	inside, leave, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first <- s.Write(t.Context(), store.Everything(), func(*store.Tx) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	answers := make([]error, len(writes))
	var all sync.WaitGroup
	for i, f := range writes {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					answers[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			answers[i] = s.Write(t.Context(), chains[i], f)
		})
		proctest.Eventually(t, "it waits", func() bool { return s.Waiting() == i+1 })
	}
	close(leave)
	all.Wait()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	return answers
}

// appendTo adds a letter to the text of a name.
func appendTo(ctx context.Context, tx *store.Tx, name, letter string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO meta (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = meta.value || excluded.value`, name, letter)
	return err
}

// testTogether: writes that wait together happen in their order, one after the
// other, and one that fails spoils no other.
func testTogether(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	ctx := t.Context()
	refused := errors.New("refused")
	letter := func(l string) func(*store.Tx) error {
		return func(tx *store.Tx) error { return appendTo(ctx, tx, "a", l) }
	}
	answers := queued(t, s, []func(*store.Tx) error{
		letter("1"),
		func(tx *store.Tx) error { return errors.Join(appendTo(ctx, tx, "a", "x"), refused) },
		letter("2"),
		func(tx *store.Tx) error { // the statement itself fails
			_, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('a', 'y')")
			return err
		},
		func(tx *store.Tx) error { return errors.Join(appendTo(ctx, tx, "a", "z"), panicking()) },
		letter("3"),
		func(tx *store.Tx) error {
			var value string
			err := tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'a'").Scan(&value)
			if err == nil && value != "123" {
				err = fmt.Errorf("the last one saw %q", value)
			}
			return err
		},
	})
	for i, want := range []bool{true, false, true, false, false, true, true} {
		if (answers[i] == nil) != want {
			t.Errorf("write %d: %v", i, answers[i])
		}
	}
	if !errors.Is(answers[1], refused) || fmt.Sprint(answers[4]) != "panic: as planned" {
		t.Errorf("answers %q and %q", answers[1], answers[4])
	}
	if got := get(t, s, "a"); got != "123" {
		t.Errorf("written %q, want 123", got)
	}
}

// testFailsLate: a statement whose error nobody waits for fails the write that it belongs to, with
// its text and kind, whatever write asks something next. It fails no other.
func testFailsLate(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	ctx := t.Context()
	letter := func(l string) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			return tx.Do(ctx, "note a letter", `INSERT INTO meta (name, value) VALUES (?, ?)
				ON CONFLICT (name) DO UPDATE SET value = meta.value || excluded.value`, "a", l)
		}
	}
	fails := func(tx *store.Tx) error {
		return errors.Join(letter("x")(tx), tx.Do(ctx, "make a group", "INSERT INTO groups (id, owner, joinable, "+
			"key_version) VALUES (?, ?, ?, ?)", "g", "nobody", false, 1))
	}
	sees := func(want string) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			var value string
			err := tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = ?", "a").Scan(&value)
			if err == nil && value != want {
				err = fmt.Errorf("it saw %q, want %q", value, want)
			}
			return err
		}
	}
	isRefused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrReference) || !strings.Contains(err.Error(), "make a group: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	isRefused("alone", s.Write(ctx, store.Everything(), fails))
	for what, last := range map[string][]func(*store.Tx) error{
		"another asks": {fails, letter("2"), sees("12")},
		"nobody asks":  {letter("2"), fails},
		"twice":        {fails, letter("2"), fails, sees("12")},
	} {
		if err := set(ctx, s, "a", ""); err != nil {
			t.Fatal(err)
		}
		writes := append([]func(*store.Tx) error{letter("1")}, last...)
		for i, err := range queued(t, s, writes) {
			if i > 0 && reflect.ValueOf(writes[i]).Pointer() == reflect.ValueOf(fails).Pointer() {
				isRefused(what, err)
			} else if err != nil {
				t.Errorf("%s: write %d: %v", what, i, err)
			}
		}
		if got := get(t, s, "a"); got != "12" {
			t.Errorf("%s: written %q, want 12", what, got)
		}
	}
}

// testAnswersOfTheirOwn: a statement that fails late, after a write that was refused, or with the end of its own,
// changes no other answer.
func testAnswersOfTheirOwn(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	ctx := t.Context()
	refused := errors.New("refused")
	type write struct {
		f    func(*store.Tx) error
		want error
	}
	refuses := write{func(*store.Tx) error { return refused }, refused}
	appends := write{func(tx *store.Tx) error { return appendTo(ctx, tx, "a", "1") }, nil}
	fails := func(statements int) write {
		return write{func(tx *store.Tx) error {
			err := tx.Do(ctx, "make a group", "INSERT INTO groups (id, owner, joinable, key_version) VALUES "+
				"(?, ?, ?, ?)", "g", "nobody", false, 1)
			for range statements - 1 {
				err = errors.Join(err, tx.Do(ctx, "remove a name", "DELETE FROM meta WHERE name = ?", "none"))
			}
			return err
		}, store.ErrReference}
	}
	for what, writes := range map[string][]write{
		"it is the first":    {refuses, fails(1)},
		"251 statements":     {fails(251), refuses, appends}, // and those around fill the line
		"252 statements":     {fails(252), refuses, appends},
		"253 statements":     {fails(253), refuses, appends},
		"it is in the midst": {appends, refuses, fails(1)},
	} {
		var all []func(*store.Tx) error
		for _, w := range writes {
			all = append(all, w.f)
		}
		for i, err := range queued(t, s, all) {
			if want := writes[i].want; !errors.Is(err, want) || want == refused && errors.Is(err, store.ErrReference) {
				t.Errorf("%s: write %d: %v, want %v", what, i, err, want)
			}
		}
	}
	if got := get(t, s, "a"); got != "1111" {
		t.Errorf("written %q, want 1111", got)
	}
}

func panicking() error { panic("as planned") }

// testManyTogether: more writes than one commit takes.
func testManyTogether(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	var writes []func(*store.Tx) error
	for range 100 {
		writes = append(writes, func(tx *store.Tx) error { return appendTo(t.Context(), tx, "a", "1") })
	}
	for i, err := range queued(t, s, writes) {
		if err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if got := get(t, s, "a"); len(got) != len(writes) {
		t.Errorf("%d writes happened, want %d", len(got), len(writes))
	}
}

// testAnnounced: a write that was announced shares the commit of one that is ready before it,
// and that one does not wait where no write comes.
func testAnnounced(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	ctx := t.Context()
	s.SetPatience(time.Hour)
	refused := errors.New("refused")
	comes, fails, ends := s.Announce(), s.Announce(), s.Announce()
	first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	ready, ran := make(chan struct{}), make(chan struct{})
	go func() {
		first <- s.Write(ctx, store.Named("a"), func(tx *store.Tx) error {
			close(ready)
			return appendTo(ctx, tx, "a", "1")
		})
	}()
	if s.Engine() != "postgres" { // where a commit waits before it begins
		<-ready
	}
	go func() {
		second <- comes.Write(ctx, store.Named("a"), func(tx *store.Tx) error {
			if got := get(t, s, "a"); got != "" {
				return fmt.Errorf("%q is committed already", got)
			}
			return appendTo(ctx, tx, "a", "2")
		})
	}()
	go func() {
		third <- fails.Write(ctx, store.Named("a"), func(tx *store.Tx) error {
			close(ran)
			return errors.Join(appendTo(ctx, tx, "a", "x"), refused)
		})
	}()
	if s.Engine() != "postgres" {
		<-ran
	}
	ends.End()
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
	if err := <-third; !errors.Is(err, refused) {
		t.Error(err)
	}
	if got := get(t, s, "a"); got != "12" && got != "21" { // whichever came first
		t.Errorf("written %q, want 12", got)
	}
	never := s.Announce()
	defer never.End()
	s.SetPatience(time.Millisecond)
	if err := set(ctx, s, "a", "patience ends"); err != nil {
		t.Error(err)
	}
}

// testLeaveInside: a caller that leaves while its write runs breaks neither that write
// nor those that share its commit.
func testLeaveInside(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	ctx, cancel := context.WithCancel(t.Context())
	answers := queued(t, s, []func(*store.Tx) error{
		func(tx *store.Tx) error { return appendTo(t.Context(), tx, "a", "1") },
		func(tx *store.Tx) error {
			cancel()
			return appendTo(ctx, tx, "a", "2")
		},
		func(tx *store.Tx) error { return appendTo(t.Context(), tx, "a", "3") },
	})
	if err := errors.Join(answers...); err != nil {
		t.Error(err)
	}
	if got := get(t, s, "a"); got != "123" {
		t.Errorf("written %q, want 123", got)
	}
}

// testSameTextTwice: a query runs while the rows of the same text are being read.
func testSameTextTwice(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	if s.Engine() == "postgres" {
		return // a connection reads one thing at a time
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := set(t.Context(), s, name, name); err != nil {
			t.Fatal(err)
		}
	}
	const query = "SELECT name FROM meta WHERE name < ? ORDER BY name"
	names := func(tx *store.Tx, each func() error) (list string, err error) {
		for rows, err := range tx.Rows(t.Context(), query, "d") {
			var name string
			if err == nil {
				err = errors.Join(rows.Scan(&name), each())
			}
			if err != nil {
				return "", err
			}
			list += name
		}
		return list, nil
	}
	for range 2 {
		err := s.Read(t.Context(), func(tx *store.Tx) error {
			outer, err := names(tx, func() error {
				inner, err := names(tx, func() error { return nil })
				if inner != "abc" {
					t.Errorf("inside: %q", inner)
				}
				return err
			})
			if outer != "abc" {
				t.Errorf("outside: %q", outer)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestThreat39DatabaseGoneWithSeveralWrites: every write of the commit returns the
// outage.
func TestThreat39DatabaseGoneWithSeveralWrites(t *testing.T) {
	server := pgtest.Start(t)
	s, err := store.Open(t.Context(), "", server.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var ran atomic.Int64
	var writes []func(*store.Tx) error
	for i := range 5 {
		writes = append(writes, func(tx *store.Tx) error {
			ran.Add(1)
			if i == 2 {
				server.Kill()
			}
			return appendTo(t.Context(), tx, "a", "1")
		})
	}
	for i, err := range queued(t, s, writes) {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if ran.Load() != 3 {
		t.Errorf("%d writes ran", ran.Load())
	}
	server.Restart(t)
	if got := get(t, s, "a"); got != "" {
		t.Errorf("something was written: %q", got)
	}
}

// TestPostgresParsesEachStatementOnce: the driver keeps its statements.
func TestPostgresParsesEachStatementOnce(t *testing.T) {
	s, err := store.Open(t.Context(), "", postgres.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var kept int
	err = s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		for range 3 {
			if err := appendTo(t.Context(), tx, "a", "1"); err != nil {
				return err
			}
		}
		err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE ?",
			"INSERT INTO meta%").Scan(&kept)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return err
	})
	if err != nil || kept != 1 {
		t.Errorf("%d statements are prepared, %v", kept, err)
	}
}
