package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/vault"
)

const (
	stateOK   = "ok"
	stateWarn = "warn"
	stateFail = "fail"
)

// finding is one line of doctor.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn or fail
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // what to do
}

func passed(check, detail string) finding { return finding{check, stateOK, detail, ""} }

func warned(check, detail, hint string) finding { return finding{check, stateWarn, detail, hint} }

func failed(check, detail, hint string) finding { return finding{check, stateFail, detail, hint} }

// errUnwell ends doctor after its lines were printed.
var errUnwell = errors.New("not all is well")

func newDoctor(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check settings, data, database, file store, clock and address, and say what to do", Args: noArgs,
		Long: `Check settings, data, database, file store, clock and address, beside a running
service or without one. Every line that is not ✓ says what to do. The exit code
is 0 when no line is ✗.`,
		Example: "  svcd doctor --config /etc/svcd/svcd.toml\n  svcd doctor --data /var/lib/svcd --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := s.examine(cmd.Context())
			if err := s.printFindings(list, asJSON); err != nil {
				return err
			}
			for _, f := range list {
				if f.State == stateFail {
					return errUnwell
				}
			}
			return nil
		},
	}
	s.registerServing(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (s *settings) printFindings(list []finding, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(s.stdout).Encode(list)
	}
	marks := map[string]string{stateOK: "✓", stateWarn: "!", stateFail: "✗"}
	for _, f := range list {
		fmt.Fprintf(s.stdout, "%s %-14s %s\n", marks[f.State], f.Check, f.Detail)
		if f.Hint != "" {
			fmt.Fprintf(s.stdout, "  %14s %s\n", "do:", f.Hint)
		}
	}
	return nil
}

// examine runs all checks; those that need what failed before are left out.
func (s *settings) examine(ctx context.Context) []finding {
	cfg, err := s.serviceConfig()
	if err != nil {
		return []finding{failed("settings", err.Error(), cmp.Or(ownfile.MendOf(err), "see svcd config and svcd serve --help"))}
	}
	list := []finding{s.checkSettings(), checkPlace("data directory", s.data, 0o700),
		s.checkMasterKey(ctx), checkFiles(s.maxConnections), checkLockLimit(), s.checkConfinement()}
	if s.tlsCert != "" {
		list = append(list, checkCertificate(s.tlsCert, s.tlsKey, time.Now()))
	}
	if list[1].State == stateFail || list[2].State == stateFail {
		return list // opening would make what is missing
	}
	cfg.TLSCert, cfg.TLSKey = "", ""
	svc, err := service.Open(ctx, cfg)
	if err != nil {
		return append(list, failed("service", err.Error(), "the text says which part; svcd serve fails in the same way"))
	}
	list = append(list, checkParts(ctx, svc)...)
	if err := svc.Close(); err != nil {
		list = append(list, failed("service", err.Error(), "report this line"))
	}
	return append(list, s.checkAddress(ctx))
}

// checkSettings warns of a password that every user of the machine can see.
func (s *settings) checkSettings() finding {
	for _, l := range s.effective {
		if l.From == "flag" && strings.Contains(l.Value, "redacted") {
			return failed("settings", "the password in --"+l.Name+" is visible to every user of this machine",
				"put it into "+envName(l.Name)+", the configuration file, or a PGPASSFILE")
		}
	}
	return passed("settings", "complete")
}

// checkMasterKey checks that the master key can be read.
func (s *settings) checkMasterKey(ctx context.Context) finding {
	from := s.masterKey()
	if from == (service.MasterKey{}) {
		return checkPlace("master key", filepath.Join(s.data, vault.FileName), 0o600)
	}
	if _, err := from.Read(ctx); err != nil {
		return failed("master key", err.Error(), cmp.Or(ownfile.MendOf(err), "svcd needs it to start: without it no file can be read"))
	}
	return passed("master key", s.whereMasterKey()+"; keep a copy elsewhere")
}

