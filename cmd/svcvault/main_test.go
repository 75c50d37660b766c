package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// programs has svcvault, which runs as a process.
var programs proctest.Programs

func TestMain(m *testing.M) { os.Exit(programs.Run(m)) }

// folder makes a folder with a short path, for sockets.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "svcvault-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// begun is the program that was started, ready to answer.
type begun struct {
	*exec.Cmd
	input io.Closer
	told  chan vaultwire.Start // how the vaults began that followed
	ended chan error
}

// child starts the program as svcd does.
func child(t *testing.T, socket string, setup vaultwire.Setup) (b *begun, said string) {
	t.Helper()
	setup.Client = os.Getpid()
	return begin(t, openSocket(t, socket), &setup, "--child")
}

// begin starts the program and waits until it is ready, or returns what it said. socket and setup are those of a child.
func begin(t *testing.T, socket *os.File, setup *vaultwire.Setup, args ...string) (b *begun, said string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs.Dir(t, "svcvault"), "svcvault"), args...)
	input, err := cmd.StdinPipe()
	must(t, err)
	output, err := cmd.StdoutPipe()
	must(t, err)
	failed, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	defer failed.Close()
	cmd.Stderr = failed
	if socket != nil {
		cmd.ExtraFiles = []*os.File{socket}
	}
	must(t, cmd.Start())
	b = &begun{cmd, input, make(chan vaultwire.Start, 16), make(chan error, 1)}
	if setup != nil {
		must(t, json.NewEncoder(input).Encode(setup))
	}
	var told vaultwire.Start
	lines := json.NewDecoder(output)
	err = lines.Decode(&told)
	go func() {
		for next := (vaultwire.Start{}); lines.Decode(&next) == nil; next = (vaultwire.Start{}) {
			b.told <- next
		}
		close(b.told)
		b.ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Process.Kill()
	})
	if err == nil && told == (vaultwire.Start{}) {
		return b, ""
	}
	<-b.ended
	raw, err := os.ReadFile(failed.Name())
	must(t, err)
	return nil, told.Failed + told.Hint + string(raw)
}

// A vault that is killed is started anew, gets the wrapped keys again, and opens what the one before wrapped. It
// outlives signals to all processes, and ends with standard input.
func TestSupervised(t *testing.T) {
	dir := folder(t)
	key := filepath.Join(dir, "keys", "master.key")
	must(t, os.Mkdir(filepath.Dir(key), 0o700))
	socket := "@svcvault-" + rand.Text()
	b, said := child(t, socket, vaultwire.Setup{From: vaultwire.Source{File: key, Make: true}, Restart: true,
		Confine: true})
	if b == nil {
		t.Fatal(said)
	}
	c := vaultwire.NewClient(socket, func(err error) error { return err })
	defer c.Close()
	made, err := c.Make(t.Context(), vaultwire.Make{Keys: []vaultwire.Key{{Purpose: vaultwire.PurposeFiles,
		Version: 1}}})
	must(t, err)
	_, err = c.Keep(t.Context(), vaultwire.Keep{Rows: made.Rows})
	must(t, err)
	owner := vaultwire.Binding{Group: "g", Ref: "r", Version: 1}
	wrapped, err := c.Wrap(t.Context(), vaultwire.Wrap{Root: 1, Binding: owner,
		Key: bytes.Repeat([]byte{7}, vaultwire.KeyBytes)})
	must(t, err)

	first := proctest.Child(t, b.Process.Pid)
	must(t, syscall.Kill(b.Process.Pid, syscall.SIGTERM))
	must(t, syscall.Kill(first, syscall.SIGINT))
	unwrap := func() error {
		_, err := c.Check(t.Context(), vaultwire.Check{
			WrappedKey: vaultwire.WrappedKey{Binding: owner, Wrapped: wrapped.Wrapped}})
		return err
	}
	must(t, unwrap())
	must(t, syscall.Kill(first, syscall.SIGKILL))
	proctest.Eventually(t, "the next vault opens it", func() bool { return unwrap() == nil })
	second := proctest.Child(t, b.Process.Pid)
	if second == first || second == 0 {
		t.Errorf("process %d follows %d", second, first)
	}
	must(t, os.Remove(key)) // as who moves it to another place
	must(t, syscall.Kill(second, syscall.SIGKILL))
	proctest.Eventually(t, "it answers no more", func() bool { return unwrap() != nil })
	proctest.Eventually(t, "the next vault says that its master key is missing", func() bool {
		select {
		case told := <-b.told:
			return told.Failed != ""
		default:
			return false
		}
	})
	if _, err := os.Stat(key); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another master key was made: %v", err)
	}
	must(t, b.input.Close())
	must(t, <-b.ended)
}

