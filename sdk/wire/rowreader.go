package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrRows means that an answer begins like a list of rows and goes on as something else.
var ErrRows = errors.New("not a list of rows")

const (
	// rowsAhead is how much of an answer a [RowReader] asks for at a time, in bytes.
	rowsAhead = 64 << 10
	// longRow is from which length on a row that has not ended is waited for longer, in bytes.
	longRow = 4 << 10
	// rowsTogether is how many rows it passes on at a time.
	rowsTogether = 512
	// MaxRowBytes is the longest row that a [RowReader] takes, in bytes.
	MaxRowBytes = 256 << 10
	// rowDepth bounds the nesting of a row that [ParseRows] would leave to encoding/json.
	rowDepth = 64
	// rowsHead is how many bytes the beginning of a list takes at most, with white space.
	rowsHead = 64
)

// RowReader reads the rows of an answer {"result": [rows], …} while it arrives, so that a list
// of any length takes the memory of a few rows. Make one with [NewRowReader]. It is for one
// goroutine.
type RowReader struct {
	in      io.Reader
	left    []byte // arrived, and not read
	buf     []byte // the memory of left
	ended   bool   // in has no more
	isList  bool   // the beginning of a list was read
	isOver  bool   // the end of the list was read, or it is no list
	n       int64  // rows read
	blank   int    // bytes of white space since the last of them
	last    TransactionRow
	rows    []TransactionRow
	problem error
}

// NewRowReader returns a reader of the answer that in brings. in bounds the bytes of all rows together.
func NewRowReader(in io.Reader) *RowReader { return &RowReader{in: in} }

// Next returns the next rows, one or more: those that have arrived. They belong to the reader,
// which changes them in the next call; their texts stay. Errors: io.EOF after the last row, and for an answer that
// does not begin like a list; [ErrRows]; and those of the connection.
func (r *RowReader) Next() ([]TransactionRow, error) {
	r.rows = r.rows[:0]
	for r.problem == nil && len(r.rows) < rowsTogether {
		complete := r.read()
		if r.isOver && r.problem == nil {
			r.problem = io.EOF
		}
		if r.problem != nil || complete {
			continue
		}
		if len(r.rows) > 0 {
			break
		}
		r.fill()
	}
	if len(r.rows) > 0 {
		return r.rows, nil
	}
	return nil, r.problem
}

// Rest returns what follows the rows, as an answer without rows; of an answer that does not
// begin like a list it returns all, of at most so many bytes. Call it once, after [RowReader.Next]
// returned io.EOF. Errors: [ErrRows] for more bytes, and those of the connection.
func (r *RowReader) Rest(most int64) ([]byte, error) {
	var raw []byte
	if r.isList {
		raw = []byte(`{"result":[]`)
		most = MaxRowBytes
	}
	raw = append(raw, r.left...)
	if !r.ended {
		more, err := io.ReadAll(io.LimitReader(r.in, most+1))
		if err != nil {
			return nil, err
		}
		raw = append(raw, more...)
	}
	if int64(len(raw)) > most {
		return nil, fmt.Errorf("%w: more than %d bytes beside them", ErrRows, most)
	}
	return raw, nil
}

// read reads the beginning of the list or a row, and reports whether that was there as a whole.
func (r *RowReader) read() bool {
	n := spaces(r.left)
	r.left, r.blank = r.left[n:], r.blank+n
	if r.blank > MaxRowBytes { // which may be very few before it was unpacked
		r.problem = fmt.Errorf("%w: white space without end after %d rows", ErrRows, r.n)
		return false
	}
	p := rowParser{raw: r.left, last: &r.last}
	if !r.isList {
		r.isList = p.take('{') && p.literal(`"result"`) && p.take(':') && p.take('[')
		if !r.isList {
			r.isOver = r.ended || len(r.left) >= rowsHead
			return false
		}
		r.left = r.left[p.at:]
		return true
	}
	if p.take(']') {
		r.left, r.isOver = r.left[p.at:], true
		return true
	}
	if r.n > 0 && !p.take(',') {
		r.refuseAt(&p, "no comma")
		return false
	}
	p.space()
	begin := p.at
	var row TransactionRow
	if !p.row(&row) {
		end := objectEnd(r.left[begin:])
		if p.at = begin; end == 0 {
			if len(r.left) > begin && r.left[begin] != '{' {
				r.refuseAt(&p, "no row")
			} else if len(r.left) > MaxRowBytes {
				r.problem = fmt.Errorf("%w: a row that is too long after %d rows", ErrRows, r.n)
			}
			return false
		}
		text := r.left[begin : begin+end]
		row = TransactionRow{}
		if DeeperThan(text, rowDepth) || json.Unmarshal(text, &row) != nil {
			r.refuseAt(&p, "a row that is not one")
			return false
		}
		p.at = begin + end
	}
	r.left, r.last, r.n, r.blank = r.left[p.at:], row, r.n+1, 0
	r.rows = append(r.rows, row)
	return true
}

// spaces returns how much white space text begins with, in bytes.
func spaces(text []byte) int {
	p := rowParser{raw: text}
	p.space()
	return p.at
}

// refuseAt ends the reading, unless the place is the end of what has arrived.
func (r *RowReader) refuseAt(p *rowParser, what string) {
	if p.at < len(r.left) {
		r.problem = fmt.Errorf("%w: %s after %d rows", ErrRows, what, r.n)
	}
}

// fill waits for more. Of a row that is long already, it waits for as much again, so that a row
// that comes in small pieces is not looked at once for each.
func (r *RowReader) fill() {
	if r.ended {
		r.problem = fmt.Errorf("%w: it ends after %d rows", ErrRows, r.n)
		return
	}
	least := 1
	if len(r.left) > longRow {
		least = len(r.left)
	}
	room := max(rowsAhead, 2*least)
	if len(r.left)+room > cap(r.buf) {
		r.buf = make([]byte, 0, len(r.left)+room)
	}
	held := append(r.buf[:0], r.left...) // the left ones lie behind, or in other memory
	for got := 0; got < least && !r.ended && r.problem == nil; {
		n, err := r.in.Read(held[len(held) : len(r.left)+room])
		held, got = held[:len(held)+n], got+n
		switch {
		case err == io.EOF:
			r.ended = true
		case err != nil:
			r.problem = err
		}
	}
	r.left = held
}

// objectEnd returns the length of the object that text begins with, 0 if it does not end.
func objectEnd(text []byte) int {
	depth, inString, escaped := 0, false, false
	for i, b := range text {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = b == '\\'
			inString = b != '"'
		case b == '"':
			inString = true
		case b == '{', b == '[':
			depth++
		case b == '}', b == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		if depth == 0 {
			return 0
		}
	}
	return 0
}
