package fs

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
)

// envPosix names the directory in which TestPosix runs one refused test, as a
// process of its own: a test that must fail cannot be part of this one.
const envPosix = "SVCFS_FS_TEST_POSIX"

// posixRefusals are the tests of go-fuse's suite that cannot pass, with what
// they say when they meet the refusal and why it is one.
func posixRefusals() map[string]struct{ says, why string } {
	const eperm = "operation not permitted"
	return map[string]struct{ says, why string }{
		"Fallocate":         {"operation not supported", "programs fall back to writing"},
		"FallocateKeepSize": {"operation not supported", "programs fall back to writing"},
		"FcntlFlockLocksFile": {"FcntlFlock returned <nil>, expected EAGAIN",
			"POSIX locks of one process never conflict; the test wants a server that takes them per open file"},
		"Link":             {eperm, "N5: uploaded files have one name"},
		"LinkUnlinkRename": {eperm, "N5: uploaded files have one name"},
	}
}

// go-fuse's own suite of expected behaviour, without operations that are refused by design.
func TestPosix(t *testing.T) {
	refused := posixRefusals()
	if dir := os.Getenv(envPosix); dir != "" {
		for name := range refused {
			t.Run(name, func(t *testing.T) { posixtest.All[name](t, dir) })
		}
		return
	}
	m := mounting(t, func(p *plan) { p.Options.Umask, p.Ours = 0o022, true })
	for _, name := range slices.Sorted(maps.Keys(posixtest.All)) {
		if name == "Tmpfile" || name == "XAttrLarge" {
			continue // they skip themselves: a file without a name cannot be recorded, and W16 bounds attributes
		}
		t.Run(name, func(t *testing.T) {
			dir := m.path("team/" + name)
			ok(t, os.Mkdir(dir, 0o755))
			refusal, isRefused := refused[name]
			if !isRefused {
				posixtest.All[name](t, dir)
				return
			}
			cmd := exec.Command("/proc/self/exe", "-test.run", "^TestPosix$/^"+name+"$", "-test.count=1")
			cmd.Env = append(os.Environ(), envPosix+"="+dir)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), refusal.says) {
				t.Errorf("refused because %s; want it to say %q, got %v\n%s", refusal.why, refusal.says, err, out)
			}
		})
	}
	for name := range refused {
		if posixtest.All[name] == nil {
			t.Errorf("no test %s in the suite", name)
		}
	}
}
