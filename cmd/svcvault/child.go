package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	// listening is the file at which a child listens, see os/exec.Cmd.ExtraFiles.
	listening = 3

	// ownProgram is the program of this process, also where another version took the place of its file.
	ownProgram = "/proc/self/exe"

	// Pauses between a fault of the vault and its next start: doubled each time, until one has run for steady.
	leastPause = 200 * time.Millisecond
	mostPause  = 30 * time.Second
	steady     = time.Minute
)

// errTold means that another process said already why the vault does not start.
var errTold = errors.New("the vault does not start")

// runChild serves the svcd that started this process. It ends with standard input alone: a signal to all processes of a
// service must not take the keys from those that still answer.
func runChild() error {
	dropped := make(chan os.Signal, 1) // and not ignored, which a command for the master key would inherit
	signal.Notify(dropped, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(dropped)
	var s vaultwire.Setup
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	os.Args[0] = "svcd" // which is what the operator started: messages name it
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	socket := os.NewFile(listening, "socket")
	if s.Restart {
		return supervise(ctx, s, socket)
	}
	l, err := net.FileListener(socket)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	_ = socket.Close()
	return serve(ctx, fromOne{l, s.Client}, s)
}

// supervise has a process of its own keep the keys, and starts it anew after a fault: svcd itself, once it is confined,
// starts no program. The first start must succeed. The supervisor never reads the master key.
func supervise(ctx context.Context, s vaultwire.Setup, socket *os.File) error {
	s.Restart = false
	began := false
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		start := time.Now()
		answered, err := keep(ctx, s, socket)
		switch {
		case ctx.Err() != nil:
			return nil
		case !answered && !began:
			return err
		}
		began, s.From.Make = true, false // the next one makes no other master key
		if time.Since(start) > steady {
			pause = leastPause
		}
		fmt.Fprintf(os.Stderr, "svcvault: the vault ended: %v: it starts anew\n", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// keep runs the vault until it ends, and tells svcd whether it answers. The error is never nil.
func keep(ctx context.Context, s vaultwire.Setup, socket *os.File) (answered bool, err error) {
	setup, err := json.Marshal(s)
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, ownProgram, "--child")
	cmd.Args[0] = "svcvault"
	cmd.ExtraFiles, cmd.Stderr = []*os.File{socket}, os.Stderr
	input, err := cmd.StdinPipe() // it ends with this process
	if err != nil {
		return false, err
	}
	defer input.Close()
	output, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	cmd.Cancel, cmd.WaitDelay = input.Close, time.Second
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start the vault: %w", err)
	}
	var told vaultwire.Start
	if _, err = input.Write(append(setup, '\n')); err == nil {
		err = json.NewDecoder(output).Decode(&told)
	}
	if err == nil {
		tell(told)
	}
	answered = err == nil && told.Failed == ""
	_, _ = io.Copy(io.Discard, output)
	ended := cmd.Wait()
	switch {
	case told.Failed != "":
		return false, errTold
	case ended == nil:
		ended = errors.New("by itself")
	}
	return answered, errors.Join(err, ended)
}

// fromOne accepts the connections of one process: the socket of a child has a name that is no file, and thus no mode.
type fromOne struct {
	net.Listener
	pid int
}

func (l fromOne) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if pid, err := peer(c); err == nil && pid == l.pid {
			return c, nil
		}
		_ = c.Close()
	}
}

// peer returns the process at the other end.
func peer(c net.Conn) (pid int, err error) {
	unixConn, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a Unix socket")
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}
