package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// AttributePrefix begins the name of every extended attribute.
	AttributePrefix = "user."
	// ReservedPrefix begins the names of what a mount itself shows of a file. No file has
	// attributes with such names.
	ReservedPrefix = "user.svcfs."
	// MaxAttributeName is the longest name of an extended attribute, in bytes: as on Linux.
	MaxAttributeName = 255
	// TypeSymlink is the content type of a symbolic link, and of nothing else. The content
	// of a link is its target.
	TypeSymlink = "inode/symlink"
	// MaxAttributeBytes bounds names and values of all extended attributes of a file, in bytes.
	MaxAttributeBytes = 4 << 10
	// MaxTargetBytes is the longest target of a symbolic link, in bytes: as on Linux.
	MaxTargetBytes = 4095
	// MaxAttributesText bounds the canonical text of attributes, in bytes: enough for the longest
	// target and the most extended attributes, unless they are full of control characters.
	MaxAttributesText = 16 << 10
)

// Attributes are what programs keep beside the content of a file. The zero value means that
// none were recorded.
type Attributes struct {
	ModTime    time.Time         // of the content, to the nanosecond; zero = not recorded
	Executable bool              // for everybody who may read the file
	Target     string            // of a symbolic link, UTF-8 without NUL; "" = not a link
	XAttrs     map[string]string // values by name; a name begins with [AttributePrefix]
}

// IsZero reports whether no attribute is set.
func (a Attributes) IsZero() bool {
	return a.ModTime.IsZero() && !a.Executable && a.Target == "" && len(a.XAttrs) == 0
}

// Equal reports whether a and b record the same.
func (a Attributes) Equal(b Attributes) bool {
	return a.ModTime.Equal(b.ModTime) && a.Executable == b.Executable && a.Target == b.Target &&
		maps.Equal(a.XAttrs, b.XAttrs)
}

// attributesDocument is the JSON form. The order of the fields is part of the format.
type attributesDocument struct {
	ModTime    string            `json:"mtime,omitempty"` // ns since 1970, decimal
	Executable bool              `json:"executable,omitempty"`
	Target     string            `json:"target,omitempty"`
	XAttrs     map[string][]byte `json:"xattrs,omitempty"` // base64
}

// Text returns the JSON form of a, "" for the zero value: always the same text for the same
// attributes. The error is that of [Attributes.Check].
func (a Attributes) Text() (string, error) {
	if a.IsZero() {
		return "", nil
	}
	if err := a.check(); err != nil {
		return "", err
	}
	d := attributesDocument{Executable: a.Executable, Target: a.Target}
	if !a.ModTime.IsZero() {
		d.ModTime = strconv.FormatInt(a.ModTime.UnixNano(), 10)
	}
	for name, value := range a.XAttrs {
		if d.XAttrs == nil {
			d.XAttrs = make(map[string][]byte, len(a.XAttrs))
		}
		d.XAttrs[name] = []byte(value)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return "", fmt.Errorf("write attributes: %w", err)
	}
	if out.Len()-1 > MaxAttributesText {
		return "", fmt.Errorf("attributes of %d bytes: want at most %d: %w", out.Len()-1, MaxAttributesText,
			ErrTooLarge)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// Check returns an error that names the first attribute which cannot be recorded. The error
// is [ErrTooLarge] if something is over its limit, else [ErrCorrupt].
func (a Attributes) Check() error {
	_, err := a.Text()
	return err
}

// check is Check without the length of the text.
func (a Attributes) check() error {
	if !a.ModTime.IsZero() && !a.ModTime.Equal(time.Unix(0, a.ModTime.UnixNano())) {
		return fmt.Errorf("the time %s is before 1678 or after 2261: %w", a.ModTime.UTC().Format(time.RFC3339),
			ErrCorrupt)
	}
	if len(a.Target) > MaxTargetBytes {
		return fmt.Errorf("a link target of %d bytes: want at most %d: %w", len(a.Target), MaxTargetBytes, ErrTooLarge)
	}
	if !utf8.ValidString(a.Target) || strings.ContainsRune(a.Target, 0) {
		return fmt.Errorf("the link target is not UTF-8 without NUL: %w", ErrCorrupt)
	}
	total := 0
	for name, value := range a.XAttrs {
		if rest, ok := strings.CutPrefix(name, AttributePrefix); !ok || rest == "" || !utf8.ValidString(name) ||
			strings.ContainsRune(name, 0) {
			return fmt.Errorf("the attribute name %.40q: want user. and a name: %w", name, ErrCorrupt)
		}
		if strings.HasPrefix(name, ReservedPrefix) {
			return fmt.Errorf("the attribute name %.40q: names that begin with %s belong to the mount: %w", name,
				ReservedPrefix, ErrCorrupt)
		}
		if len(name) > MaxAttributeName {
			return fmt.Errorf("an attribute name of %d bytes: want at most %d: %w", len(name), MaxAttributeName,
				ErrTooLarge)
		}
		total += len(name) + len(value)
	}
	if total > MaxAttributeBytes {
		return fmt.Errorf("extended attributes of %d bytes: want at most %d: %w", total, MaxAttributeBytes, ErrTooLarge)
	}
	return nil
}

// parseTime reads attributes that are a time, and perhaps the execute bit: most are, and a
// list may have a hundred thousand.
func parseTime(text string) (a Attributes, ok bool) {
	rest, ok := strings.CutPrefix(text, `{"mtime":"`)
	if !ok {
		return a, false
	}
	rest, a.Executable = strings.CutSuffix(rest, `","executable":true}`)
	if !a.Executable {
		if rest, ok = strings.CutSuffix(rest, `"}`); !ok {
			return a, false
		}
	}
	ns, err := strconv.ParseInt(rest, 10, 64)
	a.ModTime = time.Unix(0, ns)
	return a, err == nil
}

// ParseAttributes reads what [Attributes.Text] writes, and the same with other spaces and
// escapes: encoders escape more on the way. It ignores unknown fields. Any other text is
// [ErrCorrupt], or [ErrTooLarge] over a limit.
func ParseAttributes(text string) (Attributes, error) {
	a, err := parseAttributes(text)
	if err == nil && len(text) > MaxAttributesText {
		err = a.Check()
	}
	return a, err
}

func parseAttributes(text string) (Attributes, error) {
	if text == "" {
		return Attributes{}, nil
	}
	if len(text) > MaxMetadataBytes {
		return Attributes{}, fmt.Errorf("attributes of %d bytes: want at most %d: %w", len(text), MaxMetadataBytes,
			ErrTooLarge)
	}
	if a, ok := parseTime(text); ok {
		return a, nil
	}
	var d attributesDocument
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return Attributes{}, fmt.Errorf("parse attributes: %w", errors.Join(ErrCorrupt, err))
	}
	a := Attributes{Executable: d.Executable, Target: d.Target}
	if d.ModTime != "" {
		ns, err := strconv.ParseInt(d.ModTime, 10, 64)
		if err != nil {
			return Attributes{}, fmt.Errorf("mtime %.40q: want ns since 1970: %w", d.ModTime, ErrCorrupt)
		}
		a.ModTime = time.Unix(0, ns)
	}
	for name, value := range d.XAttrs {
		if a.XAttrs == nil {
			a.XAttrs = make(map[string]string, len(d.XAttrs))
		}
		a.XAttrs[name] = string(value)
	}
	return a, a.check()
}
