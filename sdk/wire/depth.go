package wire

import "iter"

// structure yields the bytes of a JSON document that lie in no string, without
// decoding it.
func structure(raw []byte) iter.Seq[byte] {
	return func(yield func(byte) bool) {
		inString, escaped := false, false
		for _, b := range raw {
			switch {
			case escaped:
				escaped = false
			case inString:
				escaped = b == '\\'
				inString = b != '"'
			case b == '"':
				inString = true
			case !yield(b):
				return
			}
		}
	}
}

// DeeperThan reports whether JSON nests arrays and objects deeper than limit,
// without decoding it: a decoder would take memory for each level.
func DeeperThan(raw []byte, limit int) bool {
	depth := 0
	for b := range structure(raw) {
		switch b {
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

// CountItems returns how many items a list has, without decoding it: the commas of
// its own level, and one. Raw is valid JSON; what is no list has some number.
func CountItems(raw []byte) int {
	items, depth := 1, 0
	for b := range structure(raw) {
		switch b {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 1 {
				items++
			}
		}
	}
	return items
}
