package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"

	"github.com/minio/minio-go/v7"
)

// PutMemory is one part at most.
func (s *S3) PutMemory(size int64) int64 { return atMost(size, partBytes) }

// Put stores the bytes of r, at most limit, under a new name.
func (s *S3) Put(ctx context.Context, r io.Reader, limit int64) (Info, error) {
	whole := sha256.New()
	info, err := s.put(ctx, r, limit, whole)
	if err == nil {
		whole.Sum(info.Sum[:0])
	}
	return info, err
}

// PutProved is Put without a hash of the whole. The bucket still gets a hash with each
// request, which it checks.
func (s *S3) PutProved(ctx context.Context, r io.Reader, limit int64) (Info, error) {
	return s.put(ctx, r, limit, nil)
}

// put stores the bytes of r, at most limit, under a new name, and hashes them with whole
// unless it is nil.
func (s *S3) put(ctx context.Context, r io.Reader, limit int64, whole hash.Hash) (Info, error) {
	id := newID(s.mark)
	up := &upload{s: s, key: s.key(place(id)), limit: limit, whole: whole,
		source: contextReader{ctx: ctx, r: io.LimitReader(r, limit+1)}}
	if err := up.run(ctx); err != nil {
		if up.sent {
			s.remove(ctx, up.key) // the sweep repeats it
		}
		if up.source.err != nil { // the caller's, not the bucket's
			return Info{}, fmt.Errorf("put blob: %w", up.source.err)
		}
		return Info{}, s.kind(ctx, "put blob", err)
	}
	return Info{ID: id, Size: up.size}, nil
}

// upload is one Put.
type upload struct {
	s      *S3
	key    string
	limit  int64
	source contextReader
	whole  hash.Hash // nil = nobody wants it
	size   int64
	sent   bool // something may be in the bucket
}

func (u *upload) run(ctx context.Context) error {
	part, last, err := u.read(make([]byte, 0, 4<<10))
	if err != nil {
		return err
	}
	if last {
		u.sent = true
		return u.s.putPart(ctx, u.key, part, u.sum(part))
	}
	select {
	case u.s.large <- struct{}{}:
		defer func() { <-u.s.large }()
	case <-ctx.Done():
		return ctx.Err()
	}
	u.sent = true
	id, err := u.s.core.NewMultipartUpload(ctx, u.s.location.Bucket, u.key, minio.PutObjectOptions{})
	if err != nil {
		return err
	}
	if err := u.parts(ctx, id, part); err != nil {
		u.s.abort(ctx, u.key, id)
		return err
	}
	return nil
}

// parts sends the first part and all that follow, and completes the upload.
func (u *upload) parts(ctx context.Context, id string, part []byte) error {
	var done []minio.CompletePart
	for last := false; len(part) > 0; {
		if len(done) == maxParts {
			return ErrTooLarge
		}
		digest := u.sum(part)
		sent, err := u.s.core.PutObjectPart(ctx, u.s.location.Bucket, u.key, id, len(done)+1, bytes.NewReader(part),
			int64(len(part)),
			minio.PutObjectPartOptions{Sha256Hex: digest, DisableContentSha256: true})
		if err != nil {
			return err
		}
		done = append(done, minio.CompletePart{PartNumber: sent.PartNumber, ETag: sent.ETag})
		if last {
			break
		}
		if part, last, err = u.read(part[:0]); err != nil {
			return err
		}
	}
	opts := minio.PutObjectOptions{}
	opts.SetMatchETagExcept("*")
	_, err := u.s.core.CompleteMultipartUpload(ctx, u.s.location.Bucket, u.key, id, done, opts)
	if refused := minio.ToErrorResponse(err); refused.Code != minio.NoSuchUpload &&
		refused.StatusCode != http.StatusPreconditionFailed {
		return err
	}
	// No other client knows the name, so an earlier attempt succeeded.
	found, statErr := u.s.core.StatObject(ctx, u.s.location.Bucket, u.key, minio.StatObjectOptions{})
	if statErr == nil && found.Size == u.size {
		return nil
	}
	return err
}

// read fills buf with the next part and reports whether it is the last. buf grows with
// the content, so that a small blob takes little memory.
func (u *upload) read(buf []byte) (part []byte, last bool, err error) {
	for len(buf) < partBytes {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(4*cap(buf), partBytes))
			copy(grown, buf)
			buf = grown
		}
		n, err := u.source.Read(buf[len(buf):min(cap(buf), partBytes)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			last = true
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	u.size += int64(len(buf))
	if u.size > u.limit {
		return nil, false, ErrTooLarge
	}
	if u.whole != nil {
		u.whole.Write(buf)
	}
	return buf, last, nil
}

// sum is the SHA-256 of the part that was read last, in hex.
func (u *upload) sum(part []byte) string {
	if u.whole != nil && u.size == int64(len(part)) { // it is the first
		return hex.EncodeToString(u.whole.Sum(nil))
	}
	return sumOf(part)
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// putPart puts a small object with that SHA-256 under a free name. A refusal because the
// name holds the same bytes means that an earlier attempt succeeded.
func (s *S3) putPart(ctx context.Context, key string, data []byte, digest string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*stallTimeout)
	defer cancel()
	opts := minio.PutObjectOptions{UserMetadata: map[string]string{sumMetadata: digest}, DisableContentSha256: true}
	opts.SetMatchETagExcept("*")
	_, err := s.core.PutObject(ctx, s.location.Bucket, key, bytes.NewReader(data), int64(len(data)), "", digest, opts)
	if minio.ToErrorResponse(err).StatusCode != http.StatusPreconditionFailed {
		return err
	}
	found, statErr := s.core.StatObject(ctx, s.location.Bucket, key, minio.StatObjectOptions{})
	if statErr == nil && found.UserMetadata[sumMetadata] == digest {
		return nil
	}
	return err
}
