package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestEscapeName(t *testing.T) {
	for _, tc := range []struct{ name, raw, want string }{
		{"plain", "report.pdf", "report.pdf"},
		{"other scripts", "отчёт 報告.pdf", "отчёт 報告.pdf"},
		{"percent in a safe name", "100%.txt", "100%.txt"},
		{"escape sequence", "\x1b[2Jgone", "%1B[2Jgone"},
		{"newline and percent", "a\n100%", "a%0A100%25"},
		{"right-to-left mark", "exe.\u202efdp", "exe.%E2%80%AEfdp"},
		{"not UTF-8", "a\xffb", "a%FFb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := escapeName(tc.raw); got != tc.want {
				t.Errorf("escapeName(%q) = %q, want %q", tc.raw, got, tc.want)
			}
		})
	}
}

func TestFailIsTwoLinesWithoutControlCharacters(t *testing.T) {
	var out, err bytes.Buffer
	newTerminal(&out, &err).fail(refuse(exitOther, "next\nstep", errors.New("bad\x1b[31m\nthing")))
	if got, want := err.String(), "svcfs: bad%1B[31m%0Athing\nhint: next%0Astep\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if out.Len() != 0 {
		t.Errorf("standard output has %q", out.String())
	}
}

func TestHintsReadAlike(t *testing.T) {
	for raw, want := range map[string]string{
		"Check the network.":                "check the network",
		"Deposit more. It arrives at once.": "deposit more. It arrives at once.",
		"SVC_URL is wrong":                  "SVC_URL is wrong",
		"put GROUP FILE...":                 "put GROUP FILE...",
		"":                                  "",
	} {
		if got := hintText(raw); got != want {
			t.Errorf("hintText(%q) = %q, want %q", raw, got, want)
		}
	}
}

func TestProgressIsSilentWithoutATerminal(t *testing.T) {
	var out, err bytes.Buffer
	ui := newTerminal(&out, &err)
	ui.progress("working")
	ui.progress("")
	if out.Len()+err.Len() != 0 {
		t.Errorf("progress printed %q %q", out.String(), err.String())
	}
}

func TestByteSize(t *testing.T) {
	for _, tc := range []struct {
		text string
		want int64
	}{{"0", 0}, {"512", 512}, {"4K", 4096}, {"64M", 64 << 20}, {"64MiB", 64 << 20}, {"1GB", 1 << 30}, {"2g", 2 << 30}, {"3T", 3 << 40}} {
		var b byteSize
		if err := b.Set(tc.text); err != nil || int64(b) != tc.want {
			t.Errorf("Set(%q) = %d, %v, want %d", tc.text, b, err, tc.want)
		}
	}
	for _, text := range []string{"", "M", "-1", "1.5G", "1MM", "1KM", "9999999T", "1x", "i"} {
		var b byteSize
		if err := b.Set(text); err == nil {
			t.Errorf("Set(%q) = %d, want an error", text, b)
		}
	}
	if got := strings.Join([]string{sizeWords(0), sizeWords(1000), sizeWords(512 << 20)}, " "); got != "0 1000 512M" {
		t.Errorf("got %q", got)
	}
}
