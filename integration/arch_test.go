// Package integration holds black-box tests: real binaries, the real kernel,
// real foreign clients. It never imports the insides of the service.
package integration

import (
	"encoding/json"
	"os/exec"
	"path"
	"strings"
	"testing"
)

const module = "github.com/svcfs/svcfs/"

// forbidden is the import table of the design: a package and everything it
// imports of ours may not reach what stands beside it. Names ending in /... match
// a tree; ours means any package of this module.
var forbidden = map[string][]string{
	"format":           {"ours", "net/...", "os"},
	"cache":            {"ours", "github.com/hanwen/go-fuse/...", "net/..."},
	"sdk/confine":      {"ours", "net/..."},
	"sdk/locked":       {"ours", "net/..."},
	"sdk/ownfile":      {"ours", "net/..."},
	"sdk/names":        {"ours", "net/...", "os"},
	"sdk/wire/...":     {"sdk", "fs/...", "cache", "service/...", "cmd/...", "net/http"},
	"sdk":              {"fs/...", "cache", "service/...", "cmd/...", "github.com/hanwen/go-fuse/..."},
	"sdk/proof":        {"sdk", "fs/...", "cache", "service/...", "cmd/...", "net/...", "os"},
	"sdk/trust":        {"sdk", "fs/...", "cache", "service/...", "cmd/...", "net/..."},
	"sdk/apikey":       {"fs/...", "cache", "service/...", "cmd/...", "net/..."},
	"sdk/sdktest":      {"fs/...", "cache", "service/...", "cmd/...", "github.com/hanwen/go-fuse/..."},
	"fs/tree":          {"github.com/hanwen/go-fuse/...", "net", "net/http", "service/..."},
	"fs/tree/policy":   {"fs", "fs/tree", "cache", "service/...", "cmd/...", "github.com/hanwen/go-fuse/..."},
	"fs":               {"net/http", "crypto/...", "service/..."},
	"service/...":      {"fs/...", "cache", "sdk", "cmd/...", "github.com/hanwen/go-fuse/..."},
	"integration":      {"service/..."},
	"cmd/svcfs":        {"service/..."},
	"cmd/internal/...": {"fs/...", "service/..."},
}

// onlyIn says which packages alone may import a library directly.
var onlyIn = map[string][]string{
	"github.com/hanwen/go-fuse/v2/...":        {"fs", "integration"},
	"github.com/golang-jwt/jwt/v5":            {"service/auth", "sdk"},
	"github.com/hashicorp/golang-lru/v2/...":  {"cache"},
	"modernc.org/sqlite":                      {"service/store", "integration/bench"},
	"github.com/coreos/go-oidc/v3/...":        {"service/web"},
	"github.com/chromedp/chromedp/...":        {"service/web", "integration"},
	"github.com/jackc/pgx/v5/...":             {"service/store/..."},
	"github.com/minio/minio-go/v7/...":        {"service/blob", "integration/bench"},
	"github.com/ipfs/...":                     {"service/legacy"},
	"github.com/multiformats/...":             {"service/legacy"},
	"github.com/prometheus/client_golang/...": {"service/metrics"},
	"github.com/pelletier/go-toml/v2":         {"cmd/svcd"},
	"github.com/agnivade/levenshtein":         {"cmd/internal/cli"},
	"github.com/landlock-lsm/go-landlock/...": {"sdk/confine"},
	"github.com/zalando/go-keyring":           {"sdk/apikey"},
	"github.com/svcfs/svcfs/service/vault":    {"service/...", "cmd/svcd"},
}

type listed struct {
	ImportPath   string
	Imports      []string
	Deps         []string // imported by it or by what it imports
	TestImports  []string
	XTestImports []string
}

func TestImportTable(t *testing.T) {
	packages := listPackages(t)
	if len(packages) < 3 {
		t.Fatalf("go list found %d packages of ours", len(packages))
	}
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		for pattern, banned := range forbidden {
			if !matches(pattern, name) {
				continue
			}
			for _, imported := range reaches(name, p) {
				for _, ban := range banned {
					if isBanned(ban, name, imported) {
						t.Errorf("%s imports %s: the design forbids %s there", name, imported, ban)
					}
				}
			}
		}
		for library, allowed := range onlyIn {
			for _, imported := range append(append([]string{}, p.Imports...), p.TestImports...) {
				if matches(library, imported) && !anyMatches(allowed, name) {
					t.Errorf("%s imports %s: only %v may", name, imported, allowed)
				}
			}
		}
	}
}

// reaches is what the table asks about: a program is everything that is linked into it.
func reaches(name string, p listed) []string {
	if strings.HasPrefix(name, "cmd/") {
		return p.Deps
	}
	return p.Imports
}

func isBanned(ban, name, imported string) bool {
	ours, isOurs := strings.CutPrefix(imported, module)
	if ban == "ours" {
		return isOurs
	}
	if isOurs {
		return matches(ban, ours) && !strings.HasPrefix(ours, name+"/")
	}
	return matches(ban, imported)
}

func anyMatches(patterns []string, name string) bool {
	for _, p := range patterns {
		if matches(p, name) {
			return true
		}
	}
	return false
}

// matches reports whether name is pattern, or lies in the tree of a pattern
// that ends in /...
func matches(pattern, name string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == tree || strings.HasPrefix(name, tree+"/")
	}
	return path.Clean(pattern) == name
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	return packages
}
