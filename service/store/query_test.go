package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Threat 29: the compiler refuses a statement that is not a constant, unless it is
// converted: outside this package there is no conversion.
func TestThreat29NoStatementIsMadeOfInput(t *testing.T) {
	conversion := regexp.MustCompile(`store\.Query\(|\bsql\.(Open|Conn|DB)\b`)
	files := 0
	for _, root := range []string{"..", "../../cmd/svcd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasPrefix(path, "../store/") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			if at := conversion.FindIndex(text); at != nil {
				t.Errorf("%s:%d: a statement or a connection that goes around store.Query", path,
					1+strings.Count(string(text[:at[0]]), "\n"))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 50 {
		t.Errorf("only %d files found: the test looks in the wrong place", files)
	}
}
