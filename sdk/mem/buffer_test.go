package mem

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestBufferKeepsContentAndZeroesTheRest(t *testing.T) {
	pool := NewPool()
	b, err := pool.Get(0)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var want []byte
	for step := range 400 {
		size := rnd.IntN(1 << (4 + step%17)) // up to 1 MiB: cells, mappings and the way between
		if err := b.Resize(int64(size)); err != nil {
			t.Fatal(err)
		}
		if size < len(want) {
			want = want[:size]
		} else {
			want = append(want, make([]byte, size-len(want))...)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Fatalf("step %d: content differs after resize to %d", step, size)
		}
		if size > 0 {
			at := rnd.IntN(size)
			b.Bytes()[at], want[at] = byte(step), byte(step)
		}
		full := b.Bytes()[:size+sealRoom]
		copy(full[size:], "a tag is written") // as sealing does
	}
	b.Release()
	b.Release()
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBufferIsWipedBeforeReuse(t *testing.T) {
	pool := NewPool()
	defer pool.Close()
	for _, size := range []int64{100, smallestCell, largestCell - sealRoom} {
		b, err := pool.Get(size)
		if err != nil {
			t.Fatal(err)
		}
		copy(b.Bytes(), "canary")
		seen := b.mem
		b.Release()
		if bytes.Contains(seen, []byte("canary")) {
			t.Errorf("a released buffer of %d bytes still holds its content", size)
		}
	}
}

// Memory of blocks is used again, and wiped before.
func TestBlocksAreKeptWiped(t *testing.T) {
	pool := NewPool()
	const block = 256 << 10
	get := func(size int64) *Buffer {
		b, err := pool.Get(size)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	fill := func(b *Buffer) *byte {
		for i := range b.mem {
			b.mem[i] = 0xff
		}
		return &b.mem[0]
	}
	b := get(block)
	place := fill(b)
	b.Release()
	again := get(block)
	if &again.mem[0] != place || !bytes.Equal(again.mem, make([]byte, len(again.mem))) {
		t.Error("the next block has other memory, or memory that is not wiped")
	}
	var many []*Buffer
	for range 40 {
		many = append(many, get(block))
		fill(many[len(many)-1])
	}
	odd, large, other := get(block+1), get(4<<20), get(1<<20)
	for _, b := range append(many, again, odd, large) {
		b.Release()
	}
	if held := pool.heldBytes(); held != keptBytes {
		t.Errorf("%d bytes are kept, want %d", held, keptBytes)
	}
	other.Release()
	if last := pool.kept[len(pool.kept)-1]; len(last) != 1<<20+sealRoom || pool.heldBytes() > keptBytes {
		t.Errorf("blocks of another size: the last one kept has %d bytes, of %d", len(last), pool.heldBytes())
	}
	for _, mem := range pool.kept {
		if !bytes.Equal(mem, make([]byte, len(mem))) {
			t.Error("kept memory is not wiped")
		}
	}
	late := get(512 << 10)
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	late.Release()
	if len(pool.kept) != 0 {
		t.Error("a closed pool keeps memory")
	}
}

func TestBufferNeverPrintsContent(t *testing.T) {
	pool := NewPool()
	b, err := pool.Get(6)
	if err != nil {
		t.Fatal(err)
	}
	copy(b.Bytes(), "canary")
	for _, verb := range []string{"%v", "%s", "%x", "%+v", "%#v", "%d"} {
		if got := fmt.Sprintf(verb, b); got != "buffer of 6 bytes" {
			t.Errorf("%s prints %q", verb, got)
		}
	}
}

func TestBufferRefusesImpossibleSizes(t *testing.T) {
	pool := NewPool()
	for _, size := range []int64{-1, maxBufferBytes + 1, 1 << 62} {
		if _, err := pool.Get(size); err == nil {
			t.Errorf("Get(%d) succeeded", size)
		}
	}
}
