package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

// settings are what the operator can set. Each is a flag; the flag's name in
// upper case after SVCD_ is its environment variable, and its name a key of the
// configuration file. Flag wins over environment, environment over file.
type settings struct {
	cfg service.Config // what is set as it is

	file     string // the configuration file
	keyFrom  string // command that prints the master key
	insecure bool   // talk to other machines without TLS

	listen         string
	refs           string // of new files
	oidc           oidcSettings
	fees           map[string]string // action to tokens
	logLevel       string
	logFormat      string
	metricsListen  string
	trustedProxies []string

	effective []setting // after resolve
	lookupEnv func(string) (string, bool)
	stdout    io.Writer
	stderr    io.Writer
}

// What references of new files look like.
const (
	refsBafy  = "bafy"
	refsPlain = "plain"
)

const envPrefix = "SVCD_"

// masterKey says where the master key is; zero is the data directory.
func (s *settings) masterKey() (from service.MasterKey) {
	if s.keyFrom != "" {
		return service.MasterKey{Command: s.keyFrom}
	}
	if dir, ok := s.lookupEnv(ownfile.EnvCredentials); ok {
		file := filepath.Join(dir, vault.FileName)
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
	set.StringVar(&s.file, "config", "", "configuration file (TOML); every setting has also an environment variable, SVCD_DATA for --data")
	set.StringVar(&s.cfg.DataDir, "data", "", "data directory (required)")
	set.StringVar(&s.keyFrom, "master-key-command", "", "command that prints the master key, 32 bytes or base64 of them, run by /bin/sh "+
		"(default: the systemd credential "+vault.FileName+" if there is one, else "+vault.FileName+" in the data directory, made at the first start)")
	set.StringVar(&s.cfg.Database, "db", "", "PostgreSQL database, postgres://USER@HOST/DATABASE; "+
		"the password in PGPASSWORD or a PGPASSFILE (default: SQLite in the data directory)")
	set.StringVar(&s.cfg.Blobs, "blobs", "", "where ciphertext is kept: a directory, or s3://BUCKET[/PREFIX]?endpoint=URL&region=NAME&path-style=true; "+
		"credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_SHARED_CREDENTIALS_FILE (default: blobs in the data directory)")
	set.BoolVar(&s.insecure, "insecure-http", false, "allow plain http, and connections to PostgreSQL and S3 without TLS, beyond this machine")
	set.StringVar(&s.cfg.ContractID, "contract", service.DefaultContractID, "ledger contract id; account NAME is NAME.CONTRACT")
}

// registerServing adds the settings of a running service.
func (s *settings) registerServing(set *pflag.FlagSet) {
	set.StringVar(&s.listen, "listen", "127.0.0.1:8000", "address to listen on; port 0 takes a free one")
	set.StringVar(&s.cfg.PublicURL, "public-url", "", "address clients use (default: the address listened on)")
	set.Int64Var(&s.cfg.MaxFileBytes, "max-file-bytes", service.DefaultMaxFileBytes, "largest file accepted, in plaintext bytes")
	set.Int64Var(&s.cfg.MaxOpenBytes, "max-open-bytes", 0, fmt.Sprintf("most bytes of the uploads an account has begun and not finished; above it 429; "+
		"0 = %d GiB, or %d times --max-file-bytes if that is more", files.OpenBytes>>30, files.OpenFiles))
	set.Int64Var(&s.cfg.MaxAccountBytes, "max-account-bytes", 0, fmt.Sprintf("most bytes of ciphertext kept for one account, versions and unfinished uploads included; above it 507; "+
		"0 = 1/%d of the disk of --blobs, any number in a bucket; -1 = any number", files.QuotaShare))
	set.Int64Var(&s.cfg.MaxGroupBytes, "max-group-bytes", 0, "the same for one group")
	set.Int64Var(&s.cfg.ReserveBytes, "reserve-bytes", 0, fmt.Sprintf("bytes of the disks that uploads leave to reading, removing and administration; "+
		"0 = %d GiB, or 1/%d of a smaller disk; -1 = nothing", space.MaxReserve>>30, space.ReserveShare))
	set.StringVar(&s.refs, "refs", refsBafy, "references of new files: bafy.CONTRACT/fastfs.CONTRACT/…, "+
		"which clients as old as SDK 1.0.3 accept, or plain without bafy.")
	set.StringVar(&s.cfg.Gateway, "gateway", "", "address like https://HOST/ipfs/ that has the bytes of legacy references, see svcd import-legacy --reference")
	set.DurationVar(&s.cfg.TokenLifetime, "token-lifetime", service.DefaultTokenLifetime, "how long a session token is good, at most 24h")
	set.StringToStringVar(&s.fees, "fees", nil, "prices in tokens by action, for example upload=0.039,retrieve=0.013; [fees] in the file")
	set.StringVar(&s.logLevel, "log-level", "warn", "debug, info (every request), warn (and sign-ins), or error")
	set.StringVar(&s.logFormat, "log-format", "text", "text or json")
	set.StringVar(&s.metricsListen, "metrics-listen", "", "address for Prometheus on /metrics, for example 127.0.0.1:9000 (default: none)")
	set.StringVar(&s.cfg.TLSCert, "tls-cert", "", "certificate chain (PEM); read again when it changes or on SIGHUP")
	set.StringVar(&s.cfg.TLSKey, "tls-key", "", "private key of the certificate (PEM), mode 0600")
	set.StringSliceVar(&s.trustedProxies, "trusted-proxy", nil, "networks (CIDR) whose X-Forwarded-For is believed, for rate limits and logs")
	set.IntVar(&s.cfg.MaxConnections, "max-connections", service.DefaultMaxConnections, "connections open at once; above it idle ones are closed")
	set.IntVar(&s.cfg.MaxPerAddress, "max-connections-per-address", 0, "of them, from one address that is no trusted proxy; 0 = an eighth of them")
	set.Int64Var(&s.cfg.Memory, "memory", 0, "most bytes of memory for bodies and answers of requests under way; 0 = a quarter of the machine's memory")
	set.IntVar(&s.cfg.RequestRate, "request-rate", service.DefaultRequestRate, "requests of one account per second, with bursts of twice as many; above it 429; -1 = no limit")
	set.IntVar(&s.cfg.FreeChanges, "free-changes", service.DefaultFreeChanges, "changes without a price (renames, join windows, roles, retention) of one account per day, UTC; "+
		"above it 429; -1 = any number")
	set.StringVar(&s.cfg.Witness, "witness", "", "address of a witness (c2sp.org/tlog-witness) that must sign every checkpoint of the ledger before svcd publishes it, see svcd witness")
	set.StringVar(&s.cfg.WitnessKey, "witness-key", "", "verifier key of that witness, which svcd witness prints: NAME+HASH+KEY")
	set.DurationVar(&s.cfg.ClientTimeout, "client-timeout", service.DefaultClientTimeout, "how long a client may stall within a request or answer")
	set.DurationVar(&s.cfg.DestructionDelay, "destruction-delay", service.DefaultDestructionDelay, "delay before a change destroys many files, in which the owner of the group can cancel the change; "+
		"0 = no delay")
	s.oidc.register(set)
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
}

// resolve fills the settings of a command from the environment and the file, as
// far as flags did not set them.
func (s *settings) resolve(cmd *cobra.Command) error {
	names := settingNames()
	sources := cli.Sources{cli.FromEnvironment(s.lookupEnv, names, envName)}
	if flag := cmd.Flags().Lookup("config"); !flag.Changed { // says where the file is
		_ = flag.Value.Set(sources[0].Values["config"])
	}
	file, err := s.readFile()
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
				return usageError{fmt.Errorf("%s, %s: %w", name, from, err)}
			}
		}
		s.effective = append(s.effective, setting{name, shown(name, flag.Value), from})
	}
	return nil
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
		if hidden := strings.ToLower(name); strings.Contains(hidden, "password") || strings.Contains(hidden, "secret") || strings.Contains(hidden, "key") {
			query.Set(name, "redacted")
			u.RawQuery = query.Encode()
		}
	}
	return u.String()
}

