package api

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
)

// Threat 80: another body than the proven one is refused, also where its reader expects so many bytes and does not look
// for the end; and whether the end comes with the last bytes or after them.
func TestThreat80AnotherBodyIsRefused(t *testing.T) {
	proven := sha256.Sum256([]byte("as it was sent"))
	for _, ends := range []func(io.Reader) io.Reader{
		func(r io.Reader) io.Reader { return r }, iotest.DataErrReader, iotest.OneByteReader,
	} {
		for _, text := range []string{"as it was sent", "as a proxy has"} {
			for _, length := range []int64{int64(len(text)), -1} {
				b := &provenBody{ReadCloser: io.NopCloser(ends(bytes.NewReader([]byte(text)))), left: length,
					sum: sha256.New(), want: proven}
				got := make([]byte, len(text))
				_, err := io.ReadFull(b, got)
				if length < 0 && err == nil {
					_, err = b.Read(make([]byte, 1))
				}
				var refused *fault.Error
				switch good := sha256.Sum256([]byte(text)) == proven; {
				case good && err != nil && !errors.Is(err, io.EOF), good && string(got) != text:
					t.Errorf("%q of %d bytes: %v", text, length, err)
				case !good && (!errors.As(err, &refused) || refused.Code != wire.CodeInvalidToken):
					t.Errorf("%q of %d bytes is taken: %v", text, length, err)
				}
			}
		}
	}
}
