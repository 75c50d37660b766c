package main

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// settings are what the operator can set. Each is a flag; the flag's name in
// upper case after SVCD_ is its environment variable, and its name a key of the
// configuration file. Flag wins over environment, environment over file.
type settings struct {
	cfg service.Config // what is set as it is

	file    string       // the configuration file
	keyFrom string       // command that prints the master key
	vaultAt string       // address of the vault; "" = svcd starts one
	serves  bool         // it runs until it is ended
	begins  bool         // it may make the service in an empty data directory
	started *ownVault    // by svcd serve; nil = --vault names one
	logger  *slog.Logger // of svcd serve

	importsLegacy bool // files from before this service come in

	rotates      bool   // another master key takes the place of the one in use
	newMasterKey string // file with it; "" = beside the one in use
	insecure     bool   // talk to other machines without TLS

	listen         string
	refs           string // of new files
	oidc           oidcSettings
	fees           map[string]string // action to tokens
	logLevel       string
	logFormat      string
	metricsListen  string
	trustedProxies []string

	packaged  places
	unread    error     // why the settings of the packaged service could not be read
	effective []setting // after resolve
	lookupEnv func(string) (string, bool)
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
}

// places are where a packaged service has its settings and its data. A command takes what is there if it
// is told no --data and no --config.
type places struct{ config, data string }

func systemPlaces() places { return places{"/etc/svcd/" + settingsFile, "/var/lib/svcd"} }

// settingsFile is the name of the file that svcd init writes: in the data directory, unless a package has a place for
// it.
const settingsFile = "svcd.toml"

// isThere reports whether there is something at path, also where this user may not look.
func isThere(path string) bool {
	_, err := os.Stat(path)
	return path != "" && !errors.Is(err, fs.ErrNotExist)
}

// ofItsOwn marks a command whose data is not that of a service.
const ofItsOwn = "data of its own"

// What references of new files look like.
const (
	refsBafy  = "bafy"
	refsPlain = "plain"
)

const envPrefix = "SVCD_"

// masterKey says where the master key is; zero is the data directory.
func (s *settings) masterKey() (from service.MasterKey) {
	if s.vaultAt != "" {
		return service.MasterKey{Vault: s.vaultAt}
	}
	if s.keyFrom != "" {
		return service.MasterKey{Command: s.keyFrom}
	}
	if dir, ok := s.lookupEnv(ownfile.EnvCredentials); ok {
		file := filepath.Join(dir, vaultwire.FileName)
		if _, err := os.Stat(file); err == nil {
			return service.MasterKey{File: file}
		}
	}
	return from
}

// envName is the environment variable of a setting.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// register adds the settings that every command has.
func (s *settings) register(set *pflag.FlagSet) {
	set.StringVar(&s.file, "config", "", "configuration file (TOML; default: svcd.toml in --data, without --data "+
		"/etc/svcd/svcd.toml, where it exists); every setting has also an environment variable, SVCD_DATA for --data")
	set.StringVar(&s.cfg.DataDir, "data", "", "data directory (default: /var/lib/svcd, where it exists)")
	set.StringVar(&s.keyFrom, "master-key-command", "",
		"command that prints the master key, 32 bytes or base64 of them, run by /bin/sh "+
			"(default: the systemd credential "+vaultwire.FileName+" if there is one, "+
			"else "+vaultwire.FileName+" in the data directory, made at the first start)")
	set.StringVar(&s.vaultAt, "vault", "", "the vault that keeps the keys, unix:PATH: the socket of a svcvault that "+
		"runs (default: the svcvault beside svcd, started and ended with it)")
	set.StringVar(&s.cfg.Database, "db", "", "PostgreSQL database, postgres://USER@HOST/DATABASE; "+
		"the password in PGPASSWORD or a PGPASSFILE (default: SQLite in the data directory)")
	set.StringVar(&s.cfg.Blobs, "blobs", "", "where ciphertext is kept: a directory, or a bucket, "+
		"s3://BUCKET[/PREFIX], and behind it ?endpoint=URL &region=NAME &path-style=true as one word; "+
		"credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_SHARED_CREDENTIALS_FILE (default: blobs "+
		"in the data directory)")
	set.BoolVar(&s.insecure, "insecure-http", false,
		"allow plain http, and connections to PostgreSQL and S3 without TLS, beyond this machine")
	set.StringVar(&s.cfg.ContractID, "contract", service.DefaultContractID,
		"ledger contract id, which clients are told; it ends in .testnet for JavaScript clients, which call no main "+
			"network then")
	set.StringVar(&s.cfg.AccountDomain, "account-domain", "", "account NAME is NAME.DOMAIN, for good once there is "+
		"one: such as the host of the service (default: as before, at first the contract)")
}

