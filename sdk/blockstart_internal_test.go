package sdk

import (
	"bytes"
	"context"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
)

// A start is a block, and as many whole ones as hold what is wanted behind it, within what a service sends.
func TestStartBytes(t *testing.T) {
	t.Parallel()
	const block = format.BlockBytes + format.Overhead
	for more, want := range map[int64]int64{-1: block, 0: block, 1: 2 * block, format.BlockBytes: 2 * block, format.BlockBytes + 1: 3 * block, math.MaxInt64: wire.MaxFirstBytes} {
		if got := startBytes(more); got != want {
			t.Errorf("%d bytes more: %d, want %d", more, got, want)
		}
	}
}

// Blocks behind an answer go to who asks, once, in any order. They are given up when nobody reads for long, and
// when who waits for one leaves.
func TestBlocksBehindAnAnswer(t *testing.T) {
	l := format.Layout{Size: 6 * format.MinBlockBytes, BlockBytes: format.MinBlockBytes}
	synctest.Test(t, func(t *testing.T) {
		var sealed []byte
		for i := range l.Blocks() {
			sealed = append(sealed, bytes.Repeat([]byte{byte('a' + i)}, int(l.Sealed(i)))...)
		}
		begin := func() (*blocksStart, *io.PipeWriter) {
			r, w := io.Pipe()
			return newBlocksStart(l, 5, r, func() { _ = r.CloseWithError(io.ErrClosedPipe) }), w
		}
		want := func(s *blocksStart, block int64, there bool) {
			t.Helper()
			if got := s.take(t.Context(), block); (got != nil) != there || there && (got[0] != byte('a'+block) || int64(len(got)) != l.Sealed(block)) {
				t.Errorf("block %d: %d bytes", block, len(got))
			}
		}
		s, w := begin()
		go func() { _, _ = w.Write(sealed[:l.Offset(5)]) }()
		for _, block := range []int64{0, 2, 1, 4} {
			want(s, block, true)
		}
		time.Sleep(startIdle - 1)
		synctest.Wait()
		want(s, 0, false)
		want(s, 5, false)
		want(s, 3, true)
		s.close()
		s, w = begin()
		go func() { _, _ = w.Write(sealed) }()
		want(s, 1, true)
		time.Sleep(startIdle + 1)
		synctest.Wait()
		want(s, 0, false)
		want(s, 2, false)
		s, _ = begin() // nothing comes
		ctx, leave := context.WithCancel(t.Context())
		go s.take(ctx, 3)
		synctest.Wait()
		ended := make(chan bool)
		go func() { want(s, 1, false); close(ended) }()
		synctest.Wait()
		leave()
		<-ended
		s.close()
		s, w = begin()
		go func() { _, _ = w.Write(sealed[:l.Offset(5)-1]); _ = w.Close() }()
		want(s, 4, false) // the line broke in the last block
		want(s, 3, true)
		s.close()
		(*blocksStart)(nil).close()
	})
}
