package sdk

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// startIdle is how long blocks behind the answer to an open wait for somebody who reads them.
const startIdle = 5 * time.Second

// blocksStart is the beginning of a file, which comes with the answer to its open. What nobody reads stays
// on the line and in the kernel. Nothing of it is proven. It is safe for concurrent use; nil has no block.
type blocksStart struct {
	layout format.Layout
	end    int64     // block after the last that comes
	in     io.Reader // sealed blocks, one after the other
	stop   func()    // ends the answer, at any time and more than once
	idle   *time.Timer

	turn  chan struct{} // has room for one: who holds it may use what follows
	next  int64         // block that in has next; end once nothing more comes
	early map[int64][]byte
}

func newBlocksStart(l format.Layout, end int64, in io.Reader, stop func()) *blocksStart {
	s := &blocksStart{layout: l, end: end, in: in, stop: stop, turn: make(chan struct{}, 1),
		early: make(map[int64][]byte)}
	s.turn <- struct{}{}
	s.idle = time.AfterFunc(startIdle, func() {
		select {
		case s.turn <- struct{}{}:
			s.giveUp()
			<-s.turn
		default: // somebody reads
		}
	})
	<-s.turn
	return s
}

// has returns how many of some consecutive blocks, which begin with the first, come with the answer.
func (s *blocksStart) has(first, count int64) int64 {
	if s == nil {
		return 0
	}
	return max(0, min(first+count, s.end)-first)
}

// take returns a sealed block, once; nil if it does not come. Who ends ctx while a block comes ends the answer.
func (s *blocksStart) take(ctx context.Context, block int64) []byte {
	if s == nil || block >= s.end {
		return nil
	}
	for {
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		sealed, more := s.step(ctx, block)
		<-s.turn
		if !more {
			return sealed
		}
	}
}

// step returns a block that is there, or receives the next one: more tells that the wanted one is behind it.
// The caller has the turn.
func (s *blocksStart) step(ctx context.Context, block int64) (sealed []byte, more bool) {
	if sealed = s.early[block]; sealed != nil {
		delete(s.early, block)
		return sealed, false
	}
	if block < s.next || s.next == s.end {
		return nil, false
	}
	s.idle.Stop()
	defer context.AfterFunc(ctx, s.stop)()
	sealed = make([]byte, s.layout.Sealed(s.next))
	if _, err := io.ReadFull(s.in, sealed); err != nil {
		s.next = s.end
		s.stop()
		return nil, false
	}
	if s.next++; s.next == s.end {
		s.stop()
	}
	s.idle.Reset(startIdle)
	if s.next == block+1 {
		return sealed, false
	}
	s.early[s.next-1] = sealed
	return nil, true
}

// giveUp ends the answer and frees what nobody took. The caller has the turn.
func (s *blocksStart) giveUp() {
	s.idle.Stop()
	s.stop()
	s.next, s.early = s.end, nil
}

// close frees all. Nobody may take any more.
func (s *blocksStart) close() {
	if s != nil {
		s.turn <- struct{}{}
		s.giveUp()
		<-s.turn
	}
}

// startBytes is how much of the beginning of a file comes with the answer to its open, in bytes: a block, and
// as many as hold more bytes.
func startBytes(more int64) int64 {
	blocks := 1 + (min(max(more, 0), wire.MaxFirstBytes)+format.BlockBytes-1)/format.BlockBytes
	return min(blocks*(format.BlockBytes+format.Overhead), wire.MaxFirstBytes)
}

// withBlocks returns a call of prepare_retrieve that asks for blocks behind the answer. They are in behind, which the
// caller closes at any time and more than once; nil = the answer has none.
func (br *blockReader) withBlocks(ask call.Call, answer *wire.PrepareRetrieveResult, behind *io.ReadCloser) call.Call {
	document := ask.Answer
	ask.Keep, ask.Long = true, true // the blocks come when the open is over
	ask.Answer = func(resp *http.Response) error {
		if resp.Header.Get("Content-Type") != wire.TypeFirstBlocks {
			defer resp.Body.Close()
			return document(resp)
		}
		in := bufio.NewReaderSize(resp.Body, call.TransferBuffer)
		head, err := readLine(in, call.MaxAnswer)
		if err == nil {
			err = br.c.tools.decode(head, answer)
		}
		if err == nil {
			*behind = struct {
				io.Reader
				io.Closer
			}{in, resp.Body}
		}
		return err
	}
	return ask
}

// readLine reads a line of at most so many bytes.
func readLine(in *bufio.Reader, most int) (line []byte, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		if len(line)+len(piece) > most {
			return nil, call.Malformed(call.ErrTooMuch)
		}
		line = append(line, piece...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		default:
			return line, err
		}
	}
}
