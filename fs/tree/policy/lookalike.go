package policy

import (
	_ "embed" // the table of characters
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/svcfs/svcfs/sdk/names"
)

//go:embed confusables.tsv
var confusablesTable string

// confusables maps characters to those that they look like.
var confusables = sync.OnceValue(func() map[rune]string {
	table := make(map[rune]string)
	for line := range strings.Lines(confusablesTable) {
		shape, chars, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			continue
		}
		for _, r := range chars {
			table[r] = shape
		}
	}
	return table
})

// Looks returns two forms of a group's name. Readers take two names for each other when
// the names share a form. The forms are skeletons of UTS 39, of the name and of the name
// in small letters; case, spaces, dots at an end and invisible characters do not count.
func Looks(name string) [2]string {
	return [2]string{skeleton(name), skeleton(strings.ToLower(name))}
}

func skeleton(name string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(name) {
		shape, ok := confusables()[r]
		switch {
		case ok:
			b.WriteString(shape)
		case !names.IsUnsafe(r) && !unicode.Is(unicode.Variation_Selector, r):
			b.WriteRune(r)
		}
	}
	words := strings.Join(strings.Fields(strings.ToLower(norm.NFKD.String(b.String()))), " ")
	return strings.TrimRight(words, ". ")
}
