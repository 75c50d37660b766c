package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// groupSetting is a setting of a group: a row of the table of 'group config'.
type groupSetting struct {
	name   string
	values []string // some that it can have
	help   string
	fits   func(value string) bool // nil: it has those values alone
	read   func(context.Context, settingsReader) (settingState, error)
	set    func(context.Context, *settingChange) (sdk.Change, error) // value fits; first it tells what goes, and asks
}

// groupSettings is the table.
func groupSettings() []groupSetting {
	return []groupSetting{{
		name: "retention", values: []string{"none", "90d"},
		help: "days after their upload that files are deleted",
		fits: func(value string) bool { return value == "none" || daysIn(value) >= 0 },
		read: readRetention,
		set:  setRetention,
	}, {
		name: "versions", values: []string{"all", "10", "30d"},
		help: "kept of a name: all, so many, or of so long",
		fits: func(value string) bool { _, err := wire.ParseKeep(value); return err == nil },
		read: readVersions,
		set:  setVersions,
	}, {
		name: "trash", values: []string{"30d", "90d"},
		help: "how long removed files stay there, 1d to 3650d",
		fits: func(value string) bool { n := daysIn(value); return n >= 1 && n <= wire.MaxTrashDays },
		read: func(_ context.Context, g settingsReader) (settingState, error) {
			t, err := g.trash()
			return settingState{Value: daysText(t.Days), Trash: &trashSize{t.Files, t.Bytes, t.Held}}, err
		},
		set: func(ctx context.Context, c *settingChange) (sdk.Change, error) {
			return c.group.Settings().SetTrash(ctx, daysIn(c.value), "")
		},
	}, {
		name: "removers", values: []string{wire.TrashUploader, wire.TrashWriters},
		help: "who removes and brings back beside the owner",
		read: func(_ context.Context, g settingsReader) (settingState, error) {
			t, err := g.trash()
			return settingState{Value: t.Who}, err
		},
		set: func(ctx context.Context, c *settingChange) (sdk.Change, error) {
			return c.group.Settings().SetTrash(ctx, 0, c.value)
		},
	}, {
		name: "format", values: []string{"1", "2"},
		help: "of new files: whole, or above 4 MiB in blocks",
		read: readOther(func(s wire.GroupSettings) string { return strconv.FormatInt(s.Format, 10) }),
		set:  setFormat,
	}, {
		name: "appends", values: []string{wire.AppendsApart, wire.AppendsMerge},
		help: "to what others saved: a conflict file, or one",
		read: readOther(func(s wire.GroupSettings) string { return s.Appends }),
		set: func(ctx context.Context, c *settingChange) (sdk.Change, error) {
			return c.group.Settings().Set(ctx, wire.GroupSettings{Appends: c.value})
		},
	}, {
		name: "keys", values: []string{wire.KeysAny, wire.KeysSealed},
		help: "of files: to any program, or sealed to svcfs",
		read: readOther(func(s wire.GroupSettings) string { return s.Keys }),
		set: func(ctx context.Context, c *settingChange) (sdk.Change, error) {
			return c.group.Settings().Set(ctx, wire.GroupSettings{Keys: c.value})
		},
	}}
}

// settingsReader asks for the settings of a group, once for those that one answer has.
type settingsReader struct {
	sdk.Group
	trash  func() (wire.TrashResult, error)
	others func() (wire.GroupSettings, error)
}

func readOther(value func(wire.GroupSettings) string) func(context.Context, settingsReader) (settingState, error) {
	return func(_ context.Context, g settingsReader) (settingState, error) {
		s, err := g.others()
		return settingState{Value: value(s)}, err
	}
}

func readRetention(ctx context.Context, g settingsReader) (settingState, error) {
	if _, err := g.Owner(ctx); err != nil { // the retention of a group that does not exist is none
		return settingState{}, err
	}
	days, set, err := g.Settings().Retention(ctx)
	if err != nil {
		return settingState{}, err
	}
	s := settingState{Value: "none"}
	if set {
		s.Value = daysText(days)
	}
	waits, err := g.Settings().Pending(ctx)
	if errors.Is(err, sdk.ErrUnsupported) { // nothing is delayed
		return s, nil
	}
	if !waits.RetentionAt.IsZero() {
		s.Next = daysText(waits.RetentionDays)
	}
	return s, err
}

