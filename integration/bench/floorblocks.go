package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
)

// The bare pipeline of a large file is what any client must do for blocks: receive
// parts, take each block's leaf and open it; or take the SHA-256 of the file, seal each
// block, take its leaf and send parts to a server that syncs each. Two parts are under way
// at a time, so that two processors and the connection have work. No ledger, no
// manifest, no file system.

// partsAtOnce is how many parts the bare pipeline moves at a time.
const partsAtOnce = 2

// floorBlocks is a step of the pipeline: action is read or write.
func floorBlocks(action string, size int64) func(f *pipeline) (floorResult, float64, error) {
	return func(f *pipeline) (floorResult, float64, error) {
		r, err := f.client(action+"-blocks", 1, size)
		return r, mib(size) / r.Seconds, err
	}
}

// timed runs a client of the pipeline and prints its figures.
func timed(run func() error) error {
	begin := time.Now()
	if err := run(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(floorResult{time.Since(begin).Seconds(),
		statusBytes(os.Getpid(), "VmHWM:"), 0})
}

// parts cuts a file into parts of so many sealed blocks.
type parts struct {
	format.Layout
	perPart int64
}

func partsOf(size int64) parts {
	l := format.Layout{Size: size, BlockBytes: format.BlockBytes}
	return parts{l, wire.PartBytes / (l.BlockBytes + format.Overhead)}
}

func (p parts) count() int { return int((p.Blocks() + p.perPart - 1) / p.perPart) }

func (p parts) url(server string, part int) string {
	return fmt.Sprintf("%sblocks-%d-%d", server, p.Size, part)
}

// each calls do for every block of a part.
func (p parts) each(part int, do func(block int64) error) error {
	first := int64(part) * p.perPart
	for i := first; i < min(first+p.perPart, p.Blocks()); i++ {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// floorCipher is the cipher of every part: the key protects nothing.
func floorCipher() (*format.BlockCipher, error) {
	key, err := format.NewKey(bytes.Repeat([]byte{1}, format.KeyBytes))
	if err != nil {
		return nil, err
	}
	return format.NewBlockCipher(key)
}

func floorTransport() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableCompression: true, ReadBufferSize: 64 << 10,
		WriteBufferSize: 64 << 10}}
}

func readBlocks(server string, size int64) error {
	c, err := floorCipher()
	if err != nil {
		return err
	}
	p, client := partsOf(size), floorTransport()
	leaves := make([]format.Hash, p.Blocks())
	err = inParallel(partsAtOnce, p.count(), func(part int) error {
		resp, err := client.Get(p.url(server, part))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		sealed, plain := make([]byte, p.Sealed(0)), make([]byte, 0, p.BlockBytes)
		return p.each(part, func(i int64) error {
			block := sealed[:p.Sealed(i)]
			if _, err := io.ReadFull(resp.Body, block); err != nil {
				return err
			}
			leaves[i] = format.Leaf(block)
			_, err := c.Open(plain, i, block)
			return err
		})
	})
	_ = format.RootOf(leaves)
	return err
}

func writeParts(server string, size int64) error {
	c, err := floorCipher()
	if err != nil {
		return err
	}
	p, client := partsOf(size), floorTransport()
	content := make([]byte, wire.PartBytes)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	block := func(i int64) []byte { return content[(i%p.perPart)*p.BlockBytes:][:p.Plain(i)] }
	hashed := make(chan struct{})
	go func() {
		defer close(hashed)
		whole := sha256.New()
		for i := range p.Blocks() {
			_, _ = whole.Write(block(i))
		}
		_ = whole.Sum(nil)
	}()
	leaves := make([]format.Hash, p.Blocks())
	free := make(chan []byte, partsAtOnce)
	for range partsAtOnce {
		free <- make([]byte, 0, wire.PartBytes)
	}
	err = inParallel(partsAtOnce, p.count(), func(part int) error {
		memory := <-free
		defer func() { free <- memory }()
		sealed := memory
		err := p.each(part, func(i int64) (err error) {
			from := len(sealed)
			sealed, err = c.Seal(sealed, i, block(i))
			leaves[i] = format.Leaf(sealed[from:])
			return err
		})
		if err != nil {
			return err
		}
		req, err := http.NewRequest(http.MethodPut, p.url(server, part), bytes.NewReader(sealed))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	<-hashed
	_ = format.RootOf(leaves)
	return err
}
