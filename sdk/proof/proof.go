package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Refusal is a history that must not be believed.
type Refusal struct {
	Row  int64 // first bad row; 0 when the fault has no row
	Text string
}

// Error names the row and what is wrong with it.
func (r *Refusal) Error() string {
	if r.Row == 0 {
		return r.Text
	}
	return fmt.Sprintf("row %d: %s", r.Row, r.Text)
}

func refuse(row int64, format string, args ...any) error {
	return &Refusal{Row: row, Text: fmt.Sprintf(format, args...)}
}

// Fetch reads "checkpoint", "key" or "tile/…" of a service's log.
type Fetch func(ctx context.Context, path string) ([]byte, error)

// Memory is what a client keeps of a service between two checks, as JSON. The
// zero value knows nothing: the first check trusts the service's key.
type Memory struct {
	Key        string          `json:"key"`        // pinned verifier key
	Checkpoint string          `json:"checkpoint"` // newest that was verified, as signed
	Groups     map[string]Seen `json:"groups"`
}

// Seen is which records of a group were verified.
type Seen struct {
	Seqs []int64 `json:"seqs"`
	// Hashes holds the first [shortHash] bytes of each record's hash. They only
	// name the row that changed: the signed tree proves that none did.
	Hashes []byte `json:"hashes"`
}

const shortHash = 8

// Report tells what was verified.
type Report struct {
	Rows   int    `json:"rows"`   // records of the group, each in the signed tree
	Size   int64  `json:"size"`   // records of the whole ledger below the checkpoint
	Root   string `json:"root"`   // base64
	Origin string `json:"origin"` // name of the log
	Key    string `json:"key"`    // that signed
	Before int64  `json:"before"` // records of the checkpoint seen before, which this one continues; 0 = none
	Pinned bool   `json:"pinned"` // the key was known before this check
}

// Checker checks groups against one service's log.
type Checker struct {
	Fetch Fetch
	// Patience is how long a checkpoint may lag behind rows that were listed.
	Patience time.Duration
}

// maxRecords bounds a tree: package tlog does not end for sizes near 2^63.
const maxRecords = 1 << 48

// lagPause is between two looks at a checkpoint that lags.
const lagPause = 200 * time.Millisecond

// Check verifies rows, all records of group in order, and returns what to
// remember. A [*Refusal] means that the service does not tell the truth, or not
// the truth it told before; any other error that it could not be asked.
func (c Checker) Check(ctx context.Context, m Memory, group string, rows []Row) (Memory, Report, error) {
	report := Report{Rows: len(rows), Pinned: m.Key != ""}
	if err := checkRows(group, rows); err != nil {
		return m, report, err
	}
	if err := m.Groups[group].check(rows); err != nil {
		return m, report, err
	}
	if m.Key == "" {
		raw, err := c.Fetch(ctx, "key")
		if err != nil {
			return m, report, fmt.Errorf("fetch key: %w", err)
		}
		m.Key = strings.TrimSuffix(string(raw), "\n")
	}
	report.Key = m.Key
	before, err := m.seen()
	if err != nil {
		return m, report, err
	}
	needed := before.N
	if len(rows) > 0 {
		needed = max(needed, rows[len(rows)-1].Seq)
	}
	now, raw, err := c.checkpoint(ctx, m.Key, needed)
	if err != nil {
		return m, report, err
	}
	report.Origin, report.Size, report.Root, report.Before = now.origin, now.N, now.Hash.String(), before.N
	if err := c.compare(ctx, now, before, rows); err != nil {
		return m, report, err
	}
	return m.with(group, rows, raw), report, nil
}

// checkRows checks what rows say about themselves.
func checkRows(group string, rows []Row) error {
	last := Row{}
	for _, r := range rows {
		switch {
		case r.Seq <= last.Seq:
			return refuse(r.Seq, "listed after row %d", last.Seq)
		case r.Group != group:
			return refuse(r.Seq, "it belongs to another group")
		case r.Sum() != r.Hash:
			return refuse(r.Seq, "its content does not give its hash")
		case r.Seq == last.Seq+1 && r.Prev != last.Hash:
			return refuse(r.Seq, "it does not follow row %d", last.Seq)
		}
		last = r
	}
	return nil
}

// check refuses rows that lack one that was seen, or have another in its place,
// or have one between them that was not there.
func (s Seen) check(rows []Row) error {
	if len(s.Hashes) != shortHash*len(s.Seqs) {
		return errors.New("what was remembered of the group is damaged")
	}
	for i, seq := range s.Seqs {
		switch {
		case i >= len(rows) || rows[i].Seq > seq:
			return refuse(seq, "it was in the history before and is missing now")
		case rows[i].Seq < seq:
			return refuse(rows[i].Seq, "it was not in the history before, which has later rows")
		case !bytes.Equal(rows[i].Hash[:shortHash], s.Hashes[i*shortHash:][:shortHash]):
			return refuse(seq, "it is not the row that was in the history before")
		}
	}
	return nil
}

