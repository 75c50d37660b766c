package sdk

import (
	"errors"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
)

const (
	// deflateFrom is the smallest content worth compressing, in bytes.
	deflateFrom = 1 << 10
	// A sample decides whether compression pays: samplePieces pieces, spread over the
	// content, of samplePiece bytes each.
	samplePieces = 4
	samplePiece  = 4 << 10
)

// errDoesNotPay ends a compression that saves too little.
var errDoesNotPay = errors.New("compressing does not pay")

// pack sets u.body to the content itself, or to the compressed content in a buffer that
// release gives back. A repeated upload is packed like its first attempt, because the
// service may have that ciphertext already.
func (u *uploading) pack() (release func(), err error) {
	u.body = u.buf
	want := u.compress
	if u.ticket != nil {
		want = u.ticket.compressed
	}
	if !want || !pays(u.buf.Bytes()) {
		return func() {}, nil
	}
	packed, err := deflated(u.c.pool, u.buf.Bytes())
	if errors.Is(err, errDoesNotPay) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	u.body = packed
	return packed.Release, nil
}

// deflated returns content compressed, in a buffer that the caller releases. The error is
// errDoesNotPay if too little is saved.
func deflated(pool *mem.Pool, content []byte) (*mem.Buffer, error) {
	packed, err := pool.Get(0)
	if err != nil {
		return nil, err
	}
	if err := format.DeflateTo(&appender{packed, worthwhile(int64(len(content)))}, content); err != nil {
		packed.Release()
		return nil, err
	}
	return packed, nil
}

// worthwhile returns the largest compressed size that is used: at least an eighth must be
// saved.
func worthwhile(size int64) int64 { return size - size/8 }

// pays compresses a sample of at most 16 KiB.
func pays(content []byte) bool {
	if len(content) < deflateFrom {
		return false
	}
	var sample, packed int64
	for i := range samplePieces {
		piece := content[min(len(content)/samplePieces*i, len(content)):]
		piece = piece[:min(len(piece), samplePiece, len(content)/samplePieces)]
		count := counter(0)
		if format.DeflateTo(&count, piece) != nil {
			return false
		}
		sample, packed = sample+int64(len(piece)), packed+int64(count)
	}
	return packed <= worthwhile(sample)
}

// counter counts the bytes written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// appender appends to a buffer, up to limit bytes in all.
type appender struct {
	buf   *mem.Buffer
	limit int64
}

func (a *appender) Write(p []byte) (int, error) {
	old := a.buf.Len()
	if old+int64(len(p)) > a.limit {
		return 0, errDoesNotPay
	}
	if err := a.buf.Resize(old + int64(len(p))); err != nil {
		return 0, err
	}
	return copy(a.buf.Bytes()[old:], p), nil
}
