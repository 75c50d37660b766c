package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// partBytes is the part of a blob that is in memory at a time; a smaller blob is put
	// in one request. S3 wants at least 5 MiB and at most 10 000 parts.
	partBytes = 5 << 20
	maxParts  = 10_000
	// maxLarge bounds the Puts of more than one part that run at a time.
	maxLarge = 64
	// attempts is how often a request is tried.
	attempts = 3

	dialTimeout = 5 * time.Second
	// answerTimeout bounds a request without content, with its retries.
	answerTimeout = 10 * time.Second
	// stallTimeout is how long a transfer may stand still.
	stallTimeout = 20 * time.Second

	// maxSkew is how far the bucket's clock may be from ours: S3 refuses more.
	maxSkew = 15 * time.Minute

	probePrefix = "probe-"
	sumMetadata = "Sha256" // hex SHA-256 of a blob of one part
)

// S3 stores blobs in a bucket, below a prefix. A blob is as durable as the bucket makes
// it.
type S3 struct {
	core      minio.Core
	transport *http.Transport
	location  Location
	mark      string
	large     chan struct{} // a token per Put of more than one part
}

// OpenS3 opens the bucket of a location, see [ParseLocation], and tests the promises of
// a blob store with a throw-away object: bytes come back, in part as well, and a put
// under a taken name is refused. Credentials come from AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY or the file that AWS_SHARED_CREDENTIALS_FILE names.
func OpenS3(ctx context.Context, location, mark string) (*S3, error) {
	l, err := ParseLocation(location)
	if err != nil {
		return nil, err
	}
	creds, err := findCredentials()
	if err != nil {
		return nil, err
	}
	transport := newTransport()
	lookup := minio.BucketLookupAuto
	if l.PathStyle {
		lookup = minio.BucketLookupPath
	}
	core, err := minio.NewCore(l.Endpoint.Host, &minio.Options{Creds: creds, Secure: l.Endpoint.Scheme == "https",
		Region:       l.Region,
		BucketLookup: lookup, Transport: transport, MaxRetries: attempts})
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	s := &S3{core: *core, transport: transport, location: l, mark: mark, large: make(chan struct{}, maxLarge)}
	if err := s.probe(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open bucket: %w", err), s.Close())
	}
	return s, nil
}

// newTransport returns a transport on which every request ends.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return stallingConn{conn}, nil
		},
		TLSHandshakeTimeout:   answerTimeout,
		ResponseHeaderTimeout: stallTimeout,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   64,
		DisableCompression:    true,
	}
}

// stallingConn fails a write that does not move within stallTimeout. Reads are
// bounded by ResponseHeaderTimeout and by [object].
type stallingConn struct{ net.Conn }

func (c stallingConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close closes the connections.
func (s *S3) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Where returns the address of a blob.
func (s *S3) Where(id string) string {
	if checkID(id) != nil {
		return ""
	}
	return s3Scheme + s.location.Bucket + "/" + s.key(place(id))
}

func (s *S3) key(name string) string { return path.Join(s.location.Prefix, name) }

// Check asks for the bucket.
func (s *S3) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	found, err := s.core.BucketExists(ctx, s.location.Bucket)
	if err != nil {
		return s.kind(ctx, "look for bucket", err)
	}
	if !found {
		return fmt.Errorf("%w: %s", ErrUnavailable, s.location.missing())
	}
	return nil
}

// probe checks the promises of OpenS3.
func (s *S3) probe(ctx context.Context) error {
	if err := s.Check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*answerTimeout)
	defer cancel()
	id := newID("")
	key := s.key(probePrefix + id)
	defer s.remove(ctx, key)
	if err := s.putPart(ctx, key, []byte(id), sumOf([]byte(id))); err != nil {
		return s.kind(ctx, "put the probe object", err)
	}
	err := s.putPart(ctx, key, []byte("overwritten"), sumOf([]byte("overwritten")))
	if err == nil {
		return errors.New("the S3 server ignores If-None-Match: a put under a taken name was accepted; use a server " +
			"that honours conditional puts " +
			"(versitygw must not run with --nometa)")
	}
	if minio.ToErrorResponse(err).StatusCode != http.StatusPreconditionFailed {
		return s.kind(ctx, "put the probe object again", err)
	}
	r := &object{s: s, ctx: ctx, key: key, size: int64(len(id))}
	defer r.Close()
	for _, from := range []int64{0, 7} {
		if _, err := r.Seek(from, io.SeekStart); err != nil {
			return err
		}
		back, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if string(back) != id[from:] {
			return fmt.Errorf("the S3 server returns other bytes than were put, read from byte %d: do not trust it "+
				"with files", from)
		}
	}
	return nil
}

// Open opens a blob for reading; the caller closes it.
func (s *S3) Open(ctx context.Context, id string) (io.ReadSeekCloser, int64, error) {
	if err := checkID(id); err != nil {
		return nil, 0, err
	}
	short, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	key := s.key(place(id))
	info, err := s.core.StatObject(short, s.location.Bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return nil, 0, s.orBucketGone(ctx, s.kind(ctx, "open blob", err))
	}
	return &object{s: s, ctx: ctx, key: key, size: info.Size}, info.Size, nil
}

// orBucketGone returns err, or that the bucket is missing: the answer for a missing blob
// is the same.
func (s *S3) orBucketGone(ctx context.Context, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if gone := s.Check(ctx); gone != nil {
			return gone
		}
	}
	return err
}

