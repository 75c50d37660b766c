package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/space"
)

// maxDrainDelay bounds how long a process that was told to end goes on.
const maxDrainDelay = time.Minute

// registerServing adds the settings of a running service.
func (s *settings) registerServing(set *pflag.FlagSet) {
	set.StringVar(&s.listen, "listen", "127.0.0.1:8000", "address to listen on; port 0 takes a free one")
	set.StringVar(&s.cfg.PublicURL, "public-url", "", "address clients use (default: the address listened on)")
	s.registerBounds(set)
	set.StringVar(&s.refs, "refs", refsBafy, "references of new files: bafy, a path that clients as old as SDK 1.0.3 "+
		"accept (bafy.CONTRACT/…), or plain, without bafy")
	set.StringVar(&s.cfg.Gateway, "gateway", "", "address like https://HOST/ipfs/ that has the bytes of legacy "+
		"references, see svcd import-legacy --reference")
	set.DurationVar(&s.cfg.TokenLifetime, "token-lifetime", service.DefaultTokenLifetime,
		"how long a session token is good, at most 24h")
	set.StringToStringVar(&s.fees, "fees", nil, "prices in tokens by action, for example "+
		"upload=0.039,retrieve=0.013; [fees] in the file")
	set.StringVar(&s.logLevel, "log-level", "warn", "debug, info (every request), warn (and sign-ins), or error")
	set.StringVar(&s.logFormat, "log-format", "text", "text or json")
	set.StringVar(&s.metricsListen, "metrics-listen", "",
		"address for Prometheus on /metrics, for example 127.0.0.1:9000 (default: none)")
	set.StringVar(&s.cfg.TLSCert, "tls-cert", "", "certificate chain (PEM); read again when it changes or on SIGHUP")
	set.StringVar(&s.cfg.TLSKey, "tls-key", "", "private key of the certificate (PEM), mode 0600")
	set.StringSliceVar(&s.trustedProxies, "trusted-proxy", nil,
		"networks (CIDR) whose X-Forwarded-For is believed, for rate limits and logs")
	set.StringVar(&s.cfg.Witness, "witness", "", "address of a witness (c2sp.org/tlog-witness) that must sign every "+
		"checkpoint of the ledger before svcd publishes it, see svcd witness")
	set.StringVar(&s.cfg.WitnessKey, "witness-key", "",
		"verifier key of that witness, which svcd witness prints: NAME+HASH+KEY")
	set.DurationVar(&s.cfg.ClientTimeout, "client-timeout", service.DefaultClientTimeout,
		"how long a client may stall within a request or answer")
	set.DurationVar(&s.cfg.DrainDelay, "drain-delay", 0, "after SIGTERM, how long /health says 503 while all is "+
		"still answered, so that a load balancer goes to other processes; at most 1m")
	s.registerDelay(set)
	s.oidc.register(set)
}

// registerBounds adds what clients may take of disks, memory, connections and time.
func (s *settings) registerBounds(set *pflag.FlagSet) {
	set.Int64Var(&s.cfg.MaxFileBytes, "max-file-bytes", service.DefaultMaxFileBytes,
		"largest file accepted, in plaintext bytes")
	set.Int64Var(&s.cfg.MaxWholeBytes, "max-whole-bytes", service.DefaultMaxWholeBytes,
		"largest file accepted in one piece, as older programs send it, in plaintext bytes; never more than "+
			"--max-file-bytes")
	set.Int64Var(&s.cfg.MaxOpenBytes, "max-open-bytes", 0,
		fmt.Sprintf("most bytes of the uploads an account has begun and not finished; above it 429; "+
			"0 = the most of %d GiB, %d times --max-whole-bytes, and one file of --max-file-bytes",
			files.OpenBytes>>30, files.OpenFiles))
	set.Int64Var(&s.cfg.MaxAccountBytes, "max-account-bytes", 0,
		fmt.Sprintf("most bytes of ciphertext kept for one account, versions and unfinished uploads included; above "+
			"it 507; "+
			"0 = 1/%d of the disk of --blobs, any number in a bucket; -1 = any number", files.QuotaShare))
	set.Int64Var(&s.cfg.MaxGroupBytes, "max-group-bytes", 0,
		fmt.Sprintf("the same for one group; 0 = 1/%d of the disk of --blobs, "+
			"any number in a bucket; -1 = any number", files.QuotaShare))
	set.Int64Var(&s.cfg.ReserveBytes, "reserve-bytes", 0,
		fmt.Sprintf("bytes of the disks that uploads leave to reading, removing and administration; "+
			"0 = %d GiB, or 1/%d of a smaller disk; -1 = nothing", space.MaxReserve>>30, space.ReserveShare))
	set.IntVar(&s.cfg.MaxConnections, "max-connections", service.DefaultMaxConnections,
		"connections open at once; above it idle ones are closed")
	set.IntVar(&s.cfg.MaxPerAddress, "max-connections-per-address", 0,
		"of them, from one address that is no trusted proxy; 0 = an eighth of --max-connections")
	set.Int64Var(&s.cfg.Memory, "memory", 0, "most bytes of memory for bodies and answers of requests under way; 0 = "+
		"a quarter of the memory of the machine, or of its control group")
	set.IntVar(&s.cfg.RequestRate, "request-rate", service.DefaultRequestRate,
		"requests of one account per second, with bursts of twice as many; above it 429; -1 = no limit")
	set.IntVar(&s.cfg.FreeChanges, "free-changes", service.DefaultFreeChanges,
		"changes without a price (renames, attributes, folders, join windows, roles, retention) of one account per "+
			"day, UTC; "+
			"above it 429; -1 = any number")
}

