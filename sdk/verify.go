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
func (g Group) Records(ctx context.Context) (all []chain.Row, err error) {
	held := int64(0)
	defer func() { _ = g.c.lists.hold(-held) }()
	err = g.eachPage(ctx, func(page []chain.Row, size int64) error {
		all, held = append(all, page...), held+size
		return g.c.lists.hold(size)
	})
	if err != nil {
		return nil, g.wrap("list records", err)
	}
	return all, nil
}

// eachPage gives take the records of the group, page by page, with about how much memory a page takes, in bytes. A
// service can always send one more page (threat 8): take counts what it keeps as memory of lists.
func (g Group) eachPage(ctx context.Context, take func(page []chain.Row, size int64) error) error {
	if err := g.c.caps.needOurs(ctx, "sign checkpoints of its ledger"); err != nil {
		return err
	}
	end, err := g.c.lists.begin(ctx, g.c.lists.whole)
	if err != nil {
		return err
	}
	defer end()
	request := wire.TransactionsRequest{GroupID: string(g.ID), Kinds: wire.KindsAll, Layouts: layouts}
	for {
		p, more, err := g.c.chains.page(ctx, &request)
		if err != nil {
			return err
		}
		rows := make([]chain.Row, len(p.rows))
		for i, row := range p.rows {
			if rows[i], err = proofRow(row); err != nil {
				return call.Malformed(fmt.Errorf("row %d: %w", row.Seq, err))
			}
			if row.Seq <= request.AfterSeq {
				return call.Malformed(&proof.Refusal{Row: row.Seq, Text: fmt.Sprintf("listed after record %d",
					request.AfterSeq)})
			}
			request.AfterSeq = row.Seq
		}
		if err := take(rows, footprints(p.rows)); err != nil || !more {
			return err
		}
	}
}

// mergePatience is how long after a listed record a checkpoint must hold it.
const mergePatience = chain.MaxMergeDelaySeconds * time.Second

// Verify checks every record of the group that this account may see, not only of files. It
// computes the hash of each record and checks that the tree of the newest checkpoint holds
// it. It checks that this checkpoint continues the one seen before. It checks that
// [Group.List] lists exactly the files of these records, and that the root of names that the
// service signs is the one that they give. The report has what the vault of the service counted: whether each key that
// it gave out has a record.
//
// The memory does not grow with the group: Verify follows as many files at a time as fit into half of
// [Config].ListMemory, some 100,000 in 128 MiB, reads the records again for each of these shares, and keeps what lives
// in [Config].SpoolDir meanwhile. A group of one share needs no disk.
//
// Verify is free. Members only; it needs the API key. Errors: [ErrCorrupt] for a history
// that must not be believed, [ErrUnsupported] at a service without signed checkpoints,
// [ErrNotFound], [ErrNotAuthorized], [ErrOther] with the code [wire.CodeSpool] for a disk that
// does not take what lives.
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
	if report.Files, report.Names, err = g.c.chains.verifyNames(ctx, g.ID); err != nil {
		return report, err
	}
	check := proof.Checker{Fetch: g.c.log.fetch, Log: log, Patience: mergePatience}
	now, err := check.Check(ctx, before, nil)
	if err != nil {
		return report, g.c.log.refusal(ctx, log, err)
	}
	chained := confirming{name: chain.OfGroup(string(g.ID)), view: g.c.memory.Group(string(g.ID))}
	err = g.eachPage(ctx, func(page []chain.Row, size int64) (err error) {
		defer func() { _ = g.c.lists.hold(-size) }()
		if err := g.c.lists.hold(size); err != nil {
			return err
		}
		report.Rows += len(page)
		if err := chained.page(page); err != nil {
			return err
		}
		now, err = check.Check(ctx, now, page)
		return err
	})
	if err == nil {
		err = chained.end()
	}
	if err != nil {
		return report, g.c.log.refusal(ctx, log, err)
	}
	report.Size, report.Root, report.Opens = now.N, now.Hash.String(), now.Opens
	g.c.memory.Checkpoint(now.Note, now.N)
	return report, nil
}

// confirming checks, page by page, that records contain the chain that a list was verified against, up to view.
type confirming struct {
	name string // of the chain
	view chain.Place
	at   chain.Place
}

func (c *confirming) page(rows []chain.Row) error {
	for i := range rows {
		r := &rows[i].Record
		if chain.Of(r.Kind, r.Account, r.Group) != c.name {
			continue
		}
		c.at = chain.PlaceOf(r)
		if c.at.Number == c.view.Number && c.at != c.view {
			return &proof.Refusal{Row: r.Seq, Text: "this record, or an earlier one, is not the one from which the " +
				"files are listed"}
		}
	}
	return nil
}

func (c *confirming) end() error {
	if c.at.Number >= c.view.Number {
		return nil
	}
	return &proof.Refusal{Text: fmt.Sprintf("%d records are listed here, and the files are listed from %d",
		c.at.Number, c.view.Number)}
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
