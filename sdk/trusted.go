package sdk

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/trust"
)

// CheckTrust is [Client.Trust], and compares what is pinned and was seen with the
// key and the newest checkpoint that the service shows now. Where no key is pinned
// it pins none. Free; no authentication. Errors: [ErrCorrupt] when the service signs
// with another key, or shows a history that does not continue the one seen, and those
// of [Client.Capabilities].
func (c *Client) CheckTrust(ctx context.Context) (trust.State, error) {
	t, err := c.Trust(ctx)
	if err != nil || !t.Proves || t.Key == "" && c.cfg.LogKey == "" {
		return t, err
	}
	_, err = orSuccessor(ctx, c, func() (struct{}, error) { return struct{}{}, c.compareLog(ctx) })
	if err != nil {
		return t, c.wrap("compare the signed history", "", "", err)
	}
	return c.Trust(ctx)
}

func (c *Client) compareLog(ctx context.Context) error {
	log, before, err := c.theLog(ctx)
	if err != nil {
		return err
	}
	raw, err := c.tlog(ctx, "checkpoint")
	if err != nil {
		return err
	}
	now, err := log.Open(string(raw))
	switch {
	case err != nil:
	case before.N == 0 || now.N <= before.N: // no proof is needed
		err = now.Continues(before, nil)
	default: // what was seen was signed, so nothing has to be waited for
		now, err = proof.Checker{Fetch: c.tlog, Log: log}.Check(ctx, before, nil)
	}
	if err != nil {
		return errors.Join(c.otherKey(ctx, log), c.unproven(err))
	}
	c.memory.Checkpoint(now.Note, now.N)
	return nil
}
