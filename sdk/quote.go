package sdk

import (
	"strconv"
	"strings"
)

// maxQuoted bounds a hostile name inside a message, in bytes.
const maxQuoted = 120

// quote returns s escaped and shortened for one line of a terminal or log.
func quote(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "…"
	}
	return strconv.Quote(s)
}

// quoteRef is quote for a reference. It shortens a long reference to its end, which differs
// between files of one group.
func quoteRef(ref Ref) string {
	if tail := strings.LastIndexByte(string(ref), '/'); len(ref) > maxQuoted && tail > 0 {
		return quote("…" + string(ref[tail:]))
	}
	return quote(string(ref))
}
