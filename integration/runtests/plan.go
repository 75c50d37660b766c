package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/svcfs/svcfs/integration/proctest"
)

// A run is one call of go test.
type run struct {
	name     string
	dir      string   // of the module, "" = this one
	packages []string // folders, the longest first
	race     bool     // with the race detector, also in the programs that the tests start
	user     bool     // as an ordinary user, by .ci/as-user
	long     bool     // also what is long by nature
	only     string   // -run
	skip     string   // -skip
	atOnce   int      // how many packages at the same time
	shards   int      // in how many processes the tests of each package run
	args     []string // of the test binaries
}

// A plan is what runs at the same time, and what runs after it, one after the other: make targets with their variables.
type plan struct {
	runs  []run
	few   int        // how many runs at the same time, in their order; 0 = all
	lint  [][]string // beside the tests
	after [][]string
}

// raced are the folders with goroutines of ours, whose tests .ci/run runs again with the race detector; not the page,
// of which a browser shows more than the detector. make test runs nothing with it: to compile all that a second time
// takes as long as half of the tests, and the tests take three times as long.
var (
	raced    = []string{"sdk", "fs/tree", "cache", "service"}
	notRaced = "service/web"
)

// onPostgres are the tests of service again on PostgreSQL, which .ci/run runs.
const onPostgres = `^TestOnPostgres$`

// ofOneProcess are the tests that the race detector or another engine changes nothing of: the one that measures the
// memory of this process, and those on PostgreSQL, which make test-all runs with it.
const ofOneProcess = `^(TestThreat8MemoryStaysBounded|TestOnPostgres)$`

// ofSpeed are the tests that count what a mount asks for while programs work: with the race detector programs take so
// long that the mount looks at the ledger meanwhile.
const ofSpeed = `^TestRequestsOnALine$`

// withSQLite are the folders whose tests link SQLite. go test -fuzz compiles all that a test links anew, which takes
// minutes with SQLite, so make test-all fuzzes them; their seeds run in make test. A number of inputs, and not a time:
// go test may fail with "context deadline exceeded" when a time ends.
const withSQLite = "./cmd/svcfs ./sdk ./sdk/proof ./service/api ./service/archive ./service/files"

// mounting are the folders that mount.
var mounting = []string{"integration", "cmd/svcfs", "fs"}

// longest are the packages that take long, the longest first: the others end beside them.
var longest = []string{"service", "service/web", "sdk", "fs/tree", "sdk/outbox", "service/testkit", "integration",
	"cmd/svcfs", "fs", "cmd/svcd"}

// ofRoot are the tests of mounts that an ordinary user cannot run: only root can become another user,
// open a file by its handle, or mount a disk to fill. The scripts have lines for root.
const ofRoot = `^(TestM2(OtherUsersCannotEnter|AllowOtherChecksPermissions|AllowOtherWithFilesOfOthers)|TestM4OrdinaryUserCanMount|TestThreat19Mounter.*` +
	`|TestR8.*|TestW10AccessListsOfCopies)$|^TestPrograms$/^Samba`
const scriptsOfRoot = `|^TestScript$/^(demo-faults|doctor-faults|faults|processes)$`

// ofUser are the tests of integration that mount. The others need what is root's on this machine, such as the
// module cache of Go, or mount nothing.
const ofUser = `^Test([NRWAEMO][0-9]|E[A-Z]|Tree|Large|Odd|RefusalsByDesign|Mount|ServiceManager|Hangup|Charges|LargeFile|Thousand|ByteBudgets` +
	`|Programs|ReadingPrograms|Document|Stressors|Canary|Random|AgentAsks)`

// longByNature are the tests that call proctest.Long, and those with a short form in make test.
const longByNature = `^Test(Stressors|FailoverOfPostgreSQL|RollingUpgrade|StoredRelease|ReleasesTalkToEachOther` +
	`|Suites|ServiceKilledAtRandomMoments|MountKilledAtRandomMoments|E7ChangedAddress` +
	`|RemoveAndRestoreBeyondOneRequest|Programs|ModelOnAMount` +
	`|CrashPoints|DocumentBothWays|Threat41AgentHostileNames|Threat42AgentHostileService|Threat31Reach)$`

// ofMinutes are the lies of a list that a script reads for half a minute each; make test-all has them told. The other
// lies of lists run.
const ofMinutes = `^TestThreat42AgentHostileService$/^list:_(huge,_empty_rows|endless)$`

