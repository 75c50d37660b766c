package files

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/service/fault"
)

// FuzzArrivingBlocks receives bodies of any length, in pieces of any size, that end or break off anywhere: the blocks
// that were announced are passed on, with their leaves, or the body is refused.
func FuzzArrivingBlocks(f *testing.F) {
	const sealed = format.Overhead + 12
	for _, n := range []int{0, 1, sealed - 1, sealed, sealed + format.Overhead, sealed + format.Overhead + 1,
		3 * sealed, 3*sealed + 1, 4 * sealed} {
		f.Add(bytes.Repeat([]byte{7}, n), int64(3), false, false)
		f.Add(bytes.Repeat([]byte{8}, n), int64(3), true, true)
	}
	broken := errors.New("the connection broke")
	f.Fuzz(func(t *testing.T, body []byte, blocks int64, breaks, slowly bool) {
		if blocks < 1 || blocks > 100 {
			return
		}
		var source io.Reader = bytes.NewReader(body)
		if breaks {
			source = io.MultiReader(source, iotest.ErrReader(broken))
		}
		if slowly {
			source = iotest.OneByteReader(source)
		} else {
			source = iotest.DataErrReader(source)
		}
		a := &arrivingBlocks{body: source, block: make([]byte, sealed), left: blocks}
		got, err := io.ReadAll(a)
		last := int64(len(body)) - (blocks-1)*sealed
		fits := !breaks && last > format.Overhead && last <= sealed
		var refused *fault.Error
		switch {
		case fits != (err == nil), !breaks && !fits && !errors.As(err, &refused):
			t.Fatalf("%d bytes for %d blocks, breaks %v: %v", len(body), blocks, breaks, err)
		case !fits:
			return
		case !bytes.Equal(got, body) || int64(len(a.leaves)) != blocks*int64(len(format.Hash{})):
			t.Fatalf("%d bytes passed, %d bytes of leaves", len(got), len(a.leaves))
		}
		for i, leaf := range hashes(a.leaves) {
			if leaf != format.Leaf(got[i*sealed:min((i+1)*sealed, len(got))]) {
				t.Fatalf("leaf %d", i)
			}
		}
	})
}
