package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

// openFlags say for how long, and for how many, a group is open.
type openFlags struct {
	span timeSpan
	uses int64
	role sdk.Role // "" = as before, at first a writer
}

// defaultOpen is how long a group stays open unless told otherwise.
const defaultOpen = 24 * time.Hour

func (f *openFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	addRole(cmd, &f.role, "role of accounts that join: reader or writer (default the role of the last window, at "+
		"first writer)")
	f.span = timeSpan(defaultOpen)
	set.Var(&f.span, "for", "how long the group stays open, such as 90m, 24h or 7d")
	set.Int64Var(&f.uses, "uses", 0, "how many accounts may join (default any number)")
}

func (f *openFlags) check() error {
	if f.span <= 0 {
		return usage("use a time such as --for 24h", "--for must be longer than nothing")
	}
	if f.uses < 0 {
		return usage("leave it out for any number", "--uses must not be negative")
	}
	return nil
}

func (a *app) groupCreateCommand() *cobra.Command {
	var open bool
	var f openFlags
	cmd := &cobra.Command{
		Use:   "create GROUP",
		Short: "Register a group that this account owns; costs one registration",
		Long: `Register a group that this account owns; costs one registration. With --open it
accounts may join the group by themselves, for a while: only a group made
that way can be opened and closed. 'svcfs group config' changes its settings: members with
the JavaScript SDK need format 1.`,
		Example: "  svcfs group create team\n  svcfs group create submissions --open --for 7d",
		Args:    exactly(1, "one GROUP"),
	}
	cmd.PreRunE = first(func(args []string) error {
		if err := names.CheckNewGroup(args[0]); err != nil {
			return usage("a group is a folder: use a name such as team, without slashes", err.Error())
		}
		if !open && (cmd.Flags().Changed("for") || cmd.Flags().Changed("uses") || f.role != "") {
			return usage("add --open", "--for, --uses and --role are about an open group")
		}
		return f.check()
	})
	cmd.RunE = a.changeGroups(func(ctx context.Context, c *sdk.Client, args []string) error {
		g := c.Group(sdk.GroupID(args[0]))
		if !open {
			change, err := g.Register(ctx)
			if err != nil {
				return err
			}
			return a.printMessage(groupChange{Group: args[0], Message: change.Message})
		}
		if err := mustBeNew(ctx, g); err != nil {
			return err
		}
		return a.openGroup(ctx, g, f)
	})
	cmd.Flags().BoolVar(&open, "open", false, "let accounts join by themselves")
	f.register(cmd)
	cmd.ValidArgsFunction = completeNothing
	return cmd
}

// mustBeNew refuses a group that exists: opening it would not create it.
func mustBeNew(ctx context.Context, g sdk.Group) error {
	_, err := g.Owner(ctx)
	if errors.Is(err, sdk.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return refuse(exitOther, "open it with: svcfs group open "+shellWord(escapeName(string(g.ID))),
		fmt.Errorf("group %s exists already", escapeName(string(g.ID))))
}

func (a *app) groupOpenCommand() *cobra.Command {
	var f openFlags
	cmd := &cobra.Command{
		Use:   "open GROUP",
		Short: "Let accounts join a group by themselves for a while",
		Long: `Let accounts join a group by themselves for a while. The group must have been
made with 'svcfs group create --open'; only its owner can open it.`,
		Example: "  svcfs group open submissions --for 7d --uses 100",
		Args:    exactly(1, "one GROUP"),
		PreRunE: first(func([]string) error { return f.check() }),
		RunE: a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
			_, err := g.Owner(ctx) // opening would register it, which costs
			if errors.Is(err, sdk.ErrNotFound) {
				return refuse(exitNotFound,
					"make it with: svcfs group create "+shellWord(escapeName(args[0]))+" --open", err)
			}
			if err != nil {
				return err
			}
			return a.openGroup(ctx, g, f)
		}),
		ValidArgsFunction: a.completeGroup,
	}
	f.register(cmd)
	return cmd
}

func (a *app) openGroup(ctx context.Context, g sdk.Group, f openFlags) error {
	until := time.Now().Add(time.Duration(f.span)).UTC().Truncate(time.Second)
	opened, err := g.OpenJoin(ctx, until, sdk.JoinOptions{Role: f.role, AtMost: f.uses})
	if err != nil {
		return err
	}
	return a.printMessage(groupChange{Group: string(g.ID), Role: f.role, Until: &until, Uses: f.uses,
		Message: opened.Message})
}

func (a *app) groupCloseCommand() *cobra.Command {
	return a.groupChangeCommand("close GROUP", "Close a group that 'group open' opened; accounts that joined stay "+
		"members", "  svcfs group close submissions", sdk.Group.CloseJoin)
}

// timeSpan is a flag value such as 90m, 24h or 7d.
type timeSpan time.Duration

func (s *timeSpan) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Type names the value in help texts.
func (s *timeSpan) Type() string { return "TIME" }

// maxDays keeps a span within what a duration can hold.
const maxDays = 36500

// Set reads what time.ParseDuration reads, and whole days.
func (s *timeSpan) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 0 || n > maxDays {
			return errors.New("want a time such as 90m, 24h or 7d")
		}
		*s = timeSpan(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("want a time such as 90m, 24h or 7d")
	}
	*s = timeSpan(d)
	return nil
}
