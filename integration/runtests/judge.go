package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// What make test takes of CPU time from an empty build cache, and what its tests alone take, each divided by that of
// compiling net/http in the same run: eight minutes on two cores where net/http takes 38 s. Half as much again fails:
// somebody pays it at each change.
const (
	figureOfMakeTest = 25.0
	figureOfTests    = 16.0
	tooMuch          = 1.5
)

// judge adds what holds of make test and of what .ci/run ran after it, as tests.
func (t *tester) judge() {
	t.check("CPU time", t.checkCPU)
	t.check("nothing is left out", t.checkLeftOut)
	t.check("statements and threats are proven",
		func() error { return t.results.proves("fs/SEMANTICS.md", "SECURITY.md") })
	t.check("no mount is left", checkMounts)
}

func (t *tester) check(name string, check func() error) {
	if err := check(); err != nil {
		t.results.end(test{".ci/run", name}, "fail", err.Error()+"\n")
		return
	}
	t.results.end(test{".ci/run", name}, "pass", "")
}

func (t *tester) checkCPU() error {
	dir, err := os.MkdirTemp("", "svcfs-compile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := command(false, "go", "build", "-o", os.DevNull, "net/http")
	cmd.Env = append(cmd.Env, "GOCACHE="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile net/http: %w\n%s", err, out)
	}
	compile := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	var tests time.Duration
	for _, u := range t.results.quickUsage() {
		tests += u.CPU
	}
	all, alone := t.results.CPU.Seconds()/compile.Seconds(), tests.Seconds()/compile.Seconds()
	fmt.Fprintf(t, "CPU time: make test %.0f s, its tests %.0f s, net/http compiled %.0f s: %.1f and %.1f times "+
		"(written: %.1f and %.1f)\n",
		t.results.CPU.Seconds(), tests.Seconds(), compile.Seconds(), all, alone, figureOfMakeTest, figureOfTests)
	if all > tooMuch*figureOfMakeTest || alone > tooMuch*figureOfTests {
		return fmt.Errorf("make test takes %.1f, its tests %.1f times the CPU time of compiling net/http; "+
			"integration/runtests/judge.go has %.1f and %.1f", all, alone, figureOfMakeTest, figureOfTests)
	}
	return nil
}

// checkLeftOut wants as many skipped tests as EXPECTED_SKIPS says, 0 where all is installed: a test that quietly
// stops running proves nothing.
func (t *tester) checkLeftOut() error {
	expected, _ := strconv.Atoi(os.Getenv("EXPECTED_SKIPS")) // "" = 0
	skipped := t.results.with("skip")
	if len(skipped) == expected {
		return nil
	}
	var b strings.Builder
	for _, s := range skipped {
		fmt.Fprintf(&b, "%s %s: %s\n", s.Pkg, s.Name, strings.TrimSpace(t.results.output[s]))
	}
	return fmt.Errorf("%d tests are left out, and %d expected:\n%s", len(skipped), expected, b.String())
}

// namedTest is a test that a document names.
var namedTest = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// proves wants that each test which the documents name was run, or left out for what this machine lacks.
func (r *results) proves(documents ...string) error {
	ran := map[string]bool{}
	for t := range r.outcome {
		ran[t.Name] = true
	}
	for _, t := range r.with("skip") {
		if strings.Contains(r.output[t], "long by nature") {
			delete(ran, t.Name)
		}
	}
	var absent []string
	for _, path := range documents {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, found := range namedTest.FindAllStringSubmatch(string(text), -1) {
			if !ran[found[1]] {
				absent = append(absent, path+" names "+found[1])
			}
		}
	}
	if len(absent) > 0 {
		return fmt.Errorf("neither make test nor the rest of .ci/run ran these:\n%s", strings.Join(absent, "\n"))
	}
	return nil
}

// checkMounts wants that no test left a mount.
func checkMounts() error {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	before := os.Getenv("MOUNTS_BEFORE")
	var left []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 2 && strings.HasPrefix(f[2], "fuse.svcfs") && !strings.Contains(before, f[1]) {
			left = append(left, f[1])
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("still mounted: %s", strings.Join(left, " "))
	}
	return nil
}
