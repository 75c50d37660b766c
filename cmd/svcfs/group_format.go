package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// groupFormat is what 'group format' prints as JSON.
type groupFormat struct {
	Group  string   `json:"group_id"`
	Format int64    `json:"format"`
	Saved  []string `json:"saved_anew,omitempty"` // names, with --existing
}

func (a *app) groupFormatCommand() *cobra.Command {
	var wanted int64
	var existing, sure bool
	cmd := &cobra.Command{
		Use:   "format GROUP [1|2]",
		Short: "Show or set which format version new large files of a group have",
		Long: `Show which format version new files of a group have at most, or set it; only the owner
of the group sets it, free. With 2, as every group begins where the service offers it, files
above 4 MiB are kept in blocks: they are read and changed in part, and may be larger than
memory. With 1 they are kept whole, as smaller files are: set it when members read the group
with the JavaScript SDK, which knows no blocks.

Files that are there stay as they are, also where put --update or a copy saves the same bytes. With
--existing the newest version of each file in blocks is saved anew, whole, by this account: that
costs a retrieval and an upload for each. The command tells the price and asks first.`,
		Example: "  svcfs group format team\n  svcfs group format team 1\n  svcfs group format team 1 --existing",
		Args:    between(1, 2, "a GROUP and at most one format"),
		PreRunE: first(func(args []string) (err error) {
			if len(args) > 1 {
				wanted, err = parseFormat(args[1])
			}
			if err == nil && existing && wanted != format.Version {
				err = usage("svcfs group format GROUP 1 --existing", "--existing saves files anew that are whole then")
			}
			return err
		}),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			g := c.Group(sdk.GroupID(args[0]))
			var inBlocks []sdk.Entry
			if existing {
				var err error
				if inBlocks, err = a.toSaveWhole(ctx, c, g, sure); err != nil {
					return err
				}
			}
			if wanted != 0 {
				if _, err := g.SetFormat(ctx, wanted); err != nil {
					return err
				}
			}
			newest, err := g.Format(ctx)
			if err != nil {
				return err
			}
			saved, err := a.saveWhole(ctx, g, inBlocks)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.printJSON(groupFormat{args[0], newest, saved})
			}
			a.ui.printf("%s\n", formatText(newest))
			return nil
		}),
		ValidArgsFunction: a.completeGroupThen(cobra.FixedCompletions([]string{"1", "2"}, cobra.ShellCompDirectiveNoFileComp)),
	}
	cmd.Flags().BoolVar(&existing, "existing", false, "with 1: also save the files anew that are kept in blocks; costs a retrieval and an upload for each")
	cmd.Flags().BoolVarP(&sure, "yes", "y", false, "with --existing: do not ask")
	return cmd
}

// toSaveWhole lists the newest version of each file in blocks, tells what it costs to save them anew, and
// asks the user.
func (a *app) toSaveWhole(ctx context.Context, c *sdk.Client, g sdk.Group, sure bool) (inBlocks []sdk.Entry, err error) {
	entries, err := allEntries(ctx, g)
	if err != nil {
		return nil, err
	}
	list := listingOf(entries)
	var bytes int64
	for _, name := range list.Names() {
		if at, ok := list.Newest(name); ok && entries[at].Content != (sdk.Digest{}) {
			inBlocks = append(inBlocks, entries[at])
			bytes += entries[at].Size
		}
	}
	if len(inBlocks) == 0 {
		a.ui.notice("no file of the group is kept in blocks")
		return nil, nil
	}
	var price sdk.Amount
	for _, action := range []string{"retrieve", "upload"} {
		each, err := c.EstimateFee(ctx, action)
		if err != nil {
			return nil, err
		}
		for range inBlocks {
			if price, err = addPrice(price, each); err != nil {
				return nil, err
			}
		}
	}
	a.ui.notice("%s, %s, are saved anew for %s tokens, by this account; earlier versions stay as they are", plural(len(inBlocks), "file"), roughSize(bytes), price.Tokens())
	return inBlocks, a.mustAgree(ctx, sure, "Save them anew?")
}

// saveWhole saves versions anew in a group that keeps files whole, and returns their names.
func (a *app) saveWhole(ctx context.Context, g sdk.Group, versions []sdk.Entry) (saved []string, err error) {
	for _, e := range versions {
		if err := saveOneWhole(ctx, g, e); err != nil {
			return saved, fmt.Errorf("%s: %w", shownName(&e), err)
		}
		saved = append(saved, shownName(&e))
		if !a.asJSON {
			a.ui.printf("saved anew  %s\n", shownName(&e))
		}
	}
	return saved, nil
}

// saveOneWhole saves a version anew, if it still is the newest of its name.
func saveOneWhole(ctx context.Context, g sdk.Group, e sdk.Entry) error {
	now, err := g.Stat(ctx, e.Name)
	if err != nil {
		return err
	}
	if now.Ref != e.Ref {
		return refuse(exitOther, "run the command again", errors.New("it was saved meanwhile"))
	}
	f, err := g.OpenEntry(ctx, e)
	if err != nil {
		return err
	}
	defer f.Close()
	var attributes sdk.Attributes
	if e.Attributes != nil {
		attributes = *e.Attributes
	}
	_, err = g.Put(ctx, e.Name, f, sdk.WithAttributes(attributes))
	return err
}

// parseFormat reads a format version that a group can have.
func parseFormat(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n != format.Version && n != format.VersionBlocks {
		return 0, usage("give 1 (every file whole) or 2 (large files in blocks)", "there is no format "+strconv.Quote(text))
	}
	return n, nil
}

func formatText(newest int64) string {
	if newest == format.VersionBlocks {
		return fmt.Sprintf("2: new files above %s are kept in blocks", roughSize(wire.WholeFileBytes))
	}
	return "1: new files are kept whole"
}

// formatFlag is the format that a new group is to have; 0 = that of the service.
type formatFlag int64

func (f *formatFlag) register(cmd *cobra.Command) {
	cmd.Flags().Var(f, "format", "newest format version of files: 1 (all whole) or 2 (large files in blocks; the default where the service offers it)")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"1", "2"}, cobra.ShellCompDirectiveNoFileComp)) // exists
}

func (f *formatFlag) String() string {
	if *f == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*f), 10)
}

// Type names the value in help texts.
func (f *formatFlag) Type() string { return "N" }

// Set takes 1 or 2.
func (f *formatFlag) Set(text string) error {
	n, err := parseFormat(text)
	*f = formatFlag(n)
	return err
}

// setNewFormat calls make, which makes a group, and then sets the format of the group. What
// the service does not offer is refused before the registration is paid.
func (f formatFlag) setNewFormat(ctx context.Context, c *sdk.Client, g sdk.Group, make func() error) error {
	if f == 0 {
		return make()
	}
	caps, err := c.Capabilities(ctx)
	if err != nil {
		return err
	}
	offered := caps.Dialect.IsOurs()
	if f == format.VersionBlocks && !offered {
		return refuse(exitOther, "leave --format out: this service keeps every file whole", fmt.Errorf("the service does not offer format %d", f))
	}
	if err := make(); err != nil || !offered {
		return err
	}
	if _, err := g.SetFormat(ctx, int64(f)); err != nil {
		return fmt.Errorf("the group was made, and its format was not set: %w", err)
	}
	return nil
}
