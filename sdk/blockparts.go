package sdk

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// partsAtOnce is how many parts of an upload are sent at the same time.
	partsAtOnce = 4
	// blocksAhead is how many blocks of a part are sealed before the network takes them.
	blocksAhead = 2
	// maxPartsBytes bounds the list of the parts of an upload, in bytes: about 300,000 parts.
	maxPartsBytes = 64 << 20
	// maxTaken is how often the service may say that the number of a part is taken.
	maxTaken = 3
)

// sentPart is a part that the service has.
type sentPart struct {
	number int64
	id     format.PartID
	key    [format.WrappedKeyBytes]byte // of the part, under the file key
	blocks format.Extents
	root   format.Hash
	leaves []format.Hash // nil: only root is known, or no block of the part counts any more
	last   int64         // plaintext of its last block, in bytes; 0 = as the layout says
	order  int64         // of the PutPart that sent it
	live   int64         // blocks of it that no later part replaced
}

func (p *sentPart) etag() string { return hex.EncodeToString(p.root[:]) }

// isSubtree reports whether the root of p is a node of the tree of the whole file.
func (p *sentPart) isSubtree() bool {
	n := p.blocks.Blocks()
	return len(p.blocks) == 1 && bits.OnesCount64(uint64(n)) == 1 && p.blocks[0].First%n == 0
}

// holds reports whether p has block i as a file with the layout l needs it.
func (p *sentPart) holds(i int64, l format.Layout) bool {
	if p.leaves == nil && (!p.isSubtree() || p.live != p.blocks.Blocks()) {
		return false
	}
	have := l.BlockBytes
	if last := p.blocks[len(p.blocks)-1]; i == last.First+last.Count-1 && p.last > 0 {
		have = p.last
	}
	return have == l.Plain(i) || p.last == 0
}

// leaf returns the leaf of a block of p.
func (p *sentPart) leaf(i int64) format.Hash {
	at, _ := p.blocks.Index(i)
	return p.leaves[at]
}

// owner returns the part that block i is in, nil if it was not sent. The caller holds mu.
func (u *BlockUpload) owner(i int64) *sentPart {
	if group := u.owners[i/ownersTogether]; group != nil && group[i%ownersTogether] > 0 {
		return u.parts[group[i%ownersTogether]-1]
	}
	return nil
}

// enter notes a part that the service has. A block that a later PutPart sent stays with that one. The
// caller holds mu.
func (u *BlockUpload) enter(p *sentPart) {
	u.parts = append(u.parts, p)
	for _, x := range p.blocks {
		for i := x.First; i < x.First+x.Count; i++ {
			before := u.owner(i)
			if before != nil && before.order > p.order {
				continue
			}
			u.drop(i)
			group := u.owners[i/ownersTogether]
			if group == nil {
				group = new([ownersTogether]int32)
				u.owners[i/ownersTogether] = group
			}
			group[i%ownersTogether] = int32(len(u.parts))
			p.live++
		}
	}
}

// drop forgets that block i was sent. The caller holds mu.
func (u *BlockUpload) drop(i int64) {
	p := u.owner(i)
	if p == nil {
		return
	}
	u.owners[i/ownersTogether][i%ownersTogether] = 0
	if p.live--; p.live == 0 {
		p.leaves = nil
	}
}

// dropPart forgets a part that the service has no more. The caller holds mu.
func (u *BlockUpload) dropPart(p *sentPart) {
	for _, x := range p.blocks {
		for i := x.First; i < x.First+x.Count; i++ {
			if u.owner(i) == p {
				u.drop(i)
			}
		}
	}
}

