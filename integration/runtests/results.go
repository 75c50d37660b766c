package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// An event is a line of go test -json, see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of a build
	Elapsed                       float64
}

type test struct{ Pkg, Name string } // Name "" = the package itself

// results are what the tests of all runs said. A test that one run leaves out and another runs was run.
type results struct {
	CPU time.Duration // of make test

	mu      sync.Mutex
	outcome map[test]string // "pass", "fail", "skip"
	output  map[test]string
	build   strings.Builder // what compilers said
	took    map[test]time.Duration
	usage   map[string]usage
	before  map[string]usage // of make test, in a later call
}

// usage is what the tests of a package took.
type usage struct{ Elapsed, CPU time.Duration }

// envResults names a file that carries the results of make test to what .ci/run runs after it.
const envResults = "SVCFS_TEST_RESULTS"

// saved is the form of that file.
type saved struct {
	CPU   time.Duration
	Usage map[string]usage
	Tests []savedTest
}

type savedTest struct {
	test
	Outcome, Output string
}

func (r *results) load() error {
	path := os.Getenv(envResults)
	if path == "" {
		return nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var s saved
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return fmt.Errorf("read the results of before: %w", err)
	}
	r.CPU, r.usage, r.before = s.CPU, s.Usage, maps.Clone(s.Usage)
	for _, t := range s.Tests {
		r.outcome[t.test], r.output[t.test] = t.Outcome, t.Output
	}
	return nil
}

func (r *results) save() error {
	path := os.Getenv(envResults)
	if path == "" {
		return nil
	}
	s := saved{CPU: r.CPU, Usage: r.usage}
	for t, outcome := range r.outcome {
		s.Tests = append(s.Tests, savedTest{t, outcome, r.output[t]})
	}
	raw, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep the results: %w", err)
	}
	return nil
}

// quickUsage is what the tests of make test took.
func (r *results) quickUsage() map[string]usage { return r.before }

func newResults() *results {
	return &results{outcome: map[test]string{}, output: map[test]string{}, took: map[test]time.Duration{},
		usage: map[string]usage{}}
}

// rank orders outcomes: the higher one of two runs counts.
var rank = map[string]int{"skip": 1, "pass": 2, "fail": 3}

// add reads what go test -json prints, and reports each package that ends, and whether a test or a package failed.
func (r *results) add(from io.Reader, name string, report io.Writer) (failed bool, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 16<<20)
	output, spent := map[test]*strings.Builder{}, map[string]time.Duration{}
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil { // go itself speaks
			fmt.Fprintln(report, lines.Text())
			continue
		}
		t := test{strings.TrimPrefix(e.Package, module), e.Test}
		switch e.Action {
		case "output":
			if cpu, is := cpuOf(e.Output); is {
				spent[t.Pkg] = cpu
				continue
			}
			if output[t] == nil {
				output[t] = &strings.Builder{}
			}
			output[t].WriteString(e.Output)
		case "build-output":
			r.mu.Lock()
			r.build.WriteString(e.Output)
			r.mu.Unlock()
		case "pass", "fail", "skip":
			said := ""
			if b := output[t]; b != nil {
				said = b.String()
			}
			delete(output, t)
			failed = failed || e.Action == "fail"
			took := time.Duration(e.Elapsed * float64(time.Second))
			r.end(t, e.Action, said)
			r.mu.Lock()
			r.took[t] = max(r.took[t], took)
			r.mu.Unlock()
			if t.Name == "" && (e.Action != "skip" || said == "") {
				r.spent(t.Pkg, usage{took, spent[t.Pkg]})
				fmt.Fprintf(report, "%s  %5.0f s %5.0f s of CPU  %s (%s)\n", e.Action, took.Seconds(),
					spent[t.Pkg].Seconds(), t.Pkg, name)
			}
		}
	}
	return failed, lines.Err()
}

func (r *results) end(t test, action, said string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rank[action] < rank[r.outcome[t]] {
		return
	}
	r.outcome[t] = action
	if action == "pass" {
		said = ""
	}
	r.output[t] = said
}

func (r *results) spent(pkg string, more usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.usage[pkg]
	r.usage[pkg] = usage{u.Elapsed + more.Elapsed, u.CPU + more.CPU}
}

