package web_test

import (
	"io"
	"log/slog"

	"github.com/svcfs/svcfs/service"
)

// withLog makes the service log everything.
func withLog(w io.Writer) func(*service.Config) {
	return func(c *service.Config) {
		c.Logger = slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}
