package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/svcfs/svcfs/sdk"
)

const (
	// maxNameBytes is the longest name a directory entry may have (NAME_MAX).
	maxNameBytes = 255
	// controlName is the hidden directory of control files.
	controlName = ".svcfs"
	// hashNameDigits is how much of the hash names a file without a name.
	hashNameDigits = 12
	hexDigits      = "0123456789ABCDEF"
)

// showComponent returns one component of a recorded name as the mount shows it
// (N3). A safe component is shown as it is. In any other, unsafe bytes and the
// percent sign become %XX, so that it can be read back; the empty component
// becomes %2F, which no component can hold otherwise.
func showComponent(raw string) string {
	switch raw {
	case "":
		return "%2F"
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	case controlName:
		return "%2Esvcfs"
	}
	if isSafe(raw) {
		return raw
	}
	var b strings.Builder
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRuneInString(raw[i:])
		if r == '%' || isUnsafe(r, size) {
			for _, c := range []byte(raw[i : i+size]) {
				b.WriteByte('%')
				b.WriteByte(hexDigits[c>>4])
				b.WriteByte(hexDigits[c&15])
			}
		} else {
			b.WriteString(raw[i : i+size])
		}
		i += size
	}
	return b.String()
}

func isSafe(raw string) bool {
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRuneInString(raw[i:])
		if isUnsafe(r, size) {
			return false
		}
		i += size
	}
	return true
}

// isUnsafe reports what a terminal, a shell or a path could be tricked with:
// bytes that are not UTF-8, slashes, control characters, and format characters,
// among them the bidirectional marks.
func isUnsafe(r rune, size int) bool {
	if r == utf8.RuneError && size <= 1 {
		return true
	}
	return r == '/' || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// showGroup returns the directory name of a group. Group ids are one component:
// a slash in them is escaped.
func showGroup(id sdk.GroupID) string {
	name := showComponent(string(id))
	if len(name) > maxNameBytes {
		return withSuffix(name, string(id))
	}
	return name
}

// withSuffix makes name unique by eight hex digits of the hash of ref, before
// the extension, and cuts it to the longest name allowed.
func withSuffix(name, ref string) string {
	sum := sha256.Sum256([]byte(ref))
	suffix := "~" + hex.EncodeToString(sum[:4])
	stem, ext := name, ""
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && len(name)-dot <= 16 {
		stem, ext = name[:dot], name[dot:]
	}
	if room := maxNameBytes - len(suffix) - len(ext); len(stem) > room {
		stem = stem[:room]
		for !utf8.ValidString(stem) && stem != "" {
			stem = stem[:len(stem)-1]
		}
	}
	return stem + suffix + ext
}

// recordedName returns the name e is listed under: the recorded one, else one
// made of its hash and content type. A name is a path: slashes divide folders.
func recordedName(e *sdk.Entry) string {
	if e.Name != "" {
		return e.Name
	}
	name := e.Hash.String()[:hashNameDigits]
	if exts, err := mime.ExtensionsByType(e.ContentType); err == nil && len(exts) > 0 && e.ContentType != "application/octet-stream" {
		return name + exts[0]
	}
	return name
}

// checkNewName refuses names that the ledger cannot hold. name is what the
// kernel passed: no slash, no NUL.
func checkNewName(name string) *Error {
	if len(name) > maxNameBytes {
		return &Error{Class: ClassNameTooLong, Err: errText("the name is longer than 255 bytes")}
	}
	if !utf8.ValidString(name) {
		return &Error{Class: ClassInvalid, Err: errText("the name is not UTF-8 and the ledger holds only text"),
			Hint: "Rename it first, for example with convmv."}
	}
	return nil
}