// PutPart seals blocks and sends them. read fills into, of [BlockUpload.BlockBytes], with the plaintext
// of a block; of the last block of the file it may return fewer bytes, but not none. read is called for
// each block at least once, for one at a time, and not after PutPart returned. Of a block that is sent
// twice the later PutPart counts. blocks may be more than [BlockUpload.PartBlocks]; up to four
// parts are sent at the same time, the others wait.
//
// A lost connection is retried as [Config].Patience says, and as long as blocks arrive; what
// arrived is not sent again. After an error blocks are as before, or sent, or missing. Free; needs the
// API key and membership. Errors: those of read, which errors.Is finds, and those of [Group.Put];
// [ErrNotFound] if the service has given the upload up: begin again.
func (u *BlockUpload) PutPart(ctx context.Context, blocks format.Extents, read func(block int64, into []byte) (int, error)) error {
	err := func() error {
		buf, err := u.c.pool.Get(u.blockBytes)
		if err != nil {
			return err
		}
		defer buf.Release()
		return u.putPart(ctx, blocks, func(i int64) ([]byte, error) {
			into := buf.Bytes()
			n, err := read(i, into)
			if err != nil {
				return nil, fmt.Errorf("read block %d: %w", i, err)
			}
			if n < 0 || n > len(into) {
				return nil, &Error{Op: "check", Kind: ErrInvalid, Err: fmt.Errorf("block %d of %d bytes: want 1 to %d", i, n, len(into))}
			}
			return into[:n], nil
		})
	}()
	return u.c.wrap("send blocks", u.key.group, "", err)
}

// putPart is PutPart without a copy: plain returns a block, which is read until the next call.
func (u *BlockUpload) putPart(ctx context.Context, blocks format.Extents, plain func(block int64) ([]byte, error)) error {
	ctx = bridging(ctx)
	u.mu.Lock()
	s := &sendingPart{u: u, left: slices.Clone(blocks), plain: plain, order: u.order}
	u.order++
	u.mu.Unlock()
	defer s.sure()
	for len(s.left) > 0 {
		before := s.left.Blocks()
		err := u.c.retryWhen(ctx, s.passing, s.step)
		switch {
		case err == nil:
			continue
		case s.failed != nil:
			return s.failed
		}
		// If blocks arrived since, the connection is bad, but not dead.
		if _, passes := passingBlocks(err); !passes || ctx.Err() != nil || s.left.Blocks() == before {
			return err
		}
	}
	return nil
}

// sendingPart is one PutPart.
type sendingPart struct {
	u      *BlockUpload
	left   format.Extents // not known to have arrived
	plain  func(int64) ([]byte, error)
	order  int64
	unsure *attempt // the last one, if it is not known what of it arrived
	taken  int      // how often a number was taken
	failed error    // of plain
	stood  bool     // the last attempt stood still, and nothing has arrived since
}

// passing reports whether a fault is temporary. The first transfer that stands still is, because
// some blocks of it may have arrived; the second one is not, unless some had.
func (s *sendingPart) passing(err error) (pause time.Duration, passes bool) {
	if errors.Is(err, errTooSlow) {
		stood := s.stood
		s.stood = true
		return 0, !stood
	}
	return passing(err)
}

// errPlain ends the tries after an error of plain, which may look like that of a connection.
var errPlain = errors.New("the content cannot be read")

// errTaken means that the number of a part is taken: the next step finds out by what.
var errTaken = errors.New("the number of the part is taken")

// step finds out what of the last attempt arrived, and sends the next blocks.
func (s *sendingPart) step(ctx context.Context) error {
	if s.unsure != nil {
		if err := s.settle(ctx); err != nil {
			return err
		}
		if len(s.left) == 0 {
			return nil
		}
	}
	n, err := s.u.flow.take(ctx, min(s.left.Blocks(), s.u.partBlocks))
	if err != nil {
		return err
	}
	part, err := s.send(ctx, n)
	s.u.flow.give(n, err == nil || err == errTaken, s.unsure != nil)
	if err == errTaken {
		return nil
	}
	if err != nil {
		return err
	}
	s.arrived(part)
	return nil
}

// sure ends the doubt about what arrived.
func (s *sendingPart) sure() {
	if s.unsure != nil {
		s.unsure = nil
		s.u.flow.sure()
	}
}

// attempt is one PUT.
type attempt struct {
	number   int64
	replaces *sentPart // nil: the number is new
	blocks   format.Extents
	key      [format.WrappedKeyBytes]byte
	last     int64 // plaintext of the last block, in bytes
	leaves   []format.Hash
}

