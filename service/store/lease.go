package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Lease gives the work called name to holder until a moment, and returns its fence: 0 while
// the time of another holder runs. A holder renews its lease in the same way,
// and gives it back with a moment in the past. Each holder has a larger fence than those before:
// who was stopped for longer than its time finds that work of a later one is done.
func Lease(ctx context.Context, tx *Tx, name, holder string, until time.Time) (fence int64, err error) {
	err = tx.QueryRowContext(ctx, `INSERT INTO leases (name, holder, until_ns, fence) VALUES (?, ?, ?, 1)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_ns = excluded.until_ns,
		fence = leases.fence + CASE WHEN leases.holder = excluded.holder THEN 0 ELSE 1 END
		WHERE leases.holder = excluded.holder OR leases.until_ns < ? RETURNING fence`,
		name, holder, until.UnixNano(), time.Now().UnixNano()).Scan(&fence)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("take lease: %w", err)
	}
	return fence, nil
}
