// Command measure prints figures of the source: how much there is, and what is too long to be read in one sitting.
// Run it in the root of the repository: go run ./integration/measure
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

const (
	longFile     = 500 // lines
	longFunction = 50  // lines
	longLine     = 120 // columns, where a tab is four
)

// support matches what only tests and releases use.
var support = regexp.MustCompile(`^(integration|packaging)/|test/|testkit/|testdata/|faultpoint/`)

// figures are what was counted.
type figures struct {
	product, tests, support       int // lines
	longFiles, longFuncs, longRow int
	methods                       map[string]int // by package and receiver
}

func main() {
	f := figures{methods: map[string]int{}}
	if err := f.count(); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
	f.print()
}

func (f *figures) count() error {
	list, err := exec.Command("git", "ls-files", "*.go").Output()
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	for _, path := range strings.Fields(string(list)) {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := bytes.Count(text, []byte{'\n'})
		switch {
		case strings.HasSuffix(path, "_test.go"):
			f.tests += lines
		case support.MatchString(path):
			f.support += lines
		default:
			f.product += lines
			if err := f.read(path, text, lines); err != nil {
				return err
			}
		}
	}
	return nil
}

// read counts what is long in a file of the product, and its methods.
func (f *figures) read(path string, text []byte, lines int) error {
	if lines > longFile {
		f.longFiles++
	}
	for line := range strings.Lines(string(text)) {
		if row := strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    "); len([]rune(row)) > longLine {
			f.longRow++
		}
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, text, 0)
	if err != nil {
		return err
	}
	for _, d := range parsed.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if files.Position(fn.End()).Line-files.Position(fn.Pos()).Line >= longFunction {
			f.longFuncs++
		}
		if fn.Recv != nil {
			f.methods[parsed.Name.Name+"."+receiver(fn.Recv.List[0].Type)]++
		}
	}
	return nil
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func (f *figures) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintf(w, "product\t%d lines\ntests\t%d lines\nsupport of tests, packaging\t%d lines\n", f.product, f.tests,
		f.support)
	fmt.Fprintf(w, "files over %d lines\t%d\n", longFile, f.longFiles)
	fmt.Fprintf(w, "functions over %d lines\t%d\n", longFunction, f.longFuncs)
	fmt.Fprintf(w, "lines over %d columns\t%d\n", longLine, f.longRow)
	type owner struct {
		name string
		n    int
	}
	var owners []owner
	for name, n := range f.methods {
		owners = append(owners, owner{name, n})
	}
	slices.SortFunc(owners, func(a, b owner) int { return cmp.Or(b.n-a.n, strings.Compare(a.name, b.name)) })
	for _, o := range owners[:min(8, len(owners))] {
		fmt.Fprintf(w, "methods of %s\t%d\n", o.name, o.n)
	}
	if doc, err := exec.Command("go", "doc", "-short", "./sdk").Output(); err == nil {
		fmt.Fprintf(w, "go doc -short ./sdk\t%d lines\n", bytes.Count(doc, []byte{'\n'}))
	}
}
