package sdk

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

// blobSink stores a blob as it arrives: first the nonce, then ciphertext and tag into a
// buffer, which grows.
type blobSink struct {
	nonce [format.NonceBytes]byte
	buf   *mem.Buffer
	limit int64 // largest ciphertext with tag, in bytes
	// recorded means that limit follows from the size in the ledger.
	recorded bool
	report   Progress

	text []byte // base64 of an incomplete group of four
	have int    // bytes of the nonce so far
	end  bool   // padding has ended the data
}

func (s *blobSink) reset() error {
	*s = blobSink{buf: s.buf, limit: s.limit, recorded: s.recorded, report: s.report, text: s.text[:0]}
	return s.buf.Resize(0)
}

// room appends n bytes to the buffer and returns them.
func (s *blobSink) room(n int) ([]byte, error) {
	old := s.buf.Len()
	switch {
	case old+int64(n) <= s.limit:
	case s.recorded:
		return nil, call.Malformed(fmt.Errorf("encrypted data of more than %d bytes, which the recorded size excludes",
			s.limit))
	default:
		return nil, fmt.Errorf("encrypted data of more than %d bytes: %w", s.limit, format.ErrTooLarge)
	}
	if err := s.buf.Resize(old + int64(n)); err != nil {
		return nil, err
	}
	return s.buf.Bytes()[old:], nil
}

var errNotBase64 = errors.New("encrypted data is not base64")

// decode decodes a piece of strict base64 text, of any length.
func (s *blobSink) decode(piece []byte) error {
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
	if s.have < len(s.nonce) {
		first := min(whole, (len(s.nonce)-s.have)/3*4)
		if err := s.groups(piece[:first]); err != nil {
			return err
		}
		piece, whole = piece[first:], whole-first
	}
	return s.groups(piece[:whole])
}

// groups decodes whole groups of four. They must lie entirely in the nonce, or entirely
// after it.
func (s *blobSink) groups(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	if s.end || bytes.ContainsAny(text, "\r\n") {
		return call.Malformed(errNotBase64)
	}
	s.end = text[len(text)-1] == '='
	into := s.nonce[s.have:]
	if s.have == len(s.nonce) {
		var err error
		if into, err = s.room(base64.StdEncoding.DecodedLen(len(text))); err != nil {
			return err
		}
	}
	n, err := base64.StdEncoding.Strict().Decode(into, text)
	if err != nil {
		return call.Malformed(errNotBase64)
	}
	if s.have < len(s.nonce) {
		s.have += n
		return nil
	}
	return s.buf.Resize(s.buf.Len() - int64(len(into)-n))
}

// finish checks that a whole blob has arrived.
func (s *blobSink) finish() error {
	if len(s.text) > 0 {
		return call.Malformed(errNotBase64)
	}
	if s.have < len(s.nonce) || s.buf.Len() < format.TagBytes {
		return call.Malformed(errors.New("encrypted data is missing or too short"))
	}
	return nil
}

// read reads a raw transfer of exactly size bytes.
func (s *blobSink) read(r io.Reader, size int64) error {
	n, err := fill(s.nonce[s.have:], r)
	if s.have += n; err != nil {
		return err
	}
	for rest := size - s.arrived(); rest > 0; {
		// Memory is allocated as bytes arrive, whatever size was announced.
		old := s.buf.Len()
		into, err := s.room(int(min(rest, max(firstChunk, old))))
		if err != nil {
			return err
		}
		if n, err := fill(into, r); err != nil {
			_ = s.buf.Resize(old + int64(n)) // shrinking cannot fail
			return err
		}
		rest -= int64(len(into))
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n != 0 {
		return call.Malformed(errors.New("more data than announced"))
	}
	return nil
}

// arrived returns how many bytes of the data read is behind.
func (s *blobSink) arrived() int64 { return int64(s.have) + s.buf.Len() }

// fill reads exactly len(p) bytes, and returns how many it read. A complete body that is too short is
// malformed. A body that broke off is not malformed, and may be requested again.
func fill(p []byte, r io.Reader) (read int, err error) {
	for read < len(p) {
		n, err := r.Read(p[read:])
		read += n
		if err == io.EOF && read < len(p) {
			return read, call.Malformed(errors.New("less data than announced"))
		}
		if err != nil && err != io.EOF {
			return read, err
		}
	}
	return read, nil
}
