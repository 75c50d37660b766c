package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/blob/s3test"
	"github.com/svcfs/svcfs/service/store/pgtest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const root = "../.."

// operating is the pages of OPERATING.md in their order.
func operating(t *testing.T) (pages string) {
	t.Helper()
	read := func(path string) string {
		raw, err := os.ReadFile(filepath.Join(root, "service", path))
		ok(t, err)
		return string(raw)
	}
	for _, link := range regexp.MustCompile(`(?m)^\| \[.*\]\((operating/.*\.md)\)`).FindAllStringSubmatch(
		read("OPERATING.md"), -1) {
		page := read(link[1])
		if !regexp.MustCompile(`^# .*\n\nYou need `).MatchString(page) {
			t.Errorf("%s does not begin with what it needs", link[1])
		}
		pages += page + "\n"
	}
	return pages
}

// marked are the blocks after a mark, one after the other.
func marked(t *testing.T, mark string) (script string) {
	t.Helper()
	for _, block := range regexp.MustCompile("(?s)<!-- "+mark+" -->\n```sh\n(.*?)```").FindAllStringSubmatch(
		operating(t), -1) {
		script += block[1]
	}
	return script
}

// A certificate of one's own authority serves as the page says: a user who has the authority gets in, another one does
// not, and a new certificate is taken without a restart.
func TestOwnAuthority(t *testing.T) {
	proctest.Need(t, "openssl")
	bin := programs.Dir(t, "svcd", "svcfs")
	port := proctest.FreePort(t)
	const after = `
export SVC_URL=https://files.example.org:8443 SVC_ACCOUNT_ID=alice.svc.testnet SVC_API_KEY_FILE=$PWD/alice.key
svcd account create alice --data "$DATA" --api-key-file alice.key > /dev/null
svcfs group create team
if env -u SSL_CERT_FILE svcfs group list 2> refused; then exit 1; fi
grep 'failed to verify certificate' refused || { cat refused; exit 1; }
serial() { openssl s_client -connect files.example.org:8443 < /dev/null 2> /dev/null | openssl x509 -noout -serial; }
before=$(serial)
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 397 -extfile names -out renewed.pem
mv renewed.pem cert.pem
wait_for renewed
svcfs group list
`
	script := strings.NewReplacer("files.example.org:8443", "localhost:"+port, "127.0.0.1:8443", "127.0.0.1:"+port,
		"files.example.org", "localhost").
		Replace(marked(t, "test: certificates") + after)
	work := t.TempDir()
	cmd := bash(t, "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\ncd \"$WORK\"\numask 077\nrenewed() { test "+
		"\"$(serial)\" != \"$before\"; }\n"+script,
		"PATH="+bin+":"+os.Getenv("PATH"), "WORK="+work, "DATA="+filepath.Join(work, "data"))
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("✓ certificate")) || bytes.Contains(out, []byte("✗")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// programs are for tests that need processes.
var programs proctest.Programs

func TestMain(m *testing.M) {
	if err := programs.Beside(vaultProgram); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(programs.Run(m))
}

// bash is the environment of a script with a home of its own.
func bash(t *testing.T, script string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "-euo", "pipefail", "-c",
		proctest.WaitFor+script)
	cmd.Dir = root
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "LC_ALL=C.UTF-8", "TMPDIR=" + t.TempDir()}, env...)
	return cmd
}

// TestOperatingGuide runs the marked blocks of OPERATING.md in one shell, against
// a real PostgreSQL and a real S3 server.
func TestOperatingGuide(t *testing.T) {
	proctest.Need(t, "jq", "curl", "psql")
	bin := programs.Dir(t, "svcd", "svcfs")
	server, bucket := pgtest.Start(t), s3test.Start(t)
	admin, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	replaced := strings.NewReplacer(
		"postgres://svcd@db.example.org/svcd?sslmode=verify-full", "postgres://svcd@"+admin.Host+"/svcd",
		"postgres://svcd@db.example.org/restored?sslmode=verify-full", "postgres://svcd@"+admin.Host+"/restored",
		"postgres://svcd@db.example.org/moved?sslmode=verify-full", "postgres://svcd@"+admin.Host+"/moved",
		"s3://svcd-files?endpoint=https://s3.example.org&region=eu-1", bucket.Location(bucket.NewBucket(t)),
		"127.0.0.1:8001", "127.0.0.1:"+proctest.FreePort(t))
	script := "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n"
	script += replaced.Replace(marked(t, "test"))
	work := t.TempDir()
	ok(t, os.Mkdir(filepath.Join(work, "backup"), 0o700))
	cmd := bash(t, script, append(s3test.Env(), "PATH="+bin+":"+os.Getenv("PATH"), "DATA="+filepath.Join(work, "data"),
		"BACKUP="+filepath.Join(work, "backup"),
		"ADMIN_DB="+server.URL())...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"✓ database       sqlite", "✓ database       postgres", "✓ file store",
		"chain intact", "ledger root", "not in the archive"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("nothing printed %q:\n%s", want, out)
		}
	}
	if bytes.Contains(out, []byte("✗")) || bytes.Contains(out, []byte("could rewrite it")) {
		t.Errorf("doctor complains:\n%s", out)
	}
}

