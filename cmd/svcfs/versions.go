package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/svcfs/svcfs/sdk"
)

// groupVersions is what 'group versions' prints as JSON.
type groupVersions struct {
	Group  string     `json:"group_id"`
	Keep   string     `json:"keep"`
	Next   string     `json:"next,omitempty"`
	NextAt *time.Time `json:"next_at,omitempty"`
	Would  *thinning  `json:"would,omitempty"`
}

// thinning is what a setting would destroy, in JSON output.
type thinning struct {
	Keep     string        `json:"keep"`
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

func (a *app) groupVersionsCommand() *cobra.Command {
	var text string
	var dryRun, sure bool
	var keep sdk.Keep
	cmd := &cobra.Command{
		Use:   "versions GROUP",
		Short: "Show or set which older versions of the files of a group are kept",
		Long: `Show which older versions of the files of a group are kept. A group keeps all,
until its owner sets otherwise: --keep 10 keeps the newest 10 versions of each
name, --keep 30d those that were replaced less than 30 days ago, --keep all keeps
all again. The keys of other older versions are destroyed as by 'svcfs rm --destroy';
the newest version always stays. The command first shows what would go, and asks;
--yes answers, and --dry-run only shows it.

Only versions that svcfs or the library sdk saved ever go, and only those that
were saved since the service knows this setting: other programs may hold the
references of theirs. A service that delays destruction delays a setting that
keeps less, and each version that goes: see 'svcfs group pending'. 'svcfs group
keep' cancels both.`,
		Example: "  svcfs group versions team\n  svcfs group versions team --keep 10 --dry-run\n  svcfs group versions team --keep 30d --yes",
		Args:    exactly(1, "one GROUP"),
		PreRunE: first(func([]string) (err error) {
			if keep, err = sdk.ParseKeep(text); err != nil && text != "" {
				return usage("give --keep all, a number of versions such as 10, or days such as 30d", err.Error())
			}
			if text == "" && (dryRun || sure) {
				return usage("give --keep too", "--dry-run and --yes are about a new setting")
			}
			return nil
		}),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			var would *sdk.Thinning
			if text != "" && (dryRun || !keep.KeepsAll()) {
				t, err := g.TryVersions(ctx, keep, "")
				if err != nil {
					return err
				}
				would = &t
			}
			if would != nil && !a.asJSON {
				a.showThinning(*would)
			}
			if text != "" && !dryRun {
				if err := a.mustAgree(ctx, sure || keep.KeepsAll(), "Shall these and later ones go, and their keys be destroyed?"); err != nil {
					return err
				}
				if _, err := g.SetVersions(ctx, keep); err != nil {
					return err
				}
			}
			if dryRun && !a.asJSON {
				return nil
			}
			s, err := g.VersionSettings(ctx)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.printJSON(versionsDocument(args[0], keep, s, would))
			}
			a.ui.printf("kept: %s\n", keepText(s.Keep))
			if !s.NextAt.IsZero() {
				a.ui.printf("from %s on: %s; until then: svcfs group keep %s\n", timeText(s.NextAt), keepText(s.Next), escapeName(args[0]))
			}
			return nil
		}),
		ValidArgsFunction: a.completeGroup,
	}
	cmd.Flags().StringVar(&text, "keep", "", "which versions of each name are kept: all, the newest N, or those replaced less than Nd (days) ago")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "with --keep: show what would go, and change nothing")
	cmd.Flags().BoolVarP(&sure, "yes", "y", false, "with --keep: do not ask")
	_ = cmd.RegisterFlagCompletionFunc("keep", cobra.FixedCompletions([]string{"all", "10", "30d"}, cobra.ShellCompDirectiveNoFileComp)) // exists
	return cmd
}

func versionsDocument(group string, keep sdk.Keep, s sdk.VersionSettings, would *sdk.Thinning) groupVersions {
	doc := groupVersions{Group: group, Keep: s.Keep.String()}
	if !s.NextAt.IsZero() {
		doc.Next, doc.NextAt = s.Next.String(), timeOrNil(s.NextAt)
	}
	if would != nil {
		doc.Would = &thinning{keep.String(), would.Files, would.Versions, would.Bytes,
			each(would.Names, func(n sdk.ThinnedName) thinnedName { return thinnedName{escapeName(n.Name), n.Versions, n.Bytes} }), would.More}
	}
	return doc
}

// showThinning tells what a setting would destroy.
func (a *app) showThinning(t sdk.Thinning) {
	if t.Versions == 0 {
		a.ui.printf("no version that is there now would go\n")
		return
	}
	a.ui.printf("would go for good: %s of %s, %d bytes\n", plural(int(t.Versions), "version"), plural(int(t.Files), "file"), t.Bytes)
	var rows [][]string
	for _, n := range t.Names {
		rows = append(rows, []string{"", plural(int(n.Versions), "version"), fmt.Sprint(n.Bytes), escapeName(n.Name)})
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

func keepText(k sdk.Keep) string {
	switch {
	case k.Days > 0:
		return "older versions for " + plural(int(k.Days), "day")
	case k.Last > 0:
		return "the newest " + plural(int(k.Last), "version") + " of each name"
	default:
		return "all versions"
	}
}
