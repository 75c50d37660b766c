package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/names"
)

func TestEscapeName(t *testing.T) {
	for _, tc := range []struct{ name, raw, want string }{
		{"plain", "report.pdf", "report.pdf"},
		{"other scripts", "отчёт 報告.pdf", "отчёт 報告.pdf"},
		{"percent in a safe name", "100%.txt", "100%.txt"},
		{"escape sequence", "\x1b[2Jgone", "%1B[2Jgone"},
		{"newline and percent", "a\n100%", "a%0A100%25"},
		{"right-to-left mark", "exe.\u202efdp", "exe.%E2%80%AEfdp"},
		{"zero width", "a\u200bb", "a%E2%80%8Bb"},
		{"invisible letter", "a\u3164b", "a%E3%85%A4b"},
		{"soft hyphen", "a\u00adb", "a%C2%ADb"},
		{"emoji", "\u2764\ufe0f", "\u2764\ufe0f"},
		{"not UTF-8", "a\xffb", "a%FFb"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := escapeName(tc.raw); got != tc.want {
				t.Errorf("escapeName(%q) = %q, want %q", tc.raw, got, tc.want)
			}
		})
	}
}

// Threat 7: whatever a command prints, nothing of it but line breaks and tabs acts
// on a terminal; JSON still holds what was there.
func TestThreat7PrintedTextIsEscaped(t *testing.T) {
	const hostile = "a\x1b]0;owned\x07\u009b2J\u202eb\r"
	var out, err bytes.Buffer
	a := newApp(nil, &out, &err, processEnv())
	a.ui.printf("one\t%s\ntwo\n", hostile)
	a.printPairs([2]string{"spent", hostile + "\n"})
	a.printTable([][]string{{"mounted", hostile + "\t\n", "x"}})
	text := out.String()
	if strings.Count(text, "\n") != 4 || strings.Count(text, "\t") != 1 ||
		strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(text), names.IsUnsafe) {
		t.Errorf("printed %q", text)
	}
	out.Reset()
	ok(t, a.printJSON([]string{hostile, "\U000e0041 100% \x7f"}))
	if strings.ContainsFunc(strings.ReplaceAll(out.String(), "\n", ""), names.IsUnsafe) {
		t.Errorf("printed %q", out.String())
	}
	var back []string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || len(back) != 2 || back[0] != hostile ||
		back[1] != "\U000e0041 100% \x7f" {
		t.Errorf("%v %q", err, back)
	}
}

func TestFailIsTwoLinesWithoutControlCharacters(t *testing.T) {
	var out, err bytes.Buffer
	newTerminal(&out, &err).fail(errors.New("bad\x1b[31m\nthing"), "next\nstep")
	if got, want := err.String(), "svcfs: bad%1B[31m; thing\nhint: next; step\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if out.Len() != 0 {
		t.Errorf("standard output has %q", out.String())
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
	}{{"0", 0}, {"512", 512}, {"4K", 4096}, {"64M", 64 << 20}, {"64MiB", 64 << 20}, {"1GB", 1 << 30}, {"2g", 2 << 30},
		{"3T", 3 << 40}} {
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
