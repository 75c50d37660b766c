package wire

import "strings"

// TlogKeys is the path of [LogKeys] below [PathTlog].
const TlogKeys = "keys"

// LogKeys lists the replacements of the key of a log. Ours. A service
// without this path never replaced a key.
type LogKeys struct {
	// Statements are signed notes (c2sp.org/signed-note), the oldest first. The text of
	// each is a [LogKeyStatement], signed with both keys.
	Statements []string `json:"statements"`
}

// logKeyLine is the first line of a statement. No checkpoint, head or receipt begins with
// it.
const logKeyLine = "svcfs log key 1"

// LogKeyStatement returns the text that both keys sign when the second replaces the first.
// Keys are verifier keys, NAME+HASH+KEY.
func LogKeyStatement(before, after string) string {
	return logKeyLine + "\n" + before + "\n" + after + "\n"
}

// ParseLogKeyStatement parses a [LogKeyStatement].
func ParseLogKeyStatement(text string) (before, after string, ok bool) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[0] != logKeyLine || lines[3] != "" {
		return "", "", false
	}
	return lines[1], lines[2], true
}
