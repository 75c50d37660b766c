package hosted

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/mem"
)

// firstChunk is how much memory is allocated for a body before its bytes arrive, in bytes.
const firstChunk = 1 << 20

// Sink stores a blob as it arrives: first the nonce, then ciphertext and tag into a
// buffer, which grows.
type Sink struct {
	Nonce [format.NonceBytes]byte
	Buf   *mem.Buffer
	Limit int64 // largest ciphertext with tag, in bytes
	// Recorded means that Limit follows from the size in the ledger.
	Recorded bool

	text []byte // base64 of an incomplete group of four
	have int    // bytes of the nonce so far
	end  bool   // padding has ended the data
}

// Reset drops what has arrived.
func (s *Sink) Reset() error {
	*s = Sink{Buf: s.Buf, Limit: s.Limit, Recorded: s.Recorded, text: s.text[:0]}
	return s.Buf.Resize(0)
}

// room appends n bytes to the buffer and returns them.
func (s *Sink) room(n int) ([]byte, error) {
	old := s.Buf.Len()
	switch {
	case old+int64(n) <= s.Limit:
	case s.Recorded:
		return nil, call.Malformed(fmt.Errorf("encrypted data of more than %d bytes, which the recorded size excludes",
			s.Limit))
	default:
		return nil, fmt.Errorf("encrypted data of more than %d bytes: %w", s.Limit, format.ErrTooLarge)
	}
	if err := s.Buf.Resize(old + int64(n)); err != nil {
		return nil, err
	}
	return s.Buf.Bytes()[old:], nil
}

var errNotBase64 = errors.New("encrypted data is not base64")

// decode decodes a piece of strict base64 text, of any length.
func (s *Sink) decode(piece []byte) error {
	if len(s.text) > 0 {
		n := min(4-len(s.text), len(piece))
		s.text = append(s.text, piece[:n]...)
		piece = piece[n:]
		if len(s.text) < 4 {
			return nil
		}
		if err := s.groups(s.text); err != nil {
			return err
		}
		s.text = s.text[:0]
	}
	whole := len(piece) / 4 * 4
	s.text = append(s.text, piece[whole:]...)
	if s.have < len(s.Nonce) {
		first := min(whole, (len(s.Nonce)-s.have)/3*4)
		if err := s.groups(piece[:first]); err != nil {
			return err
		}
		piece, whole = piece[first:], whole-first
	}
	return s.groups(piece[:whole])
}

// groups decodes whole groups of four. They must lie entirely in the nonce, or entirely
// after it.
func (s *Sink) groups(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if s.end || bytes.ContainsAny(text, "\r\n") {
		return call.Malformed(errNotBase64)
	}
	s.end = text[len(text)-1] == '='
	into := s.Nonce[s.have:]
	if s.have == len(s.Nonce) {
		var err error
		if into, err = s.room(base64.StdEncoding.DecodedLen(len(text))); err != nil {
			return err
		}
	}
	n, err := base64.StdEncoding.Strict().Decode(into, text)
	if err != nil {
		return call.Malformed(errNotBase64)
	}
	if s.have < len(s.Nonce) {
		s.have += n
		return nil
	}
	return s.Buf.Resize(s.Buf.Len() - int64(len(into)-n))
}

// finish checks that a whole blob has arrived.
func (s *Sink) finish() error {
	if len(s.text) > 0 {
		return call.Malformed(errNotBase64)
	}
	if s.have < len(s.Nonce) || s.Buf.Len() < format.TagBytes {
		return call.Malformed(errors.New("encrypted data is missing or too short"))
	}
	return nil
}

// Read reads a raw transfer of exactly size bytes.
func (s *Sink) Read(r io.Reader, size int64) error {
	n, err := call.Fill(s.Nonce[s.have:], r)
	if s.have += n; err != nil {
		return err
	}
	for rest := size - s.Arrived(); rest > 0; {
		// Memory is allocated as bytes arrive, whatever size was announced.
		old := s.Buf.Len()
		into, err := s.room(int(min(rest, max(firstChunk, old))))
		if err != nil {
			return err
		}
		if n, err := call.Fill(into, r); err != nil {
			_ = s.Buf.Resize(old + int64(n)) // shrinking cannot fail
			return err
		}
		rest -= int64(len(into))
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n != 0 {
		return call.Malformed(errors.New("more data than announced"))
	}
	return nil
}

// Arrived returns how many bytes of the data Read is behind.
func (s *Sink) Arrived() int64 { return int64(s.have) + s.Buf.Len() }