func setRetention(ctx context.Context, c *settingChange) (sdk.Change, error) {
	if c.value == "none" {
		return c.group.Settings().ClearRetention(ctx)
	}
	days := daysIn(c.value)
	if days == 0 {
		if err := c.mustAgree(ctx, c.sure, "Every file of the group is destroyed, those of later, too."); err != nil {
			return sdk.Change{}, err
		}
	}
	return c.group.Settings().SetRetention(ctx, days)
}

func readVersions(ctx context.Context, g settingsReader) (settingState, error) {
	kept, err := g.Settings().Versions(ctx)
	s := settingState{Value: kept.Keep.String()}
	if !kept.NextAt.IsZero() {
		s.Next = kept.Next.String()
	}
	return s, err
}

// settingState is what a setting is, in JSON output.
type settingState struct {
	Group   string     `json:"group_id"`
	Setting string     `json:"setting"`
	Value   string     `json:"value"`
	Next    string     `json:"next,omitempty"` // the value that is delayed
	Trash   *trashSize `json:"trash,omitempty"`
}

// trashSize is how much is in the trash of a group, in JSON output.
type trashSize struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	Held  int64 `json:"held,omitempty"`
}

// settingChange is a change of a setting that was asked for.
type settingChange struct {
	*app
	client                 *sdk.Client
	group                  sdk.Group
	value                  string
	dryRun, existing, sure bool
	done                   groupChange
}

func (a *app) groupConfigCommand() *cobra.Command {
	change := settingChange{app: a}
	table := groupSettings()
	var rows strings.Builder
	for _, s := range table {
		fmt.Fprintf(&rows, "\n  %-9s  %-18s %s", s.name, strings.Join(s.values, ", "), s.help)
	}
	cmd := &cobra.Command{
		Use:   "config GROUP [SETTING [VALUE]]",
		Short: "Show the settings of a group, or change one",
		Long: `Show the settings of a group, or one of them; with VALUE, change it. Every member sees them;
only the owner changes them, which is free. The settings, and values of each:
` + rows.String() + `

A change of versions shows what would go, and asks; the newest version always stays, and so
does what another program than svcfs or the library sdk saved. Where the service delays
destruction, a shorter retention and fewer versions are delayed: 'svcfs group pending' shows
it, and 'svcfs group keep' cancels it. Where every writer removes files, those of others stay
in the trash until the owner destroys them.

Members with the JavaScript SDK need format 1. Files that are there stay as they are; with
--existing the newest version of each file in blocks is saved anew, whole, by this account.
That costs a retrieval and an upload for each: the command tells the price, and asks.

With appends merge, a program that only appends to a file (as >> does) on a mount, while
others save the file, has its bytes at the end of what they saved. All other changes that
meet are conflicts ('svcfs conflicts').`,
		Example: "  svcfs group config team\n  svcfs group config team retention 90d\n" +
			"  svcfs group config team versions 10 --dry-run\n  svcfs group config team format 1 --existing",
		Args: between(1, 3, "a GROUP, and at most a SETTING and a VALUE"),
		PreRunE: first(func(args []string) (err error) {
			if len(args) > 1 {
				if table, err = settingNamed(args[1]); err != nil {
					return err
				}
			}
			return change.check(table[0], args[1:])
		}),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			change.client, change.group = c, c.Group(sdk.GroupID(args[0]))
			if len(args) < 3 {
				return a.showSettings(ctx, change.group, table)
			}
			return a.changeSetting(ctx, &change, table[0], args)
		}),
		ValidArgsFunction: a.completeGroupThen(completeSetting),
	}
	cmd.Flags().BoolVar(&change.dryRun, "dry-run", false, "tell what a change destroys or costs, and change nothing")
	cmd.Flags().BoolVar(&change.existing, "existing", false,
		"with format 1: also save anew, whole, the files in blocks")
	cmd.Flags().BoolVarP(&change.sure, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) changeSetting(ctx context.Context, change *settingChange, s groupSetting, args []string) error {
	change.done = groupChange{Group: args[0], Setting: args[1], Value: args[2]}
	said, err := s.set(ctx, change)
	if err != nil {
		return err
	}
	change.done.Message = said.Message
	return a.printMessage(change.done)
}

