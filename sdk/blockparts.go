package sdk

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// partsAtOnce is how many parts of an upload are sent at the same time.
	partsAtOnce = 4
	// blocksAhead is how many blocks of a part are sealed before the network takes them.
	blocksAhead = 2
	// maxPartsBytes bounds the list of the parts of an upload, in bytes: about 300,000 parts.
	maxPartsBytes = 64 << 20
	// maxTaken is how often the service may say that a new part is there already.
	maxTaken = 3
)

// sentPart is a part that the service has.
type sentPart struct {
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
// A lost connection is retried as [Config].Patience says, and as long as blocks arrive; a part that
// arrived is not sent again. After an error blocks are as before, or sent, or missing. Free; needs the
// API key and membership. Errors: those of read, which errors.Is finds, and those of [Group.Put];
// [ErrNotFound] if the service has given the upload up: begin again.
func (u *BlockUpload) PutPart(ctx context.Context, blocks format.Extents,
	read func(block int64, into []byte) (int, error)) error {
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
				return nil, &Error{Op: "check", Kind: ErrInvalid, Err: fmt.Errorf("block %d of %d bytes: want 1 to %d",
					i, n, len(into))}
			}
			return into[:n], nil
		})
	}()
	return u.c.wrap("send blocks", u.group, "", err)
}

// putPart is PutPart without a copy: plain returns a block, which is read until the next call.
func (u *BlockUpload) putPart(ctx context.Context, blocks format.Extents,
	plain func(block int64) ([]byte, error)) error {
	ctx = call.Bridging(ctx)
	u.mu.Lock()
	s := &sendingPart{u: u, left: slices.Clone(blocks), plain: plain, order: u.order}
	u.order++
	u.mu.Unlock()
	defer s.sure()
	arrived := func() int64 { return -s.left.Blocks() }
	for len(s.left) > 0 {
		if err := u.c.calls.Resume(ctx, call.Asked, arrived, s.step); err != nil {
			return cmp.Or(s.failed, err)
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
	unsure *attempt // the last one, if it is not known whether it arrived
	taken  int      // how often a new part was said to be there
	failed error    // of plain
}

// errPlain ends the tries after an error of plain, which may look like that of a connection.
var errPlain = errors.New("the content cannot be read")

// step finds out whether the last attempt arrived, and sends the next blocks.
func (s *sendingPart) step(ctx context.Context) error {
	if s.unsure != nil {
		if err := s.ask(ctx); err != nil {
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
	a, err := s.send(ctx, n)
	s.u.flow.give(n, err == nil, s.unsure != nil)
	if err != nil {
		return err
	}
	if s.unsure == nil {
		s.arrived(a)
	}
	return nil
}

// sure ends the doubt about what arrived.
func (s *sendingPart) sure() {
	if s.unsure != nil {
		s.unsure = nil
		s.u.flow.sure()
	}
}

// attempt is one PUT. Each has an id and a key of its own.
type attempt struct {
	id     format.PartID
	blocks format.Extents
	key    [format.WrappedKeyBytes]byte // under the file key
	last   int64                        // plaintext of the last block, in bytes
	leaves []format.Hash
}

// newAttempt returns an attempt to send blocks, and what seals them under a new key.
func (u *BlockUpload) newAttempt(blocks format.Extents) (*attempt, *format.BlockCipher, error) {
	partKey, err := format.RandomKey()
	if err != nil {
		return nil, nil, err
	}
	defer partKey.Wipe()
	cipher, err := format.NewBlockCipher(partKey)
	if err != nil {
		return nil, nil, err
	}
	a := &attempt{blocks: blocks}
	_, _ = rand.Read(a.id[:]) // never fails
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended != nil {
		return nil, nil, u.ended
	}
	a.key, err = format.WrapKey(u.key, partKey)
	return a, cipher, err
}

// send sends the first n blocks that are left. Without an error they arrived, or s.unsure says that the service has to
// be asked.
func (s *sendingPart) send(ctx context.Context, n int64) (*attempt, error) {
	u := s.u
	a, cipher, err := u.newAttempt(firstBlocks(s.left, n))
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
		u.gone(a)
		return nil, errPlain
	}
	if err == nil {
		if err = u.judge(a, answer); err != nil {
			u.gone(a)
		}
		return a, err
	}
	var refused *call.Refusal
	switch isAnswer := errors.As(err, &refused); {
	case isAnswer && refused.Code == wire.CodePartExists && s.taken < maxTaken: // a request that was repeated below
		s.taken++
		s.unsure, err = a, nil
	case !isAnswer || isOutcomeUnknown(err):
		s.unsure = a
	default:
		u.gone(a)
	}
	return a, err
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
		u.attempts = make(map[format.PartID]*attempt)
	}
	u.attempts[a.id] = a
}

// gone ends what begun began.
func (u *BlockUpload) gone(a *attempt) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.attempts, a.id)
}

