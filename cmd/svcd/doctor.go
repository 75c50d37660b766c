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
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// errUnwell ends doctor after its lines were printed.
var errUnwell = errors.New("not all is well")

func newDoctor(s *settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check settings, data, database, file store, clock and address, and say what to do",
		Args: noArgs,
		Long: `Check settings, data, database, file store, clock and address, beside a running
service or without one. Every line that is not ✓ says what to do. The exit code
is 0 when no line is ✗.`,
		Example: "  svcd doctor --config /etc/svcd/svcd.toml\n  svcd doctor --data /var/lib/svcd --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := s.examine(cmd.Context())
			if err := s.printFindings(list, asJSON); err != nil {
				return err
			}
			_, ill := cli.FirstFailure(list)
			switch {
			case ill && asJSON:
				return refuse("each finding with the state fail says what to do", "%w", errUnwell)
			case ill:
				return refuse("each line with ✗ says what to do", "%w", errUnwell)
			}
			return nil
		},
	}
	s.registerServing(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (s *settings) printFindings(list []cli.Finding, asJSON bool) error {
	if asJSON {
		return s.printJSON(list)
	}
	marks := map[string]string{cli.StateOK: "✓", cli.StateWarn: "!", cli.StateFail: "✗"}
	for _, f := range list {
		fmt.Fprintf(s.stdout, "%s %-14s %s\n", marks[f.State], f.Check, f.Detail)
		if f.Hint != "" {
			fmt.Fprintf(s.stdout, "  %14s %s\n", "hint:", cli.HintText(f.Hint))
		}
	}
	return nil
}

// examine runs all checks; those that need what failed before are left out.
func (s *settings) examine(ctx context.Context) []cli.Finding {
	cfg, err := s.serviceConfig()
	if err != nil {
		return []cli.Finding{cli.Failed("settings", err.Error(), settingsHint(err))}
	}
	list := []cli.Finding{s.checkSettings(), checkPlace("data directory", s.cfg.DataDir, 0o700),
		s.checkMasterKey(ctx), checkFiles(s.cfg.MaxConnections), cli.CheckLockLimit(littleLocked, "enough for keys",
			"LimitMEMLOCK=1M in the unit, or ulimit -l 1024"), s.checkConfinement()}
	if s.cfg.TLSCert != "" {
		list = append(list, checkCertificate(s.cfg.TLSCert, s.cfg.TLSKey, time.Now()))
	}
	if list[1].State == cli.StateFail || list[2].State == cli.StateFail {
		return list // opening would make what is missing
	}
	if file := filepath.Join(s.cfg.DataDir, store.FileName); s.cfg.Database == "" && !isThere(file) {
		return append(list, cli.Failed("database", file+" does not exist", noDatabase))
	}
	cfg.TLSCert, cfg.TLSKey = "", ""
	svc, err := service.Open(ctx, cfg)
	if err != nil {
		hint := cmp.Or(ownHint(err), service.NextStepOf(err), ownfile.MendOf(err), stepOf(err),
			"the text says which part; svcd serve fails in the same way")
		return append(list, cli.Failed("service", err.Error(), hint))
	}
	list = append(list, checkParts(ctx, svc)...)
	if err := svc.Close(); err != nil {
		list = append(list, cli.Failed("service", err.Error(), "report this line"))
	}
	return append(list, s.checkAddress(ctx))
}

// settingsHint is what to do about settings that svcd serve refuses.
func settingsHint(err error) string {
	see := "see svcd config and svcd serve --help"
	if hint := ownHint(err); hint != "" {
		return hint + "; " + see
	}
	return cmp.Or(ownfile.MendOf(err), see)
}

// checkSettings warns of a password that every user of the machine can see.
func (s *settings) checkSettings() cli.Finding {
	if name, instead := s.visiblePassword(); name != "" {
		return cli.Failed("settings", "the password in --"+name+" is visible to every user of this machine", instead)
	}
	return cli.Passed("settings", "complete")
}

// checkMasterKey checks that the master key can be read.
func (s *settings) checkMasterKey(ctx context.Context) cli.Finding {
	from := s.masterKey()
	if from == (service.MasterKey{}) {
		return checkPlace("master key", filepath.Join(s.cfg.DataDir, vaultwire.FileName), 0o600)
	}
	v, err := s.vault(ctx, from, vaultwire.Source{}, time.Now, func(err error) error { return err })
	if err == nil {
		err = v.(io.Closer).Close()
	}
	if err != nil {
		return cli.Failed("master key", err.Error(),
			cmp.Or(ownHint(err), "svcd needs it to start: without it no file can be read"))
	}
	return cli.Passed("master key", s.whereMasterKey()+"; keep a copy elsewhere")
}

// ownHint is the next step of a failure that has one, or "".
func ownHint(err error) string {
	if own := cli.FailureOf(err); own != nil {
		return own.Hint
	}
	return ""
}

// checkPlace checks that a file or directory is there, ours, and nobody else's.
func checkPlace(check, path string, mode os.FileMode) cli.Finding {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && check == "master key":
		return cli.Failed(check, path+" is missing",
			"at a first start svcd serve makes it; else put the saved copy there with mode 0600: without it no file "+
				"can be read")
	case errors.Is(err, os.ErrNotExist):
		return cli.Failed(check, path+" does not exist", "check --data; svcd serve makes it at the first start")
	case err != nil:
		return cli.Failed(check, err.Error(), "run as the user of the service")
	case info.Mode().Perm()&0o077 != 0:
		return cli.Failed(check, fmt.Sprintf("%s may be used by others (mode %04o)", path, info.Mode().Perm()),
			fmt.Sprintf("chmod %o %s", mode, ownfile.ShellWord(path)))
	case unix.Access(path, unix.R_OK) != nil || mode&0o100 != 0 && unix.Access(path, unix.W_OK|unix.X_OK) != nil:
		return cli.Failed(check, "this user may not use "+path, "run as the user of the service, or chown it")
	}
	return cli.Passed(check, fmt.Sprintf("%s, mode %04o", path, info.Mode().Perm()))
}

