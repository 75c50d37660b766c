package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// asked calls an operation and returns its answer, whatever it is.
func asked(t *testing.T, p *process, account, key, op string, request any) (status int, header http.Header,
	body string) {
	t.Helper()
	raw, err := json.Marshal(request)
	ok(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+wire.PathTools+op, bytes.NewReader(raw))
	ok(t, err)
	req.Header.Set(wire.HeaderAPIKey, key)
	req.Header.Set(wire.HeaderAccountID, account)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	ok(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	ok(t, err)
	return resp.StatusCode, resp.Header, string(text)
}

// health returns what the service says of a part.
func (p *process) health(t *testing.T, part string) string {
	t.Helper()
	resp, err := http.Get(p.url + wire.PathHealth)
	ok(t, err)
	defer resp.Body.Close()
	var h struct {
		Parts map[string]string `json:"parts"`
	}
	ok(t, json.NewDecoder(resp.Body).Decode(&h))
	return h.Parts[part]
}

// A service whose vault is gone answers 503, says why, and charges nothing; the vault that follows serves it without a
// restart of svcd, and ends with it, however it ends.
func TestVaultIsStartedAnew(t *testing.T) {
	p := startServe(t)
	var made struct {
		ID  string `json:"account_id"`
		Key string `json:"api_key"`
	}
	ok(t, json.Unmarshal([]byte(mustRun(t, "account", "create", "alice", "--data", p.data, "--balance", "10")), &made))
	call[string](t, p, made.ID, made.Key, wire.OpRegisterGroup, map[string]string{"group_id": "g"})
	prepare := func() (int, http.Header, string) {
		return asked(t, p, made.ID, made.Key, wire.OpPrepareUpload, map[string]string{"group_id": "g"})
	}
	if status, _, body := prepare(); status != http.StatusOK {
		t.Fatal(body)
	}
	before := mustRun(t, "account", "list", "--data", p.data)
	supervisor := proctest.Child(t, p.cmd.Process.Pid)
	ok(t, syscall.Kill(supervisor, syscall.SIGSTOP)) // or the next one would answer already
	ok(t, syscall.Kill(proctest.Child(t, supervisor), syscall.SIGKILL))
	if status, header, body := prepare(); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" ||
		!strings.Contains(body, "the vault, which keeps the keys, does not answer") {
		t.Errorf("%d %v %s", status, header, body)
	}
	proctest.Eventually(t, "health names the vault", func() bool { return p.health(t, "vault") == "down" })
	if after := mustRun(t, "account", "list", "--data", p.data); after != before {
		t.Errorf("%s became %s", before, after)
	}
	ok(t, syscall.Kill(supervisor, syscall.SIGCONT))
	proctest.Eventually(t, "the next vault answers", func() bool {
		status, _, _ := prepare()
		return status == http.StatusOK
	})
	proctest.Eventually(t, "it is healthy", func() bool { return p.health(t, "vault") == "ok" })
	keeper := proctest.Child(t, supervisor)
	ok(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	for _, pid := range []int{supervisor, keeper} {
		proctest.Eventually(t, "no vault is left", func() bool { return gone(pid) })
	}
}

// gone reports that a process ended, also where nobody waits for it.
func gone(pid int) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(raw), ") ")
	return strings.HasPrefix(state, "Z")
}

// keeper is a svcvault that runs by itself.
type keeper struct {
	dir, key, next string // its folder, and the files of its master keys
	flag           string // for svcd
	cmd            *exec.Cmd
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	dir, err := os.MkdirTemp("", "svcvault-") // a short path
	ok(t, err)
	k := &keeper{dir: dir, key: filepath.Join(dir, vaultwire.FileName), next: filepath.Join(dir, "next.key"),
		flag: "--vault=unix:" + filepath.Join(dir, "socket")}
	t.Cleanup(func() {
		k.stop()
		_ = os.RemoveAll(dir)
	})
	k.start(t, "--make")
	return k
}

func (k *keeper) start(t *testing.T, flags ...string) {
	t.Helper()
	k.cmd = exec.Command(filepath.Join(programs.Dir(t, "svcd"), vaultProgram), append([]string{"--confine", "--socket",
		filepath.Join(k.dir, "socket"), "--master-key-file", k.key}, flags...)...)
	output, err := k.cmd.StdoutPipe()
	ok(t, err)
	ok(t, k.cmd.Start())
	var told vaultwire.Start
	ok(t, json.NewDecoder(output).Decode(&told))
}

func (k *keeper) stop() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}

// restart has another process keep the keys.
func (k *keeper) restart(t *testing.T, flags ...string) {
	t.Helper()
	k.stop()
	k.start(t, flags...)
}