// sealedLeaf notes the leaf of the next block of an attempt.
func (u *BlockUpload) sealedLeaf(a *attempt, leaf format.Hash) {
	u.mu.Lock()
	a.leaves = append(a.leaves, leaf)
	all := a.isSealed()
	u.mu.Unlock()
	if all && u.changed != nil {
		u.changed()
	}
}

// isSealed reports whether all leaves are known. Where this process ends, the next one knows by them whether the part
// arrived.
func (a *attempt) isSealed() bool { return int64(len(a.leaves)) == a.blocks.Blocks() }

// arrived notes that an attempt with the first of the blocks that are left has arrived.
func (s *sendingPart) arrived(a *attempt) {
	s.left = withoutFirst(s.left, a.blocks.Blocks())
	s.u.mu.Lock()
	delete(s.u.attempts, a.id)
	part := &sentPart{id: a.id, key: a.key, blocks: a.blocks, root: format.RootOf(a.leaves), leaves: a.leaves,
		last: a.last, order: s.order}
	sent := part.saved()
	s.u.enter(part)
	s.u.mu.Unlock()
	if s.u.note != nil {
		s.u.note(sent)
	}
	s.u.meter.kept(a.blocks.Blocks())
	if s.u.changed != nil {
		s.u.changed()
	}
}

// judge compares what the service says that it stored with what was sent.
func (u *BlockUpload) judge(a *attempt, p wire.Part) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p.ID != a.id.String() || p.Blocks != a.blocks.String() || !a.isSealed() {
		return call.Malformed(fmt.Errorf("part %.40s has blocks %.60s, and %.60s were sent as part %s", p.ID, p.Blocks,
			a.blocks, a.id))
	}
	if root := format.RootOf(a.leaves); hex.EncodeToString(root[:]) != p.ETag {
		return call.Malformed(fmt.Errorf("part %s has other bytes than those that were sent", p.ID))
	}
	return nil
}

// ask asks whether the unsure attempt arrived.
func (s *sendingPart) ask(ctx context.Context) error {
	a := s.unsure
	list, err := s.u.listParts(ctx, call.Once, a.id.String())
	if err != nil {
		return err
	}
	s.sure()
	if len(list) > 0 {
		if err = s.u.judge(a, list[0]); err == nil {
			s.arrived(a)
		}
	}
	s.u.gone(a)
	return err
}

// put sends an attempt once.
func (u *BlockUpload) put(ctx context.Context, a *attempt, seal *sealing) (stored wire.Part, err error) {
	query := url.Values{"group_id": {string(u.group)}, "block_size": {strconv.FormatInt(u.blockBytes, 10)},
		"blocks": {a.blocks.String()}}
	count := u.meter.body()
	defer count.end()
	err = u.c.calls.Do(ctx, call.Call{Kind: call.Once, Method: http.MethodPut,
		Path: wire.PathParts + u.id + "/" + a.id.String(), Query: query.Encode(), Long: true, Progress: count.sent,
		Body: &call.Body{Length: seal.length(), Open: seal.open}, Answer: u.c.tools.result(call.MaxAnswer, &stored)})
	return stored, err
}

// listParts asks which parts the service has: the one with an id, "" = all.
func (u *BlockUpload) listParts(ctx context.Context, kind call.Kind, id string) ([]wire.Part, error) {
	var query string
	if id != "" {
		query = url.Values{"part": {id}}.Encode()
	}
	var answer wire.PartsResult
	err := u.c.calls.Do(ctx, call.Call{Kind: kind, Method: http.MethodGet, Path: wire.PathParts + u.id, Query: query,
		Long: true, Answer: u.c.tools.result(maxPartsBytes, &answer)})
	return answer.Parts, err
}

// reconcile forgets the parts that the service has no more.
func (u *BlockUpload) reconcile(ctx context.Context) error {
	list, err := u.listParts(ctx, call.Free, "")
	if err != nil {
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
