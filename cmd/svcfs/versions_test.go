package main

import (
	"context"
	"errors"
	"testing"
)

// Only a yes begins to take versions away; an interrupt ends the question.
func TestThinningAsksAtATerminal(t *testing.T) {
	for typed, agrees := range map[string]bool{"yes\n": true, " yes \n": true, "y\n": false, "\n": false, "no\n": false,
		"\x04": false, "": false} {
		p := openTerminal(t, 80)
		a := testApp(t, nil, "")
		a.stdin, a.ui = p.slave, newTerminal(p.slave, p.slave)
		ctx, cancel := context.WithCancel(t.Context())
		if typed == "" {
			cancel()
		} else if _, err := p.master.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		err := a.mustAgree(ctx, false, "Shall they go?")
		cancel()
		if agrees != (err == nil) || errors.Is(err, context.Canceled) != (typed == "") {
			t.Errorf("%q: %v", typed, err)
		}
		if typed == "" {
			_, _ = p.master.WriteString("\n") // ends the read
		}
		_ = p.slave.Close()
	}
}
