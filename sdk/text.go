package sdk

import "strconv"

// maxQuoted bounds a hostile name inside a message, in bytes.
const maxQuoted = 120

// quote returns s fit for one line of a terminal or log: escaped and bounded.
func quote(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "…"
	}
	return strconv.Quote(s)
}
