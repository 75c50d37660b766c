package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/line"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/blob/s3test"
)

// programs are the two binaries, with the race detector when the tests run with it.
var programs = proctest.Programs{Flags: raceFlags}

func TestMain(m *testing.M) { os.Exit(programs.Run(m)) }

// world is a service of its own with accounts and mounts, all real processes,
// all ended with the test.
type world struct {
	t       *testing.T
	bin     string
	dir     string // everything the test makes lies below
	data    string // the service's data directory
	addr    string // host:port
	url     string
	stores  []string // flags that name the database and the blobs; none = in data
	vars    []string // more variables of all programs
	service *exec.Cmd
	log     *safeBuffer
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t)
}

// newWorldOn is a world whose service has its stores elsewhere.
func newWorldOn(t *testing.T, stores ...string) *world {
	t.Helper()
	bin := programs.Dir(t, "svcfs", "svcd")
	w := &world{t: t, bin: bin, dir: t.TempDir(), log: &safeBuffer{}, addr: ownHost() + ":0", stores: stores}
	w.data = filepath.Join(w.dir, "data")
	w.mkdir("home")
	w.start()
	t.Cleanup(w.stop)
	return w
}

// ownHost is an address of this machine that no other service of a test has: so a port where a service listens is still
// free when the service comes back.
func ownHost() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}

func (w *world) mkdir(name string) string {
	w.t.Helper()
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil && !isDead(dir) {
		w.t.Fatal(err)
	}
	return dir
}

// isDead reports a mountpoint whose mount was killed.
func isDead(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, syscall.ENOTCONN)
}

func (w *world) env(more ...string) []string {
	return slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(w.dir, "home"),
		"SVC_URL=" + w.url,
		"TMPDIR=" + w.dir, "GORACE=halt_on_error=1 atexit_sleep_ms=0"}, w.vars, more)
}

// start runs the service, on the same address after a stop.
func (w *world) start() {
	w.t.Helper()
	w.service = exec.Command(filepath.Join(w.bin, "svcd"),
		append([]string{"serve", "--data", w.data, "--listen", w.addr, "--destruction-delay", "0", "--log-level",
			"info"}, w.stores...)...)
	w.service.Env, w.service.Stderr = w.env(s3test.Env()...), w.log
	out, err := w.service.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	ok(w.t, w.service.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		w.t.Fatalf("svcd said %q, %v\n%s", line, err, w.log)
	}
	w.url, w.addr = url, strings.TrimPrefix(url, "http://")
}

// stop ends the service; it must leave cleanly.
func (w *world) stop() {
	if w.service == nil {
		return
	}
	_ = w.service.Process.Signal(syscall.SIGTERM)
	if err := w.service.Wait(); err != nil {
		w.t.Errorf("svcd: %v\n%s", err, w.log)
	}
	w.service = nil
}

func (w *world) kill() {
	_ = w.service.Process.Kill()
	_ = w.service.Wait()
	w.service = nil
}

// line is a line to the service; set w.url to use it for what is started from then on.
func (w *world) line(shape line.Shape) *line.Line {
	w.t.Helper()
	l, err := line.New(w.addr, shape)
	ok(w.t, err)
	w.t.Cleanup(l.Close)
	return l
}

// svcd runs an operator's command beside the service.
func (w *world) svcd(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(w.bin, "svcd"), append(append(args, "--data", w.data), w.stores...)...)
	cmd.Env = w.env(s3test.Env()...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// person is an account with its key in a file.
type person struct {
	w       *world
	id, key string
	keyFile string
}

func (w *world) account(name, tokens string) *person {
	w.t.Helper()
	out, err := w.svcd("account", "create", name, "--balance", tokens)
	if err != nil {
		w.t.Fatalf("create %s: %v\n%s", name, err, out)
	}
	return w.person(name, out)
}

func (w *world) person(name, shown string) *person {
	w.t.Helper()
	var made struct {
		ID  string `json:"account_id"`
		Key string `json:"api_key"`
	}
	_, doc, _ := strings.Cut(shown, "{") // a notice of a password on the command line may come first
	if err := json.Unmarshal([]byte("{"+doc), &made); err != nil {
		w.t.Fatalf("account %s: %v: %s", name, err, shown)
	}
	p := &person{w: w, id: made.ID, key: made.Key, keyFile: filepath.Join(w.mkdir("keys"), name)}
	ok(w.t, os.WriteFile(p.keyFile, []byte(made.Key+"\n"), 0o600))
	return p
}

// command prepares svcfs for the account.
func (p *person) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.w.bin, "svcfs"),
		append(args, "--account", p.id, "--api-key-file", p.keyFile)...)
	cmd.Env = p.w.env()
	return cmd
}