// readFile reads the configuration file into values as flags take them.
func (s *settings) readFile() (map[string]string, error) {
	if s.file == "" {
		return nil, nil
	}
	values, err := cli.ReadFile(s.file, s.parse, password)
	var wrong usageError
	if err == nil || errors.As(err, &wrong) {
		return values, err
	}
	return nil, usageError{fmt.Errorf("read configuration: %w", err)}
}

func (s *settings) parse(text []byte) (map[string]string, error) {
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		line := 0
		var at *toml.DecodeError // its text may quote a secret
		if errors.As(err, &at) {
			line, _ = at.Position()
		}
		return nil, usageError{fmt.Errorf("%s line %d is not TOML: write NAME = \"VALUE\"", s.file, line)}
	}
	known := settingNames()
	values := make(map[string]string)
	for name, v := range tree {
		if name == "config" || !slices.Contains(known, name) {
			return nil, usageError{fmt.Errorf("%s: unknown setting %q; did you mean %q? All are: %s", s.file, name, cli.Nearest(name, known), strings.Join(known[1:], " "))}
		}
		var err error
		if values[name], err = flat(v); err != nil {
			return nil, usageError{fmt.Errorf("%s: %s: %w", s.file, name, err)}
		}
	}
	return values, nil
}

// password says which setting of a file holds one, so that others may not read it.
func password(values map[string]string) string {
	for _, name := range []string{"db", "blobs"} {
		if value := values[name]; redactURL(value) != value {
			return "a password in " + name
		}
	}
	return ""
}