// TestBackupOfPostgresAndS3 runs that block of OPERATING.md on a service with
// files, and looks whether they are there afterwards.
func TestBackupOfPostgresAndS3(t *testing.T) {
	block := regexp.MustCompile("(?s)## Backup of PostgreSQL and S3\n.*?```sh\n(.*?)unset " +
		"SVCD_DB.*?```").FindStringSubmatch(operating(t))
	if block == nil {
		t.Fatal("OPERATING.md does not tell how")
	}
	proctest.Need(t, "jq", "curl", "psql")
	bin := programs.Dir(t, "svcd", "svcfs")
	server, bucket := pgtest.Start(t), s3test.Start(t)
	admin, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	const before = `
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
umask 077
psql -q -v ON_ERROR_STOP=1 "$ADMIN_DB" -c "CREATE ROLE svcd LOGIN PASSWORD '$PGPASSWORD'" -c 'CREATE DATABASE svcd OWNER svcd'
svcd serve --data "$DATA" --listen 127.0.0.1:0 > out &
wait_for grep -q 'listening on' out
export SVC_URL=$(grep -o 'http://[0-9.:]*' out | head -n 1) SVC_ACCOUNT_ID=alice.svc.testnet SVC_API_KEY_FILE=$WORK/key
svcd account create alice --balance 100 --data "$DATA" | jq -r .api_key > key
cp -p "$DATA/master.key" "$BACKUP/"
svcfs group create team
head -c 300000 /dev/urandom > large
for i in 1 2 3; do cp large "file$i"; echo "$i" >> "file$i"; svcfs put team "file$i"; done
`
	const after = `
kill %1
svcd serve --data "$DATA.restored-postgres" --listen "${SVC_URL#http://}" --public-url "$SVC_URL" > out2 &
wait_for grep -q 'listening on' out2
svcfs get team file2 -o back
cmp back file2
`
	work := t.TempDir()
	ok(t, os.Mkdir(filepath.Join(work, "backup"), 0o700))
	restore := strings.ReplaceAll(block[1], "postgres://svcd@db.example.org/restored?sslmode=verify-full",
		"postgres://svcd@"+admin.Host+"/restored")
	cmd := bash(t, `cd "$WORK"`+before+restore+after,
		append(s3test.Env(), "PATH="+bin+":"+os.Getenv("PATH"), "WORK="+work, "DATA="+filepath.Join(work, "data"),
			"BACKUP="+filepath.Join(work, "backup"), "ADMIN_DB="+server.URL(), "PGPASSWORD=secret",
			"SVCD_DB=postgres://svcd@"+admin.Host+"/svcd",
			"SVCD_BLOBS="+bucket.Location(bucket.NewBucket(t)))...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"chain intact", "files: 3 checked, 0 bad"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("nothing printed %q:\n%s", want, out)
		}
	}
}

// Every setting is in the table of OPERATING.md, with its variable.
func TestOperatingGuideNamesEverySetting(t *testing.T) {
	text := operating(t)
	for _, name := range settingNames() {
		for _, want := range []string{"`--" + name + "`", "`" + envName(name) + "`"} {
			if !strings.Contains(text, want) {
				t.Errorf("OPERATING.md does not name %s", want)
			}
		}
	}
	file := filepath.Join(root, "service", "examples", "svcd.toml")
	if out, errs, code := execute(t, "config", "--config", file); code != exitOK ||
		!strings.Contains(out, "https://files.example.org") {
		t.Errorf("%s: exit %d\n%s%s", file, code, out, errs)
	}
}

