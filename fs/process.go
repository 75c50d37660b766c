package fs

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// procDir is where the kernel shows processes. Requests carry the number of the
// thread that asks; /proc/THREAD exists, though it is not listed.
const procDir = "/proc"

// procField returns a field of a proc(5) file of "Name:\tvalue" lines.
func procField(text, name string) (string, bool) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// processOf returns the process that a thread belongs to. The first thread of a
// process, which most are, has its number.
func processOf(thread uint32) (pid int, ok bool) {
	if isThreadOf(int(thread), thread) {
		return int(thread), true
	}
	status, ok := readProc(thread, "status", make([]byte, 512)) // the field is the fourth
	if !ok {
		return 0, false // it has ended
	}
	value, _ := procField(status, "Tgid")
	pid, err := strconv.Atoi(value)
	return pid, err == nil && pid > 0
}

// processes finds the processes of threads. A program opens many files in a row: whether a thread is of the
// process that was found last takes one system call, a look at /proc ten times as long. It is safe for
// concurrent use.
type processes struct{ last atomic.Uint32 }

// of returns the process that a thread belongs to, 0 when it has ended.
func (p *processes) of(thread uint32) (pid uint32) {
	if last := p.last.Load(); last != 0 && isThreadOf(int(last), thread) {
		return last
	}
	found, ok := processOf(thread)
	if ok && uint32(found) != thread { // else it is found by one system call anyway
		p.last.Store(uint32(found))
	}
	return uint32(found)
}

// isThreadOf reports whether a thread is one of a process.
func isThreadOf(pid int, thread uint32) bool {
	err := unix.Tgkill(pid, int(thread), 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// programName returns the name of the process behind a thread, at most 15 bytes,
// or "": the thread's own name may be anything.
func programName(thread uint32) string {
	pid, ok := processOf(thread)
	if !ok {
		return ""
	}
	return threadName(uint32(pid))
}

// threadName returns the name that a thread gave itself, at most 15 bytes, or "".
func threadName(thread uint32) string {
	text, _ := readProc(thread, "comm", make([]byte, 64))
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// readProc reads what fits into b of a file of a thread. Opens and saves wait for it, and
// os.ReadFile takes several times as long.
func readProc(thread uint32, name string, b []byte) (text string, ok bool) {
	file, err := unix.Open(procDir+"/"+strconv.FormatUint(uint64(thread), 10)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer unix.Close(file)
	n, err := unix.Read(file, b)
	return string(b[:max(n, 0)]), err == nil
}

// hasLoaded reports whether the process of the thread has loaded a library whose path
// contains part. When it cannot be known, as of another user's, the answer is no.
func hasLoaded(thread uint32, part string) bool {
	pid, ok := processOf(thread)
	if !ok {
		return false
	}
	maps, err := os.ReadFile(filepath.Join(procDir, strconv.Itoa(pid), "maps"))
	return err == nil && strings.Contains(string(maps), part)
}

const (
	// pfSignaled marks a thread that a signal ended (include/linux/sched.h).
	pfSignaled = 0x400
	// exitSignal are the bits of an exit code that hold the signal.
	exitSignal = 0x7f
)

// isKilled reports whether a signal ended the program of the thread, which closes its files
// just now. When it cannot be known, the answer is no.
func isKilled(thread uint32) bool {
	stat, err := os.ReadFile(filepath.Join(procDir, strconv.FormatUint(uint64(thread), 10), "stat"))
	return err == nil && tellsOfKill(string(stat))
}

// mayBeKilled reports whether the program of the thread ends just now, by itself or by a signal: it
// gives its memory back before it closes its files. Unlike isKilled this needs no rights over
// the process. When it cannot be known, the answer is yes.
func mayBeKilled(thread uint32) bool {
	text, ok := readProc(thread, "statm", make([]byte, 64))
	pages, _, known := strings.Cut(text, " ")
	return !ok || !known || pages == "0"
}

// tellsOfKill reads proc_pid_stat(5). Threads that end because another one left the
// program are marked, too, but the code that the program leaves with is no signal.
func tellsOfKill(stat string) bool {
	const flags, code = 9 - 3, 52 - 3 // what follows the name begins with field 3
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= code {
		return false
	}
	marks, err := strconv.ParseUint(fields[flags], 10, 32)
	if err != nil || marks&pfSignaled == 0 {
		return false
	}
	left, err := strconv.Atoi(fields[code])
	return err == nil && left&exitSignal != 0
}

// isHeldBy reports whether the process opener, which the thread caller is not of, has a
// descriptor open for writing on the inode.
// It asks /proc only, never the mount. When it cannot be known the answer is no.
func isHeldBy(opener, caller uint32, ino uint64) bool {
	if isThreadOf(int(opener), caller) {
		return false
	}
	dir := filepath.Join(procDir, strconv.FormatUint(uint64(opener), 10), "fdinfo")
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false // of another user, or gone
	}
	for _, fd := range fds {
		info, err := os.ReadFile(filepath.Join(dir, fd.Name()))
		if err == nil && isWritable(string(info), ino) {
			return true
		}
	}
	return false
}

// isWritable reports whether a file of /proc/PID/fdinfo describes a descriptor of the
// inode that can be written through.
func isWritable(info string, ino uint64) bool {
	number, ok := procField(info, "ino")
	if !ok || number != strconv.FormatUint(ino, 10) {
		return false
	}
	text, _ := procField(info, "flags")
	flags, err := strconv.ParseUint(text, 8, 32)
	return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
}