// checkFiles compares the limit of open files with the connections allowed: each
// may have a blob open too.
func checkFiles(connections int) cli.Finding {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return cli.Failed("open files", err.Error(), "report this line")
	}
	need := uint64(2*connections + 100)
	if limit.Max < need { // Go raises the soft limit to the hard one
		return cli.Warned("open files", fmt.Sprintf("%d may be open, %d connections need %d", limit.Max,
			connections, need),
			fmt.Sprintf("LimitNOFILE=%d in the unit, or --max-connections %d", need, max(1, (int(limit.Max)-100)/2)))
	}
	return cli.Passed("open files", fmt.Sprintf("%d may be open", limit.Max))
}

// littleLocked is the memory that the keys of a service need, in bytes: a page each.
const littleLocked = 1 << 20

// Remaining life of a certificate that is worth a warning, and a failure.
const (
	certificateWarn = 21 * 24 * time.Hour
	certificateFail = 7 * 24 * time.Hour
)

func checkCertificate(certFile, keyFile string, now time.Time) cli.Finding {
	key, err := ownfile.Open(keyFile, ownfile.Managed)
	if err != nil {
		return cli.Failed("certificate", err.Error(), cmp.Or(ownfile.MendOf(err), "check --tls-key"))
	}
	_ = key.Close()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return cli.Failed("certificate", err.Error(), "give the chain and its key as PEM files that fit each other")
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return cli.Failed("certificate", err.Error(),
			"give the chain as a PEM file, the service's own certificate first")
	}
	left := leaf.NotAfter.Sub(now)
	detail := fmt.Sprintf("%s, valid until %s", strings.Join(leaf.DNSNames, " "),
		leaf.NotAfter.UTC().Format(time.RFC3339))
	const renew = "renew it; svcd reads the new files by itself"
	switch {
	case now.Before(leaf.NotBefore):
		return cli.Failed("certificate", "not valid before "+leaf.NotBefore.UTC().Format(time.RFC3339),
			"check this machine's clock: date -u")
	case left <= 0:
		return cli.Failed("certificate", "expired at "+leaf.NotAfter.UTC().Format(time.RFC3339), renew)
	case left < certificateFail:
		return cli.Failed("certificate", detail, renew)
	case left < certificateWarn:
		return cli.Warned("certificate", detail, renew)
	}
	return cli.Passed("certificate", detail)
}

