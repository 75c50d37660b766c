// Package watch tells members what happens in their groups, as soon as the
// ledger has it. Callers wait without a transaction; one poller per process
// looks at the end of the ledger, only while somebody waits. So it works as well
// for what other processes record.
package watch

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// pollInterval is how late a record of another process may be noticed.
	pollInterval = 200 * time.Millisecond
	// perAccount bounds the calls of one account that wait.
	perAccount = 16
	// scanRows is how many records one transaction looks at.
	scanRows = 20_000
	// maxEvents bounds one answer.
	maxEvents = 500
)

// Watch answers the operation watch. It is safe for concurrent use.
type Watch struct {
	store *store.Store
	stop  chan struct{} // closed by Close
	done  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	accounts map[string]int // calls under way
	waiting  int
	endPoll  context.CancelFunc
	head     int64         // newest sequence the poller saw
	failed   error         // of the poller's last look
	news     chan struct{} // closed when there are new events, for whomever, or failed is set
}

// New returns the watch over a store; Close ends it.
func New(s *store.Store) *Watch {
	return &Watch{store: s, stop: make(chan struct{}), accounts: map[string]int{}, news: make(chan struct{})}
}

// Close makes all waiting calls answer at once.
func (w *Watch) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.stop)
	}
	w.mu.Unlock()
	w.done.Wait()
}

// Events returns what concerns account after a sequence, at once if there is
// something, else when there is, at the latest when the request's time is over.
// Whoever has waited is asked for by still again before anything is told.
func (w *Watch) Events(ctx context.Context, account string, req wire.WatchRequest, still func() error) (out wire.WatchResult, err error) {
	if err := w.enter(account); err != nil {
		return out, err
	}
	defer w.leave(account)
	patience := min(max(req.TimeoutMS, 0), wire.MaxWatchMillis)
	timeout := time.NewTimer(time.Duration(patience) * time.Millisecond)
	defer timeout.Stop()
	if req.AfterSeq == nil {
		out.Events = []wire.Event{}
		out.Seq, err = w.readHead(ctx)
		return out, err
	}
	out.Seq = *req.AfterSeq
	for {
		if out.Events, out.Seq, err = w.read(ctx, account, out.Seq); err != nil || len(out.Events) > 0 {
			return out, err
		}
		more, err := w.wait(ctx, out.Seq, timeout.C)
		if err != nil || !more {
			return out, err
		}
		if err := still(); err != nil {
			return out, err
		}
	}
}

func (w *Watch) enter(account string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accounts[account] >= perAccount {
		return &fault.Error{Code: wire.CodeRateLimited, Text: fmt.Sprintf("too many requests: the account watches %d times already", perAccount), RetryAfter: time.Second}
	}
	w.accounts[account]++
	return nil
}

func (w *Watch) leave(account string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accounts[account]--; w.accounts[account] == 0 {
		delete(w.accounts, account)
	}
}

// wait returns true when the ledger has grown beyond after, false when the time
// is over or the watch is closed.
func (w *Watch) wait(ctx context.Context, after int64, timeout <-chan time.Time) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.join()
	defer w.part()
	for w.head <= after {
		news := w.news
		w.mu.Unlock()
		var err error
		over := false
		select {
		case <-news:
		case <-timeout:
			over = true
		case <-w.stop:
			over = true
		case <-ctx.Done():
			err = ctx.Err()
		}
		w.mu.Lock()
		if err != nil || over {
			return false, err
		}
		if w.failed != nil {
			return false, w.failed
		}
	}
	return true, nil
}

// join and part count who waits; the first starts the poller and the last ends
// it. They need the lock.
func (w *Watch) join() {
	if w.waiting++; w.waiting > 1 || w.closed {
		return
	}
	w.failed = nil
	var ctx context.Context
	ctx, w.endPoll = context.WithCancel(context.Background())
	w.done.Go(func() { w.poll(ctx) })
}

func (w *Watch) part() {
	if w.waiting--; w.waiting == 0 && w.endPoll != nil {
		w.endPoll()
	}
}

