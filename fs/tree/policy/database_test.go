package policy

import (
	"strings"
	"testing"
)

// W6: files of SQLite are known by name and content, so that nobody's diary is one.
func TestAidsOfDatabases(t *testing.T) {
	begun := strings.Repeat("\x00", 12) + "nnnn\x00\x00\x00\x02\x00\x00\x02\x00\x00\x00\x10\x00"
	for _, tc := range []struct {
		name, head string
		want       Aid
	}{
		{"a.db-journal", "", AidJournal},
		{"a.db-journal", "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + strings.Repeat("x", 20), AidHot},
		{"a.db-journal", strings.Repeat("\x00", 28), AidJournal},
		{"a.db-journal", begun, AidJournal},
		{"a.db-journal", begun[:26] + "\x11\x00", AidNone}, // no size of a page
		{"a.db-journal", "\x00\x00\x00", AidNone},
		{"travel-journal", "Monday: it rained, and we stayed in.", AidNone},
		{"a.db-wal", "", AidNone},
		{"a.db", "", AidNone},
		{"a.db-shm", "", AidIndex},
		{"a.db-shm", strings.Repeat("\x00", 28), AidIndex},
		{"a.db-shm", "\x18\xe2\x2d\x00" + strings.Repeat("x", 24), AidIndex},
		{"a.db-shm", "\x00\x2d\xe2\x18" + strings.Repeat("x", 24), AidIndex},
		{"a.db-shm", "notes about shared memory", AidNone},
	} {
		if got := AidOf(tc.name, []byte(tc.head)); got != tc.want {
			t.Errorf("%s beginning with %q is %d, want %d", tc.name, tc.head, got, tc.want)
		}
	}
	for name, want := range map[string]string{"a.db-journal": "a.db", "a.db-shm": "a.db", "a.db-wal": "", "-journal": "", "a": ""} {
		if got, ok := DatabaseOf(name); got != want || ok != (want != "") {
			t.Errorf("%s belongs to %q, %v", name, got, ok)
		}
	}
}
