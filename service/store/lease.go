package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// LongestLease is the longest time for which a lease is given.
const LongestLease = time.Minute

// Lease gives the work called name to holder for a time, and returns its fence: 0 while the time of another holder
// runs. The clock is that of the database, which all processes share. A holder renews its lease in the same way, and
// gives it back with 0. Each holder has a larger fence than those before: who was stopped for longer than its time
// finds that work of a later one is done. A lease that ends later than any given now was given before the clock went
// back: whoever asks takes it.
func Lease(ctx context.Context, tx *Tx, name, holder string, lasts time.Duration) (fence int64, err error) {
	now := tx.engine.clock()
	err = tx.QueryRowContext(ctx, `INSERT INTO leases (name, holder, until_ns, fence) VALUES (?, ?, `+now+` + ?, 1)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_ns = excluded.until_ns,
		fence = leases.fence + CASE WHEN leases.holder = excluded.holder THEN 0 ELSE 1 END
		WHERE leases.holder = excluded.holder OR leases.until_ns <= `+now+` OR leases.until_ns > `+now+` + ?
		RETURNING fence`, name, holder, lasts.Nanoseconds(), LongestLease.Nanoseconds()).Scan(&fence)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("take lease: %w", err)
	}
	return fence, nil
}
