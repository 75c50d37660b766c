package files

import (
	"context"
	"errors"
	"math"
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
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		now := f.ledger.Now()
		list, err = store.List(ctx, tx, "list expired files", func(e *Expired) []any {
			return []any{&e.Group, &e.Ref, &e.Name, &e.TxID, &e.Age}
		},
			"SELECT group_id, ref, filename, tx_id, ? - time_ns"+fromExpired,
			append([]any{now.UnixNano()}, expiredArgs(group, now, limit)...)...)
		return err
	})
	return list, err
}

// selectExpired reads what shredding needs. fromExpired goes from the groups to their files (CROSS JOIN
// keeps SQLite to that). Files of other backends than ours never expire (wire protocol 6.3).
const (
	selectExpired = "SELECT " + targetColumns + ", group_id" + fromExpired
	fromExpired   = ` FROM groups CROSS JOIN files
	WHERE retention_days IS NOT NULL AND (groups.id = ? OR ? = '') AND group_id = groups.id AND deleted_ns IS NULL
	AND backend = ?
	AND time_ns <= ? AND (? - time_ns) / 86400000000000 >= retention_days ORDER BY groups.id, seq LIMIT ?`
)

func expiredArgs(group string, now time.Time, limit int) []any {
	if limit < 0 {
		limit = math.MaxInt
	}
	return []any{group, group, backendFastFS, now.UnixNano(), now.UnixNano(), limit}
}

func expired(ctx context.Context, tx *store.Tx, group string, now time.Time, limit int) ([]target, error) {
	return store.List(ctx, tx, "list expired files", func(t *target) []any { return append(t.fields(), &t.group) },
		selectExpired, expiredArgs(group, now, limit)...)
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
		work, err := groups.Thinnings(ctx, tx, f.ledger, f.config.DestructionDelay)
		if any = len(work) > 0; err != nil || any {
			return err
		}
		found, err := expired(ctx, tx, "", f.ledger.Now(), 1)
		any = len(found) > 0
		return err
	})
	return any, err
}

// removeBatch shreds one batch of files in one transaction: deletions that have waited,
// files of groups that have ended, files whose trash time is over, expired files, then older versions. more reports
// that there may be others, even when removed is 0.
func (f *Files) removeBatch(ctx context.Context, holder string) (removed int, more bool, err error) {
	var shredded []target
	err = f.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		fence, err := store.Lease(ctx, tx, retentionLease, holder, store.LongestLease)
		if err != nil {
			return err
		}
		if fence == 0 {
			return ErrRetentionBusy
		}
		if err := groups.BeginSettings(ctx, tx, f.ledger); err != nil {
			return err
		}
		if shredded, more, err = f.deleteDue(ctx, tx, f.ledger.Now(), expiredBatch); err != nil {
			return err
		}
		ended, err := f.shredEnded(ctx, tx, expiredBatch-len(shredded))
		if err != nil {
			return err
		}
		shredded = append(shredded, ended...)
		if ended, err = f.endTrash(ctx, tx, f.ledger.Now(), expiredBatch-len(shredded)); err != nil {
			return err
		}
		shredded = append(shredded, ended...)
		old, err := expired(ctx, tx, "", f.ledger.Now(), expiredBatch-len(shredded))
		if err != nil {
			return err
		}
		for _, e := range old {
			if err := f.shredByPolicy(ctx, tx, &e, wire.ReasonRetentionPolicy); err != nil {
				return err
			}
			shredded = append(shredded, e)
		}
		if len(shredded) == expiredBatch {
			return nil
		}
		thinned, moreThin, err := f.thin(ctx, tx, expiredBatch-len(shredded))
		shredded, more = append(shredded, thinned...), more || moreThin
		return err
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
	released := f.store.Write(ctx, store.Chains{}, func(tx *store.Tx) error {
		_, err := store.Lease(ctx, tx, retentionLease, holder, 0)
		return err
	})
	if err == nil {
		err = released
	}
	return err
}
