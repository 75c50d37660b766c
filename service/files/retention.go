package files

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// retentionLease names the work that one process at a time does.
	retentionLease = "retention"
	// leaseTime is how long a process that died keeps others from it.
	leaseTime = time.Minute
	// expiredBatch is how many files one transaction shreds.
	expiredBatch = 100
	// maxRetentionDays is the longest window that fits into nanoseconds; a longer one
	// never ends.
	maxRetentionDays = 100_000
)

// ErrRetentionBusy means that another process removes expired files.
var ErrRetentionBusy = fault.New(wire.CodeConflict, "another process removes expired files right now: try again in a minute")

// Expired is a living file that is older than its group keeps files.
type Expired struct {
	Group, Ref, Name, TxID string
	Age                    time.Duration
}

// Expired lists the files that [Files.RemoveExpired] would remove, in one group or, when
// group is empty, in all: oldest first, at most limit of each group; -1 means all.
func (f *Files) Expired(ctx context.Context, group string, limit int) (list []Expired, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		windows, err := windows(ctx, tx, group)
		if err != nil {
			return err
		}
		now := f.ledger.Now()
		for _, w := range windows {
			found, err := w.expired(ctx, tx, now, limit)
			if err != nil {
				return err
			}
			for _, e := range found {
				list = append(list, e.Expired)
			}
		}
		return nil
	})
	return list, err
}

// window is how long a group keeps files.
type window struct {
	group string
	days  int64
}

func windows(ctx context.Context, tx *store.Tx, group string) ([]window, error) {
	return store.List(ctx, tx, "list retention windows", func(w *window) []any { return []any{&w.group, &w.days} },
		`SELECT id, retention_days FROM groups WHERE retention_days IS NOT NULL AND retention_days <= ? AND (id = ? OR ? = '') ORDER BY id`, maxRetentionDays, group, group)
}

// victim is an expired file with the facts that shredding needs.
type victim struct {
	Expired
	target
}

// expired lists at most limit expired files of the group; -1 means all. Files
// of other backends than ours never expire (wire protocol 6.3).
func (w window) expired(ctx context.Context, tx *store.Tx, now time.Time, limit int) (list []victim, err error) {
	var query store.Query = "SELECT " + targetColumns + `, tx_id FROM files
		WHERE group_id = ? AND deleted_ns IS NULL AND backend = ? AND time_ns <= ? ORDER BY seq`
	args := []any{w.group, backendFastFS, now.Add(-time.Duration(w.days) * 24 * time.Hour).UnixNano()}
	if limit >= 0 {
		query += " LIMIT ?"
		args = append(args, limit)
	}
	for rows, err := range tx.Rows(ctx, query, args...) {
		v := victim{Expired: Expired{Group: w.group}, target: target{group: w.group}}
		if err == nil {
			err = rows.Scan(append(v.fields(), &v.TxID)...)
		}
		if err != nil {
			return nil, fmt.Errorf("list expired files: %w", err)
		}
		v.Ref, v.Name, v.Age = v.ref, v.name, now.Sub(time.Unix(0, v.timeNS))
		list = append(list, v)
	}
	return list, nil
}

// RemoveExpired deletes, as [Files.Delete] does, the files that are older than their
// groups keep files, those whose deletion has waited, and those whose trash time is
// over. It returns how many it deleted. One process at a time does it; the others get
// [ErrRetentionBusy].
func (f *Files) RemoveExpired(ctx context.Context) (removed int, err error) {
	if any, err := f.anyExpired(ctx); err != nil || !any {
		return 0, err
	}
	holder := uuid.NewString()
	defer func() { err = f.endRetention(ctx, holder, removed, err) }()
	for {
		n, more, err := f.removeBatch(ctx, holder)
		removed += n
		if err != nil || n == 0 && !more {
			return removed, err
		}
		if err := ctx.Err(); err != nil {
			return removed, err
		}
	}
}

// anyExpired looks for work without a writing transaction: most sweeps find none.
func (f *Files) anyExpired(ctx context.Context) (any bool, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		if any, err = anyDue(ctx, tx, f.ledger.Now()); err != nil || any {
			return err
		}
		windows, err := windows(ctx, tx, "")
		for i := 0; i < len(windows) && err == nil && !any; i++ {
			var found []victim
			found, err = windows[i].expired(ctx, tx, f.ledger.Now(), 1)
			any = len(found) > 0
		}
		return err
	})
	return any, err
}

// removeBatch shreds one batch of files in one transaction: deletions that have waited,
// files whose trash time is over, then expired files. more reports that there may be
// others, even when removed is 0.
func (f *Files) removeBatch(ctx context.Context, holder string) (removed int, more bool, err error) {
	var shredded []target
	err = f.store.Write(ctx, func(tx *store.Tx) error {
		held, err := store.Lease(ctx, tx, retentionLease, holder, time.Now().Add(leaseTime))
		if err != nil {
			return err
		}
		if !held {
			return ErrRetentionBusy
		}
		if err := f.beginRetention(ctx, tx, f.ledger.Now()); err != nil {
			return err
		}
		if shredded, more, err = f.deleteDue(ctx, tx, f.ledger.Now(), expiredBatch); err != nil {
			return err
		}
		ended, err := f.endTrash(ctx, tx, f.ledger.Now(), expiredBatch-len(shredded))
		if err != nil {
			return err
		}
		shredded = append(shredded, ended...)
		windows, err := windows(ctx, tx, "")
		if err != nil {
			return err
		}
		for _, w := range windows {
			if len(shredded) == expiredBatch {
				break
			}
			found, err := w.expired(ctx, tx, f.ledger.Now(), expiredBatch-len(shredded))
			if err != nil {
				return err
			}
			for _, v := range found {
				if err := f.shredPaid(ctx, tx, v.target, f.contract, wire.ReasonRetentionPolicy); err != nil {
					return err
				}
				shredded = append(shredded, v.target)
			}
		}
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	f.removeBlobs(ctx, shredded...)
	return len(shredded), more, nil
}

// endRetention gives the lease back and scrubs the database.
func (f *Files) endRetention(ctx context.Context, holder string, removed int, err error) error {
	ctx = context.WithoutCancel(ctx)
	if removed > 0 {
		_ = f.scrub(ctx) // the sweep repeats it
	}
	if errors.Is(err, ErrRetentionBusy) {
		return err
	}
	released := f.store.Write(ctx, func(tx *store.Tx) error {
		_, err := store.Lease(ctx, tx, retentionLease, holder, time.Unix(0, 0))
		return err
	})
	if err == nil {
		err = released
	}
	return err
}
