package hosted

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/svcfs/svcfs/sdk/internal/call"
)

const (
	dataField    = "encrypted_b64"
	resultField  = "result"
	maxNameBytes = 1 << 10 // of a field
)

// place is where a field is in an answer.
type place uint8

const (
	elsewhere place = iota
	atTop           // in the outermost object
	inResult        // in the object that is its field "result"
)

// answerScanner reads the JSON answer of prepare_retrieve once, from the wire. It
// decodes the file in it as the bytes arrive, and never holds the file as text. It
// copies the rest of the document, which is small. It follows strings and nesting only:
// the JSON decoder, which reads the copy, refuses a document that is not JSON.
type answerScanner struct {
	in   *bufio.Reader
	sink *Sink
	rest bytes.Buffer
	took place // where the data was found; elsewhere = nowhere yet
}

// ScanAnswer reads in to its end; announced is its length in bytes, negative when the
// service did not tell. The data goes to sink. It returns the document with an empty
// string in the place of the data, and whether there was data. The caller must decode
// the document before it uses the data.
func ScanAnswer(in io.Reader, announced int64, sink *Sink) (rest []byte, found bool, err error) {
	size := int64(call.TransferBuffer)
	if announced >= 0 {
		size = min(size, announced+1) // one more byte, so that one read meets the end
	}
	s := &answerScanner{in: bufio.NewReaderSize(in, int(size)), sink: sink}
	if err := s.document(); err != nil {
		return nil, false, err
	}
	if s.took == elsewhere {
		return s.rest.Bytes(), false, nil
	}
	return s.rest.Bytes(), true, sink.finish()
}

// document copies the document, without the data.
func (s *answerScanner) document() error {
	depth, below := 0, elsewhere // below: where fields of depth 2 are
	for {
		c, err := s.in.ReadByte()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.keep(c); err != nil {
			return err
		}
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			name, isName, err := s.name()
			if err != nil {
				return err
			}
			where := elsewhere
			switch {
			case isName && depth == 1:
				where, below = atTop, elsewhere
				if name == resultField {
					below = inResult
				}
			case isName && depth == 2:
				where = below
			}
			if name == dataField && where != elsewhere {
				if err := s.data(where); err != nil {
					return err
				}
			}
		}
	}
}

func (s *answerScanner) keep(c byte) error {
	if s.rest.Len() >= call.MaxAnswer {
		return call.Malformed(call.ErrTooMuch)
	}
	return s.rest.WriteByte(c)
}

// name copies a string, whose opening quote was copied, and what follows up to a colon.
// It returns the string if it is the name of a field.
func (s *answerScanner) name() (name string, isName bool, err error) {
	start := s.rest.Len() - 1
	for escaped := false; ; {
		c, err := s.in.ReadByte()
		if err == io.EOF {
			err = call.Malformed(errOpenString)
		}
		if err != nil {
			return "", false, err
		}
		if err := s.keep(c); err != nil {
			return "", false, err
		}
		if c == '"' && !escaped {
			break
		}
		escaped = c == '\\' && !escaped
	}
	text := s.rest.Bytes()[start:]
	if is, err := s.follows(':'); err != nil || !is {
		return "", false, err
	}
	if len(text) > maxNameBytes {
		return "", false, call.Malformed(call.ErrTooMuch)
	}
	_ = json.Unmarshal(text, &name) // the decoder of the document meets the error again
	return name, true, nil
}

// follows copies white space, and want if want comes next.
func (s *answerScanner) follows(want byte) (bool, error) {
	for {
		c, err := s.in.ReadByte()
		switch {
		case err == io.EOF:
			return false, nil
		case err != nil:
			return false, err
		case c == want:
			return true, s.keep(c)
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			return false, s.in.UnreadByte()
		}
		if err := s.keep(c); err != nil {
			return false, err
		}
	}
}

// data decodes the file, if the value of the field is a string. The data of the result
// counts, whatever an older generation repeats at the top.
func (s *answerScanner) data(where place) error {
	if is, err := s.follows('"'); err != nil || !is {
		return err
	}
	if s.took == where {
		return call.Malformed(errors.New("encrypted data twice"))
	}
	into := s.sink.decode
	if s.took == inResult {
		into = func([]byte) error { return nil }
	} else {
		if err := s.sink.Reset(); err != nil {
			return err
		}
		s.took = where
	}
	if err := s.base64(into); err != nil {
		return err
	}
	return s.keep('"')
}

var errOpenString = errors.New("a string without an end")

// base64 gives the content of a string to into, piece by piece. The opening quote was read
// before.
func (s *answerScanner) base64(into func([]byte) error) error {
	for {
		if _, err := s.in.Peek(1); err != nil {
			if err == io.EOF {
				err = call.Malformed(errOpenString)
			}
			return err
		}
		piece, _ := s.in.Peek(s.in.Buffered())
		end := bytes.IndexAny(piece, `"\`)
		if end >= 0 {
			piece = piece[:end]
		}
		if err := into(piece); err != nil {
			return err
		}
		_, _ = s.in.Discard(len(piece))
		if end < 0 {
			continue
		}
		if c, _ := s.in.ReadByte(); c == '"' {
			return nil
		}
		c, err := s.in.ReadByte()
		if err != nil {
			return err
		}
		if c != '/' { // "\/" is legal JSON; nothing else in base64 needs an escape
			return call.Malformed(errNotBase64)
		}
		if err := into([]byte{c}); err != nil {
			return err
		}
	}
}