func (w *Watch) poll(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		w.mu.Lock()
		since := w.head
		w.mu.Unlock()
		head, news, err := w.look(ctx, since)
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		if w.failed = err; err == nil {
			w.head = head // smaller than before when a backup was restored
		}
		if err != nil || news {
			close(w.news)
			w.news = make(chan struct{})
		}
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look returns the newest sequence, and whether there is an event after since:
// most records are retrievals, which wake nobody.
func (w *Watch) look(ctx context.Context, since int64) (head int64, news bool, err error) {
	err = w.store.Read(ctx, func(tx *store.Tx) error {
		if head, err = headOf(ctx, tx); err != nil || head <= since {
			return err
		}
		err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM ledger WHERE seq > ? AND kind IN ("+eventKinds+"))", since).Scan(&news)
		if err != nil {
			return fmt.Errorf("look for events: %w", err)
		}
		return nil
	})
	return head, news, err
}

func (w *Watch) readHead(ctx context.Context) (head int64, err error) {
	err = w.store.Look(ctx, func(tx *store.Tx) error {
		head, err = headOf(ctx, tx)
		return err
	})
	return head, err
}

func headOf(ctx context.Context, tx *store.Tx) (head int64, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT COALESCE(max(seq), 0) FROM ledger").Scan(&head); err != nil {
		return 0, fmt.Errorf("read end of the ledger: %w", err)
	}
	return head, nil
}

// read returns the next events after a sequence, and the sequence up to which
// everything was looked at. A sequence the ledger has not reached, as after the
// restore of an older backup, is set back.
func (w *Watch) read(ctx context.Context, account string, after int64) (events []wire.Event, upTo int64, err error) {
	after = max(after, 0)
	for {
		var head int64
		err := w.store.Read(ctx, func(tx *store.Tx) error {
			if head, err = headOf(ctx, tx); err != nil {
				return err
			}
			upTo = min(after, head)
			upTo += min(scanRows, head-upTo)
			events, err = eventsOf(ctx, tx, account, after, upTo)
			return err
		})
		if err != nil {
			return nil, after, err
		}
		if len(events) == maxEvents {
			upTo = events[maxEvents-1].Seq
		}
		if len(events) > 0 || upTo >= head {
			return events, upTo, nil
		}
		after = upTo
	}
}

// eventKinds are the records that concern members.
const eventKinds = "'" + ledger.KindRegister + "', '" + ledger.KindAdd + "', '" + ledger.KindJoin + "', '" + ledger.KindRevoke + "', '" +
	ledger.KindRecord + "', '" + ledger.KindTombstone + "', '" + ledger.KindRename + "', '" + ledger.KindRetention + "'"

// selectEvents tells a member what happened in a group since it became a member,
// and whoever was revoked that, and nothing else. It goes from the groups to their
// records (CROSS JOIN keeps SQLite to that), never through those of others: a
// caller who has seen nothing yet costs no more than what it may see.
const selectEvents = `SELECT seq, kind, ledger.group_id, ref, ledger.account, detail, time_ns FROM members CROSS JOIN ledger
	WHERE members.account = ? AND ledger.group_id = members.group_id AND seq >= members.since AND seq > ? AND seq <= ? AND kind IN (` + eventKinds + `)
	UNION ALL SELECT seq, kind, group_id, ref, account, detail, time_ns FROM ledger
	WHERE kind = '` + ledger.KindRevoke + `' AND detail = ? AND seq > ? AND seq <= ?
	ORDER BY seq LIMIT ?`

func eventsOf(ctx context.Context, tx *store.Tx, account string, after, upTo int64) ([]wire.Event, error) {
	rows, err := tx.QueryContext(ctx, selectEvents, account, after, upTo, account, after, upTo, maxEvents)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	defer rows.Close()
	list := []wire.Event{}
	for rows.Next() {
		e, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

func scan(rows *sql.Rows) (e wire.Event, err error) {
	var detail string
	var timeNS int64
	if err := rows.Scan(&e.Seq, &e.Kind, &e.GroupID, &e.Ref, &e.Account, &detail, &timeNS); err != nil {
		return e, err
	}
	if e.Kind == ledger.KindAdd || e.Kind == ledger.KindRevoke {
		e.Account = detail // the member
	}
	e.Time = strconv.FormatInt(timeNS, 10)
	return e, nil
}
