package sdk

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/format"
)

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
