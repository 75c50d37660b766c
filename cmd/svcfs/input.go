package main

import (
	"context"
	"io"
)

// input is standard input until ctx ends. A read of a pipe or a terminal has no end of its own.
func (a *app) input(ctx context.Context) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, a.stdin)
		_ = w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { _ = r.CloseWithError(ctx.Err()) })
	return r
}
