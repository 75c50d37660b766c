package sdk

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire"
)

// maxTlogBytes bounds a checkpoint, a key or a tile.
const maxTlogBytes = 64 << 10

// LedgerRows lists every record of g in order, as package proof checks them: not
// only files, also members, retrievals and what they cost. Rows are hostile
// input; a field that cannot be read makes the answer [KindCorrupt].
//
// Free. Members only; needs the API key. Errors: [KindUnsupported] at a service without signed
// checkpoints, [KindNotFound], [KindNotAuthorized].
func (c *Client) LedgerRows(ctx context.Context, g GroupID) ([]proof.Row, error) {
	rows, err := c.ledgerRows(ctx, g)
	return rows, c.wrap("list records", g, "", err)
}

func (c *Client) ledgerRows(ctx context.Context, g GroupID) ([]proof.Row, error) {
	if err := c.needCheckpoints(ctx); err != nil {
		return nil, err
	}
	var all []proof.Row
	request := wire.TransactionsRequest{GroupID: string(g), Kinds: wire.KindsAll, Layouts: layouts}
	err := c.eachPage(ctx, request, func(row wire.TransactionRow) int64 { return row.Seq }, func(page []wire.TransactionRow) error {
		for _, row := range page {
			r, err := proofRow(row)
			if err != nil {
				return malformed(fmt.Errorf("row %d: %w", row.Seq, err))
			}
			all = append(all, r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (c *Client) needCheckpoints(ctx context.Context) error {
	ok, err := c.offers(ctx, wire.CapCheckpoints)
	if err == nil && !ok {
		err = &Error{Op: "verify ledger", Kind: KindUnsupported, Err: errors.New("the service signs no checkpoints of its ledger"),
			Hint: "A service of your own does: svcd serve."}
	}
	return err
}

// proofRow takes the group from the row too: it is part of what was hashed.
func proofRow(row wire.TransactionRow) (r proof.Row, err error) {
	if r.Record, err = chainRecord(&row, ""); err != nil {
		return r, err
	}
	if row.PrevHash == "" {
		return r, errors.New("it has no hash of the record before")
	}
	return r, decodeHash(row.Hash, &r.Hash)
}

// Tlog reads "checkpoint", "key" or a tile of the ledger's transparency log; it
// is a [proof.Fetch]. Free, no authentication. Errors: [KindUnsupported] at a
// service without signed checkpoints, [KindNotFound].
func (c *Client) Tlog(ctx context.Context, path string) ([]byte, error) {
	raw, err := c.tlog(ctx, path)
	return raw, c.wrap("read "+quote(path)+" of the ledger's log", "", "", err)
}

func (c *Client) tlog(ctx context.Context, path string) (raw []byte, err error) {
	if err := c.needCheckpoints(ctx); err != nil {
		return nil, err
	}
	err = c.retry(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cfg.MCPURL+wire.PathTlog+path, nil)
		if err != nil {
			return fmt.Errorf("make request: %w", err)
		}
		resp, err := c.send(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		raw, err = readBounded(resp.Body, resp.ContentLength, maxTlogBytes)
		return err
	})
	return raw, err
}
