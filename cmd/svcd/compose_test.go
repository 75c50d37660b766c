package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
)

// The compose file for a first service has settings with which svcd serves, and the commands beside it need no flags.
func TestComposeFileServes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "packaging", "compose.yaml"))
	ok(t, err)
	data := filepath.Join(t.TempDir(), "data")
	set := regexp.MustCompile(`(?m)^ +(SVCD_[A-Z_]+): "?([^"\n]*?)"?(?: #.*)?$`).FindAllStringSubmatch(string(text), -1)
	for _, s := range set {
		value := s[2]
		switch _, fallback, _ := strings.Cut(value, ":-"); s[1] {
		case "SVCD_DATA":
			value = data
		case "SVCD_LISTEN":
			value = "0.0.0.0:0"
		case "SVCD_PUBLIC_URL":
			value = strings.TrimSuffix(fallback, "}")
		}
		t.Setenv(s[1], value)
	}
	if len(set) != 4 || !strings.Contains(string(text), "\n    command: [serve]\n") {
		t.Fatalf("the file has the settings %q", set)
	}
	if p := startServeWith(t); p.url != "http://127.0.0.1:8000" {
		t.Errorf("it serves as %s", p.url)
	}
	if out, errs, code := execute(t, "invite", "alice"); code != exitOK || !wire.IsInvite(out) {
		t.Errorf("svcd invite alice: exit code %d: %s", code, errs)
	} else if i, err := wire.ParseInvite(strings.TrimSpace(out)); err != nil || i.URL != "http://127.0.0.1:8000" {
		t.Errorf("the invite is for %s, %v", i.URL, err)
	}
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	ok(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if version == nil || !strings.Contains(string(text), "FROM golang:"+string(version[1])+" AS build") {
		t.Errorf("the image is not built with go %s", version)
	}
}
