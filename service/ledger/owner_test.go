package ledger

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Only this package, the schema and tests name the table of records.
func TestNobodyElseNamesTheTable(t *testing.T) {
	inSQL := regexp.MustCompile(`(?i)\b(from|join|into|update|table|truncate)\s+"?ledger\b`)
	seen := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.Contains(path, "/testkit/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		isOurs := filepath.Dir(path) == filepath.Join("..", "..", "service", "ledger")
		for n, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "//")
			if !inSQL.MatchString(code) {
				continue
			}
			if seen++; !isOurs {
				t.Errorf("%s:%d: %s", path, n+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || seen < 10 {
		t.Errorf("%d lines name the table: %v", seen, err)
	}
}