func checkParts(ctx context.Context, svc *service.Service) []cli.Finding {
	var list []cli.Finding
	add := func(f cli.Finding) { list = append(list, f) }
	for _, p := range svc.Space() {
		add(checkSpace(p))
	}
	if detail, err := svc.CheckDatabase(ctx); err != nil {
		add(cli.Failed("database", err.Error(), "stop the service and import an archive: service/operating/backup.md"))
	} else {
		add(cli.Passed("database", detail+", no damage found"))
	}
	if may, err := svc.MayChangeLedger(ctx); err != nil {
		add(cli.Failed("ledger", err.Error(), "see the line about the database"))
	} else if may {
		add(cli.Warned("ledger", "this database role owns the ledger and could rewrite it",
			"service/operating/stores.md: let another role own the ledger table"))
	}
	if next, err := svc.MasterKeyNextStep(ctx); err != nil {
		add(cli.Failed("rotation", err.Error(), "see the line about the database"))
	} else if next != "" {
		add(cli.Warned("rotation", "another master key is being brought in: two open the database until that is "+
			"finished", next))
	}
	add(cli.Passed("vault", "keeps the keys; SHA-256 of its program "+svc.Measurement()))
	last, err := svc.LastRecord(ctx)
	switch ahead := time.Until(last); {
	case err != nil:
		add(cli.Failed("clock", err.Error(), "see the line about the database; permission denied: the database role "+
			"needs SELECT and INSERT on ledger, service/operating/stores.md"))
	case ahead > cli.ClockTolerance:
		add(cli.Failed("clock", fmt.Sprintf("the newest record is %s in the future: this clock went back",
			ahead.Round(time.Second)),
			cli.SetClock))
	default:
		add(cli.Passed("clock", "not behind the ledger: "+time.Now().UTC().Format(time.RFC3339)))
	}
	if err := svc.CheckBlobs(ctx); err != nil {
		add(cli.Failed("file store", err.Error(), "check --blobs, its credentials and its space"))
	} else {
		add(cli.Passed("file store", "written, read and deleted"))
	}
	return list
}

// checkSpace warns before uploads are refused.
func checkSpace(p space.Place) cli.Finding {
	const check = "free space"
	detail := fmt.Sprintf("%.1f of %.1f GiB are free on the disk of %s, uploads leave %.1f alone", gibibytes(p.Free),
		gibibytes(p.Size), p.Dir, gibibytes(p.Reserve))
	if p.Free < 0 {
		detail = "of the place of " + p.Name + " it is not known from here"
	}
	switch {
	case p.State == space.Full:
		return cli.Failed(check, detail, "make room: uploads are refused with 507; reading and removing go on for a "+
			"while")
	case p.State == space.Low:
		return cli.Warned(check, detail, "plan for more room, before uploads are refused")
	}
	return cli.Passed(check, detail)
}

func gibibytes(n int64) float64 { return float64(n) / (1 << 30) }

// addressTimeout bounds the look at the public address.
const addressTimeout = 10 * time.Second

// checkAddress asks the service over the address clients use.
func (s *settings) checkAddress(ctx context.Context) cli.Finding {
	url := strings.TrimRight(s.cfg.PublicURL, "/")
	if url == "" {
		return cli.Warned("address", "no --public-url: clients use the address listened on",
			"set it when clients are on other machines")
	}
	ctx, cancel := context.WithTimeout(ctx, addressTimeout)
	defer cancel()
	answer, err := cli.AskHealth(ctx, url)
	if err != nil {
		return cli.Failed("address", err.Error(), "start the service; check the proxy, the firewall, the name and "+
			"the certificate")
	}
	var health struct {
		Status  string            `json:"status"`
		Version string            `json:"version"`
		Parts   map[string]string `json:"parts"`
	}
	if json.Unmarshal(answer.Body, &health) != nil || health.Version == "" {
		return cli.Failed("address", fmt.Sprintf("%s answers %s, but not as svcd", url, answer.Status),
			"check where the proxy sends requests")
	}
	if health.Status != cli.StateOK {
		return cli.Failed("address", fmt.Sprintf("%s is %s: %v", url, health.Status, health.Parts),
			"the service's log names the cause")
	}
	if answer.Apart() > cli.ClockTolerance {
		return cli.Failed("address", fmt.Sprintf("the clock there is %s apart", answer.Apart()),
			"set both clocks: timedatectl set-ntp true")
	}
	return cli.Passed("address", fmt.Sprintf("%s answers, svcd %s", url, health.Version))
}
