package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaulttest"
)

// serving runs a service in this process and returns its data directory and address.
func serving(t *testing.T) (dir, url string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url = "http://" + l.Addr().String()
	svc, err := openService(t.Context(), service.Config{DataDir: dir, PublicURL: url})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- svc.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := svc.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir, url
}

func doctor(t *testing.T, args ...string) (byCheck map[string]cli.Finding, code int) {
	t.Helper()
	out, errs, code := execute(t, append([]string{"doctor", "--json"}, args...)...)
	var list []cli.Finding
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	byCheck = make(map[string]cli.Finding)
	for _, f := range list {
		if f.State != cli.StateOK && f.Hint == "" {
			t.Errorf("%+v does not say what to do", f)
		}
		byCheck[f.Check] = f
	}
	return byCheck, code
}

func TestDoctorBesideAHealthyService(t *testing.T) {
	dir, url := serving(t)
	got, code := doctor(t, "--data", dir, "--public-url", url)
	for _, check := range []string{"settings", "data directory", "master key", "database", "clock", "file store",
		"address"} {
		if got[check].State != cli.StateOK {
			t.Errorf("%s: %+v", check, got[check])
		}
	}
	if code != exitOK {
		t.Errorf("exit %d", code)
	}
	keeper, err := os.ReadFile(filepath.Join(programs.Dir(t, "svcd"), vaultProgram))
	ok(t, err)
	if digest := fmt.Sprintf("%x", sha256.Sum256(keeper)); !strings.HasSuffix(got["vault"].Detail, digest) {
		t.Errorf("the vault's program is %s, doctor says %+v", digest, got["vault"])
	}
	out, _, _ := execute(t, "doctor", "--data", dir, "--public-url", url)
	if !strings.Contains(out, "✓ file store") || strings.Contains(out, "✗") {
		t.Errorf("%s", out)
	}
}

func createAccount(t *testing.T, dir string) {
	t.Helper()
	if _, errs, code := execute(t, "account", "create", "alice", "--data", dir, "--api-key-file",
		filepath.Join(t.TempDir(), "key")); code != exitOK {
		t.Fatal(errs)
	}
}

func TestDoctorNamesWhatIsWrong(t *testing.T) {
	broken := func(change func(t *testing.T, dir string)) func(t *testing.T) []string {
		return func(t *testing.T) []string {
			dir, _ := serving(t)
			change(t, dir)
			return []string{"--data", dir}
		}
	}
	chmod := func(name string, mode os.FileMode) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { ok(t, os.Chmod(filepath.Join(dir, name), mode)) }
	}
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	for _, tc := range []struct {
		name  string
		args  func(t *testing.T) []string
		check string
		hint  string
	}{
		{"no directory", func(*testing.T) []string { return []string{"--data", "/does/not/exist"} }, "data directory",
			"check --data"},
		{"wrong setting", func(*testing.T) []string { return []string{"--data", "/x", "--log-level", "x"} }, "settings",
			"svcd config"},
		{"password in a flag", func(*testing.T) []string {
			return []string{"--data", "/x", "--db", "postgres://a:hunter2@127.0.0.1:1/x"}
		}, "settings", "SVCD_DB"},
		{"directory for all", broken(chmod("", 0o755)), "data directory", "chmod 700"},
		{"key for all", broken(chmod("master.key", 0o644)), "master key", "chmod 600"},
		{"no key", broken(func(t *testing.T, dir string) { ok(t, os.Remove(filepath.Join(dir, "master.key"))) }),
			"master key", "saved copy"},
		{"file store gone", broken(func(t *testing.T, dir string) {
			ok(t, os.Remove(filepath.Join(dir, "blobs", "tmp")))
			ok(t, os.Remove(filepath.Join(dir, "blobs")))
			ok(t, os.WriteFile(filepath.Join(dir, "blobs"), nil, 0o600))
		}), "service", "which part"},
		{"no database", func(t *testing.T) []string {
			dir := makeData(t, filepath.Join(t.TempDir(), "data"))
			ok(t, os.Remove(filepath.Join(dir, store.FileName)))
			t.Cleanup(func() {
				if _, err := os.Stat(filepath.Join(dir, store.FileName)); err == nil {
					t.Error("doctor left a stray database")
				}
			})
			return []string{"--data", dir}
		}, "database", "give --db"},
		{"another ledger", func(t *testing.T) []string {
			dir := makeData(t, filepath.Join(t.TempDir(), "data"))
			other, _ := serving(t)
			createAccount(t, other)
			proctest.Eventually(t, "a checkpoint is signed", func() bool {
				_, err := os.Stat(filepath.Join(other, checkpoint.Dir, "checkpoint"))
				return err == nil
			})
			ok(t, os.CopyFS(filepath.Join(dir, checkpoint.Dir), os.DirFS(filepath.Join(other, checkpoint.Dir))))
			return []string{"--data", dir}
		}, "service", "a new, empty data directory"},
		{"another contract", func(t *testing.T) []string {
			dir := makeData(t, filepath.Join(t.TempDir(), "data"))
			createAccount(t, dir)
			return []string{"--data", dir, "--contract", "other.example"}
		}, "service", "--contract svc.testnet"},
		{"nobody answers", func(t *testing.T) []string {
			dir, _ := serving(t)
			return []string{"--data", dir, "--public-url", "http://127.0.0.1:1"}
		}, "address", "start the service"},
		{"somebody else answers", func(t *testing.T) []string {
			dir, _ := serving(t)
			return []string{"--data", dir, "--public-url", elsewhere.URL}
		}, "address", "proxy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, code := doctor(t, tc.args(t)...)
			if f := got[tc.check]; f.State != cli.StateFail || !strings.Contains(f.Hint, tc.hint) || code != exitOther {
				t.Errorf("exit %d, %+v", code, got)
			}
			for _, f := range got {
				if strings.Contains(f.Detail+f.Hint, "hunter2") {
					t.Errorf("the password is shown: %+v", f)
				}
			}
		})
	}
}

