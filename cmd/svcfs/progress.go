package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// barEvery is how often the progress line is drawn at most.
const barEvery = 100 * time.Millisecond

// bar is the progress of one command over all its files, as one line that the
// terminal erases before it prints. (mpb and progressbar draw themselves.)
type bar struct {
	ui     *terminal
	hidden bool
	verb   string // "uploading"
	files  int
	now    func() time.Time

	mu     sync.Mutex
	began  time.Time
	drawn  time.Time
	total  int64 // bytes of all files; unknown sizes count nothing
	done   int64 // bytes of files that are finished
	ended  int   // files that are finished
	flying map[*flight]bool
}

// flight is one file under way.
type flight struct {
	bar  *bar
	name string
	size int64 // or sdk.SizeUnknown
	done int64 // of size, estimated from the bytes on the wire
}

// newBar begins the progress of a command; beside JSON it shows nothing.
func (a *app) newBar(verb string, files int, total int64) *bar {
	b := &bar{ui: a.ui, hidden: a.asJSON, verb: verb, files: files, total: total, now: time.Now, flying: make(map[*flight]bool)}
	b.began = b.now()
	return b
}

// start adds a file; its report is for [sdk.Progress].
func (b *bar) start(name string, size int64) *flight {
	f := &flight{bar: b, name: name, size: size}
	b.mu.Lock()
	b.flying[f] = true
	b.mu.Unlock()
	b.draw()
	return f
}

// report takes a progress of the transfer: bytes on the wire are scaled to those
// of the file where both totals are known.
func (f *flight) report(done, total int64) {
	f.bar.mu.Lock()
	f.done = done
	switch {
	case f.size == sdk.SizeUnknown:
	case total > 0:
		f.done = int64(float64(done) / float64(total) * float64(f.size))
	default:
		f.done = min(done, f.size)
	}
	f.bar.mu.Unlock()
	f.bar.draw()
}

// end counts the file as finished, however it ended.
func (f *flight) end() {
	f.bar.mu.Lock()
	delete(f.bar.flying, f)
	f.bar.ended++
	f.bar.done += max(f.size, 0)
	f.bar.mu.Unlock()
}

// draw shows the line, unless it was drawn a moment ago.
func (b *bar) draw() {
	if b.hidden || !b.ui.live {
		return
	}
	b.mu.Lock()
	now := b.now()
	if now.Sub(b.drawn) < barEvery {
		b.mu.Unlock()
		return
	}
	b.drawn = now
	line := b.line(b.ui.width(), now.Sub(b.began))
	b.mu.Unlock()
	b.ui.progress("%s", line)
}

// barCells is the length of the drawn bar.
const barCells = 20

// line is the progress in at most width columns: what, how far, how fast.
func (b *bar) line(width int, took time.Duration) string {
	done, name := b.done, ""
	for f := range b.flying {
		done += f.done
		name = f.name
	}
	what := b.verb + " " + name
	if b.files > 1 {
		what = fmt.Sprintf("%s %d of %d", b.verb, min(b.ended+1, b.files), b.files)
	}
	rate := ""
	if seconds := took.Seconds(); seconds >= 1 {
		rate = fmt.Sprintf("  %s/s", roughSize(int64(float64(done)/seconds)))
	}
	sizes := "  " + roughSize(done)
	drawn := ""
	if b.total > 0 {
		share := min(float64(done)/float64(b.total), 1)
		drawn = fmt.Sprintf("  [%-*s]", barCells, hashes(int(share*barCells)))
		sizes = fmt.Sprintf(" %3d%%  %s of %s", int(share*100), roughSize(min(done, b.total)), roughSize(b.total))
	}
	for _, progress := range []string{drawn + sizes + rate, drawn + sizes, sizes} {
		if room := width - 1 - len(progress); room >= shortestName {
			return cutText(what, room) + progress
		}
	}
	return cutText(what+sizes, width-1)
}

// shortestName is how much of the name is shown before the bar is left out.
const shortestName = 8

func hashes(n int) string { return fmt.Sprintf("%.*s", n, "####################") }

// cutText shortens a text to at most width runes, with an ellipsis.
func cutText(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	if width < 2 {
		return ""
	}
	return string(runes[:width-1]) + "…"
}
