package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/svcfs/svcfs/cmd/internal/cli"
)

// terminal is how the program speaks. The rules:
//
//   - Data goes to standard output and nothing else does; everything else goes
//     to standard error.
//   - A failure is as [cli.FailureText] writes it, with --json as [cli.FailureJSON]. Nothing is printed twice.
//   - Progress is shown only when standard error is a terminal, on one line that
//     is erased before anything else is printed.
//   - Whatever is printed is escaped here: no control character of a file's name, of
//     the service or of another user's mount reaches a terminal.
//
// There are exactly seven functions: printf, items, notice, fail, failJSON, progress and clear. All
// but clear are safe for concurrent use.
type terminal struct {
	out, err io.Writer
	live     bool // err is a terminal

	mu    sync.Mutex
	drawn bool // a progress line is on the screen
}

const defaultWidth = 80

// width is how many columns there are.
func (t *terminal) width() int {
	if f, ok := t.err.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return defaultWidth
}

func newTerminal(out, err io.Writer) *terminal {
	return &terminal{out: out, err: err, live: isTerminal(err)}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// printf writes data to standard output: lines of text, whose breaks and tabs stay.
func (t *terminal) printf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	fmt.Fprint(t.out, escapeLines(fmt.Sprintf(format, args...)))
}

// items writes names to standard output, with a zero byte behind each.
func (t *terminal) items(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	for _, name := range names {
		fmt.Fprint(t.out, escapeText(name), "\x00")
	}
}

// clear empties the screen when standard output is one.
func (t *terminal) clear() {
	if isTerminal(t.out) {
		fmt.Fprint(t.out, "\x1b[H\x1b[2J") // to the top left, and erase what is below
	}
}

// notice tells something that is neither data nor a failure.
func (t *terminal) notice(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	fmt.Fprintf(t.err, "svcfs: %s\n", escapeText(fmt.Sprintf(format, args...)))
}

// fail tells a failure and the next step, if there is one.
func (t *terminal) fail(err error, hint string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	fmt.Fprint(t.err, cli.FailureText("svcfs", err, hint))
}

// failJSON is fail with --json.
func (t *terminal) failJSON(doc cli.FailureDoc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	fmt.Fprint(t.err, cli.FailureJSON(doc))
}

// progress replaces the progress line; "" erases it.
func (t *terminal) progress(format string, args ...any) {
	if !t.live {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	if format == "" {
		return
	}
	t.drawn = true
	fmt.Fprint(t.err, strings.ReplaceAll(escapeText(fmt.Sprintf(format, args...)), "\n", " "))
}

// erase takes the progress line away; t.mu is held.
func (t *terminal) erase() {
	if t.drawn {
		fmt.Fprint(t.err, "\r\x1b[K")
	}
	t.drawn = false
}
