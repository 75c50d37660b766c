package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// initWith runs init on answers, as a user without a package.
func initWith(t *testing.T, answers string, args ...string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	s := &settings{stdin: strings.NewReader(answers), stdout: &stdout, stderr: &stderr,
		lookupEnv: func(string) (string, bool) { return "", false },
		packaged:  places{"/etc/svcd/svcd.toml", "/nowhere"}}
	root := rootOf(s)
	root.SetArgs(append([]string{"init", "--json"}, args...))
	err := root.ExecuteContext(t.Context())
	if err != nil {
		code = int(exitCode(err))
		stderr.WriteString(err.Error())
	}
	return stdout.String(), stderr.String(), code
}

// From nothing to an account: the answers are the settings of a service that serves, its first archive is there, and
// the invite makes the account.
func TestInitMakesAService(t *testing.T) {
	dir := t.TempDir()
	data, backups := filepath.Join(dir, "the data"), filepath.Join(dir, "100% backups")
	address := "http://127.0.0.1:" + proctest.FreePort(t)
	out, errs, code := initWith(t, `{"address": "`+address+`", "backups": "`+backups+`", "account": "alice"}`, "--data",
		data)
	var made madeService
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	invite, err := wire.ParseInvite(made.Invite)
	if err != nil || invite.URL != address || invite.Account != "alice.svc.testnet" || made.Account != invite.Account {
		t.Errorf("the invite is for %s at %s: %v", invite.Account, invite.URL, err)
	}
	if newest, err := filepath.EvalSymlinks(filepath.Join(backups, "newest")); err != nil || newest != made.Archive {
		t.Errorf("the newest archive is %s, not %s: %v", newest, made.Archive, err)
	}
	if len(made.Next) != 5 || !strings.Contains(made.Next[0], filepath.Join(data, "master.key")) ||
		!strings.HasSuffix(made.Next[1], "svcd serve --data '"+data+"'") ||
		!strings.HasSuffix(made.Next[2], "svcd invite NAME --data '"+data+"'") ||
		!strings.HasSuffix(made.Next[3], "it is on the disk of the data") ||
		!strings.HasSuffix(made.Next[4], `/100\% backups' --data '`+data+"'") || // % ends a line of cron
		!strings.Contains(made.Next[4], " * * * /") {
		t.Errorf("next is %q", made.Next)
	}
	if info, err := os.Stat(made.Config); err != nil || info.Mode() != 0o600 {
		t.Errorf("the settings: %v, %v", info, err)
	}
	if shown := effective(t, "--config", made.Config); shown["public-url"].Value != address ||
		shown["data"].Value != data {
		t.Errorf("the settings are %v", shown)
	}
	restored := filepath.Join(dir, "restored")
	ok(t, os.Mkdir(restored, 0o700))
	key, err := os.ReadFile(filepath.Join(data, "master.key"))
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(restored, "master.key"), key, 0o600))
	mustRun(t, "import", made.Archive, "--data", restored)

	if shown := effective(t, "--data", data); shown["config"].Value != made.Config ||
		shown["public-url"].Value != address {
		t.Errorf("of the data directory alone, the settings are %v", shown)
	}
	if _, errs, _ := execute(t, "invite", "alice", "--data", data); !strings.Contains(errs, " --data '"+data+"'\n") {
		t.Errorf("a second invite: %s", errs)
	}
	p := startServeWith(t, "--data", data)
	home := t.TempDir()
	setup := exec.CommandContext(t.Context(), programs.Dir(t, "svcfs")+"/svcfs", "setup", made.Invite, "--file")
	setup.Env = []string{"HOME=" + home, "PATH=/nowhere"}
	if text, err := setup.CombinedOutput(); err != nil ||
		!strings.Contains(string(text), "alice.svc.testnet at "+p.url) {
		t.Errorf("setup: %v, %s", err, text)
	}
	for _, line := range [][2]string{{"", made.Config + " has the settings of a service already"},
		{"--config", made.Config}} {
		args := []string{"--data", data}
		if line[0] != "" {
			args = append(args, line[0], made.Config)
		}
		if _, errs, code := initWith(t, "{}", args...); code != exitUsage || !strings.Contains(errs, line[1]) {
			t.Errorf("a second time: exit %d, %s", code, errs)
		}
	}
}

// Each wrong answer is refused before anything is made.
func TestInitRefuses(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, time.Now().Add(time.Hour))
	for answers, want := range map[string]string{
		"x":                                       "standard input holds no answers in JSON",
		`{"name": "x"}`:                           "no answers in JSON",
		`{} {}`:                                   "or more than these",
		`{"address": "http://127.0.0.1:99999"}`:   "that is no address of a service",
		`{"address": "http://127.0.0.1:0"}`:       "that is no address of a service",
		`{"backups": "~/backups"}`:                "~/backups is no path",
		`{"address": 1}`:                          "no answers in JSON",
		`{"address": "files.example.org"}`:        "that is no address of a service",
		`{"address": "http://files.example.org"}`: "in the clear",
		`{"tls_cert": "` + cert + `"}`:            "has no certificate",
		`{"address": "https://files.example.org", "tls_cert": "/nowhere"}`: "certificate: stat /nowhere",
		`{"address": "https://files.example.org", "tls_cert": "` + cert +
			`"}`: "open : no such file",
		`{"address": "https://other.example.org", "tls_cert": "` + cert + `", "tls_key": "` + key +
			`"}`: "the certificate is not for the address",
		`{"address": "https://files.example.org", "tls_cert": "` + cert + `", "tls_key": "` + key +
			`", "account": "A"}`: `"A" is no name of an account`,
		`{"backups": "/dev/null"}`: "/dev/null is no folder",
		`{"account": "x y"}`:       `"x y" is no name of an account`,
	} {
		data := filepath.Join(t.TempDir(), "data")
		if _, errs, code := initWith(t, answers, "--data", data); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s; want %s", answers, code, errs, want)
		}
		if isThere(data) {
			t.Errorf("%s: a data directory was made", answers)
		}
		if _, errs, code := initWith(t, `{"backups": "`+data+`/b"}`, "--data", data); code != exitUsage ||
			!strings.Contains(errs, "is in the data directory") {
			t.Errorf("backups beside the data: exit %d, %s", code, errs)
		}
	}
	if _, errs, code := initWith(t, "{}"); code != exitUsage || !strings.Contains(errs, "no data directory") {
		t.Errorf("without a place: exit %d, %s", code, errs)
	}
}

