package sdk

import (
	"strconv"
	"strings"
)

// maxQuoted bounds a hostile name inside a message, in bytes.
const maxQuoted = 120

// quote returns s fit for one line of a terminal or log: escaped and bounded.
func quote(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "…"
	}
	return strconv.Quote(s)
}

// quoteRef is quote for a reference: of a long one its end, which tells it from
// others of the same account and group.
func quoteRef(ref Ref) string {
	if tail := strings.LastIndexByte(string(ref), '/'); len(ref) > maxQuoted && tail > 0 {
		return quote("…" + string(ref[tail:]))
	}
	return quote(string(ref))
}
