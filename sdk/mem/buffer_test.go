package mem

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
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

// Small buffers of every size in turn take no more memory than those of one size: an arena without a buffer serves
// other sizes, wiped, and more than a few return to the system.
func TestArenasServeEverySize(t *testing.T) {
	p := NewPool()
	defer func() { _ = p.Close() }()
	const held = 8
	for _, size := range []int64{400, 3 << 10, 30 << 10, 120 << 10} {
		var list []*Buffer
		for n := int64(0); n < held*arenaBytes; n += FootprintOf(size) {
			b, err := p.Get(size)
			if err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(b.Bytes(), func(c byte) bool { return c != 0 }); i >= 0 {
				t.Fatalf("byte %d of a buffer of %d is not wiped", i, size)
			}
			b.Bytes()[0], b.Bytes()[size-1] = 1, 1
			list = append(list, b)
		}
		if got := len(p.arenas) + len(p.spare); got > held {
			t.Errorf("size %d: %d arenas for %d MiB", size, got, held)
		}
		for i := range list { // not in the order in which they were made
			list[(i*7+3)%len(list)].Release()
		}
		for _, b := range list {
			b.Release()
		}
		if len(p.arenas) != 0 || len(p.spare) != spareArenas {
			t.Errorf("size %d: %d arenas stay, and %d spare ones", size, len(p.arenas), len(p.spare))
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
