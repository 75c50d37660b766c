package integration

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// long asks for the long forms of the suites: make suites.
func long() bool { return os.Getenv("SVCFS_LONG") != "" }

// sized picks the quick or the long form.
func sized(quick, slow string) string {
	if long() {
		return slow
	}
	return quick
}

// Other people's suites on a mount that may delete. Each writes, reads back and
// compares for itself, and nothing is refused; quick forms here, long ones with
// make suites. bonnie++ seeks with one process: each removes the file once it is
// done, and to a file whose key was destroyed the others cannot write (W9, M5).
func TestSuites(t *testing.T) {
	proctest.Long(t)
	w := newWorld(t)
	alice := w.account("alice", "1000000")
	alice.must("group", "create", "team")
	m := alice.mount("m", "--allow-delete")
	for _, s := range []struct{ name, tool, script, want string }{
		{"fio, random writes verified", "fio", "fio --name=v --directory=$DIR --rw=randwrite --bs=4k-64k " +
			sized("--size=4m --numjobs=2", "--size=64m --numjobs=4") +
			" --verify=crc32c --do_verify=1 --verify_fatal=1 --end_fsync=1 --group_reporting", "err= 0"},
		{"fio, sequential writes verified", "fio", "fio --name=s --directory=$DIR --rw=write --bs=128k " +
			sized("--size=16m", "--size=256m") +
			" --verify=sha256 --verify_fatal=1 --create_on_open=1", "err= 0"},
		{"fio, shared mappings verified", "fio",
			"fio --name=m --directory=$DIR --ioengine=mmap --rw=randwrite --bs=4k " + sized("--size=2m", "--size=64m") +
				" --verify=crc32c --do_verify=1 --verify_fatal=1", "err= 0"},
		{"postmark", "postmark", "printf 'set location %s\\nset number " +
			sized("50\\nset transactions 100", "2000\\nset transactions 5000") +
			"\\nset size 500 65536\\nset seed 42\\nrun\\nquit\\n' $DIR | postmark", "megabytes written"},
		{"dbench", "dbench", "dbench -t " + sized("3", "20") + " -D $DIR -c /usr/share/dbench/client.txt " +
			sized("1", "4"), "Throughput"},
		{"bonnie++", "bonnie++", "bonnie++ -d $DIR -u $(id -un) " +
			sized("-s 16:8k:8192:1 -r 8 -f -n 0", "-s 256:8k:8192:1 -r 128 -f -n 4") + " -q", ","},
	} {
		t.Run(s.name, func(t *testing.T) {
			proctest.Need(t, s.tool)
			dir := m.path("team", strings.ReplaceAll(s.name, " ", "-"))
			ok(t, os.Mkdir(dir, 0o700))
			limit := 2 * time.Minute
			if long() {
				limit = 30 * time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", "-c", s.script)
			cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "DIR="+dir, "LC_ALL=C")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), s.want) {
				t.Errorf("%s: %v\n%s", s.script, err, out)
			}
		})
	}
	if text := m.control("errors"); text != "" {
		t.Errorf("refused: %s", text)
	}
	if text := m.control("pending"); text != "" {
		t.Errorf("pending: %s", text)
	}
	retrieves, uploads := m.charges()
	t.Logf("%d retrievals, %d uploads", retrieves, uploads)
}