// send sends the first n blocks that are left.
func (s *sendingPart) send(ctx context.Context, n int64) (*sentPart, error) {
	u := s.u
	partKey, err := format.RandomKey()
	if err != nil {
		return nil, err
	}
	cipher, err := format.NewBlockCipher(partKey)
	if err != nil {
		return nil, err
	}
	a := &attempt{blocks: firstBlocks(s.left, n)}
	u.mu.Lock()
	if err = u.ended; err == nil {
		a.key, err = format.WrapKey(u.ticket.key, partKey)
	}
	if err == nil {
		if a.replaces = u.replaceable(a.blocks); a.replaces != nil {
			a.number = a.replaces.number
		} else {
			a.number = u.number
			u.number++
		}
	}
	u.mu.Unlock()
	partKey.Wipe()
	if err != nil {
		return nil, err
	}
	seal := &sealing{u: u, a: a, cipher: cipher, plain: s.plain}
	if s.failed = seal.tail(); s.failed != nil {
		return nil, errPlain
	}
	defer seal.release()
	u.begun(a)
	answer, err := u.put(ctx, a, seal)
	seal.stop()
	if s.failed = seal.err; s.failed != nil {
		return nil, errPlain
	}
	if err != nil {
		defer func() {
			if s.unsure == nil {
				u.gone(a)
			}
		}()
		var refused *answerError
		switch isAnswer := errors.As(err, &refused); {
		case isAnswer && refused.code == wire.CodePartExists && s.taken < maxTaken:
			s.taken++
			if a.replaces != nil {
				u.mu.Lock()
				a.replaces.number = -1 // somebody else replaced it: never again
				u.mu.Unlock()
			}
			s.unsure = a
			return nil, errTaken
		case !isAnswer || isOutcomeUnknown(err):
			s.unsure = a
		}
		return nil, err
	}
	return s.judge(a, answer)
}

// replaceable returns the part that has just these blocks, all of them still valid, or nil. The caller
// holds mu.
func (u *BlockUpload) replaceable(blocks format.Extents) *sentPart {
	p := u.owner(blocks[0].First)
	if p == nil || p.number < 0 || p.live != p.blocks.Blocks() || !slices.Equal(p.blocks, blocks) {
		return nil
	}
	return p
}

// firstBlocks returns the first n blocks of e.
func firstBlocks(e format.Extents, n int64) (first format.Extents) {
	for _, x := range e {
		if n == 0 {
			break
		}
		x.Count = min(x.Count, n)
		n -= x.Count
		first = append(first, x)
	}
	return first
}

// withoutFirst returns e without its first n blocks.
func withoutFirst(e format.Extents, n int64) (rest format.Extents) {
	for _, x := range e {
		skip := min(x.Count, n)
		n -= skip
		if x.Count > skip {
			rest = append(rest, format.Extent{First: x.First + skip, Count: x.Count - skip})
		}
	}
	return rest
}

// begun notes that a part is being sent.
func (u *BlockUpload) begun(a *attempt) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.attempts == nil {
		u.attempts = make(map[int64]*attempt)
	}
	u.attempts[a.number] = a
}

// gone ends what begun began.
func (u *BlockUpload) gone(a *attempt) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.attempts, a.number)
}

// sealedLeaf notes the leaf of the next block of an attempt. Where this process ends, the next one knows
// by the leaves what arrived.
func (u *BlockUpload) sealedLeaf(a *attempt, leaf format.Hash) {
	u.mu.Lock()
	a.leaves = append(a.leaves, leaf)
	u.mu.Unlock()
	if u.changed != nil {
		u.changed()
	}
}

// arrived notes a part that has the first of the blocks that are left.
func (s *sendingPart) arrived(part *sentPart) {
	s.left, s.stood = withoutFirst(s.left, part.blocks.Blocks()), false
	s.u.mu.Lock()
	delete(s.u.attempts, part.number)
	s.u.enter(part)
	s.u.mu.Unlock()
	s.u.meter.kept(part.blocks.Blocks())
	if s.u.changed != nil {
		s.u.changed()
	}
}

