package main

import (
	"errors"
	"net"
	"os"
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
