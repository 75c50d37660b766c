package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service/vaultwire"
)

func refused(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	var out, failed bytes.Buffer
	if got := run(t.Context(), args, &out, &failed); got != code || !strings.Contains(failed.String(), want) {
		t.Errorf("svcd %v: exit code %d, want %d; %q does not say %q", args, got, code, failed.String(), want)
	}
}

func TestRotateMasterKeyCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	ok(t, os.Mkdir(dir, 0o700))
	mustRun(t, "account", "create", "alice", "--data", dir)
	mustRun(t, "export", filepath.Join(dir, "..", "before"), "--data", dir)
	out := mustRun(t, "rotate-master-key", "--data", dir)
	if !strings.Contains(out, "a new one is in "+filepath.Join(dir, "master.key")) ||
		!strings.Contains(out, "finished: one master key") {
		t.Errorf("it says\n%s", out)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "master.key.*"))
	if err != nil || len(kept) != 1 || !strings.Contains(out, kept[0]) {
		t.Fatalf("kept %v, %v; it says\n%s", kept, err, out)
	}
	mustRun(t, "audit", "--data", dir)
	refused(t, exitOther, "no other master key is being brought in", "rotate-master-key", "--finish", "--data", dir)
	refused(t, exitUsage, "exclude each other", "rotate-master-key", "--finish", "--cancel", "--data", dir)
	refused(t, exitUsage, "--new-master-key-file is for", "rotate-master-key", "--new-master-key-file",
		filepath.Join(dir, "x"), "--data", dir)

	if out := mustRun(t, "rotate-log-key", "--data", dir); !strings.Contains(out,
		"every svcd serve over this database signs with it from now on") {
		t.Errorf("rotate-log-key says %s", out)
	}
	if out := mustRun(t, "rotate-upload-key", "--data", dir); !strings.Contains(out, "taken for 90 days") {
		t.Errorf("rotate-upload-key says %s", out)
	}
	if out := mustRun(t, "rotate-token-key", "--data", dir); !strings.Contains(out, "every session ends") {
		t.Errorf("rotate-token-key says %s", out)
	}

	// An archive from before wants the key from before.
	put := func(from string) (restored string) {
		t.Helper()
		restored = t.TempDir()
		raw, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(restored, vaultwire.FileName), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return restored
	}
	refused(t, exitOther, "into a new data directory", "import", filepath.Join(dir, "..", "before"), "--data",
		put(filepath.Join(dir, vaultwire.FileName)))
	mustRun(t, "import", filepath.Join(dir, "..", "before"), "--data", put(kept[0]))
}

// systemd gives the key as a file in a directory that it names.
func TestMasterKeyAsACredential(t *testing.T) {
	dir, credentials := filepath.Join(t.TempDir(), "data"), t.TempDir()
	ok(t, os.Mkdir(dir, 0o700))
	key := filepath.Join(credentials, vaultwire.FileName)
	ok(t, os.WriteFile(key, bytes.Repeat([]byte{7}, 32), 0o400))
	t.Setenv(ownfile.EnvCredentials, credentials)
	mustRun(t, "account", "create", "alice", "--data", dir)
	if _, err := os.Stat(filepath.Join(dir, vaultwire.FileName)); err == nil {
		t.Error("a master key was made in the data directory")
	}
	if out := mustRun(t, "export", filepath.Join(t.TempDir(), "b"), "--data", dir); !strings.Contains(out,
		"keep a copy of "+key) {
		t.Errorf("export says %s", out)
	}
	next := filepath.Join(t.TempDir(), "next.key")
	refused(t, exitUsage, "--new-master-key-file FILE", "rotate-master-key", "--data", dir)
	if out := mustRun(t, "rotate-master-key", "--new-master-key-file", next, "--data", dir); !strings.Contains(out,
		"Bring "+next+" to wherever") {
		t.Errorf("rotate-master-key says %s", out)
	}
	refused(t, exitOther, "still reads the master key from before", "rotate-master-key", "--finish", "--data", dir)
	byCommand := []string{"--data", dir, "--master-key-command", "cat " + next}
	if got, _ := doctor(t, "--data", dir); got["rotation"].State != cli.StateWarn ||
		!strings.Contains(got["rotation"].Hint, "bring the new one") {
		t.Errorf("with the key from before doctor says %+v", got["rotation"])
	}
	if got, _ := doctor(t, byCommand...); got["rotation"].State != cli.StateWarn ||
		!strings.Contains(got["rotation"].Hint, "svcd rotate-master-key --finish") {
		t.Errorf("with the new key doctor says %+v", got["rotation"])
	}
	mustRun(t, append([]string{"rotate-master-key", "--finish"}, byCommand...)...)
	if got, _ := doctor(t, byCommand...); got["rotation"] != (cli.Finding{}) {
		t.Errorf("after the end doctor says %+v", got["rotation"])
	}
	refused(t, exitOther, "another master key", "audit", "--data", dir)
	mustRun(t, "audit", "--data", dir, "--master-key-command", "cat "+next)
}
