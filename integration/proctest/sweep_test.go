package proctest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// envVictim makes this test binary start a process and then wait to be killed.
const envVictim = "SVCFS_TEST_VICTIM"

func TestMain(m *testing.M) {
	ActAsSweeper()
	if dir := os.Getenv(envVictim); dir != "" {
		_, err := SweepWhenKilled(dir)
		if err == nil {
			err = exec.Command("sh", "-c", `echo $$ > "$0.new"; mv "$0.new" "$0"; kill -STOP $$`,
				filepath.Join(dir, "pid")).Run()
		}
		panic(err) // only if that ends before the victim is killed
	}
	os.Exit(m.Run())
}

// A test that is killed leaves no process behind, not even a stopped one; the folder
// beside its own, whose name begins alike, is not its.
func TestSweepWhenKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	for _, made := range []string{dir, dir + "-beside"} {
		if err := os.Mkdir(made, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	beside := exec.Command("cat")
	beside.Env = append(os.Environ(), "WORK="+dir+"-beside")
	say, err := beside.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	hear, err := beside.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := beside.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = beside.Process.Kill(), beside.Wait() }()
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), envVictim+"="+dir)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the process is there", func() bool {
		_, err := os.Stat(filepath.Join(dir, "pid"))
		return err == nil
	})
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // killed
	Eventually(t, "nothing names the folder", func() bool { return len(processesNaming(dir)) == 0 })
	if _, err := io.WriteString(say, "here\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(hear).ReadString('\n'); err != nil || line != "here\n" {
		t.Errorf("the process beside it says %q, %v", line, err)
	}
}
