package fs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrBusy means that some program has a file open or works in the mount.
var ErrBusy = errors.New("the mount is in use")

// BusyError is [ErrBusy] with the programs that use the mount, as far as this user may
// know them.
type BusyError struct {
	Dir     string
	Holders []Holder
}

// Holder is a process that uses a mount.
type Holder struct {
	PID  int
	Name string // of the program
	Path string // one place it holds
}

// maxHolders bounds how many processes a [BusyError] names.
const maxHolders = 8

// Error names the processes.
func (e *BusyError) Error() string {
	text := "unmount " + e.Dir + ": " + ErrBusy.Error()
	if len(e.Holders) > 0 {
		text += " by " + NameHolders(e.Holders)
	}
	return text
}

// NameHolders names processes, such as "bash (123), vim (456)".
func NameHolders(list []Holder) string {
	names := make([]string, 0, len(list))
	for _, h := range list {
		names = append(names, fmt.Sprintf("%s (%d)", h.Name, h.PID))
	}
	return strings.Join(names, ", ")
}

// Unwrap returns [ErrBusy].
func (e *BusyError) Unwrap() error { return ErrBusy }

// Holders looks through /proc for processes that have their working directory or
// something open in dir, but for an [Outside], which opens a file for a moment to tell of a change. It reads links
// only, which asks nothing of the mount.
func Holders(dir string) []Holder {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var list []Holder
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		path, ok := held(filepath.Join("/proc", p.Name()), dir)
		if !ok || isOutside(p.Name()) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join("/proc", p.Name(), "comm")) // it may have ended
		list = append(list, Holder{PID: pid, Name: strings.TrimSpace(string(name)), Path: path})
		if len(list) == maxHolders {
			break
		}
	}
	return list
}

func isOutside(pid string) bool {
	line, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline")) // it may have ended
	return strings.HasSuffix(string(line), "\x00"+OutsideCommand+"\x00")
}

// held returns one path in dir that the process of the folder proc uses.
func held(proc, dir string) (string, bool) {
	links := []string{filepath.Join(proc, "cwd"), filepath.Join(proc, "root"), filepath.Join(proc, "exe")}
	for _, table := range []string{"fd", "map_files"} {
		entries, err := os.ReadDir(filepath.Join(proc, table))
		if err != nil {
			continue // of another user
		}
		for _, e := range entries {
			links = append(links, filepath.Join(proc, table, e.Name()))
		}
	}
	i := slices.IndexFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && (target == dir || strings.HasPrefix(target, dir+"/"))
	})
	if i < 0 {
		return "", false
	}
	target, err := os.Readlink(links[i])
	return target, err == nil
}
