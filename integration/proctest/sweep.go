package proctest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// envSweep makes a test binary the sweeper of the folder it names.
const envSweep = "SVCFS_TEST_SWEEP"

// SweepWhenKilled starts a process that sweeps dir, see [Sweep], if this process ends
// without a call of stop: a test binary that is killed, or that runs into its timeout,
// cleans nothing up by itself. TestMain must call [ActAsSweeper] first.
func SweepWhenKilled(dir string) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envSweep+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	alive, err := cmd.StdinPipe()                        // closed by the kernel at the latest
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the sweeper: %w", err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = alive.Close()
		_ = cmd.Wait() // killed
	}, nil
}

// ActAsSweeper sweeps and exits when [SweepWhenKilled] started this process; else it
// returns at once.
func ActAsSweeper() {
	dir := os.Getenv(envSweep)
	if dir == "" {
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the other process has ended
	Sweep(dir)
	os.Exit(0)
}

// Sweep kills the processes, also stopped ones, whose command line or environment names
// dir or a path below it, and takes away what is mounted there. It knows the environment
// of this user's processes only, and of those that closed themselves to others only as
// root.
func Sweep(dir string) {
	for _, pid := range processesNaming(dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	UnmountBelow(dir)
}

func processesNaming(dir string) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, proc := range found {
		pid, err := strconv.Atoi(filepath.Base(proc))
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(proc, "environ"))
		text := append(append(args, 0), env...)
		if bytes.Contains(text, []byte(dir+"/")) || bytes.Contains(text, []byte(dir+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}
