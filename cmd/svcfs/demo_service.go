package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// demoContract is the ledger contract a self-hosted service stands for; the
// account NAME becomes NAME.svc.testnet.
const demoContract = "svc.testnet"

// serviceProgram is the name of the service's program.
const serviceProgram = "svcd"

// findService returns the path of svcd: beside this program, or in PATH. What go
// run made has no neighbour, so that svcd is built into dir.
func findService(ctx context.Context, dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), serviceProgram)
	if path, err := exec.LookPath(beside); err == nil {
		return path, nil
	}
	if strings.Contains(self, "/go-build") {
		return buildService(ctx, dir)
	}
	path, err := exec.LookPath(serviceProgram)
	if err != nil {
		return "", refuse(exitOther, "put svcd there; 'make build' makes both programs", fmt.Errorf("svcd, the service, is neither %s nor in PATH", beside))
	}
	return path, nil
}

// buildService makes svcd from the sources around the working directory.
func buildService(ctx context.Context, dir string) (string, error) {
	root := repositoryRoot()
	if root == "" {
		return "", refuse(exitOther, "run it in the folder of the sources, or use 'make build'", errors.New("svcd, the service, is not built"))
	}
	path := filepath.Join(dir, serviceProgram)
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/svcd")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", refuse(exitOther, "run 'go build ./cmd/svcd' in "+root+" to see why", fmt.Errorf("build svcd: %w: %s", err, firstLine(out)))
	}
	return path, nil
}

// demoService is the service of the demo, a process of its own.
type demoService struct {
	program string
	data    string
	url     string
	process *exec.Cmd
}

// startDemoService serves dir on a free loopback port.
func startDemoService(ctx context.Context, program, dir string, log io.Writer) (*demoService, error) {
	d := &demoService{program: program, data: filepath.Join(dir, "service")}
	said := &serviceLog{log: log}
	d.process = d.command(context.WithoutCancel(ctx), "serve", "--listen", "127.0.0.1:0", "--log-level", "info")
	d.process.Stderr = said
	// Ctrl-C reaches the demo, which ends the service last; should the demo be
	// killed, the service ends by itself.
	d.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := d.process.StdoutPipe()
	if err == nil {
		err = d.process.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		_ = d.process.Wait()
		return nil, refuse(exitOther, "make room in "+dir+", or name another folder: svcfs demo DIR", fmt.Errorf("start the service: %w", said.failure()))
	}
	d.url = url
	return d, nil
}

// command is svcd beside the running service, with none of the user's settings.
func (d *demoService) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.program, append(args, "--data", d.data, "--contract", demoContract)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "SVC") || strings.HasPrefix(pair, "CREDENTIALS_DIRECTORY=")
	})
	return cmd
}

// ask runs svcd beside the running service and returns what it prints.
func (d *demoService) ask(ctx context.Context, args ...string) ([]byte, error) {
	said := &serviceLog{log: io.Discard}
	cmd := d.command(ctx, args...)
	cmd.Stderr = said
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(ctx.Err(), said.failure())
	}
	return out, nil
}

// serviceLog passes on what svcd says and keeps the line on which it failed. A log
// that is full does not stop svcd.
type serviceLog struct {
	log    io.Writer
	failed []byte
}

func (l *serviceLog) Write(p []byte) (int, error) {
	_, _ = l.log.Write(p)
	for line := range bytes.Lines(p) {
		if text, ok := bytes.CutPrefix(line, []byte(serviceProgram+": ")); ok {
			l.failed = bytes.Clone(bytes.TrimSpace(text))
		}
	}
	return len(p), nil
}

// failure is why svcd ended; it has ended.
func (l *serviceLog) failure() error {
	if l.failed == nil {
		return errors.New("svcd ended without a reason")
	}
	return errors.New(string(l.failed))
}

// close drains and ends the service.
func (d *demoService) close() error {
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return d.process.Wait()
}

// signInLink is an address that opens an account's page, once.
func (d *demoService) signInLink(ctx context.Context, name string) (string, error) {
	out, err := d.ask(ctx, "account", "link", name, "--public-url", d.url)
	return strings.TrimSpace(string(out)), err
}

// demoBalance is what a demo account starts with, in tokens.
const demoBalance = "1000"

// account makes the account, or takes over the one of an earlier run with a new
// key and its purse filled up to what it began with.
func (d *demoService) account(ctx context.Context, name string) (sdk.AccountID, sdk.Secret, error) {
	made, err := d.ask(ctx, "account", "create", name, "--balance", demoBalance)
	if err != nil {
		again, rotateErr := d.ask(ctx, "account", "rotate-key", name)
		if rotateErr != nil {
			return "", sdk.Secret{}, fmt.Errorf("create account %s: %w", name, err)
		}
		made = again
	}
	defer clear(made)
	var answer struct {
		Account sdk.AccountID `json:"account_id"`
		Key     string        `json:"api_key"`
	}
	if parseErr := json.Unmarshal(made, &answer); parseErr != nil {
		return "", sdk.Secret{}, fmt.Errorf("create account %s: %w", name, parseErr)
	}
	if err != nil {
		if err := d.topUp(ctx, name, answer.Account); err != nil {
			return "", sdk.Secret{}, fmt.Errorf("fund account %s: %w", name, err)
		}
	}
	return answer.Account, sdk.NewSecret(answer.Key), nil
}

// topUp funds an account up to demoBalance.
func (d *demoService) topUp(ctx context.Context, name string, id sdk.AccountID) error {
	balance, err := wire.ParseTokens(demoBalance)
	if err != nil {
		return err
	}
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
	_, err = d.ask(ctx, "account", "fund", name, missing.Tokens())
	return err
}

// ciphertext tells where the service keeps the ciphertext of ref, and its first bytes.
func (d *demoService) ciphertext(ctx context.Context, ref sdk.Ref) (where string, begins []byte, err error) {
	out, err := d.ask(ctx, "where", string(ref))
	if err == nil {
		var text string
		where, text, _ = strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
		begins, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil || len(begins) == 0 {
		return "", nil, refuse(exitOther, d.program+" must be of the same version as svcfs; 'make build' makes both programs", err)
	}
	return where, begins, nil
}
