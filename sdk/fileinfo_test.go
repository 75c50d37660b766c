package sdk

import (
	"io/fs"
	"testing"
)

// A program that opens what Stat names opens one file of a folder, whoever chose the name.
func TestStatNamesOneComponent(t *testing.T) {
	t.Parallel()
	for recorded, want := range map[string]string{
		"":          "000000000000.pdf",
		"..":        "%2E%2E",
		"a/..":      "%2E%2E",
		".":         "%2E",
		"/":         "%2F",
		"a/":        "%2F",
		"a\nb":      "a%0Ab",
		"a/b/c.txt": "c.txt",
	} {
		f := File{entry: Entry{Name: recorded, ContentType: "application/pdf"}}
		info, err := f.Stat()
		if err != nil || info.Name() != want || !fs.ValidPath(info.Name()) {
			t.Errorf("%q is %q, %v, want %q", recorded, info.Name(), err, want)
		}
	}
}
