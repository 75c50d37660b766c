package blob

import (
	"context"
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

// copyProved writes the bytes of source to f, at most limit, and returns their length.
func (d *Dir) copyProved(ctx context.Context, f *os.File, source io.Reader, limit int64) (int64, error) {
	buf := d.buffers.Get().(*[copyBytes]byte)
	defer d.buffers.Put(buf)
	w := &fileWriter{ctx: ctx, f: f, limit: limit}
	if _, ok := source.(io.WriterTo); !ok {
		source = io.LimitReader(source, limit+1)
	}
	_, err := io.CopyBuffer(w, source, buf[:])
	if err == nil {
		err = ctx.Err()
	}
	return w.size, err
}

// fileWriter writes to a file until ctx ends, and stops once there are more than limit bytes.
type fileWriter struct {
	ctx         context.Context
	f           *os.File
	size, limit int64
	flushed     int64 // what the disk was told to write
}

func (w *fileWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	if w.size > w.limit {
		return 0, ErrTooLarge
	}
	n, err := w.f.Write(p)
	w.size += int64(n)
	if w.size-w.flushed >= flushBytes {
		beginFlush(w.f, w.flushed, w.size-w.flushed)
		w.flushed = w.size
	}
	return n, err
}

// writePieces writes piece and all that follow, and gives each to be hashed.
func writePieces(f *os.File, source io.Reader, piece []byte, received chan<- []byte,
	hashed <-chan *[copyBytes]byte) (size int64, err error) {
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
