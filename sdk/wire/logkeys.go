package wire

import "strings"

// TlogKeys is below [PathTlog]: GET answers [LogKeys].
const TlogKeys = "keys"

// LogKeys tells how the key of a log was replaced. Extension "checkpoints"; a
// service that knows no such path never replaced one.
type LogKeys struct {
	// Statements are signed notes (c2sp.org/signed-note), the oldest first, whose
	// text is a [LogKeyStatement] and which both keys signed.
	Statements []string `json:"statements"`
}

// logKeyLine begins a statement. No checkpoint, head or receipt begins so.
const logKeyLine = "svcfs log key 1"

// LogKeyStatement is the text with which the key before and the key after it say
// that a log goes on with the latter. Keys are verifier keys, NAME+HASH+KEY.
func LogKeyStatement(before, after string) string {
	return logKeyLine + "\n" + before + "\n" + after + "\n"
}

// ParseLogKeyStatement reads a [LogKeyStatement].
func ParseLogKeyStatement(text string) (before, after string, ok bool) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[0] != logKeyLine || lines[3] != "" {
		return "", "", false
	}
	return lines[1], lines[2], true
}
