package format

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// Extent is a range of blocks.
type Extent struct{ First, Count int64 }

// Extents are ranges of blocks, ascending, none empty, none touching the next.
type Extents []Extent

// Blocks returns the number of blocks.
func (e Extents) Blocks() (n int64) {
	for _, x := range e {
		n += x.Count
	}
	return n
}

// All returns the blocks, ascending.
func (e Extents) All() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, x := range e {
			for i := x.First; i < x.First+x.Count; i++ {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// Add appends a block above all others.
func (e Extents) Add(block int64) Extents {
	if n := len(e); n > 0 && e[n-1].First+e[n-1].Count == block {
		e[n-1].Count++
		return e
	}
	return append(e, Extent{block, 1})
}

// Index returns how many blocks of e come before a block that e has; ok is false if e does
// not have it.
func (e Extents) Index(block int64) (before int64, ok bool) {
	for _, x := range e {
		if block < x.First {
			return 0, false
		}
		if block < x.First+x.Count {
			return before + block - x.First, true
		}
		before += x.Count
	}
	return 0, false
}

// Without returns the blocks that other does not have.
func (e Extents) Without(other Extents) (rest Extents) {
	for i := range e.All() {
		for len(other) > 0 && i >= other[0].First+other[0].Count {
			other = other[1:]
		}
		if len(other) == 0 || i < other[0].First {
			rest = rest.Add(i)
		}
	}
	return rest
}

// String returns a form such as "0-31,40".
func (e Extents) String() string {
	var text strings.Builder
	for i, x := range e {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(strconv.FormatInt(x.First, 10))
		if x.Count > 1 {
			text.WriteByte('-')
			text.WriteString(strconv.FormatInt(x.First+x.Count-1, 10))
		}
	}
	return text.String()
}

// ParseExtents reads what String writes, of at most so many blocks; else the error is
// [ErrCorrupt].
func ParseExtents(text string, most int64) (Extents, error) {
	bad := fmt.Errorf("blocks %.40q: want ranges such as 0-31,40, ascending, of at most %d blocks: %w", text, most,
		ErrCorrupt)
	if int64(len(text)) > most*40 {
		return nil, bad
	}
	var e Extents
	next, left := int64(-1), most
	for _, part := range strings.Split(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseInt(from, 10, 64)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseInt(to, 10, 64)
		}
		if err != nil || first < 0 || first <= next || last < first || last >= maxSize || last-first >= left ||
			isRange && last == first {
			return nil, bad
		}
		e = append(e, Extent{first, last - first + 1})
		left -= last - first + 1
		next = last + 1
	}
	if e.String() != text {
		return nil, bad
	}
	return e, nil
}