// Nobody else gets the name of the socket while svcd asks there, also when no vault is left.
func TestThreat33SocketOfTheVaultStays(t *testing.T) {
	s := &settings{stderr: io.Discard, serves: true, logger: slog.New(slog.DiscardHandler)}
	v, err := s.startVault(t.Context(), vaultwire.Setup{From: vaultwire.InDirectory(t.TempDir()), Restart: true,
		Client: os.Getpid()}, func(err error) error { return err })
	ok(t, err)
	own := v.(*ownVault)
	name := own.socket.(net.Listener).Addr().String()
	supervisor := proctest.Child(t, os.Getpid())
	keeper := proctest.Child(t, supervisor)
	ok(t, errors.Join(syscall.Kill(supervisor, syscall.SIGKILL), syscall.Kill(keeper, syscall.SIGKILL)))
	<-own.ended
	if l, err := net.Listen("unix", name); err == nil {
		t.Error("another process may become the vault")
		_ = l.Close()
	}
	ok(t, own.Close())
}

// A service is made and restored with a vault that runs by itself; init keeps its place in the settings.
func TestVaultOfItsOwnBegins(t *testing.T) {
	k, dir := newKeeper(t), t.TempDir()
	data, archive := filepath.Join(dir, "data"), filepath.Join(dir, "archive")
	if _, errs, code := initWith(t, `{"address": "http://127.0.0.1:1", "backups": ""}`, "--data",
		data, k.flag); code != exitOK {
		t.Fatal(errs)
	}
	mustRun(t, "account", "create", "alice", "--data", data)
	mustRun(t, "export", archive, "--data", data)
	ok(t, os.RemoveAll(data))
	ok(t, os.Mkdir(data, 0o700))
	refused(t, exitOther, "restart svcvault", "import", archive, "--data", data, k.flag)
	k.restart(t)
	mustRun(t, "import", archive, "--data", data, k.flag)
	if list := mustRun(t, "account", "list", "--data", data, k.flag); !strings.Contains(list, "alice") {
		t.Error(list)
	}
}

// Where an earlier state of a service was brought back, its vault signs no other history than it signed before, and
// svcd says what to do. A vault that was started anew believes the operator.
func TestThreat77VaultKnowsAnEarlierState(t *testing.T) {
	k := newKeeper(t)
	p := startServe(t, k.flag)
	data, before := p.data, filepath.Join(t.TempDir(), "before")
	start := func() {
		t.Helper()
		p = startServeWith(t, "--data", data, "--listen", "127.0.0.1:0", k.flag)
	}
	whole := regexp.MustCompile(`(?s)^ledger: (\d+) records,.* of (\d+) records,`)
	signed := func() {
		t.Helper()
		proctest.Eventually(t, "all records are signed", func() bool {
			found := whole.FindStringSubmatch(mustRun(t, "audit", "--data", data, k.flag))
			return found != nil && found[1] == found[2]
		})
	}
	create := func(name string) { mustRun(t, "account", "create", name, "--data", data, "--balance", "10", k.flag) }
	create("alice")
	signed()
	p.stop(t)
	out, err := exec.Command("cp", "-a", data, before).CombinedOutput()
	if err != nil {
		t.Fatalf("%s", out)
	}
	start()
	create("bob")
	signed()
	p.stop(t)
	ok(t, errors.Join(os.RemoveAll(data), os.Rename(before, data)))
	start()
	proctest.Eventually(t, "nothing is signed", func() bool { return p.health(t, "checkpoints") == "down" })
	k.restart(t)
	create("carol")
	signed()
	proctest.Eventually(t, "it is healthy", func() bool { return p.health(t, "checkpoints") == "ok" })
	p.stop(t)
	if want := "was brought back on purpose, restart svcvault"; !strings.Contains(p.log.String(), want) {
		t.Errorf("the log lacks %q:\n%s", want, &p.log)
	}
}

// A vault that runs by itself serves svcd and its other commands, which do not read the master key.
func TestVaultOfItsOwn(t *testing.T) {
	k := newKeeper(t)
	p := startServe(t, k.flag)
	mustRun(t, "account", "create", "alice", "--data", p.data, k.flag)
	if p.health(t, "vault") != "ok" {
		t.Error("the vault does not answer")
	}
	if _, err := os.Stat(filepath.Join(p.data, vaultwire.FileName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a master key was made beside the data: %v", err)
	}
	if child := proctest.Child(t, p.cmd.Process.Pid); child != 0 {
		t.Errorf("process %d was started", child)
	}
	other := filepath.Join(t.TempDir(), "other")
	ok(t, os.Mkdir(other, 0o700))
	refused(t, exitOther, "start one of its own for it", "account", "create", "eve", "--data", other, k.flag)
	if p.health(t, "vault") != "ok" {
		t.Error("the keys of another service took the place of those of this one")
	}
}

// A vault that runs gives the key of a group's old files to who imports some only where it was started for that; one
// that svcd starts for the import gives it.
func TestLegacyImportAsksForTheKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.txt")
	ok(t, os.WriteFile(file, []byte("old"), 0o600))
	withGroup := func(flags ...string) (importing []string) {
		p := startServe(t, flags...)
		var made struct {
			ID  string `json:"account_id"`
			Key string `json:"api_key"`
		}
		flags = append(flags, "--data", p.data)
		ok(t, json.Unmarshal([]byte(mustRun(t, append(flags, "account", "create", "alice", "--balance", "10")...)),
			&made))
		call[string](t, p, made.ID, made.Key, wire.OpRegisterGroup, map[string]string{"group_id": "g"})
		return append(flags, "import-legacy", "g", file)
	}
	imports := func(args []string) {
		t.Helper()
		if line := mustRun(t, args...); !strings.Contains(line, "bafy") {
			t.Error(line)
		}
	}
	imports(withGroup())
	k := newKeeper(t)
	args := withGroup(k.flag)
	refused(t, exitUsage, "start svcvault with --legacy", args...)
	k.restart(t, "--legacy")
	imports(args)
}

