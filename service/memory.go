package service

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// MinMemory is the smallest useful [Config.Memory], in bytes. A file of the largest
	// size inside JSON is accepted with any.
	MinMemory = 64 << 20
	// memoryShare is the share of the machine's memory that is the default.
	memoryShare = 4
)

// Memory bounds the memory of bodies and answers of requests under way, in bytes.
func (s *Service) Memory() int64 { return s.cfg.Memory }

// defaultMemory is a quarter of the memory this process may use, in bytes.
func defaultMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return MinMemory
	}
	machine := int64(info.Totalram) * int64(info.Unit)
	return max(min(machine, groupMemory("/proc/self/cgroup", "/sys/fs/cgroup", machine))/memoryShare, MinMemory)
}

// groupMemory is the smallest memory.max of the control group in file and of those
// above it, at most the given one (cgroup v2; systemd's MemoryMax and containers set it).
func groupMemory(file, root string, most int64) int64 {
	raw, err := os.ReadFile(file)
	if err != nil {
		return most
	}
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		group, ok := strings.CutPrefix(lines.Text(), "0::")
		for ok && group != "" {
			text, _ := os.ReadFile(filepath.Join(root, group, "memory.max"))
			if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				most = min(most, limit)
			}
			if group == "/" {
				break
			}
			group = path.Dir(group)
		}
	}
	return most
}
