// Runtests runs the tests: make test and make test-all call it. It knows what runs with the race detector, what as
// whom, and what beside what; it builds the programs once for all, counts, and says what the machine lacks.
//
//	runtests quick [PATTERN]...  make test, or its part for some packages
//	runtests landing             what .ci/run runs after make test
//	runtests all                 make test-all
//	runtests missing             the Debian packages that tests use and this machine lacks
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

const module = "github.com/svcfs/svcfs/"

func main() {
	ok, err := act(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func act(args []string) (ok bool, err error) {
	if len(args) == 0 {
		return false, errors.New("usage: runtests quick|landing|all|missing")
	}
	switch args[0] {
	case "exec":
		os.Exit(execute(args[1:]))
	case "missing":
		for _, name := range proctest.MissingPackages() {
			fmt.Println(name)
		}
		return true, nil
	}
	packages, err := ours(args[1:])
	if err != nil {
		return false, fmt.Errorf("list the packages: %w", err)
	}
	t, err := newTester(packages)
	if err != nil {
		return false, err
	}
	defer t.close()
	switch args[0] {
	case "quick":
		p := quick(packages)
		if len(args) > 1 {
			p.lint = nil
			p.runs = slices.DeleteFunc(p.runs, func(r run) bool { return r.dir != "" })
		}
		t.do(p)
		t.results.CPU = childrenCPU()
	case "landing":
		t.do(landing(packages))
		t.judge()
	case "all":
		t.do(rest(packages))
	default:
		return false, fmt.Errorf("%s is unknown", args[0])
	}
	return t.tell()
}

// tester runs the parts of a plan.
type tester struct {
	self     string   // this program
	packages []string // what is tested, as folders
	dir      string   // of the programs that the tests start
	begun    time.Time
	results  *results

	mu     sync.Mutex // for what is printed
	builds map[bool]func() (string, error)
}

func newTester(packages []string) (*tester, error) {
	t := &tester{packages: packages, begun: time.Now(), results: newResults()}
	var err error
	if t.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if err := t.results.load(); err != nil {
		return nil, err
	}
	if t.dir, err = os.MkdirTemp("", "svcfs-programs-"); err != nil {
		return nil, err
	}
	t.builds = map[bool]func() (string, error){}
	for _, race := range []bool{false, true} {
		t.builds[race] = sync.OnceValues(func() (string, error) { return t.build(race) })
	}
	return t, os.Chmod(t.dir, 0o755) // the ordinary user runs them
}

func (t *tester) close() { _ = os.RemoveAll(t.dir) }

// build makes the programs that the tests start, once for all packages. What runs without the race detector waits
// for it, and for its tests to be compiled: Go compiles a package as often as commands need it at the same time.
func (t *tester) build(race bool) (string, error) {
	dir := filepath.Join(t.dir, map[bool]string{false: "plain", true: "race"}[race])
	args := []string{"build", "-buildvcs=false", "-o", dir + "/"}
	if race {
		args = append(args, "-race", notOurs)
	}
	out, err := command(race, "go", append(args, "./cmd/...")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	if !race {
		// Its error is not looked at: the run of the package whose tests do not compile says so.
		_ = command(race, "go", append([]string{"list", "-test", "-export", "-f="}, patterns(t.packages)...)...).Run()
	}
	return dir, nil
}

// patterns names folders for Go.
func patterns(folders []string) (list []string) {
	for _, dir := range folders {
		list = append(list, "./"+dir)
	}
	return list
}

// Write prints a line.
func (t *tester) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return os.Stdout.Write(line)
}

// command prepares a call of Go, or of a program that calls it. Without the race detector nothing is
// compiled by a C compiler, as in make build: no package is compiled for both.
func command(race bool, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if race {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	return cmd
}

// do runs a plan.
func (t *tester) do(p plan) {
	var wait sync.WaitGroup
	for _, target := range p.lint {
		wait.Go(func() { t.make(target...) })
	}
	turn := make(chan struct{}, cmp.Or(p.few, len(p.runs)))
	for _, r := range p.runs {
		if len(r.packages) == 0 {
			continue
		}
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			if err := t.run(r); err != nil {
				t.results.end(test{"go test", r.name}, "fail", err.Error()+"\n")
			}
		})
	}
	wait.Wait()
	for _, target := range p.after {
		t.make(target...)
	}
}

// startsPrograms reports whether the tests of a package start the programs.
func startsPrograms(dir string) bool {
	return strings.HasPrefix(dir, "cmd/") || strings.HasPrefix(dir, "integration")
}

// hang bounds a package that hangs, and go test then prints its stacks. It measures nothing.
const hang = "30m"

// notOurs leaves the race detector out of the database, a C program that was translated: it is large, and its own
// locks are not ours to prove. The Makefile has no tables for a debugger made; nor does this.
const notOurs = "-gcflags=modernc.org/...=-dwarf=false -race=false"

// run runs a part of the tests. Its error says that they could not be run, or that one failed.
func (t *tester) run(r run) error {
	programs := ""
	if !r.race || slices.ContainsFunc(r.packages, startsPrograms) {
		var err error
		if programs, err = t.builds[r.race](); err != nil {
			return err
		}
	}
	with := fmt.Sprint(t.self, " exec ", max(1, r.shards))
	if r.user {
		here, err := filepath.Abs(".ci/as-user")
		if err != nil {
			return err
		}
		with += " " + here
	}
	args := []string{"test", "-json", "-count=1", "-vet=off", "-timeout=" + hang, "-parallel=4",
		fmt.Sprint("-p=", r.atOnce), "-exec=" + with}
	if r.race {
		args = append(args, "-race", notOurs)
	}
	if !r.long {
		args = append(args, "-short")
	}
	if r.only != "" {
		args = append(args, "-run="+r.only)
	}
	if r.skip != "" {
		args = append(args, "-skip="+r.skip)
	}
	args = append(append(args, patterns(r.packages)...), r.args...)
	cmd := command(r.race, "go", args...)
	cmd.Dir, cmd.Stderr = r.dir, t
	cmd.Env = append(cmd.Env, proctest.EnvPrograms+"="+programs)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failed, err := t.results.add(out, r.name, t)
	if end := cmd.Wait(); err == nil && !failed {
		err = end // nothing of what it said explains it
	}
	return err
}

// make runs a target of the Makefile as a test, whose output shows where it fails.
func (t *tester) make(target ...string) {
	cmd := command(false, "make", append([]string{"--no-print-directory"}, target...)...)
	begun, outcome := time.Now(), "pass"
	out, err := cmd.CombinedOutput()
	if err != nil {
		outcome = "fail"
	}
	t.results.end(test{"make", strings.Join(target, " ")}, outcome, string(out))
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Fprintf(t, "%s  %5.0f s %5.0f s of CPU  make %s\n", outcome, time.Since(begun).Seconds(), cpu.Seconds(),
		strings.Join(target, " "))
}

// tell ends with the line that counts.
func (t *tester) tell() (ok bool, err error) {
	t.results.tell(os.Stdout)
	fmt.Printf("The slowest packages and tests:\n%s%s, %s of CPU\n", t.results.slowest(20),
		time.Since(t.begun).Round(time.Second), childrenCPU().Round(time.Second))
	line, ok := t.results.lastLine()
	fmt.Println(line)
	return ok, t.results.save()
}
