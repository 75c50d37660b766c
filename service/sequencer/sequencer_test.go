package sequencer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/enginetest"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

var engines = enginetest.New()

func TestMain(m *testing.M) {
	code := m.Run()
	if err := engines.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// world is a database of PostgreSQL.
type world struct {
	t   *testing.T
	url string
	*store.Store
	ledger *ledger.Ledger
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, url: engines.NewPostgres(t), ledger: ledger.New(nil, ledger.Bounds{}, time.Now)}
	w.Store = w.process()
	return w
}

// process opens the database once more.
func (w *world) process() *store.Store {
	w.t.Helper()
	s, err := store.Open(context.Background(), "", w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// database is the database without the store.
func (w *world) database() *sql.DB {
	w.t.Helper()
	db, err := sql.Open("pgx", w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = db.Close() })
	return db
}

func (w *world) append(n int) {
	w.t.Helper()
	err := w.Write(w.t.Context(), store.Everything(), func(tx *store.Tx) error {
		for i := range n {
			if _, err := w.ledger.Append(w.t.Context(), tx, chain.Record{Kind: chain.KindRecord, Account: "a",
				Group: fmt.Sprint("g", i%3)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Error(err)
	}
}

// check compares the places with the records: none twice, none missing, and each chain in order.
func (w *world) check(records int64) {
	w.t.Helper()
	err := w.Read(w.t.Context(), func(tx *store.Tx) error {
		if n, err := ledger.Audit(w.t.Context(), tx); err != nil || n != records {
			w.t.Errorf("audit: %d records, %v; want %d", n, err, records)
		}
		u, err := ledger.LookUnplaced(w.t.Context(), tx, 0, 1)
		if u.Count != 0 {
			w.t.Errorf("without a place: %+v", u)
		}
		return err
	})
	if err != nil {
		w.t.Error(err)
	}
}

func (w *world) give(s *store.Store, fence int64) (n int64, err error) {
	err = s.Beside(w.t.Context(), func(tx *store.Tx) error {
		n, err = ledger.Place(w.t.Context(), tx, fence, 0)
		return err
	})
	return n, err
}

// Two sequencers that both believe they lead give no place twice and leave none out, while records come.
func TestTwoThatBelieveTheyLead(t *testing.T) {
	w := newWorld(t)
	var writers, leaders sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for range 40 {
				w.append(3)
			}
		})
	}
	over := make(chan struct{})
	for fence := range int64(2) {
		s := w.process()
		leaders.Go(func() {
			for {
				_, err := w.give(s, fence+1)
				if err != nil && !errors.Is(err, ledger.ErrFenced) {
					t.Error(err)
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(over)
	leaders.Wait()
	if _, err := w.give(w.Store, 2); err != nil {
		t.Fatal(err)
	}
	w.check(360)
}

// One that was stopped while another took over gives no more places.
func TestOneThatWasStopped(t *testing.T) {
	w := newWorld(t)
	w.append(2)
	if n, err := w.give(w.Store, 1); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	w.append(2)
	if n, err := w.give(w.process(), 2); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	w.append(2)
	if n, err := w.give(w.Store, 1); n != 0 || !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("the one of before gave %d places, %v", n, err)
	}
	if n, err := w.give(w.Store, 3); n != 2 || err != nil {
		t.Error(n, err)
	}
	w.check(6)
}

// One that is killed inside the swap has given no place, and the next gives them.
func TestOneKilledInsideTheSwap(t *testing.T) {
	w := newWorld(t)
	w.append(5)
	db := w.database()
	err := w.Beside(t.Context(), func(tx *store.Tx) error {
		n, err := ledger.Place(t.Context(), tx, 1, 0)
		if err != nil || n != 5 {
			t.Error(n, err)
		}
		var pid int
		if err := tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return err
		}
		_, err = db.ExecContext(t.Context(), "SELECT pg_terminate_backend($1, 10000)", pid)
		return err
	})
	if err == nil {
		t.Error("a killed transaction was committed")
	}
	if n, err := w.give(w.process(), 1); n != 5 || err != nil {
		t.Error(n, err)
	}
	w.check(5)
}

// Records that commit in another order than that of their sequences get places as they appear, and a sequence that
// was given up leaves no gap.
func TestRecordsThatCommitLate(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	db := w.database()
	begin := func(group string) (*sql.Tx, int64) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := chain.Record{Kind: chain.KindRecord, Account: "a", Group: group, Chain: chain.OfGroup(group), Number: 1,
			Fee: "0"}
		if err := tx.QueryRowContext(ctx, "SELECT seq + 1, time_ns + 1 FROM newest_records").
			Scan(&r.Seq, &r.TimeNS); err != nil {
			t.Fatal(err)
		}
		hash := r.Sum()
		if _, err := tx.ExecContext(ctx, `INSERT INTO ledger (seq, tx_id, kind, time_ns, account, group_id, ref, file_hash,
			detail, fee, request, prev_hash, hash, chain, number) VALUES ($1, '', $2, $3, 'a', $4, '', '', '', '0', '', $5,
			$6, $7, 1)`, r.Seq, r.Kind, r.TimeNS, group, r.Prev[:], hash[:], r.Chain); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO chains VALUES ($1, 1, $2, $3)", r.Chain, hash[:],
			r.TimeNS); err != nil {
			t.Fatal(err)
		}
		return tx, r.Seq
	}
	late, first := begin("late")
	gone, _ := begin("gone")
	soon, last := begin("soon")
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := w.give(w.Store, 1); n > 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	step(soon.Commit())
	step(gone.Rollback())
	step(late.Commit())
	var seqs []int64
	err := w.Read(ctx, func(tx *store.Tx) (err error) {
		seqs, err = store.Values[int64](ctx, tx, "read places", "SELECT seq FROM places ORDER BY place")
		return err
	})
	if want := []int64{last, first}; err != nil || !slices.Equal(seqs, want) {
		t.Errorf("the places have %v, %v, want %v", seqs, err, want)
	}
	w.check(2)
}

// The processes over a database give places under a lease; when the one that has it ends, another takes over.
func TestAnotherProcessTakesOver(t *testing.T) {
	w := newWorld(t)
	quiet := slog.New(slog.DiscardHandler)
	one, other := New(w.Store, "one", quiet), New(w.process(), "other", quiet)
	defer other.Close()
	w.append(3)
	if err := one.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.check(3)
	one.Close()
	w.append(3)
	if err := other.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.check(6)
}

// Who finds that another process has the lease does not ask for it again at its next commit, until it has it.
func TestWhoLacksTheLeaseWaits(t *testing.T) {
	w := newWorld(t)
	quiet := slog.New(slog.DiscardHandler)
	one, other := newSequencer(w.Store, "one", quiet), newSequencer(w.process(), "other", quiet)
	for _, step := range []struct {
		what  string
		q     *Sequencer
		hurry bool
	}{{"who takes the lease", one, true}, {"who finds it taken", other, false}} {
		w.append(1)
		err := step.q.turn(t.Context())
		if news, _ := step.q.next(nil); err != nil || (news != nil) != step.hurry {
			t.Errorf("%s: its commits are noticed at once: %v, %v", step.what, news != nil, err)
		}
	}
	if err := one.lease(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := other.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if news, _ := other.next(nil); news == nil {
		t.Error("who got the lease does not notice its commits")
	}
	w.check(2)
}

// Commits of a process are told to who follows them, by the store that has them.
func TestCommitsAreTold(t *testing.T) {
	w := newWorld(t)
	q := New(w.Store, "one", slog.New(slog.DiscardHandler))
	defer q.Close()
	told := 0
	q.OnCommit(func() { told++ })
	w.append(1)
	if err := q.Settle(t.Context()); err != nil || told != 1 {
		t.Errorf("%d commits were told, %v", told, err)
	}
}

// While a record waits too long for its place, or too many do, nothing is recorded: 503.
func TestNothingIsRecordedWhilePlacesLag(t *testing.T) {
	w := newWorld(t)
	now := time.Unix(1e9, 0)
	q := newSequencer(w.Store, "one", slog.New(slog.DiscardHandler))
	q.now = func() time.Time { return now }
	late := func(want bool, what string) {
		t.Helper()
		err := q.Late()
		if refused := fault.Of(err); (err != nil) != want || want && (refused.Status() != 503 || refused.RetryAfter == 0) {
			t.Errorf("%s: %v", what, err)
		}
	}
	q.note(ledger.Unplaced{Count: mostUnplaced, Oldest: 1})
	late(false, "as many as may be")
	q.note(ledger.Unplaced{Count: mostUnplaced + 1, Oldest: 1})
	late(true, "too many")
	now = now.Add(longest)
	q.note(ledger.Unplaced{Count: 1, Oldest: 1})
	late(false, "as long as may be")
	now = now.Add(time.Millisecond)
	q.note(ledger.Unplaced{Count: 1, Oldest: 1})
	late(true, "too long")
	w.ledger = ledger.New(nil, ledger.Bounds{Late: q.Late}, time.Now)
	err := w.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		_, err := w.ledger.Append(t.Context(), tx, chain.Record{Kind: chain.KindRecord, Account: "a", Group: "g"})
		return err
	})
	if fault.Of(err).Status() != 503 {
		t.Errorf("a record: %v", err)
	}
	q.note(ledger.Unplaced{Count: 1, Oldest: 2})
	late(false, "another is the oldest")
	now = now.Add(longest + time.Millisecond)
	late(true, "no later look: what gives the places hangs")
}

// A lease goes by the clock of the database: a process whose own clock is wrong keeps nobody from taking over, and
// loses the lease to nobody before its time.
func TestLeaseByTheClockOfTheDatabase(t *testing.T) {
	w := newWorld(t)
	for _, wrong := range []time.Duration{time.Hour, -time.Hour} {
		w.append(1)
		q := newSequencer(w.process(), fmt.Sprint(wrong), slog.New(slog.DiscardHandler))
		q.now = func() time.Time { return time.Now().Add(wrong) }
		if err := q.turn(t.Context()); err != nil || q.fence == 0 {
			t.Errorf("%v: fence %d, %v", wrong, q.fence, err)
		}
		var left float64
		if err := w.database().QueryRow(`SELECT until_ns / 1e9 - extract(epoch FROM clock_timestamp()) FROM leases
			WHERE name = 'sequencer'`).Scan(&left); err != nil || left > leaseTime.Seconds() || left < -60 {
			t.Errorf("%v: the lease ends in %.1f s, %v", wrong, left, err)
		}
		if err := q.lease(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
}

// What has its place for longer than a write takes is not looked at again, but for one look in that time: while an old
// state of the database is read, a look reads all that was placed since. A record that waits keeps its look.
func TestWhatIsPlacedIsNotLookedAtAgain(t *testing.T) {
	w := newWorld(t)
	now := time.Unix(1e9, 0)
	q := newSequencer(w.Store, "one", slog.New(slog.DiscardHandler))
	q.now = func() time.Time { return now }
	looks := func(what string, after time.Duration, lack int64) {
		t.Helper()
		now = now.Add(after)
		if u, err := q.look(t.Context()); err != nil || u.Count != lack {
			t.Errorf("%s: %+v, %v, want %d without a place", what, u, err, lack)
		}
	}
	db := w.database()
	again := func(seq string) {
		t.Helper()
		for _, statement := range []string{"DELETE FROM places WHERE seq " + seq,
			"INSERT INTO unplaced SELECT seq FROM ledger WHERE seq " + seq} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.append(3)
	looks("before their places", 0, 3)
	if err := q.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	looks("with their places", longestWrite, 0)
	again("= 2")
	looks("a record that came late", longestWrite-1, 1)
	looks("a write that may come", 1, 1)
	looks("it holds the floor", longestWrite-1, 1)
	if err := q.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	looks("once it has its place", 1, 0)
	again("= 1")
	looks("later than any write", longestWrite-1, 0)
	looks("it is found all the same", 1, 1)
	if err := q.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	looks("later than any write again", longestWrite, 0)
	again("> 0")
	looks("in a database that lacks the newest places", 0, 0)
	looks("once that is noticed", 0, 3)
}