// judge compares what the service says that it stored with what was sent: all of it, or the first
// blocks.
func (s *sendingPart) judge(a *attempt, p wire.Part) (*sentPart, error) {
	id, err := format.ParsePartID(p.ID)
	if err != nil {
		return nil, malformed(err)
	}
	blocks, err := format.ParseExtents(p.Blocks, a.blocks.Blocks())
	if err != nil {
		return nil, malformed(err)
	}
	n := blocks.Blocks()
	if p.Number != a.number || !slices.Equal(blocks, firstBlocks(a.blocks, n)) || n > int64(len(a.leaves)) {
		return nil, malformed(fmt.Errorf("part %d has blocks %.60s, and %.60s were sent as part %d", p.Number, p.Blocks, a.blocks, a.number))
	}
	part := &sentPart{number: a.number, id: id, key: a.key, blocks: blocks, leaves: a.leaves[:n:n], order: s.order}
	if n == a.blocks.Blocks() {
		part.last = a.last
	} else {
		part.last = s.u.blockBytes
	}
	if part.root = format.RootOf(part.leaves); part.etag() != p.ETag {
		return nil, malformed(fmt.Errorf("part %d has other bytes than those that were sent", p.Number))
	}
	return part, nil
}

// settle asks what of the unsure attempt arrived.
func (s *sendingPart) settle(ctx context.Context) error {
	a := s.unsure
	list, err := s.u.listParts(ctx)
	if err != nil {
		return err
	}
	s.sure()
	s.u.gone(a)
	at, found := slices.BinarySearchFunc(list, a.number, func(p wire.Part, n int64) int { return int(p.Number - n) })
	if !found {
		if a.replaces != nil {
			s.u.mu.Lock()
			s.u.dropPart(a.replaces)
			s.u.mu.Unlock()
		}
		return nil
	}
	p := list[at]
	if a.replaces != nil && p.ETag == a.replaces.etag() && p.Blocks == a.replaces.blocks.String() {
		return nil
	}
	part, err := s.judge(a, p)
	if err != nil {
		if s.taken > 0 { // another program sent it: the next attempt has another number
			s.u.mu.Lock()
			if a.replaces != nil {
				s.u.dropPart(a.replaces)
			}
			s.u.number = max(s.u.number, list[len(list)-1].Number+1)
			s.u.mu.Unlock()
			return nil
		}
		return err
	}
	if a.replaces != nil {
		s.u.mu.Lock()
		s.u.dropPart(a.replaces)
		s.u.mu.Unlock()
	}
	s.arrived(part)
	return nil
}

// put sends an attempt once.
func (u *BlockUpload) put(ctx context.Context, a *attempt, seal *sealing) (stored wire.Part, err error) {
	header := http.Header{wire.HeaderPartKey: {base64.StdEncoding.EncodeToString(a.key[:])}}
	if a.replaces != nil {
		header.Set("If-Match", `"`+a.replaces.etag()+`"`)
	}
	count := u.meter.body()
	defer count.end()
	body := outgoing{kind: "application/octet-stream", length: seal.length(), open: seal.open, header: header, query: "blocks=" + a.blocks.String(), sent: count.sent}
	target := u.ticket.parts.url + "/" + strconv.FormatInt(a.number, 10)
	err = u.c.authorized(ctx, func(token Secret) error {
		return u.c.transfer(ctx, http.MethodPut, target, token, body, func(resp *http.Response, in io.Reader) error {
			raw, err := readBounded(in, resp.ContentLength, maxAnswerBytes)
			if err != nil {
				return err
			}
			return u.c.decodeResult(raw, &stored)
		})
	})
	return stored, err
}

// listParts asks which parts the service has.
func (u *BlockUpload) listParts(ctx context.Context) ([]wire.Part, error) {
	var answer wire.PartsResult
	err := u.c.authorized(ctx, func(token Secret) error {
		return u.c.transfer(ctx, http.MethodGet, u.ticket.parts.url, token, outgoing{}, func(resp *http.Response, in io.Reader) error {
			raw, err := readBounded(in, resp.ContentLength, maxPartsBytes)
			if err != nil {
				return err
			}
			answer = wire.PartsResult{}
			return u.c.decodeResult(raw, &answer)
		})
	})
	if err == nil && !slices.IsSortedFunc(answer.Parts, func(a, b wire.Part) int { return int(a.Number - b.Number) }) {
		err = malformed(errors.New("its parts are not in order"))
	}
	return answer.Parts, err
}

