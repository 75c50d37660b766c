package main

import (
	"bytes"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// files reads everything below a folder.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err == nil {
			all[filepath.ToSlash(name)], err = os.ReadFile(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The site is built from the sources; two builds are equal, and in what is built every
// link and anchor leads somewhere.
func TestSite(t *testing.T) {
	programs := t.TempDir()
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", programs+"/", "./cmd/...") // as make build, but for the commit
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var built [2]map[string][]byte
	for i := range built {
		out := filepath.Join(t.TempDir(), "site")
		if _, err := build("../..", programs, out); err != nil {
			t.Fatal(err)
		}
		built[i] = files(t, out)
	}
	site := built[0]
	for name, content := range site {
		if !bytes.Equal(content, built[1][name]) {
			t.Errorf("two builds of %s differ", name)
		}
	}
	for _, name := range []string{"index.html", "docs/index.html", "fs/SEMANTICS.html", "docs/reference/commands/svcfs_mount.html", "docs/reference/commands/svcd_serve.html"} {
		if site[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for name, content := range site {
		if path.Ext(name) != ".html" {
			continue
		}
		if bytes.Contains(content, []byte("<script")) || bytes.Contains(content, []byte("raw HTML omitted")) {
			t.Errorf("%s has a script or lost text", name)
		}
		for _, found := range links.FindAllSubmatch(content, -1) {
			link, err := url.Parse(strings.ReplaceAll(string(found[1]), "&amp;", "&"))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if link.IsAbs() {
				continue
			}
			to := path.Join(path.Dir(name), link.Path)
			if link.Path == "" {
				to = name
			}
			if target, isThere := site[to]; !isThere || link.Fragment != "" && !bytes.Contains(target, []byte(` id="`+link.Fragment+`"`)) {
				t.Errorf("%s: %s leads nowhere", name, found[1])
			}
		}
	}
}

// A fault in a document is an error that names document and link.
func TestFaultsAreFound(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"right", "# A\n\n[b](docs/README.md#b-1) [c](file.txt) [d](https://example.org)", ""},
		{"no such file", "# A\n\n[b](docs/README.md) [c](absent.md)", "README.md: absent.md leads nowhere"},
		{"no such heading", "# A\n\n[b](docs/README.md#c)", "docs/README.md has no heading #c"},
		{"no such heading here", "# A\n\n[b](docs/README.md) [c](#b)", "README.md has no heading #b"},
		{"out of the sources", "# A\n\n[b](docs/README.md) [c](../..)", "../.. leads nowhere"},
		{"nobody links to a page", "# A", "docs/README.md: no page links to it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range map[string]string{"README.md": tc.text, "docs/README.md": "# B\n\n## B", "file.txt": ""} {
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s := newSite(root)
			err := s.load(root, "")
			if err == nil {
				err = s.link()
			}
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
