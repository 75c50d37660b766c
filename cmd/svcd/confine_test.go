package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/confine"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// envConfined is the folder in which this test binary acts as a confined service.
const envConfined = "SVCD_TEST_CONFINED"

// Threat 19: what a service may still open once it is up. The test runs itself: what
// is confined stays so.
func TestThreat19ConfinedServiceOpensOnlyItsOwn(t *testing.T) {
	if dir := os.Getenv(envConfined); dir != "" {
		actConfined(t, dir)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), envConfined+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func actConfined(t *testing.T, dir string) {
	s := &settings{cfg: service.Config{DataDir: filepath.Join(dir, "data"), Blobs: filepath.Join(dir, "blobs")}}
	cfg := service.Config{TLSCert: filepath.Join(dir, "tls/cert"), TLSKey: filepath.Join(dir, "tls/key")}
	cfg.MasterKey.File = filepath.Join(dir, "keys/master.key")
	for _, folder := range []string{"data", "blobs/tmp", "tls", "tls-store", "keys", "other", "elsewhere"} {
		ok(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
	}
	write := func(name string) error { return os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600) }
	read := func(name string) error {
		_, err := os.ReadFile(filepath.Join(dir, name))
		return err
	}
	if err := errors.Join(write("tls/cert"), write("tls-store/key1"), write("tls-store/key2"), write("keys/master.key"),
		write("other/f"),
		os.Symlink("../tls-store/key1", cfg.TLSKey),
		os.Symlink("../elsewhere", filepath.Join(s.cfg.DataDir, "tlog"))); err != nil {
		t.Fatal(err)
	}
	ok(t, s.confine(cfg))
	for what, err := range map[string]error{
		"data": errors.Join(write("data/new"),
			os.Rename(filepath.Join(dir, "data/new"), filepath.Join(dir, "data/f")), read("data/f")),
		"a blob": errors.Join(write("blobs/tmp/new"),
			os.Rename(filepath.Join(dir, "blobs/tmp/new"), filepath.Join(dir, "blobs/f")), read("blobs/f")),
		"a link in the data":    errors.Join(write("data/tlog/note"), read("elsewhere/note")),
		"the certificate":       read("tls/cert"),
		"its key behind a link": errors.Join(read("tls/key"), read("tls-store/key2")),
		"name resolution":       func() error { _, err := os.ReadFile("/etc/hosts"); return err }(),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if status, err := os.ReadFile("/proc/self/status"); err != nil ||
		!strings.Contains(string(status), "NoNewPrivs:\t1\n") {
		t.Errorf("%v, it can gain rights", err)
	}
	if _, err := confine.Supported(); err != nil {
		t.Log("no landlock here: only no_new_privs is tested")
		return
	}
	for what, err := range map[string]error{
		"another file":         read("other/f"),
		"the master key":       read("keys/master.key"), // its vault reads that
		"another new file":     write("other/new"),
		"another master key":   write("keys/master.key"),
		"another certificate":  write("tls/cert"),
		"a list of the folder": func() error { _, err := os.ReadDir(dir); return err }(),
		"a program":            exec.Command("/bin/true").Run(),
	} {
		if !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Threat 19: a confined service takes a certificate that was replaced, and a master
// key that was rotated beside it.
func TestThreat19ConfinedServiceGoesOn(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	put := func(age time.Duration) (der []byte) {
		t.Helper()
		writePair(t, cert+".new", key+".new", time.Now().Add(age))
		ok(t, errors.Join(os.Rename(cert+".new", cert), os.Rename(key+".new", key)))
		text, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		return block.Bytes
	}
	put(time.Hour)
	p := startServe(t, "--tls-cert", cert, "--tls-key", key)
	isConfined(t, p)
	var made struct {
		ID  string `json:"account_id"`
		Key string `json:"api_key"`
	}
	ok(t, json.Unmarshal([]byte(mustRun(t, "account", "create", "alice", "--data", p.data)), &made))
	t.Run("a renewed certificate is shown", func(t *testing.T) {
		renewed := put(2 * time.Hour)
		ok(t, p.cmd.Process.Signal(syscall.SIGHUP))
		address := strings.TrimPrefix(p.url, "https://")
		proctest.Eventually(t, "the renewed certificate is shown", func() bool {
			conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // compared below
			if err != nil {
				t.Fatal(err)
			}
			shown := conn.ConnectionState().PeerCertificates[0].Raw
			_ = conn.Close()
			return bytes.Equal(shown, renewed)
		})
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}}
	register := func(group string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+wire.PathTools+wire.OpRegisterGroup,
			strings.NewReader(`{"group_id":"`+group+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(wire.HeaderAPIKey, made.Key)
		req.Header.Set(wire.HeaderAccountID, made.ID)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("group %s: %s", group, resp.Status)
		}
	}
	register("before")
	mustRun(t, "rotate-master-key", "--data", p.data)
	register("after") // its key is wrapped by the new one
	mustRun(t, "audit", "--data", p.data)
	p.stop(t)
}
