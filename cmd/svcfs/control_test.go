package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// A mount that is stopped takes a request and does not answer: the command ends by itself.
func TestAMountThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		command, mount := net.Pipe()
		defer mount.Close()
		go func() { _, _ = mount.Read(make([]byte, maxControlRequest)) }()
		_, err := askOver[outboxRequest, outboxAnswer](t.Context(), command, outboxRequest{Op: "retry"})
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

// That no mount is there is said only where nobody serves the socket.
func TestNoMountServesTheSocket(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	ok(t, err)
	listener.SetUnlinkOnClose(false)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := dialControl(ended, dir, "s"); !errors.Is(err, context.Canceled) {
		t.Errorf("a command that was stopped: %v", err)
	}
	ok(t, listener.Close())
	for _, name := range []string{"s", "none"} {
		if _, err := dialControl(t.Context(), dir, name); !errors.Is(err, errNoMount) {
			t.Errorf("nobody serves %s: %v", name, err)
		}
	}
}
