package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const startTimeout = 30 * time.Second

// process is a child whose end does not go unnoticed.
type process struct {
	cmd    *exec.Cmd
	output *tail
	done   chan struct{}
	err    error
}

// tail keeps the end of what a program says.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailBytes {
		t.b = bytes.Clone(t.b[len(t.b)-tailBytes:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}

// start runs a program in a process group of its own, so that its children end
// with it.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, output: &tail{}, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.output
	}
	cmd.Stderr = p.output
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// until waits for ready, the end of the process, or the deadline.
func (p *process) until(ready func() bool) error {
	deadline := time.Now().Add(startTimeout)
	for !ready() {
		select {
		case <-p.done:
			if ready() { // it put itself into the background
				return nil
			}
			return fmt.Errorf("%s ended: %v: %s", filepath.Base(p.cmd.Path), p.err, p.output)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.stop()
			return fmt.Errorf("%s is not ready after %v: %s", filepath.Base(p.cmd.Path), startTimeout, p.output)
		}
	}
	return nil
}

// stop ends the process as an operator would, and in the end by force.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(startTimeout):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what is left of its group
	<-p.done
}

// serving reports whether somebody accepts connections there.
func serving(addr string) func() bool {
	return func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func isMounted(dir string) bool {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && strings.Contains(string(raw), " "+dir+" ")
}

// commandOutput runs a program and returns its first line.
func commandOutput(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line, nil
}

// usage is what a set of processes has used.
type usage struct {
	cpu  time.Duration // user and system, of clients, servers and ourselves
	peak int64         // largest resident memory of the clients, in bytes
}

// meter measures one step.
type meter struct {
	clients, servers []int
	cpu, others      time.Duration // when it began: of all, and of these processes
}

// startMeter begins to measure the process trees.
func startMeter(clients, servers []*process) *meter {
	m := &meter{clients: trees(clients), servers: trees(servers)}
	for _, pid := range m.clients {
		// resets the peak; else it is that since the mount
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
	}
	m.cpu, m.others = m.used(), m.usedByOthers()
	return m
}

func (m *meter) stop() usage {
	u := usage{cpu: m.used() - m.cpu}
	for _, pid := range m.clients {
		u.peak += statusBytes(pid, "VmHWM:")
	}
	return u
}

// stopWith is stop where a client measured itself.
func (m *meter) stopWith(r floorResult) usage {
	u := m.stop()
	if u.peak = r.Peak; r.CPU > 0 {
		u.cpu = m.usedByOthers() - m.others + time.Duration(r.CPU*float64(time.Second))
	}
	return u
}

func (m *meter) used() time.Duration { return ownCPU() + m.usedByOthers() }

func (m *meter) usedByOthers() (sum time.Duration) {
	for _, pid := range m.clients {
		sum += cpuOf(pid)
	}
	for _, pid := range m.servers {
		sum += cpuOf(pid)
	}
	return sum
}

// ownCPU is what this process and its ended children used: the programs that
// read and write.
func ownCPU() time.Duration {
	var self, children syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &self) != nil ||
		syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children) != nil {
		return 0
	}
	return cpuTime(&self) + cpuTime(&children)
}

func cpuTime(r *syscall.Rusage) time.Duration {
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// tick is the unit of /proc/PID/stat; Linux shows a hundredth of a second
// whatever its own clock is.
const tick = 10 * time.Millisecond

func cpuOf(pid int) time.Duration {
	// The clock of another process (clock_getcpuclockid(3)), which counts nanoseconds.
	const ofProcess = 2 // CPUCLOCK_SCHED
	var used unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|ofProcess), &used) == nil {
		return time.Duration(used.Nano())
	}
	fields := statFields(pid)
	if len(fields) < 15 {
		return 0
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if errors.Join(err1, err2) != nil {
		return 0
	}
	return time.Duration(user+system) * tick
}

// statFields are the fields of /proc/PID/stat behind the name: state, parent, …
func statFields(pid int) []string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
}

func statusBytes(pid int, field string) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// trees returns the processes and all that descend from them.
func trees(roots []*process) (pids []int) {
	children := make(map[int][]int)
	for _, dir := range globbed("/proc/[0-9]*") {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if fields := statFields(pid); err == nil && len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	for _, p := range roots {
		if p != nil {
			pids = append(pids, p.cmd.Process.Pid)
		}
	}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids
}

func globbed(pattern string) []string {
	found, _ := filepath.Glob(pattern)
	return found
}
