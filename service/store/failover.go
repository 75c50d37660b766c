package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// timelineNow is the timeline on which a server writes, as eight hexadecimal digits: each promotion begins the next.
const timelineNow = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"

// onlyNewest has a process whose address says which of several servers is meant (target_session_attrs) refuse one
// on an older timeline than it has written to before: a primary that was given up for another one and came back. It
// lacks what was saved since.
func onlyNewest(config *pgx.ConnConfig) {
	choose := config.ValidateConnect
	if choose == nil {
		return
	}
	var newest atomic.Uint64
	config.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		if err := choose(ctx, c); err != nil {
			return err
		}
		rows, err := c.Exec(ctx, timelineNow).ReadAll()
		var failed *pgconn.PgError
		switch {
		case errors.As(err, &failed): // a standby, or a server of another make: it has no timelines to compare
			return nil
		case err != nil:
			return err
		}
		timeline, err := strconv.ParseUint(string(rows[0].Rows[0][0]), 16, 32)
		if err != nil {
			return fmt.Errorf("read timeline: %w", err)
		}
		for {
			known := newest.Load()
			if timeline < known {
				return fmt.Errorf("the server was given up: it is on timeline %d, and %d is in use", timeline, known)
			}
			if newest.CompareAndSwap(known, timeline) {
				return nil
			}
		}
	}
}

// leaveReadOnly drops a connection of the pool whose server takes no more writes. The server says so with its next
// answer.
func leaveReadOnly(_ context.Context, c *pgx.Conn) error {
	for _, name := range []string{"default_transaction_read_only", "in_hot_standby"} {
		if c.PgConn().ParameterStatus(name) == "on" {
			return driver.ErrBadConn
		}
	}
	return nil
}
