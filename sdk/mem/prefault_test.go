package mem

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"testing"
)

// Whatever is written in whatever order, the hash is that of the content, also
// while it is appended to.
func TestBufferHashesWhatWasWritten(t *testing.T) {
	pool := NewPool()
	rnd := rand.New(rand.NewPCG(3, 4))
	piece := make([]byte, 1<<20)
	for i := range piece {
		piece[i] = byte(rnd.Uint32())
	}
	for range 6 {
		b, err := pool.Get(0)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for step := range 25 {
			what, n := rnd.IntN(20), 1+rnd.IntN(len(piece))
			off := len(want)
			switch {
			case what == 0: // a hole
				off += rnd.IntN(2000)
			case what == 1 && len(want) > 0: // in place
				off = rnd.IntN(len(want))
			case what == 2: // a new length
				size := rnd.IntN(2*len(want) + 10)
				if rnd.IntN(4) == 0 {
					size = 0
				}
				if err := b.Resize(int64(size)); err != nil {
					t.Fatal(err)
				}
				want = append(want[:min(size, len(want))], make([]byte, max(0, size-len(want)))...)
				off = len(want)
			}
			if got, err := b.WriteAt(piece[:n], int64(off)); got != n || err != nil {
				t.Fatalf("wrote %d of %d: %v", got, n, err)
			}
			if off+n > len(want) {
				want = append(want, make([]byte, off+n-len(want))...)
			}
			copy(want[off:], piece[:n])
			if what < 5 && b.Hash() != sha256.Sum256(want) {
				t.Fatalf("step %d: another hash than that of the content", step)
			}
		}
		if b.Hash() != sha256.Sum256(want) || !bytes.Equal(b.Bytes(), want) {
			t.Fatal("another content or hash in the end")
		}
		b.Release()
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
}
