package files

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// retentionLease names the work that one process at a time does.
	retentionLease = "retention"
	// expiredBatch is how many files one transaction shreds.
	expiredBatch = 100
)

// ErrRetentionBusy means that another process removes expired files.
var ErrRetentionBusy = fault.New(wire.CodeConflict,
	"another process removes expired files right now: try again in a minute")

// Expired is a living file that is older than its group keeps files.
type Expired struct {
	Group, Ref, Name, TxID string
	Age                    time.Duration
}

// Expired lists the files that [Files.RemoveExpired] would remove, in one group or, when
// group is empty, in all: by group, oldest first, at most limit; -1 means all.
func (f *Files) Expired(ctx context.Context, group string, limit int) (list []Expired, err error) {
	if limit < 0 {
		limit = math.MaxInt
	}
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		now := f.ledger.Now()
		list, err = expired(ctx, tx, group, now, limit, func(e *Expired) []any {
			return []any{&e.Group, &e.Ref, &e.Name, &e.TxID, &e.Age}
		}, "SELECT group_id, ref, filename, tx_id, ? - time_ns", now.UnixNano())
		return err
	})
	return list, err
}

// fromExpired reads the files of a group from the oldest living one on; times ascend in the chain of a group. Files of
// other backends than ours never expire (wire protocol 6.3). selectWindows finds the groups that have such files, and
// up to which time: of each group with a window it reads one file. More days than 106,751 are before all time.
const (
	mayExpire     = " FROM files WHERE deleted_ns IS NULL AND backend = '" + backendFastFS + "' AND group_id = "
	fromExpired   = mayExpire + "? AND time_ns <= ? ORDER BY time_ns LIMIT ?"
	selectWindows = `SELECT id, up_to FROM (SELECT id, ? - CASE WHEN retention_days < 106751 THEN retention_days
		ELSE 106751 END * 86400000000000 AS up_to FROM groups WHERE retention_days IS NOT NULL) AS windows
	WHERE (SELECT min(time_ns)` + mayExpire + "windows.id) <= up_to"
	allWindows = selectWindows + " ORDER BY id LIMIT ?"
)

// window is a group with expired files, and up to which time these are.
type window struct {
	group string
	upTo  int64
}

func windows(ctx context.Context, tx *store.Tx, group string, now time.Time, limit int) ([]window, error) {
	var query store.Query = allWindows
	args := []any{now.UnixNano(), limit}
	if group != "" {
		query, args[1] = selectWindows+" AND id = ?", group
	}
	return store.List(ctx, tx, "list groups with expired files",
		func(w *window) []any { return []any{&w.group, &w.upTo} }, query, args...)
}

// expired lists the files that [Files.Expired] lists; columns begins the query, with its args.
func expired[T any](ctx context.Context, tx *store.Tx, group string, now time.Time, limit int,
	fields func(*T) []any, columns store.Query, args ...any) ([]T, error) {
	list := []T{}
	found, err := windows(ctx, tx, group, now, limit)
	for _, w := range found {
		if len(list) == limit {
			break
		}
		of, err := store.List(ctx, tx, "list expired files", fields, columns+fromExpired,
			append(slices.Clone(args), w.group, w.upTo, limit-len(list))...)
		if err != nil {
			return nil, err
		}
		list = append(list, of...)
	}
	return list, err
}

// RemoveExpired deletes, as [Files.Delete] does, the files that are older than their
// groups keep files, those of groups that have ended, those whose deletion has waited, those whose trash
// time is over, and older versions that their groups keep no longer. It returns how many it deleted. One process at a
// time does it; the others get [ErrRetentionBusy]. The trees of names of groups that have ended go, too.
func (f *Files) RemoveExpired(ctx context.Context) (removed int, err error) {
	if removed, err = f.removeExpired(ctx); err != nil {
		return removed, err
	}
	return removed, ledger.DropEnded(ctx, f.store)
}

