// Command svcd is the self-hosted service: encrypted files, groups and a ledger
// over one directory.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/svcfs/svcfs/cmd/internal/cli"
)

func main() {
	cli.RelaxTimers("serve")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
