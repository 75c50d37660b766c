// Package watch tells members what happens in their groups, as soon as the
// ledger has it. Callers wait without a transaction; one poller per process
// looks at the end of the ledger, only while somebody waits, and wakes those whom
// the new records concern. So it works as well for what other processes record.
package watch

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/throttle"
)

const (
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

	calls *throttle.Slots[string] // by account

	mu      sync.Mutex
	closed  bool
	waiters waiters
	endPoll context.CancelFunc // nil = no poller, for nobody waits
	head    int64              // newest sequence the poller saw
}

// New returns the watch over a store; Close ends it.
func New(s *store.Store) *Watch {
	return &Watch{store: s, stop: make(chan struct{}), calls: throttle.NewSlots[string](perAccount), waiters: newWaiters()}
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
	leave, ok := w.calls.Take(account)
	if !ok {
		return out, &fault.Error{Code: wire.CodeRateLimited, Text: fmt.Sprintf("too many requests: the account watches %d times already", perAccount), RetryAfter: time.Second}
	}
	defer leave()
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
		var me *waiter
		if out.Events, out.Seq, me, err = w.read(ctx, account, out.Seq); err != nil || len(out.Events) > 0 || patience == 0 {
			return out, err
		}
		again, err := w.wait(ctx, me, timeout.C)
		if err != nil || !again {
			return out, err
		}
		if err := still(); err != nil {
			return out, err
		}
	}
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
// everything was looked at; without events also who may wait there. A sequence the
// ledger has not reached, as after the restore of an older backup, is set back.
func (w *Watch) read(ctx context.Context, account string, after int64) (events []wire.Event, upTo int64, me *waiter, err error) {
	after = max(after, 0)
	for {
		var head int64
		err := w.store.Read(ctx, func(tx *store.Tx) error {
			if head, err = headOf(ctx, tx); err != nil {
				return err
			}
			upTo = min(after, head)
			upTo += min(scanRows, head-upTo)
			if events, err = eventsOf(ctx, tx, account, after, upTo); err != nil || len(events) > 0 || upTo < head {
				return err
			}
			me, err = newWaiter(ctx, tx, account, head)
			return err
		})
		if err != nil {
			return nil, after, nil, err
		}
		if len(events) == maxEvents {
			upTo = events[maxEvents-1].Seq
		}
		if len(events) > 0 || upTo >= head {
			return events, upTo, me, nil
		}
		after = upTo
	}
}

// eventKinds are the records that concern members.
const eventKinds = "'" + chain.KindRegister + "', '" + chain.KindAdd + "', '" + chain.KindJoin + "', '" + chain.KindRevoke + "', '" +
	chain.KindRecord + "', '" + chain.KindTombstone + "', '" + chain.KindRename + "', '" + chain.KindRetention + "', '" + chain.KindRole + "', '" +
	chain.KindPending + "', '" + chain.KindKeep + "'"

// selectEvents tells a member what happened in a group since it became a member,
// and whoever was revoked that, and nothing else. It goes from the groups to their
// records (CROSS JOIN keeps SQLite to that), never through those of others: a
// caller who has seen nothing yet costs no more than what it may see.
const selectEvents = `SELECT seq, kind, ledger.group_id, ref, ledger.account, detail, time_ns FROM members CROSS JOIN ledger
	WHERE members.account = ? AND ledger.group_id = members.group_id AND seq >= members.since AND seq > ? AND seq <= ? AND kind IN (` + eventKinds + `)
	UNION ALL SELECT seq, kind, group_id, ref, account, detail, time_ns FROM ledger
	WHERE kind = '` + chain.KindRevoke + `' AND detail = ? AND seq > ? AND seq <= ?
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
	switch e.Kind {
	case chain.KindAdd, chain.KindRevoke:
		e.Account = detail // the member
	case chain.KindRole:
		e.Account, _, _ = strings.Cut(detail, " ")
	}
	e.Time = strconv.FormatInt(timeNS, 10)
	return e, nil
}