func (f *Files) removeExpired(ctx context.Context) (removed int, err error) {
	if found, err := f.lookForWork(ctx); err != nil || !found.any {
		return 0, err
	}
	holder := uuid.NewString()
	defer func() { err = f.endRetention(ctx, holder, removed, err) }()
	err = f.asHolder(ctx, holder, func(tx *store.Tx) error { return groups.BeginSettings(ctx, tx, f.ledger) })
	for err == nil {
		found, err := f.lookForWork(ctx)
		if err != nil || !found.any {
			return removed, err
		}
		n, more, err := f.removeBatch(ctx, holder, found)
		removed += n
		if err != nil || n == 0 && !more {
			return removed, err
		}
		if err := ctx.Err(); err != nil {
			return removed, err
		}
	}
	return removed, err
}

// asHolder runs f in a write of the process that has the lease.
func (f *Files) asHolder(ctx context.Context, holder string, do func(*store.Tx) error) error {
	return f.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		fence, err := store.Lease(ctx, tx, retentionLease, holder, store.LongestLease)
		if err != nil {
			return err
		}
		if fence == 0 {
			return ErrRetentionBusy
		}
		return do(tx)
	})
}

// work is what a batch looks at. It is found in a read, since all writers wait for the batch.
type work struct {
	any       bool
	windows   []window // some of them
	thinnings []groups.Thinning
}

func (f *Files) lookForWork(ctx context.Context) (found work, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		now := f.ledger.Now()
		due, err := anyDue(ctx, tx, now)
		if err != nil {
			return err
		}
		if found.windows, err = windows(ctx, tx, "", now, expiredBatch); err != nil {
			return err
		}
		found.thinnings, err = groups.Thinnings(ctx, tx, f.ledger, f.config.DestructionDelay)
		found.any = due || len(found.windows)+len(found.thinnings) > 0
		return err
	})
	return found, err
}

// removeBatch shreds one batch of files in one transaction: deletions that have waited,
// files of groups that have ended, files whose trash time is over, expired files, then older versions. more reports
// that there may be others, even when removed is 0.
func (f *Files) removeBatch(ctx context.Context, holder string, found work) (removed int, more bool, err error) {
	var shredded []target
	err = f.asHolder(ctx, holder, func(tx *store.Tx) (err error) {
		now := f.ledger.Now()
		if shredded, more, err = f.deleteDue(ctx, tx, now, expiredBatch); err != nil {
			return err
		}
		ended, err := f.shredEnded(ctx, tx, expiredBatch-len(shredded))
		if err != nil {
			return err
		}
		shredded = append(shredded, ended...)
		if ended, err = f.endTrash(ctx, tx, now, expiredBatch-len(shredded)); err != nil {
			return err
		}
		shredded = append(shredded, ended...)
		for _, w := range found.windows {
			old, err := f.shredExpired(ctx, tx, w.group, now, expiredBatch-len(shredded))
			if err != nil {
				return err
			}
			shredded = append(shredded, old...)
		}
		if len(shredded) == expiredBatch {
			return nil
		}
		thinned, moreThin, err := f.thin(ctx, tx, found.thinnings, expiredBatch-len(shredded))
		shredded, more = append(shredded, thinned...), more || moreThin
		return err
	})
	if err != nil {
		return 0, false, err
	}
	f.removeBlobs(ctx, shredded...)
	return len(shredded), more, nil
}

// shredExpired shreds at most limit files of a group that are expired now, and returns them.
func (f *Files) shredExpired(ctx context.Context, tx *store.Tx, group string, now time.Time,
	limit int) ([]target, error) {
	if limit == 0 {
		return nil, nil
	}
	old, err := expired(ctx, tx, group, now, limit, func(t *target) []any { return append(t.fields(), &t.group) },
		"SELECT "+targetColumns+", group_id")
	for i := range old {
		if err := f.shredByPolicy(ctx, tx, &old[i], wire.ReasonRetentionPolicy); err != nil {
			return nil, err
		}
	}
	return old, err
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
	released := f.store.Write(ctx, store.Chains{}, func(tx *store.Tx) error {
		_, err := store.Lease(ctx, tx, retentionLease, holder, 0)
		return err
	})
	if err == nil {
		err = released
	}
	return err
}
