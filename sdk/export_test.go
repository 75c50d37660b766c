package sdk

import "time"

// AgeTickets makes every upload whose outcome is not known older.
func AgeTickets(c *Client, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.unfinished {
		t.since, t.lost = t.since.Add(-by), t.lost.Add(-by)
	}
}
