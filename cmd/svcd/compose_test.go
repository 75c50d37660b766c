package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob/s3test"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// The compose file for a cluster has settings with which svcd serves over PostgreSQL and S3, and every process of it
// is one that Caddy knows.
func TestClusterFileServes(t *testing.T) {
	database, bucket := pgtest.Start(t), s3test.Start(t)
	raw, err := os.ReadFile(filepath.Join(root, "packaging", "cluster.yaml"))
	ok(t, err)
	text := strings.NewReplacer("${SVCD_HOST:-localhost}", "localhost", "/var/lib/svcd", filepath.Join(t.TempDir(), "data"),
		"0.0.0.0:8000", "127.0.0.1:0", "postgres://svcd@postgres/svcd?sslmode=disable", database.NewDatabase(t),
		"s3://svcd?endpoint=http://s3:7070&region=us-east-1&path-style=true", bucket.Location(bucket.NewBucket(t))).
		Replace(string(raw))
	set := regexp.MustCompile(`(?m)^    (SVCD_[A-Z_]+): "?([^"\n]*?)"?(?: #.*)?$`).FindAllStringSubmatch(text, -1)
	for _, s := range set {
		t.Setenv(s[1], s[2])
	}
	for _, v := range s3test.Env() {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	if p := startServeWith(t); len(set) != 8 || p.url != "https://localhost" {
		t.Errorf("with the settings %q it serves as %s", set, p.url)
	}
	processes := regexp.MustCompile(`(?m)^  (svcd-\d): \*svcd$`).FindAllStringSubmatch(text, -1)
	for _, p := range processes {
		if !regexp.MustCompile(`SVCD_PROCESSES: .*\b` + p[1] + `:8000\b`).MatchString(text) {
			t.Errorf("Caddy does not know %s", p[1])
		}
	}
	if len(processes) != 3 {
		t.Errorf("the processes are %q", processes)
	}
}

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
