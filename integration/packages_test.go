package integration

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// neededPackages are the Debian packages that the reason of a skipped test may name.
var neededPackages = regexp.MustCompile(`apt-get install ([a-z][a-z0-9.+ -]*)|pkg: +"([a-z0-9.+-]+)"|need\(t, [^,]+, "([a-z0-9.+-]+)"\)`)

// Whatever a test is skipped without, .ci/run installs: a package that a skip
// names stands in .ci/packages, or is in every Debian.
func TestPackagesOfSkippedTestsAreInstalled(t *testing.T) {
	listed := []string{"coreutils", "gzip", "sed", "tar"}
	for line := range strings.Lines(string(read(t, "../.ci/packages"))) {
		if known, pkg, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(known, "#") {
			listed = append(listed, pkg)
		}
	}
	named := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, found := range neededPackages.FindAllStringSubmatch(string(read(t, path)), -1) {
			for _, pkg := range strings.Fields(strings.Join(found[1:], "")) {
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
	if named < 40 {
		t.Errorf("only %d packages are named: does the expression still match the tests?", named)
	}
}
