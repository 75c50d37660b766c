package main

import (
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/svcfs/svcfs/sdk/names"
)

// escapeName makes a hostile file or group name fit for one line, as the mount
// does: a safe name is shown as it is; in any other, what [names.IsUnsafe] says,
// bytes that are not UTF-8 and the percent sign appear in percent form, so that it
// can be read back.
func escapeName(name string) string {
	if names.Escape(name, "") == name {
		return name
	}
	return names.Escape(name, "%")
}

// escapeText does the same to a sentence, keeping its percent signs.
func escapeText(text string) string { return names.Escape(text, "") }

// escapeLines does the same to lines of text.
func escapeLines(text string) string {
	var b strings.Builder
	for part := range strings.SplitAfterSeq(text, "\n") {
		line, broken := strings.CutSuffix(part, "\n")
		cells := strings.Split(line, "\t")
		for i := range cells {
			cells[i] = escapeText(cells[i])
		}
		b.WriteString(strings.Join(cells, "\t"))
		if broken {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// escapeJSON does it to a JSON document, whose strings have an escape of their own,
// so that programs read what was there.
func escapeJSON(doc []byte) string {
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