// registerDelay adds the delay of destruction, which is one of the service and of each
// command that destroys.
func (s *settings) registerDelay(set *pflag.FlagSet) {
	set.DurationVar(&s.cfg.DestructionDelay, "destruction-delay", service.DefaultDestructionDelay,
		"delay before a change destroys many files, in which the owner of the group can cancel the change; "+
			"0 = no delay")
}

// serviceConfig checks the settings of a running service.
func (s *settings) serviceConfig() (cfg service.Config, err error) {
	cfg = s.cfg
	cfg.MasterKey, cfg.Vault, cfg.PlainRefs = s.masterKey(), s.vault, s.refs == refsPlain
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
	if cfg.TrustedProxies, err = networks(s.trustedProxies); err != nil {
		return cfg, err
	}
	if err := s.checkServing(); err != nil {
		return cfg, err
	}
	return cfg, s.checkPublicURL()
}

// checkServing refuses settings of a running service that cannot be.
func (s *settings) checkServing() error {
	for name, address := range map[string]string{"listen": s.listen, "metrics-listen": s.metricsListen} {
		if _, _, err := net.SplitHostPort(address); err != nil && address != "" {
			return usage("want HOST:PORT", "--%s %q", name, address)
		}
	}
	switch {
	case s.refs != refsBafy && s.refs != refsPlain:
		return usage(fmt.Sprintf("want %s or %s", refsBafy, refsPlain), "--refs %q", s.refs)
	case (s.cfg.Witness == "") != (s.cfg.WitnessKey == ""):
		return usage("give --witness and --witness-key together", "one of --witness and --witness-key is missing")
	case (s.cfg.TLSCert == "") != (s.cfg.TLSKey == ""):
		return usage("give --tls-cert and --tls-key together", "one of --tls-cert and --tls-key is missing")
	case s.cfg.TokenLifetime <= 0 || s.cfg.TokenLifetime > service.DefaultTokenLifetime:
		return usage("want more than 0 and at most 24h", "--token-lifetime %s", s.cfg.TokenLifetime)
	case s.cfg.DrainDelay < 0 || s.cfg.DrainDelay > maxDrainDelay:
		return usage("want 0 to 1m", "--drain-delay %s", s.cfg.DrainDelay)
	case s.cfg.DestructionDelay < 0:
		return usage("want 0 or more", "--destruction-delay %s", s.cfg.DestructionDelay)
	case s.cfg.MaxFileBytes <= 0 || s.cfg.MaxWholeBytes <= 0 || s.cfg.MaxConnections <= 0 || s.cfg.ClientTimeout <= 0:
		return usage("give each a number above 0",
			"--max-file-bytes, --max-whole-bytes, --max-connections and --client-timeout must be above 0")
	}
	if s.cfg.MaxPerAddress < 0 || s.cfg.MaxPerAddress > s.cfg.MaxConnections {
		return usage(fmt.Sprintf("want 0, or at most --max-connections: %d", s.cfg.MaxConnections),
			"--max-connections-per-address %d", s.cfg.MaxPerAddress)
	}
	if s.cfg.Memory < 0 || s.cfg.Memory > 0 && s.cfg.Memory < service.MinMemory {
		return usage(fmt.Sprintf("want 0, or at least %d bytes", service.MinMemory), "--memory %d", s.cfg.Memory)
	}
	largest := (format.Layout{Size: s.cfg.MaxFileBytes, BlockBytes: format.MinBlockBytes}).SealedBytes()
	if s.cfg.MaxOpenBytes < 0 || s.cfg.MaxOpenBytes > 0 && s.cfg.MaxOpenBytes < largest {
		return usage(fmt.Sprintf("want 0, or at least one file of --max-file-bytes, encrypted: %d", largest),
			"--max-open-bytes %d", s.cfg.MaxOpenBytes)
	}
	return nil
}

func (s *settings) checkPublicURL() error {
	if s.cfg.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(s.cfg.PublicURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" ||
		u.Fragment != "" || u.User != nil {
		return usage("want http://HOST[:PORT] or https://HOST[:PORT]", "--public-url is no address")
	}
	return nil
}

func (s *settings) feeTable() (ledger.Fees, error) {
	fees := ledger.DefaultFees()
	known := ledger.Actions()
	for action, tokens := range s.fees {
		if !slices.Contains(known, action) {
			return nil, usage(fmt.Sprintf("did you mean %q?", cli.Nearest(action, known)), "fees: unknown action %q",
				action)
		}
		amount, err := wire.ParseTokens(strings.TrimSpace(tokens))
		if err != nil {
			return nil, usage("use a number of tokens, such as 0.039", "fees: %s: %w", action, err)
		}
		fees[action] = amount
	}
	return fees, nil
}

// loggers returns the log, and the log of sign-ins. By default sign-ins are logged; with
// --log-level error they are not.
func (s *settings) loggers() (all, signIns *slog.Logger, err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return nil, nil, usage("want debug, info, warn or error", "--log-level %q", s.logLevel)
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
		return nil, nil, usage("want text or json", "--log-format %q", s.logFormat)
	}
}

// networks reads the values of --trusted-proxy.
func networks(texts []string) (list []netip.Prefix, err error) {
	for _, text := range texts {
		network, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, usage("want a network such as 10.0.0.0/8 or 127.0.0.1/32", "--trusted-proxy %q", text)
		}
		list = append(list, network.Masked())
	}
	return list, nil
}
