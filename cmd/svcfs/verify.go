package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/proof"
)

// checkpointPatience is how long a checkpoint may lag behind the rows.
const checkpointPatience = 10 * time.Second

// verifyLedger checks every record of a group against the signed checkpoints of
// the service, and remembers what it saw. A history that must not be believed
// ends with exit code 6.
func (a *app) verifyLedger(ctx context.Context, c *sdk.Client, group sdk.GroupID, key string, asJSON bool) error {
	if err := proof.CheckKey(key); key != "" && err != nil {
		return usage("the operator finds it at URL/tlog/key", err.Error())
	}
	path := a.ledgerMemoryPath(c.NetworkInfo())
	memory, err := readMemory(path)
	if err != nil {
		return err
	}
	if key != "" && memory.Key != "" && key != memory.Key {
		memory = proof.Memory{} // of a log that was signed with the other key
	}
	if key != "" {
		memory.Key = key
	}
	rows, err := c.LedgerRows(ctx, group)
	if err != nil {
		return err
	}
	known, report, err := proof.Checker{Fetch: c.Tlog, Patience: checkpointPatience}.Check(ctx, memory, string(group), rows)
	var refused *proof.Refusal
	if errors.As(err, &refused) {
		return refuse(exitOther, "show this to the other members and the operator, who can run 'svcd audit'; what was seen before is in "+path,
			fmt.Errorf("the history of group %q must not be believed: %w", group, err))
	}
	if err != nil {
		return err
	}
	if err := writeMemory(path, known); err != nil {
		return err
	}
	if path == "" {
		a.ui.notice("neither HOME nor XDG_STATE_HOME is set: nothing is remembered for the next check")
	}
	if asJSON {
		return a.printJSON(report)
	}
	a.printReport(report)
	return nil
}

func (a *app) printReport(r proof.Report) {
	trust, before := "trusted at this first check; compare it with the operator's", "nothing was seen"
	if r.Pinned {
		trust = "as pinned"
	}
	if r.Before > 0 {
		before = plural(int(r.Before), "record") + ", which this history continues"
	}
	a.printPairs(
		[2]string{"verified", plural(r.Rows, "record") + " of this group"},
		[2]string{"signed", plural(int(r.Size), "record") + " of the whole ledger, root " + r.Root},
		[2]string{"before", before},
		[2]string{"log", escapeText(r.Origin)},
		[2]string{"key", escapeText(r.Key) + " (" + trust + ")"},
	)
}

// ledgerMemoryPath is where the checks of one service are remembered; "" without
// a home directory.
func (a *app) ledgerMemoryPath(n sdk.NetworkInfo) string {
	sum := sha256.Sum256([]byte(n.MCPURL + "\n" + n.ContractID))
	return a.userDir("XDG_STATE_HOME", ".local/state", fmt.Sprintf("ledger-%x.json", sum[:8]))
}

// readMemory reads what was remembered; nothing when there is no file.
func readMemory(path string) (m proof.Memory, err error) {
	if path == "" {
		return m, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		err = refuse(exitOther, "restore it, or remove it to trust the service anew", fmt.Errorf("read what was verified before, %s: %w", path, err))
	}
	return m, err
}

// writeMemory replaces the file in one step.
func writeMemory(path string, m proof.Memory) error {
	if path == "" {
		return nil
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode what was verified: %w", err)
	}
	if err := replaceState(path, raw); err != nil {
		return refuse(exitOther, "make its folder writable, or set XDG_STATE_HOME", fmt.Errorf("remember what was verified: %w", err))
	}
	return nil
}

func replaceState(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".ledger-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
