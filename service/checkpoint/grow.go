package checkpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// overtakenTimes is how often others may be faster before a process gives up until its next look at the ledger.
const overtakenTimes = 10

// update is [Log.Update] without what it notes; again has it sign what is signed already. Another process at the same
// vault, or another vault, may come between two questions: what it was given is in the ledger by then.
func (l *Log) update(ctx context.Context, again bool) (err error) {
	for range overtakenTimes {
		if err = l.grow(ctx, again); !errors.Is(err, vaultwire.ErrNotFollowing) {
			return err
		}
	}
	return fmt.Errorf("other processes at the same vault are always faster: %w", err)
}

// grow reads the records that the tree lacks, gives them to the vault, in pieces, and has it sign the tree of all.
func (l *Log) grow(ctx context.Context, again bool) error {
	if err := l.Settle(ctx); err != nil {
		return fmt.Errorf("wait for the places of records: %w", err)
	}
	keys, size, err := l.look(ctx)
	if err != nil {
		return err
	}
	if err := l.open(keys); err != nil {
		return err
	}
	signed, file := l.newest()
	was, err := newest(keys).NewestTree(ctx)
	countsAt := err == nil && l.now().Sub(l.countedAt) >= wire.RecordedWithin // it may count other keys than it signed
	if !again && !countsAt && signed.tree != nil && size == signed.N &&
		signed.Origin == l.origin && signed.isSignedBy(keys) &&
		(err != nil || was.Records > 0 || size == 0) { // a vault that began anew is to follow at once
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask the vault for its tree of the log: %w", err)
	}
	if 0 < was.Records && was.Records < l.walk.Place {
		if err := l.waitFor(was); err != nil {
			return err
		}
	}
	isKnown := false // was is the tree of these records
	for done := false; !done; {
		follows := was.Records > 0 && l.walk.Place == was.Records
		if follows && !isKnown {
			now, err := l.treeAt(file, l.walk.Place, l.chains)
			if err != nil {
				return err
			}
			if now != was {
				return otherLedger(was.Records, l.walk.Place)
			}
			isKnown = true
		}
		limit := int64(pageRows)
		if follows {
			limit = vaultwire.MostRecords
		}
		if below := was.Records - l.walk.Place; below > 0 {
			limit = min(limit, below)
		}
		if below := signed.N - l.walk.Place; !l.compared && below > 0 { // one page ends where the checkpoint does
			limit = min(limit, below)
		}
		next, err := l.readOn(ctx, file, signed, limit)
		if err != nil {
			return err
		}
		if follows && next.walk.Place > was.Records {
			if was, err = l.treeAt(file, next.walk.Place, next.chains); err != nil {
				return err
			}
			e := vaultwire.Extension{Tree: was, Records: next.records, Chains: l.chains.Part(next.moved)}
			if err := newest(keys).Extend(ctx, e); err != nil {
				return fmt.Errorf("give the vault the newest records: %w", err)
			}
		}
		done = next.walk.Place-l.walk.Place < limit
		l.walk.Join(next.walk)
		l.chains = next.chains
		if !l.compared && l.walk.Place == signed.N {
			if err := compareChains(signed, l.chains); err != nil {
				return err
			}
			root := chain.Hash(signed.Hash)
			l.feed.base = followed{vaultwire.Tree{Records: signed.N, Root: root, Chains: signed.Chains}, l.chains}
		}
	}
	if l.walk.Place < was.Records {
		return otherLedger(was.Records, l.walk.Place)
	}
	if !l.compared {
		if err := compareRoot(signed, l.walk.Place, hashReader(file)); err != nil {
			return err
		}
		l.compared = true
	}
	if was.Records == 0 {
		if was, err = l.beginAt(ctx, file, newest(keys)); err != nil {
			return err
		}
	}
	return l.sign(ctx, file, was, keys, again)
}

// behindPatience is how long a process waits for another one that the vault follows.
const behindPatience = 10 * time.Second

// waitFor is for a vault that began anew, with a process that is behind this one: that one comes to what this one has,
// in its next look at the ledger, and then both go on. If it does not, this one begins with the first record again.
func (l *Log) waitFor(was vaultwire.Tree) error {
	if l.behindAt != was {
		l.behindAt, l.behindSince = was, l.now()
	}
	if l.now().Sub(l.behindSince) < behindPatience {
		return fmt.Errorf("svcvault follows a process that has %d of %d rows", was.Records, l.walk.Place)
	}
	l.walk, l.chains, l.compared = ledger.Walk{}, chain.Tree{}, false
	return nil
}

// further is what some records more make of the tree.
type further struct {
	walk    *ledger.Walk
	chains  chain.Tree
	moved   []chain.Hash // keys of the chains that they are of
	records []byte       // for the vault
}

