package integration

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// neededPackages are the Debian packages that the reason of a skipped test may name.
var neededPackages = regexp.MustCompile(`apt-get install ([a-z][a-z0-9.+ -]*)`)

// packagesOfTests returns the fields of each line of .ci/packages.
func packagesOfTests(t *testing.T) (lines [][]string) {
	t.Helper()
	for line := range strings.Lines(string(read(t, "../.ci/packages"))) {
		if f := strings.Fields(line); len(f) > 1 && f[0] != "#" {
			lines = append(lines, f)
		}
	}
	return lines
}

// need skips a test whose program, or absolute file, is not installed, or where
// another program carries its name.
func need(t *testing.T, tool string) {
	t.Helper()
	path, err := exec.LookPath(tool)
	if filepath.IsAbs(tool) {
		_, err = os.Stat(tool)
	}
	for _, p := range packagesOfTests(t) {
		if p[0] != tool {
			continue
		}
		if err != nil {
			t.Skip("not installed: apt-get install " + p[1])
		}
		if len(p) < 4 {
			continue
		}
		if out, err := exec.Command(path, p[2]).CombinedOutput(); !strings.Contains(string(out), p[3]) {
			t.Skipf("%s is not that of %s (%v): apt-get install %[2]s", path, p[1], err)
		}
	}
	if err != nil {
		t.Fatalf("%v, and .ci/packages does not install it", err)
	}
}

// Whatever a test is skipped without, .ci/run installs: a package that a skip
// names stands in .ci/packages, or is in every Debian.
func TestPackagesOfSkippedTestsAreInstalled(t *testing.T) {
	var listed []string
	for _, p := range packagesOfTests(t) {
		listed = append(listed, p[1])
	}
	named := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, found := range neededPackages.FindAllStringSubmatch(string(read(t, path)), -1) {
			for _, pkg := range strings.Fields(found[1]) {
				if named++; !slices.Contains(listed, pkg) {
					t.Errorf("%s names the package %s, which .ci/packages does not install", path, pkg)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 12 {
		t.Errorf("only %d packages are named: does the expression still match the tests?", named)
	}
}
