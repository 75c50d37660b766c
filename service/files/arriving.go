package files

import (
	"errors"
	"io"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
)

// arrivingBlocks reads the body of a part: whole blocks, each of which is hashed before it is
// passed on. Where the body breaks off it ends after the last whole block.
type arrivingBlocks struct {
	body   io.Reader
	blocks format.Extents // that come
	block  []byte         // memory for one
	left   int64          // blocks that have not come
	rest   []byte         // of the block that came last
	leaves []byte
	ended  bool
	cut    error // how the body broke off
}

// Read returns an error, and no part is stored, for a body that is not what was announced,
// and for one that breaks off in its first block.
func (a *arrivingBlocks) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.ended {
			return 0, io.EOF
		}
		if err := a.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// WriteTo writes each block from the memory it came in.
func (a *arrivingBlocks) WriteTo(w io.Writer) (written int64, err error) {
	for {
		n, err := w.Write(a.rest)
		written, a.rest = written+int64(n), a.rest[n:]
		if err != nil || a.ended {
			return written, err
		}
		if err := a.next(); err != nil {
			return written, err
		}
	}
}

// next receives a block.
func (a *arrivingBlocks) next() error {
	into := a.block
	if a.left == 0 {
		into = into[:1] // nothing may follow
	}
	n, err := fill(a.body, into)
	var refused *fault.Error
	switch {
	case errors.As(err, &refused):
		return err
	case err != nil && !errors.Is(err, io.EOF):
		a.cut, a.ended = err, true
		if len(a.leaves) == 0 {
			return err
		}
		return nil
	case a.left == 0 && n > 0:
		return fault.New(wire.CodeValidation, "the body is longer than its blocks")
	case a.left == 0:
		a.ended = true
		return nil
	case n < len(into) && (a.left > 1 || n <= format.Overhead):
		return fault.New(wire.CodeValidation, "the body ends within a block: only the last one may be shorter, and not empty")
	}
	leaf := format.Leaf(into[:n])
	a.leaves = append(a.leaves, leaf[:]...)
	a.rest = into[:n]
	a.left--
	return nil
}

// fill reads until p is full, or to io.EOF, or to another error.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var got int
		got, err = r.Read(p[n:])
		n += got
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// came returns the blocks that came.
func (a *arrivingBlocks) came() (came format.Extents) {
	n := a.blocks.Blocks() - a.left
	for _, x := range a.blocks {
		if n == 0 {
			break
		}
		x.Count = min(x.Count, n)
		came, n = append(came, x), n-x.Count
	}
	return came
}
