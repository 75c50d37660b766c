package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// idleEnough is the share of CPU that stays idle where the service, and not the machine, is measured; others may take
// as much.
const idleEnough = 0.1

// shares are parts of the CPU time of the machine. What is left was taken by others.
type shares struct {
	idle float64
	own  float64 // of all that is measured: svcd, its stores, and the clients
}

func (s shares) others() float64 { return max(0, 1-s.idle-s.own) }

// watchCPU returns what ends the measurement. It counts this process and all that descend from it now.
func watchCPU() (stop func() shares, err error) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return nil, err
	}
	tree := &meter{servers: trees([]*process{{cmd: &exec.Cmd{Process: self}}})[1:]}
	idle, all := machineCPU()
	own, begin := tree.used(), time.Now()
	return func() shares {
		idleNow, allNow := machineCPU()
		return shares{(idleNow - idle) / (allNow - all),
			(tree.used() - own).Seconds() / time.Since(begin).Seconds() / float64(runtime.NumCPU())}
	}, nil
}

// machineCPU is what the processors of the machine did since it started, in ticks.
func machineCPU() (idle, all float64) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	for i, field := range strings.Fields(first) {
		var ticks float64
		if i == 0 || i > 8 { // the name; guests, who are counted as users
			continue
		}
		fmt.Sscan(field, &ticks)
		all += ticks
		if i == 4 || i == 5 { // idle, and waiting for a disk
			idle += ticks
		}
	}
	return idle, all
}
