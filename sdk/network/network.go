// Package network is how the calls of a client use the line to the service: how fast they may be, what they move, how
// long one may stand still, and whether there is a connection at all.
//
// It is for the programs of this module: there is no promise that it stays as it is.
package network

import (
	"context"
	"fmt"
	"time"
)

// Connection is how it stands with the connections to the service.
type Connection uint8

// The states of a connection.
const (
	Connected    Connection = iota // the last request was answered, or there was none for a minute
	Reconnecting                   // connections are refused or break, for less than the patience of the client
	Disconnected                   // they have been for longer
)

// Traffic is what all calls of a client move of content and of lists, in bytes.
type Traffic struct {
	Moved int64 // since the client was made: what arrived here, and what the service acknowledged
	Speed int64 // a second, of the last ten seconds
	// Line is what the line from the service brings in three round trips, so that a reader who has as much under
	// way waits for the line alone: a request that begins when the first bytes are here has its answer before the
	// last are. 0 = the service is nearer than 20 ms. Until a speed was seen it is that of 100 Mbit/s.
	Line int64
}

// LeastLimit is the lowest [Limit], in bytes a second: what is slower counts as standing still.
const LeastLimit = 16 << 10

// Limit is how fast all calls of a client together may receive and send, in bytes a second; 0 = as fast as the line.
type Limit struct{ Down, Up int64 }

// Check refuses a limit that is too low.
func (l Limit) Check() error {
	for _, bytes := range []int64{l.Down, l.Up} {
		if bytes < 0 || bytes > 0 && bytes < LeastLimit {
			return fmt.Errorf("a limit of %d bytes a second: the lowest is %d, because what is slower counts as "+
				"standing still", bytes, LeastLimit)
		}
	}
	return nil
}

// ErrStill is the cause that ends a request that stalls.
var ErrStill = fmt.Errorf("the transfer stands still: %w", context.DeadlineExceeded)

// WithPatience returns a context that ends calls, with an error of the kind sdk.ErrTimeout, once nothing has moved for
// d. A call that moves, such as a long list or a large file, may take longer than d. d never extends the timeout of the
// client. The caller must call cancel.
func WithPatience(ctx context.Context, d time.Duration) (patient context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { end(ErrStill) })
	patient = OnMove(ctx, func() {
		timer.Reset(d)
		Moved(ctx)
	})
	return patient, func() { timer.Stop(); end(nil) }
}

type onMove struct{}

// OnMove returns a context in which calls report to moves whatever moves.
func OnMove(ctx context.Context, moves func()) context.Context {
	return context.WithValue(ctx, onMove{}, moves)
}

// Moved reports to the function of [OnMove], if there is one, that something moved.
func Moved(ctx context.Context) {
	if moves := Moves(ctx); moves != nil {
		moves()
	}
}

// Moves returns the function of [OnMove]; nil = there is none.
func Moves(ctx context.Context) func() {
	moves, _ := ctx.Value(onMove{}).(func())
	return moves
}
