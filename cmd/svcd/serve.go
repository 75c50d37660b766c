package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/service"
)

func newServe(s *settings) *cobra.Command {
	var profile string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the service", Args: noArgs,
		Long: `Run the service. It prints "listening on URL" when it is ready. SIGTERM ends it
after what is under way; SIGHUP has the certificate read again.`,
		Example: "  svcd serve --data ./data\n  svcd serve --data /var/lib/svcd --listen 0.0.0.0:8000 \\\n" +
			"      --public-url https://files.example.org",
		RunE: func(cmd *cobra.Command, _ []string) error {
			stop, err := cli.StartProfile(profile)
			if err != nil {
				return err
			}
			return errors.Join(s.serve(cmd.Context()), stop())
		},
	}
	s.registerServing(cmd.Flags())
	cmd.Flags().StringVar(&profile, "cpuprofile", "", "write a CPU profile to this file")
	_ = cmd.Flags().MarkHidden("cpuprofile") // exists
	return cmd
}

// The limit of the process, above which garbage is collected more often: memoryBeside
// bytes more than --memory, for connections, database and the rest, but at most
// memoryTimes --memory, which is a quarter of the machine's memory by default.
const (
	memoryBeside = 512 << 20
	memoryTimes  = 3
)

func (s *settings) serve(ctx context.Context) error {
	s.serves = true
	cfg, err := s.serviceConfig()
	if err != nil {
		return err
	}
	s.logger = cfg.Logger
	listeners, err := listenOn(s.listen, s.metricsListen)
	if err != nil {
		return err
	}
	if cfg.PublicURL == "" {
		cfg.PublicURL = cfg.Scheme() + "://" + listeners[0].Addr().String()
	}
	if err := inTheClear(cfg.PublicURL, listeners[0].Addr()); err != nil && !s.insecure {
		return errors.Join(err, closeAll(listeners))
	}
	svc, err := service.Open(ctx, cfg)
	if err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	if err := s.confine(cfg); err != nil {
		return errors.Join(err, svc.Close(), closeAll(listeners))
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(min(svc.Memory()+memoryBeside, memoryTimes*svc.Memory()))
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // before anybody knows the process
	defer signal.Stop(hangup)
	fmt.Fprintln(s.stdout, "listening on", cfg.PublicURL) // who connects now is answered as soon as the service runs
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return svc.Serve(ctx, listeners[0]) })
	if len(listeners) > 1 {
		cfg.Logger.Info("metrics", "url", "http://"+listeners[1].Addr().String()+"/metrics")
		all.Go(func() error { return svc.ServeMetrics(ctx, listeners[1]) })
	}
	if s.started != nil {
		all.Go(func() error { return s.started.outlive(ctx) })
	}
	all.Go(func() error {
		reloadOn(ctx, hangup, svc.Reload)
		return nil
	})
	return errors.Join(all.Wait(), svc.Close())
}

// inTheClear refuses plain http that other machines reach, over which API keys
// and sessions would cross a network in the clear.
func inTheClear(publicURL string, listening net.Addr) error {
	if strings.HasPrefix(publicURL, "https://") { // a certificate, or a proxy that has one
		return nil
	}
	what := ""
	if u, err := url.Parse(publicURL); err != nil || !strings.EqualFold(u.Hostname(), "localhost") &&
		!net.ParseIP(u.Hostname()).IsLoopback() {
		what = publicURL
	}
	if tcp, ok := listening.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		what = "http://" + listening.String()
	}
	if what == "" {
		return nil
	}
	return usage("give --tls-cert and --tls-key, or let a proxy do TLS and give --public-url https://HOST; "+
		"--insecure-http allows it on a network that you trust",
		"%s is plain http that other machines reach: API keys would cross the network in the clear", what)
}

// reloadOn calls reload at every signal until ctx ends.
func reloadOn(ctx context.Context, signals <-chan os.Signal, reload func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			reload()
		}
	}
}

// listenOn opens every address that is not empty.
func listenOn(addresses ...string) (list []net.Listener, err error) {
	for _, address := range addresses {
		if address == "" {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			hint := "choose another address"
			if errors.Is(err, syscall.EADDRINUSE) {
				hint = "stop what has it, perhaps this service itself, and see it with: ss -ltnp; or choose another " +
					"address with --listen, and with --public-url what users call"
			}
			return nil, errors.Join(refuse(hint, "listen: %w", err), closeAll(list))
		}
		list = append(list, l)
	}
	return list, nil
}

func closeAll(list []net.Listener) error {
	var all error
	for _, l := range list {
		all = errors.Join(all, l.Close())
	}
	return all
}
