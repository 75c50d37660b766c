package main

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/svcfs/svcfs/sdk/ownfile"
)

const (
	// maxLogBytes is how large a log grows before it is put aside.
	maxLogBytes = 4 << 20
	// keptLogs is how many logs are put aside: LOG.1 is the newest of them.
	keptLogs = 3
)

// logFile is a log that puts itself aside when it is full, mode 0600. It is safe
// for concurrent use. It follows no link, and goes on in the log it has when that
// cannot be put aside; lumberjack follows links and fails then.
type logFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	f    *os.File
	size int64
}

// openLogFile opens or makes the log at path.
func openLogFile(path string, limit int64) (*logFile, error) {
	l := &logFile{path: path, limit: limit}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		if err = f.Chmod(0o600); err == nil {
			err = ownfile.Check(f, ownfile.Secret)
		}
	}
	if err != nil {
		_ = f.Close()
		return refuse(exitOther, cmp.Or(ownfile.MendOf(err), "name a file of yours with --log-file"),
			fmt.Errorf("close the log to others: %w", err))
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write appends one record. A record never straddles two files. When the log
// cannot be put aside it goes on in the one it has.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > l.limit {
		l.rotate()
	}
	n, err := l.f.Write(p)
	l.size += int64(n)
	return n, err
}

// rotate makes LOG into LOG.1, that into LOG.2, and so on.
func (l *logFile) rotate() {
	for i := keptLogs - 1; i > 0; i-- {
		_ = os.Rename(l.aside(i), l.aside(i+1)) // that one may not be there yet
	}
	if os.Rename(l.path, l.aside(1)) != nil {
		l.size = 0 // try again after another limit's worth
		return
	}
	full := l.f
	if l.open() != nil {
		l.f = full
		return
	}
	_ = full.Close()
}

func (l *logFile) aside(i int) string { return fmt.Sprintf("%s.%d", l.path, i) }

// Close closes the log.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
