package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// thinning is what a setting of versions would destroy, in JSON output.
type thinning struct {
	Files    int64         `json:"files"`
	Versions int64         `json:"versions"`
	Bytes    int64         `json:"bytes"`
	Names    []thinnedName `json:"names"`
	More     bool          `json:"more,omitempty"`
}

type thinnedName struct {
	Name     string `json:"name"`
	Versions int64  `json:"versions"`
	Bytes    int64  `json:"bytes"`
}

// setVersions shows first what would go.
func setVersions(ctx context.Context, c *settingChange) (done sdk.Change, err error) {
	keep, err := wire.ParseKeep(c.value)
	if err != nil {
		return done, err
	}
	if c.dryRun || !keep.KeepsAll() {
		t, err := c.group.Settings().TryVersions(ctx, keep, "")
		if err != nil {
			return done, err
		}
		names := each(t.Names, func(n wire.ThinnedName) thinnedName {
			return thinnedName{escapeName(n.Filename), n.Versions, n.Bytes}
		})
		c.done.Would = &thinning{t.Files, t.Versions, t.Bytes, names, t.More}
		if !c.asJSON {
			c.showThinning(t)
		}
	}
	settled := c.dryRun || c.sure || keep.KeepsAll()
	err = c.mustAgree(ctx, settled, "Shall these and later ones go, and their keys be destroyed?")
	if err != nil || c.dryRun {
		return done, err
	}
	return c.group.Settings().SetVersions(ctx, keep)
}

// showThinning tells what a setting would destroy.
func (a *app) showThinning(t wire.TryVersionsResult) {
	if t.Versions == 0 {
		a.ui.printf("no version that is there now would go\n")
		return
	}
	a.ui.printf("would go for good: %s of %s, %d bytes\n", plural(int(t.Versions), "version"),
		plural(int(t.Files), "file"), t.Bytes)
	var rows [][]string
	for _, n := range t.Names {
		rows = append(rows, []string{"", plural(int(n.Versions), "version"), fmt.Sprint(n.Bytes),
			escapeName(n.Filename)})
	}
	a.printTable(rows)
	if t.More {
		a.ui.printf("  and others\n")
	}
}

// mustAgree asks the user, unless that is settled, until the end of the line or of ctx.
// Without a terminal it refuses.
func (a *app) mustAgree(ctx context.Context, sure bool, question string) error {
	if sure {
		return nil
	}
	f, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return usage("if that is what you want, repeat the command with --yes", "nothing was changed")
	}
	fmt.Fprint(a.ui.err, question+" Type yes: ")
	answer := make(chan string, 1)
	go func() { // a terminal cannot be read with an end
		line, _ := bufio.NewReader(io.LimitReader(f, 100)).ReadString('\n') // an error is no yes
		answer <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line := <-answer:
		if line != "yes" {
			return usage("type yes to change it", "nothing was changed")
		}
		return nil
	}
}

func keepText(k wire.Keep) string {
	switch {
	case k.Days > 0:
		return "older versions for " + plural(int(k.Days), "day")
	case k.Last > 0:
		return "the newest " + plural(int(k.Last), "version") + " of each name"
	default:
		return "all versions"
	}
}
