package wire

// DeeperThan reports whether JSON nests arrays and objects deeper than limit,
// without decoding it: a decoder would take memory for each level.
func DeeperThan(raw []byte, limit int) bool {
	depth, inString, escaped := 0, false, false
	for _, b := range raw {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = b == '\\'
			inString = b != '"'
		case b == '"':
			inString = true
		case b == '{' || b == '[':
			if depth++; depth > limit {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}
