package proctest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// EnvPrograms names a folder that holds the programs already, for who cannot
// build them.
const EnvPrograms = "SVCFS_TEST_PROGRAMS"

// Programs builds programs of this module, each once in a test process: linking one
// takes seconds. TestMain calls Run.
type Programs struct {
	Flags []string // of go build

	mu    sync.Mutex
	dir   string // "" = none is built
	built map[string]bool
}

// Dir returns a folder that holds the programs, such as "svcd". Every user may run them.
func (p *Programs) Dir(tb testing.TB, names ...string) string {
	tb.Helper()
	dir, err := p.build(names)
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

func (p *Programs) build(names []string) (dir string, err error) {
	if given := os.Getenv(EnvPrograms); given != "" {
		return given, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir == "" {
		if dir, err = os.MkdirTemp("", "svcfs-programs-"); err == nil {
			err = os.Chmod(dir, 0o755)
		}
		if err != nil {
			return "", err
		}
		p.dir, p.built = dir, make(map[string]bool)
	}
	if slices.Contains(names, "svcd") {
		names = append(slices.Clip(names), "svcvault") // which svcd starts
	}
	for _, name := range names {
		if p.built[name] {
			continue
		}
		args := append([]string{"build", "-o", p.dir + "/"}, p.Flags...)
		if out, err := exec.Command("go",
			append(args, "github.com/svcfs/svcfs/cmd/"+name)...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
		p.built[name] = true
	}
	return p.dir, nil
}

// InPath builds programs, and has this process and those that it starts find them first.
func (p *Programs) InPath(names ...string) error {
	dir, err := p.build(names)
	if err != nil {
		return err
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// Beside puts programs beside the test binary, where a program that runs in the process of the test looks for them.
func (p *Programs) Beside(names ...string) error {
	dir, err := p.build(names)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, name := range names {
		link := filepath.Join(filepath.Dir(self), name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(filepath.Join(dir, name), link); err != nil {
			return err
		}
	}
	return nil
}

// Run runs the tests and removes the programs.
func (p *Programs) Run(tests interface{ Run() int }) int {
	defer func() {
		if p.dir != "" {
			_ = os.RemoveAll(p.dir)
		}
	}()
	return tests.Run()
}

// Child returns a process that another one started, 0 = there is none.
func Child(tb testing.TB, pid int) int {
	tb.Helper()
	lists, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range lists {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // the thread ended
		}
		if child, _, _ := strings.Cut(strings.TrimSpace(string(raw)), " "); child != "" {
			found, err := strconv.Atoi(child)
			if err != nil {
				tb.Fatal(err)
			}
			return found
		}
	}
	return 0
}
