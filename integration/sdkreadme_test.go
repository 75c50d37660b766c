package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sdkReadme returns the block of sdk/README.md after a mark.
func sdkReadme(t *testing.T, mark string) string {
	t.Helper()
	raw, err := os.ReadFile("../sdk/README.md")
	ok(t, err)
	found := regexp.MustCompile("(?s)<!-- test: " + mark + " -->\n```\\w+\n(.*?)```").FindSubmatch(raw)
	if found == nil {
		t.Fatalf("sdk/README.md has no program for %s", mark)
	}
	return string(found[1])
}

// runAs runs a program as an account, in a folder.
func runAs(t *testing.T, p *person, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Env = append(os.Environ(), "SVC_URL="+p.w.url, "SVC_ACCOUNT_ID="+p.id, "SVC_API_KEY="+p.key)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// The whole programs of sdk/README.md work as they stand there, and the module can be had as the page says.
func TestSDKReadmePrograms(t *testing.T) {
	_, alice, _ := team(t)
	t.Run("Go", func(t *testing.T) {
		beside := t.TempDir()
		root, err := filepath.Abs("..")
		ok(t, err)
		ok(t, os.Symlink(root, filepath.Join(beside, "svcfs")))
		dir := filepath.Join(beside, "program")
		ok(t, os.Mkdir(dir, 0o700))
		ok(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(sdkReadme(t, "Go")), 0o600))
		build := exec.CommandContext(t.Context(), "sh", "-euc", sdkReadme(t, "module"))
		build.Dir = dir
		// this machine has all modules
		build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GONOSUMDB=*")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out := runAs(t, alice, exec.CommandContext(t.Context(), filepath.Join(dir, "program")))
		if !regexp.MustCompile(
			`^saved bafy\S+: 13 bytes, record \d+ of the group, \S+ tokens\nnotes/today.txt 13 alice.svc.testnet\nMeet at nine.$`).MatchString(out) {
			t.Errorf("it printed:\n%s", out)
		}
	})
	t.Run("JavaScript", func(t *testing.T) {
		dir := installed(t)
		program, err := os.CreateTemp(dir, "program-*.mjs")
		ok(t, err)
		defer os.Remove(program.Name())
		_, err = program.WriteString(sdkReadme(t, "JavaScript"))
		ok(t, err)
		ok(t, program.Close())
		node := exec.CommandContext(t.Context(), "node", program.Name())
		node.Dir = dir
		if out := runAs(t, alice, node); !strings.Contains(out, "saved bafy") ||
			!strings.Contains(out, "\nMeet at nine.\n") {
			t.Errorf("it printed:\n%s", out)
		}
	})
}
