package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	// vaultProgram is beside svcd.
	vaultProgram = "svcvault"
	// beginsWithin is how long a vault that is started beside svcd serve, by systemd, takes before it listens.
	beginsWithin = 3 * time.Second
	// vaultPrefix begins the address of a vault that runs.
	vaultPrefix = "unix:"
)

// vault gives the vault that --vault names, or one of its own.
func (s *settings) vault(ctx context.Context, from, next vaultwire.Source, _ func() time.Time,
	away func(error) error) (vaultwire.Vault, error) {
	if s.vaultAt == "" {
		return s.startVault(ctx, vaultwire.Setup{From: from, Next: next, Restart: s.serves, Confine: s.serves,
			Legacy: s.importsLegacy, Client: os.Getpid()}, away)
	}
	socket, ok := strings.CutPrefix(s.vaultAt, vaultPrefix)
	if !ok || socket == "" {
		return nil, usage("write --vault "+vaultPrefix+"PATH, the socket of a svcvault that runs",
			"--vault %s: no socket", s.vaultAt)
	}
	if s.keyFrom != "" {
		return nil, usage("give svcvault the command, and leave it out here",
			"--vault and --master-key-command exclude each other")
	}
	for wait := s.serves; ; {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", socket)
		if err == nil {
			return vaultwire.NewClient(socket, away), c.Close()
		}
		if !wait {
			return nil, refuse("start svcvault there, or leave --vault out: svcd then starts one",
				"connect to the vault: %w", err)
		}
		wait = false
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(beginsWithin):
		}
	}
}

// ownVault is a vault that svcd started.
type ownVault struct {
	*vaultwire.Client
	socket io.Closer // or another user could take its name after a fault of the vault
	input  io.Closer
	ended  chan struct{}
	why    error // once it ended
}

// Close ends the vault.
func (v *ownVault) Close() error {
	err := errors.Join(v.Client.Close(), v.socket.Close())
	_ = v.input.Close() // closed already where the vault ended
	<-v.ended
	return err
}

// startVault starts the vault beside svcd, which ends with svcd. Its socket is no file: nothing is left of it, and the
// vault serves the process alone that started it.
func (s *settings) startVault(ctx context.Context, setup vaultwire.Setup, away func(error) error) (vaultwire.Vault,
	error) {
	program, err := findVault()
	if err != nil {
		return nil, err
	}
	name := "@" + vaultProgram + "-" + rand.Text()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open a socket for the vault: %w", err)
	}
	socket, err := l.File()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a socket for the vault: %w", err), l.Close())
	}
	defer socket.Close()
	cmd := exec.Command(program, "--child")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{socket}, s.stderr
	v := &ownVault{Client: vaultwire.NewClient(name, away), socket: l, ended: make(chan struct{})}
	if err := v.start(ctx, cmd, setup, s.vaultFailed); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if s.serves {
		s.started = v
	}
	return v, nil
}

// vaultFailed logs why a vault that was to follow another one does not start.
func (s *settings) vaultFailed(told vaultwire.Start) {
	s.logger.Error("the vault does not start", "cause", told.Failed, "hint", told.Hint)
}

// findVault returns the path of svcvault, which is beside this program.
func findVault() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	program := filepath.Join(filepath.Dir(self), vaultProgram)
	if _, err := os.Stat(program); err != nil {
		return "", refuse("install svcvault into the folder of svcd ('make build' makes both), or name one that runs "+
			"with --vault", "look for the program that keeps the keys: %w", err)
	}
	return program, nil
}

// start starts the program, and waits until it answers. failed hears of those that follow after a fault.
func (v *ownVault) start(ctx context.Context, cmd *exec.Cmd, setup vaultwire.Setup,
	failed func(vaultwire.Start)) error {
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the vault: %w", err)
	}
	v.input = input
	stop := context.AfterFunc(ctx, func() { _ = input.Close() }) // its command for the master key may wait
	err = json.NewEncoder(input).Encode(setup)
	lines := json.NewDecoder(output)
	var told vaultwire.Start
	if err == nil {
		err = lines.Decode(&told)
	}
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil || told.Failed != "" {
		_ = input.Close()
		ended := cmd.Wait()
		if told.Failed != "" {
			return refuse(told.Hint, "%s", told.Failed)
		}
		return fmt.Errorf("start the vault: %w", errors.Join(err, ended))
	}
	go func() {
		defer close(v.ended)
		for lines.Decode(&told) == nil {
			if told.Failed != "" {
				failed(told)
			}
			told = vaultwire.Start{}
		}
		v.why = cmd.Wait()
	}()
	return nil
}

// outlive ends with ctx, or with the vault that svcd serve started: nobody else starts it again.
func (v *ownVault) outlive(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-v.ended:
		return refuse("start svcd serve again", "the vault ended: %w", errors.Join(v.why, errVaultEnded))
	}
}

var errVaultEnded = errors.New("its supervisor is gone")
