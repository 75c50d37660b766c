package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/sdk"
)

// shortHashDigits names a file that was recorded without a name, as the mount does.
const shortHashDigits = 12

// entryName is what the mount shows, before escaping.
func entryName(e sdk.Entry) string {
	if e.Name != "" {
		return e.Name
	}
	return hex.EncodeToString(e.Hash[:])[:shortHashDigits]
}

// allEntries lists every record of a group, one per reference, in upload order.
func allEntries(ctx context.Context, c *sdk.Client, g sdk.GroupID) ([]sdk.Entry, error) {
	listed, err := c.Entries(ctx, g, 0)
	if err != nil {
		return nil, err
	}
	at := make(map[sdk.Ref]int, len(listed))
	var entries []sdk.Entry
	for _, e := range listed {
		if i, seen := at[e.Ref]; seen {
			entries[i] = e
			continue
		}
		at[e.Ref] = len(entries)
		entries = append(entries, e)
	}
	slices.SortStableFunc(entries, func(x, y sdk.Entry) int { return int(min(max(x.Seq-y.Seq, -1), 1)) })
	return entries, nil
}

// current keeps the newest live entry of each name, by name.
func current(entries []sdk.Entry) []sdk.Entry {
	newest := make(map[string]sdk.Entry)
	for _, e := range entries {
		if e.Deleted == nil {
			newest[entryName(e)] = e
		}
	}
	list := make([]sdk.Entry, 0, len(newest))
	for _, e := range newest {
		list = append(list, e)
	}
	slices.SortFunc(list, func(x, y sdk.Entry) int { return strings.Compare(entryName(x), entryName(y)) })
	return list
}

// ages tells of each name when it came to be.
func ages(entries []sdk.Entry) map[string]sdk.Seq {
	oldest := make(map[string]sdk.Seq)
	for i := range entries {
		name, age := entryName(entries[i]), tree.Age(&entries[i])
		if known, ok := oldest[name]; !ok || age < known {
			oldest[name] = age
		}
	}
	return oldest
}

// listedEntry is a file record in JSON output.
type listedEntry struct {
	Name        string         `json:"name"` // as shown: escaped
	Size        *int64         `json:"size"` // null when unknown
	Uploader    sdk.AccountID  `json:"uploader"`
	Time        *time.Time     `json:"time"`
	CID         sdk.Ref        `json:"cid"`
	TransID     sdk.TxID       `json:"trans_id"`
	FileHash    string         `json:"file_hash"`
	ContentType string         `json:"content_type,omitempty"`
	Seq         sdk.Seq        `json:"seq,omitempty"`
	Deleted     *listedDeleted `json:"deleted,omitempty"`
}

type listedDeleted struct {
	Time   time.Time     `json:"time"`
	By     sdk.AccountID `json:"by"`
	Reason string        `json:"reason"`
}

func listed(e sdk.Entry) listedEntry {
	l := listedEntry{Name: escapeName(entryName(e)), Uploader: e.Uploader, CID: e.Ref, TransID: e.Tx,
		FileHash: e.Hash.String(), ContentType: e.ContentType, Seq: e.Seq}
	if e.Size != sdk.SizeUnknown {
		l.Size = &e.Size
	}
	if !e.Time.IsZero() {
		utc := e.Time.UTC()
		l.Time = &utc
	}
	if e.Deleted != nil {
		l.Deleted = &listedDeleted{e.Deleted.Time.UTC(), e.Deleted.By, e.Deleted.Reason}
	}
	return l
}

func sizeText(e sdk.Entry) string {
	if e.Size == sdk.SizeUnknown {
		return "?"
	}
	return fmt.Sprint(e.Size)
}

func (a *app) lsCommand() *cobra.Command {
	var long, asJSON bool
	cmd := &cobra.Command{
		Use:     "ls [GROUP]",
		Short:   "List the files of a group, or the groups",
		Example: "  svcfs ls\n  svcfs ls -l team\n  svcfs ls team --json",
		Args:    between(0, 1, "at most one GROUP"),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			if len(args) == 0 {
				return a.listGroups(ctx, c, long, asJSON)
			}
			entries, err := allEntries(ctx, c, sdk.GroupID(args[0]))
			if err != nil {
				return err
			}
			return a.printFiles(current(entries), long, asJSON)
		}),
		ValidArgsFunction: a.completeGroup,
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "also size, uploader and time; of groups role and owner")
	addJSON(cmd, &asJSON)
	return cmd
}

func (a *app) printFiles(entries []sdk.Entry, long, asJSON bool) error {
	if asJSON {
		return a.printEntriesJSON(entries)
	}
	rows := make([][]string, 0, len(entries))
	for _, e := range entries {
		name := escapeName(entryName(e))
		if long {
			rows = append(rows, []string{sizeText(e), escapeName(string(e.Uploader)), timeText(e.Time), name})
		} else {
			rows = append(rows, []string{name})
		}
	}
	a.printTable(rows)
	return nil
}

func (a *app) printEntriesJSON(entries []sdk.Entry) error {
	list := make([]listedEntry, 0, len(entries))
	for _, e := range entries {
		list = append(list, listed(e))
	}
	return a.printJSON(list)
}

func (a *app) ledgerCommand() *cobra.Command {
	var asJSON, verify bool
	cmd := &cobra.Command{
		Use:   "ledger GROUP",
		Short: "List every file record of a group, also older versions and deleted files",
		Long: "Lists every file record of a group. With --verify it checks all records instead, also those of members and retrievals:\n" +
			"that each gives its hash and is in the tree the service signed, that the history continues the one seen before, and that\n" +
			"what mount, ls and get show is made of exactly these records. A history that was altered, shortened or forked ends with\n" +
			"exit code 6 and says what was proven false.",
		Example: "  svcfs ledger team\n  svcfs ledger team --json\n  svcfs ledger team --verify",
		Args:    exactly(1, "one GROUP"),
		RunE: a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			if verify {
				return a.verifyLedger(ctx, c, sdk.GroupID(args[0]), asJSON)
			}
			entries, err := allEntries(ctx, c, sdk.GroupID(args[0]))
			if err != nil {
				return err
			}
			if asJSON {
				return a.printEntriesJSON(entries)
			}
			a.printLedger(entries)
			return nil
		}),
		ValidArgsFunction: a.completeGroup,
	}
	addJSON(cmd, &asJSON)
	cmd.Flags().BoolVar(&verify, "verify", false, "check all records against the signed checkpoints of the service")
	cmd.Flags().StringVar(&a.flags.logKey, "key", "", "as --log-key")
	return cmd
}

func (a *app) printLedger(entries []sdk.Entry) {
	rows := make([][]string, 0, len(entries))
	for _, e := range entries {
		state := "live"
		if e.Deleted != nil {
			state = "deleted:" + escapeText(e.Deleted.Reason)
		}
		rows = append(rows, []string{timeText(e.Time), escapeName(string(e.Uploader)), sizeText(e), state, escapeText(string(e.Ref)), escapeName(entryName(e))})
	}
	a.printTable(rows)
}