// A password on the command line is taken, and told where it belongs; it is shown nowhere.
func TestPasswordOnTheCommandLine(t *testing.T) {
	dir := makeData(t, filepath.Join(t.TempDir(), "data"))
	out, errs, _ := execute(t, "config", "--data", dir, "--db", "postgres://a:hunter2@127.0.0.1:1/x")
	if !strings.Contains(errs, "svcd: the password in --db is visible to every user of this machine: put it into "+
		"PGPASSWORD, a PGPASSFILE, SVCD_DB or the configuration file\n") ||
		strings.Contains(out+errs, "hunter2") {
		t.Errorf("%s%s", out, errs)
	}
	if _, errs, _ := execute(t, "config", "--data", dir, "--db", "postgres://a@127.0.0.1:1/x"); errs != "" {
		t.Errorf("without a password: %s", errs)
	}
}

// Root is told to be the user of the service: what root writes, the service could not use.
func TestDoctorOfRoot(t *testing.T) {
	proctest.Need(t, "root")
	dir := makeData(t, filepath.Join(t.TempDir(), "data"))
	const nobody = 65534
	ok(t, os.Chown(dir, nobody, nobody))
	if got, code := doctor(t, "--data", dir); code != exitOther ||
		!strings.HasPrefix(got["service"].Hint, "sudo -u nobody svcd") {
		t.Errorf("exit %d, %+v", code, got)
	}
}