// A certificate, or a proxy, decides where svcd listens.
func TestInitListens(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, time.Now().Add(time.Hour))
	for answers, want := range map[string][2]string{
		`{}`:                                   {"127.0.0.1:8000", ""},
		`{"address": "http://localhost:8123"}`: {"localhost:8123", ""},
		`{"address": "https://files.example.org"}`: {"127.0.0.1:8000", "127.0.0.1/32"},
		`{"address": "https://files.example.org", "tls_cert": "` + cert + `", "tls_key": "` + key +
			`"}`: {":443", ""},
		`{"address": "https://files.example.org:8443", "tls_cert": "` + cert + `", "tls_key": "` + key +
			`"}`: {":8443", ""},
	} {
		data := filepath.Join(t.TempDir(), "data")
		if _, errs, code := initWith(t, answers, "--data", data); code != exitOK {
			t.Fatalf("%s: exit %d, %s", answers, code, errs)
		}
		shown := effective(t, "--config", filepath.Join(data, "svcd.toml"))
		if domain := map[bool]string{true: "files.example.org"}[strings.Contains(answers,
			"https")]; shown["account-domain"].Value != domain {
			t.Errorf("%s: accounts end in %q", answers, shown["account-domain"].Value)
		}
		if shown["listen"].Value != want[0] || shown["trusted-proxy"].Value != want[1] {
			t.Errorf("%s: listens on %s, believes %s", answers, shown["listen"].Value, shown["trusted-proxy"].Value)
		}
	}
}

// Each question is asked until its answer is good, and only where it is one.
func TestInitAsks(t *testing.T) {
	var asked bytes.Buffer
	s := &settings{stderr: &asked, lookupEnv: os.LookupEnv}
	cmd, _, err := rootOf(s).Find([]string{"init"})
	s.cfg.DataDir = filepath.Join(t.TempDir(), "data")
	ok(t, err)
	n, err := s.newService(cmd)
	ok(t, err)
	answers := "http://files.example.org\nhttps://files.example.org\n/nowhere\n\n\nx y\nbob\n"
	ok(t, n.ask(t.Context(), strings.NewReader(answers)))
	if n.file.PublicURL != "https://files.example.org" || n.file.Listen != behindProxy || n.account != "bob" ||
		n.backups != "" {
		t.Errorf("understood %+v", n)
	}
	for text, times := range map[string]int{"Address": 2, "Certificate": 2, "private key": 0, "backups": 1,
		"First account": 2, "\nhint: ": 3, "svcd: ": 3} {
		if got := strings.Count(asked.String(), text); got != times {
			t.Errorf("%q is there %d times, not %d:\n%s", text, got, times, asked.String())
		}
	}
	ok(t, n.ask(t.Context(), strings.NewReader("\nnone\nnone\n")))
	if n.backups != "" || n.account != "" {
		t.Errorf("none was taken for a folder or a name: %+v", n)
	}
	if err := n.ask(t.Context(), strings.NewReader("")); err == nil {
		t.Error("the end of the input ends no question")
	}
	refused(t, exitUsage, "standard input is no terminal", "init", "--data", s.cfg.DataDir)
}

// Root makes the packaged service, and everything is of its user.
func TestInitAsRoot(t *testing.T) {
	proctest.Need(t, "root")
	const script = `mount -t tmpfs tmpfs /etc
mount -t tmpfs tmpfs /var/lib
echo 'svcd:x:4711:4712::/var/lib/svcd:/bin/false' > /etc/passwd
echo '{"account": "alice", "backups": "/var/lib/archives"}' | svcd init --json
stat -c '%n %u:%g %a' /etc/svcd/svcd.toml /var/lib/svcd/master.key /var/lib/svcd/svc.db "/var/lib/archives/$(date +%F)"`
	cmd := bash(t, "unshare -m bash -euo pipefail -c \"$SCRIPT\"", "SCRIPT="+script,
		"PATH="+programs.Dir(t, "svcd")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, files, _ := strings.Cut(string(out), "\n")
	var made madeService
	ok(t, json.Unmarshal([]byte(text), &made))
	if made.Config != "/etc/svcd/svcd.toml" || made.Data != "/var/lib/svcd" ||
		made.Next[1] != "start it with: sudo systemctl enable --now svcd" {
		t.Errorf("made %+v", made)
	}
	if strings.Count(files, " 4711:4712 600\n") != 4 {
		t.Errorf("the files are:\n%s", files)
	}
}
