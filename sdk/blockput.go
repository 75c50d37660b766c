package sdk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// maxMissing is how often blocks are sent again that the service has no more.
const maxMissing = 4

// blockPut is a [Group.Put] of format version 2.
type blockPut struct {
	g    Group
	u    *BlockUpload
	free chan *mem.Buffer // for one part each; nil stands for one that is not allocated yet

	sending sync.WaitGroup
	cancel  context.CancelFunc
	mu      sync.Mutex
	failed  error // first error of a part
}

// putBlocks uploads what head, if it is not nil, and r hold. size is that of both, 0 if it is not
// known. The error is errNoBlocks, and nothing was read, if the group stays with version 1.
func (g Group) putBlocks(ctx context.Context, name string, r io.Reader, head *mem.Buffer, size int64,
	o options) (Receipt, error) {
	caps, err := g.c.Capabilities(ctx)
	if err != nil {
		return Receipt{}, err
	}
	if err := checkSize(size, maxBlocks(caps)); err != nil {
		return Receipt{}, err
	}
	source := openSource(r, head, size)
	saved := o.resume.open(g, name, source)
	defer saved.close()
	u, earlier, err := saved.begin(ctx, g)
	if err != nil {
		return Receipt{}, err
	}
	if earlier != nil { // recorded, and the answer was lost with its process
		saved.remove(ctx, g.c)
		g.c.uploads.reported(earlier.Ref)
		g.c.uploads.changed(g.ID, name)
		return *earlier, nil
	}
	receipt, err := g.sendBlocks(ctx, u, name, source, size, maxBlocks(caps), o)
	if err != nil && saved.resumed && source.changed() {
		saved.remove(ctx, g.c)
		err = &Error{Op: "check", Kind: ErrConflict,
			Err: fmt.Errorf("the file changed while it was read, so that what was sent before is of no use: upload "+
				"it again (%w)", err)}
	}
	if err == nil || isUploadGone(err) {
		saved.remove(ctx, g.c)
	}
	return receipt, err
}

// isUploadGone reports that the service knows an upload no more.
func isUploadGone(err error) bool { return codeOf(err) == wire.CodeUploadUnknown }

// sendBlocks sends all blocks that u lacks, and has the upload recorded.
func (g Group) sendBlocks(ctx context.Context, u *BlockUpload, name string, source *blockSource, size, limit int64,
	o options) (Receipt, error) {
	defer u.Abandon()
	total := int64(-1)
	if size > 0 {
		total = format.Layout{Size: size, BlockBytes: u.blockBytes}.SealedBytes()
	}
	u.meter = newPartsMeter(o.progress, total, u.blockBytes+format.Overhead)
	u.meter.kept(u.sentBlocks())
	size, hash, err := g.readAndSend(ctx, u, source, limit)
	if err != nil {
		return Receipt{}, err
	}
	if source.isResumed && source.changed() {
		return Receipt{}, errors.New("its size or a time differs")
	}
	key := uploadKey{group: g.ID, name: name, digest: hash}
	done, err := g.c.uploads.exclusive(ctx, key)
	if err != nil {
		return Receipt{}, err
	}
	defer done()
	if receipt, settled, err := g.c.uploads.sendUnsure(ctx, key, o); settled {
		return receipt, err
	}
	receipt, err := u.finishFrom(ctx, source, name, size, hash, o)
	if s := u.takeUnsure(); s != nil {
		g.c.uploads.ended(key, s, err)
	}
	if err == nil {
		u.meter.all()
	}
	return receipt, err
}

// sendUnsure sends the record of an earlier attempt again, if there is one. settled means that no other need be sent.
func (u *uploader) sendUnsure(ctx context.Context, k uploadKey, o options) (r Receipt, settled bool, err error) {
	before := u.takeSealed(k, o.base, true)
	if before == nil {
		return Receipt{}, false, nil
	}
	r, err = u.c.small.recordAgain(ctx, before, o.attrs)
	if err == nil {
		u.reported(r.Ref)
	}
	u.ended(k, before, err)
	return r, err == nil || isUnsure(err), err
}

