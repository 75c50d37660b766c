package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/sdk/proof"
)

// Names of the settings, in the environment and in the configuration file.
const (
	envAccount    = "SVC_ACCOUNT_ID"
	envKey        = "SVC_API_KEY"
	envKeyFile    = "SVC_API_KEY_FILE"
	envKeyCommand = "SVC_API_KEY_COMMAND"
	envURL        = "SVC_URL"
	envAuthURL    = "SVC_AUTH_URL"
	envMCPURL     = "SVC_MCP_URL"
	envRPCURL     = "SVC_RPC_URL"
	envContract   = "SVC_CONTRACT_ID"
	envNetwork    = "SVC_NETWORK"
	envInsecure   = "SVC_INSECURE_HTTP"
	envLogKey     = "SVC_LOG_KEY"
	envWitness    = "SVC_WITNESS"
	envWitnessAge = "SVC_WITNESS_AGE"
	envListMemory = "SVC_LIST_MEMORY"
	envLimit      = "SVC_LIMIT"
	// envMountOptions are options of every mount, as after -o.
	envMountOptions = "SVC_MOUNT_OPTIONS"
)

// settingNames lists what a configuration file may hold.
func settingNames() []string {
	return []string{envAccount, envKey, envKeyFile, envKeyCommand, envURL, envAuthURL, envMCPURL, envRPCURL,
		envContract, envNetwork, envInsecure, envLogKey, envWitness, envWitnessAge, envListMemory, envLimit,
		envMountOptions}
}

// environment is the process environment, replaceable in tests.
type environment struct {
	lookup func(name string) (string, bool)
	unset  func(name string) error
}

func processEnv() environment { return environment{lookup: os.LookupEnv, unset: os.Unsetenv} }

func (e environment) get(name string) string {
	value, _ := e.lookup(name)
	return value
}

// settingFlags are the command-line flags behind the settings. The API key
// itself is never one: a command line is visible to every user of a machine.
type settingFlags struct {
	account, url, network, keyFile, keyCommand, config, logKey, witness, witnessAge, listMemory, limit string
	insecureHTTP                                                                                       bool
}

func (f *settingFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.account, "account", "", "account id (environment: "+envAccount+")")
	set.StringVar(&f.url, "url", "", "address of a self-hosted service (environment: "+envURL+")")
	set.StringVar(&f.network, "network", "",
		"mainnet or testnet of the hosted service (environment: "+envNetwork+"; default mainnet)")
	set.StringVar(&f.keyFile, "api-key-file", "", "file with the API key, mode 0600; - reads standard input "+
		"(environment: "+envKeyFile+", or "+envKey+" with the key itself)")
	set.StringVar(&f.keyCommand, "api-key-command", "",
		"command whose first line of output is the API key (environment: "+envKeyCommand+")")
	set.StringVar(&f.config, "config", "", "configuration file of KEY=VALUE lines (default ~/.config/svcfs/config)")
	set.StringVar(&f.logKey, "log-key", "", "verifier key of the service's log, from its operator; svcfs refuses "+
		"records without a proof by this key (environment: "+envLogKey+"; default: the one seen first)")
	set.StringVar(&f.witness, "require-witness", "",
		"verifier key of a witness that must have signed every checkpoint (environment: "+envWitness+")")
	set.StringVar(&f.witnessAge, "witness-age", "",
		"with --require-witness, how old its signature may be, such as 1h "+
			"(environment: "+envWitnessAge+"; default 10m, at most 24h)")
	set.StringVar(&f.listMemory, "list-memory", "",
		"memory for the lists of groups together, such as 1G "+
			"(environment: "+envListMemory+"; default "+sizeWords(sdk.DefaultListMemory)+")")
	set.StringVar(&f.limit, "limit", "",
		"most bytes a second, down and up, such as 2M or 2M:500K (environment: "+envLimit+"; default off)")
	set.BoolVar(&f.insecureHTTP, "insecure-http", false,
		"allow http:// to a host that is not this machine (environment: "+envInsecure+"=1)")
}

// settings is what a client is made from, with where each part came from.
type settings struct {
	account    sdk.AccountID
	config     sdk.Config // without the API key
	accountVia string     // source of the account id
	urlVia     string     // source of the address, "" for the hosted service
	key        keySource
}

