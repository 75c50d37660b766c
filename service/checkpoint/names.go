package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// NamesMemory is how much memory a question about names takes beside its answer, at most, in bytes: pages of their
	// tree.
	NamesMemory = 4 << 20
	// mostBehind is how many records a question applies by itself, and keepAfter after how many the tree is kept.
	mostBehind = 32
	keepAfter  = 16
	// atOnce is how many records are applied in one transaction otherwise.
	atOnce = 256
	// buildAfter is how many records a tree may be behind: one that is further behind is built anew, which is faster.
	buildAfter = 16_384

	// namesShare is the share of the service's memory that is for trees which are built or brought up, and jobMemory
	// what each of them takes, in bytes. There is room for two at least: one that takes long holds up no other.
	namesShare = 8
	jobMemory  = 32 << 20
	leastJobs  = 2
)

// following keeps the trees of names of groups up with the ledger, beside the questions: each group by itself.
type following struct {
	store  *store.Store
	logger *slog.Logger
	slots  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	jobs   sync.WaitGroup

	mu     sync.Mutex // guards the rest
	groups map[string]*job
	ended  bool
}

// job brings up the tree of one group.
type job struct {
	began time.Time
	done  chan struct{}
	err   error // set before done is closed
}

// lag is what is wrong with the tree of a group: it is behind, or it is damaged.
type lag struct{ damaged bool }

func newFollowing(s *store.Store, memory int64, logger *slog.Logger) *following {
	f := &following{store: s, logger: logger, groups: make(map[string]*job),
		slots: make(chan struct{}, max(memory/namesShare/jobMemory, leastJobs))}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// end ends all jobs.
func (f *following) end() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.cancel()
	f.jobs.Wait()
}

// root answers a question about the names of a group whose chain ends at head, and returns their root, or why not.
func (f *following) root(ctx context.Context, tx *store.Tx, q Question, head chain.Place) (*chain.Hash, *lag, error) {
	n, err := ledger.KeptNames(ctx, tx, q.Group)
	if err != nil {
		return nil, nil, err
	}
	if n == nil || head.Number-n.Number > mostBehind {
		return nil, &lag{}, nil
	}
	news := head.Number - n.Number
	tree, err := n.Follow(ctx, tx, mostBehind)
	switch {
	case errors.Is(err, chain.ErrPages):
		return nil, &lag{damaged: true}, nil
	case err != nil:
		return nil, nil, err
	case n.Number != head.Number:
		return nil, nil, fmt.Errorf("the names of group %q are those of record %d, and its chain has %d", q.Group,
			n.Number, head.Number)
	}
	root := tree.Root()
	err = q.Names(ctx, tx, tree)
	if errors.Is(tree.Err(), chain.ErrPages) {
		return nil, &lag{damaged: true}, nil
	}
	if err = errors.Join(err, tree.Err()); err == nil && news >= keepAfter {
		f.start(q.Group, lag{})
	}
	return &root, nil, err
}

// wait waits until the tree of a group is brought up, or it takes too long.
func (f *following) wait(ctx context.Context, group string, l lag) error {
	j := f.start(group, l)
	if j == nil {
		return fmt.Errorf("the service ends: %w", store.ErrUnavailable)
	}
	late := time.NewTimer(time.Until(j.began.Add(maxWait)))
	defer late.Stop()
	select {
	case <-j.done:
		if errors.Is(j.err, store.ErrUnavailable) { // else its names are not stated
			return j.err
		}
	case <-late.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// ReadsNames reports whether the tree of names of a group is being brought up.
func (l *Log) ReadsNames(group string) bool {
	l.names.mu.Lock()
	defer l.names.mu.Unlock()
	return l.names.groups[group] != nil
}

// start begins to bring up the tree of a group, unless somebody does it already. nil = the service ends.
func (f *following) start(group string, l lag) *job {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j := f.groups[group]; j != nil || f.ended {
		return j
	}
	j := &job{began: time.Now(), done: make(chan struct{})}
	f.groups[group] = j
	f.jobs.Go(func() {
		j.err = f.bringUp(group, l)
		if j.err != nil && f.ctx.Err() == nil {
			f.logger.Warn("the names of a group cannot be proven now", "group", group, "cause", j.err.Error())
		}
		f.mu.Lock()
		delete(f.groups, group)
		f.mu.Unlock()
		close(j.done)
	})
	return j
}

func (f *following) bringUp(group string, l lag) error {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
	for built := false; ; {
		n, behind, err := f.step(group, l)
		switch {
		case err != nil && !errors.Is(err, chain.ErrPages):
			return err
		case err == nil && n != nil && behind < keepAfter:
			return nil
		case err == nil && n != nil && behind <= buildAfter:
			continue
		case built: // by this job, and it is damaged or far behind already
			return errors.Join(err, errors.New("its tree of names has no end"))
		case n != nil && (err != nil || l.damaged):
			f.logger.Error("a kept tree of names is damaged: it is built anew", "group", group)
			if err := ledger.DropNames(f.ctx, f.store, n); err != nil {
				return err
			}
		}
		if err := ledger.BuildNames(f.ctx, f.store, group, jobMemory/2); err != nil {
			return err
		}
		built, l = true, lag{}
	}
}

// step brings the tree up by some records, and keeps it. It returns the tree as it was, nil if there is none, and by
// how many records it was behind: it does nothing where those are few, or too many.
func (f *following) step(group string, l lag) (n *ledger.Names, behind int64, err error) {
	var tree *chain.Names
	err = f.store.Read(f.ctx, func(tx *store.Tx) error {
		end, err := ledger.ChainEnd(f.ctx, tx, chain.OfGroup(group))
		if err != nil {
			return err
		}
		if n, err = ledger.KeptNames(f.ctx, tx, group); err != nil || n == nil {
			return err
		}
		if l.damaged {
			return chain.ErrPages
		}
		if behind = end.Number - n.Number; behind < keepAfter || behind > buildAfter {
			return nil
		}
		tree, err = n.Follow(f.ctx, tx, atOnce)
		return err
	})
	if err != nil || tree == nil {
		return n, behind, err
	}
	return n, behind, n.Save(f.ctx, f.store, tree)
}
