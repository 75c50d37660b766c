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

// Every method of a client and of a group says what it costs, whether it needs the API
// key, and which errors to expect.
func TestEveryMethodSaysItsPriceAndWhatItNeeds(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	price := regexp.MustCompile(`(?i)\b(free|costs?)\b`)
	needs := regexp.MustCompile(`(?i)\b(API key|no authentication|local)\b`)
	errs := regexp.MustCompile(`\bErrors?\b|\berrors,? like\b|\[Err|\blocal\b|\bLocal\b`)
	like := regexp.MustCompile(`\[(Client|Group)\.\w+\]`) // the same as another
	seen := 0
	look := func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Recv == nil || !f.Name.IsExported() {
			return true
		}
		of := f.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if id, ok := of.(*ast.Ident); !ok || id.Name != "Client" && id.Name != "Group" {
			return true
		}
		switch f.Name.Name {
		case "Account", "Group", "Close": // of the client itself
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

// Each of the twenty operations of the specification is found by its name in the
// package's documentation, at what does it.
func TestEveryOperationIsFoundInTheDocumentation(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var overview string
	docs := map[string]string{} // by name, such as Group.Put
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), source, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		overview += file.Doc.Text()
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				docs[nameOf(f)] = f.Doc.Text()
			}
		}
	}
	listed := regexp.MustCompile(`(?m)^\s+(\w+)\s+\[([\w.]+)\]$`)
	found := map[string]string{}
	for _, line := range listed.FindAllStringSubmatch(overview, -1) {
		found[line[1]] = line[2]
	}
	for _, operation := range []string{"upload", "retrieve", "registerGroup", "addGroupMember", "joinGroup", "revokeGroupMember", "authStatus", "isAuthorized",
		"getGroupOwner", "getGroupChecksum", "getTransactionsForGroup", "getOwnedGroups", "getMemberGroups", "getGroupMembers", "getBalance", "estimateFee",
		"refreshToken", "getNetworkInfo", "computeHash", "computeHashAsync"} {
		if does := found[operation]; !strings.Contains(docs[does], "("+operation+")") {
			t.Errorf("%s: the overview names %q, whose comment does not name the operation: %s", operation, does, docs[does])
		}
	}
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// Everything that a user of the library can name is documented, in every package
// that is meant for users.
func TestEveryExportedNameIsDocumented(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "apikey", "mem", "proof", "sdktest", "wire", "../format", "../cache"} {
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