// finishFrom has the upload recorded, and sends again what the service says it lacks.
func (u *BlockUpload) finishFrom(ctx context.Context, source *blockSource, name string, size int64, hash Digest,
	o options) (Receipt, error) {
	receipt, err := u.finish(ctx, name, size, hash, o)
	for range maxMissing {
		missing := u.Missing(size)
		if codeOf(err) != wire.CodeMissing || len(missing) == 0 || !source.again() {
			break
		}
		if err = u.putPart(ctx, missing, source.block(u.blockBytes)); err == nil && source.changed() {
			err = &Error{Op: "check", Kind: ErrConflict,
				Err: errors.New("the file changed while it was read: upload it again")}
		}
		if err == nil {
			receipt, err = u.finish(ctx, name, size, hash, o)
		}
	}
	return receipt, err
}

// sentBlocks counts the blocks that the service has.
func (u *BlockUpload) sentBlocks() (n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, p := range u.parts {
		n += p.live
	}
	return n
}

// readAndSend reads source to its end, sends the blocks that u lacks, and returns size and hash.
func (g Group) readAndSend(ctx context.Context, u *BlockUpload, source io.Reader, limit int64) (size int64, hash Digest,
	err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &blockPut{g: g, u: u, cancel: cancel, free: make(chan *mem.Buffer, partsAtOnce+1)}
	for range cap(p.free) {
		p.free <- nil
	}
	defer func() {
		p.sending.Wait()
		for range cap(p.free) {
			if buf := <-p.free; buf != nil {
				buf.Release()
			}
		}
	}()
	sum := sha256.New()
	partBytes := u.partBlocks * u.blockBytes
	for end := false; !end; {
		buf, err := p.buffer(ctx, partBytes)
		if err != nil {
			return 0, hash, p.why(err)
		}
		part := &filledPart{p: p, buf: buf, first: size / u.blockBytes}
		part.users.Store(1)
		var n int64
		n, end, err = readPart(ctx, source, buf.Bytes())
		part.bytes = n
		if size += n; err == nil {
			err = checkSize(size, limit)
		}
		if err == nil && n > 0 {
			p.send(ctx, part)
			_, _ = sum.Write(buf.Bytes()[:n]) // never fails
		}
		part.drop()
		if err != nil {
			err = p.why(err)
			cancel()
			return 0, hash, err
		}
	}
	p.sending.Wait()
	return size, Digest(sum.Sum(nil)), p.failed
}

// readPart fills into from r. end means that r has ended.
func readPart(ctx context.Context, r io.Reader, into []byte) (n int64, end bool, err error) {
	for n < int64(len(into)) {
		if err := ctx.Err(); err != nil {
			return n, false, err
		}
		got, err := r.Read(into[n:])
		n += int64(got)
		if err == io.EOF {
			return n, true, nil
		}
		if err != nil {
			return n, false, fmt.Errorf("read the content: %w", err)
		}
	}
	return n, false, nil
}

// buffer returns memory for a part, once there is some.
func (p *blockPut) buffer(ctx context.Context, bytes int64) (*mem.Buffer, error) {
	select {
	case buf := <-p.free:
		if buf != nil {
			return buf, nil
		}
		buf, err := p.g.c.pool.Get(bytes)
		if err != nil {
			p.free <- nil
		}
		return buf, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// why returns the error of a part, which ended the reading, or else err.
func (p *blockPut) why(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return p.failed
	}
	return err
}

// filledPart is a part that was read. It is hashed and sent at the same time.
type filledPart struct {
	p     *blockPut
	buf   *mem.Buffer
	first int64 // block
	bytes int64
	users atomic.Int32
}

// drop gives the memory back after the last use.
func (f *filledPart) drop() {
	if f.users.Add(-1) == 0 {
		f.p.free <- f.buf
	}
}

// send sends the blocks of a part that the service lacks, in the background.
func (p *blockPut) send(ctx context.Context, f *filledPart) {
	u := p.u
	var blocks format.Extents
	u.mu.Lock()
	for i := f.first; i < f.first+(f.bytes+u.blockBytes-1)/u.blockBytes; i++ {
		if u.owner(i) == nil {
			blocks = blocks.Add(i)
		}
	}
	u.mu.Unlock()
	if len(blocks) == 0 {
		return
	}
	f.users.Add(1)
	p.sending.Go(func() {
		defer f.drop()
		err := u.putPart(ctx, blocks, func(i int64) ([]byte, error) {
			at := (i - f.first) * u.blockBytes
			return f.buf.Bytes()[at:min(at+u.blockBytes, f.bytes)], nil
		})
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.failed == nil {
				p.failed = err
				p.cancel()
			}
		}
	})
}

// all reports the end.
func (m *partsMeter) all() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.total < 0 {
		m.total = m.told
		m.report(m.told, m.total)
		return
	}
	m.done = m.total
	m.tell()
}
