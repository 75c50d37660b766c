package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// escapeName makes a hostile file or group name fit for one line, as the mount
// does: a safe name is shown as it is; in any other, control characters,
// bidirectional marks, bytes that are not UTF-8 and the percent sign appear in
// percent form, so that it can be read back.
func escapeName(name string) string {
	if escape(name, false) == name {
		return name
	}
	return escape(name, true)
}

// escapeText does the same to a sentence, keeping its percent signs.
func escapeText(text string) string { return escape(text, false) }

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
		if !unsafeRune(r) || r == '\n' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, "\\u%04x", unit)
		}
	}
	return b.String()
}

func escape(s string, percent bool) string {
	if !percent && utf8.ValidString(s) && !strings.ContainsFunc(s, unsafeRune) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || unsafeRune(r) || percent && r == '%' {
			for _, c := range []byte(s[:n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// unsafeRune reports whether r can change how the rest of a line looks.
func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