// tree is a checkpoint that was verified.
type tree struct {
	origin string
	tlog.Tree
}

// open verifies a checkpoint with a key.
func open(raw []byte, key string) (tree, error) {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return tree{}, fmt.Errorf("read key %.200q: %w", key, err)
	}
	opened, err := note.Open(raw, note.VerifierList(verifier))
	if err != nil {
		return tree{}, refuse(0, "the checkpoint was not signed with the key %s: %v", key, err)
	}
	// As c2sp.org/tlog-checkpoint: the log's own name, size, root, and lines
	// that other programs add.
	lines := strings.SplitN(opened.Text, "\n", 4)
	if len(lines) < 4 || lines[0] != verifier.Name() {
		return tree{}, refuse(0, "the checkpoint is of another log than %s", verifier.Name())
	}
	t := tree{origin: lines[0]}
	body, err := tlog.ParseTree([]byte("go.sum database tree\n" + lines[1] + "\n" + lines[2] + "\n"))
	if empty, _ := tlog.TreeHash(0, nil); err != nil || body.N > maxRecords || body.N == 0 && body.Hash != empty {
		return tree{}, refuse(0, "the checkpoint makes no sense")
	}
	t.Tree = body
	return t, nil
}

// seen opens the remembered checkpoint.
func (m Memory) seen() (tree, error) {
	if m.Checkpoint == "" {
		return tree{}, nil
	}
	t, err := open([]byte(m.Checkpoint), m.Key)
	if err != nil {
		return t, fmt.Errorf("the checkpoint seen before: %w", err)
	}
	return t, nil
}

// checkpoint fetches a checkpoint of at least so many records.
func (c Checker) checkpoint(ctx context.Context, key string, needed int64) (tree, []byte, error) {
	for deadline := time.Now().Add(c.Patience); ; {
		raw, err := c.Fetch(ctx, "checkpoint")
		if err != nil {
			return tree{}, nil, fmt.Errorf("fetch checkpoint: %w", err)
		}
		t, err := open(raw, key)
		if err != nil {
			return t, nil, err
		}
		if t.N >= needed {
			return t, raw, nil
		}
		if !time.Now().Before(deadline) {
			return t, nil, refuse(t.N+1, "the signed history ends before it, although %d rows were seen", needed)
		}
		select {
		case <-time.After(lagPause):
		case <-ctx.Done():
			return t, nil, ctx.Err()
		}
	}
}

// compare proves that now continues before, and that every row is in it.
func (c Checker) compare(ctx context.Context, now, before tree, rows []Row) error {
	if now.N == 0 { // then nothing was seen, and nothing is listed
		return nil
	}
	source := &tiles{ctx: ctx, fetch: c.Fetch, have: map[tlog.Tile][]byte{}}
	reader := tlog.TileHashReader(now.Tree, source)
	indexes := make([]int64, len(rows))
	for i, r := range rows {
		indexes[i] = tlog.StoredHashIndex(0, r.Seq-1)
	}
	hashes, err := reader.ReadHashes(indexes)
	if err != nil {
		return source.blame(err)
	}
	for i, r := range rows {
		if hashes[i] != tlog.RecordHash(r.Hash[:]) {
			return refuse(r.Seq, "another row was signed at this place")
		}
	}
	if before.N == 0 {
		return nil
	}
	proof, err := tlog.ProveTree(now.N, before.N, reader)
	if err != nil {
		return source.blame(err)
	}
	if tlog.CheckTree(proof, now.N, now.Hash, before.N, before.Hash) != nil {
		return refuse(0, "the history was forked: rows 1 to %d are not those that were signed before", before.N)
	}
	return nil
}

// with adds what was verified.
func (m Memory) with(group string, rows []Row, raw []byte) Memory {
	seen := Seen{Seqs: make([]int64, 0, len(rows)), Hashes: make([]byte, 0, shortHash*len(rows))}
	for _, r := range rows {
		seen.Seqs = append(seen.Seqs, r.Seq)
		seen.Hashes = append(seen.Hashes, r.Hash[:shortHash]...)
	}
	groups := map[string]Seen{group: seen}
	for name, s := range m.Groups {
		if name != group {
			groups[name] = s
		}
	}
	m.Groups, m.Checkpoint = groups, string(raw)
	return m
}

// CheckKey says what is wrong with the text of a verifier key, or nothing.
func CheckKey(key string) error {
	if _, err := note.NewVerifier(key); err != nil {
		return fmt.Errorf("verifier key %.200q: want NAME+HASH+KEY", key)
	}
	return nil
}