// reconcile forgets the parts that the service has no more.
func (u *BlockUpload) reconcile(ctx context.Context) error {
	var list []wire.Part
	if err := u.c.retry(ctx, func(ctx context.Context) (err error) {
		list, err = u.listParts(ctx)
		return err
	}); err != nil {
		return err
	}
	there := make(map[string]string, len(list))
	for _, p := range list {
		there[p.ID] = p.ETag
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, p := range u.parts {
		if there[p.id.String()] != p.etag() {
			u.dropPart(p)
		}
	}
	return nil
}

// putManifest sends a manifest that is too long for the finalize.
func (u *BlockUpload) putManifest(ctx context.Context, raw []byte) error {
	body := outgoing{kind: "application/octet-stream", length: int64(len(raw)), open: func() io.Reader { return bytes.NewReader(raw) }}
	return u.c.retry(ctx, func(ctx context.Context) error {
		return u.c.authorized(ctx, func(token Secret) error {
			return u.c.transfer(ctx, http.MethodPut, u.ticket.parts.url+"/"+wire.ManifestPart, token, body, func(_ *http.Response, in io.Reader) error {
				_, err := io.Copy(io.Discard, io.LimitReader(in, maxErrorBytes))
				return err
			})
		})
	})
}

// sealing seals the blocks of an attempt while they are sent.
type sealing struct {
	u      *BlockUpload
	a      *attempt
	cipher *format.BlockCipher
	plain  func(int64) ([]byte, error)
	end    *[]byte     // the last block, sealed first, because only it tells the length
	leaf   format.Hash // of end
	body   *sealedBody // the newest
	err    error       // of plain
}

// tail seals the last block.
func (s *sealing) tail() error {
	last := s.a.blocks[len(s.a.blocks)-1]
	i := last.First + last.Count - 1
	plain, err := s.plain(i)
	if err != nil {
		return err
	}
	if len(plain) == 0 || int64(len(plain)) > s.u.blockBytes {
		return &Error{Op: "check", Kind: ErrInvalid, Err: fmt.Errorf("block %d of %d bytes: want 1 to %d", i, len(plain), s.u.blockBytes)}
	}
	s.a.last = int64(len(plain))
	buf := s.u.sealed.Get().(*[]byte)
	if *buf, err = s.cipher.Seal((*buf)[:0], i, plain); err != nil {
		s.u.sealed.Put(buf)
		return err
	}
	s.end, s.leaf = buf, format.Leaf(*buf)
	return nil
}

func (s *sealing) length() int64 {
	return (s.a.blocks.Blocks()-1)*(s.u.blockBytes+format.Overhead) + s.a.last + format.Overhead
}

// open returns a body, which takes the place of the earlier one.
func (s *sealing) open() io.Reader {
	s.stop()
	s.u.mu.Lock()
	s.a.leaves = nil
	s.u.mu.Unlock()
	b := &sealedBody{s: s, ready: make(chan *[]byte, blocksAhead), quit: make(chan struct{}), done: make(chan struct{})}
	s.body = b
	go b.work()
	return b
}

// stop ends the newest body. Afterwards nothing calls plain.
func (s *sealing) stop() {
	b := s.body
	if b == nil {
		return
	}
	s.body = nil
	close(b.quit)
	<-b.done
	for buf := range b.ready {
		s.u.sealed.Put(buf)
	}
	if b.now != nil {
		s.u.sealed.Put(b.now)
	}
}

func (s *sealing) release() { s.u.sealed.Put(s.end) }

// sealedBody is the body of one request.
type sealedBody struct {
	s          *sealing
	ready      chan *[]byte // sealed blocks in order
	quit, done chan struct{}

	now  *[]byte // being read; a block of the pool
	rest []byte
	tail bool // rest is of the last block
}

// work seals all blocks but the last.
func (b *sealedBody) work() {
	defer close(b.done)
	defer close(b.ready)
	s := b.s
	left := s.a.blocks.Blocks()
	for _, x := range s.a.blocks {
		for i := x.First; i < x.First+x.Count; i++ {
			if left--; left == 0 {
				s.u.sealedLeaf(s.a, s.leaf)
				return
			}
			select {
			case <-b.quit:
				return
			default:
			}
			plain, err := s.plain(i)
			if err == nil && int64(len(plain)) != s.u.blockBytes {
				err = &Error{Op: "check", Kind: ErrInvalid, Err: fmt.Errorf("block %d of %d bytes before block %d: want %d", i, len(plain), i+1, s.u.blockBytes)}
			}
			buf := s.u.sealed.Get().(*[]byte)
			if err == nil {
				*buf, err = s.cipher.Seal((*buf)[:0], i, plain)
			}
			if err != nil {
				s.err = err
				s.u.sealed.Put(buf)
				return
			}
			s.u.sealedLeaf(s.a, format.Leaf(*buf))
			select {
			case b.ready <- buf:
			case <-b.quit:
				s.u.sealed.Put(buf)
				return
			}
		}
	}
}

func (b *sealedBody) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if b.now != nil {
			b.s.u.sealed.Put(b.now)
			b.now = nil
		}
		next, more := <-b.ready
		switch {
		case more:
			b.now, b.rest = next, *next
		case b.tail:
			return 0, io.EOF
		case b.isCut():
			return 0, errEnded
		default:
			b.tail, b.rest = true, *b.s.end
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// isCut reports whether not all blocks were sealed. ready must be closed.
func (b *sealedBody) isCut() bool { return int64(len(b.s.a.leaves)) < b.s.a.blocks.Blocks() }

// flow bounds how many blocks are under way. A lost connection loses what the service has not
// stored: the bound falls with each, and grows with each part that arrives. Nothing more is sent
// until the service answered what arrived.
type flow struct {
	most int64 // blocks

	mu      sync.Mutex
	budget  int64 // blocks that may be under way
	sending int64 // blocks that are
	doubts  int   // attempts of which it is not known what arrived
	waiting chan struct{}
}

// take waits until blocks may be sent, and returns how many, at most want.
func (f *flow) take(ctx context.Context, want int64) (int64, error) {
	for {
		f.mu.Lock()
		n := min(want, f.budget)
		if f.doubts == 0 && (f.sending == 0 || f.sending+n <= f.budget) {
			f.sending += n
			f.mu.Unlock()
			return n, nil
		}
		if f.waiting == nil {
			f.waiting = make(chan struct{})
		}
		waiting := f.waiting
		f.mu.Unlock()
		select {
		case <-waiting:
		case <-ctx.Done():
			return 0, ended(ctx)
		}
	}
}

// give ends what take began. After a doubt the caller must call sure.
func (f *flow) give(n int64, arrived, doubt bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sending -= n
	if arrived {
		f.budget = min(f.most, f.budget+max(1, f.budget/8))
	} else {
		f.budget = max(1, f.budget/4)
	}
	if doubt {
		f.doubts++
	}
	f.wake()
}

func (f *flow) sure() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doubts--
	f.wake()
}

// wake lets all that wait look again. The caller holds mu.
func (f *flow) wake() {
	if f.waiting != nil {
		close(f.waiting)
		f.waiting = nil
	}
}

// partsMeter counts the bytes of all parts of an upload.
type partsMeter struct {
	mu     sync.Mutex
	report reporter
	total  int64 // bytes of sealed blocks, -1 = not known
	sealed int64 // bytes of a sealed block
	done   int64 // bytes that arrived
	bodies map[*bodyMeter]struct{}
	told   int64
}

func newPartsMeter(report reporter, total, sealed int64) *partsMeter {
	if report == nil {
		return nil
	}
	return &partsMeter{report: report, total: total, sealed: sealed, bodies: make(map[*bodyMeter]struct{})}
}

// kept counts blocks that arrived.
func (m *partsMeter) kept(blocks int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += blocks * m.sealed
	m.tell()
}

// tell reports, unless less is done than before. The caller holds mu.
func (m *partsMeter) tell() {
	done := m.done
	for b := range m.bodies {
		done += b.done
	}
	if m.total >= 0 {
		done = min(done, m.total)
	}
	if done > m.told {
		m.told = done
		m.report(done, m.total)
	}
}

// bodyMeter counts the bytes of one request.
type bodyMeter struct {
	m    *partsMeter
	done int64
	sent reporter
}

func (m *partsMeter) body() *bodyMeter {
	b := &bodyMeter{m: m}
	if m == nil {
		return b
	}
	b.sent = func(done, _ int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		b.done = done
		m.tell()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bodies[b] = struct{}{}
	return b
}

// end takes the bytes back: kept counts those that arrived.
func (b *bodyMeter) end() {
	if b.m == nil {
		return
	}
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	delete(b.m.bodies, b)
}