// checkPlace checks that a file or directory is there, ours, and nobody else's.
func checkPlace(check, path string, mode os.FileMode) finding {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && check == "master key":
		return failed(check, path+" is missing", "at a first start svcd serve makes it; else put the saved copy there with mode 0600: without it no file can be read")
	case errors.Is(err, os.ErrNotExist):
		return failed(check, path+" does not exist", "check --data; svcd serve makes it at the first start")
	case err != nil:
		return failed(check, err.Error(), "run as the user of the service")
	case info.Mode().Perm()&0o077 != 0:
		return failed(check, fmt.Sprintf("%s may be used by others (mode %04o)", path, info.Mode().Perm()), fmt.Sprintf("chmod %o %s", mode, path))
	case unix.Access(path, unix.R_OK) != nil || mode&0o100 != 0 && unix.Access(path, unix.W_OK|unix.X_OK) != nil:
		return failed(check, "this user may not use "+path, "run as the user of the service, or chown it")
	}
	return passed(check, fmt.Sprintf("%s, mode %04o", path, info.Mode().Perm()))
}

// checkFiles compares the limit of open files with the connections allowed: each
// may have a blob open too.
func checkFiles(connections int) finding {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return failed("open files", err.Error(), "report this line")
	}
	need := uint64(2*connections + 100)
	if limit.Max < need { // Go raises the soft limit to the hard one
		return warned("open files", fmt.Sprintf("%d may be open, %d connections need %d", limit.Max, connections, need),
			fmt.Sprintf("LimitNOFILE=%d in the unit, or --max-connections %d", need, max(1, (int(limit.Max)-100)/2)))
	}
	return passed("open files", fmt.Sprintf("%d may be open", limit.Max))
}

// littleLocked is the memory that the keys of a service need, in bytes: a page each.
const littleLocked = 1 << 20

// checkLockLimit looks at what may be kept from a swap device.
func checkLockLimit() finding {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return failed("locked memory", err.Error(), "report this line")
	}
	if limit.Cur < littleLocked {
		return warned("locked memory", fmt.Sprintf("only %d bytes may be locked: keys may be written to a swap device", limit.Cur), "LimitMEMLOCK=1M in the unit, or ulimit -l 1024")
	}
	return passed("locked memory", "enough for keys")
}

// Remaining life of a certificate that is worth a warning, and a failure.
const (
	certificateWarn = 21 * 24 * time.Hour
	certificateFail = 7 * 24 * time.Hour
)

func checkCertificate(certFile, keyFile string, now time.Time) finding {
	key, err := ownfile.Open(keyFile, ownfile.Managed)
	if err != nil {
		return failed("certificate", err.Error(), cmp.Or(ownfile.MendOf(err), "check --tls-key"))
	}
	_ = key.Close()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return failed("certificate", err.Error(), "give the chain and its key as PEM files that fit each other")
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return failed("certificate", err.Error(), "give the chain as a PEM file, the service's own certificate first")
	}
	left := leaf.NotAfter.Sub(now)
	detail := fmt.Sprintf("%s, valid until %s", strings.Join(leaf.DNSNames, " "), leaf.NotAfter.UTC().Format(time.RFC3339))
	const renew = "renew it; svcd reads the new files by itself"
	switch {
	case now.Before(leaf.NotBefore):
		return failed("certificate", "not valid before "+leaf.NotBefore.UTC().Format(time.RFC3339), "check this machine's clock: date -u")
	case left <= 0:
		return failed("certificate", "expired at "+leaf.NotAfter.UTC().Format(time.RFC3339), renew)
	case left < certificateFail:
		return failed("certificate", detail, renew)
	case left < certificateWarn:
		return warned("certificate", detail, renew)
	}
	return passed("certificate", detail)
}

// clockTolerance is how far clocks may be apart: tokens have a leeway of 30 s.
const clockTolerance = 30 * time.Second

