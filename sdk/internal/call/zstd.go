package call

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/klauspost/compress/zstd"

	"github.com/svcfs/svcfs/sdk/wire"
)

// ErrPacked is an answer that is not compressed as it says.
var ErrPacked = errors.New("it is compressed wrongly")

// Unpacked returns the content of an answer that may be compressed. Whoever reads it bounds it, and
// calls end afterwards.
func Unpacked(resp *http.Response) (content io.Reader, end func(), err error) {
	switch coding := resp.Header.Get("Content-Encoding"); coding {
	case "":
		return resp.Body, func() {}, nil
	case wire.CodingZstd:
		body := &packedBody{source: resp.Body}
		body.zstd, err = zstd.NewReader(sourceOf{body}, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(wire.PackWindowBytes))
		if err != nil {
			return nil, nil, err
		}
		return body, body.zstd.Close, nil
	default:
		return nil, nil, fmt.Errorf("it is encoded as %.120q, which nobody asked for", coding)
	}
}

// ReadUnpacked is [ReadBounded] for an answer that may be compressed. Its content has at most so many bytes.
func ReadUnpacked(resp *http.Response, limit int64) ([]byte, error) {
	in, end, err := Unpacked(resp)
	if err != nil {
		return nil, Malformed(err)
	}
	defer end()
	raw, err := io.ReadAll(io.LimitReader(in, limit+1))
	switch {
	case errors.Is(err, ErrPacked):
		return nil, Malformed(err)
	case err == nil && int64(len(raw)) > limit:
		return nil, Malformed(ErrTooMuch)
	}
	return raw, err
}

// packedBody is the content of a compressed answer. Errors are [ErrPacked], or those of the line.
type packedBody struct {
	source io.Reader
	lost   error // of source, other than its end
	zstd   *zstd.Decoder
}

// Read implements [io.Reader].
func (b *packedBody) Read(p []byte) (int, error) {
	n, err := b.zstd.Read(p)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case b.lost != nil:
		return n, b.lost
	default:
		return n, fmt.Errorf("%w: %w", ErrPacked, err)
	}
}

// sourceOf is what a packedBody unpacks.
type sourceOf struct{ b *packedBody }

// Read implements [io.Reader].
func (s sourceOf) Read(p []byte) (int, error) {
	n, err := s.b.source.Read(p)
	if err != nil && err != io.EOF {
		s.b.lost = err
	}
	return n, err
}
