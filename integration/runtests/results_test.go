package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func added(t *testing.T, lines ...string) *results {
	t.Helper()
	r := newResults()
	for _, run := range lines {
		if _, err := r.add(strings.NewReader(run), "run", io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

const (
	asUser = `{"Action":"output","Package":"github.com/svcfs/svcfs/fs","Test":"TestRoot","Output":"    x.go:1: left out: only root can\n"}
{"Action":"skip","Package":"github.com/svcfs/svcfs/fs","Test":"TestRoot"}
{"Action":"output","Package":"github.com/svcfs/svcfs/fs","Test":"TestScript/json","Output":"left out: jq is missing: apt-get install jq\n"}
{"Action":"skip","Package":"github.com/svcfs/svcfs/fs","Test":"TestScript/json"}
{"Action":"pass","Package":"github.com/svcfs/svcfs/fs","Test":"TestScript"}
{"Action":"output","Package":"github.com/svcfs/svcfs/fs","Output":"svcfs-cpu-time 1.5s\n"}
{"Action":"pass","Package":"github.com/svcfs/svcfs/fs","Elapsed":2}
`
	asRoot = `{"Action":"pass","Package":"github.com/svcfs/svcfs/fs","Test":"TestRoot"}
{"Action":"output","Package":"github.com/svcfs/svcfs/fs","Output":"svcfs-cpu-time 500ms\n"}
{"Action":"pass","Package":"github.com/svcfs/svcfs/fs","Elapsed":1}
`
	failing = `{"Action":"output","Package":"github.com/svcfs/svcfs/sdk","Test":"TestBad","Output":"it is bad\n"}
{"Action":"fail","Package":"github.com/svcfs/svcfs/sdk","Test":"TestBad"}
{"Action":"fail","Package":"github.com/svcfs/svcfs/sdk","Elapsed":1}
{"Action":"build-output","ImportPath":"x","Output":"cannot compile\n"}
{"Action":"fail","Package":"github.com/svcfs/svcfs/format","Elapsed":0}
`
)

func TestLastLine(t *testing.T) {
	for _, tc := range []struct {
		runs []string
		want string
		ok   bool
	}{
		{[]string{asRoot}, "1 passed, 0 failed", true},
		{[]string{asUser}, "1 passed, 0 failed, 2 left out (apt-get install jq; only root can: 1)", true},
		{[]string{asUser, asRoot}, "2 passed, 0 failed, 1 left out (apt-get install jq)", true},
		{[]string{asRoot, asUser}, "2 passed, 0 failed, 1 left out (apt-get install jq)", true},
		{[]string{asRoot, failing}, "1 passed, 2 failed", false},
	} {
		if line, ok := added(t, tc.runs...).lastLine(); line != tc.want || ok != tc.ok {
			t.Errorf("%q, %v, want %q", line, ok, tc.want)
		}
	}
}

func TestFailuresAreTold(t *testing.T) {
	var b strings.Builder
	added(t, asUser, failing).tell(&b)
	for _, want := range []string{"--- sdk TestBad\nit is bad\n", "cannot compile\n", "--- format \n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

// What make test found goes on in what .ci/run runs after it.
func TestResultsAreKept(t *testing.T) {
	t.Setenv(envResults, filepath.Join(t.TempDir(), "results"))
	first := added(t, asUser)
	first.CPU = time.Minute
	next := newResults()
	if err := first.save(); err != nil {
		t.Fatal(err)
	}
	if err := next.load(); err != nil {
		t.Fatal(err)
	}
	if _, err := next.add(strings.NewReader(asRoot), "root", io.Discard); err != nil {
		t.Fatal(err)
	}
	if line, _ := next.lastLine(); line != "2 passed, 0 failed, 1 left out (apt-get install jq)" {
		t.Error(line)
	}
	if u := next.usage["fs"]; next.CPU != time.Minute || u.CPU != 2*time.Second || u.Elapsed != 3*time.Second {
		t.Errorf("%v, %v", next.CPU, u)
	}
}

// A test that a document names was run, or this machine lacks something for it.
func TestProves(t *testing.T) {
	dir := t.TempDir()
	for text, proven := range map[string]bool{"`TestRoot` and `TestScript`": true, "`TestAbsent`": false} {
		path := filepath.Join(dir, "page.md")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := added(t, asUser).proves(path); (err == nil) != proven {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Each package is in make test, and what has goroutines of ours is in .ci/run with the race detector.
func TestQuickRunsEachPackage(t *testing.T) {
	packages := []string{"sdk", "sdk/wire", "service", "service/web", "fs", "fs/tree", "cmd/svcfs", "integration",
		"format"}
	in := map[string]bool{}
	for _, r := range quick(packages).runs {
		for _, dir := range r.packages {
			in[dir] = true
		}
	}
	for _, dir := range packages {
		if !in[dir] {
			t.Errorf("%s does not run", dir)
		}
	}
	var raced []string
	for _, r := range withRace(packages) {
		if raced = append(raced, r.packages...); !r.race {
			t.Errorf("%q run without the race detector", r.packages)
		}
	}
	if want := []string{"service", "sdk", "sdk/wire", "fs/tree"}; !slices.Equal(raced, want) {
		t.Errorf("with the race detector run %q, not %q", raced, want)
	}
}
