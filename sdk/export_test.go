package sdk

import "time"

// AgeTickets makes every upload whose outcome is not known older.
func AgeTickets(c *Client, by time.Duration) {
	c.uploads.mu.Lock()
	defer c.uploads.mu.Unlock()
	for _, t := range c.uploads.unfinished {
		t.since, t.lost = t.since.Add(-by), t.lost.Add(-by)
	}
}

// KeepClaim keeps a claim as a failed retrieval does, and counts what is kept.
func KeepClaim(c *Client, ref Ref) (kept int) {
	c.keepClaim(ref, "claim")
	return len(c.claims)
}
