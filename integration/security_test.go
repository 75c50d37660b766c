package integration

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// SECURITY.md and the tests name each other: a row has a test of its number or
// names one, a numbered test has a row, and what is named exists.
func TestSecurityNamesItsTests(t *testing.T) {
	text := string(read(t, "../SECURITY.md"))
	tests := make(map[string]bool)
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(read(t, path), -1) {
				tests[string(found[1])] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var numbered []string // of all tests TestThreat…
	for name := range tests {
		for _, found := range regexp.MustCompile(`(?:Threat|And)(\d+)`).FindAllStringSubmatch(name, -1) {
			numbered = append(numbered, found[1])
		}
	}
	var rows []string
	for line := range strings.Lines(text) {
		found := regexp.MustCompile(`^\| (\d+) \|`).FindStringSubmatch(line)
		if found == nil {
			continue
		}
		rows = append(rows, found[1])
		if !slices.Contains(numbered, found[1]) && !strings.Contains(line, "`Test") {
			t.Errorf("row %s has no test", found[1])
		}
	}
	for _, number := range numbered {
		if !slices.Contains(rows, number) {
			t.Errorf("tests of threat %s have no row", number)
		}
	}
	for _, found := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(text, -1) {
		if !tests[found[1]] {
			t.Errorf("SECURITY.md names %s, which is no test", found[1])
		}
	}
}
