package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/integration/line"
)

// partsName is the file that keeps what the parts of BENCH=network measured, see -lines.
const partsName = "network-parts.json"

// networkPart is the content of that file.
type networkPart struct {
	Commit string
	Took   time.Duration // of all parts
	Raw    map[string]rawLine
	Cells  []savedCell
}

type savedCell struct {
	Line, Row, System string
	Took, Recorded    time.Duration
	Moved             line.Moved
	Failed            string
}

// chosenLines says which lines are measured now.
func (n *network) chosenLines() (map[int]bool, error) {
	chosen := map[int]bool{}
	for i := range n.lines {
		chosen[i] = n.w.lines == ""
	}
	if n.w.lines == "" {
		return chosen, nil
	}
	for text := range strings.SplitSeq(n.w.lines, ",") {
		number, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || number < 1 || number > len(n.lines) {
			return nil, fmt.Errorf("-lines %s: want numbers from 1 to %d, such as 1,2", n.w.lines, len(n.lines))
		}
		chosen[number-1] = true
	}
	return chosen, nil
}

// isChosen reports whether a name begins with one of a comma-separated list, which is empty for all.
func isChosen(list, name string) bool {
	if list == "" {
		return true
	}
	for prefix := range strings.SplitSeq(list, ",") {
		if strings.HasPrefix(name, strings.TrimSpace(prefix)) {
			return true
		}
	}
	return false
}

// join adds what earlier parts of the same commit measured, and keeps all for later ones. A run
// without -lines has no parts.
func (n *network) join(path string) error {
	n.took = time.Since(n.begun)
	if n.w.lines == "" {
		return forget(path)
	}
	now := networkPart{Commit: commit()}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var before networkPart
	if err == nil {
		if err := json.Unmarshal(raw, &before); err != nil {
			return fmt.Errorf("%s: %w; remove it and measure all parts again", path, err)
		}
	}
	if before.Commit == now.Commit {
		n.took += before.Took
		for name, raw := range before.Raw {
			if _, ok := n.raw[name]; !ok {
				n.raw[name] = raw
			}
		}
		for _, c := range before.Cells {
			key := networkKey{c.Line, c.Row, c.System}
			if _, ok := n.cells[key]; ok {
				continue
			}
			cell := networkCell{took: c.Took, recorded: c.Recorded, moved: c.Moved}
			if c.Failed != "" {
				cell.err = errors.New(c.Failed)
			}
			n.cells[key] = cell
		}
	}
	now.Took, now.Raw = n.took, n.raw
	for key, c := range n.cells {
		saved := savedCell{key.line, key.row, key.system, c.took, c.recorded, c.moved, ""}
		if c.err != nil {
			saved.Failed = c.err.Error()
		}
		now.Cells = append(now.Cells, saved)
	}
	if raw, err = json.MarshalIndent(now, "", "\t"); err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o644)
}

func forget(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
