package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/store"
)

func TestThreat9PlainHTTPForOthersIsRefused(t *testing.T) {
	for _, tc := range []struct {
		url, listening string
		refused        bool
	}{
		{"http://127.0.0.1:8000", "127.0.0.1:8000", false},
		{"http://[::1]:8000", "[::1]:8000", false},
		{"http://localhost:8000", "127.0.0.1:8000", false},
		{"https://files.example.org", "0.0.0.0:8000", false}, // a proxy, or a certificate
		{"http://files.example.org", "127.0.0.1:8000", true},
		{"http://[::]:8000", "[::]:8000", true},
		{"http://127.0.0.1:8000", "0.0.0.0:8000", true},
		{"http://files.example.org", "192.0.2.1:8000", true},
	} {
		address, err := net.ResolveTCPAddr("tcp", tc.listening)
		if err != nil {
			t.Fatal(err)
		}
		if err := inTheClear(tc.url, address); (err != nil) != tc.refused || tc.refused &&
			!strings.Contains(cli.FailureOf(err).Hint, "--tls-cert") {
			t.Errorf("%s on %s: %v", tc.url, tc.listening, err)
		}
	}
	refused(t, exitUsage, "--insecure-http", "serve", "--data", t.TempDir(), "--listen", "0.0.0.0:0")
}

func TestThreat9StoresOfOtherMachinesNeedTLS(t *testing.T) {
	dir := t.TempDir()
	for _, bad := range [][]string{
		{"--db", "postgres://svcd:hunter2@192.0.2.1/svcd"},
		{"--db", "postgres://svcd:hunter2@192.0.2.1/svcd?sslmode=prefer"},
		{"--db", "postgres://svcd:hunter2@db.example.org/svcd?sslmode=disable"},
		{"--db", "postgres://svcd:hunter2@/svcd?host=/run/postgresql,192.0.2.1"},
		{"--blobs", "s3://files?endpoint=http://192.0.2.1:9000"},
	} {
		for _, command := range []string{"audit", "serve"} {
			refused(t, exitUsage, "--insecure-http", append([]string{command, "--data", dir}, bad...)...)
		}
	}
	for _, good := range []settings{
		{cfg: service.Config{Database: "postgres://svcd@192.0.2.1/svcd?sslmode=verify-full"}},
		{cfg: service.Config{Database: "postgres://svcd@192.0.2.1/svcd?sslmode=require"}},
		{cfg: service.Config{Database: "postgres://svcd@127.0.0.1/svcd"}},
		{cfg: service.Config{Database: "postgres://svcd@/svcd?host=/run/postgresql"}},
		{cfg: service.Config{Blobs: "s3://files?endpoint=http://127.0.0.1:9000"}},
		{cfg: service.Config{Blobs: "s3://files"}},
		{cfg: service.Config{Blobs: "/srv/blobs"}},
		{cfg: service.Config{Database: "postgres://svcd@192.0.2.1/svcd",
			Blobs: "s3://files?endpoint=http://192.0.2.1:9000"}, insecure: true},
	} {
		if err := good.needTLS(); err != nil {
			t.Errorf("%s %s: %v", good.cfg.Database, good.cfg.Blobs, err)
		}
	}
}

func TestMisspeltCommandIsToldTheNearest(t *testing.T) {
	for line, want := range map[string]string{"account creat x": "svcd account create", "account": ""} {
		_, stderr, code := execute(t, strings.Fields(line)...)
		if want == "" && code != exitOK || want != "" &&
			(code != exitUsage || !strings.Contains(stderr, "did you mean: "+want)) {
			t.Errorf("svcd %s: code %d, %s", line, code, stderr)
		}
	}
}

