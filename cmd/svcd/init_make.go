package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// serviceUser is the user that a package makes for svcd.
const serviceUser = "svcd"

// newService is a service that init sets up.
type newService struct {
	s       *settings
	file    newFile
	path    string   // of the settings
	host    *url.URL // that users call
	backups string   // folder; "" = none
	account string   // "" = none
	balance wire.Amount
	owner   *user.User // of all files, who root becomes; nil = who runs this
}

// newFile is the file of settings that init writes.
type newFile struct {
	Data             string   `toml:"data"`
	Listen           string   `toml:"listen"`
	PublicURL        string   `toml:"public-url"`
	TLSCert          string   `toml:"tls-cert,omitempty"`
	TLSKey           string   `toml:"tls-key,omitempty"`
	TrustedProxy     []string `toml:"trusted-proxy,omitempty"`
	DB               string   `toml:"db,omitempty"`
	Blobs            string   `toml:"blobs,omitempty"`
	Contract         string   `toml:"contract,omitempty"`
	AccountDomain    string   `toml:"account-domain,omitempty"`
	MasterKeyCommand string   `toml:"master-key-command,omitempty"`
	Vault            string   `toml:"vault,omitempty"`
	InsecureHTTP     bool     `toml:"insecure-http,omitempty"`
}

// madeService is what init prints as JSON.
type madeService struct {
	Config  string   `json:"config"`
	Data    string   `json:"data"`
	Address string   `json:"address"`
	Archive string   `json:"archive,omitempty"` // the first one
	Account string   `json:"account_id,omitempty"`
	Invite  string   `json:"invite,omitempty"` // of the account
	Next    []string `json:"next"`             // what to do now
}

// newService finds out where the service will be, and refuses one that has settings.
func (s *settings) newService(cmd *cobra.Command) (*newService, error) {
	n := &newService{s: s}
	data := s.cfg.DataDir
	if owner, err := user.Lookup(serviceUser); err == nil && os.Geteuid() == 0 &&
		(data == "" || data == s.packaged.data) {
		n.owner, data = owner, s.packaged.data
	}
	if data == "" {
		return nil, usage("give --data DIR; where svcd came from a package, run it as root: sudo svcd init",
			"no data directory")
	}
	data, err := filepath.Abs(data)
	if err != nil {
		return nil, err
	}
	n.path = filepath.Join(data, settingsFile)
	if data == s.packaged.data {
		n.path = s.packaged.config
	}
	for _, path := range []string{s.file, n.path} {
		if isThere(path) {
			of := " --config " + ownfile.ShellWord(path)
			return nil, usage("change that file, and see what it means with: svcd config"+of+"; an invite is made "+
				"with: svcd invite NAME"+of, "%s has the settings of a service already", path)
		}
	}
	s.cfg.DataDir = data
	n.file = newFile{Data: data, InsecureHTTP: s.insecure}
	for name, into := range map[string]*string{"db": &n.file.DB, "blobs": &n.file.Blobs,
		"contract": &n.file.Contract, "account-domain": &n.file.AccountDomain,
		"master-key-command": &n.file.MasterKeyCommand, "vault": &n.file.Vault} {
		if flag := cmd.Flag(name); flag.Value.String() != flag.DefValue {
			*into = flag.Value.String()
		}
	}
	return n, nil
}

// takeAccount takes the name of the first account.
func (n *newService) takeAccount(answer string) error {
	if answer != "" && !service.IsAccountName(answer) {
		return usage("use 2 to 64 of a-z, 0-9, _ and -", "%q is no name of an account", answer)
	}
	n.account = answer
	return nil
}

// make makes the service by its answers. The settings come last but for the invite, so that init can be run again
// after a failure.
func (n *newService) make(ctx context.Context) (made madeService, err error) {
	if err := n.own(); err != nil {
		return made, err
	}
	cfg := n.s.cfg
	cfg.DataDir, cfg.TLSCert, cfg.TLSKey = n.file.Data, n.file.TLSCert, n.file.TLSKey
	cfg.MasterKey, cfg.Vault, cfg.AccountDomain = n.s.masterKey(), n.s.vault, n.file.AccountDomain
	if err := n.s.needTLS(); err != nil {
		return made, err
	}
	svc, err := service.Open(ctx, cfg)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, svc.Close()) }()
	made = madeService{Config: n.path, Data: n.file.Data, Address: n.file.PublicURL}
	if n.backups != "" {
		if made.Archive, err = n.firstArchive(ctx, svc); err != nil {
			return made, err
		}
	}
	if err := n.write(); err != nil {
		return made, err
	}
	if n.account != "" {
		invited, invite, err := svc.Invite(ctx, n.account, n.balance, n.file.PublicURL)
		if err != nil {
			return made, err
		}
		made.Account, made.Invite = invited.Account, invite.Text()
	}
	made.Next = n.next()
	return made, nil
}

