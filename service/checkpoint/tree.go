package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// hashesFile holds every complete hash of the tree, 32 bytes each, in the order of
// tlog.StoredHashIndex: 64 bytes for a record on average. It is append-only, and every
// tile of every size is read from it. After a crash, the hashes behind the newest
// checkpoint are written again, with the same bytes.
const hashesFile = "hashes"

// hashReader reads complete hashes from a file.
func hashReader(file *os.File) tlog.HashReaderFunc {
	return func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			if err := readHash(file, x, &out[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

func readHash(file *os.File, index int64, into *tlog.Hash) error {
	if _, err := file.ReadAt(into[:], index*tlog.HashSize); err != nil {
		return fmt.Errorf("read hash %d of the tree: %w", index, err)
	}
	return nil
}

// growing is a tree that records are added to.
type growing interface {
	tlog.HashReader
	add(place int64, hashes []tlog.Hash) error
}

// addTo adds a record to a tree. The entry of a record (RFC 6962) is the 32 bytes of
// the record's own hash.
func addTo(to growing, r chain.Row) error {
	hashes, err := tlog.StoredHashesForRecordHash(r.Place-1, tlog.RecordHash(r.Hash[:]), to)
	if err != nil {
		return fmt.Errorf("add row %d to the tree: %w", r.Place, err)
	}
	return to.add(r.Place, hashes)
}

// page is the hashes of some records on their way to the file.
type page struct {
	base int64 // index of the first
	file *os.File
	raw  []byte
}

// ReadHashes reads from the page, and earlier hashes from the file.
func (p *page) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x >= p.base {
			copy(out[i][:], p.raw[(x-p.base)*tlog.HashSize:])
		} else if err := readHash(p.file, x, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (p *page) add(_ int64, hashes []tlog.Hash) error {
	for _, h := range hashes {
		p.raw = append(p.raw, h[:]...)
	}
	return nil
}

// settle compares the records up to the checkpoint found at the start with the
// file, and writes those behind it. The page begins behind row from.
func (p *page) settle(from int64, found Checkpoint, compared bool) error {
	raw := p.raw
	if known := (tlog.StoredHashCount(found.N) - p.base) * tlog.HashSize; !compared && known > 0 {
		raw = raw[min(known, int64(len(raw))):]
		if err := p.compare(p.raw[:len(p.raw)-len(raw)], from); err != nil {
			return err
		}
	}
	if len(raw) == 0 {
		return nil
	}
	at := p.base*tlog.HashSize + int64(len(p.raw)-len(raw))
	if _, err := p.file.WriteAt(raw, at); err != nil {
		return fmt.Errorf("write tree: %w", err)
	}
	return nil
}

// compare finds the first row whose hashes are not those in the file.
func (p *page) compare(want []byte, from int64) error {
	got := make([]byte, len(want))
	n, err := p.file.ReadAt(got, p.base*tlog.HashSize)
	if n < len(got) && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read tree: %w", err)
	}
	for at := 0; at < len(want); from++ {
		end := int(tlog.StoredHashCount(from+1)-p.base) * tlog.HashSize
		if end > n {
			return fmt.Errorf("row %d: %w: %s ends before it", from+1, ErrContradiction, filepath.Join(Dir, hashesFile))
		}
		if !bytes.Equal(got[at:end], want[at:end]) {
			return fmt.Errorf("row %d: %w: another row was signed at this place", from+1, ErrContradiction)
		}
		at = end
	}
	return nil
}

// compareRoot checks that the first rows of a ledger with n records give the
// root that was signed.
func compareRoot(signed Checkpoint, n int64, r tlog.HashReader) error {
	if signed.Note == nil {
		return nil
	}
	if n < signed.N {
		return fmt.Errorf("row %d: %w: the ledger ends at row %d, and %d rows were signed", n+1, ErrContradiction, n,
			signed.N)
	}
	root, err := tlog.TreeHash(signed.N, r)
	if err != nil {
		return fmt.Errorf("compute root: %w", err)
	}
	if root != signed.Hash {
		return fmt.Errorf("rows 1 to %d: %w: they give root %s, signed was %s", signed.N, ErrContradiction, root,
			signed.Hash)
	}
	return nil
}

// compareChains checks that the chains end where the checkpoint says.
func compareChains(signed Checkpoint, chains chain.Tree) error {
	if root := chains.Root(); root != signed.Chains {
		return fmt.Errorf("rows 1 to %d: %w: their chains give root %s, signed was %s", signed.N, ErrContradiction,
			tlog.Hash(root), tlog.Hash(signed.Chains))
	}
	return nil
}

// Report is the result of an audit that found no fault.
type Report struct {
	Records int64 // in the ledger, chain intact
	Signed  int64 // of them below the newest checkpoint; -1 = nothing was signed here
	Root    string
	Key     string     // verifier key of the checkpoint; "" = nothing was signed here
	Opens   wire.Opens // in the checkpoint
	// Refused are records of groups that change nothing for the vault, at most [maxRefused]: nobody asked for them, or
	// their account may not make them.
	Refused []chain.Record
}

// FilesAtOnce is how many files an audit replays at once: some 100 MB.
const FilesAtOnce = 200_000

// Audit replays the ledger into fresh trees and compares them with the newest signed
// checkpoint. Then it compares every row of every table that is derived from the ledger
// with the records. It sees one state of the database and changes nothing. It fails at
// the first row that breaks a chain or differs from the ledger ([ledger.ErrBroken]), or
// differs from the signed one ([ErrContradiction]). It holds some 500 bytes for each of filesAtOnce files, and for each
// account and group: it reads the ledger once for each filesAtOnce files.
func (l *Log) Audit(ctx context.Context, filesAtOnce int64) (Report, error) {
	keys, err := l.readKeys(ctx)
	if err != nil {
		return Report{}, err
	}
	signed, err := l.load(keys)
	if err != nil {
		return Report{}, err
	}
	file, err := os.Open(filepath.Join(l.dir, hashesFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Report{}, fmt.Errorf("open tree: %w", err)
	}
	if file != nil {
		defer file.Close()
	}
	var walk ledger.Walk
	waiting := int64(0)
	refused := refused{key: newest(keys), members: map[string]*chain.Members{}}
	err = l.store.Read(ctx, func(tx *store.Tx) error {
		parts, err := ledger.Parts(ctx, tx, filesAtOnce)
		if err != nil {
			return err
		}
		waiting, err = auditRows(ctx, tx, &walk, ledger.State{Part: parts[0]}, &freshTree{signed: signed, file: file},
			&refused)
		if err != nil {
			return err
		}
		for _, part := range parts[1:] {
			state := ledger.State{Part: part}
			if err := state.Replay(ctx, tx); err != nil {
				return err
			}
			if err := state.Compare(ctx, tx); err != nil {
				return err
			}
		}
		return ledger.CompareNames(ctx, tx)
	})
	if err != nil {
		return Report{Records: walk.Place + waiting, Signed: signed.N}, err
	}
	report := Report{Records: walk.Place + waiting, Signed: signed.N, Root: signed.Hash.String(), Opens: signed.Opens,
		Refused: refused.found}
	if signed.Note == nil {
		report.Signed = -1
		return report, nil
	}
	if report.Key, err = verifierKey(signed.Origin, newest(keys)); err != nil {
		return report, fmt.Errorf("make verifier key: %w", err)
	}
	return report, nil
}

// auditRows walks through all rows, compares what was signed, and then the first part of the tables. It returns how
// many rows have no place yet.
func auditRows(ctx context.Context, tx *store.Tx, walk *ledger.Walk, state ledger.State, fresh *freshTree,
	refused *refused) (waiting int64, err error) {
	var chains chain.Tree
	add := func(r chain.Row) error {
		state.Apply(&r)
		return refused.add(ctx, r)
	}
	for _, upTo := range []int64{fresh.signed.N, math.MaxInt32} {
		fork := walk.Fork()
		_, err := fork.Next(ctx, tx, int(upTo-walk.Place), func(r chain.Row) error {
			return cmp.Or(add(r), addTo(fresh, r))
		})
		walk.Join(fork)
		for name, end := range fork.Moved() {
			chains = chains.With(name, end.Place)
		}
		if err != nil {
			return 0, err
		}
		if upTo > fresh.signed.N {
			break
		}
		if err := compareRoot(fresh.signed, walk.Place, fresh); err != nil {
			return 0, err
		}
		if err := compareChains(fresh.signed, chains); err != nil {
			return 0, err
		}
	}
	if waiting, err = walk.Waiting(ctx, tx, add); err != nil {
		return waiting, err
	}
	if err := refused.end(ctx); err != nil {
		return waiting, err
	}
	if err := walk.Settled(ctx, tx); err != nil {
		return waiting, err
	}
	return waiting, state.Compare(ctx, tx)
}

// freshTree is the edge of a tree that grows: of each height the newest complete hash, which is all that another record
// and the root ask for. It compares each row with the tree on disk, to name the first row that differs.
type freshTree struct {
	edge [64]struct { // by height
		index int64
		hash  tlog.Hash
	}
	signed Checkpoint
	file   *os.File // nil = there is none: only the root can be compared
}

// ReadHashes returns hashes of the edge.
func (t *freshTree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		height, _ := tlog.SplitStoredHashIndex(x)
		if t.edge[height].index != x {
			return nil, fmt.Errorf("hash %d is not at the edge of the tree", x)
		}
		out[i] = t.edge[height].hash
	}
	return out, nil
}

func (t *freshTree) add(place int64, hashes []tlog.Hash) error {
	first := tlog.StoredHashCount(place - 1)
	if t.file != nil && place <= t.signed.N {
		p := page{base: first, file: t.file}
		if err := p.add(place, hashes); err != nil {
			return err
		}
		if err := p.compare(p.raw, place-1); err != nil {
			return err
		}
	}
	for height, hash := range hashes {
		t.edge[height].index, t.edge[height].hash = first+int64(height), hash
	}
	return nil
}
