package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
)

const (
	// openers is how many blocks of one request are hashed and opened at the same time, while the
	// next is received.
	openers = 2
	// sealedAhead is how many sealed blocks of one request are in memory at most.
	sealedAhead = openers + 2
)

// fetching is the work on consecutive blocks.
type fetching struct {
	b     *Blocks
	into  func(block int64) []byte // memory for the plaintext of a block
	done  func(block int64)        // called once a block is proven and open, at any order; may be nil
	end   int64                    // block after the last
	next  int64                    // first block that has not arrived
	work  chan sealedBlock         // arrived; nil: the receiver opens them itself
	room  chan struct{}            // one for each sealed block in memory
	tasks sync.WaitGroup
	stop  context.CancelFunc
	mu    sync.Mutex
	cause error // why it was stopped
}

type sealedBlock struct {
	block int64
	bytes *[]byte
}

// fetch fetches consecutive blocks. Those that do not come with the answer to the open are asked for at once. Of
// what it writes the caller must not give out anything before done, which may be nil, was called for the block, or
// fetch has returned without an error.
func (b *Blocks) fetch(ctx context.Context, first, count int64, into func(block int64) []byte,
	done func(block int64)) error {
	come := b.start.has(first, count)
	if come == 0 || come == count {
		return b.fetchRange(ctx, first, count, into, done)
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return b.fetchRange(ctx, first, come, into, done) })
	both.Go(func() error { return b.fetchRange(ctx, first+come, count-come, into, done) })
	return both.Wait()
}

// fetchRange is fetch with one request, and with further ones for what is missing after a connection was lost.
// Each block is proven and opened while the next arrives.
func (b *Blocks) fetchRange(ctx context.Context, first, count int64, into func(block int64) []byte,
	done func(block int64)) error {
	if count == 0 {
		return nil
	}
	b.use.RLock()
	defer b.use.RUnlock()
	if b.life.Err() != nil {
		return fs.ErrClosed
	}
	ctx, cancel := context.WithCancel(call.Bridging(ctx))
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	f := &fetching{b: b, into: into, done: done, next: first, end: first + count,
		room: make(chan struct{}, sealedAhead), stop: cancel}
	f.prefetchLeaves(ctx, first/groupLeaves) // travels with the blocks
	if count > 1 {
		f.work = make(chan sealedBlock, sealedAhead)
		for range openers {
			f.tasks.Go(func() { f.openAll(ctx) })
		}
	}
	if err := f.receiveAll(ctx); err != nil {
		f.fail(err)
	}
	if f.work != nil {
		close(f.work)
	}
	f.tasks.Wait()
	if f.cause != nil {
		b.c.claims.keep(b.entry.Ref, b.claim) // opening it again is free for a while
	}
	return f.cause
}

// fail stops the work. The first error is that of all of it.
func (f *fetching) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause == nil {
		f.cause = err
		f.stop()
	}
}

// prefetchLeaves asks for the leaves of a group, if they are not known and will be needed. A failure
// shows where they are.
func (f *fetching) prefetchLeaves(ctx context.Context, group int64) {
	if group*groupLeaves < f.end && !f.b.tree.has(group) {
		f.tasks.Go(func() { _, _ = f.b.tree.group(ctx, group) })
	}
}

// receiveAll receives all blocks. It goes on as long as each lost connection brought some.
func (f *fetching) receiveAll(ctx context.Context) error {
	for sealed := f.b.start.take(ctx, f.next); sealed != nil; sealed = f.b.start.take(ctx, f.next) {
		if err := f.receive(ctx, bytes.NewReader(sealed)); err != nil || f.next == f.end {
			return err
		}
	}
	return f.b.c.calls.Resume(ctx, call.Free, func() int64 { return f.next }, f.request)
}

// request asks for the blocks that have not arrived.
func (f *fetching) request(ctx context.Context) error {
	l := f.b.layout
	from, to := l.Offset(f.next), l.Offset(f.end-1)+l.Sealed(f.end-1)
	return f.b.c.calls.Do(ctx, call.Call{Kind: call.Once, Method: http.MethodGet, Path: f.b.dataURL, Long: true,
		Header: http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", from, to-1)}},
		Answer: func(resp *http.Response) error {
			if err := f.b.checkRange(resp, from, to); err != nil {
				return err
			}
			for f.next < f.end {
				if err := f.receive(ctx, resp.Body); err != nil {
					return err
				}
			}
			if n, _ := io.ReadFull(resp.Body, make([]byte, 1)); n != 0 {
				return call.Malformed(errors.New("more data than asked for"))
			}
			return nil
		}})
}

