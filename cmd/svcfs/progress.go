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
	drawn  time.Time
	marks  [2]moment // the speed is counted from the earlier one on
	total  int64     // bytes of all files; unknown sizes count nothing
	done   int64     // bytes of files that are finished
	ended  int       // files that are finished
	flying map[*flight]bool
}

// moment is how much was done at a time.
type moment struct {
	at   time.Time
	done int64
}

// speedOver is how long the speed shown is counted, at least; at most twice that. So a
// pause, or what was there before the command began, is forgotten.
const speedOver = 10 * time.Second

// flight is one file under way.
type flight struct {
	bar  *bar
	name string
	size int64 // or sdk.SizeUnknown
	done int64 // of size, estimated from the bytes on the wire
}

// newBar begins the progress of a command; beside JSON it shows nothing.
func (a *app) newBar(verb string, files int, total int64) *bar {
	b := &bar{ui: a.ui, hidden: a.asJSON, verb: verb, files: files, total: total, now: time.Now,
		flying: make(map[*flight]bool)}
	b.marks[0].at = b.now()
	b.marks[1] = b.marks[0]
	return b
}

// start adds a file; its report is for [sdk.PutOptions].
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
	line := b.line(b.ui.width(), b.speed(now))
	b.mu.Unlock()
	b.ui.progress("%s", line)
}

// speed returns the bytes a second of late; 0 in the first second.
func (b *bar) speed(now time.Time) int64 {
	done := b.done
	for f := range b.flying {
		done += f.done
	}
	if now.Sub(b.marks[1].at) >= speedOver {
		b.marks[0], b.marks[1] = b.marks[1], moment{now, done}
	}
	seconds := now.Sub(b.marks[0].at).Seconds()
	if seconds < 1 {
		return 0
	}
	return max(int64(float64(done-b.marks[0].done)/seconds), 0)
}

// barCells is the length of the drawn bar.
const barCells = 20

// line is the progress in at most width columns: what, how far, how fast (bytes a second),
// how long still.
func (b *bar) line(width int, speed int64) string {
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
	if speed > 0 {
		rate = fmt.Sprintf("  %s/s", roughSize(speed))
	}
	left := ""
	if speed > 0 && done < b.total {
		left = "  " + timeLeft(b.total-done, speed) + " left"
	}
	sizes := "  " + roughSize(done)
	drawn := ""
	if b.total > 0 {
		share := min(float64(done)/float64(b.total), 1)
		drawn = fmt.Sprintf("  [%-*s]", barCells, hashes(int(share*barCells)))
		sizes = fmt.Sprintf(" %3d%%  %s of %s", int(share*100), roughSize(min(done, b.total)), roughSize(b.total))
	}
	for _, progress := range []string{drawn + sizes + rate + left, drawn + sizes + rate, drawn + sizes, sizes} {
		if room := width - 1 - len(progress); room >= shortestName {
			return cutText(what, room) + progress
		}
	}
	return cutText(what+sizes, width-1)
}

// timeLeft is how long so many bytes take at a speed, in bytes a second.
func timeLeft(bytes, speed int64) string {
	return roughTime(time.Duration(float64(bytes) / float64(speed) * float64(time.Second)))
}

// roughTime is a time as a person says it.
func roughTime(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(int(d.Seconds()), 1))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	case d < 100*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
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
