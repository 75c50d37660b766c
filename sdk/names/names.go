// Package names decides under which name an entry of a group is shown. The mount,
// the commands and the account page show the same names (fs/SEMANTICS.md, N1 to
// N3). Recorded names are hostile input; shown names are safe.
package names

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxBytes is the longest name of a directory entry, in bytes (NAME_MAX).
	MaxBytes = 255
	// Control is the hidden directory of control files, in a mount and in each group.
	Control = ".svcfs"
	// HashDigits is how many hex digits of its hash name a file without a name.
	HashDigits = 12

	hexDigits = "0123456789ABCDEF"
)

// Recorded returns the name under which a file is listed: the name in the ledger, else a
// name made of its hash and content type, which is the same on every machine. A name is a
// path: slashes divide folders.
func Recorded(name, contentType string, hash [sha256.Size]byte) string {
	if name != "" {
		return name
	}
	return hex.EncodeToString(hash[:])[:HashDigits] + extension(contentType)
}

// IsHash reports whether a name may be one that [Recorded] makes of a hash; "" may.
func IsHash(name string) bool {
	digits := strings.TrimLeft(name, "0123456789abcdef")
	return len(name)-len(digits) >= HashDigits || name == ""
}

// extension returns the usual extension of a media type, "" if there is no common one. It
// does not use the tables of the machine, which differ.
func extension(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return map[string]string{
		"text/plain": ".txt", "text/html": ".html", "text/csv": ".csv", "text/markdown": ".md", "text/xml": ".xml",
		"application/xml":  ".xml",
		"application/json": ".json", "application/pdf": ".pdf", "application/zip": ".zip", "application/gzip": ".gz",
		"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
		"audio/mpeg": ".mp3", "video/mp4": ".mp4",
	}[strings.ToLower(strings.TrimSpace(kind))]
}

// Component returns one component of a recorded name in its shown form (N3). A safe
// component stays unchanged. In any other component, unsafe bytes and the percent sign
// become %XX, so that the form can be reversed. The empty component becomes %2F, which no
// other component gives.
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

// IsPlain reports whether a component is shown as it is recorded, whatever is beside it, unless it is a file and a
// folder at once: nor is another component ever shown so.
func IsPlain(raw string) bool {
	return Component(raw) == raw && len(raw) <= MaxBytes && !hasDigits(raw, '%', 2) &&
		!hasDigits(raw, '~', suffixDigits)
}

// hasDigits reports whether a mark with so many hex digits behind it is in a name.
func hasDigits(name string, mark byte, digits int) bool {
	for i := range name {
		if behind := name[i+1:]; name[i] == mark && len(behind) >= digits &&
			strings.Trim(behind[:digits], "0123456789abcdefABCDEF") == "" {
			return true
		}
	}
	return false
}

// MaxPathBytes is the longest recorded name, in bytes: a path of components.
const MaxPathBytes = 4096

// CheckNew returns an error for a name that a new file must not get: because it is no path below a
// folder, where a part between its slashes is empty, "." or "..", because it is not UTF-8, which the ledger cannot
// hold, or because it holds a control character.
func CheckNew(name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("%q is not UTF-8", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("%q is no path in a group", name)
		}
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%q holds a control character", name)
	}
	return nil
}

// CheckNewGroup returns an error for the name of a new group that is no name of a folder, or that of the
// control folder.
func CheckNewGroup(id string) error {
	if strings.Contains(id, "/") || id == Control || CheckNew(id) != nil {
		return fmt.Errorf("%q is no good name for a group", id)
	}
	return nil
}

// Escape returns s with %XX for unsafe characters ([IsUnsafe]), for bytes that are not
// UTF-8, and for the characters of also.
func Escape(s, also string) string {
	var b strings.Builder
	done := 0 // bytes of s that are in b; most names need no escapes
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

// IsSafe reports whether a component holds no slash, no unsafe character and only UTF-8.
func IsSafe(raw string) bool {
	return utf8.ValidString(raw) && !strings.ContainsFunc(raw, func(r rune) bool { return r == '/' || IsUnsafe(r) })
}

// IsUnsafe reports whether a character could trick a terminal or a reader: control
// characters, line ends, invisible characters, and characters that change the direction of
// text. Variation selectors are safe: emoji contain them.
func IsUnsafe(r rune) bool {
	return unicode.IsControl(r) || r > unicode.MaxLatin1 && unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point) || r == '\u00ad'
}

// groupEscapes are the characters that are escaped in every group name, so that no name
// looks like the escapes, or like the suffix, of another.
const groupEscapes = "%/~"

// Group returns the directory name of a group; [Free] may change it. A name that looks like
// the name of another group gets the name of its owner as a suffix, or another suffix if
// the owner is not known.
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

// GroupShown returns the id of the group whose directory has a name that [Group] returned, and that was not
// too long.
func GroupShown(name string) (id string) {
	stem, suffix, isAlike := strings.Cut(name, "~")
	if isAlike && len(suffix) >= suffixDigits { // digits before an extension, as [WithSuffix] inserts them
		if id = unescape(stem + suffix[suffixDigits:]); WithSuffix(Group(id, "", false), id) == name {
			return id
		}
	}
	return unescape(stem)
}

// unescape takes the %XX of [Escape] away; what is none stays.
func unescape(name string) string {
	parts := strings.Split(name, "%")
	for i, part := range parts {
		if i == 0 {
			continue
		}
		if raw, err := hex.DecodeString(part[:min(len(part), 2)]); err == nil && len(raw) == 1 {
			parts[i] = string(raw) + part[2:]
		} else {
			parts[i] = "%" + part
		}
	}
	return strings.Join(parts, "")
}

// suffixDigits is how many hex digits make a suffix.
const suffixDigits = 8

// Free returns name. If name is too long or taken, it returns the first free one of the
// names that WithSuffix makes of it.
func Free(name, ref string, isFree func(string) bool) string {
	free := name
	for len(free) > MaxBytes || !isFree(free) {
		free = WithSuffix(name, ref)
		ref += "/" // no reference ends with a slash
	}
	return free
}

// WithSuffix inserts eight hex digits of the hash of ref before the extension, and shortens
// the result to MaxBytes.
func WithSuffix(name, ref string) string {
	sum := sha256.Sum256([]byte(ref))
	suffix := "~" + hex.EncodeToString(sum[:suffixDigits/2])
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
