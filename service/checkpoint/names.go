package checkpoint

import (
	"context"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// maxNamesBytes bounds the memory of the living names of groups that are kept. While those of a group are read, they
// take as much again. It is that of some 300,000 files; no root is signed for a group that alone takes more.
const maxNamesBytes = 256 << 20

// namesKept keeps the living names of groups whose root was asked for: those that were not asked for longest go first.
type namesKept struct {
	turn chan struct{} // held by who uses the rest; it comes before a transaction
	most int64         // bytes

	groups map[string]*ledger.Names
	used   []string // the newest last
	bytes  int64

	tooLarge map[string]int64 // groups whose names took too much, by the end of their chains then
}

// maxTooLarge is how many groups are known as too large, and grownBy of how many parts the chain of such a group grows
// by one until its names are read again: some may have been removed.
const (
	maxTooLarge = 1000
	grownBy     = 16
)

func newNamesKept(most int64) *namesKept {
	return &namesKept{turn: make(chan struct{}, 1), most: most, groups: make(map[string]*ledger.Names),
		tooLarge: make(map[string]int64)}
}

// begin waits for the turn. The caller calls end after it. A transaction that begins after begin sees no earlier
// state than the one that was kept.
func (k *namesKept) begin(ctx context.Context) (end func(), err error) {
	select {
	case k.turn <- struct{}{}:
		return func() { <-k.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// root answers a question about the names of a group whose chain ends at head, and returns their root, nil if they
// take too much memory. It needs the turn.
func (k *namesKept) root(ctx context.Context, tx *store.Tx, q Question, head chain.Place) (*chain.Hash, error) {
	if at := k.tooLarge[q.Group]; at > 0 && head.Number < at+at/grownBy {
		return nil, nil
	}
	n, err := k.take(q.Group), error(nil)
	if n == nil {
		if n, err = ledger.NamesOf(ctx, tx, q.Group, k.most); err == nil && n == nil {
			k.refuse(q.Group, head.Number)
		}
	} else {
		err = n.Follow(ctx, tx, q.Group)
	}
	switch {
	case err != nil:
		return nil, err
	case n == nil:
		return nil, nil
	case n.Number != head.Number:
		return nil, fmt.Errorf("the names of group %q are those of record %d, and its chain has %d", q.Group, n.Number,
			head.Number)
	}
	root := n.Root()
	k.keep(q.Group, n)
	return &root, q.Names(ctx, tx, &n.Names)
}

// refuse notes that the names of a group take too much, so that not each question reads them anew.
func (k *namesKept) refuse(group string, number int64) {
	if len(k.tooLarge) >= maxTooLarge {
		clear(k.tooLarge)
	}
	k.tooLarge[group] = number
}

// take takes the names of a group out of what is kept; nil = they are not.
func (k *namesKept) take(group string) *ledger.Names {
	n := k.groups[group]
	if n == nil {
		return nil
	}
	delete(k.groups, group)
	for i, g := range k.used {
		if g == group {
			k.used = append(k.used[:i], k.used[i+1:]...)
			break
		}
	}
	k.bytes -= n.Footprint()
	return n
}

// keep keeps names, unless they alone take too much, and drops others.
func (k *namesKept) keep(group string, n *ledger.Names) {
	if n.Footprint() > k.most {
		k.refuse(group, n.Number)
		return
	}
	k.groups[group], k.used = n, append(k.used, group)
	for k.bytes += n.Footprint(); k.bytes > k.most; {
		k.take(k.used[0])
	}
}
