package sdk

import (
	"fmt"
	"io"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
)

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
		return &Error{Op: "check", Kind: ErrInvalid, Err: fmt.Errorf("block %d of %d bytes: want 1 to %d", i,
			len(plain), s.u.blockBytes)}
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
				err = &Error{Op: "check", Kind: ErrInvalid,
					Err: fmt.Errorf("block %d of %d bytes before block %d: want %d", i, len(plain), i+1,
						s.u.blockBytes)}
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
			return 0, call.ErrEnded
		default:
			b.tail, b.rest = true, *b.s.end
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// isCut reports whether not all blocks were sealed. ready must be closed.
func (b *sealedBody) isCut() bool {
	b.s.u.mu.Lock()
	defer b.s.u.mu.Unlock()
	return !b.s.a.isSealed()
}
