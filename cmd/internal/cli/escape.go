package cli

import (
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/svcfs/svcfs/sdk/names"
)

// EscapeJSON escapes the unsafe characters of a JSON document, but for line ends, in JSON's own
// form, so that programs read the original (package names says which are unsafe).
func EscapeJSON(doc []byte) string {
	var b strings.Builder
	for _, r := range string(doc) {
		if !names.IsUnsafe(r) || r == '\n' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, "\\u%04x", unit)
		}
	}
	return b.String()
}