// checkRange checks that an answer is the range that was asked for, of the same file as before.
func (b *Blocks) checkRange(resp *http.Response, from, to int64) error {
	if resp.StatusCode != http.StatusPartialContent {
		return call.Malformed(fmt.Errorf("status %d to a request for a range", resp.StatusCode))
	}
	want := fmt.Sprintf("bytes %d-%d/%d", from, to-1, b.layout.SealedBytes())
	if got := resp.Header.Get("Content-Range"); got != want {
		return call.Malformed(fmt.Errorf("range %s, and %s was asked for", quote(got), quote(want)))
	}
	if resp.ContentLength >= 0 && resp.ContentLength != to-from {
		return call.Malformed(fmt.Errorf("data of %d bytes for a range of %d", resp.ContentLength, to-from))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	etag := resp.Header.Get("Etag")
	if b.etag != "" && etag != b.etag {
		return call.Malformed(errors.New("the data changed while the file was open"))
	}
	b.etag = etag
	return nil
}

// receive receives the next block.
func (f *fetching) receive(ctx context.Context, in io.Reader) error {
	select {
	case f.room <- struct{}{}:
	case <-ctx.Done():
		return call.Ended(ctx)
	}
	s := sealedBlock{f.next, f.b.c.blocks.buffer(f.b.layout)}
	*s.bytes = (*s.bytes)[:f.b.layout.Sealed(s.block)]
	if _, err := call.Fill(*s.bytes, in); err != nil {
		f.drop(s)
		return err
	}
	if f.next++; f.next%groupLeaves == groupLeaves/2 {
		f.prefetchLeaves(ctx, f.next/groupLeaves+1)
	}
	if f.b.received != nil {
		f.b.received(int64(len(*s.bytes)))
	}
	if f.work == nil {
		return f.open(ctx, s, &opener{})
	}
	f.work <- s // has room for all that are in memory
	return nil
}

// drop gives the memory of a sealed block back.
func (f *fetching) drop(s sealedBlock) {
	f.b.c.blocks.scratch.Put(s.bytes)
	<-f.room
}

// buffer returns memory for a sealed block, which is not secret.
func (br *blockReader) buffer(l format.Layout) *[]byte {
	need := int(l.BlockBytes + format.Overhead)
	if b, ok := br.scratch.Get().(*[]byte); ok && cap(*b) >= need {
		return b
	}
	b := make([]byte, need)
	return &b
}

// openAll opens blocks until there are no more.
func (f *fetching) openAll(ctx context.Context) {
	var o opener
	for s := range f.work {
		if err := f.open(ctx, s, &o); err != nil {
			f.fail(err)
		}
	}
}

// opener keeps the cipher of the run that it opened last.
type opener struct {
	run    *format.Run
	cipher *format.BlockCipher
}

// open proves a block and opens it.
func (f *fetching) open(ctx context.Context, s sealedBlock, o *opener) error {
	defer f.drop(s)
	if ctx.Err() != nil {
		return call.Ended(ctx)
	}
	leaf := format.Leaf(*s.bytes)
	group, err := f.b.tree.group(ctx, s.block/groupLeaves)
	if err != nil {
		return err
	}
	if leaf != group[s.block%groupLeaves] {
		return call.Malformed(fmt.Errorf("block %d is not the one that the ledger recorded: it was changed after its "+
			"upload",
			s.block))
	}
	if run := f.b.manifest.Find(s.block); run != o.run {
		key, err := f.b.partKey(run)
		if err != nil {
			return err
		}
		o.run = run
		o.cipher, err = format.NewBlockCipher(key)
		key.Wipe()
		if err != nil {
			return err
		}
	}
	into := f.into(s.block)
	// the record commits to block and key
	if _, err := o.cipher.Open(into[:0:len(into)], s.block, *s.bytes); err != nil {
		return fmt.Errorf("%w: block %d, as it was uploaded, does not open with its key: %w", ErrWrongContent,
			s.block, err)
	}
	if f.done != nil {
		f.done(s.block)
	}
	return nil
}
