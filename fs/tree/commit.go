package tree

import (
	"context"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/sdk"
)

type commitWhen uint8

const (
	commitOnClose commitWhen = iota // an empty file may wait (W5)
	commitNow                       // fsync, rename
	commitLast                      // unmount
)

// commit records what is staged under the file's name. It returns nil when there
// is nothing to record: no stage, nothing new, a scratch name, a file without a
// name, or identical content. On failure the bytes stay staged and pending.
func (f *File) commit(ctx context.Context, when commitWhen) error {
	if !f.isKind(fileReal) {
		return nil
	}
	if err := f.nameGate().enter(ctx); err != nil {
		return err
	}
	defer f.nameGate().leave()
	f.t.mu.RLock()
	group, raw, real := f.group, f.raw, f.isKind(fileReal)
	f.t.mu.RUnlock()
	if !real {
		return nil
	}
	row, err := f.commitAs(ctx, when, group, raw)
	if row != nil {
		f.t.change(func() []notice { return f.t.record(f, group, raw, row) })
	}
	return err
}

// commitAs commits under a recorded name in a group and returns the row that
// holds the content now, or nil when there was nothing to record. Needs naming.
func (f *File) commitAs(ctx context.Context, when commitWhen, g *group, raw string) (*sdk.Entry, error) {
	s, err := f.quiet(ctx)
	if err != nil {
		return nil, err
	}
	if f.is(stateCommitted) || f.is(stateCopied) {
		f.mu.Unlock()
		return nil, nil
	}
	if err := f.heldBack(when); err != nil {
		f.mu.Unlock()
		return nil, err
	}
	if s.buf.Len() == 0 && when == commitOnClose {
		f.delay(s)
		f.mu.Unlock()
		return nil, nil
	}
	if held := f.t.holding(s, g, raw); held != nil {
		f.settle(s, held)
		f.mu.Unlock()
		return held, nil
	}
	s.sent = make(chan struct{})
	f.move(stateSending)
	f.mu.Unlock()

	receipt, err := f.upload(ctx, s, g, raw)

	f.mu.Lock()
	close(s.sent)
	if err != nil {
		failed := wrapRemote("close", "", err)
		s.failed = failed
		f.move(stateChanged)
		f.mu.Unlock()
		if failed.Class == ClassAccess {
			return nil, f.t.failedInGroup(ctx, g, "close", f.Path(), err)
		}
		return nil, err
	}
	row := f.t.ownRecord(g, raw, receipt, s.base)
	f.settle(s, row)
	f.mu.Unlock()
	f.t.dropIfLost(g, f.key(row))
	return row, nil
}

// holding returns the newest upload of the name when it holds exactly the staged
// bytes: saving them again would buy nothing (W3). Needs the file's mu.
func (t *Tree) holding(s *stage, g *group, raw string) *sdk.Entry {
	t.mu.RLock()
	var newest *sdk.Entry
	if v := g.names[raw]; v != nil {
		newest = v.newest()
	}
	t.mu.RUnlock()
	if newest == nil || newest.Size != s.buf.Len() || s.buf.Hash() != newest.Hash {
		return nil
	}
	return newest
}

// dropIfLost keeps content out of the cache that was sent while its group was
// taken away (M5).
func (t *Tree) dropIfLost(g *group, key cache.Key) {
	if t.isGone(g) {
		t.cache.Purge(func(k cache.Key) bool { return k == key })
	}
}

func (f *File) upload(ctx context.Context, s *stage, g *group, raw string) (sdk.Receipt, error) {
	f.t.counts.sending.Add(1)
	defer f.t.counts.sending.Add(-1)
	var receipt sdk.Receipt
	err := f.t.spend("upload", func() (fee sdk.Amount, err error) {
		receipt, err = f.t.remote.Upload(ctx, g.id, raw, s.buf)
		return receipt.Fee, err
	})
	if err == nil {
		f.t.counts.uploads.Add(1)
	}
	return receipt, err
}

// settle turns the stage into the committed content of e and keeps it cached
// (R3). Needs content.mu.
func (f *File) settle(s *stage, e *sdk.Entry) {
	old := f.lease
	lease := f.t.cache.Add(f.key(e), s.buf)
	f.t.staging.Add(-s.reserved)
	f.stage, f.half, f.lease = nil, nil, lease
	f.setEntry(e)
	f.setSize(lease.Len())
	f.move(stateCommitted)
	if old != nil {
		old.Release()
	}
	if f.opens == 0 {
		f.lease = nil
		lease.Release()
	}
}

// delayedUploads is how many empty files are uploaded at a time once their moment
// has come. A program may have made thousands at once.
const delayedUploads = 8

// delay uploads an empty file later, unless it is written to before (W5). Needs
// File.mu.
func (f *File) delay(s *stage) {
	if f.is(stateWaiting) {
		return
	}
	f.move(stateWaiting)
	f.t.inBackground(func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(f.t.cfg.EmptyDelay):
		}
		if f.t.delayed.enter(ctx) != nil {
			return
		}
		defer f.t.delayed.leave()
		f.mu.Lock()
		still := f.stage == s && f.is(stateWaiting)
		if still {
			f.move(stateChanged)
		}
		f.mu.Unlock()
		if !still {
			return
		}
		if err := f.commit(ctx, commitNow); err != nil {
			_ = f.failed("close", err)
		}
	})
}

// inBackground runs work that outlives a request, until the tree is closed.
func (t *Tree) inBackground(work func(context.Context)) {
	t.done.Go(func() { work(t.life) })
}
