package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
)

// An archive is a row of sections. Each states its length and has a checksum, so that damage stays in
// its section, and the reader finds the next one.

// magic begins a section. No text has it, and a transfer as text breaks it.
const magic = "\x89svcd1\r\n"

// kind is what a section holds.
type kind byte

const (
	kindHead  kind = 'h' // JSON, see Head
	kindRows  kind = 'r' // a page of the table that names the section
	kindBlob  kind = 'b' // a blob; its id names the section, of a part with the length of its sealed blocks
	kindIndex kind = 'i' // a part of an index
)

const (
	beginBytes = len(magic) + 8 // and kind, length of the name, length of the content
	checkBytes = 8              // of the checksum over the beginning and the name
	maxBegin   = beginBytes + 255 + checkBytes
)

// most bounds the content of a section of this kind; all but blobs are read into memory. -1 = there is no such kind.
func (k kind) most() int64 {
	switch k {
	case kindHead, kindIndex:
		return 4 << 20
	case kindRows:
		return 32 << 20 // of one large row; else a page ends earlier
	case kindBlob:
		return 1<<48 - 1
	}
	return -1
}

// begin returns what comes before the content of a section.
func begin(k kind, name string, size int64) []byte {
	b := append([]byte(magic), byte(k), byte(len(name)))
	b = append(b, binary.BigEndian.AppendUint64(nil, uint64(size))[2:]...)
	b = append(b, name...)
	sum := sha256.Sum256(b)
	return append(b, sum[:checkBytes]...)
}

// parse reads what begin made from the beginning of b.
func parse(b []byte) (s *section, length int, ok bool) {
	if len(b) < beginBytes || string(b[:len(magic)]) != magic {
		return nil, 0, false
	}
	length = beginBytes + int(b[len(magic)+1]) + checkBytes
	if len(b) < length {
		return nil, 0, false
	}
	size := binary.BigEndian.Uint64(b[len(magic):]) & (1<<48 - 1)
	s = &section{kind: kind(b[len(magic)]), name: string(b[beginBytes : length-checkBytes]), size: int64(size)}
	return s, length, s.size <= s.kind.most() && bytes.Equal(b[:length], begin(s.kind, s.name, s.size))
}

// sumOf is the checksum of a section: SHA-256 over all that comes before the checksum.
func sumOf(k kind, name string, content []byte) [sha256.Size]byte {
	return sha256.Sum256(append(begin(k, name, int64(len(content))), content...))
}

// writer writes sections.
type writer struct {
	w     *bufio.Writer
	bytes int64
}

func (w *writer) section(k kind, name string, size int64, content io.Reader) error {
	sum := sha256.New()
	to := io.MultiWriter(w.w, sum)
	if _, err := to.Write(begin(k, name, size)); err != nil {
		return err
	}
	n, err := io.Copy(to, content)
	if err == nil && n != size {
		err = errors.New("its size changed while it was read")
	}
	if err == nil {
		_, err = w.w.Write(sum.Sum(nil))
	}
	w.bytes += int64(beginBytes+len(name)+checkBytes+sha256.Size) + n
	return err
}

func (w *writer) text(k kind, name string, content []byte) error {
	return w.section(k, name, int64(len(content)), bytes.NewReader(content))
}

var (
	errChanged = errors.New("it does not have its checksum")
	errCut     = errors.New("it ends early")
)

// reader reads sections. The content of one is read, or skipped, before the next.
type reader struct {
	from io.Reader
	b    *bufio.Reader
	at   int64 // bytes before the next one
}

func newReader(from io.Reader) *reader {
	return &reader{from: from, b: bufio.NewReaderSize(from, 64<<10)}
}

func (r *reader) discard(n int) {
	n, _ = r.b.Discard(n) // they are in memory
	r.at += int64(n)
}

// next finds the next section, or io.EOF. skipped are bytes before it that belong to no section.
func (r *reader) next() (s *section, skipped int64, err error) {
	from := r.at
	for {
		b, err := r.b.Peek(maxBegin)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, r.at - from, err
		}
		if len(b) == 0 {
			return nil, r.at - from, io.EOF
		}
		if s, length, ok := parse(b); ok {
			s.at, s.left, s.r, s.sum = r.at, s.size, r, sha256.New()
			s.sum.Write(b[:length])
			r.discard(length)
			return s, s.at - from, nil
		}
		n := bytes.IndexByte(b[1:], magic[0]) + 1
		if n == 0 {
			n = len(b)
		}
		r.discard(n)
	}
}

// section is a section of an archive; reading it reads its content. At the end, the error is io.EOF only
// if the content has its checksum, else errChanged or errCut.
type section struct {
	kind kind
	name string
	size int64
	at   int64 // bytes of the archive before it

	r    *reader
	left int64 // of the content
	sum  hash.Hash
	end  error // of the content
}

// Read reads the content.
func (s *section) Read(p []byte) (int, error) {
	if s.left > 0 && s.end == nil {
		n, err := s.r.b.Read(p[:min(int64(len(p)), s.left)])
		s.sum.Write(p[:n])
		s.left, s.r.at = s.left-int64(n), s.r.at+int64(n)
		if errors.Is(err, io.EOF) {
			err, s.end = errCut, errCut
		}
		return n, err
	}
	if s.end == nil {
		s.end = io.EOF
		var sum [sha256.Size]byte
		n, err := io.ReadFull(s.r.b, sum[:])
		s.r.at += int64(n)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			s.end = errCut
		case err != nil:
			s.end = err
		case !bytes.Equal(sum[:], s.sum.Sum(nil)):
			s.end = errChanged
		}
	}
	return 0, s.end
}

// text reads the whole content, which is not that of a blob, and returns it with its checksum.
func (s *section) text() ([]byte, [sha256.Size]byte, error) {
	var b bytes.Buffer // grows with what comes
	_, err := b.ReadFrom(s)
	return b.Bytes(), [sha256.Size]byte(s.sum.Sum(nil)), err
}

// skip goes past the content without a look at it.
func (s *section) skip() error {
	rest := s.left + sha256.Size
	seeker, ok := s.r.from.(io.Seeker)
	if buffered := int64(s.r.b.Buffered()); ok && rest > buffered {
		if _, err := seeker.Seek(rest-buffered, io.SeekCurrent); err != nil {
			return err
		}
		s.r.b.Reset(s.r.from)
	} else if _, err := io.CopyN(io.Discard, s.r.b, rest); err != nil {
		return errCut
	}
	s.r.at += rest
	return nil
}
