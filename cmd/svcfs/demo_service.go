package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// demoContract is the ledger contract a self-hosted service stands for; the
// account NAME becomes NAME.svc.testnet.
const demoContract = "svc.testnet"

// demoService is the service that the demo runs inside its own process.
type demoService struct {
	url  string
	svc  *service.Service
	stop context.CancelFunc
	done chan error
}

// startDemoService serves dir on a free loopback port.
func startDemoService(dir string, log io.Writer) (*demoService, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	d := &demoService{url: "http://" + listener.Addr().String(), done: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.svc, err = service.Open(ctx, service.Config{DataDir: filepath.Join(dir, "service"), PublicURL: d.url,
		ContractID: demoContract, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		stop()
		_ = listener.Close()
		return nil, refuse(exitOther, "make room in "+dir+", or name another folder: svcfs demo DIR", fmt.Errorf("open the embedded service: %w", err))
	}
	go func() { d.done <- d.svc.Serve(ctx, listener) }()
	return d, nil
}

// close drains and ends the service.
func (d *demoService) close() error {
	d.stop()
	err := <-d.done
	if closed := d.svc.Close(); err == nil {
		err = closed
	}
	return err
}

// signInLink is an address that opens an account's page, once.
func (d *demoService) signInLink(ctx context.Context, name string) (string, error) {
	return d.svc.SignInLink(ctx, name, d.url)
}

// demoBalance is what a demo account starts with, in tokens.
const demoBalance = "1000"

// account makes the account, or takes over the one of an earlier run with a new
// key and its purse filled up to what it began with.
func (d *demoService) account(ctx context.Context, name string) (sdk.AccountID, sdk.Secret, error) {
	balance, err := wire.ParseTokens(demoBalance)
	if err != nil {
		return "", sdk.Secret{}, err
	}
	made, err := d.svc.CreateAccount(ctx, name, balance)
	if err == nil {
		return sdk.AccountID(made.AccountID), sdk.NewSecret(made.APIKey.Reveal()), nil
	}
	again, rotateErr := d.svc.RotateKey(ctx, name)
	if rotateErr != nil {
		return "", sdk.Secret{}, fmt.Errorf("create account %s: %w", name, err)
	}
	if err := d.topUp(ctx, name, sdk.AccountID(again.AccountID), balance); err != nil {
		return "", sdk.Secret{}, fmt.Errorf("fund account %s: %w", name, err)
	}
	return sdk.AccountID(again.AccountID), sdk.NewSecret(again.APIKey.Reveal()), nil
}

// topUp funds an account up to balance.
func (d *demoService) topUp(ctx context.Context, name string, id sdk.AccountID, balance sdk.Amount) error {
	c, err := sdk.New(id, sdk.Config{URL: d.url, ContractID: demoContract})
	if err != nil {
		return err
	}
	defer c.Close()
	has, err := c.Balance(ctx, id)
	if err != nil {
		return err
	}
	missing, ok := balance.Sub(has)
	if !ok || missing.IsZero() {
		return nil
	}
	_, err = d.svc.Fund(ctx, name, missing)
	return err
}

// blobPath tells where the service keeps the ciphertext of ref.
func (d *demoService) blobPath(ctx context.Context, ref sdk.Ref) (string, error) {
	return d.svc.BlobPath(ctx, string(ref))
}
