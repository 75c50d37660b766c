package wire

import "iter"

// structure yields the bytes of a JSON document outside its strings, without decoding it.
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

// DeeperThan reports whether JSON nests arrays and objects deeper than limit. It does not
// decode, because a decoder allocates memory for each level.
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

// CountItems returns the number of items of a list, without decoding it: one more than the
// commas of its own level. raw must be valid JSON. For anything but a list the number has
// no meaning.
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
