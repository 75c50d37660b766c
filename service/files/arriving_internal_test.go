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

// FuzzArrivingBlocks receives bodies of any length, in pieces of any size, that end or break
// off anywhere: what is passed on are the whole blocks that came, with their leaves, or the
// body is refused.
func FuzzArrivingBlocks(f *testing.F) {
	const sealed = format.Overhead + 12
	for _, n := range []int{0, 1, sealed - 1, sealed, sealed + format.Overhead, sealed + format.Overhead + 1, 3 * sealed, 3*sealed + 1, 4 * sealed} {
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
		}
		all := format.Extents{{First: 5, Count: 1}, {First: 9, Count: blocks}}
		if blocks++; !slowly {
			source = iotest.DataErrReader(source)
		}
		a := &arrivingBlocks{body: source, blocks: all, block: make([]byte, sealed), left: blocks}
		got, err := io.ReadAll(a)
		whole := min(int64(len(body))/sealed, blocks)
		rest := int64(len(body)) - whole*sealed
		fits := !breaks && (whole == blocks && rest == 0 || whole == blocks-1 && rest > format.Overhead)
		if fits && rest > 0 {
			whole++
		}
		cut := breaks && whole > 0 && (whole < blocks || rest == 0)
		var refused *fault.Error
		switch {
		case !fits && !cut:
			if err == nil || breaks && whole == 0 && !errors.Is(err, broken) || !breaks && !errors.As(err, &refused) {
				t.Fatalf("%d bytes for %d blocks, breaks %v: %v", len(body), blocks, breaks, err)
			}
			return
		case err != nil:
			t.Fatalf("%d bytes for %d blocks, breaks %v: %v", len(body), blocks, breaks, err)
		case cut != errors.Is(a.cut, broken):
			t.Fatalf("it broke off: %v, and says %v", cut, a.cut)
		}
		if !bytes.Equal(got, body[:min(whole*sealed, int64(len(body)))]) || a.came().Blocks() != whole {
			t.Fatalf("%d bytes passed, blocks %v of %d", len(got), a.came(), whole)
		}
		for i, leaf := range hashes(a.leaves) {
			if leaf != format.Leaf(got[i*sealed:min((i+1)*sealed, len(got))]) {
				t.Fatalf("leaf %d", i)
			}
		}
		if text := a.came().String(); whole > 0 {
			if e, err := format.ParseExtents(text, blocks); err != nil || e.Blocks() != whole {
				t.Fatalf("blocks %q: %v", text, err)
			}
		}
	})
}
