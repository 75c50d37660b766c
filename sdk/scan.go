package sdk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	dataField   = "encrypted_b64"
	resultField = "result"
	maxKeyBytes = 1 << 10 // of a field name
	// maxDepth bounds the nesting of an answer.
	maxDepth = 64
)

// Where a JSON object is in an answer.
type place uint8

const (
	atTop place = iota
	inResult
	elsewhere
)

// answerScanner reads the JSON answer of prepare_retrieve once, from the wire.
// The file in it is decoded as it arrives and never held as text; the rest of
// the document, small, is kept for the JSON decoder, which validates it.
type answerScanner struct {
	in   *bufio.Reader
	sink *blobSink
	rest bytes.Buffer
	took place // where the data was found, elsewhere for nowhere yet
}

// scanAnswer reads in, which was announced with a length, negative when it was not,
// to its end. It returns the document with an empty string
// in the place of the data, and whether there was data.
func scanAnswer(in io.Reader, announced int64, sink *blobSink) (rest []byte, found bool, err error) {
	size := int64(transferBuffer)
	if announced >= 0 {
		size = min(size, announced+1) // its end is seen without another
	}
	s := &answerScanner{in: bufio.NewReaderSize(in, int(size)), sink: sink, took: elsewhere}
	if err := s.value(atTop, 0); err != nil {
		return nil, false, err
	}
	if _, err := s.next(); err != io.EOF {
		if err == nil {
			err = malformed(errors.New("something follows the JSON document"))
		}
		return nil, false, err
	}
	if s.took != elsewhere {
		if err := sink.finish(); err != nil {
			return nil, false, err
		}
	}
	return s.rest.Bytes(), s.took != elsewhere, nil
}

// next returns the next byte that is not white space.
func (s *answerScanner) next() (byte, error) {
	for {
		c, err := s.in.ReadByte()
		if err != nil || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c, err
		}
	}
}

// token is next, where the document may not end.
func (s *answerScanner) token() (byte, error) {
	c, err := s.next()
	if err == io.EOF {
		err = malformed(errors.New("the JSON document ends early"))
	}
	return c, err
}

func (s *answerScanner) keep(c byte) error {
	if s.rest.Len() >= maxAnswerBytes {
		return malformed(errTooMuch)
	}
	return s.rest.WriteByte(c)
}

// value copies one value.
func (s *answerScanner) value(where place, depth int) error {
	c, err := s.token()
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return malformed(fmt.Errorf("nested deeper than %d", maxDepth))
	}
	switch c {
	case '{':
		return s.object(where, depth)
	case '[':
		return s.array(depth)
	case '"':
		return s.text(maxAnswerBytes)
	default:
		return s.literal(c)
	}
}

func (s *answerScanner) object(where place, depth int) error {
	if err := s.keep('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := s.token()
		if err != nil {
			return err
		}
		if c == '}' && first {
			return s.keep(c)
		}
		if c != '"' {
			return malformed(errors.New("a field without a name"))
		}
		if err := s.field(where, depth); err != nil {
			return err
		}
		if c, err = s.token(); err != nil {
			return err
		}
		if err := s.keep(c); err != nil {
			return err
		}
		if c == '}' {
			return nil
		}
		if c != ',' {
			return malformed(errors.New("fields run together"))
		}
	}
}

// field copies a name, whose quote was read, and its value.
func (s *answerScanner) field(where place, depth int) error {
	start := s.rest.Len()
	if err := s.text(maxKeyBytes); err != nil {
		return err
	}
	var name string
	if err := json.Unmarshal(s.rest.Bytes()[start:], &name); err != nil {
		return malformed(describeJSON(err))
	}
	c, err := s.token()
	if err != nil {
		return err
	}
	if c != ':' {
		return malformed(errors.New("a field without a value"))
	}
	if err := s.keep(':'); err != nil {
		return err
	}
	switch {
	case name == dataField && where != elsewhere:
		return s.data(where, depth)
	case name == resultField && where == atTop:
		return s.value(inResult, depth+1)
	default:
		return s.value(elsewhere, depth+1)
	}
}

func (s *answerScanner) array(depth int) error {
	if err := s.keep('['); err != nil {
		return err
	}
	c, err := s.token()
	if err != nil {
		return err
	}
	if c == ']' {
		return s.keep(c)
	}
	if err := s.in.UnreadByte(); err != nil {
		return err
	}
	for {
		if err := s.value(elsewhere, depth+1); err != nil {
			return err
		}
		if c, err = s.token(); err != nil {
			return err
		}
		if err := s.keep(c); err != nil || c == ']' {
			return err
		}
		if c != ',' {
			return malformed(errors.New("list items run together"))
		}
	}
}

// literal copies a number or a word.
func (s *answerScanner) literal(c byte) error {
	for {
		if err := s.keep(c); err != nil {
			return err
		}
		next, err := s.in.Peek(1)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch next[0] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return nil
		case '{', '[', '"', ':':
			return malformed(errors.New("a word that is none of JSON's"))
		}
		c, _ = s.in.ReadByte()
	}
}

// text copies a string of at most limit bytes, whose opening quote was read.
func (s *answerScanner) text(limit int) error {
	if err := s.keep('"'); err != nil {
		return err
	}
	for escaped, n := false, 0; ; n++ {
		c, err := s.in.ReadByte()
		if err == io.EOF {
			err = malformed(errors.New("a string without an end"))
		}
		if err != nil {
			return err
		}
		if n > limit {
			return malformed(errTooMuch)
		}
		if err := s.keep(c); err != nil {
			return err
		}
		if c == '"' && !escaped {
			return nil
		}
		escaped = c == '\\' && !escaped
	}
}

// data decodes the file. The result's data counts, whatever an older generation
// repeats beside it.
func (s *answerScanner) data(where place, depth int) error {
	c, err := s.token()
	if err != nil {
		return err
	}
	if c != '"' { // null, or of the wrong type: the JSON decoder will tell
		if err := s.in.UnreadByte(); err != nil {
			return err
		}
		return s.value(elsewhere, depth+1)
	}
	if s.took == where {
		return malformed(errors.New("encrypted data twice"))
	}
	into := s.sink.decode
	if s.took == inResult {
		into = func([]byte) error { return nil }
	} else {
		if err := s.sink.reset(); err != nil {
			return err
		}
		s.took = where
	}
	if err := s.base64(into); err != nil {
		return err
	}
	s.rest.WriteString(`""`)
	return nil
}

// base64 hands the pieces of a string, whose opening quote was read, to into.
func (s *answerScanner) base64(into func([]byte) error) error {
	for {
		if _, err := s.in.Peek(1); err != nil {
			if err == io.EOF {
				err = malformed(errors.New("a string without an end"))
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
			return malformed(errNotBase64)
		}
		if err := into([]byte{c}); err != nil {
			return err
		}
	}
}
