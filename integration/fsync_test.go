package integration

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

// Fault "power loss": the bytes of a file and its directory entry are synced
// before the ledger row commits, and that before the answer is sent. strace
// shows the order of the system calls of one upload. (-D makes svcd itself our
// child, so that it gets our signals.)
func TestSyncOrderOfAnUpload(t *testing.T) {
	proctest.Need(t, "strace")
	w, alice, _ := team(t)
	w.stop()
	trace := filepath.Join(w.dir, "trace")
	w.service = exec.Command("strace", "-D", "-f", "-qq", "-y", "-s", "16", "-o", trace, "-e",
		"trace=fsync,fdatasync,renameat,renameat2,write",
		filepath.Join(w.bin, "svcd"), "serve", "--data", w.data, "--listen", w.addr)
	w.service.Env, w.service.Stderr = w.env(), w.log
	out, err := w.service.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ok(t, w.service.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("svcd under strace said %q, %v\n%s", line, err, w.log)
	}
	file := filepath.Join(w.dir, "file")
	write(t, file, make([]byte, 100_000)) // a raw transfer
	alice.must("put", "team", file)
	missing := ""
	defer func() { t.Log(missing) }() // for a failure
	proctest.Eventually(t, "each step follows the one before it", func() bool {
		missing = inOrder(string(read(t, trace)))
		return missing == ""
	})
}

// inOrder says which step of an upload is missing behind the one before it.
func inOrder(trace string) string {
	lines, at := strings.Split(trace, "\n"), 0
	for _, step := range []struct{ name, pattern string }{
		{"the blob's bytes are synced", `f(data)?sync\(\d+<.*/blobs/tmp/[0-9a-f]{32}>`},
		{"the blob gets its name", `renameat2?\(.*[0-9a-f]{32}`},
		{"its directory is synced", `fsync\(\d+<.*/blobs/[0-9a-f]{2}>`},
		{"the ledger row is synced", `f(data)?sync\(\d+<.*/svc\.db-wal>`},
		{"the answer is sent", `write\(\d+<(socket|TCP).*"HTTP/1\.1 200`},
	} {
		form := regexp.MustCompile(step.pattern)
		for at < len(lines) && !form.MatchString(lines[at]) {
			at++
		}
		if at++; at > len(lines) {
			return step.name + ": not seen after the step before it"
		}
	}
	return ""
}
