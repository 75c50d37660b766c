package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk/network"
)

// limitHint says how a speed limit is written.
const limitHint = "give bytes a second, down and up, such as 2M, 2M:500K or off:500K, or off for no limit; at least " +
	"16K, because what is slower counts as standing still"

// noLimit is the word for it.
const noLimit = "off"

// parseLimit reads a speed limit: DOWN[:UP], each a size or off; UP is as DOWN by default.
func parseLimit(text string) (l network.Limit, err error) {
	down, up, both := strings.Cut(text, ":")
	if !both {
		up = down
	}
	if l.Down, err = parseRate(down); err != nil {
		return network.Limit{}, err
	}
	l.Up, err = parseRate(up)
	return l, err
}

func parseRate(text string) (int64, error) {
	if text == noLimit {
		return 0, nil
	}
	var rate byteSize
	if err := rate.Set(text); err != nil || rate < network.LeastLimit {
		return 0, fmt.Errorf("%q is no speed limit", text)
	}
	return int64(rate), nil
}

// rateWords prints one direction of a limit, as parseRate reads it.
func rateWords(bytes int64) string {
	if bytes == 0 {
		return noLimit
	}
	return sizeWords(bytes)
}

// speedLimit reads the limit of the settings; the zero value = none.
func speedLimit(sources cli.Sources) (network.Limit, error) {
	text, via := sources.Find(envLimit)
	if text == "" {
		return network.Limit{}, nil
	}
	l, err := parseLimit(text)
	if err != nil {
		return l, usage(limitHint, fmt.Sprintf("%v, from %s", err, via))
	}
	return l, nil
}

func (a *app) limitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "limit DIR [RATE]",
		Short: "Show or change how fast the mount on DIR may be",
		Long: `Show how fast the mount on DIR may receive and send, or change it while it runs. RATE
is bytes a second, 2M for both directions or 2M:500K for down and up; off is no limit. It
holds at once, also for what is under way, until the mount ends. A new mount begins
with --limit, or SVC_LIMIT of the settings.
Small saves and reads go before what is left of large ones.`,
		Example: "  svcfs limit ~/groups\n  svcfs limit ~/groups 2M:500K\n  svcfs limit ~/groups off",
		Args:    between(1, 2, "a DIR and perhaps a RATE"),
		RunE: a.simple(func(ctx context.Context, args []string) error {
			if len(args) == 1 {
				return a.showLimit(ctx, args[0])
			}
			return a.changeLimit(ctx, args[0], args[1])
		}),
		ValidArgsFunction: completeMount,
	}
}

// mountLimit is what limit prints as JSON.
type mountLimit struct {
	Dir  string `json:"mountpoint"`
	Down int64  `json:"down_bytes_per_second"` // 0 = no limit
	Up   int64  `json:"up_bytes_per_second"`
}

func (a *app) showLimit(ctx context.Context, path string) error {
	dir, err := mountAt(path)
	if err != nil {
		return err
	}
	m := inspect(ctx, dir)
	if m.Status == nil {
		return refuse(exitOther, "see: svcfs status "+shellWord(dir),
			fmt.Errorf("the mount on %s does not answer", dir))
	}
	return a.printLimit(dir, limitOf(m.Status))
}

func limitOf(s *report.Status) network.Limit { return network.Limit{Down: s.LimitDown, Up: s.LimitUp} }

func (a *app) printLimit(dir string, l network.Limit) error {
	if a.asJSON {
		return a.printJSON(mountLimit{dir, l.Down, l.Up})
	}
	a.printPairs([2]string{"down", rateWords(l.Down)}, [2]string{"up", rateWords(l.Up)})
	return nil
}

func (a *app) changeLimit(ctx context.Context, path, text string) error {
	l, err := parseLimit(text)
	if err != nil {
		return usage(limitHint, err.Error())
	}
	dir, err := mountAt(path)
	if err != nil {
		return err
	}
	at := a.socketPath(dir)
	answer, err := askControl[limitRequest, limitAnswer](ctx, filepath.Dir(at), filepath.Base(at),
		limitRequest{Limit: l})
	switch {
	case errors.Is(err, errNoMount):
		return refuse(exitOther, "do it as the user who mounted it, with the same HOME; see: svcfs status "+
			shellWord(dir), fmt.Errorf("the mount on %s does not answer", dir))
	case err != nil:
		return err
	case answer.Error != "":
		return refuse(exitUsage, limitHint, errors.New(answer.Error))
	}
	return a.printLimit(dir, l)
}

type limitRequest struct {
	Limit network.Limit `json:"limit"`
}

type limitAnswer struct {
	Error string `json:"error,omitempty"`
}

// socketPath is where the mount on dir serves commands about itself; "" without a home directory.
func (a *app) socketPath(dir string) string { return a.mountFile(dir, ".control") }

// serveSettings lets the settings of the mount be changed. Without it they stay as they are.
func (m *liveMount) serveSettings() {
	at := m.app.socketPath(m.dir)
	if at == "" {
		return
	}
	err := os.MkdirAll(filepath.Dir(at), 0o700)
	if err == nil {
		m.control, err = serveControl(filepath.Dir(at), filepath.Base(at), m.setLimit)
	}
	if err != nil {
		m.app.ui.notice("svcfs limit will not reach this mount: %v", err)
	}
}

func (m *liveMount) setLimit(_ context.Context, r limitRequest) (answer limitAnswer) {
	if err := m.client.SetLimit(r.Limit); err != nil {
		answer.Error = err.Error()
	}
	return answer
}