// flat writes a TOML value as its flag takes it: lists with commas, tables as
// NAME=VALUE with commas.
func flat(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int64, bool:
		return fmt.Sprint(v), nil
	case []any:
		var parts []string
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return "", errors.New("a list holds strings")
			}
			parts = append(parts, text)
		}
		return strings.Join(parts, ","), nil
	case map[string]any:
		var parts []string
		for name, item := range v {
			text, ok := item.(string)
			if !ok {
				return "", fmt.Errorf("%s: put the value in quotes: amounts are exact", name)
			}
			parts = append(parts, name+"="+text)
		}
		slices.Sort(parts)
		return strings.Join(parts, ","), nil
	default:
		return "", errors.New("put the value in quotes")
	}
}

// needTLS refuses stores on other machines that are reached without TLS.
func (s *settings) needTLS() error {
	if err := errors.Join(store.CheckEncrypted(s.cfg.Database), blob.CheckEncrypted(s.cfg.Blobs)); err != nil && !s.insecure {
		return usageError{fmt.Errorf("%w; --insecure-http allows it on a network that you trust", err)}
	}
	return nil
}

// serviceConfig checks the settings of a running service.
func (s *settings) serviceConfig() (cfg service.Config, err error) {
	cfg = s.cfg
	cfg.MasterKey, cfg.PlainRefs = s.masterKey(), s.refs == refsPlain
	if err := s.needData(); err != nil {
		return cfg, err
	}
	if err := s.needTLS(); err != nil {
		return cfg, err
	}
	if s.cfg.DestructionDelay == 0 {
		cfg.DestructionDelay = -1 // none
	}
	if cfg.OIDC, err = s.oidc.config(); err != nil {
		return cfg, err
	}
	if cfg.Logger, cfg.SignInLogger, err = s.loggers(); err != nil {
		return cfg, err
	}
	if cfg.Fees, err = s.feeTable(); err != nil {
		return cfg, err
	}
	for _, text := range s.trustedProxies {
		network, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return cfg, usageError{fmt.Errorf("--trusted-proxy %q: want a network such as 10.0.0.0/8 or 127.0.0.1/32", text)}
		}
		cfg.TrustedProxies = append(cfg.TrustedProxies, network.Masked())
	}
	for name, address := range map[string]string{"listen": s.listen, "metrics-listen": s.metricsListen} {
		if _, _, err := net.SplitHostPort(address); err != nil && address != "" {
			return cfg, usageError{fmt.Errorf("--%s %q: want HOST:PORT", name, address)}
		}
	}
	switch {
	case s.refs != refsBafy && s.refs != refsPlain:
		return cfg, usageError{fmt.Errorf("--refs %q: want %s or %s", s.refs, refsBafy, refsPlain)}
	case (s.cfg.Witness == "") != (s.cfg.WitnessKey == ""):
		return cfg, usageError{errors.New("give --witness and --witness-key together")}
	case (s.cfg.TLSCert == "") != (s.cfg.TLSKey == ""):
		return cfg, usageError{errors.New("give --tls-cert and --tls-key together")}
	case s.cfg.TokenLifetime <= 0 || s.cfg.TokenLifetime > service.DefaultTokenLifetime:
		return cfg, usageError{fmt.Errorf("--token-lifetime %s: want more than 0 and at most 24h", s.cfg.TokenLifetime)}
	case s.cfg.DestructionDelay < 0:
		return cfg, usageError{fmt.Errorf("--destruction-delay %s: want 0 or more", s.cfg.DestructionDelay)}
	case s.cfg.MaxFileBytes <= 0 || s.cfg.MaxConnections <= 0 || s.cfg.ClientTimeout <= 0:
		return cfg, usageError{errors.New("--max-file-bytes, --max-connections and --client-timeout must be above 0")}
	}
	if s.cfg.MaxPerAddress < 0 || s.cfg.MaxPerAddress > s.cfg.MaxConnections {
		return cfg, usageError{fmt.Errorf("--max-connections-per-address %d: want 0, or at most --max-connections: %d", s.cfg.MaxPerAddress, s.cfg.MaxConnections)}
	}
	if s.cfg.Memory < 0 || s.cfg.Memory > 0 && s.cfg.Memory < service.MinMemory {
		return cfg, usageError{fmt.Errorf("--memory %d: want 0, or at least %d bytes", s.cfg.Memory, service.MinMemory)}
	}
	if s.cfg.MaxOpenBytes < 0 || s.cfg.MaxOpenBytes > 0 && s.cfg.MaxOpenBytes < s.cfg.MaxFileBytes+format.Overhead {
		return cfg, usageError{fmt.Errorf("--max-open-bytes %d: want 0, or at least one file of --max-file-bytes, encrypted: %d", s.cfg.MaxOpenBytes, s.cfg.MaxFileBytes+format.Overhead)}
	}
	return cfg, s.checkPublicURL()
}

