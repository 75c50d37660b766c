package integration

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// stressor is what a stressor of stress-ng meets on a mount.
type stressor struct {
	name    string
	options string
	says    string   // instead of passing
	refused []string // "operation class" of the lines it leaves in errors, without repetition
	may     string   // such a line that hangs on chance
	why     string
}

// stressRefusals are the stressors that are refused something, each with the
// reason. A refusal that no longer happens fails the test: the list may only
// shrink.
func stressRefusals() map[string]stressor {
	return map[string]stressor{
		"dentry":  {options: "--dentries 256", why: "W5: as dirmany"},
		"dirdeep": {refused: []string{"link refused by design"}, why: "N5: an uploaded file has one name"},
		"dirmany": {options: "--dirmany-ops 300",
			why: "W5: empty files are uploaded after two seconds, so that removing thousands takes minutes"},
		"dup": {refused: []string{"mknod refused by design"}, why: "N5: no pipes"},
		"fanotify": {may: "open not found",
			why: "E: the kernel opens files for its listeners that are deleted by then"},
		"fiemap":   {says: "FS_IOC_FIEMAP not supported", why: "content lies on no disk"},
		"filename": {refused: []string{"create invalid"}, why: "N3: names are text"},
		"fsize": {refused: []string{"write too large"}, may: "close too large",
			why: "W12: it writes at the end of the largest file there can be, and close repeats the last refusal"},
		"iomix": {options: "--iomix-bytes 64m", why: "W12: else it writes beyond the largest file"},
		"link": {says: "link calls not allowed", refused: []string{"link refused by design"},
			why: "N5: an uploaded file has one name"},
		"mknod": {refused: []string{"mknod refused by design"}, why: "N5: no devices, pipes or sockets"},
		"xattr": {refused: []string{"set attribute storage full"},
			why: "W16: the attributes of a file take at most 4096 bytes"},
		"verity": {says: "verity is not supported", why: "the hash of the ledger is what verifies (R1)"},
	}
}

// elsewhere are stressors of the class that do not use the directory they are given.
func elsewhere() []string { return []string{"bind-mount", "binderfs", "eventfd", "ioprio", "procfs"} }

// quickStressors are the choice of make test, each with how many operations of its
// own it is to do: a busy machine needs longer for them. make suites runs the whole
// class, each for its time.
func quickStressors() map[string]int {
	return map[string]int{"access": 100, "chmod": 200, "dentry": 256, "fcntl": 2000, "filename": 150, "flock": 100_000,
		"getdent": 2000, "link": 1,
		"lockofd": 100_000, "mknod": 200, "open": 2000, "rename": 200, "touch": 2000, "utime": 2000, "verity": 1,
		"xattr": 1}
}

// Every stressor of stress-ng's filesystem class passes on a mount that may
// delete, verifies what it reads, and leaves nothing behind, but for what
// stressRefusals lists.
func TestStressors(t *testing.T) {
	proctest.Long(t)
	proctest.Need(t, "stress-ng")
	w := newWorld(t)
	alice := w.account("alice", "1000000")
	alice.must("group", "create", "team")
	m := alice.mount("m", "--allow-delete")
	known, class := stressRefusals(), stressorsOf(t, "filesystem")
	quick := quickStressors()
	names := slices.Sorted(maps.Keys(quick))
	if long() {
		names = slices.DeleteFunc(slices.Clone(class),
			func(name string) bool { return slices.Contains(elsewhere(), name) })
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(known)), elsewhere(), names) {
		if !slices.Contains(class, name) {
			t.Errorf("no stressor %s in the class", name)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			s := known[name]
			s.name = name
			extent := []string{"-t", "4s"}
			if !long() {
				extent = []string{"-t", "60s", "--" + name + "-ops", strconv.Itoa(quick[name])}
			}
			s.run(t, m, extent)
		})
	}
	if text := m.control("pending"); text != "" {
		t.Errorf("pending: %s", text)
	}
	retrieves, uploads := m.charges()
	t.Logf("%d stressors: %d retrievals, %d uploads", len(names), retrieves, uploads)
}

// stressorsOf asks stress-ng which stressors a class has.
func stressorsOf(t *testing.T, class string) []string {
	t.Helper()
	// exits 1 after telling
	out, _ := exec.CommandContext(t.Context(), "stress-ng", "--class", class+"?").CombinedOutput()
	_, list, ok := strings.Cut(string(out), "stressors:")
	if !ok {
		t.Fatalf("stress-ng --class %s?: %s", class, out)
	}
	return strings.Fields(list)
}

func (s stressor) run(t *testing.T, m *mount, extent []string) {
	dir := m.path("team", s.name)
	ok(t, os.Mkdir(dir, 0o700))
	before := m.control("errors")
	ctx, cancel := context.WithTimeout(t.Context(), proctest.Hang)
	defer cancel()
	args := slices.Concat([]string{"--" + s.name, "1", "--temp-path", dir, "--verify", "--metrics-brief"}, extent,
		strings.Fields(s.options))
	cmd := exec.CommandContext(ctx, "stress-ng", args...)
	cmd.Dir, cmd.WaitDelay = t.TempDir(), time.Second
	raw, err := cmd.CombinedOutput()
	refused, all := refusalsSince(before, m.control("errors"))
	interrupted := slices.ContainsFunc(refused, isInterrupt)
	refused = slices.DeleteFunc(refused, func(line string) bool { return isInterrupt(line) || line == s.may })
	out := string(raw)
	if interrupted {
		out = withoutInterrupts(out)
	}
	switch {
	case s.says != "" && !strings.Contains(out, s.says):
		t.Errorf("no longer refused (%s); want %q, got %v\n%s", s.why, s.says, err, out)
	case s.says == "" && (err != nil || strings.Contains(out, "fail:") || strings.Contains(out, "skipp")):
		t.Errorf("stress-ng %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	unexpected := slices.ContainsFunc(refused, func(line string) bool { return !slices.Contains(s.refused, line) })
	if unexpected || all && len(refused) != len(s.refused) {
		t.Errorf("refused %q, want %q (%s)", refused, s.refused, s.why)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 && !interrupted {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// isInterrupt selects what stress-ng does itself: it ends what outlives its time
// with signals, in the middle of anything (E2).
func isInterrupt(line string) bool { return strings.HasSuffix(line, " interrupted") }

// withoutInterrupts leaves out what stress-ng says of the calls that it
// interrupted, and of the folder that it then could not remove.
func withoutInterrupts(out string) string {
	var kept strings.Builder
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "errno=4 (") && !strings.Contains(line, "rmdir") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// refusalsSince returns "operation class" of the lines that a mount's errors have
// and did not have before, sorted, each once, and whether those are all: the file
// holds the last 500.
func refusalsSince(before, after string) (list []string, all bool) {
	last := before[strings.LastIndexByte(strings.TrimSuffix(before, "\n"), '\n')+1:]
	i := strings.Index(after, last)
	if all = i >= 0; all {
		after = after[i+len(last):]
		all = last != "" || strings.Count(after, "\n") < 500
	}
	for line := range strings.Lines(after) {
		if fields := strings.Split(line, "\t"); len(fields) >= 4 {
			list = append(list, fields[2]+" "+fields[3])
		}
	}
	slices.Sort(list)
	return slices.Compact(list), all
}
