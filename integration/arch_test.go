// Package integration holds black-box tests: real binaries, the real kernel,
// real foreign clients. It never imports the insides of the service.
package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/svcfs/svcfs/"

// onlyIn says in which folders alone a library may be imported.
var onlyIn = map[string][]string{
	"github.com/hanwen/go-fuse/v2":           {"fs", "integration"},
	"github.com/golang-jwt/jwt/v5":           {"service/vault", "sdk/internal/call"},
	"github.com/hashicorp/golang-lru/v2":     {"cache", "service/vault"},
	"modernc.org/sqlite":                     {"service/store", "integration/bench"},
	"github.com/coreos/go-oidc/v3":           {"service/web"},
	"github.com/chromedp/chromedp":           {"service/web", "integration"},
	"github.com/jackc/pgx/v5":                {"service/store"},
	"github.com/minio/minio-go/v7":           {"service/blob", "integration/bench"},
	"github.com/ipfs":                        {"service/legacy"},
	"github.com/multiformats":                {"service/legacy"},
	"github.com/prometheus/client_golang":    {"service/metrics"},
	"github.com/pelletier/go-toml/v2":        {"cmd/svcd"},
	"github.com/agnivade/levenshtein":        {"cmd/internal/cli"},
	"github.com/landlock-lsm/go-landlock":    {"sdk/confine"},
	"github.com/modelcontextprotocol/go-sdk": {"cmd/svcfs/internal/agent", "service/api", "service", "integration"},
	"github.com/zalando/go-keyring":          {"sdk/apikey"},
	"github.com/svcfs/svcfs/service/vault": {"service/vault", "service/vaulttest", "cmd/svcvault",
		"integration/vectors"},
}

// testService is the service in the process of a test.
const testService = "service/testkit"

type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func (p listed) name() string { return strings.TrimPrefix(p.ImportPath, module) }

func (p listed) inTests() []string { return slices.Concat(p.TestImports, p.XTestImports) }

// rule is a row of the table in CONTRIBUTING.md. Names stand for trees.
type rule struct {
	folders []string
	ours    bool     // nothing of ours may be reached
	reach   []string // may not be reached
	unless  []string // but these may, and what they reach
	imports []string // not in its own files
}

// Lines of the product fit into 120 columns, where a tab is four.
func TestLinesFit(t *testing.T) {
	list, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "*.go").Output()
	if err != nil {
		t.Skip("this is no checkout:", err)
	}
	others := regexp.MustCompile(`^(integration|packaging)/|_test\.go$|test/|testkit/|testdata/`)
	for _, path := range strings.Fields(string(list)) {
		text, err := os.ReadFile(filepath.Join("..", path))
		if others.MatchString(path) || os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if row := strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    "); len([]rune(row)) > 120 {
				t.Errorf("%s:%d is longer than 120 columns", path, n)
			}
		}
	}
}

func TestImportTable(t *testing.T) {
	packages := listPackages(t)
	rules := readRules(t)
	used := map[*rule]bool{}
	for path, p := range packages {
		if !strings.HasPrefix(path, module) {
			continue
		}
		r := ruleFor(rules, p.name())
		if r == nil {
			t.Errorf("%s has no row in the table of CONTRIBUTING.md", p.name())
			continue
		}
		used[r] = true
		for path := range packages.reached(r, p.Imports) {
			if r.forbids(p.name(), path) {
				t.Errorf("%s reaches %s", p.name(), path)
			}
		}
		if p.name() != testService && slices.Contains(p.Imports, module+testService) {
			t.Errorf("%s imports %s, which is for tests", p.name(), testService)
		}
		inTests := *r
		if inAny([]string{"sdk", "fs", "cmd", "integration"}, p.name()) {
			inTests.unless = append(slices.Clip(r.unless), testService)
		}
		for path := range packages.reached(&inTests, p.inTests()) {
			if strings.HasPrefix(path, module) && inTests.forbids(p.name(), path) {
				t.Errorf("%s reaches %s in its tests", p.name(), path)
			}
		}
		for _, path := range p.Imports {
			if inAny(r.imports, path) {
				t.Errorf("%s imports %s itself", p.name(), path)
			}
		}
		for library, allowed := range onlyIn {
			for _, path := range slices.Concat(p.Imports, p.inTests()) {
				if inTree(library, path) && !inAny(allowed, p.name()) {
					t.Errorf("%s imports %s: only %v may", p.name(), path, allowed)
				}
			}
		}
	}
	for _, r := range rules {
		if !used[r] {
			t.Errorf("no package is in %v", r.folders)
		}
	}
}

// forbids reports whether the package of that name may not reach what is at path.
func (r *rule) forbids(name, path string) bool {
	path, isOurs := strings.CutPrefix(path, module)
	if inTree(name, path) || inAny(r.folders, path) || inAny(r.unless, path) {
		return false
	}
	return isOurs && r.ours || inAny(r.reach, path)
}

// graph holds the packages of every module, and the libraries behind them, by their paths.
type graph map[string]listed

// reached returns the imports and what they import in turn, but not what is
// behind an exception of the rule.
func (g graph) reached(r *rule, imports []string) map[string]bool {
	all := map[string]bool{}
	for next := slices.Clone(imports); len(next) > 0; {
		path := next[0]
		next = next[1:]
		if all[path] {
			continue
		}
		all[path] = true
		if ours, isOurs := strings.CutPrefix(path, module); !isOurs || !inAny(r.unless, ours) {
			next = append(next, g[path].Imports...)
		}
	}
	return all
}

// ruleFor returns the row of the nearest folder.
func ruleFor(rules []*rule, name string) (nearest *rule) {
	longest := 0
	for _, r := range rules {
		for _, folder := range r.folders {
			if inTree(folder, name) && len(folder) > longest {
				nearest, longest = r, len(folder)
			}
		}
	}
	return nearest
}

func readRules(t *testing.T) (rules []*rule) {
	t.Helper()
	raw, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	names := func(text string) (list []string) {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			list = append(list, m[1])
		}
		return list
	}
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			t.Fatalf("want four cells: %s", line)
		}
		reach, unless, _ := strings.Cut(cells[3], " but for ")
		rules = append(rules, &rule{folders: names(cells[1]), ours: strings.Contains(reach, "anything of ours"),
			reach: names(reach), unless: names(unless), imports: names(cells[4])})
	}
	return rules
}

func inAny(trees []string, name string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return inTree(tree, name) })
}

func inTree(tree, name string) bool { return name == tree || strings.HasPrefix(name, tree+"/") }

func listPackages(t *testing.T) graph {
	t.Helper()
	modules, err := filepath.Glob("../integration/*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	packages := graph{}
	for _, file := range append(modules, "../go.mod", "../packaging/go.mod") {
		cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Imports,TestImports,XTestImports",
			"./...")
		cmd.Dir = filepath.Dir(file)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list in %s: %v", cmd.Dir, err)
		}
		for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
			var p listed
			ok(t, dec.Decode(&p))
			// as tests are linked
			if !strings.Contains(p.ImportPath, " [") && !strings.HasSuffix(p.ImportPath, ".test") {
				packages[p.ImportPath] = p
			}
		}
	}
	return packages
}