func (p *person) try(args ...string) (string, int) {
	out, err := p.command(args...).CombinedOutput()
	code := 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		code = -1
	}
	return string(out), code
}

func (p *person) must(args ...string) string {
	p.w.t.Helper()
	out, code := p.try(args...)
	if code != 0 {
		p.w.t.Fatalf("svcfs %v: exit %d\n%s", args, code, out)
	}
	return out
}

// mount mounts the account and unmounts it with the test. A service that is stopped is
// not waited for, unless flags say so.
func (p *person) mount(name string, flags ...string) *mount {
	p.w.t.Helper()
	proctest.Need(p.w.t, "mount")
	m := &mount{p: p, dir: p.w.mkdir(name), log: &safeBuffer{}}
	m.cmd = p.command(append([]string{"mount", m.dir, "--patience", "0"}, flags...)...)
	m.cmd.Stderr = m.log
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		p.w.t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		p.w.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "mounted ") {
		_ = m.cmd.Wait()
		_ = exec.Command("umount", "-l", m.dir).Run()
		p.w.t.Fatalf("mount said %q, %v\n%s", line, err, m.log)
	}
	p.w.t.Cleanup(m.unmount)
	return m
}

type mount struct {
	p    *person
	dir  string
	cmd  *exec.Cmd
	log  *safeBuffer
	gone bool
	lost bool // the test expects that something stays behind
}

func (m *mount) unmount() {
	if m.gone {
		return
	}
	m.gone = true
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	err := m.cmd.Wait()
	if err != nil && !m.lost {
		m.p.w.t.Errorf("svcfs mount: %v\n%s", err, m.log)
	}
	if isMounted(m.p.w.t, m.dir) {
		_ = exec.Command("umount", "-l", m.dir).Run()
		_ = exec.Command("fusermount3", "-uz", m.dir).Run()
		m.p.w.t.Errorf("%s is still mounted", m.dir)
	}
}

func (m *mount) kill() {
	m.gone = true
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	_ = exec.Command("umount", "-l", m.dir).Run()
	_ = exec.Command("fusermount3", "-uz", m.dir).Run()
}

func (m *mount) path(parts ...string) string {
	return filepath.Join(append([]string{m.dir}, parts...)...)
}

// control reads a file of /.svcfs.
func (m *mount) control(name string) string {
	m.p.w.t.Helper()
	raw, err := os.ReadFile(m.path(".svcfs", name))
	if err != nil {
		m.p.w.t.Fatal(err)
	}
	return string(raw)
}

// status is what a mount says of itself.
type status struct {
	Retrieves int    `json:"retrieves"`
	Uploads   int    `json:"uploads"`
	Cached    int    `json:"cached_bytes"`
	Staged    int    `json:"staged_bytes"`
	Open      int    `json:"open"`
	Service   string `json:"service"`
}

func (m *mount) status() (s status) {
	m.p.w.t.Helper()
	if err := json.Unmarshal([]byte(m.control("status")), &s); err != nil {
		m.p.w.t.Fatal(err)
	}
	return s
}

// charges returns what the mount was charged for so far.
func (m *mount) charges() (retrieves, uploads int) {
	m.p.w.t.Helper()
	s := m.status()
	return s.Retrieves, s.Uploads
}

func isMounted(t *testing.T, dir string) bool {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(raw), " "+dir+" ")
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	ok(t, os.WriteFile(path, data, 0o600))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func shell(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// team is a world where alice owns the group "team" and bob belongs to it.
func team(t *testing.T) (w *world, alice, bob *person) {
	t.Helper()
	return teamOn(t)
}

func teamOn(t *testing.T, stores ...string) (w *world, alice, bob *person) {
	t.Helper()
	w = newWorldOn(t, stores...)
	alice, bob = w.account("alice", "1000"), w.account("bob", "1000")
	alice.must("group", "create", "team")
	alice.must("group", "add", "team", bob.id)
	return w, alice, bob
}

// ok ends the test unless a step of it went well.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