// writePair writes a certificate, signed by itself, and its key.
func writePair(t *testing.T, cert, key string, notAfter time.Time) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: notAfter, DNSNames: []string{"files.example.org"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: raw}} {
		ok(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
}

func TestDoctorOnCertificates(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	now := time.Now()
	writePair(t, cert, key, now.Add(90*24*time.Hour))
	for _, tc := range []struct {
		after time.Duration
		state string
	}{{-2 * time.Hour, cli.StateFail}, {0, cli.StateOK}, {75 * 24 * time.Hour, cli.StateWarn},
		{86 * 24 * time.Hour, cli.StateFail}, {91 * 24 * time.Hour, cli.StateFail}} {
		if f := checkCertificate(cert, key, now.Add(tc.after)); f.State != tc.state {
			t.Errorf("%s from now: %+v, want %s", tc.after, f, tc.state)
		}
	}
	if f := checkCertificate(cert, cert, now); f.State != cli.StateFail {
		t.Errorf("no key: %+v", f)
	}
}

func TestExportImportCommands(t *testing.T) {
	dir, _ := serving(t)
	good := func(want string, args ...string) string {
		t.Helper()
		out, errs, code := execute(t, args...)
		if code != exitOK || !strings.Contains(out, want) {
			t.Fatalf("svcd %v: exit %d\n%s%s", args, code, out, errs)
		}
		return out
	}
	bad := func(wantCode int, want string, args ...string) {
		t.Helper()
		if out, errs, code := execute(t, args...); code != wantCode || !strings.Contains(errs, want) {
			t.Errorf("svcd %v: exit %d, want %d\n%s%s", args, code, wantCode, out, errs)
		}
	}
	good("api_key", "account", "create", "alice", "--data", dir)
	tmp := t.TempDir()
	full, more, imported := filepath.Join(tmp, "full"), filepath.Join(tmp, "more"), filepath.Join(tmp, "imported")
	good("not in the archive", "export", full, "--data", dir)
	bad(exitUsage, "exists already", "export", full, "--data", dir)
	bad(exitUsage, "open the earlier archive", "export", more, "--since", filepath.Join(tmp, "none"), "--data", dir)
	bad(exitUsage, "make a full archive", "export", more, "--since", filepath.Join(dir, "svc.db"), "--data", dir)
	good("api_key", "account", "create", "bob", "--data", dir)
	out := good("ledger root", "export", more, "--since", full, "--data", dir)
	root := out[strings.Index(out, "ledger root"):][:40]
	ok(t, os.Mkdir(imported, 0o700))
	bad(exitUsage, "master.key", "import", full, more, "--data", imported)
	key, err := os.ReadFile(filepath.Join(dir, "master.key"))
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(imported, "master.key"), key, 0o600))
	bad(exitUsage, "want FILE", "import", "--data", imported)
	bad(exitUsage, more+" continues the archive", "import", more, "--data", imported)
	bad(exitUsage, more+" continues "+full+": give the archives in the order", "import", more, full, "--data", imported)
	whole, err := os.ReadFile(full)
	ok(t, err)
	ok(t, os.WriteFile(full, whole[:len(whole)-1], 0o600))
	bad(exitOther, full+": the index at byte", "import", full, more, "--data", imported)
	if out, errs, code := execute(t, "import", "--salvage", full, more, "--data", imported); code != exitOther ||
		!strings.Contains(out, root) || !strings.Contains(out, "svcfs forget URL") ||
		!strings.Contains(errs, "no file is missing") {
		t.Errorf("salvaged: exit %d\n%s%s", code, out, errs)
	}
	good("chain intact", "audit", "--data", imported)
	ok(t, os.WriteFile(full, whole, 0o600))
	bad(exitOther, "holds accounts already", "import", full, more, "--data", imported)
	again := filepath.Join(tmp, "again")
	ok(t, os.Mkdir(again, 0o700))
	ok(t, os.WriteFile(filepath.Join(again, "master.key"), key, 0o600))
	good(root, "import", full, more, "--data", again)
	good("into: "+filepath.Join(again, "svc.db"), "import", full, more, "--data", again)
	good("; larger files: "+filepath.Join(again, "blobs")+"\n", "import", full, more, "--data", again)
	bad(exitOther, "holds accounts already", "import", full, "--data", dir)
	bad(exitUsage, "open archive", "import", filepath.Join(tmp, "none"), "--data", again)
	bad(exitOther, "no such file", "audit", "--data", filepath.Join(tmp, "none"))
	if got := good("", "export", "-", "--data", again); !strings.HasPrefix(got, "\x89svcd1\r\n") {
		t.Error("an export to standard output is not the archive alone")
	}
	tree := filepath.Join(again, "tlog", "hashes") // svcd import has signed what it imported
	hashes, err := os.ReadFile(tree)
	ok(t, err)
	ok(t, os.WriteFile(tree, make([]byte, len(hashes)), 0o600))
	bad(int(cli.ExitProof), "row", "audit", "--data", again)
}

// An import says into which database it went, without the password in its address.
func TestWhereDatabase(t *testing.T) {
	s := &settings{}
	s.cfg.DataDir, s.cfg.Database = "/data", "postgres://svcd:hunter2@db.example.org:5432/moved?password=hunter2"
	if got := s.whereDatabase(); got != "PostgreSQL, db.example.org:5432/moved" {
		t.Errorf("it went into %q", got)
	}
	s.cfg.Database = ""
	if got := s.whereDatabase(); !strings.HasPrefix(got, "/data/svc.db (SQLite") {
		t.Errorf("it went into %q", got)
	}
}

// verify names bytes that belong to nothing, unless they may just have come, and
// is content with them.
func TestVerifyNamesOrphans(t *testing.T) {
	dir := t.TempDir()
	if _, errs, code := execute(t, "account", "create", "alice", "--data", dir); code != 0 {
		t.Fatal(errs)
	}
	old, young := strings.Repeat("ab", 16), strings.Repeat("cd", 16)
	for _, id := range []string{old, young} {
		file := filepath.Join(dir, "blobs", id[:2], id)
		ok(t, os.MkdirAll(filepath.Dir(file), 0o700))
		ok(t, os.WriteFile(file, make([]byte, 100), 0o600))
		if id == old {
			hourAgo := time.Now().Add(-time.Hour)
			ok(t, os.Chtimes(file, hourAgo, hourAgo))
		}
	}
	out, errs, code := execute(t, "verify", "--data", dir)
	if code != 0 || !strings.Contains(out, "orphan\t"+filepath.Join(dir, "blobs", "ab", old)+"\t100 bytes") ||
		!strings.Contains(out, "orphans: 1, 100 bytes") || strings.Contains(out, young) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "blobs", "ab", old)); err != nil {
		t.Error("verify removed it:", err)
	}
}

// openService opens a service whose vault is in the process of the test.
func openService(ctx context.Context, cfg service.Config) (*service.Service, error) {
	cfg.Vault = vaulttest.InProcess
	return service.Open(ctx, cfg)
}
