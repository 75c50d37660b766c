package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// What can come of a test of a suite.
const (
	suitePasses  = "passes"
	suiteFails   = "fails"
	suiteNotRun  = "not-run"
	suiteTooLong = "too-long"
	suiteEither  = "passes or fails" // it hangs on chance
)

// The suites are others' work, under others' licences: they run from where the user has
// them, and the list of what is expected holds names, numbers and causes only. See SUITES.md.
func TestSuitesOfOthers(t *testing.T) {
	runs := map[string]func(*testing.T, string, suiteResults) suiteResults{"PJDFSTEST": runPjdfstest,
		"XFSTESTS": runXfstests}
	list := readSuiteList(t)
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		dir := os.Getenv(name)
		if dir == "" {
			continue // make suites names it
		}
		t.Run(strings.ToLower(name), func(t *testing.T) {
			proctest.Need(t, "root")
			want := list.results[strings.ToLower(name)]
			got := runs[name](t, dir, want)
			t.Logf("by folder and file:\n%s", got.figures())
			if diff := want.differences(got); len(diff) > 0 {
				t.Errorf("not as testdata/suites lists it; change the list, and SUITES.md, if this is right:\n%s",
					strings.Join(diff, "\n"))
			}
		})
	}
}

// suiteResults are what came of tests, by name. A test that has several checks has the name
// FILE:NUMBER for each.
type suiteResults map[string]string

// suiteList is testdata/suites.
type suiteList struct {
	results map[string]suiteResults // by suite
	causes  map[string]bool
}

// readSuiteList reads lines of three forms, beside comments: "suite NAME"; "FILE
// NUMBERS CAUSE", the checks of a file that fail, or with ~ before the numbers may fail; "TEST
// RESULT [CAUSE]".
func readSuiteList(t *testing.T) suiteList {
	t.Helper()
	list := suiteList{results: map[string]suiteResults{}, causes: map[string]bool{}}
	var suite suiteResults
	for number, line := range strings.Split(string(read(t, "testdata/suites")), "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(line, "#"):
		case f[0] == "suite" && len(f) == 2:
			suite = suiteResults{}
			list.results[f[1]] = suite
		case len(f) == 2 && f[1] == suitePasses:
			suite[f[0]] = f[1]
		case len(f) == 3 && slices.Contains([]string{suiteFails, suiteNotRun, suiteTooLong}, f[1]):
			suite[f[0]], list.causes[f[2]] = f[1], true
		case len(f) == 3:
			list.causes[f[2]] = true
			numbers, isChance := strings.CutPrefix(f[1], "~")
			for _, n := range numbersOf(t, numbers) {
				suite[fmt.Sprintf("%s:%d", f[0], n)] = map[bool]string{true: suiteEither, false: suiteFails}[isChance]
			}
		default:
			t.Fatalf("testdata/suites, line %d: %q", number+1, line)
		}
	}
	return list
}

// numbersOf reads "1-3,7".
func numbersOf(t *testing.T, text string) (list []int) {
	t.Helper()
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 1 || last < first {
			t.Fatalf("testdata/suites: %q is no list of numbers", text)
		}
		for n := first; n <= last; n++ {
			list = append(list, n)
		}
	}
	return list
}

// differences lists what is not as expected, in both directions. A check that passes is
// not listed.
func (want suiteResults) differences(got suiteResults) (list []string) {
	for name, is := range got {
		if expected, known := want[name]; expected != suiteEither && is != expected && (known || is != suitePasses) {
			list = append(list, fmt.Sprintf("%s %s, listed: %s", name, is, orNothing(expected)))
		}
	}
	for name, expected := range want {
		if _, ran := got[name]; !ran {
			list = append(list, fmt.Sprintf("%s did not run, listed: %s", name, expected))
		}
	}
	slices.Sort(list)
	return list
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// figures counts results by folder, one line each.
func (r suiteResults) figures() string {
	counts := map[string]map[string]int{}
	for name, is := range r {
		folder, _, _ := strings.Cut(name, "/")
		for _, row := range []string{folder, "~ all"} {
			if counts[row] == nil {
				counts[row] = map[string]int{}
			}
			counts[row][is]++
		}
	}
	var out strings.Builder
	for _, row := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&out, "%-16s %5d pass %5d fail %4d not run %4d too long\n", row, counts[row][suitePasses],
			counts[row][suiteFails], counts[row][suiteNotRun], counts[row][suiteTooLong])
	}
	return out.String()
}

// The list names no cause that SUITES.md does not explain, and SUITES.md explains no other.
func TestSuitesListNamesItsCauses(t *testing.T) {
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| "+
		"`([a-z0-9-]+)` \\|").FindAllStringSubmatch(string(read(t, "SUITES.md")), -1) {
		explained[row[1]] = true
	}
	if used := readSuiteList(t).causes; !maps.Equal(used, explained) {
		t.Errorf("causes in testdata/suites: %v\nin SUITES.md: %v", slices.Sorted(maps.Keys(used)),
			slices.Sorted(maps.Keys(explained)))
	}
}