// keySource says where the API key is; readKey fetches the key.
type keySource struct {
	kind  string // one of the env… key names, a store's name, or "" when there is none
	value string // key, path or command
	via   string // level it came from
}

// String tells where the key is, never the key.
func (k keySource) String() string { return k.kind + " (from " + k.via + ")" }

// loadSettings resolves every setting: flag before environment before file. It
// takes the API key out of the process environment, so that no child inherits
// it; what the kernel keeps of the initial environment is closed to other
// processes because the process is not dumpable.
func (a *app) loadSettings() (settings, error) {
	sources, err := a.settingSources()
	if err != nil {
		return settings{}, err
	}
	var s settings
	account, via := sources.Find(envAccount)
	s.account, s.accountVia = sdk.AccountID(account), via
	s.config.ContractID, _ = sources.Find(envContract)
	s.config.Network, _ = sources.Find(envNetwork)
	insecure, _ := sources.Find(envInsecure)
	s.config.InsecureHTTP = insecure == "1" || insecure == "true"
	s.config.LogKey, _ = sources.Find(envLogKey)
	s.config.Witness, _ = sources.Find(envWitness)
	if s.config.WitnessAge, err = witnessAge(sources); err != nil {
		return settings{}, err
	}
	if s.config.ListMemory, err = listMemory(sources); err != nil {
		return settings{}, err
	}
	if s.config.Limit, err = speedLimit(sources); err != nil {
		return settings{}, err
	}
	s.config.StateDir = a.userDir("XDG_STATE_HOME", ".local/state", "")
	s.config.SpoolDir = a.userDir("XDG_CACHE_HOME", ".cache", "")
	s.setAddresses(sources)
	s.key = findKey(sources)
	if n := s.config.Network; n != "" && n != "mainnet" && n != "testnet" {
		return settings{}, usage("use mainnet or testnet, or --url for a service of your own",
			fmt.Sprintf("unknown network %q", n))
	}
	return s, nil
}

