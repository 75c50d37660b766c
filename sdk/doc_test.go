package sdk_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every method of a client says what it costs, and whether it needs the API key.
func TestEveryMethodSaysItsPriceAndWhatItNeeds(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	price := regexp.MustCompile(`(?i)\b(free|costs?)\b`)
	needs := regexp.MustCompile(`(?i)\b(API key|no authentication|local)\b`)
	like := regexp.MustCompile(`\[Client\.\w+\]`) // the same as another
	seen := 0
	look := func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Recv == nil || !f.Name.IsExported() {
			return true
		}
		star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
		if !ok {
			return true
		}
		if of, ok := star.X.(*ast.Ident); !ok || of.Name != "Client" {
			return true
		}
		switch f.Name.Name {
		case "Account", "Pool", "Close": // of the client itself
			return true
		}
		seen++
		doc := strings.Join(strings.Fields(f.Doc.Text()), " ")
		if !price.MatchString(doc) && !like.MatchString(doc) {
			t.Errorf("%s does not say what it costs: %s", f.Name.Name, doc)
		}
		if !needs.MatchString(doc) && !like.MatchString(doc) {
			t.Errorf("%s does not say whether it needs the API key: %s", f.Name.Name, doc)
		}
		return true
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, look)
	}
	if seen < 30 {
		t.Errorf("%d methods", seen)
	}
}
