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

// timelineOf is the name by which a connection keeps its timeline.
const timelineOf = "timeline"

// timelines has a process whose address says which of several servers is meant (target_session_attrs) refuse one
// on an older timeline than it has written to before: a primary that was given up for another one and came back, or was
// never gone for the connections of the pool. It lacks what was saved since.
type timelines struct{ newest atomic.Uint64 }

// refuseOld checks the timeline of each new connection.
func (t *timelines) refuseOld(config *pgx.ConnConfig) {
	choose := config.ValidateConnect
	if choose == nil {
		return
	}
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
		c.CustomData()[timelineOf] = timeline
		for {
			known := t.newest.Load()
			if timeline < known {
				return fmt.Errorf("the server was given up: it is on timeline %d, and %d is in use", timeline, known)
			}
			if t.newest.CompareAndSwap(known, timeline) {
				return nil
			}
		}
	}
}

// leaveOld drops a connection of the pool whose server is on an older timeline than another one by now, or takes no
// more writes. The server says the latter with its next answer.
func (t *timelines) leaveOld(_ context.Context, c *pgx.Conn) error {
	if timeline, ok := c.PgConn().CustomData()[timelineOf].(uint64); ok && timeline < t.newest.Load() {
		return driver.ErrBadConn
	}
	for _, name := range []string{"default_transaction_read_only", "in_hot_standby"} {
		if c.PgConn().ParameterStatus(name) == "on" {
			return driver.ErrBadConn
		}
	}
	return nil
}
