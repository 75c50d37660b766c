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

// ShowComponent returns one component of a recorded name as the mount shows it
// (N3). A safe component is shown as it is. In any other, unsafe bytes and the
// percent sign become %XX, so that it can be read back; the empty component
// becomes %2F, which no component can hold otherwise.
func ShowComponent(raw string) string {
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
	return Escape(raw, "%/")
}

// Escape returns s with %XX for the bytes of what [IsUnsafe] says, for bytes that
// are not UTF-8, and for the characters of also.
func Escape(s, also string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if IsUnsafe(r) || r == utf8.RuneError && size <= 1 || strings.ContainsRune(also, r) {
			for _, c := range []byte(s[i : i+size]) {
				b.WriteByte('%')
				b.WriteByte(hexDigits[c>>4])
				b.WriteByte(hexDigits[c&15])
			}
		} else {
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// isSafe reports whether a component can be shown as it is.
func isSafe(raw string) bool {
	return utf8.ValidString(raw) && !strings.ContainsFunc(raw, func(r rune) bool { return r == '/' || IsUnsafe(r) })
}

// IsUnsafe reports what a terminal or a reader could be tricked with: control
// characters, ends of lines, and what is not seen or turns the text around. Marks
// that choose how the character before them looks are none: emoji have them.
func IsUnsafe(r rune) bool {
	return unicode.IsControl(r) || r > unicode.MaxLatin1 && unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) || r == '\u00ad'
}

// groupEscapes are escaped in every group's name, so that no name looks like the
// escapes of another, nor like one with a suffix.
const groupEscapes = "%/~"

// groupName returns the directory name of a group, which [FreeName] may have to
// change. One that looks like another group has its owner's name behind its own, or
// a suffix where the owner is not known.
func groupName(id sdk.GroupID, owner sdk.AccountID, isAlike bool) string {
	name := Escape(string(id), groupEscapes)
	if name == "" || name == "." || name == ".." || name == controlName {
		name = ShowComponent(name)
	}
	switch {
	case !isAlike:
		return name
	case owner == "":
		return WithSuffix(name, string(id))
	default:
		return name + "~" + Escape(string(owner), groupEscapes)
	}
}

// FreeName returns name, or the first that is free of those that WithSuffix makes of
// it, where it is too long or taken.
func FreeName(name, ref string, isFree func(string) bool) string {
	free := name
	for len(free) > maxNameBytes || !isFree(free) {
		free = WithSuffix(name, ref)
		ref += "/" // no reference ends so
	}
	return free
}

// WithSuffix makes name unique by eight hex digits of the hash of ref, before
// the extension, and cuts it to the longest name allowed.
func WithSuffix(name, ref string) string {
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