// own makes the folders, and has root become the user of the service.
func (n *newService) own() error {
	folders := []string{n.file.Data}
	if n.backups != "" {
		folders = append(folders, n.backups)
	}
	if n.owner == nil {
		for _, dir := range folders {
			if err := ownfile.MakeFolder(dir); err != nil {
				return refuse("name a folder that you may make", "%w", err)
			}
		}
		return nil
	}
	uid, err1 := strconv.Atoi(n.owner.Uid)
	gid, err2 := strconv.Atoi(n.owner.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("look up user %s: %w", serviceUser, err)
	}
	for _, dir := range append(folders, filepath.Dir(n.path)) {
		if isThere(dir) && dir != n.file.Data && dir != filepath.Dir(n.path) {
			continue // its owner has it so
		}
		if err := ownfile.MakeFolder(dir); err != nil {
			return err
		}
		if err := os.Chown(dir, uid, gid); err != nil {
			return fmt.Errorf("give a folder to %s: %w", serviceUser, err)
		}
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
		return fmt.Errorf("become %s: %w", serviceUser, err)
	}
	return nil
}

// firstArchive writes an archive, so that it is known that the folder takes one. What is there of today stays.
func (n *newService) firstArchive(ctx context.Context, svc *service.Service) (string, error) {
	path := filepath.Join(n.backups, time.Now().Format(time.DateOnly))
	if isThere(path) {
		return path, nil
	}
	quiet := *n.s
	quiet.stdout = io.Discard
	path, err := quiet.backup(ctx, svc, n.backups, time.Now(), true)
	if err != nil {
		return "", refuse("name a folder that the user of the service may write", "the first archive: %w", err)
	}
	return path, nil
}

func (n *newService) write() error {
	var text bytes.Buffer
	text.WriteString("# Written by svcd init. Every name is also a flag and an environment variable, and svcd config " +
		"shows all.\n")
	if err := toml.NewEncoder(&text).Encode(n.file); err != nil {
		return err
	}
	if err := ownfile.Create(n.path, text.Bytes()); err != nil {
		return refuse("run it as a user who may write there, such as root", "write settings: %w", err)
	}
	return nil
}

// next is what is left to the operator.
func (n *newService) next() (list []string) {
	if n.file.MasterKeyCommand == "" {
		list = append(list, "copy "+n.s.whereMasterKey()+" to a safe, away from the archives: without it no file can "+
			"be read again")
	}
	if _, port, _ := net.SplitHostPort(n.file.Listen); n.owner != nil && len(port) < 4 {
		list = append(list, "let the unit listen on port "+port+": service/operating/certificates.md")
	}
	start, of, program := "sudo systemctl enable --now svcd", "", "svcd"
	if n.path != n.s.packaged.config {
		of = " --data " + ownfile.ShellWord(n.file.Data)
		start = "svcd serve" + of
		if path, err := os.Executable(); err == nil { // cron looks in /usr/bin and /bin
			program = ownfile.ShellWord(path)
		}
	}
	list = append(list, "start it with: "+start, "invite others with: svcd invite NAME"+of)
	if n.backups == "" {
		return append(list, "make backups: svcd backup --help")
	}
	if onOneDisk(n.backups, n.file.Data) {
		list = append(list, "copy "+n.backups+" to another machine or disk, too: it is on the disk of the data")
	}
	line := program + " backup " + ownfile.ShellWord(n.backups) + of
	return append(list, "have cron of the service's user write an archive each night, with the line: 0 3 * * * "+
		strings.ReplaceAll(line, "%", `\%`)) // where cron would end the command
}

// onOneDisk reports that two folders are lost with one disk, as far as the kernel tells.
func onOneDisk(a, b string) bool {
	var at, bt unix.Stat_t
	return unix.Stat(a, &at) == nil && unix.Stat(b, &bt) == nil && at.Dev == bt.Dev
}

// print prints what was made, the invite last.
func (m madeService) print(w io.Writer) {
	pairs := [][2]string{{"settings", m.Config}, {"data", m.Data}, {"address", m.Address}}
	if m.Archive != "" {
		pairs = append(pairs, [2]string{"archive", m.Archive})
	}
	for _, next := range m.Next {
		pairs = append(pairs, [2]string{"next", next})
	}
	for _, p := range pairs {
		fmt.Fprintf(w, "%-9s %s\n", p[0], p[1])
	}
	if m.Invite != "" {
		fmt.Fprintf(w, "%-9s for %s, once, within %d days; its user gives it to svcfs setup:\n%s\n", "invite",
			m.Account, int(service.InviteLifetime.Hours()/24), m.Invite) // shown here and nowhere else
	}
}
