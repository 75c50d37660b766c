package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// statements lists the numbers of the contract.
func statements() (list []string) {
	for _, s := range []struct {
		letter string
		last   int
	}{{"N", 5}, {"R", 6}, {"W", 15}, {"A", 5}, {"E", 4}, {"M", 8}} {
		for i := 1; i <= s.last; i++ {
			list = append(list, fmt.Sprint(s.letter, i))
		}
	}
	return append(list, "E")
}

// Every statement of the contract is in SEMANTICS.md with tests that exist.
func TestSemanticsHaveTests(t *testing.T) {
	text, err := os.ReadFile("SEMANTICS.md")
	if err != nil {
		t.Fatal(err)
	}
	there := testsOf(t, ".", "tree", "../cache", "../integration", "../cmd/svcfs", "../sdk")
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	sections := make(map[string]string)
	for _, part := range regexp.MustCompile(`(?m)^\*\*`).Split(string(text), -1) {
		if number, rest, ok := strings.Cut(part, ".**"); ok {
			sections[number] = rest
		}
	}
	for _, number := range statements() {
		section, ok := sections[number]
		if !ok {
			t.Errorf("%s is not in SEMANTICS.md", number)
			continue
		}
		delete(sections, number)
		if _, tests, _ := strings.Cut(section, "Tests:"); !named.MatchString(tests) {
			t.Errorf("%s names no test", number)
		}
	}
	for number := range sections {
		t.Errorf("SEMANTICS.md has the unknown statement %s", number)
	}
	for _, name := range named.FindAllStringSubmatch(string(text), -1) {
		if !there[name[1]] {
			t.Errorf("SEMANTICS.md names %s, which is no test", name[1])
		}
	}
	for name := range there {
		number := regexp.MustCompile(`^Test([NRWAM][0-9]+|E[1234])[A-Z]`).FindStringSubmatch(name)
		if number != nil && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s carries a number and is not in SEMANTICS.md", name)
		}
	}
}

// testsOf collects the names of the tests in directories.
func testsOf(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no tests, %v", dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(text), -1) {
				names[m[1]] = true
			}
		}
	}
	return names
}
