package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// invitation is an invite to a group, as JSON.
type invitation struct {
	ID      string    `json:"id"`
	Role    sdk.Role  `json:"role"`
	Expires time.Time `json:"expires"`
	Text    string    `json:"invite,omitempty"` // only of a new one
}

func invitationOf(i sdk.GroupInvite) invitation {
	return invitation{ID: i.ID, Role: i.Role, Expires: i.Expires}
}

func (a *app) groupInviteCommand() *cobra.Command {
	var role sdk.Role
	var list bool
	var revoke string
	cmd := &cobra.Command{
		Use: "invite GROUP", SuggestFor: []string{"share"},
		Short: "Print an invite: one string that adds an account to a group, once, within 7 days",
		Long: `Print an invite to a group that this account owns; costs one membership change. Who gives it
to 'svcfs group join INVITE' first is a member, a writer or what --role says: send it by a way
that others do not read. It works once, within 7 days. An account that left or was revoked
cannot use it: add it with 'svcfs group add'. --list shows the invites that can be used,
without their secrets, and --revoke takes one back.`,
		Example: "  svcfs group invite team --role reader\n  svcfs group invite team --list\n" +
			"  svcfs group invite team --revoke 0f1e2d3c4b5a6978",
		Args:              exactly(1, "one GROUP"),
		ValidArgsFunction: a.completeGroup,
	}
	cmd.RunE = a.withGroup(func(ctx context.Context, g sdk.Group, args []string) error {
		switch {
		case revoke != "":
			done, err := g.RevokeInvite(ctx, revoke)
			if isNoInvite(err) {
				return refuse(exitNotFound, "see the invites with: svcfs group invite "+shellWord(args[0])+" --list",
					fmt.Errorf("group %s has no invite %s: it was used or revoked, or is too old",
						escapeName(args[0]), escapeName(revoke)))
			}
			if err != nil {
				return err
			}
			return a.printMessage(groupChange{Group: args[0], Message: done.Message})
		case list:
			return a.listInvites(ctx, g)
		default:
			return a.invite(ctx, g, role)
		}
	})
	addRole(cmd, &role, "role of the new member: reader or writer (default writer)")
	cmd.Flags().BoolVar(&list, "list", false, "list the invites that can be used")
	cmd.Flags().StringVar(&revoke, "revoke", "", "take the invite with this `ID` back")
	cmd.MarkFlagsMutuallyExclusive("role", "list", "revoke")
	return cmd
}

func (a *app) invite(ctx context.Context, g sdk.Group, role sdk.Role) error {
	made, text, err := g.Invite(ctx, role)
	if err != nil {
		return err
	}
	if a.asJSON {
		shown := invitationOf(made)
		shown.Text = text.Reveal()
		return a.printJSON(shown)
	}
	a.ui.printf("%s\n", text.Reveal()) // shown here and nowhere else
	a.ui.notice("good once, until %s; take it back with: svcfs group invite %s --revoke %s",
		made.Expires.UTC().Format(time.RFC3339), shellWord(string(g.ID)), escapeName(made.ID))
	return nil
}

func (a *app) listInvites(ctx context.Context, g sdk.Group) error {
	all, err := g.Invites(ctx)
	if err != nil {
		return err
	}
	shown := []invitation{}
	for _, i := range all {
		shown = append(shown, invitationOf(i))
	}
	if a.asJSON {
		return a.printJSON(shown)
	}
	for _, i := range shown {
		a.ui.printf("%s  %s  until %s\n", escapeName(i.ID), i.Role, i.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// askInvite reads an invite from a terminal that does not show it, or the first line of standard input.
func (a *app) askInvite(ctx context.Context) (sdk.Secret, error) {
	f, ok := a.stdin.(*os.File)
	if ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(a.ui.err, "Invite (not shown): ")
		defer fmt.Fprintln(a.ui.err)
		return readHidden(ctx, f, readInvite)
	}
	return readInvite(a.input(ctx), "standard input")
}

func readInvite(r io.Reader, from string) (sdk.Secret, error) {
	line, err := bufio.NewReader(io.LimitReader(r, cli.MaxAnswers)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return sdk.Secret{}, fmt.Errorf("read the invite from %s: %w", from, err)
	}
	return sdk.NewSecret(strings.TrimSpace(line)), nil
}

// joinBy adds this account to the group of an invite.
func (a *app) joinBy(ctx context.Context, c *sdk.Client, text string) error {
	invite, err := parseInvite(text)
	if err != nil {
		return err
	}
	if invite.Group == "" {
		return usage("give it to: svcfs setup INVITE", "this invite makes an account, and is of no group")
	}
	group, err := c.UseInvite(ctx, invite)
	if isNoInvite(err) {
		return refuse(exitAuth, "svcfs ls shows whether this account is a member already; else ask the owner for "+
			"another", err)
	}
	if err != nil {
		return err
	}
	return a.printMessage(groupChange{Group: string(group), Member: string(c.Account()),
		Message: "Joined group '" + string(group) + "'"})
}

// isNoInvite reports whether the service knows no such invite, or not any more.
func isNoInvite(err error) bool {
	var refused *sdk.Error
	return errors.As(err, &refused) && refused.Code == wire.CodeInvite
}

func parseInvite(text string) (wire.Invite, error) {
	invite, err := wire.ParseInvite(text)
	if err != nil {
		return invite, usage("give the whole invite, which begins with svcfs-invite-: svcd invite NAME makes one for "+
			"an account, svcfs group invite GROUP one for a group", err.Error())
	}
	return invite, nil
}
