// Package namestest has the names that mount, commands and account page must show
// alike.
package namestest

import "crypto/sha256"

// Case is a recorded name and the path it is shown under.
type Case struct{ Name, Raw, ContentType, Shown string }

// Content is what the file of each case holds: it names those without a name.
const Content = "x"

// Sum is the hash of [Content].
func Sum() [sha256.Size]byte { return sha256.Sum256([]byte(Content)) }

// Table returns the cases. None collides with another.
func Table() []Case {
	return []Case{
		{"plain", "a.txt", "", "a.txt"},
		{"folders", "docs/deep/b.txt", "", "docs/deep/b.txt"},
		{"percent alone", "100%.txt", "", "100%.txt"},
		{"url encoded", "My%20File.pdf", "", "My%20File.pdf"},
		{"without a name", "", "", "2d711642b726"},
		{"without a name, of a type", "", "image/jpeg", "2d711642b726.jpg"},
		{"without a name, of a type with parameters", "", "Text/Plain; charset=utf-8", "2d711642b726.txt"},
		{"without a name, of no known type", "", "application/octet-stream", "2d711642b726"},
		{"dot", ".", "", "%2E"},
		{"dot dot", "..", "", "%2E%2E"},
		{"climb", "../../etc/passwd", "", "%2E%2E/%2E%2E/etc/passwd"},
		{"absolute", "/etc/passwd", "", "%2F/etc/passwd"},
		{"doubled slash", "a//b", "", "a/%2F/b"},
		{"trailing slash", "a/", "", "a/%2F"},
		{"NUL", "a\x00b", "", "a%00b"},
		{"newline", "a\nb", "", "a%0Ab"},
		{"escape sequence", "a\x1b[31mb", "", "a%1B[31mb"},
		{"C1 control", "a\u009bb", "", "a%C2%9Bb"},
		{"right to left override", "gpj.\u202eexe", "", "gpj.%E2%80%AEexe"},
		{"right-to-left mark", "a\u200fb", "", "a%E2%80%8Fb"},
		{"zero width", "a\u200bb", "", "a%E2%80%8Bb"},
		{"word joiner", "a\u2060b", "", "a%E2%81%A0b"},
		{"line separator", "a\u2028b", "", "a%E2%80%A8b"},
		{"invisible letter", "a\u3164b", "", "a%E3%85%A4b"},
		{"soft hyphen", "a\u00adb", "", "a%C2%ADb"},
		{"tag", "a\U000e0041b", "", "a%F3%A0%81%81b"},
		{"not UTF-8", "a\xff", "", "a%FF"},
		{"percent in an unsafe name", "50%\n", "", "50%25%0A"},
		{"percent beside an unsafe folder", "50%/a\n/b%", "", "50%/a%0A/b%"},
		{"control directory", ".svcfs", "", "%2Esvcfs"},
		{"control directory in path", ".svcfs/status", "", "%2Esvcfs/status"},
		{"backslash", `a\b`, "", `a\b`},
		{"shell", "$(rm -rf ~)", "", "$(rm -rf ~)"},
		{"leading dash", "-rf", "", "-rf"},
		{"umlaut", "Grüße.txt", "", "Grüße.txt"},
		{"other scripts", "отчёт 報告.pdf", "", "отчёт 報告.pdf"},
		{"emoji", "\u2764\ufe0f", "", "\u2764\ufe0f"},
	}
}