// The unit's command line is one that svcd takes, and systemd takes the unit.
func TestExampleUnit(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "service", "examples", "svcd.service"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.*)$`).FindStringSubmatch(string(raw))
	if command == nil {
		t.Fatal("the unit starts nothing")
	}
	words := strings.Fields(strings.ReplaceAll(command[2], "%i", "8001"))
	found, rest, err := newRoot(&bytes.Buffer{}, &bytes.Buffer{}).Find(words)
	if err == nil {
		err = found.ParseFlags(rest)
	}
	if err != nil || found.Name() != "serve" {
		t.Errorf("%v: %v", words, err)
	}
	proctest.Need(t, "systemd-analyze")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.ReplaceAll(raw, []byte(command[1]), []byte(program))
	withCredential := bytes.Replace(raw, []byte("#LoadCredentialEncrypted="+vaultwire.FileName+":/"),
		[]byte("LoadCredentialEncrypted="+vaultwire.FileName+":/"), 1)
	if bytes.Equal(withCredential, raw) {
		t.Error("the unit does not show how it gets the master key from systemd")
	}
	for _, text := range [][]byte{raw, withCredential} {
		unit := filepath.Join(t.TempDir(), "svcd@8001.service")
		ok(t, os.WriteFile(unit, text, 0o644))
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
		if err != nil || bytes.Contains(out, []byte(filepath.Base(unit))) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestExampleNginx runs the example as it is, in a network of its own so that
// its ports are free: three processes, TLS, a client whose files go through.
func TestExampleNginx(t *testing.T) {
	proctest.Need(t, "nginx", "root", "curl", "jq", "openssl") // root for port 443 in a network of its own
	bin := programs.Dir(t, "svcd", "svcfs")
	example, err := filepath.Abs(filepath.Join(root, "service", "examples", "nginx.conf"))
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	conf := fmt.Sprintf("daemon off;\nuser root;\npid %[1]s/pid;\nerror_log %[1]s/error.log;\nevents {}\nhttp {\n"+
		"client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path "+
		"%[1]s/u; scgi_temp_path %[1]s/s;\n"+
		"include %[2]s;\n}\n", work, example)
	ok(t, os.Mkdir(filepath.Join(work, "svcd"), 0o700))
	ok(t, os.WriteFile(filepath.Join(work, "nginx.conf"), []byte(conf), 0o600))
	const script = `
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
ip link set lo up
cd "$WORK"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=files.example.org -addext subjectAltName=IP:127.0.0.1 -keyout svcd/key.pem -out svcd/cert.pem 2>/dev/null
export SVCD_DATA=$WORK/data SVCD_PUBLIC_URL=https://127.0.0.1 SVCD_TRUSTED_PROXY=127.0.0.1/32 SVCD_LOG_LEVEL=info SVCD_LOG_FORMAT=json
for port in 8001 8002 8003; do
	svcd serve --listen 127.0.0.1:$port > $port.out 2> $port.log &
	echo $! > $port.pid
	wait_for grep -q 'listening on' $port.out
done
nginx -p "$WORK" -c "$WORK/nginx.conf" &
export SSL_CERT_FILE=$WORK/svcd/cert.pem SVC_URL=https://127.0.0.1 SVC_ACCOUNT_ID=alice.svc.testnet SVC_API_KEY_FILE=$WORK/alice.key
wait_for curl -sf --cacert "$SSL_CERT_FILE" https://127.0.0.1/health > /dev/null
umask 077
svcd account create alice --balance 100 | jq -r .api_key > alice.key
svcd doctor
svcfs group create team
head -c 30000000 /dev/urandom > big
svcfs put team big > /dev/null
svcfs get team big -o back
cmp big back
for i in $(seq 12); do echo "content $i" > small; svcfs put team small --name "small $i" > /dev/null; done
kill "$(cat 8002.pid)"                      # an upgrade: one process leaves, nobody notices
for i in $(seq 12); do test "$(svcfs get team "small $i")" = "content $i"; done
test "$(curl -s --cacert "$SSL_CERT_FILE" --http2 -o /dev/null -w '%{http_version} %{http_code}' https://127.0.0.1/health)" = "2 200"
test "$(curl -s --tls-max 1.1 --cacert "$SSL_CERT_FILE" https://127.0.0.1/health || echo refused)" = refused
curl -s --cacert "$SSL_CERT_FILE" -H 'X-Forwarded-For: 203.0.113.9' -o /dev/null -w '%{http_code}\n' -X POST 'https://127.0.0.1/tools/auth_status?[1-130]' | sort | uniq -c > codes
test "$(tr -s ' ' < codes)" = ' 130 401'                   # what a client claims about its address does not count
for port in 8001 8003; do grep -q '"account":"alice.svc.testnet"' $port.log; grep -q '"client":"127.0.0.1"' $port.log; ! grep -q 203.0.113.9 $port.log; done
test -z "$(find body proxy -type f)"        # nothing of a file in temporary files
svcd verify --read-data
svcd audit
`
	cmd := bash(t, "unshare -n bash -euo pipefail -c \"$SCRIPT\"", "SCRIPT="+proctest.WaitFor+script, "WORK="+work,
		"PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		logs, _ := exec.Command("bash", "-c", "tail -n 20 "+work+"/*.log").CombinedOutput()
		t.Fatalf("%v\n%s\n%s", err, out, logs)
	}
	if !bytes.Contains(out, []byte("files: 13 checked, 0 bad")) {
		t.Errorf("%s", out)
	}
}