// quick is make test: each test once, in few processes at a time. On two cores, twice as many of them take half as much
// CPU time again.
func quick(packages []string) plan {
	var plain, mounts []string
	for _, dir := range packages {
		if slices.Contains(mounting, dir) {
			mounts = append(mounts, dir)
		} else {
			plain = append(plain, dir)
		}
	}
	p := plan{few: 3, lint: [][]string{{"gofmt"}}, runs: []run{
		{name: "plain", packages: plain, skip: onPostgres, atOnce: 1},
	}}
	if !canBeUser() {
		p.runs = append(p.runs, run{name: "mounts", packages: mounts, atOnce: 1, shards: 2})
	} else {
		if slices.Contains(mounts, "integration") {
			p.runs = append(p.runs,
				run{name: "user", packages: []string{"integration"}, user: true, only: ofUser, skip: ofRoot, atOnce: 1,
					shards: 2},
				run{name: "root", packages: []string{"integration"}, skip: ofUser + "|" + ofRoot, atOnce: 1, shards: 2})
		}
		p.runs = append(p.runs,
			run{name: "user", packages: without(mounts, "integration"), user: true, skip: ofRoot, atOnce: 1, shards: 2},
			run{name: "root", packages: mounts, only: ofRoot + scriptsOfRoot, atOnce: 1})
	}
	p.runs = append(p.runs, run{name: "vectors", dir: "integration/vectors", packages: []string{"..."}, atOnce: 1})
	return p
}

// landing is what .ci/run runs after make test, within 30 minutes together: the race detector, PostgreSQL, what is long
// by nature and kills, the packages, fuzzing and the benchmark so far that they work, vet of all modules, staticcheck
// and gosec. It is chosen so that each test that fs/SEMANTICS.md and SECURITY.md name runs; what it leaves to
// make test-all runs there on another engine, as another user, with the race detector, longer or with other seeds.
func landing(packages []string) plan {
	runs := append([]run{{name: "long", packages: []string{"integration", "service", "fs", "cmd/svcd"}, long: true,
		only: longByNature, skip: ofMinutes, atOnce: 1}}, withRace(packages)...)
	return plan{
		few: 3, // some wait for most of their time
		runs: append(runs,
			run{name: "PostgreSQL", packages: []string{"service"}, only: onPostgres, atOnce: 1},
			run{name: "packages", dir: "packaging", packages: []string{"..."}, atOnce: 1}),
		after: [][]string{
			{"lint"},
			{"gosec"},
			{"fuzz", "FUZZTIME=1000x", "FUZZ_SKIP=" + withSQLite},
			{"vulnerabilities"},
			{"demo", "ONCE=1"},
			{"bench-works"},
		},
	}
}

// withRace runs what of the packages has goroutines of ours with the race detector: the two that take longest by
// themselves, so that a second processor has something to do meanwhile.
func withRace(packages []string) (runs []run) {
	longest := [][]string{{"service"}, {"sdk"}}
	others := slices.DeleteFunc(slices.Clone(packages), func(dir string) bool {
		return !isRaced(dir) || slices.ContainsFunc(longest, func(l []string) bool { return l[0] == dir })
	})
	for _, list := range append(longest, others) {
		runs = append(runs, run{name: "race", packages: list, race: true, skip: ofOneProcess, atOnce: 1})
	}
	return runs
}

// rest is make test-all: what make test leaves out, and the same on the other engine, as root and with the race
// detector.
func rest(packages []string) plan {
	var mounts []string
	for _, dir := range packages {
		if slices.Contains(mounting, dir) {
			mounts = append(mounts, dir)
		}
	}
	p := landing(packages)
	p.few = 2 // more of them would run out of time
	p.runs = append(withRace(packages),
		run{name: "race", packages: []string{"service"}, race: true, only: onPostgres, atOnce: 1},
		run{name: "PostgreSQL", packages: []string{"service", "service/web"}, long: true,
			args: []string{"-engine=postgres"}, atOnce: 1},
		run{name: "root", packages: mounts, long: true, atOnce: 2, shards: 3}, // each ends within the bound of a hang
		run{name: "race", packages: []string{"integration"}, race: true, long: true, skip: ofSpeed, atOnce: 1,
			shards: 4},
		run{name: "packages", dir: "packaging", packages: []string{"..."}, atOnce: 1})
	if canBeUser() {
		p.runs = append(p.runs, run{name: "user", packages: []string{"integration"}, user: true, long: true,
			only: longByNature, atOnce: 1})
	}
	p.after = append(p.after, []string{"suites"}, []string{"soak", "KILLS=50", "LOSSES=200", "ROUNDS=5", "STEPS=5000"},
		[]string{"fuzz", "FUZZTIME=5000x"})
	return p
}

// canBeUser reports whether this is root, who can become an ordinary user that mounts.
func canBeUser() bool {
	if os.Geteuid() != 0 {
		return false
	}
	return !slices.ContainsFunc([]string{"fusermount3", "setpriv", "mount", "apart"},
		func(name string) bool { return proctest.Lacks(name) != "" })
}

// ours returns the folders of the packages that have tests, or those that patterns match, the longest first.
func ours(patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	args := append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, patterns...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, path := range strings.Fields(string(out)) {
		list = append(list, strings.TrimPrefix(path, module))
	}
	place := func(dir string) int {
		if i := slices.Index(longest, dir); i >= 0 {
			return i
		}
		return len(longest)
	}
	slices.SortStableFunc(list, func(a, b string) int { return place(a) - place(b) })
	return list, nil
}

func isRaced(dir string) bool {
	return dir != notRaced && slices.ContainsFunc(raced,
		func(r string) bool { return dir == r || strings.HasPrefix(dir, r+"/") })
}

func without(list []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == name })
}
