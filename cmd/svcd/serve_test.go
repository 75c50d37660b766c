package main

import (
	"net"
	"strings"
	"testing"
)

func TestPlainHTTPForOthersIsWarnedOf(t *testing.T) {
	for _, tc := range []struct {
		url, listening string
		warned         bool
	}{
		{"http://127.0.0.1:8000", "127.0.0.1:8000", false},
		{"http://[::1]:8000", "[::1]:8000", false},
		{"https://files.example.org", "0.0.0.0:8000", false}, // a proxy, or a certificate
		{"http://files.example.org", "127.0.0.1:8000", false},
		{"http://[::]:8000", "[::]:8000", true},
		{"http://files.example.org", "192.0.2.1:8000", true},
	} {
		address, err := net.ResolveTCPAddr("tcp", tc.listening)
		if err != nil {
			t.Fatal(err)
		}
		if got := inTheClear(tc.url, address); (got != "") != tc.warned || tc.warned && !strings.Contains(got, "--tls-cert") {
			t.Errorf("%s on %s: %q", tc.url, tc.listening, got)
		}
	}
}

func TestMisspeltCommandIsToldTheNearest(t *testing.T) {
	for line, want := range map[string]string{"account creat x": "svcd account create", "account": ""} {
		_, stderr, code := execute(t, strings.Fields(line)...)
		if want == "" && code != exitOK || want != "" && (code != exitUsage || !strings.Contains(stderr, "did you mean: "+want)) {
			t.Errorf("svcd %s: code %d, %s", line, code, stderr)
		}
	}
}
