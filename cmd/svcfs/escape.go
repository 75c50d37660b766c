package main

import (
	"strings"

	"github.com/svcfs/svcfs/sdk/names"
)

// escapeName makes the name of a file or group fit for one line, as the mount does. A
// safe name stays as it is. In any other name, unsafe characters ([names.IsUnsafe]),
// bytes that are not UTF-8 and percent signs take percent form, so that the name can
// be read back.
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