// Read returns a whole blob of so many bytes.
func (s *S3) Read(ctx context.Context, id string, size int64) ([]byte, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	o := &object{s: s, ctx: ctx, key: s.key(place(id)), size: size}
	data := make([]byte, size)
	if _, err := io.ReadFull(o, data); err != nil {
		return nil, s.orBucketGone(ctx, errors.Join(err, o.Close()))
	}
	return data, o.Close()
}

// Delete removes a blob; a missing blob is no error.
func (s *S3) Delete(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := s.kind(ctx, "delete blob", s.core.RemoveObject(ctx, s.location.Bucket, s.key(place(id)),
		minio.RemoveObjectOptions{}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// remove removes the leftovers of a failed call, even after its context ended.
func (s *S3) remove(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	_ = s.core.RemoveObject(ctx, s.location.Bucket, key, minio.RemoveObjectOptions{})
}

func (s *S3) abort(ctx context.Context, key, uploadID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	_ = s.core.AbortMultipartUpload(ctx, s.location.Bucket, key, uploadID)
}

// Sweep removes the leftovers of interrupted Puts of this mark and calls visit with every blob older
// than age that has the mark. The age of a large blob counts from when its upload began. A Put is interrupted when no
// part came for age. It costs a request for each 1000 blobs.
func (s *S3) Sweep(ctx context.Context, age time.Duration, visit func(id string, size int64) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the listing
	defer cancel()
	before := oldest(age)
	err := s.list(ctx, before, func(key, id string, size int64) error {
		if id == "" {
			s.remove(ctx, key)
			return nil
		}
		if !strings.HasSuffix(id, s.mark) {
			return nil
		}
		return visit(id, size)
	})
	if err != nil {
		return err
	}
	for entry := range s.core.ListIncompleteUploads(ctx, s.location.Bucket, s.prefix(), true) {
		if entry.Err != nil {
			return s.kind(ctx, "list interrupted uploads", entry.Err)
		}
		if !strings.HasSuffix(entry.Key, s.mark) || entry.Initiated.After(before) {
			continue
		}
		sent, err := s.lastPart(ctx, entry.Key, entry.UploadID)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has ended meanwhile
		case err != nil:
			return err
		case sent.Before(before):
			s.abort(ctx, entry.Key, entry.UploadID)
		}
	}
	return nil
}

// lastPart returns when the newest part of an upload came; the zero time if none has.
func (s *S3) lastPart(ctx context.Context, key, uploadID string) (last time.Time, err error) {
	for marker := 0; ; {
		list, err := s.core.ListObjectParts(ctx, s.location.Bucket, key, uploadID, marker, maxParts)
		if minio.ToErrorResponse(err).Code == minio.NoSuchUpload {
			return last, fs.ErrNotExist
		}
		if err != nil {
			return last, s.kind(ctx, "list parts", err)
		}
		for _, part := range list.ObjectParts {
			if part.LastModified.After(last) {
				last = part.LastModified
			}
		}
		if !list.IsTruncated {
			return last, nil
		}
		marker = list.NextPartNumberMarker
	}
}

// List calls visit with every blob older than age.
func (s *S3) List(ctx context.Context, age time.Duration, visit func(id string, size int64) error) error {
	return s.list(ctx, oldest(age), func(_, id string, size int64) error {
		if id == "" {
			return nil
		}
		return visit(id, size)
	})
}

// oldest is the moment before which something is older than age, by the bucket's clock.
func oldest(age time.Duration) time.Time {
	if age > 0 {
		age += maxSkew
	}
	return time.Now().Add(-age)
}

// prefix is the common prefix of the keys of all blobs.
func (s *S3) prefix() string {
	prefix := s.key("") // "" or without a slash at its end
	if prefix != "" {
		prefix += "/"
	}
	return prefix
}

// list calls visit with every blob that came before a moment, and with leftover probe
// objects, which have no id.
func (s *S3) list(ctx context.Context, before time.Time, visit func(key, id string, size int64) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the listing
	defer cancel()
	prefix := s.prefix()
	for entry := range s.core.ListObjectsIter(ctx, s.location.Bucket, minio.ListObjectsOptions{Prefix: prefix,
		Recursive: true}) {
		if entry.Err != nil {
			return s.kind(ctx, "list blobs", entry.Err)
		}
		if entry.LastModified.After(before) {
			continue
		}
		name := strings.TrimPrefix(entry.Key, prefix)
		id := path.Base(name)
		switch {
		case strings.HasPrefix(name, probePrefix):
			id = ""
		case checkID(id) != nil || name != place(id):
			continue
		}
		if err := visit(entry.Key, id, entry.Size); err != nil {
			return err
		}
	}
	return nil
}

// kind classifies an error of the client: a mistake of the caller, a missing blob, no
// room, or else an outage.
func (s *S3) kind(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	var refused minio.ErrorResponse
	errors.As(err, &refused)
	switch {
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrSize), errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, err)
	case refused.Code == minio.NoSuchBucket:
		return fmt.Errorf("%s: %w: %s", what, ErrUnavailable, s.location.missing())
	case refused.Code == minio.NoSuchKey:
		return fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	case refused.StatusCode == http.StatusInsufficientStorage, strings.Contains(refused.Code, "QuotaExceeded"),
		strings.Contains(refused.Code, "StorageFull"):
		return fmt.Errorf("%s: %w: %w", what, ErrFull, err)
	case refused.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s: %w: the S3 server refuses: %w; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the "+
			"rights to the bucket", what, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}
