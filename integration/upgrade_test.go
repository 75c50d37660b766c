package integration

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
)

// Three processes behind Caddy, with its example file, are replaced one after the other while clients save, read,
// delete and change members over TLS. No call fails beyond what a client repeats by itself, and the history of all
// calls has an order that explains it. On the way the schema is expanded, as the first process of the next version
// does it.
func TestRollingUpgrade(t *testing.T) {
	proctest.Long(t)
	proctest.Need(t, "caddy")
	random := rand.New(rand.NewPCG(testSeed(t), 0))
	c := newCluster(t, 3)
	c.flags = []string{"--drain-delay", "5s"} // Caddy asks once a second
	for _, m := range c.processes {
		c.stop(m)
		c.start(m)
	}
	front, through := c.caddy(t)
	on := func(p *person, _ int) *sdk.Client {
		client, err := sdk.New(sdk.AccountID(p.id), sdk.Config{APIKey: sdk.NewSecret(p.key), URL: front,
			Network: sdk.Testnet, ContractID: "svc.testnet", Timeout: proctest.Hang, Transport: through})
		ok(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	expanded := 0
	h := c.history(t, random, on, func(h *clusterHistory) {
		for _, m := range c.processes {
			c.stop(m)
			expanded++
			expand(t, c.database, expanded)
			c.start(m)
			proctest.Eventually(t, "the new process is ready", func() bool {
				resp, err := http.Get(m.url + "/health")
				if err != nil {
					return false
				}
				_ = resp.Body.Close()
				return resp.StatusCode == http.StatusOK
			})
			c.allAnswer(t, h)
		}
	})
	for _, err := range h.failed {
		if !errors.Is(err, sdk.ErrDeleted) { // another client was faster
			t.Errorf("a call failed: %v", err)
		}
	}
	if out := c.operator("audit"); !strings.Contains(out, "intact") {
		t.Error(out)
	}
}

// caddy starts Caddy with the example before the processes, and returns its address and a transport that knows its
// certificate.
func (c *cluster) caddy(t *testing.T) (address string, through *http.Transport) {
	t.Helper()
	text, err := os.ReadFile("../service/examples/Caddyfile")
	ok(t, err)
	address = "https://localhost:" + proctest.FreePort(t)
	var processes []string
	for _, m := range c.processes {
		processes = append(processes, strings.TrimPrefix(m.url, "http://"))
	}
	dir := c.mkdir("caddy")
	write(t, filepath.Join(dir, "Caddyfile"), append([]byte("{\n\tadmin off\n\tskip_install_trust\n"+
		"\tauto_https disable_redirects\n}\n"), text...))
	cmd := exec.Command("caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile")
	log := &safeBuffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir,
		"SVCD_HOST=" + address, "SVCD_PROCESSES=" + strings.Join(processes, " ")}
	ok(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // what it says is in the log
		if t.Failed() {
			t.Log(log)
		}
	})
	through = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true}
	t.Cleanup(through.CloseIdleConnections)
	proctest.Eventually(t, "Caddy answers for the processes", func() bool {
		root, err := os.ReadFile(filepath.Join(dir, "caddy", "pki", "authorities", "local", "root.crt"))
		if err != nil || !through.TLSClientConfig.RootCAs.AppendCertsFromPEM(root) {
			return false
		}
		resp, err := (&http.Client{Transport: through}).Get(address + "/health")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return address, through
}

// expand does to the schema what the next version may do beside this one: it adds a column that has a default.
func expand(t *testing.T, database string, n int) {
	t.Helper()
	db, err := sql.Open("pgx", database)
	ok(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), fmt.Sprintf("ALTER TABLE files ADD COLUMN note%d TEXT NOT NULL DEFAULT ''", n))
	ok(t, err)
}