// witnessAge reads how old the signature of a witness may be; 0 = the default.
func witnessAge(sources cli.Sources) (time.Duration, error) {
	text, via := sources.Find(envWitnessAge)
	if text == "" {
		return 0, nil
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < time.Second || age > proof.MaxWitnessAge {
		return 0, usage("give a time such as 10m, at most 24h",
			fmt.Sprintf("age of the signature of a witness %q, from %s", text, via))
	}
	if witness, _ := sources.Find(envWitness); witness == "" && via == fromCommandLine {
		return 0, usage("give the key of the witness as well, with --require-witness",
			"--witness-age is about a witness, and none is required")
	}
	return age, nil
}

// leastListMemory is the smallest memory for lists, in bytes: some thousand files.
const leastListMemory = 8 << 20

// listMemory reads the memory for lists, in bytes; 0 = the default.
func listMemory(sources cli.Sources) (int64, error) {
	text, via := sources.Find(envListMemory)
	if text == "" {
		return 0, nil
	}
	var size byteSize
	if err := size.Set(text); err != nil || size < leastListMemory {
		return 0, usage(
			"give a size such as "+sizeWords(2*sdk.DefaultListMemory)+", at least "+sizeWords(leastListMemory),
			fmt.Sprintf("memory for lists %q, from %s", text, via))
	}
	return int64(size), nil
}

// setAddresses takes the addresses. One address for all, and a network, hide the addresses of later sources.
func (s *settings) setAddresses(sources cli.Sources) {
	for _, l := range sources {
		c := &s.config
		for name, field := range map[string]*string{envAuthURL: &c.AuthURL, envMCPURL: &c.MCPURL,
			envRPCURL: &c.RPCURL} {
			if *field == "" {
				*field = l.Values[name]
			}
			if *field != "" && s.urlVia == "" {
				s.urlVia = l.Name
			}
		}
		if url := l.Values[envURL]; url != "" {
			c.URL, s.urlVia = url, l.Name
			return
		}
		if l.Values[envNetwork] != "" {
			return
		}
	}
}

func findKey(sources cli.Sources) keySource {
	for _, l := range sources {
		for _, kind := range []string{envKey, envKeyFile, envKeyCommand} {
			if value := l.Values[kind]; value != "" {
				return keySource{kind: kind, value: value, via: l.Name}
			}
		}
	}
	return keySource{}
}

// fromCommandLine is the source of settings that flags give.
const fromCommandLine = "command line"

func (a *app) settingSources() (cli.Sources, error) {
	if a.flags.keyFile != "" && a.flags.keyCommand != "" {
		return nil, usage("give one of them", "both --api-key-file and --api-key-command were given")
	}
	fromFlags := map[string]string{envAccount: a.flags.account, envURL: a.flags.url, envNetwork: a.flags.network,
		envLogKey: a.flags.logKey, envWitness: a.flags.witness, envWitnessAge: a.flags.witnessAge,
		envListMemory: a.flags.listMemory, envLimit: a.flags.limit,
		envKeyFile: a.flags.keyFile, envKeyCommand: a.flags.keyCommand}
	if a.flags.insecureHTTP {
		fromFlags[envInsecure] = "1"
	}
	maps.DeleteFunc(fromFlags, func(_, value string) bool { return value == "" })
	fromEnv := cli.FromEnvironment(a.env.lookup, settingNames(), func(name string) string { return name })
	if err := a.env.unset(envKey); err != nil {
		return nil, fmt.Errorf("take the API key out of the environment: %w", err)
	}
	sources := cli.Sources{{Name: fromCommandLine, Values: fromFlags}, fromEnv}
	fromFile, err := a.settingsFile()
	if fromFile == nil {
		return sources, err
	}
	return append(sources, cli.Source{Name: a.configPath(), Values: fromFile}), nil
}

// settingsFile reads the configuration file; nil when there is none.
func (a *app) settingsFile() (map[string]string, error) {
	path := a.configPath()
	if path == "" {
		return nil, nil
	}
	values, err := readConfig(path)
	if errors.Is(err, os.ErrNotExist) && (a.flags.config == "" || a.makes) {
		return nil, nil
	}
	return values, err
}

// mountOptions returns the options that the settings have for every mount.
func (a *app) mountOptions() ([]string, error) {
	text := a.env.get(envMountOptions)
	if text == "" {
		values, err := a.settingsFile()
		if err != nil {
			return nil, err
		}
		text = values[envMountOptions]
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' }), nil
}

// configPath returns the configuration file's path, or "" when there is none: by
// --config=/dev/null, or for an account without a home directory.
func (a *app) configPath() string {
	if a.flags.config == os.DevNull {
		return ""
	}
	if a.flags.config != "" {
		return a.flags.config
	}
	return a.userDir("XDG_CONFIG_HOME", ".config", "config")
}

// userDir returns a path of ours below the directory that an XDG variable
// names, or below its default in the home directory; "" without either.
func (a *app) userDir(variable, fallback, name string) string {
	if dir := a.env.get(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "svcfs", name)
	}
	if home := a.env.get("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, fallback, "svcfs", name)
	}
	return ""
}

// readConfig reads KEY=VALUE lines; blank lines and lines that begin with # are
// skipped.
func readConfig(path string) (map[string]string, error) {
	values, err := cli.ReadFile(path, func(text []byte) (map[string]string, error) { return parseConfig(text, path) },
		func(values map[string]string) string {
			if values[envKey] == "" {
				return ""
			}
			return "an API key"
		})
	if err == nil || cli.FailureOf(err) != nil {
		return values, err
	}
	return nil, refuse(exitUsage, cmp.Or(ownfile.MendOf(err), "check the path and its permissions"),
		fmt.Errorf("read settings: %w", err))
}

func parseConfig(text []byte, path string) (map[string]string, error) {
	values := make(map[string]string)
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || !slices.Contains(settingNames(), name) {
			hint := "known settings: " + strings.Join(settingNames(), " ")
			if !ok {
				hint = "settings are KEY=VALUE lines"
			}
			// The line itself is not shown: it may hold a key.
			return nil, usage(hint, fmt.Sprintf("%s line %d: not a known setting", path, n))
		}
		values[name] = unquote(strings.TrimSpace(value))
	}
	return values, nil
}

// unquote takes one pair of quotes off, as a shell would.
func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}