// settingNames lists the settings in the order in which they are shown.
func settingNames() []string {
	var s settings
	var names []string
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	s.register(set)
	s.registerServing(set)
	set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// setting is one effective value and its source.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"` // secrets redacted
	From  string `json:"from"`
	Means string `json:"means,omitempty"` // of a number that stands for another
}

// resolve fills the settings of a command from the environment and the file, as
// far as flags did not set them.
func (s *settings) resolve(cmd *cobra.Command) error {
	names := settingNames()
	sources := cli.Sources{cli.FromEnvironment(s.lookupEnv, names, envName)}
	if flag := cmd.Flags().Lookup("config"); !flag.Changed { // says where the file is
		_ = flag.Value.Set(sources[0].Values["config"])
	}
	file, err := s.settingsOf(cmd, sources[0].Values["data"])
	if err != nil {
		return err
	}
	sources = append(sources, cli.Source{Name: "file " + s.file, Values: file})
	for _, name := range names {
		flag := cmd.Flags().Lookup(name)
		if flag == nil {
			continue
		}
		value, from := sources.Find(name)
		switch {
		case flag.Changed:
			from = "flag"
		case from == "":
			from = "default"
		default:
			if from == sources[0].Name {
				from += " " + envName(name)
			}
			if err := flag.Value.Set(value); err != nil {
				return usage("", "%s, %s: %w", name, from, err)
			}
		}
		s.effective = append(s.effective, setting{name, shown(name, flag.Value), from, meaning(flag)})
	}
	return nil
}

// visiblePassword is the flag of this command line that holds a password, and where that belongs instead; "" = none.
func (s *settings) visiblePassword() (name, instead string) {
	for _, e := range s.effective {
		if e.From != "flag" || !strings.Contains(e.Value, "redacted") {
			continue
		}
		instead = "put it into " + envName(e.Name) + " or the configuration file"
		if e.Name == "db" {
			instead = "put it into PGPASSWORD, a PGPASSFILE, " + envName(e.Name) + " or the configuration file"
		}
		return e.Name, instead
	}
	return "", ""
}

// given are the flags that say which service it is, as this command line has them, for a command that a message
// names.
func (s *settings) given() (flags string) {
	for _, e := range s.effective {
		if e.From == "flag" && slices.Contains([]string{"config", "data", "db", "blobs"}, e.Name) {
			flags += " --" + e.Name + " " + ownfile.ShellWord(e.Value)
		}
	}
	return flags
}

// settingsOf reads the configuration file. Without one it takes that in the data directory of flag or environment,
// where svcd init puts it; without such a directory, the places of the packaged service.
func (s *settings) settingsOf(cmd *cobra.Command, data string) (map[string]string, error) {
	if flag := cmd.Flags().Lookup("data"); flag.Changed {
		data = flag.Value.String()
	}
	if data != "" || cmd.Annotations[ofItsOwn] != "" {
		if own := filepath.Join(data, settingsFile); data != "" && s.file == "" && isThere(own) {
			s.file = own
		}
		return s.readFile()
	}
	if isThere(s.packaged.data) {
		s.cfg.DataDir = s.packaged.data // unless the file says otherwise
	}
	if s.file == "" && isThere(s.packaged.config) {
		s.file = s.packaged.config
		values, err := s.readFile()
		if err != nil { // a command that needs no data goes on
			s.unread = err
		}
		return values, nil
	}
	return s.readFile()
}

// meaning is what the help of a flag says that its value stands for, as in "0 = half of it"; else "".
func meaning(flag *pflag.Flag) string {
	for _, part := range strings.Split(flag.Usage, "; ") {
		if value, means, ok := strings.Cut(part, " = "); ok && value == flag.Value.String() {
			return means
		}
	}
	return ""
}

// shown is a value as it may be printed.
func shown(name string, v pflag.Value) string {
	if name == "db" || name == "blobs" || strings.Contains(v.String(), "://") {
		return redactURL(v.String())
	}
	if list, ok := v.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return strings.Trim(v.String(), "[]")
}

// redactURL takes passwords and keys out of an address.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme == "" && strings.Contains(strings.ToLower(text), "password")) {
		return "redacted"
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), "redacted")
	}
	query := u.Query()
	for name := range query {
		if hidden := strings.ToLower(name); strings.Contains(hidden, "password") ||
			strings.Contains(hidden, "secret") || strings.Contains(hidden, "key") {
			query.Set(name, "redacted")
			u.RawQuery = query.Encode()
		}
	}
	return u.String()
}

// needTLS refuses stores on other machines that are reached without TLS.
func (s *settings) needTLS() error {
	if err := errors.Join(store.CheckEncrypted(s.cfg.Database), blob.CheckEncrypted(s.cfg.Blobs)); err != nil &&
		!s.insecure {
		return usage("use TLS; --insecure-http allows it on a network that you trust", "%w", err)
	}
	return nil
}
