package nameroots

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// spool is a file of sealed blocks, each of which is written once. The disk never sees a name or an attribute.
type spool struct {
	dir    string
	file   *os.File
	cipher *format.BlockCipher
	blocks int64
	end    int64 // of the file
}

// blockBytes is the plaintext of a block but the last one of a run, in bytes.
const blockBytes = 16 << 10

func openSpool(dir string) (*spool, error) {
	key, err := format.RandomKey()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	defer key.Wipe()
	cipher, err := format.NewBlockCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make a cipher: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := ownfile.Nameless(dir)
	if err != nil {
		return nil, fmt.Errorf("make a file in %s: %w", dir, err)
	}
	return &spool{dir: dir, file: file, cipher: cipher}, nil
}

func (s *spool) close() { _ = s.file.Close() }

// run is a part of the file.
type run struct {
	in    *spool
	at    int64 // where it begins
	first int64 // its first block
	left  int64 // bytes of plaintext
}

// writer writes a run.
type writer struct {
	run    run
	plain  []byte
	sealed []byte
}

// begin begins a run. Only one is written at a time.
func (s *spool) begin() *writer {
	return &writer{run: run{in: s, at: s.end, first: s.blocks}, plain: make([]byte, 0, blockBytes)}
}

func (w *writer) Write(p []byte) (n int, err error) {
	n = len(p)
	for len(p) > 0 {
		fits := min(len(p), blockBytes-len(w.plain))
		w.plain, p = append(w.plain, p[:fits]...), p[fits:]
		if len(w.plain) == blockBytes {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *writer) done() (*run, error) {
	if len(w.plain) > 0 {
		if err := w.flush(); err != nil {
			return nil, err
		}
	}
	return &w.run, nil
}

func (w *writer) flush() (err error) {
	s := w.run.in
	if w.sealed, err = s.cipher.Seal(w.sealed[:0], s.blocks, w.plain); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(w.sealed, s.end); err != nil {
		return fmt.Errorf("write to a file in %s: %w", s.dir, err)
	}
	s.blocks, s.end = s.blocks+1, s.end+int64(len(w.sealed))
	w.run.left += int64(len(w.plain))
	w.plain = w.plain[:0]
	return nil
}

// reader reads the run once.
func (r *run) reader() *bufio.Reader { return bufio.NewReaderSize(&blocks{run: *r}, 1<<10) }

// blocks opens the blocks of a run.
type blocks struct {
	run
	sealed, plain, rest []byte
}

func (b *blocks) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if b.left == 0 {
			return 0, io.EOF
		}
		if err := b.open(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *blocks) open() (err error) {
	n := min(b.left, blockBytes)
	b.sealed = slices.Grow(b.sealed[:0], int(n)+format.Overhead)[:n+format.Overhead]
	if n, err := b.in.file.ReadAt(b.sealed, b.at); n < len(b.sealed) {
		return fmt.Errorf("read from a file in %s: %v", b.in.dir, err) // io.EOF, too, is a failure
	}
	if b.plain, err = b.in.cipher.Open(b.plain[:0], b.first, b.sealed); err != nil {
		return err
	}
	b.at, b.first, b.left, b.rest = b.at+int64(len(b.sealed)), b.first+1, b.left-n, b.plain
	return nil
}

// coder writes changes: of a path only what differs from the one before. Numbers are those of encoding/binary, and
// texts have their length in front.
type coder struct {
	path []chain.Hash // of the change before
	b    []byte
}

// What a change is beside its item.
const (
	isMade = 1 << iota
	isGone
)

// encode returns the bytes of the next change, which are good until the next call.
func (e *coder) encode(c *Change) []byte {
	same := 0
	for same < min(len(e.path), len(c.Path)) && e.path[same] == c.Path[same] {
		same++
	}
	flags := uint64(0)
	if c.Made {
		flags |= isMade
	}
	if c.Gone {
		flags |= isGone
	}
	e.b = e.b[:0]
	for _, n := range []uint64{uint64(same), uint64(len(c.Path) - same), flags, uint64(c.At), uint64(c.Number)} {
		e.b = binary.AppendUvarint(e.b, n)
	}
	for _, key := range c.Path[same:] {
		e.b = append(e.b, key[:]...)
	}
	e.b = append(e.b, c.Hash[:]...)
	for _, text := range []string{c.Ref, c.Attributes} {
		e.b = append(binary.AppendUvarint(e.b, uint64(len(text))), text...)
	}
	e.path = c.Path
	return e.b
}

// stored is a part on disk.
type stored struct {
	in   *bufio.Reader
	path []chain.Hash // of the change before
}

func (s *stored) next() (c Change, err error) {
	var n [5]uint64
	for i := range n {
		if n[i], err = binary.ReadUvarint(s.in); err != nil {
			return c, err
		}
	}
	if n[0] > uint64(len(s.path)) {
		return c, io.ErrUnexpectedEOF
	}
	c.Path = slices.Clone(s.path[:n[0]])
	for range n[1] {
		var key chain.Hash
		if _, err := io.ReadFull(s.in, key[:]); err != nil {
			return c, err
		}
		c.Path = append(c.Path, key)
	}
	s.path = c.Path
	c.Made, c.Gone, c.At, c.Number = n[2]&isMade != 0, n[2]&isGone != 0, int(n[3]), int64(n[4])
	if _, err := io.ReadFull(s.in, c.Hash[:]); err != nil {
		return c, err
	}
	for _, text := range []*string{&c.Ref, &c.Attributes} {
		if *text, err = s.text(); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (s *stored) text() (string, error) {
	n, err := binary.ReadUvarint(s.in)
	if err != nil {
		return "", err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(s.in, b)
	return string(b), err
}