// openSocket opens a socket as svcd does.
func openSocket(t *testing.T, name string) *os.File {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	must(t, err)
	defer l.Close()
	socket, err := l.File()
	must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}

// Another process does not reach a vault that svcd started, although its socket has no mode.
func TestOthersAreNotServed(t *testing.T) {
	for pid, served := range map[int]bool{os.Getpid(): true, os.Getppid(): false} {
		name := "@svcvault-" + rand.Text()
		l, err := net.FileListener(openSocket(t, name))
		must(t, err)
		accepted := make(chan net.Conn, 1)
		go func() {
			c, _ := fromOne{l, pid}.Accept()
			accepted <- c
		}()
		c, err := net.Dial("unix", name)
		must(t, err)
		if !served {
			if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("another process gets %d bytes, %v", n, err)
			}
			must(t, l.Close())
		}
		other := <-accepted
		if (other != nil) != served {
			t.Errorf("served: %v", other)
		}
		if other != nil {
			_ = other.Close()
		}
		_, _ = c.Close(), l.Close()
	}
}

// A vault that runs by itself ends with a signal, and a second one at its socket is refused.
func TestAlone(t *testing.T) {
	dir := folder(t)
	socket, key := filepath.Join(dir, "socket"), filepath.Join(dir, "master.key")
	if _, said := begin(t, nil, nil, "--socket", socket, "--master-key-file", key); !strings.Contains(said,
		"no such file") {
		t.Errorf("without a master key it says %q", said)
	}
	b, said := begin(t, nil, nil, "--socket", socket, "--master-key-file", key, "--make")
	if b == nil {
		t.Fatal(said)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("others may connect: %v, %v", info.Mode(), err)
	}
	if _, said := begin(t, nil, nil, "--socket", socket, "--master-key-file", key); !strings.Contains(said,
		"another vault") {
		t.Errorf("a second one says %q", said)
	}
	must(t, b.Process.Kill()) // its socket stays
	<-b.ended
	if b, said = begin(t, nil, nil, "--socket", socket, "--master-key-file", key); b == nil {
		t.Fatal(said)
	}
	c := vaultwire.NewClient(socket, func(err error) error { return err })
	defer c.Close()
	if _, err := c.Keep(context.Background(), vaultwire.Keep{}); !errors.Is(err, vaultwire.ErrNoKeys) {
		t.Error(err)
	}
	must(t, b.Process.Signal(syscall.SIGTERM))
	must(t, <-b.ended)
}

// What is missing is named, also by the vault of a supervisor, and a master key that others may read is refused.
func TestRefusals(t *testing.T) {
	dir := folder(t)
	socket, key := filepath.Join(dir, "socket"), filepath.Join(dir, "master.key")
	must(t, os.WriteFile(key, make([]byte, vaultwire.KeyBytes), 0o644))
	must(t, os.Chmod(key, 0o644))
	for want, args := range map[string][]string{
		"--master-key-file":      {"--socket", socket},
		"--socket":               {"--master-key-file", key},
		"address already in use": {"--socket", key, "--master-key-file", key},
		"--confine is for":       {"--socket", socket, "--master-key-command", "cat " + key, "--confine"},
		"--make is for": {"--socket", socket, "--master-key-file", key, "--make",
			"--next-master-key-file", key},
	} {
		if _, said := begin(t, nil, nil, args...); !strings.Contains(said, want) {
			t.Errorf("%q: says %q", args, said)
		}
	}
	if raw, err := os.ReadFile(key); err != nil || len(raw) != vaultwire.KeyBytes {
		t.Errorf("the master key was taken for a socket: %v", err)
	}
	for _, restart := range []bool{false, true} {
		_, said := child(t, "@svcvault-"+rand.Text(), vaultwire.Setup{From: vaultwire.Source{File: key},
			Restart: restart})
		if !strings.Contains(said, "0644") || !strings.Contains(said, "chmod 600") {
			t.Errorf("says %q", said)
		}
	}
}
