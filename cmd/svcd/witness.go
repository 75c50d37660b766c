package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/svcfs/svcfs/service/witness"
)

func newWitness(s *settings) *cobra.Command {
	var listen, name string
	var logs, proxies []string
	var replay bool
	cmd := &cobra.Command{
		Use: "witness", Short: "Run a witness of other services' ledgers", Args: noArgs,
		Annotations: map[string]string{ofItsOwn: "true"},
		Long: `Run a witness (c2sp.org/tlog-witness) for the ledgers of other services. The witness
signs a checkpoint of a ledger only if the checkpoint continues the last one that the
witness signed. A service with a witness (svcd serve --witness) cannot show different
histories to members who require that witness (svcfs --require-witness). Run the
witness where the operator of the service has no access.

The witness prints its key, and "listening on URL" when it is ready. --data holds the
key and the newest checkpoint of each ledger: if --data is lost, a new witness begins.

With --replay, the service also sends the witness the chain (hashed) and a hash of
each record, and the witness computes all that it signs. Use it where the
operator could show a group another chain of records at another time, and you may know
how active each account and group is. Begin with a new --data: nothing is said of what
its key signed before.`,
		Example: "  svcd witness --data /var/lib/svcd-witness --name witness.example.net \\\n" +
			"      --log files.example.org/svc.testnet+93defd88+AfyI7vdOx2wUxaT2pHZ5…",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.needData(); err != nil {
				return err
			}
			if len(logs) == 0 {
				return usage("give --log KEY, as https://HOST/tlog/key shows it", "no log to witness")
			}
			w, err := witness.Open(s.cfg.DataDir, name, logs)
			if err != nil {
				return err
			}
			w.Replays = replay
			trusted, err := networks(proxies)
			if err != nil {
				return err
			}
			return s.serveWitness(cmd.Context(), w.Server(trusted), w.Key(), listen)
		},
	}
	cmd.Flags().StringVar(&s.cfg.DataDir, "data", "",
		"folder with the key of the witness and the newest checkpoint of each ledger")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8001",
		"address to listen on; port 0 takes a free one. A proxy does TLS where it is needed: nothing secret passes, "+
			"but for who is active with --replay")
	cmd.Flags().StringVar(&name, "name", "svcd-witness", "name of the witness in its key, such as witness.example.net")
	cmd.Flags().StringArrayVar(&logs, "log", nil, "verifier key of a log to witness; may be given several times")
	cmd.Flags().BoolVar(&replay, "replay", false,
		"compute both trees of each ledger from its records, which svcd sends, and sign nothing else")
	cmd.Flags().StringSliceVar(&proxies, "trusted-proxy", nil,
		"networks (CIDR) whose X-Forwarded-For is believed, for the limits of each address")
	return cmd
}

// witnessDrain is how long a witness that ends waits for requests under way.
const witnessDrain = 10 * time.Second

func (s *settings) serveWitness(ctx context.Context, server *http.Server, key, address string) error {
	listeners, err := listenOn(address)
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		if err := server.Serve(listeners[0]); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	all.Go(func() error {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), witnessDrain)
		defer cancel()
		return server.Shutdown(end)
	})
	fmt.Fprintln(s.stdout, "witness key", key)
	fmt.Fprintln(s.stdout, "listening on http://"+listeners[0].Addr().String())
	return all.Wait()
}
