package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/minio/minio-go/v7"
)

// retryPause is the pause after the first failure of a read; it doubles each time.
const retryPause = 200 * time.Millisecond

// object reads one blob of a bucket. It requests bytes at the first read after Open or
// Seek, and again from the current position when a transfer breaks.
type object struct {
	s    *S3
	ctx  context.Context // of the call that opened it
	key  string
	size int64
	pos  int64 // of the next byte read

	body   io.ReadCloser // nil = not asked for yet
	cancel context.CancelFunc
	failed int // attempts since the last byte
}

// Read reads the next bytes. An outage that lasts longer than its attempts is
// ErrUnavailable.
func (o *object) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for o.pos < o.size {
		n, err := o.readOnce(p)
		if n > 0 {
			o.pos += int64(n)
			o.failed = 0
			return n, nil
		}
		if err == nil {
			continue
		}
		_ = o.drop()
		if told := o.s.kind(o.ctx, "read blob", err); errors.Is(err, ErrSize) || errors.Is(told, fs.ErrNotExist) {
			return 0, told // another attempt gives the same
		}
		if o.failed++; o.failed >= attempts || o.ctx.Err() != nil {
			return 0, o.s.kind(o.ctx, "read blob", err)
		}
		select {
		case <-time.After(retryPause << o.failed):
		case <-o.ctx.Done():
		}
	}
	return 0, io.EOF
}

// readOnce reads from the transfer under way, or begins one. It returns an error when
// the transfer ends before the blob does.
func (o *object) readOnce(p []byte) (int, error) {
	if o.body == nil {
		ctx, cancel := context.WithCancel(o.ctx)
		opts := minio.GetObjectOptions{}
		if o.pos > 0 {
			if err := opts.SetRange(o.pos, 0); err != nil {
				cancel()
				return 0, err
			}
		}
		body, info, _, err := o.s.core.GetObject(ctx, o.s.location.Bucket, o.key, opts)
		if err != nil {
			cancel()
			return 0, err
		}
		o.body, o.cancel = body, cancel
		if info.Size != o.size-o.pos {
			return 0, fmt.Errorf("%w: the S3 server answers %d bytes, want %d", ErrSize, info.Size, o.size-o.pos)
		}
	}
	stalled := time.AfterFunc(stallTimeout, o.cancel)
	n, err := o.body.Read(p[:min(int64(len(p)), o.size-o.pos)])
	stalled.Stop()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Seek moves; the next Read requests bytes.
func (o *object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.pos
	case io.SeekEnd:
		offset += o.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek in blob: position %d", offset)
	}
	if offset == o.pos {
		return offset, nil
	}
	o.pos = offset
	return offset, o.drop()
}

// drop ends the transfer under way.
func (o *object) drop() error {
	if o.body == nil {
		return nil
	}
	o.cancel()
	err := o.body.Close()
	o.body, o.cancel = nil, nil
	if o.ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Close ends reading.
func (o *object) Close() error { return o.drop() }
