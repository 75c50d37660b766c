package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk"
)

// A key is asked for at a terminal without showing it; the end of the input and
// an interrupt end the question, and the terminal is as before.
func TestLoginAtATerminal(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		check       func(key sdk.Secret, err error) bool
	}{
		{"a key", "svc_sk_typed\n", func(key sdk.Secret, err error) bool {
			return err == nil && key.Reveal() == "svc_sk_typed"
		}},
		{"nothing", "\n", isEmptyKey},
		{"end of input", "\x04", isEmptyKey},
		{"interrupt", "", func(_ sdk.Secret, err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := openTerminal(t, 80)
			defer p.slave.Close()
			before, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			a := testApp(t, nil, "")
			a.stdin, a.ui = p.slave, newTerminal(p.slave, p.slave)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.typed == "" {
				cancel()
			} else if _, err := p.master.WriteString(tc.typed); err != nil {
				t.Fatal(err)
			}
			key, err := a.askKey(ctx, settings{account: "alice"}, "http://h")
			if !tc.check(key, err) {
				t.Errorf("%q, %v", key.Reveal(), err)
			}
			if after, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS); err != nil || *after != *before {
				t.Errorf("the terminal was left in another state: %v", err)
			}
		})
	}
}

func isEmptyKey(_ sdk.Secret, err error) bool {
	return exitCodeOf(err) == exitAuth && strings.Contains(err.Error(), "the API key from the terminal is empty") &&
		hintFor(err) != ""
}
