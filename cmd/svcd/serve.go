package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/service"
)

// What references of new files look like.
const (
	refsBafy  = "bafy"
	refsPlain = "plain"
)

func newServe(s *settings) *cobra.Command {
	var listen, public, level string
	var maxFile int64
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the service", Args: noArgs,
		Example: "  svcd serve --data ./data\n  svcd serve --data /var/lib/svcd --listen 0.0.0.0:8000 --public-url https://files.example.org",
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := s.logger(level)
			if err != nil {
				return err
			}
			if s.refs != refsBafy && s.refs != refsPlain {
				return usageError{fmt.Errorf("--refs %q: want %s or %s", s.refs, refsBafy, refsPlain)}
			}
			return s.serve(cmd.Context(), listen, public, maxFile, log)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8000", "address to listen on; port 0 takes a free one")
	cmd.Flags().StringVar(&public, "public-url", "", "address clients use (default: http:// and the address listened on)")
	cmd.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	cmd.Flags().Int64Var(&maxFile, "max-file-bytes", service.DefaultMaxFileBytes, "largest file accepted, in plaintext bytes")
	cmd.Flags().StringVar(&s.refs, "refs", refsBafy, "references of new files: bafy.CONTRACT/fastfs.CONTRACT/…, which clients as old as SDK 1.0.3 accept, or plain without bafy.")
	cmd.Flags().StringVar(&s.gateway, "gateway", "", "address like https://HOST/ipfs/ that has the bytes of legacy references, see svcd import-legacy --reference")
	s.oidc.register(cmd.Flags())
	return cmd
}

func (s *settings) logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level %q: want debug, info, warn or error", level)}
	}
	return slog.New(slog.NewTextHandler(s.stderr, &slog.HandlerOptions{Level: l})), nil
}

func (s *settings) serve(ctx context.Context, listen, public string, maxFile int64, log *slog.Logger) error {
	if s.data == "" {
		return usageError{errors.New("no data directory: give --data DIR")}
	}
	if err := harden(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	url := "http://" + l.Addr().String()
	if public != "" {
		url = public
	}
	svc, err := s.open(ctx, url, maxFile, log)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	fmt.Fprintln(s.stdout, "listening on", url)
	return errors.Join(svc.Serve(ctx, l), svc.Close())
}
