package proctest

import (
	"fmt"
	"os"
	"os/exec"
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

// Run runs the tests and removes the programs.
func (p *Programs) Run(tests interface{ Run() int }) int {
	defer func() {
		if p.dir != "" {
			_ = os.RemoveAll(p.dir)
		}
	}()
	return tests.Run()
}
