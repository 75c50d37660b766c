package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// While the primary of PostgreSQL is killed again and again and its standby promoted, three processes go over by
// themselves: what parallel clients are told has an order that explains it, and nothing that was acknowledged is
// missing or charged twice. A primary that was given up and comes back is not believed, although the address names
// it first and it takes writes.
func TestFailoverOfPostgreSQL(t *testing.T) {
	proctest.Long(t)
	random := rand.New(rand.NewPCG(testSeed(t), 0))
	primary := pgtest.Start(t)
	database := primary.NewDatabase(t)
	standby := primary.StartStandby(t)
	c := newClusterAt(t, 3, primary, primary.AlsoAt(t, database, standby))
	c.history(t, random, c.on, func(h *clusterHistory) {
		primary.Crash()
		standby.Promote(t)
		c.allAnswer(t, h)
		primary.Restart(t)
		standby.Run(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' "+
			"AND pid <> pg_backend_pid()") // every process connects anew
		c.allAnswer(t, h)
		primary, standby = standby, primary
		standby.Follow(t, primary)
	})
	t.Run("a primary that takes no more writes is left", func(t *testing.T) {
		carol := c.account("carol", "100")
		primary.Run(t, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
		standby.Promote(t)
		for i := range c.processes {
			team := c.on(carol, i).Group(sdk.GroupID(fmt.Sprint("carol-", i)))
			proctest.Eventually(t, "the process writes to the new primary", func() bool {
				_, err := team.Register(t.Context())
				return err == nil
			})
			_, err := team.Put(t.Context(), "after", bytes.NewReader([]byte("content")))
			ok(t, err)
		}
	})
	if out := c.operator("audit"); !strings.Contains(out, "intact") {
		t.Error(out)
	}
	if out := c.operator("verify", "--read-data"); !strings.Contains(out, " 0 bad") {
		t.Error(out)
	}
}
