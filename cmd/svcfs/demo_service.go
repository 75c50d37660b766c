package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/svcfs/svcfs/sdk"
)

const (
	// demoContract is the ledger contract a self-hosted service stands for; the
	// account NAME becomes NAME.svc.testnet.
	demoContract = "svc.testnet"
	// demoBalance is what a demo account starts with, in tokens: enough for all runs in a folder.
	demoBalance = "1000000"
	// serviceProgram is the name of the service's program.
	serviceProgram = "svcd"
)

// findService returns the path of svcd: beside this program, or in PATH. What go
// run made has no neighbour, so that svcd is built into dir.
func findService(ctx context.Context, dir string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), serviceProgram)
	if found, err := exec.LookPath(beside); err == nil {
		return found, nil
	}
	if strings.Contains(self, "/go-build") {
		built := filepath.Join(dir, serviceProgram)
		build := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", "github.com/svcfs/svcfs/cmd/svcd",
			"github.com/svcfs/svcfs/cmd/svcvault") // which svcd starts
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", refuse(exitOther, "run it in the folder of the sources, or use 'make build'",
				fmt.Errorf("build svcd: %w: %s", err, firstLine(out)))
		}
		return built, nil
	}
	found, err := exec.LookPath(serviceProgram)
	if err != nil {
		return "", refuse(exitOther, "put svcd there; 'make build' makes both programs",
			fmt.Errorf("svcd, the service, is neither %s nor in PATH", beside))
	}
	return found, nil
}

// serve starts the service on a free loopback port.
func (d *demo) serve(ctx context.Context) error {
	process := d.service(context.WithoutCancel(ctx), "serve", "--listen", "127.0.0.1:0", "--log-level", "info")
	process.Stderr = d.log
	process.SysProcAttr = demoChild()
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		_ = process.Wait()
		text, _ := os.ReadFile(d.log.Name())
		return refuse(exitOther, "make room in "+d.dir+", or name another folder: svcfs demo DIR",
			fmt.Errorf("start the service: %w", serviceFailure(text)))
	}
	d.url = url
	d.undo = append(d.undo, func() error {
		_ = process.Process.Signal(syscall.SIGTERM)
		return process.Wait()
	})
	return nil
}

// demoChild keeps a process from Ctrl-C, which reaches the demo: it ends its processes in order. Should the
// demo be killed, they end by themselves.
func demoChild() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// data is where the service keeps its data.
func (d *demo) data() string { return filepath.Join(d.dir, "service") }

// service is svcd with the demo's data, and with none of the user's settings.
func (d *demo) service(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.program, append(args, "--data", d.data(), "--contract", demoContract)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "SVC") || strings.HasPrefix(pair, "CREDENTIALS_DIRECTORY=")
	})
	return cmd
}

// ask runs svcd beside the service and returns what it prints.
func (d *demo) ask(ctx context.Context, args ...string) ([]byte, error) {
	out, err := d.service(ctx, args...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = serviceFailure(failed.Stderr)
	}
	return out, err
}

// serviceFailure is why svcd ended, the last thing that it said.
func serviceFailure(said []byte) error {
	mark := []byte(serviceProgram + ": ")
	at := bytes.LastIndex(said, mark)
	if at < 0 {
		return errors.New("svcd ended without a reason")
	}
	return errors.New(firstLine(said[at+len(mark):]))
}

// demoUser is an account with its client and its mount.
type demoUser struct {
	account sdk.AccountID
	key     sdk.Secret
	client  *sdk.Client
	dir     string        // mountpoint
	ended   chan struct{} // closed when the mount process has ended
	before  sdk.Amount    // balance before the files
}

func (u *demoUser) group() sdk.Group { return u.client.Group(demoGroup) }

// path is where name lies in this user's mount.
func (u *demoUser) path(name string) string { return filepath.Join(u.dir, demoGroup, name) }

// makeUser makes an account, or takes over the one of an earlier run with a new key.
func (d *demo) makeUser(ctx context.Context, name string) (*demoUser, error) {
	made, err := d.ask(ctx, "account", "create", name, "--balance", demoBalance)
	if err != nil {
		var rotating error
		if made, rotating = d.ask(ctx, "account", "rotate-key", name); rotating != nil {
			return nil, err
		}
	}
	defer clear(made)
	var answer struct {
		Account sdk.AccountID `json:"account_id"`
		Key     string        `json:"api_key"`
	}
	if err := json.Unmarshal(made, &answer); err != nil {
		return nil, fmt.Errorf("create account %s: %w", name, err)
	}
	u := &demoUser{account: answer.Account, key: sdk.NewSecret(answer.Key), dir: filepath.Join(d.dir, name)}
	u.ended = make(chan struct{})
	config := sdk.Config{APIKey: u.key, URL: d.url, ContractID: demoContract}
	if u.client, err = d.newClient(settings{account: u.account, config: config}); err != nil {
		return nil, err
	}
	d.undo = append(d.undo, u.client.Close)
	return u, nil
}

// mount mounts in a child process: a process that uses its own mount may wait for
// itself for ever.
func (d *demo) mount(ctx context.Context, u *demoUser) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// The mount process cleans what a killed demo left mounted there.
	if err := os.Mkdir(u.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	child := mountChild{
		args: []string{"--account=" + string(u.account), "--url=" + d.url, "--config=" + os.DevNull,
			"--log-level=info", "--", u.dir},
		// Another demo may have this address tomorrow: what was seen stays with this one.
		env: []string{envContract + "=" + demoContract, "XDG_STATE_HOME=" + filepath.Join(d.dir, "state")},
		key: u.key, log: d.log, attrs: demoChild(),
	}
	process, err := child.start()
	if err != nil {
		return err
	}
	go func() {
		_ = process.Wait()
		close(u.ended)
	}()
	d.undo = append(d.undo, func() error {
		_ = process.Process.Signal(syscall.SIGTERM) // it uploads what is left; it may have ended already
		<-u.ended
		return nil
	})
	return nil
}
