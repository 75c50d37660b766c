package hosted

import (
	"bytes"
	"encoding/base64"
	"io"
	"strings"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
)

const encryptedField = `,"encrypted_data":"`

// Body returns the body of a request: head, a JSON object, alone, or with the field encrypted_data added, which holds
// the blob. The ciphertext becomes base64 while it is sent. The nonce has a multiple of three bytes, so that the base64
// of nonce and ciphertext can be joined.
func Body(head []byte, inline *Blob) *call.Body {
	body := &call.Body{Type: "application/json", Length: int64(len(head)),
		Open: func() io.Reader { return bytes.NewReader(head) }}
	if inline != nil {
		body.Length = bodyLength(head, inline)
		body.Open = func() io.Reader { return bodyReader(head, inline) }
	}
	return body
}

func bodyLength(head []byte, b *Blob) int64 {
	encoded := base64.StdEncoding.EncodedLen(format.NonceBytes) +
		base64.StdEncoding.EncodedLen(int(b.Size())-format.NonceBytes)
	return int64(len(head) - 1 + len(encryptedField) + encoded + len(`"}`))
}

// bodyReader returns head, a JSON object, with the field encrypted_data added.
func bodyReader(head []byte, b *Blob) io.Reader {
	return io.MultiReader(bytes.NewReader(head[:len(head)-1]), strings.NewReader(encryptedField),
		&base64Reader{src: b.nonce[:]}, &base64Reader{src: b.mem}, strings.NewReader(`"}`))
}

// base64Reader encodes src while it is read.
type base64Reader struct {
	src     []byte
	pending []byte
	chunk   [64 << 10]byte
}

func (r *base64Reader) Read(p []byte) (int, error) {
	if len(r.pending) == 0 {
		if len(r.src) == 0 {
			return 0, io.EOF
		}
		n := min(len(r.src), len(r.chunk)/4*3)
		base64.StdEncoding.Encode(r.chunk[:], r.src[:n])
		r.pending = r.chunk[:base64.StdEncoding.EncodedLen(n)]
		r.src = r.src[n:]
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}