func TestSuitesDifferBothWays(t *testing.T) {
	want := suiteResults{"a:1": suiteFails, "a:2": suiteFails, "a:4": suiteEither, "b": suitePasses, "c": suiteNotRun}
	for name, c := range map[string]struct {
		got  suiteResults
		want string
	}{
		"as listed": {suiteResults{"a:1": suiteFails, "a:2": suiteFails, "a:4": suitePasses, "a:3": suitePasses,
			"b": suitePasses, "c": suiteNotRun}, ""},
		"mended": {suiteResults{"a:1": suitePasses, "a:2": suiteFails, "a:4": suitePasses, "b": suitePasses,
			"c": suiteNotRun}, "a:1 passes, listed: fails"},
		"broken": {suiteResults{"a:1": suiteFails, "a:2": suiteFails, "a:4": suitePasses, "a:3": suiteFails,
			"b": suitePasses, "c": suiteNotRun}, "a:3 fails, listed: nothing"},
		"left out": {suiteResults{"a:1": suiteFails, "a:4": suiteFails, "b": suitePasses, "c": suiteNotRun},
			"a:2 did not run, listed: fails"},
		"runs by now": {suiteResults{"a:1": suiteFails, "a:2": suiteFails, "a:4": suitePasses, "b": suitePasses,
			"c": suitePasses}, "c passes, listed: not-run"},
		"does not run": {suiteResults{"a:1": suiteFails, "a:2": suiteFails, "a:4": suitePasses, "b": suiteNotRun,
			"c": suiteNotRun}, "b not-run, listed: passes"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(want.differences(c.got), "\n"); got != c.want {
				t.Errorf("differences:\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// openToAll lets other users reach a folder of a test.
func openToAll(t *testing.T, dir string) {
	t.Helper()
	for ; dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		ok(t, os.Chmod(dir, 0o755))
	}
}

// suiteMountFlags: suites become other users, who must be let in.
func suiteMountFlags() []string { return []string{"--allow-other", "--umask", "022"} }

// runPjdfstest runs every file of a pjdfstest that was built in dir.
func runPjdfstest(t *testing.T, dir string, _ suiteResults) suiteResults {
	const limit = 10 * time.Minute // of one file
	files, err := filepath.Glob(filepath.Join(dir, "tests", "*", "*.t"))
	if err != nil || len(files) == 0 {
		t.Fatalf("PJDFSTEST=%s: no tests/*/*.t there, %v", dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pjdfstest")); err != nil {
		t.Fatalf("PJDFSTEST=%s: build it there first, see its README: %v", dir, err)
	}
	w := newWorld(t)
	alice := w.account("alice", "1000000")
	alice.must("group", "create", "team")
	openToAll(t, w.dir)
	m := alice.mount("m", suiteMountFlags()...)
	results := suiteResults{}
	line := regexp.MustCompile(`(?m)^(not )?ok (\d+)(.*# TODO)?`) // what is to do fails on Linux, too
	for _, file := range files {
		out, err := suiteCommand(t, limit, m.path("team"), nil, "bash", file)
		plan := regexp.MustCompile(`(?m)^1\.\.(\d+)$`).FindStringSubmatch(out)
		if plan == nil {
			t.Errorf("%s does not say how many checks it makes; %v\n%s", file, err, out)
			continue
		}
		name := filepath.Base(filepath.Dir(file)) + "/" + strings.TrimSuffix(filepath.Base(file), ".t")
		for _, n := range numbersOf(t, "1-"+plan[1]) {
			results[fmt.Sprintf("%s:%d", name, n)] = suiteFails // a file may give up
		}
		for _, check := range line.FindAllStringSubmatch(out, -1) {
			results[name+":"+check[2]] = map[bool]string{true: suiteFails, false: suitePasses}[check[1] != "" &&
				check[3] == ""]
		}
	}
	return results
}

// suiteCommand runs a program of a suite, and returns what it says.
func suiteCommand(t *testing.T, limit time.Duration, dir string, env []string, name string, args ...string) (string,
	error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), env...), 5*time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return string(out), err
}

// xfsScript is what one test of xfstests runs in, a mount namespace of its own: there mount(8)
// finds svcfs as the helper of the type fuse, and the users exist whom the tests become. $1 is
// the test. The mounts end with it, and the programs that serve them are waited for.
const xfsScript = `
exec 2>&1
mount --bind "$WORK/helper" /sbin/mount.fuse && mount --bind "$WORK/passwd" /etc/passwd && mount --bind "$WORK/group" /etc/group &&
	mount --bind "$WORK/shadow" /etc/shadow || exit 99
timeout -k 5 "$LIMIT" ./check "$1"
status=$?
[ $status = 0 ] || tail -n 5 "$WORK"/*.log
umount -l "$WORK/mnt-test" "$WORK/mnt-scratch" 2>/dev/null
for pid in $(cat "$WORK"/*.pid); do while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done; done
exit $status
`

// xfsHelper mounts one group: mount(8) calls it with a source, a folder and options. The
// mount of all groups is left with the last reference to the group's folder.
const xfsHelper = `#!/bin/bash
group=${1#svcfs:} dir=$2 flags=()
case ",${*:3}," in *[,\ ]ro,*) flags=(-o ro);; esac
[ ! -f "$WORK/$group.pid" ] || while kill -0 "$(cat "$WORK/$group.pid")" 2>/dev/null; do sleep 0.1; done
mkdir -p "$WORK/all-$group"
: >"$WORK/$group.out"
env $SERVICE "$SVCFS" mount "$WORK/all-$group" --volume-name "$group" $FLAGS "${flags[@]}" >"$WORK/$group.out" 2>>"$WORK/$group.log" </dev/null &
echo $! >"$WORK/$group.pid"
until grep -q ^mounted "$WORK/$group.out"; do kill -0 $! || exit 32; sleep 0.05; done
mount --bind "$WORK/all-$group/$group" "$dir" && umount -l "$WORK/all-$group"
`

// runXfstests runs the tests of want in an xfstests that was built in dir.
func runXfstests(t *testing.T, dir string, want suiteResults) suiteResults {
	const limit = 2 * time.Minute // of one test
	if _, err := os.Stat(filepath.Join(dir, "ltp", "fsx")); err != nil {
		t.Fatalf("XFSTESTS=%s: build it there first, see its README: %v", dir, err)
	}
	for _, tool := range []string{"unshare", "xfs_io", "getfattr", "getfacl", "/sbin/mount.fuse"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("XFSTESTS needs %s; the packages are util-linux, xfsprogs, attr, acl and fuse3", tool)
		}
	}
	w := newWorld(t)
	alice := w.account("alice", "1000000")
	openToAll(t, w.dir)
	for _, group := range []string{"test", "scratch"} {
		alice.must("group", "create", group)
		w.mkdir("mnt-" + group)
	}
	// The suite knows the type fuse, and df tells more.
	write(t, filepath.Join(w.mkdir("bin"), "df"),
		[]byte("#!/bin/sh\n/bin/df \"$@\" | sed 's/fuse\\.svcfs/fuse      /'\n"))
	ok(t, os.Chmod(filepath.Join(w.dir, "bin", "df"), 0o700))
	write(t, filepath.Join(w.dir, "helper"), []byte(xfsHelper))
	ok(t, os.Chmod(filepath.Join(w.dir, "helper"), 0o700))
	users, groups, shadow := string(read(t, "/etc/passwd")), string(read(t, "/etc/group")), "root:*:19000::::::\n"
	for i, name := range []string{"fsgqa", "fsgqa2", "123456-fsgqa"} {
		users += fmt.Sprintf("%s:x:%d:%d::/tmp:/bin/bash\n", name, 42420+i, 42420+i)
		groups += fmt.Sprintf("%s:x:%d:\n", name, 42420+i)
		shadow += name + ":*:19000::::::\n"
	}
	write(t, filepath.Join(w.dir, "passwd"), []byte(users))
	write(t, filepath.Join(w.dir, "group"), []byte(groups))
	write(t, filepath.Join(w.dir, "shadow"), []byte(shadow))
	for _, name := range []string{"passwd", "group"} {
		ok(t, os.Chmod(filepath.Join(w.dir, name), 0o644))
	}
	write(t, filepath.Join(w.dir, "local.config"),
		fmt.Appendf(nil, "export FSTYP=fuse FUSE_SUBTYP=.svcfs TEST_DEV=svcfs:test SCRATCH_DEV=svcfs:scratch\n"+
			"export TEST_DIR=%[1]s/mnt-test SCRATCH_MNT=%[1]s/mnt-scratch RESULT_BASE=%[1]s/results\n", w.dir))
	env := []string{"WORK=" + w.dir, "LIMIT=" + fmt.Sprint(limit.Seconds()),
		"HOST_OPTIONS=" + filepath.Join(w.dir, "local.config"),
		"SVCFS=" + filepath.Join(w.bin, "svcfs"), "PATH=" + filepath.Join(w.dir, "bin") + ":" + os.Getenv("PATH"),
		"FLAGS=" + strings.Join(suiteMountFlags(), " "),
		"SERVICE=SVC_URL=" + w.url + " SVC_ACCOUNT_ID=" + alice.id + " SVC_API_KEY_FILE=" + alice.keyFile + " HOME=" +
			filepath.Join(w.dir, "home")}
	results := suiteResults{}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		out, err := suiteCommand(t, 2*limit, dir, env, "unshare", "-m", "--propagation", "private", "bash", "-c",
			xfsScript, "xfs", name)
		results[name] = xfsResult(out, err)
		t.Logf("%s %s%s", name, results[name], map[bool]string{true: "\n" + out}[results[name] != want[name]])
	}
	return results
}

// xfsResult reads what check says of one test.
func xfsResult(out string, err error) string {
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && (exit.ExitCode() == 124 || exit.ExitCode() == 137) ||
		errors.Is(err, context.DeadlineExceeded):
		return suiteTooLong
	case err != nil:
		return suiteFails
	case strings.Contains(out, "[not run]"):
		return suiteNotRun
	case strings.Contains(out, "Passed all 1 tests"):
		return suitePasses
	}
	return suiteFails
}