func (s *settings) checkPublicURL() error {
	if s.cfg.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(s.cfg.PublicURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return usageError{errors.New("--public-url: want http://HOST or https://HOST")}
	}
	return nil
}

func (s *settings) feeTable() (ledger.Fees, error) {
	fees := ledger.DefaultFees()
	known := ledger.Actions()
	for action, tokens := range s.fees {
		if !slices.Contains(known, action) {
			return nil, usageError{fmt.Errorf("fees: unknown action %q; did you mean %q?", action, cli.Nearest(action, known))}
		}
		amount, err := wire.ParseTokens(strings.TrimSpace(tokens))
		if err != nil {
			return nil, usageError{fmt.Errorf("fees: %s: %w", action, err)}
		}
		fees[action] = amount
	}
	return fees, nil
}

// loggers returns the log, and that of sign-ins: they are there by default, and
// gone with --log-level error.
func (s *settings) loggers() (all, signIns *slog.Logger, err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return nil, nil, usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", s.logLevel)}
	}
	signInLevel := level
	if level <= slog.LevelWarn {
		signInLevel = min(level, slog.LevelInfo)
	}
	switch s.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: level})),
			slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: signInLevel})), nil
	case "json":
		return slog.New(slog.NewJSONHandler(s.stderr, &slog.HandlerOptions{Level: level})),
			slog.New(slog.NewJSONHandler(s.stderr, &slog.HandlerOptions{Level: signInLevel})), nil
	default:
		return nil, nil, usageError{fmt.Errorf("--log-format %q: want text or json", s.logFormat)}
	}
}
