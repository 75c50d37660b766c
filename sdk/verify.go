package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Records lists every record of the group in order, not only of files: also of members,
// retrievals and fees. Package proof can check them. The texts are hostile input. A field
// that cannot be parsed makes the whole answer [ErrCorrupt]. The slice belongs to the
// caller.
//
// Records is free. Members only; it needs the API key. Errors: [ErrUnsupported] at a
// service without signed checkpoints, [ErrNotFound], [ErrNotAuthorized].
func (g Group) Records(ctx context.Context) ([]chain.Row, error) {
	rows, err := g.ledgerRows(ctx)
	return rows, g.wrap("list records", err)
}

func (g Group) ledgerRows(ctx context.Context) ([]chain.Row, error) {
	if err := g.c.caps.needOurs(ctx, "sign checkpoints of its ledger"); err != nil {
		return nil, err
	}
	var all []chain.Row
	request := wire.TransactionsRequest{GroupID: string(g.ID), Kinds: wire.KindsAll, Layouts: layouts}
	err := g.c.chains.eachPage(ctx, request, func(row wire.TransactionRow) int64 { return row.Seq },
		func(page []wire.TransactionRow) error {
			for _, row := range page {
				r, err := proofRow(row)
				if err != nil {
					return call.Malformed(fmt.Errorf("row %d: %w", row.Seq, err))
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

// mergePatience is how long after a listed record a checkpoint must hold it.
const mergePatience = chain.MaxMergeDelaySeconds * time.Second

// Verify checks every record of the group that this account may see, not only of files. It
// computes the hash of each record and checks that the tree of the newest checkpoint holds
// it. It checks that this checkpoint continues the one seen before. It checks that
// [Group.List] lists exactly the files of these records, and that the root of names that the
// service signs is the one that they give.
//
// Verify is free. Members only; it needs the API key. Errors: [ErrCorrupt] for a history
// that must not be believed, [ErrUnsupported] at a service without signed checkpoints,
// [ErrNotFound], [ErrNotAuthorized].
func (g Group) Verify(ctx context.Context) (proof.Report, error) {
	report, err := retryWithNewKey(ctx, g.c, func() (proof.Report, error) { return g.verifyLedger(ctx) })
	return report, g.wrap("verify ledger", err)
}

func (g Group) verifyLedger(ctx context.Context) (report proof.Report, err error) {
	if err := g.c.caps.needOurs(ctx, "sign checkpoints of its ledger"); err != nil {
		return report, err
	}
	pinned, _ := g.c.memory.Log()
	log, before, err := g.c.log.open(ctx)
	if err != nil {
		return report, err
	}
	report = proof.Report{Key: log.Key(), Origin: log.Origin(), Before: before.N, Pinned: pinned != "" ||
		g.c.cfg.LogKey != "", Witness: g.c.cfg.Witness}
	entries, err := g.c.entries(ctx, g.ID, listing{names: &report.Names})
	if err != nil {
		return report, err
	}
	view := g.c.memory.Group(string(g.ID))
	report.Files = len(entries)
	rows, err := g.ledgerRows(ctx)
	if err != nil {
		return report, err
	}
	report.Rows = len(rows)
	if err := confirm(rows, chain.OfGroup(string(g.ID)), view); err != nil {
		return report, g.c.log.refusal(ctx, log, err)
	}
	now, err := proof.Checker{Fetch: g.c.log.fetch, Log: log, Patience: mergePatience}.Check(ctx, before, rows)
	if err != nil {
		return report, g.c.log.refusal(ctx, log, err)
	}
	report.Size, report.Root = now.N, now.Hash.String()
	g.c.memory.Checkpoint(now.Note, now.N)
	return report, nil
}

// confirm checks that rows contain the chain that the list was verified against, up to
// view.
func confirm(rows []chain.Row, name string, view chain.Place) error {
	var at chain.Place
	for i := range rows {
		r := &rows[i].Record
		if chain.Of(r.Kind, r.Account, r.Group) != name {
			continue
		}
		at = chain.PlaceOf(r)
		if at.Number == view.Number && at != view {
			return &proof.Refusal{Row: r.Seq, Text: "this record, or an earlier one, is not the one from which the " +
				"files are listed"}
		}
	}
	if at.Number < view.Number {
		return &proof.Refusal{Text: fmt.Sprintf("%d records are listed here, and the files are listed from %d",
			at.Number, view.Number)}
	}
	return nil
}

// proofRow converts a row to a record with its hash. The group comes from the row, because
// the hash covers it.
func proofRow(row wire.TransactionRow) (r chain.Row, err error) {
	listed, err := listedOf(&row, "")
	if r.Record = listed.Record; err != nil {
		return r, err
	}
	if row.PrevHash == "" {
		return r, errors.New("it lacks the hash of the record before")
	}
	r.Place = row.Place
	return r, decodeHash(row.Hash, &r.Hash)
}
