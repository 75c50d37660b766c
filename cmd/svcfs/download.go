package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// isLarge reports whether a file is kept in blocks, and fetched while it is read.
func isLarge(e *sdk.Entry) bool { return e.Content != (sdk.Digest{}) }

// openFor opens a file, with the progress of a whole file, which is fetched now.
func openFor(ctx context.Context, g sdk.Group, e sdk.Entry, flying *flight) (*sdk.File, error) {
	if isLarge(&e) {
		return g.OpenEntry(ctx, e)
	}
	return g.OpenEntry(ctx, e, flying.report)
}

// download is the content of an open file. That of a large file is fetched while WriteTo
// writes it, block by block, each proven before; the hash of the whole, where the ledger has
// it, is compared at the end.
type download struct {
	ctx    context.Context
	file   io.WriterTo
	large  bool
	flying *flight
	pause  func(ctx context.Context, d time.Duration) error
}

func downloadOf(ctx context.Context, file *sdk.File, flying *flight) download {
	e := file.Entry()
	return download{ctx: ctx, file: file, large: isLarge(&e), flying: flying, pause: wait}
}

// A download goes on after an interruption of the connection, where it was, unless nothing
// arrived in downloadTries attempts, downloadPause apart, and longer every time.
const (
	downloadTries = 6
	downloadPause = time.Second
)

// WriteTo writes the content to w. An error of the service is an [*sdk.Error]; another one is
// that of w.
func (d download) WriteTo(w io.Writer) (n int64, err error) {
	if !d.large {
		return d.file.WriteTo(w)
	}
	for lost := 0; ; lost++ {
		got, err := d.file.WriteTo(&watched{d.ctx, w, d.flying, n})
		if n += got; got > 0 {
			lost = 0
		}
		kind := sdk.KindOf(err)
		if err == nil || kind != sdk.ErrUnavailable && kind != sdk.ErrTimeout || lost == downloadTries ||
			d.ctx.Err() != nil {
			return n, err
		}
		if stopped := d.pause(d.ctx, downloadPause<<lost); stopped != nil {
			return n, err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watched tells how far a writer is, and ends when ctx does.
type watched struct {
	ctx    context.Context
	to     io.Writer
	flying *flight
	done   int64
}

func (w *watched) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.to.Write(p)
	w.done += int64(n)
	w.flying.report(w.done, -1)
	return n, err
}

// localFault says what to do about what cannot be written here. An error of the service, and
// the end of the command, stay what they are.
func localFault(err error, step, what string) error {
	var refused *sdk.Error
	if errors.As(err, &refused) || errors.Is(err, context.Canceled) {
		return err
	}
	return refuse(exitOther, step, fmt.Errorf("write %s: %w", what, err))
}
