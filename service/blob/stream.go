package blob

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
)

const (
	// copyBytes is how many bytes of an upload one call writes.
	copyBytes = 256 << 10
	// flushBytes is after how many bytes the disk begins to write, so that the sync at
	// the end waits only for the rest.
	flushBytes = 8 << 20
)

// copyHashed writes the bytes of source to f, and returns their length and SHA-256.
// Another processor hashes received bytes while more are received and written; a short
// upload is hashed directly.
func (d *Dir) copyHashed(f *os.File, source io.Reader) (size int64, sum [sha256.Size]byte, err error) {
	first := d.buffers.Get().(*[copyBytes]byte)
	defer d.buffers.Put(first)
	piece, last, err := readPiece(source, first)
	if err != nil || last {
		if err == nil {
			_, err = f.Write(piece)
		}
		return int64(len(piece)), sha256.Sum256(piece), err
	}
	second := d.buffers.Get().(*[copyBytes]byte)
	defer d.buffers.Put(second)
	received, hashed := make(chan []byte, 1), make(chan *[copyBytes]byte, 2)
	hashed <- second
	done := make(chan struct{})
	go func() {
		defer close(done)
		hash := sha256.New()
		for piece := range received {
			hash.Write(piece)
			hashed <- (*[copyBytes]byte)(piece[:copyBytes])
		}
		hash.Sum(sum[:0])
	}()
	size, err = writePieces(f, source, piece, received, hashed)
	close(received)
	<-done // the buffers go back to the pool after that
	return size, sum, err
}

// writePieces writes piece and all that follow, and gives each to be hashed.
func writePieces(f *os.File, source io.Reader, piece []byte, received chan<- []byte, hashed <-chan *[copyBytes]byte) (size int64, err error) {
	for last := false; ; {
		received <- piece
		if _, err := f.Write(piece); err != nil {
			return size, err
		}
		size += int64(len(piece))
		if size%flushBytes == 0 {
			beginFlush(f, size-flushBytes, flushBytes)
		}
		if last {
			return size, nil
		}
		if piece, last, err = readPiece(source, <-hashed); err != nil {
			return size, err
		}
	}
}

// readPiece fills buf, unless the source ends before.
func readPiece(source io.Reader, buf *[copyBytes]byte) (piece []byte, last bool, err error) {
	n := 0
	for n < len(buf) {
		got, err := source.Read(buf[n:])
		n += got
		if errors.Is(err, io.EOF) {
			return buf[:n], true, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return buf[:n], false, nil
}
