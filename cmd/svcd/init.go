package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/wire"
)

// initAnswers are the answers to init, as JSON on standard input.
type initAnswers struct {
	Address string `json:"address"`  // that users call; "" = standardAddress
	TLSCert string `json:"tls_cert"` // PEM file; "" at https:// = a reverse proxy has it
	TLSKey  string `json:"tls_key"`
	Backups string `json:"backups"` // folder; "" = none
	Account string `json:"account"` // the first one; "" = none
}

const (
	standardAddress = "http://127.0.0.1:8000"
	// behindProxy is where a service listens whose TLS a reverse proxy does.
	behindProxy = "127.0.0.1:8000"
	// proxyDoesTLS is the answer that no certificate is here.
	proxyDoesTLS = "proxy"
	// none is the answer of who wants no backups, or no account: the word that the question has in brackets.
	none = "none"
)

func newInit(s *settings) *cobra.Command {
	var asJSON bool
	var balance string
	cmd := &cobra.Command{
		Use: "init", Short: "Ask for address, certificate, backups and first account, and set a service up",
		Args: noArgs,
		Long: `Set a new service up with one round of questions: the address that users call, its
certificate, the folder for backups, and the first account. Accounts are named after the host,
as in alice.files.example.org, unless --account-domain says otherwise. Each answer is checked at once.
The answers go into a file of settings: /etc/svcd/svcd.toml where svcd came from a package,
svcd.toml in the data directory else. The data directory, the master key and the first archive
are made, and the last line printed is an invite: its user gives it to svcfs setup.

Where svcd came from a package run it as root: all files go to the user svcd. Otherwise give
--data DIR.

With --json it reads the answers from standard input, as one object: address, tls_cert, tls_key,
backups and account. What is left out is http://127.0.0.1:8000, a certificate at a reverse
proxy, no backups and no account.`,
		Example: "  svcd init\n  svcd init --data ./data\n  svcd init --data ./data --json < answers.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			amount, err := wire.ParseTokens(balance)
			if err != nil {
				return usage("use a number of tokens, such as 2.5", "%w", err)
			}
			return s.init(cmd, asJSON, amount)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "read the answers as JSON, and print JSON")
	cmd.Flags().StringVar(&balance, "balance", "10", "tokens that the first account starts with")
	return cmd
}

// init sets a service up. balance is what its first account starts with.
func (s *settings) init(cmd *cobra.Command, asJSON bool, balance wire.Amount) error {
	n, err := s.newService(cmd)
	if err != nil {
		return err
	}
	n.balance = balance
	switch f, _ := s.stdin.(*os.File); {
	case asJSON:
		err = n.fromJSON(s.stdin)
	case f == nil || !term.IsTerminal(int(f.Fd())):
		err = usage("run it on a terminal, or give the answers to: svcd init --json",
			"init asks, and standard input is no terminal")
	default:
		err = n.ask(cmd.Context(), f)
	}
	if err != nil {
		return err
	}
	made, err := n.make(cmd.Context())
	if err != nil {
		return err
	}
	if asJSON {
		return s.printJSON(made)
	}
	made.print(s.stdout)
	return nil
}

// ask asks each question until its answer is good.
func (n *newService) ask(ctx context.Context, stdin io.Reader) error {
	for _, question := range []struct {
		text  string
		when  func() bool // nil = always
		check func(string) error
	}{
		{"Address that users call [" + standardAddress + "]", nil, n.takeAddress},
		{"Certificate, a PEM file, or " + proxyDoesTLS + " where a reverse proxy has it [" + proxyDoesTLS + "]",
			func() bool { return n.host.Scheme == "https" }, n.takeCertificate},
		{"Its private key, a PEM file", func() bool { return n.file.TLSCert != "" }, n.takeKey},
		{"Folder for backups, on another disk [" + none + "]", nil, unlessNone(n.takeBackups)},
		{"First account, its name [" + none + "]", nil, unlessNone(n.takeAccount)},
	} {
		for question.when == nil || question.when() {
			answer, err := cli.Ask(ctx, stdin, n.s.stderr, question.text+": ")
			if err != nil {
				return err
			}
			if err = question.check(answer); err == nil {
				break
			}
			hint := ""
			if own := cli.FailureOf(err); own != nil {
				hint = own.Hint
			}
			fmt.Fprint(n.s.stderr, cli.FailureText("svcd", err, hint))
		}
	}
	return nil
}

// unlessNone takes the word none for the empty answer that it stands for.
func unlessNone(take func(string) error) func(string) error {
	return func(answer string) error {
		if answer == none {
			answer = ""
		}
		return take(answer)
	}
}

