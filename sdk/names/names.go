// Package names says under which name an entry of a group is shown: by the mount, by
// the commands and by the account page alike (fs/SEMANTICS.md, N1 to N3). What is
// recorded comes from others and may be hostile; what is shown is not.
package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxBytes is the longest name a directory entry may have (NAME_MAX).
	MaxBytes = 255
	// Control is the hidden directory of control files, in a mount and in each group.
	Control = ".svcfs"
	// HashDigits is how much of its hash names a file without a name.
	HashDigits = 12

	hexDigits = "0123456789ABCDEF"
)

// Recorded returns the name a file is listed under: the one that the ledger holds,
// else one made of its hash and content type, the same on every machine. A name is a
// path: slashes divide folders.
func Recorded(name, contentType string, hash [sha256.Size]byte) string {
	if name != "" {
		return name
	}
	return hex.EncodeToString(hash[:])[:HashDigits] + extension(contentType)
}

// extension returns the usual ending of names of a media type, "" when there is none
// that everybody knows. The tables of a machine are not asked: they differ.
func extension(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return map[string]string{
		"text/plain": ".txt", "text/html": ".html", "text/csv": ".csv", "text/markdown": ".md", "text/xml": ".xml", "application/xml": ".xml",
		"application/json": ".json", "application/pdf": ".pdf", "application/zip": ".zip", "application/gzip": ".gz",
		"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
		"audio/mpeg": ".mp3", "video/mp4": ".mp4",
	}[strings.ToLower(strings.TrimSpace(kind))]
}

// Component returns one component of a recorded name as it is shown (N3). A safe component is shown as it is. In any other, unsafe bytes and the
// percent sign become %XX, so that it can be read back; the empty component
// becomes %2F, which no component can hold otherwise.
func Component(raw string) string {
	switch raw {
	case "":
		return "%2F"
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	case Control:
		return "%2Esvcfs"
	}
	if IsSafe(raw) {
		return raw
	}
	return Escape(raw, "%/")
}

// Escape returns s with %XX for the bytes of what [IsUnsafe] says, for bytes that
// are not UTF-8, and for the characters of also.
func Escape(s, also string) string {
	var b strings.Builder
	done := 0 // bytes of s that b has; most names need none
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if IsUnsafe(r) || r == utf8.RuneError && size <= 1 || strings.ContainsRune(also, r) {
			b.WriteString(s[done:i])
			for _, c := range []byte(s[i : i+size]) {
				b.WriteByte('%')
				b.WriteByte(hexDigits[c>>4])
				b.WriteByte(hexDigits[c&15])
			}
			done = i + size
		}
		i += size
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// IsSafe reports whether a component can be shown as it is.
func IsSafe(raw string) bool {
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

// Group returns the directory name of a group, which [Free] may have to change. One that looks like another group has its owner's name behind its own, or
// a suffix where the owner is not known.
func Group(id, owner string, isAlike bool) string {
	name := Escape(id, groupEscapes)
	if name == "" || name == "." || name == ".." || name == Control {
		name = Component(name)
	}
	switch {
	case !isAlike:
		return name
	case owner == "":
		return WithSuffix(name, id)
	default:
		return name + "~" + Escape(owner, groupEscapes)
	}
}

// Free returns name, or the first that is free of those that WithSuffix makes of
// it, where it is too long or taken.
func Free(name, ref string, isFree func(string) bool) string {
	free := name
	for len(free) > MaxBytes || !isFree(free) {
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
	if room := MaxBytes - len(suffix) - len(ext); len(stem) > room {
		stem = stem[:room]
		for !utf8.ValidString(stem) && stem != "" {
			stem = stem[:len(stem)-1]
		}
	}
	return stem + suffix + ext
}