// A full disk that an archive is written to is told as one.
func TestAFullDiskIsTold(t *testing.T) {
	hint := hintOf(rootOf(&settings{}), []string{"export"}, cli.ExitOther,
		&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	if hint != "make room there, then run it again" {
		t.Errorf("the next step is %q", hint)
	}
}

// A database that refuses the role asks for its password, and one that is not there for its name.
func TestARefusedLoginIsTold(t *testing.T) {
	for err, want := range map[error]string{store.ErrLogin: "PGPASSWORD", store.ErrNoDatabase: "the name in --db"} {
		hint := hintOf(rootOf(&settings{}), []string{"export"}, cli.ExitOther, fmt.Errorf("open: %w", err))
		if !strings.Contains(hint, want) {
			t.Errorf("%v: the next step is %q", err, hint)
		}
	}
}

// Who finds the address taken is told that this service may run already, and what an address of another port takes.
func TestAnAddressInUseIsTold(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	ok(t, err)
	defer taken.Close()
	_, errs, code := execute(t, "serve", "--data", t.TempDir(), "--listen", taken.Addr().String())
	if code != exitOther || !strings.Contains(errs, "perhaps this service itself") ||
		!strings.Contains(errs, "--public-url") {
		t.Errorf("code %d, %s", code, errs)
	}
}

// A command that a message ends with is about the same service; a sentence, or a command with its flags, stays.
func TestACommandInAMessageIsOfTheSameService(t *testing.T) {
	s := &settings{effective: []setting{{Name: "db", Value: "postgres://x/y", From: "flag"}}}
	for text, want := range map[string]string{
		"look with: svcd doctor":             "look with: svcd doctor --db postgres://x/y",
		"make room: svcd doctor names, then": "make room: svcd doctor names, then",
		"see: svcd account --help":           "see: svcd account --help",
		"run it again":                       "run it again",
	} {
		if got := s.complete(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// A failure is one line, and the next step is another.
func TestEveryFailureHasANextStep(t *testing.T) {
	dir := makeData(t, filepath.Join(t.TempDir(), "data"))
	for line, want := range map[string]struct {
		code int
		hint string
	}{
		"nonsense":                                                {exitUsage, "run 'svcd help'"},
		"audit --nonsense":                                        {exitUsage, "run 'svcd audit --help'"},
		"audit x --data " + dir:                                   {exitUsage, "see: svcd audit --help"},
		"audit --data " + dir + "/absent":                         {exitOther, "a service that moved has its data elsewhere"},
		"account fund nobody 1 --data " + dir:                     {exitNotFound, "svcd account list --data " + dir},
		"account fund nobody little --data " + dir:                {exitUsage, "a number of tokens"},
		"account create Bad/Name --data " + dir:                   {exitUsage, "see: svcd account create --help"},
		"checksum absent --data " + dir:                           {exitNotFound, "svcfs ls"},
		"where absent --data " + dir:                              {exitNotFound, "svcfs ledger GROUP"},
		"verify --data " + dir + " --db postgres://127.0.0.1:1/x": {exitOther, "start the database"},
	} {
		_, stderr, code := execute(t, strings.Fields(line)...)
		if first, hint, _ := strings.Cut(stderr, "\nhint: "); code != want.code ||
			!strings.HasPrefix(first, "svcd: ") || !strings.Contains(hint, want.hint) ||
			strings.Count(stderr, "\n") != 2 {
			t.Errorf("svcd %s: code %d, %s", line, code, stderr)
		}
	}
}

func TestInterruptedCommandSaysSo(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var stderr strings.Builder
	if code := run(ctx, []string{"audit", "--data", makeData(t, filepath.Join(t.TempDir(), "data"))}, io.Discard,
		&stderr); code != int(cli.ExitInterrupted) || !strings.HasPrefix(stderr.String(), "svcd: interrupted\nhint: ") {
		t.Errorf("code %d, %s", code, stderr.String())
	}
}

// The help names the exit codes that svcd has, and no others.
func TestExitCodesOfTheHelp(t *testing.T) {
	out, _, _ := execute(t, "--help")
	if !strings.Contains(out, "Exit codes: 0 ok, 2 not found, or decryption failed, 3 usage, 6 other,\n7 a proof "+
		"failed, 130 interrupted.") {
		t.Error(out)
	}
}

func TestOneVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}, {"-V"}} {
		if out, _, code := execute(t, args...); code != exitOK || out != "svcd version "+wire.Version()+"\n" {
			t.Errorf("svcd %v: code %d, %q", args, code, out)
		}
	}
}