// fromJSON takes the answers from standard input. The first that is refused ends it.
func (n *newService) fromJSON(stdin io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(stdin, cli.MaxAnswers))
	if err != nil {
		return fmt.Errorf("read the answers: %w", err)
	}
	var a initAnswers
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil || decoder.More() {
		return usage(`give {"address": …, "tls_cert": …, "tls_key": …, "backups": …, "account": …}, and no `+
			"other name, as in: svcd init --json < answers.json",
			"standard input holds no answers in JSON, or more than these")
	}
	if err := n.takeAddress(a.Address); err != nil {
		return err
	}
	if (a.TLSCert != "" || a.TLSKey != "") && n.host.Scheme != "https" {
		return usage("give an address that begins with https://", "%s has no certificate", n.file.PublicURL)
	}
	for _, take := range []func() error{
		func() error { return n.takeCertificate(a.TLSCert) },
		func() error {
			if n.file.TLSCert == "" && a.TLSKey == "" {
				return nil
			}
			return n.takeKey(a.TLSKey)
		},
		func() error { return n.takeBackups(a.Backups) },
		func() error { return n.takeAccount(a.Account) },
	} {
		if err := take(); err != nil {
			return err
		}
	}
	return nil
}

// takeAddress takes the address that users call, and where svcd listens for it.
func (n *newService) takeAddress(answer string) error {
	n.s.cfg.PublicURL = cmp.Or(answer, standardAddress)
	u, err := url.Parse(n.s.cfg.PublicURL)
	if err != nil || n.s.checkPublicURL() != nil || !isPort(u.Port()) {
		return usage("want http://HOST[:PORT] or https://HOST[:PORT]", "that is no address of a service")
	}
	if u.Scheme == "http" {
		if !n.s.insecure && !isLoopback(u.Hostname()) {
			return usage("give https://HOST; --insecure-http allows it on a network that you trust",
				"%s is plain http that other machines reach: API keys would cross the network in the clear", answer)
		}
		n.file.Listen = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80"))
	}
	n.host, n.file.PublicURL = u, n.s.cfg.PublicURL
	if n.s.cfg.AccountDomain == "" {
		n.file.AccountDomain = ""
		if host := strings.ToLower(u.Hostname()); u.Scheme == "https" && isName(host) {
			n.file.AccountDomain = host // alice.files.example.org
		}
	}
	return nil
}

// isName reports that a host is a name, and no address.
func isName(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil
}

// isPort reports that users can call a port; "" is that of the scheme.
func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// takeCertificate takes the file of the certificate, or that a proxy has it.
func (n *newService) takeCertificate(answer string) (err error) {
	if n.host.Scheme != "https" {
		return nil
	}
	if answer == "" || answer == proxyDoesTLS {
		n.file.TLSCert, n.file.TLSKey = "", ""
		n.file.Listen, n.file.TrustedProxy = behindProxy, []string{"127.0.0.1/32"}
		return nil
	}
	if _, err := os.Stat(answer); err != nil {
		return usage("name the PEM file with the certificate and those that signed it", "certificate: %w", err)
	}
	n.file.Listen, n.file.TrustedProxy = ":"+cmp.Or(n.host.Port(), "443"), nil
	n.file.TLSCert, err = filepath.Abs(answer)
	return err
}

// takeKey takes the file of the private key, and looks whether certificate, key and address fit.
func (n *newService) takeKey(answer string) (err error) {
	pair, err := tls.LoadX509KeyPair(n.file.TLSCert, answer)
	if err != nil {
		return usage("name the PEM file with the private key of the certificate", "%w", err)
	}
	if err := pair.Leaf.VerifyHostname(n.host.Hostname()); err != nil {
		return usage("take a certificate for that name, or give the name that the certificate has",
			"the certificate is not for the address: %w", err)
	}
	n.file.TLSKey, err = filepath.Abs(answer)
	return err
}

// takeBackups takes the folder of archives.
func (n *newService) takeBackups(answer string) (err error) {
	if answer == "" {
		return nil
	}
	if strings.HasPrefix(answer, "~") {
		return usage("write the whole path: no shell reads this answer", "%s is no path", answer)
	}
	if n.backups, err = filepath.Abs(answer); err != nil {
		return err
	}
	if below, err := filepath.Rel(n.file.Data, n.backups); err == nil && filepath.IsLocal(below) {
		return usage("name a folder on another disk", "%s is in the data directory: both would be lost at once",
			n.backups)
	}
	info, err := os.Stat(n.backups)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil // is made
	case err != nil:
		return usage("name a folder that svcd may write", "backups: %w", err)
	case !info.IsDir():
		return usage("name a folder", "%s is no folder", n.backups)
	}
	return nil
}
