package report

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/names"
)

const (
	// keptErrors bounds /.svcfs/errors, in lines.
	keptErrors = 500
	// maxErrorText bounds the sentence of one line, in bytes.
	maxErrorText = 400
)

// Failure is one line of /.svcfs/errors.
type Failure struct {
	At    time.Time
	Path  string // below the mount
	Op    string // in words
	Class string // in words
	Text  string // what happened, in a sentence
	Hint  string // the next step; may be empty
	Name  string // that a program gave the file later, or wanted to; empty = none
	Err   error  // what the program got
}

// Errors keeps the last refusals and failures for /.svcfs/errors (E1). It is safe for concurrent use.
type Errors struct {
	mu     sync.Mutex
	recent []Failure // oldest first
	total  int64
}

// Add adds a failure, and forgets the oldest where there are too many.
func (l *Errors) Add(f Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if len(l.recent) == keptErrors {
		l.recent = append(l.recent[:0], l.recent[1:]...)
	}
	l.recent = append(l.recent, f)
}

// Total returns how many failures there ever were.
func (l *Errors) Total() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Renamed notes that a program gave the file or folder at from the name to, or wanted to:
// what failed at from concerns both. An err that is not remembered is an everyday answer
// about names.
func (l *Errors) Renamed(from, to string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !slices.ContainsFunc(l.recent, func(f Failure) bool { return f.Err == err }) {
		return
	}
	for i := range l.recent {
		f := &l.recent[i]
		for _, at := range []string{f.Path, f.Name} {
			if rest, ok := strings.CutPrefix(at, from); ok && (rest == "" || rest[0] == '/') {
				f.Name = to + rest
			}
		}
	}
}

// Last returns the newest failure of each path, the oldest first.
func (l *Errors) Last() (list []Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make(map[string]bool)
	for _, f := range slices.Backward(l.recent) {
		if !seen[f.Path] {
			seen[f.Path] = true
			list = append(list, f)
		}
	}
	slices.Reverse(list)
	return list
}

// Show returns one line each: time, path, operation, class, sentence, next step.
func (l *Errors) Show() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, f := range l.recent {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\t%s\n", f.At.UTC().Format(time.RFC3339Nano), OneLine(f.Path), f.Op,
			f.Class, sentence(f.Text), OneLine(f.Hint))
	}
	return []byte(b.String())
}

// sentence bounds a text, and puts it on one line.
func sentence(text string) string {
	if len(text) > maxErrorText {
		text = text[:maxErrorText] + "…"
	}
	return OneLine(text)
}

// OneLine puts a text on one line, without what a terminal obeys.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if names.IsUnsafe(r) {
			return ' '
		}
		return r
	}, s)
}

// ByteText prints a size for a person: "1.5 MiB".
func ByteText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	value, names := float64(n), []string{"KiB", "MiB", "GiB", "TiB"}
	for i, name := range names {
		value /= unit
		if value < unit || i == len(names)-1 {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + name
		}
	}
	return ""
}
