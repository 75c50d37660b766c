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

// Every method of a client says what it costs, whether it needs the API key, and
// which errors to expect.
func TestEveryMethodSaysItsPriceAndWhatItNeeds(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	price := regexp.MustCompile(`(?i)\b(free|costs?)\b`)
	needs := regexp.MustCompile(`(?i)\b(API key|no authentication|local)\b`)
	errs := regexp.MustCompile(`\bErrors?\b|\berrors,? like\b|\[Kind|\blocal\b|\bLocal\b`)
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
		if !errs.MatchString(doc) && !like.MatchString(doc) {
			t.Errorf("%s does not say which errors to expect: %s", f.Name.Name, doc)
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

// Everything that a user of the library can name is documented, in every package
// that is meant for users.
func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, dir := range []string{".", "apikey", "proof", "sdktest", "wire", "../format", "../cache"} {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(paths), err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			files := gotoken.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range undocumented(file) {
				t.Errorf("%s: %s has no documentation", files.Position(id.Pos()), id.Name)
			}
		}
	}
}

func isExportedType(t ast.Expr) bool {
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

// undocumented lists the exported names that have no comment of their own, nor one
// of the group they are declared in.
func undocumented(file *ast.File) (names []*ast.Ident) {
	note := func(id *ast.Ident, docs ...*ast.CommentGroup) {
		for _, doc := range docs {
			if doc != nil {
				return
			}
		}
		if id.IsExported() {
			names = append(names, id)
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || isExportedType(d.Recv.List[0].Type) {
				note(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, id := range s.Names {
						note(id, d.Doc, s.Doc, s.Comment)
					}
				case *ast.TypeSpec:
					note(s.Name, d.Doc, s.Doc)
					if methods, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
						for _, m := range methods.Methods.List {
							for _, id := range m.Names {
								note(id, m.Doc, m.Comment)
							}
						}
					}
				}
			}
		}
	}
	return names
}
