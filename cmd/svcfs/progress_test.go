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
	if got, want := one.line(100, 2*time.Second), "uploading report.pdf  [##########          ]  50%  512 KiB of 1.0 MiB  256 KiB/s"; got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	if got := one.line(72, 2*time.Second); len([]rune(got)) > 71 || !strings.HasPrefix(got, "uploadin") || !strings.Contains(got, "…") {
		t.Errorf("narrow: %q", got)
	}
	several := a.newBar("fetching", 3, 0)
	f = several.start("a", sdk.SizeUnknown)
	f.end()
	f = several.start("b", sdk.SizeUnknown)
	f.report(2000, -1)
	if got, want := several.line(80, time.Millisecond), "fetching 2 of 3  2.0 KiB"; got != want {
		t.Errorf("%q, want %q", got, want)
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
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10 << 10: "10 KiB", 999 << 10: "999 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", 5 << 40: "5.0 TiB"} {
		if got := roughSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
