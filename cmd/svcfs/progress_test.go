package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

func TestBarLine(t *testing.T) {
	a := &app{ui: newTerminal(io.Discard, io.Discard)}
	one := a.newBar("uploading", 1, 1<<20)
	f := one.start("report.pdf", 1<<20)
	f.report(700_000, 1_400_000)
	if got, want := one.line(100, 256<<10),
		"uploading report.pdf  [##########          ]  50%  512 KiB of 1.0 MiB  256 KiB/s  2 s left"; got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if got := one.line(72, 256<<10); len([]rune(got)) > 71 || !strings.HasPrefix(got, "uploadin") ||
		!strings.Contains(got, "…") {
		t.Errorf("narrow: %q", got)
	}
	several := a.newBar("fetching", 3, 0)
	f = several.start("a", sdk.SizeUnknown)
	f.end()
	f = several.start("b", sdk.SizeUnknown)
	f.report(2000, -1)
	if got, want := several.line(80, 0), "fetching 2 of 3  2.0 KiB"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The speed is that of late: what was there at the beginning, or a pause, is forgotten.
func TestBarSpeed(t *testing.T) {
	a := &app{ui: newTerminal(io.Discard, io.Discard)}
	b := a.newBar("uploading", 1, 1<<40)
	clock := b.marks[0].at
	f := b.start("a", 1<<40)
	f.done = 1 << 30
	for range 30 {
		clock = clock.Add(time.Second)
		f.done += 1000
		b.speed(clock)
	}
	if got := b.speed(clock); got != 1000 {
		t.Errorf("%d bytes a second, want 1000", got)
	}
	for d, want := range map[time.Duration]string{time.Millisecond: "1 s", 59 * time.Second: "59 s",
		90 * time.Second: "2 min", 125 * time.Minute: "2 h 5 min", 240 * time.Hour: "10 days"} {
		if got := roughTime(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// The line is drawn on a terminal only, not more often than it can be read, and
// erased before anything else is printed.
func TestBarIsDrawnOnATerminalOnly(t *testing.T) {
	for _, live := range []bool{false, true} {
		var out, errs bytes.Buffer
		a := &app{ui: newTerminal(&out, &errs)}
		a.ui.live = live
		b := a.newBar("uploading", 1, 100)
		clock := time.Unix(0, 0)
		b.now = func() time.Time { return clock }
		f := b.start("x\x1b[2J", 100)
		for range 1000 {
			f.report(50, 100)
		}
		clock = clock.Add(time.Second)
		f.report(100, 100)
		f.end()
		a.ui.printf("done\n")
		if got := strings.Count(errs.String(), "uploading"); live && got != 2 || !live && errs.Len() != 0 {
			t.Errorf("live %v: %d lines: %q", live, got, errs.String())
		}
		if live && (!strings.HasSuffix(errs.String(), "\r\x1b[K") || strings.Contains(errs.String(), "\x1b[2J")) {
			t.Errorf("%q", errs.String())
		}
		if out.String() != "done\n" {
			t.Errorf("%q", out.String())
		}
	}
}

func TestRoughSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10 << 10: "10 KiB",
		999 << 10: "999 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", 5 << 40: "5.0 TiB"} {
		if got := roughSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
