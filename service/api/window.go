package api

import (
	"strconv"
	"time"

	"github.com/svcfs/svcfs/service/groups"
)

// joinWindow is the answer of get_join_window, nil when there is none.
func joinWindow(g groups.Group) any {
	if !g.JoinExpires.Valid {
		return nil
	}
	var most *int64
	if g.JoinMaxUses.Valid {
		most = &g.JoinMaxUses.Int64
	}
	open := g.JoinExpires.Int64 > time.Now().UnixNano() && (most == nil || g.JoinUses < *most)
	return map[string]any{"expires_at": strconv.FormatInt(g.JoinExpires.Int64, 10), "max_uses": most, "uses": g.JoinUses, "open": open}
}