// completeSetting offers settings as the second argument, and values as the third.
func completeSetting(_ *cobra.Command, args []string, _ string) (list []string, _ cobra.ShellCompDirective) {
	for _, s := range groupSettings() {
		if len(args) == 1 {
			list = append(list, s.name)
		} else if len(args) == 2 && args[1] == s.name {
			list = s.values
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// settingNamed is the table with the one row of that name.
func settingNamed(name string) ([]groupSetting, error) {
	table := groupSettings()
	at := slices.IndexFunc(table, func(s groupSetting) bool { return s.name == name })
	if at < 0 {
		names := strings.Join(each(table, func(s groupSetting) string { return s.name }), ", ")
		return nil, usage("give one of: "+names, "a group has no setting "+strconv.Quote(name))
	}
	return table[at : at+1], nil
}

// check looks at the command line behind GROUP.
func (c *settingChange) check(s groupSetting, args []string) error {
	if len(args) < 2 {
		if c.dryRun || c.existing || c.sure {
			return usage("give a VALUE too", "--dry-run, --existing and --yes are about a change")
		}
		return nil
	}
	c.value = args[1]
	switch {
	case s.fits == nil && !slices.Contains(s.values, c.value), s.fits != nil && !s.fits(c.value):
		return usage("give for example: "+strings.Join(s.values, ", "), s.name+" cannot be "+strconv.Quote(c.value))
	case c.existing && (s.name != "format" || c.value != "1"):
		return usage("svcfs group config GROUP format 1 --existing", "--existing saves files anew that are whole then")
	case c.dryRun && s.name != "versions" && !c.existing:
		return usage("leave it out", "--dry-run is about versions, and about format 1 --existing")
	}
	return nil
}

func (a *app) showSettings(ctx context.Context, g sdk.Group, table []groupSetting) error {
	var states []settingState
	var rows [][]string
	reader := settingsReader{g,
		sync.OnceValues(func() (wire.TrashResult, error) { return g.Settings().Trash(ctx) }),
		sync.OnceValues(func() (wire.GroupSettings, error) { return g.Settings().Get(ctx) })}
	for _, s := range table {
		state, err := s.read(ctx, reader)
		if errors.Is(err, sdk.ErrUnsupported) && len(table) > 1 {
			continue // this service does not have the setting
		}
		if err != nil {
			return err
		}
		state.Group, state.Setting = string(g.ID), s.name
		row := []string{s.name, state.Value}
		if state.Next != "" {
			row = append(row, state.Next+" is delayed: svcfs group pending "+shellWord(state.Group))
		}
		if t := state.Trash; t != nil {
			row = append(row, fmt.Sprintf("%s in it, %d bytes", plural(int(t.Files), "version"), t.Bytes))
			if t.Held > 0 {
				row[2] += fmt.Sprintf("; %d held until the owner destroys them", t.Held)
			}
		}
		states, rows = append(states, state), append(rows, row)
	}
	switch {
	case a.asJSON && len(table) == 1:
		return a.printJSON(states[0])
	case a.asJSON:
		return a.printJSON(states)
	}
	a.printTable(rows)
	return nil
}

func daysText(days int64) string { return strconv.FormatInt(days, 10) + "d" }

// daysIn is how many days a value such as 90d is, -1 where it is none.
func daysIn(value string) int64 {
	days, err := strconv.ParseInt(strings.TrimSuffix(value, "d"), 10, 64)
	if err != nil || days < 0 {
		return -1
	}
	return days
}
