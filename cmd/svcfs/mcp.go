package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/svcfs/svcfs/cmd/svcfs/internal/agent"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
	"github.com/svcfs/svcfs/sdk/wire"
)

// mcpFlags bound what an agent may do.
type mcpFlags struct {
	groups                  []string
	budget                  string
	readBytes, writeBytes   byteSize
	allowWrite, allowDelete bool
}

func (a *app) mcpCommand() *cobra.Command {
	f := mcpFlags{readBytes: 16 << 20, writeBytes: 4 << 20}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the groups to an agent, by the Model Context Protocol on standard input and output",
		Long: `Serve the groups of this account to an agent, by the Model Context Protocol (MCP) on
standard input and output. An agent's host starts this command; it ends with its input.

The agent can list groups and files, read them piece by piece, and ask about history,
costs, the balance, the ledger and failures. It can change something only with
--allow-write, and delete only with --allow-delete; for each change the user is asked by
the host, or the agent gets a plan that it must confirm. It cannot leave --groups, spend
more than --budget, or read or write more than --read-bytes and --write-bytes, whatever
the files that it reads tell it to do. Opening a file costs one retrieval, and only once
while it stays open: five minutes after the last read.`,
		Example: "  svcfs mcp --groups team --budget 0.5\n  svcfs mcp --groups team,drafts --allow-write " +
			"--api-key-file ~/agent.key",
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.simple(func(ctx context.Context, _ []string) error {
		// such as an empty variable of a shell
		if cmd.Flags().Changed("groups") && (len(f.groups) == 0 || slices.Contains(f.groups, "")) {
			return usage("name groups, such as --groups team,drafts, or leave --groups out for all of the account",
				"--groups names no group")
		}
		return a.mcp(ctx, f)
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&f.groups, "groups", nil,
		"the only groups that the agent may name (default: all of the account)")
	flags.StringVar(&f.budget, "budget", "1", "most tokens to spend in all; 0 = nothing that costs, so that no file "+
		"is opened where that costs")
	flags.Var(&f.readBytes, "read-bytes", "most content to hand out in all")
	flags.Var(&f.writeBytes, "write-bytes", "most content to save in all")
	flags.BoolVar(&f.allowWrite, "allow-write", false,
		"also offer to save and rename files, create groups, and add and revoke members")
	flags.BoolVar(&f.allowDelete, "allow-delete", false, "also offer to move files to the trash, and to destroy them")
	_ = cmd.RegisterFlagCompletionFunc("groups", a.completeGroup) // exists
	return cmd
}

func (a *app) mcp(ctx context.Context, f mcpFlags) error {
	budget, err := wire.ParseTokens(f.budget)
	if err != nil {
		return usage("use a number of tokens such as --budget 0.5",
			fmt.Sprintf("--budget: %q is no number of tokens", f.budget))
	}
	s, err := a.accountSettings()
	if err != nil {
		return err
	}
	in, ok := a.stdin.(io.ReadCloser)
	if !ok || s.key.value == "-" {
		return usage("use --api-key-file FILE, or 'svcfs login'",
			"standard input is for the agent, and cannot hold the key")
	}
	if err := a.resolveKey(ctx, &s); err != nil {
		return err
	}
	s.config.MaxFileBytes = agent.MaxWhole
	c, err := a.newClient(s)
	if err != nil {
		return err
	}
	groups := make([]sdk.GroupID, 0, len(f.groups))
	for _, g := range f.groups {
		groups = append(groups, sdk.GroupID(g))
	}
	if err := a.checkGroups(ctx, c, groups); err != nil {
		return errors.Join(err, c.Close())
	}
	err = agent.Serve(ctx, agent.Options{
		Client: c, Version: wire.Version(), Groups: groups, Budget: budget, ReadBytes: int64(f.readBytes),
		WriteBytes: int64(f.writeBytes),
		AllowWrite: f.allowWrite, AllowDelete: f.allowDelete, Hint: a.hints.of,
		Why: whyIn(c.Account(), c.NetworkInfo().MCPURL),
	}, agent.Transport(in, writeCloser{a.ui.out}))
	if ctx.Err() != nil || errors.Is(err, io.EOF) { // told to end, or the host has closed its side
		err = nil
	}
	return errors.Join(err, a.closeClient(c))
}

// checkGroups refuses groups that this account has not. It asks nothing that costs, and believes the
// names where the service does not answer: the agent is told then.
func (a *app) checkGroups(ctx context.Context, c *sdk.Client, named []sdk.GroupID) error {
	if len(named) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if price, err := c.ReadPrice(ctx); err != nil || !price.IsZero() {
		return nil
	}
	there, err := c.Groups(ctx)
	if err != nil {
		return nil
	}
	for _, g := range named {
		if !slices.ContainsFunc(there, func(t sdk.Group) bool { return t.ID == g }) {
			return refuse(exitNotFound, "see the groups of this account with: svcfs group list; make one with: svcfs "+
				"group create GROUP",
				fmt.Errorf("--groups: this account is in no group %q", g))
		}
	}
	return nil
}

// writeCloser leaves standard output open: it is the program's.
type writeCloser struct{ io.Writer }

func (writeCloser) Close() error { return nil }

// whyIn explains failures at a path of a group, in the mounts of an account at a service on this machine.
func whyIn(account sdk.AccountID, address string) func(context.Context, sdk.GroupID, string) (any, error) {
	return func(ctx context.Context, group sdk.GroupID, name string) (any, error) {
		dirs, err := ownMounts()
		if err != nil {
			return nil, err
		}
		inside := "/" + names.Group(string(group), "", false)
		folder := inside
		if name != "" {
			inside += "/" + name
		}
		docs, mounts := []reasonDoc{}, 0
		for _, dir := range dirs {
			if !inspect(ctx, dir).isOf(account, address) {
				continue
			}
			mounts++
			text, err := readControl(ctx, dir, "reasons")
			if errors.Is(err, os.ErrNotExist) {
				continue // it was unmounted meanwhile
			}
			if err != nil {
				return nil, err
			}
			for _, r := range reasonsAbout(parseReasons(text), inside) {
				if r.Path == folder || isBelow(r.Path, folder) {
					docs = append(docs, docOf(dir, r))
				}
			}
		}
		return map[string]any{"mounts": mounts, "failures": docs[:min(len(docs), shownReasons)]}, nil
	}
}

// parseReasons reads what a mount remembers; lines that are none are left out.
func parseReasons(text []byte) (all []report.Reason) {
	for line := range strings.Lines(string(text)) {
		var r report.Reason
		if json.Unmarshal([]byte(line), &r) == nil {
			all = append(all, r)
		}
	}
	return all
}
