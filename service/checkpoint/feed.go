package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
	"github.com/svcfs/svcfs/service/witness"
)

// feed is how far a witness that replays was sent the log.
type feed struct {
	base followed // what the witness signed
	at   followed // where the records that it was sent since lead to
	mark string   // the witness's word for that; "" = nothing was sent
}

// followed is the beginning of the log, with where its chains end.
type followed struct {
	tree   vaultwire.Tree
	chains chain.Tree
}

// follow returns what n records more make of f, and how they extend its tree.
func (l *Log) follow(ctx context.Context, file *os.File, f followed, n int64) (next followed, e vaultwire.Extension,
	err error) {
	var rows []chain.Row
	err = l.store.Read(ctx, func(tx *store.Tx) error {
		rows, err = ledger.Placed(ctx, tx, f.tree.Records, int(n))
		return err
	})
	if err != nil {
		return f, e, err
	}
	moved := make(map[string]chain.Place)
	for _, r := range rows {
		moved[r.Chain] = chain.Place{Number: r.Number, Hash: r.Hash}
		e.Records = vaultwire.AppendRecord(e.Records, &r.Record)
	}
	var keys []chain.Hash
	next = f
	for name, end := range moved {
		next.chains, keys = next.chains.With(name, end), append(keys, chain.Key(name))
	}
	e.Chains = f.chains.Part(keys)
	next.tree, err = l.treeAt(file, f.tree.Records+n, next.chains)
	e.Tree = next.tree
	return next, e, err
}

// toWitness is what the log says to a witness about its first n records.
type toWitness struct {
	*Log
	file *os.File
	n    int64
}

func (l toWitness) Prove(old int64) (tlog.TreeProof, error) {
	return tlog.ProveTree(l.n, old, hashReader(l.file))
}

// Replay goes on where it failed the last time, unless the witness refused something or signed another tree since.
func (l toWitness) Replay(ctx context.Context, base int64,
	send func(context.Context, witness.Replay) (string, error)) (mark string, err error) {
	f := &l.feed
	if f.mark == "" || f.base.tree.Records != base || f.at.tree.Records > l.n {
		l.told.Do(func() {
			l.logger.Info("the witness replays the ledger: it is given chain, number and hash of each record")
		})
		if f.base.tree == (vaultwire.Tree{}) || f.base.tree.Records > base {
			f.base = followed{tree: vaultwire.NoRecords()}
		}
		for f.base.tree.Records < base {
			n := min(pageRows, base-f.base.tree.Records)
			if f.base, _, err = l.follow(ctx, l.file, f.base, n); err != nil {
				return "", err
			}
		}
		f.at, f.mark = f.base, ""
	}
	for f.at.tree.Records < l.n {
		q := witness.Replay{Base: f.base.tree, From: vaultwire.Extension{Tree: f.at.tree}, Mark: f.mark}
		if q.From.Edge, err = vaultwire.EdgeOf(f.at.tree.Records, hashReader(l.file)); err != nil {
			return "", err
		}
		var next followed
		next, q.Next, err = l.follow(ctx, l.file, f.at, min(vaultwire.MostRecords, l.n-f.at.tree.Records))
		if err != nil {
			return "", err
		}
		if mark, err = send(ctx, q); err != nil {
			var refused *witness.Refusal
			if errors.As(err, &refused) {
				f.mark = ""
			}
			return "", fmt.Errorf("rows %d to %d: %w", f.at.tree.Records+1, next.tree.Records, err)
		}
		f.at, f.mark = next, mark
	}
	return f.mark, nil
}
