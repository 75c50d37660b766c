package format

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAttributesText(t *testing.T) {
	for _, c := range []struct {
		a    Attributes
		text string
	}{
		{Attributes{}, ""},
		{Attributes{ModTime: time.Unix(0, 0)}, `{"mtime":"0"}`},
		{Attributes{ModTime: time.Unix(-1, 5), Executable: true}, `{"mtime":"-999999995","executable":true}`},
		{Attributes{Target: "../a<b>\n"}, `{"target":"../a<b>\n"}`},
		{Attributes{XAttrs: map[string]string{"user.b": "", "user.a": "\x00\xff"}},
			`{"xattrs":{"user.a":"AP8=","user.b":""}}`},
		// of SPEC.md
		{Attributes{Target: "../a<b>", XAttrs: map[string]string{"user.b": "", "user.a": "\x00\xff"}},
			`{"target":"../a<b>","xattrs":{"user.a":"AP8=","user.b":""}}`},
	} {
		text, err := c.a.Text()
		if err != nil || text != c.text {
			t.Errorf("%+v: %s, %v, want %s", c.a, text, err, c.text)
		}
		again, err := ParseAttributes(text)
		if err != nil || !again.Equal(c.a) {
			t.Errorf("%s: %+v, %v", text, again, err)
		}
	}
}

func TestAttributesRefused(t *testing.T) {
	for _, c := range []struct {
		a    Attributes
		want error
	}{
		{Attributes{ModTime: time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)}, ErrCorrupt},
		{Attributes{Target: "a\x00b"}, ErrCorrupt},
		{Attributes{Target: "\xff"}, ErrCorrupt},
		{Attributes{Target: strings.Repeat("a", MaxTargetBytes+1)}, ErrTooLarge},
		{Attributes{Target: strings.Repeat("\x01", MaxAttributesText/6)}, ErrTooLarge},
		{Attributes{XAttrs: map[string]string{"trusted.a": ""}}, ErrCorrupt},
		{Attributes{XAttrs: map[string]string{"user.": ""}}, ErrCorrupt},
		{Attributes{XAttrs: map[string]string{"user.svcfs.ref": ""}}, ErrCorrupt},
		{Attributes{XAttrs: map[string]string{"user." + strings.Repeat("a", MaxAttributeName): ""}}, ErrTooLarge},
		{Attributes{XAttrs: map[string]string{"user.\xff": ""}}, ErrCorrupt},
		{Attributes{XAttrs: map[string]string{"user.a": strings.Repeat("a", MaxAttributeBytes)}}, ErrTooLarge},
	} {
		if text, err := c.a.Text(); !errors.Is(err, c.want) || !errors.Is(c.a.Check(), c.want) {
			t.Errorf("%+v: %s, %v, want %v", c.a, text, err, c.want)
		}
	}
	for _, text := range []string{"{", "[]", `{"mtime":"x"}`, `{"mtime":1}`, `{"xattrs":{"user.a":"*"}}`,
		`{"xattrs":{"a":""}}`, `{"target":"a\u0000"}`} {
		if a, err := ParseAttributes(text); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v, want corrupt", text, a, err)
		}
	}
	for _, text := range []string{strings.Repeat(" ", MaxMetadataBytes+1),
		`{"target":"` + strings.Repeat(`\u0001`, MaxAttributesText/6) + `"}`} {
		if _, err := ParseAttributes(text); !errors.Is(err, ErrTooLarge) {
			t.Errorf("a long text: %v", err)
		}
	}
}

// The metadata of a file escapes more than the canonical text. Attributes that can be
// recorded arrive all the same.
func TestAttributesInMetadata(t *testing.T) {
	names := map[string]string{}
	for i := range 16 {
		names["user."+strings.Repeat("&", 230+i)] = ""
	}
	for _, want := range []Attributes{{Target: strings.Repeat("<", MaxTargetBytes)}, {XAttrs: names}} {
		text, err := want.Text()
		if err != nil {
			t.Fatal(err)
		}
		m := NewMetadata(1, TypeSymlink, "f")
		m.Attributes = text
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		read, err := ParseMetadata(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseAttributes(read.Attributes); err != nil || !got.Equal(want) {
			t.Errorf("%.40s became %.40s, %v", text, read.Attributes, err)
		}
	}
}

func FuzzAttributes(f *testing.F) {
	f.Add(`{"mtime":"1","executable":true,"target":"a","xattrs":{"user.a":"AA=="},"later":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAttributes(text)
		if err != nil {
			return
		}
		text, err = a.Text()
		if errors.Is(err, ErrTooLarge) { // where JSON must escape more than the writer did
			return
		}
		if err != nil || len(text) > MaxAttributesText {
			t.Fatalf("%+v: %d bytes, %v", a, len(text), err)
		}
		if again, err := ParseAttributes(text); err != nil || !again.Equal(a) {
			t.Fatalf("%s: %+v, %v, want %+v", text, again, err, a)
		}
	})
}
