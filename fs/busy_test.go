package fs

import (
	"os/exec"
	"testing"
)

// Who uses a mount is found by its working directory, and the process outside of a mount is not named, which opens a
// file there for a moment.
func TestHoldersAreOthers(t *testing.T) {
	dir := t.TempDir()
	start := func(args ...string) int {
		t.Helper()
		c := exec.Command("sh", append([]string{"-c", "read line"}, args...)...)
		c.Dir = dir
		in, err := c.StdinPipe() // closed at the end, which ends it
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
		return c.Process.Pid
	}
	pid := start("sh", "other")
	start("sh", OutsideCommand)
	if list := Holders(dir); len(list) != 1 || list[0].PID != pid || list[0].Name != "sh" || list[0].Path != dir {
		t.Errorf("%+v, want process %d alone", list, pid)
	}
}
