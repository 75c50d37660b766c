package store

import (
	"context"
	"time"
)

// Lease gives the work called name to holder until a moment, and reports whether it did:
// not while the time of another holder runs. A holder renews its lease in the same way,
// and gives it back with a moment in the past.
func Lease(ctx context.Context, tx *Tx, name, holder string, until time.Time) (bool, error) {
	n, err := tx.Count(ctx, "take lease", `INSERT INTO leases (name, holder, until_ns) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_ns = excluded.until_ns
		WHERE leases.holder = excluded.holder OR leases.until_ns < ?`,
		name, holder, until.UnixNano(), time.Now().UnixNano())
	return n == 1, err
}
