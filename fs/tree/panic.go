package tree

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// panicked is the error of work that ended in a panic.
type panicked struct {
	what  any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("svcfs made a mistake: %v", p.what) }

// guarded does work that would end the mount if it panics, with all that is not saved: it runs in a goroutine of
// the tree, or while its caller has given a lock away. One request fails instead.
func guarded[T any](work func() (T, error)) (out T, err error) {
	defer func() {
		p := recover()
		if m, is := p.(mistaken); is && raceEnabled {
			panic(m) // so that tests fail
		}
		if p != nil {
			err = &Error{Class: ClassOther, Err: &panicked{p, debug.Stack()},
				Hint: "Please report it with the lines of the log. The mount goes on, and what is not saved stays " +
					"pending."}
		}
	}()
	return work()
}

// guard is guarded for work that gives nothing.
func guard(work func() error) error {
	_, err := guarded(func() (struct{}, error) { return struct{}{}, work() })
	return err
}

// alone does work that nobody waits for, until the tree is closed.
func (t *Tree) alone(op string, work func(context.Context)) {
	if err := guard(func() error { work(t.life); return nil }); err != nil {
		t.Note(wrapRemote(op, "/", err))
	}
}

// guardedFetch is guarded for what the cache fetches, in a goroutine of its own.
func guardedFetch[T, R any](fetch func(context.Context, R) (T, error)) func(context.Context, R) (T, error) {
	return func(ctx context.Context, room R) (T, error) {
		return guarded(func() (T, error) { return fetch(ctx, room) })
	}
}

// Panicked notes that a request ended in a panic, for whoever answers requests.
func (t *Tree) Panicked(what any) {
	t.alone("request", func(context.Context) { panic(what) })
}

// stackOf returns where a panic happened, empty for any other error.
func stackOf(err error) string {
	var p *panicked
	if errors.As(err, &p) {
		return string(p.stack)
	}
	return ""
}