// readOn reads up to limit records behind those of the tree, and writes their hashes.
func (l *Log) readOn(ctx context.Context, file *os.File, signed Checkpoint, limit int64) (f further, err error) {
	p := page{base: tlog.StoredHashCount(l.walk.Place), file: file}
	f.walk, f.chains = l.walk.Fork(), l.chains
	err = l.store.Read(ctx, func(tx *store.Tx) error {
		if err := l.hasNewest(ctx, tx, file); err != nil {
			return err
		}
		_, err := f.walk.Next(ctx, tx, int(limit), func(r chain.Row) error {
			f.records = vaultwire.AppendRecord(f.records, &r.Record)
			return addTo(&p, r)
		})
		return err
	})
	if err != nil {
		return f, err
	}
	for name, end := range f.walk.Moved() {
		f.chains, f.moved = f.chains.With(name, end.Place), append(f.moved, chain.Key(name))
	}
	return f, p.settle(l.walk.Place, signed, l.compared)
}

// hasNewest checks that the ledger still has the newest record of the tree: an earlier state of it may have been
// brought back under this process, by hand or by a failover, and may have grown since.
func (l *Log) hasNewest(ctx context.Context, tx *store.Tx, file *os.File) error {
	at := l.walk.Place
	if at == 0 {
		return nil
	}
	r, err := ledger.AtPlace(ctx, tx, at)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("row %d: %w: the ledger ends before it", at, ErrContradiction)
	}
	var kept tlog.Hash
	if err == nil {
		err = readHash(file, tlog.StoredHashIndex(0, at-1), &kept)
	}
	if err == nil && kept != tlog.RecordHash(r.Hash[:]) {
		err = fmt.Errorf("row %d: %w: another row was signed at this place", at, ErrContradiction)
	}
	return err
}

// look returns the keys of the log, and how many records have a place.
func (l *Log) look(ctx context.Context) (keys []Key, size int64, err error) {
	err = l.store.Read(ctx, func(tx *store.Tx) error {
		if keys, err = l.keys(ctx, tx); err == nil {
			size, err = ledger.Size(ctx, tx)
		}
		return err
	})
	return keys, size, err
}

// otherLedger is the error where the vault was given another ledger than this one.
func otherLedger(given, rows int64) error {
	return fmt.Errorf("svcvault was given other rows than this ledger has: its %d, here %d: if an earlier state of "+
		"the ledger was brought back on purpose, restart svcvault; else find out who gave them", given, rows)
}

// treeAt returns the tree of the first n records, whose chains end as chains say.
func (l *Log) treeAt(file *os.File, n int64, chains chain.Tree) (t vaultwire.Tree, err error) {
	root, err := tlog.TreeHash(n, hashReader(file))
	if err != nil {
		return t, fmt.Errorf("compute root: %w", err)
	}
	return vaultwire.Tree{Records: n, Root: chain.Hash(root), Chains: chains.Root()}, nil
}

// beginAt has a vault that was started follow the log from the newest record on.
func (l *Log) beginAt(ctx context.Context, file *os.File, key Key) (t vaultwire.Tree, err error) {
	if t, err = l.treeAt(file, l.walk.Place, l.chains); err != nil {
		return t, err
	}
	edge, err := vaultwire.EdgeOf(t.Records, hashReader(file))
	if err != nil {
		return t, err
	}
	if err := key.Extend(ctx, vaultwire.Extension{Tree: t, Edge: edge}); err != nil {
		return t, fmt.Errorf("give the vault the tree of the log: %w", err)
	}
	return t, nil
}

// sign publishes a tree, that of all records so far. The hashes are durable before the checkpoint is written, and the
// checkpoint is durable before it is served.
// again has it publish what is published already.
func (l *Log) sign(ctx context.Context, file *os.File, t vaultwire.Tree, keys []Key, again bool) error {
	chains := l.chains
	l.mu.Lock()
	l.given = chains // signed is that which the witness signed, maybe an hour ago
	l.mu.Unlock()
	c := Checkpoint{Origin: l.origin, Tree: tlog.Tree{N: t.Records, Hash: tlog.Hash(t.Root)}, Chains: t.Chains,
		tree: &chains, key: newest(keys)}
	s, err := newSigner(ctx, c.key, vaultwire.Sign{Origin: l.origin, Tree: &t})
	if err != nil {
		return err
	}
	c.Opens, l.countedAt = s.signed.Opens, l.now()
	if before, _ := l.newest(); !again && before.tree != nil && before.Tree == c.Tree && before.Opens == c.Opens &&
		before.Origin == c.Origin && before.isSignedBy(keys) {
		return nil
	}
	if c.Note, err = note.Sign(&note.Note{Text: c.text()}, s); err != nil {
		return fmt.Errorf("sign checkpoint: %w", err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync tree: %w", err)
	}
	if l.witness != nil {
		if c.Note, err = l.witness.Sign(ctx, c.Note, c.N, toWitness{l, file, c.N}); err != nil {
			return err
		}
		l.feed = feed{base: followed{t, chains}}
		l.cosignAt = l.now().Add(cosignEvery)
	}
	// Another process over this directory may be ahead.
	if other, err := l.load(keys); err != nil || other.Origin != l.origin || other.N <= c.N {
		if err := ownfile.Replace(filepath.Join(l.dir, noteFile), c.Note); err != nil {
			return fmt.Errorf("write checkpoint: %w", err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.signed = c
	return nil
}
