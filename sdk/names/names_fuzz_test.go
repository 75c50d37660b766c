package names

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzNames: whatever a ledger calls a file or a group, threat 7: what is shown
// is one component that no program takes for another place, and an escaped name
// can be read back.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"a.txt", "", ".", "..", ".svcfs", "a/b", "../../etc/passwd", "a\x00b", "a\nb", "exe.\u202efdp", "\xff\xfe", "%2E%2E", "100%", "~", "-rf", "\u2028",
		strings.Repeat("ü", 200), strings.Repeat("\xff", 200) + ".tar.gz"} {
		f.Add(seed, "ref")
	}
	f.Fuzz(func(t *testing.T, raw, ref string) {
		shown := Component(raw)
		for _, name := range []string{shown, Group(raw, "", false), WithSuffix(shown, ref)} {
			if name == "" || name == "." || name == ".." || name == Control || !utf8.ValidString(name) || strings.ContainsRune(name, '/') ||
				strings.ContainsFunc(name, unicode.IsControl) || !filepath.IsLocal(name) {
				t.Errorf("%q is shown as %q", raw, name)
			}
		}
		if n := len(Free(Group(raw, ref, true), ref, func(string) bool { return true })); n > MaxBytes {
			t.Errorf("group %q has a name of %d bytes", raw, n)
		}
		if n := len(WithSuffix(shown, ref)); n > MaxBytes {
			t.Errorf("%q with a suffix has %d bytes", raw, n)
		}
		for _, owner := range []string{"", "alice.svc.testnet", "0123abcd.svc.testnet"} {
			for _, isAlike := range []bool{false, true} {
				if name := Group(raw, owner, isAlike); raw != "" && len(name) < MaxBytes-20 && GroupShown(name) != raw {
					t.Errorf("group %q has the name %q, which is read as %q", raw, name, GroupShown(name))
				}
			}
		}
		if path := Show(raw, ref); !filepath.IsLocal(path) || path == "." || strings.Contains(path, "\x00") || strings.ContainsFunc(path, IsUnsafe) {
			t.Errorf("%q has the path %q", raw, path)
		}
		if back, err := url.PathUnescape(shown); shown != raw && raw != "" && (err != nil || back != raw) {
			t.Errorf("%q is shown as %q, which is %q, %v", raw, shown, back, err)
		}
	})
}