// with returns the tests with an outcome, sorted.
func (r *results) with(outcome string) (list []test) {
	for t, o := range r.outcome {
		if t.Name != "" && o == outcome {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b test) int { return strings.Compare(a.Pkg+" "+a.Name, b.Pkg+" "+b.Name) })
	return list
}

// died are the packages that failed without a test that did.
func (r *results) died() (list []string) {
	failed := map[string]bool{}
	for _, t := range r.with("fail") {
		failed[t.Pkg] = true
	}
	for t, o := range r.outcome {
		if t.Name == "" && o == "fail" && !failed[t.Pkg] {
			list = append(list, t.Pkg)
		}
	}
	slices.Sort(list)
	return list
}

// tell writes the output of what failed, the end of it where it is long.
func (r *results) tell(to io.Writer) {
	const most = 80
	fmt.Fprint(to, r.build.String())
	failed := r.with("fail")
	for _, pkg := range r.died() {
		failed = append(failed, test{pkg, ""})
	}
	for _, t := range failed {
		fmt.Fprintf(to, "--- %s %s\n", t.Pkg, t.Name)
		lines := strings.SplitAfter(r.output[t], "\n")
		if t.Name == "" { // a panic, or the stacks of what hangs: the beginning says why
			lines = lines[:min(len(lines), 10*most)]
		} else {
			lines = lines[max(0, len(lines)-most):]
		}
		fmt.Fprint(to, strings.Join(lines, ""))
	}
}

var (
	leftOut      = regexp.MustCompile(regexp.QuoteMeta(proctest.LeftOut) + `(.*)`)
	namesPackage = regexp.MustCompile(`apt-get install ([a-z0-9][a-z0-9.+-]*)`)
)

// missed says what the machine lacks for the tests that were left out: how many there are, the packages to
// install, and how many tests each other reason left out. unexplained are skipped tests without such a reason.
func (r *results) missed() (count int, packages []string, reasons map[string]int, unexplained []test) {
	reasons = map[string]int{}
	install := map[string]bool{}
	for _, t := range r.with("skip") {
		found := leftOut.FindStringSubmatch(r.output[t])
		if found == nil {
			unexplained = append(unexplained, t)
			continue
		}
		count++
		for why := range strings.SplitSeq(found[1], "; ") {
			if named := namesPackage.FindStringSubmatch(why); named != nil {
				install[named[1]] = true
			} else {
				reasons[why]++
			}
		}
	}
	return count, slices.Sorted(maps.Keys(install)), reasons, unexplained
}

// lastLine is the line that everything ends with, and whether all is well.
func (r *results) lastLine() (line string, ok bool) {
	failed := len(r.with("fail")) + len(r.died())
	line = fmt.Sprintf("%d passed, %d failed", len(r.with("pass")), failed)
	count, packages, reasons, unexplained := r.missed()
	if count += len(unexplained); count == 0 {
		return line, failed == 0
	}
	var why []string
	if len(packages) > 0 {
		why = append(why, "apt-get install "+strings.Join(packages, " "))
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		why = append(why, fmt.Sprintf("%s: %d", reason, reasons[reason]))
	}
	if len(unexplained) > 0 {
		why = append(why, fmt.Sprintf("no reason: %d", len(unexplained)))
	}
	return fmt.Sprintf("%s, %d left out (%s)", line, count, strings.Join(why, "; ")), failed == 0
}

// slowest is a table of the packages that took longest, and of the tests.
func (r *results) slowest(most int) string {
	var b strings.Builder
	byTime := slices.SortedFunc(maps.Keys(r.usage),
		func(a, b string) int { return int(r.usage[b].Elapsed - r.usage[a].Elapsed) })
	for _, pkg := range byTime[:min(most, len(byTime))] {
		fmt.Fprintf(&b, "%6.0f s %6.0f s of CPU  %s\n", r.usage[pkg].Elapsed.Seconds(), r.usage[pkg].CPU.Seconds(), pkg)
	}
	tests := slices.DeleteFunc(slices.Collect(maps.Keys(r.took)),
		func(t test) bool { return t.Name == "" || strings.Contains(t.Name, "/") })
	slices.SortFunc(tests, func(a, b test) int { return int(r.took[b] - r.took[a]) })
	for _, t := range tests[:min(most, len(tests))] {
		fmt.Fprintf(&b, "%6.0f s  %s %s\n", r.took[t].Seconds(), t.Pkg, t.Name)
	}
	return b.String()
}
