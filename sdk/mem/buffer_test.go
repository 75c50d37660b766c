package mem

import (
	"bytes"
	"fmt"
	"io"
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

func TestSharedBufferEndsWithItsContent(t *testing.T) {
	pool := NewPool()
	b, err := pool.GetShared(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := b.Share(); ok {
		t.Error("an empty buffer has a file")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{200_000, 1 << 20, 1<<20 - 8, 3 << 20, 150_000, 1<<20 + 1} {
		if err := b.Resize(int64(size)); err != nil {
			t.Fatal(err)
		}
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rnd.Uint32())
		}
		copy(b.Bytes(), want)
		copy(b.Bytes()[:size+sealRoom][size:], "a tag is written") // as sealing does
		for range 2 {
			f, ok := b.Share()
			if !ok {
				t.Fatal("not shared")
			}
			got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes: the file holds %d others, %v", size, len(got), err)
			}
			_ = f.Close()
		}
	}
	f, ok := b.Share()
	if !ok {
		t.Fatal("not shared")
	}
	defer f.Close()
	b.Release()
	if info, err := f.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("after Release the file has %d bytes, %v", info.Size(), err)
	}
}
