package fs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
	}{{"N", 6}, {"R", 10}, {"W", 18}, {"A", 5}, {"E", 9}, {"M", 8}, {"O", 14}} {
		for i := 1; i <= s.last; i++ {
			list = append(list, fmt.Sprint(s.letter, i))
		}
	}
	return append(list, "E")
}

// Every statement of the contract is in SEMANTICS.md with tests that exist and check
// something. That none is skipped .ci/run checks.
func TestSemanticsHaveTests(t *testing.T) {
	text, err := os.ReadFile("SEMANTICS.md")
	if err != nil {
		t.Fatal(err)
	}
	there := testsOf(t, ".", "tree", "tree/look", "tree/policy", "tree/staging", "../cache", "../integration",
		"../cmd/svcfs", "../sdk", "../sdk/internal/call", "../sdk/outbox")
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	sections := sectionsOf(string(text))
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
		if checks, ok := there[name[1]]; !ok {
			t.Errorf("SEMANTICS.md names %s, which is no test", name[1])
		} else if !checks {
			t.Errorf("SEMANTICS.md names %s, which checks nothing", name[1])
		}
	}
	for name := range there {
		number := regexp.MustCompile(`^Test([NRWAMO][0-9]+|E[1-5])[A-Z]`).FindStringSubmatch(name)
		if number != nil && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s carries a number and is not in SEMANTICS.md", name)
		}
	}
}

// sectionsOf returns what follows the number of each statement, up to the next one.
func sectionsOf(text string) map[string]string {
	sections := make(map[string]string)
	for _, part := range regexp.MustCompile(`(?m)^\*\*`).Split(text, -1) {
		if number, rest, ok := strings.Cut(part, ".**"); ok {
			sections[number] = rest
		}
	}
	return sections
}

// A reader of the statements alone is to know the product in minutes: a statement, and each point below one, is one to
// three sentences of at most 70 words.
func TestSemanticsAreShort(t *testing.T) {
	text, err := os.ReadFile("SEMANTICS.md")
	if err != nil {
		t.Fatal(err)
	}
	for number, section := range sectionsOf(string(text)) {
		promise, _, _ := strings.Cut(section, "\nTests:")
		for _, paragraph := range regexp.MustCompile(`\n\n(\d+\. )?|\n\d+\. `).Split(strings.TrimSpace(promise), -1) {
			sentences := len(regexp.MustCompile(`[.?!](\s|$)`).FindAllString(paragraph, -1))
			words := len(strings.Fields(paragraph))
			if !strings.HasPrefix(paragraph, "|") && (sentences < 1 || sentences > 3 || words > 70) { // a table is none
				t.Errorf("%s: %d sentences of %d words: %.60q", number, sentences, words, paragraph)
			}
		}
	}
}

// testsOf collects the tests in directories, and whether each checks something itself.
func testsOf(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	tests := make(map[string]bool)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no tests, %v", dir, err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
					tests[f.Name.Name] = checks(f)
				}
			}
		}
	}
	return tests
}

// checking are the calls that check something: of testing; helpers that wait or are named
// after what they want; and what runs steps, operations, lies and scripts that check.
var checking = regexp.MustCompile(
	`^(Errorf?|Fatalf?|want\w*|Eventually|BeforeAWatchEnds|as|Check|meetLies|runScripts)$`)

// checks reports whether a test makes such a call; err.Error() is none.
func checks(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && checking.MatchString(name(call)) && (name(call) != "Error" || len(call.Args) > 0)
		return true
	})
	return found
}

// name is that of the function or method that is called.
func name(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}
