package call

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// How often a call is sent whose tries all fail in the same way.
func TestKindsAreRepeated(t *testing.T) {
	const all = maxTries
	refused := func(status int) error { return fmt.Errorf("try: %w", &Refusal{Status: status}) }
	later := &Refusal{Status: http.StatusTooManyRequests, RetryAfter: maxPause}
	unsent := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, tc := range []struct {
		name                                   string
		err                                    error
		free, soon, view, asked, change, never int
	}{
		{"refused", refused(http.StatusForbidden), 1, 1, 1, 1, 1, 1},
		{"too busy to look", refused(http.StatusTooManyRequests), all, all, all, all, all, 1},
		{"too busy for long", later, all, 1, all, all, all, 1},
		{"down", refused(http.StatusServiceUnavailable), all, all, all, all, 1, 1},
		{"a fault of the service", refused(http.StatusInternalServerError), 1, 1, all, 1, 1, 1},
		{"the connection broke", io.ErrUnexpectedEOF, all, all, all, all, 1, 1},
		{"there is no connection", unsent, all, all, all, all, 1, 1},
		{"the connection stands still", errStill, 2, 2, 2, 2, 1, 1},
		{"no answer", errTooSlow, 1, 1, 1, 2, 1, 1},
		{"not of the network", errors.New("other"), 1, 1, 1, 1, 1, 1},
	} {
		for kind, want := range []int{tc.free, tc.soon, tc.view, tc.asked, tc.change, tc.never} {
			synctest.Test(t, func(t *testing.T) {
				got := 0
				err := (&Caller{}).Repeat(t.Context(), Kind(kind), func(context.Context) error { got++; return tc.err })
				if got != want || !errors.Is(err, tc.err) {
					t.Errorf("%s, kind %d: sent %d times, want %d; %v", tc.name, kind, got, want, err)
				}
			})
		}
	}
}

// A call that is given up while its connection is lost was given up, and still tells that it never left.
func TestGivenUpWhileTheConnectionIsLost(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	err := (&Caller{}).Repeat(ctx, Free, func(context.Context) error {
		giveUp()
		return &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	})
	if !errors.Is(err, context.Canceled) || !IsUnsent(err) {
		t.Errorf("%v", err)
	}
}

// In an outage, what never left is sent for all of the patience, whatever its kind, and what may be repeated as well.
func TestKindsInAnOutage(t *testing.T) {
	for _, tc := range []struct {
		name  string
		kind  Kind
		err   error
		waits bool
	}{
		{"free", Free, io.ErrUnexpectedEOF, true},
		{"a change that may have arrived", Change, io.ErrUnexpectedEOF, false},
		{"a change that did not leave", Change, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{"once, and it did not leave", Once, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			c := &Caller{cfg: Config{Patience: time.Minute}}
			_ = c.Repeat(Bridging(t.Context()), tc.kind, func(context.Context) error { return tc.err })
			if took := time.Since(begin); (took >= time.Minute) != tc.waits || took > time.Minute+2*longestPause {
				t.Errorf("%s: %s", tc.name, took)
			}
		})
	}
}

// What goes on where the last try ended has all its tries again once something arrived, and what stood still is
// then a fault like others.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces = 10
		arrived, tries := int64(0), 0
		err := (&Caller{}).Resume(t.Context(), Free, func() int64 { return arrived }, func(context.Context) error {
			if tries++; tries%maxTries == 0 {
				arrived++
			}
			switch {
			case arrived == pieces:
				return nil
			case tries%maxTries == 0:
				return errTooSlow
			}
			return io.ErrUnexpectedEOF
		})
		if err != nil || tries != pieces*maxTries {
			t.Errorf("%d of %d pieces in %d tries: %v", arrived, pieces, tries, err)
		}
	})
}