func checkParts(ctx context.Context, svc *service.Service) []finding {
	var list []finding
	add := func(f finding) { list = append(list, f) }
	for _, p := range svc.Space() {
		add(checkSpace(p))
	}
	if detail, err := svc.CheckDatabase(ctx); err != nil {
		add(failed("database", err.Error(), "stop the service and restore a backup: service/OPERATING.md, Backup and restore"))
	} else {
		add(passed("database", detail+", no damage found"))
	}
	if may, err := svc.MayChangeLedger(ctx); err != nil {
		add(failed("ledger", err.Error(), "see the line about the database"))
	} else if may {
		add(warned("ledger", "this database role owns the ledger and could rewrite it", "service/OPERATING.md, PostgreSQL: let another role own the ledger table"))
	}
	if next, err := svc.MasterKeyNextStep(ctx); err != nil {
		add(failed("rotation", err.Error(), "see the line about the database"))
	} else if next != "" {
		add(warned("rotation", "another master key is being brought in: two open the database until that is finished", next))
	}
	last, err := svc.LastRecord(ctx)
	switch ahead := time.Until(last); {
	case err != nil:
		add(failed("clock", err.Error(), "see the line about the database"))
	case ahead > clockTolerance:
		add(failed("clock", fmt.Sprintf("the newest record is %s in the future: this clock went back", ahead.Round(time.Second)),
			"set the clock: timedatectl set-ntp true"))
	default:
		add(passed("clock", "not behind the ledger: "+time.Now().UTC().Format(time.RFC3339)))
	}
	if err := svc.CheckBlobs(ctx); err != nil {
		add(failed("file store", err.Error(), "check --blobs, its credentials and its space"))
	} else {
		add(passed("file store", "written, read and deleted"))
	}
	return list
}

// checkSpace warns before uploads are refused.
func checkSpace(p space.Place) finding {
	const check = "free space"
	detail := fmt.Sprintf("%.1f of %.1f GiB are free on the disk of %s, uploads leave %.1f alone", gibibytes(p.Free), gibibytes(p.Size), p.Dir, gibibytes(p.Reserve))
	if p.Free < 0 {
		detail = "of the place of " + p.Name + " it is not known from here"
	}
	switch {
	case p.State == space.Full:
		return failed(check, detail, "make room: uploads are refused with 507; reading and removing go on for a while")
	case p.State == space.Low:
		return warned(check, detail, "plan for more room, before uploads are refused")
	}
	return passed(check, detail)
}

func gibibytes(n int64) float64 { return float64(n) / (1 << 30) }

// addressTimeout bounds the look at the public address.
const addressTimeout = 10 * time.Second

// checkAddress asks the service over the address clients use.
func (s *settings) checkAddress(ctx context.Context) finding {
	url := strings.TrimRight(s.publicURL, "/")
	if url == "" {
		return warned("address", "no --public-url: clients use the address listened on", "set it when clients are on other machines")
	}
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+wire.PathHealth, nil)
	if err != nil {
		return failed("address", err.Error(), "check --public-url")
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return failed("address", err.Error(), "start the service; check the proxy, the firewall, the name and the certificate")
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var health struct {
		Status  string            `json:"status"`
		Version string            `json:"version"`
		Parts   map[string]string `json:"parts"`
	}
	if err != nil || json.Unmarshal(raw, &health) != nil || health.Version == "" {
		return failed("address", fmt.Sprintf("%s answers %s, but not as svcd", url, resp.Status), "check where the proxy sends requests")
	}
	if health.Status != stateOK {
		return failed("address", fmt.Sprintf("%s is %s: %v", url, health.Status, health.Parts), "the service's log names the cause")
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil && time.Since(date).Abs() > clockTolerance {
		return failed("address", fmt.Sprintf("the clock there is %s apart", time.Since(date).Round(time.Second).Abs()), "set both clocks: timedatectl set-ntp true")
	}
	return passed("address", fmt.Sprintf("%s answers, svcd %s", url, health.Version))
}