// The master key of a vault that runs by itself is replaced by the steps of operating/install.md, while svcd serves:
// each time the vault was started anew, the next request is served.
func TestRotationWithAVaultOfItsOwn(t *testing.T) {
	k := newKeeper(t)
	p := startServe(t, k.flag)
	var made struct {
		ID  string `json:"account_id"`
		Key string `json:"api_key"`
	}
	ok(t, json.Unmarshal([]byte(mustRun(t, "account", "create", "alice", "--data", p.data, k.flag)), &made))
	call[string](t, p, made.ID, made.Key, wire.OpRegisterGroup, map[string]string{"group_id": "g"})
	up := call[wire.PrepareUploadResult](t, p, made.ID, made.Key, wire.OpPrepareUpload,
		map[string]string{"group_id": "g"})
	file := call[wire.FinalizeUploadResult](t, p, made.ID, made.Key, wire.OpFinalizeUpload,
		wire.FinalizeUploadRequest{UploadID: up.UploadID, FileHash: strings.Repeat("0", 64),
			EncryptedData: base64.StdEncoding.EncodeToString(make([]byte, 100))})
	reads := func(when string) {
		t.Helper()
		status, _, body := asked(t, p, made.ID, made.Key, wire.OpPrepareRetrieve,
			map[string]string{"group_id": "g", "ipfs_hash": file.CID})
		if status != http.StatusOK || !strings.Contains(body, up.Key) {
			t.Fatalf("%s: %d %s", when, status, body)
		}
	}
	reads("before")
	refused(t, exitUsage, "start it with --next-master-key-file", "rotate-master-key", "--data", p.data, k.flag)
	refused(t, exitUsage, "leave --new-master-key-file out", "rotate-master-key", "--data", p.data, k.flag,
		"--new-master-key-file", k.next)

	ok(t, os.WriteFile(k.next, bytes.Repeat([]byte{7}, vaultwire.KeyBytes), 0o600))
	k.restart(t, "--next-master-key-file", k.next)
	reads("with the next key")
	refused(t, exitOther, "no other master key is being brought in", "rotate-master-key", "--finish", "--data", p.data,
		k.flag)
	mustRun(t, "rotate-master-key", "--data", p.data, k.flag)
	k.restart(t, "--next-master-key-file", k.next)
	refused(t, exitOther, "still reads the master key from before", "rotate-master-key", "--finish", "--data", p.data,
		k.flag)

	ok(t, os.Rename(k.next, k.key))
	k.restart(t) // svcd serve has asked nothing since: what it has is wrapped by the earlier master key
	reads("with the new key")
	mustRun(t, "rotate-master-key", "--finish", "--data", p.data, k.flag)
	reads("at the end")
	k.restart(t)
	reads("after the end")
	refused(t, exitOther, "no other master key is being brought in", "rotate-master-key", "--finish", "--data", p.data,
		k.flag)
}

// What is wrong with --vault, or missing beside svcd, is named with the next step.
func TestVaultRefusals(t *testing.T) {
	dir := makeData(t, filepath.Join(t.TempDir(), "data"))
	for flag, want := range map[string]string{"/run/socket": "write --vault unix:PATH",
		"unix:": "write --vault unix:PATH", "unix:" + filepath.Join(dir, "none"): "start svcvault there"} {
		if _, errs, code := execute(t, "account", "list", "--data", dir, "--vault", flag); code == exitOK ||
			!strings.Contains(errs, want) {
			t.Errorf("--vault %s: exit code %d, %s", flag, code, errs)
		}
	}
	refused(t, exitUsage, "exclude each other", "account", "list", "--data", dir, "--vault", "unix:/run/socket",
		"--master-key-command", "cat /run/key")
	alone := filepath.Join(t.TempDir(), "svcd")
	ok(t, os.Link(filepath.Join(programs.Dir(t, "svcd"), "svcd"), alone))
	out, err := exec.CommandContext(t.Context(), alone, "account", "list", "--data", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "install svcvault into the folder of svcd") {
		t.Errorf("without svcvault: %v, %s", err, out)
	}
}
