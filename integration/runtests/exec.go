package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// cpuMark begins the line in which a test binary's CPU time is told.
const cpuMark = "svcfs-cpu-time "

// runFlag is the flag of a test binary that chooses tests.
const runFlag = "-test.run="

// execute runs a test binary for go test -exec: its tests in as many processes as the first argument says, at the
// same time, for they wait more than they work. It tells the CPU time of them and of the programs they waited for.
func execute(args []string) int {
	shards, err := strconv.Atoi(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	args = args[1:]
	defer func() { fmt.Printf("%s%s\n", cpuMark, childrenCPU()) }()
	parts, err := split(args, shards)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if len(parts) < 2 {
		return start(args, os.Stdout)
	}
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		code int
	)
	for _, part := range parts {
		wait.Go(func() {
			var out bytes.Buffer
			ended := start(part, &out)
			mu.Lock()
			defer mu.Unlock()
			code = max(code, ended)
			_, _ = os.Stdout.Write(verdict.ReplaceAll(out.Bytes(), nil))
		})
	}
	wait.Wait()
	if slices.Contains(args, "-test.v=test2json") {
		fmt.Print("\x16") // marks a line of package testing: else it would be one of the last test
	}
	fmt.Println(map[bool]string{true: "PASS", false: "FAIL"}[code == 0])
	return code
}

// verdict is the line that a test binary ends with.
var verdict = regexp.MustCompile(`(?m)^\x16?(PASS|FAIL)\n`)

// start runs a test binary until it ends. What go test tells this process, the binary hears.
func start(args []string, out io.Writer) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, out
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGQUIT, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(told)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(out, err)
		return 1
	}
	go func() {
		for s := range told {
			_ = cmd.Process.Signal(s)
		}
	}()
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() < 0 {
		fmt.Fprintln(out, err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// split makes up to n calls of a test binary of one, each with a part of its tests.
func split(args []string, n int) ([][]string, error) {
	at := -1 // of the binary: what stands before it runs it as another user
	only := regexp.MustCompile(``)
	for i, arg := range args {
		if at < 0 && strings.HasSuffix(arg, ".test") {
			at = i
		}
		expression, is := strings.CutPrefix(arg, runFlag)
		if is && strings.Contains(expression, "/") {
			n = 1 // chooses inside of tests
		}
		if is {
			only = regexp.MustCompile(expression)
		}
	}
	if n < 2 || at < 0 {
		return [][]string{args}, nil
	}
	list, err := exec.Command(args[at], "-test.list=^(Test|Fuzz|Example)").Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests: %w", err)
	}
	names := make([][]string, n)
	next := 0
	for _, name := range strings.Fields(string(list)) {
		if only.MatchString(name) {
			names[next%n] = append(names[next%n], name)
			next++
		}
	}
	var parts [][]string
	for _, part := range names {
		if len(part) > 0 {
			parts = append(parts, append(append([]string{}, args...), runFlag+"^("+strings.Join(part, "|")+")$"))
		}
	}
	return parts, nil
}

// childrenCPU is the CPU time of the processes that this one waited for, and of those they waited for.
func childrenCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) // fails for another constant only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func cpuOf(line string) (cpu time.Duration, is bool) {
	_, value, is := strings.Cut(line, cpuMark)
	if !is {
		return 0, false
	}
	cpu, err := time.ParseDuration(strings.TrimSpace(value))
	return cpu, err == nil
}
