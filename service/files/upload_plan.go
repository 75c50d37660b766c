package files

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// partsInMemory is how many parts of a base are in memory at a time.
	partsInMemory = 64
	// missingShown is how many runs of missing blocks a refusal lists.
	missingShown = 100
)

// plan is what the record of an upload of format version 2 says, if its parts are there still.
type plan struct {
	manifest []byte
	inRow    bool // the manifest lies in the database
	content  string
	tops     []byte
	upload   string              // of the parts, see partsKey
	parts    map[string]*planned // of the upload
	taken    map[string]bool     // parts of From that the file uses
}

// planned is a part as a record looks at it.
type planned struct {
	part
	extents format.Extents
	used    int64 // blocks
}

// at returns the leaf of a block, and whether the part has the block in this length.
func (p *planned) at(block, want int64) (leaf format.Hash, ok bool) {
	i, ok := p.extents.Index(block)
	if !ok {
		return leaf, false
	}
	copy(leaf[:], p.leaves[i*int64(len(leaf)):])
	return leaf, min(p.sealedBytes(), p.blob.Size-i*p.sealedBytes()) == want
}

// plannedParts runs a query for partColumns.
func plannedParts(ctx context.Context, tx *store.Tx, query store.Query, args ...any) (map[string]*planned, error) {
	list, err := readParts(ctx, tx, query, args...)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*planned, len(list))
	for i := range list {
		p := planned{part: list[i]}
		if p.extents, err = p.part.extents(); err != nil {
			return nil, err
		}
		all[p.id] = &p
	}
	return all, nil
}

// selectPart selects a part by its id.
const selectPart = "SELECT " + partColumns + " FROM parts WHERE id = ?"

// planner checks the content of an upload.
type planner struct {
	f        *Files
	ctx      context.Context
	tx       *store.Tx
	layout   format.Layout
	manifest format.Manifest
	base     format.Manifest // of From; nil = none
	baseOf   *contentRow
	read     map[string]*planned // parts of the base that were read last
	missing  format.Extents
	plan     *plan
}

// planBlocks checks that every block of the file is in a part of the upload, or was at its
// place in the base, in its length, and that the blocks have the root of the metadata.
func (f *Files) planBlocks(ctx context.Context, s *sealed) error {
	done, err := f.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	return f.store.Read(ctx, func(tx *store.Tx) error { return f.planContent(ctx, tx, s) })
}

func (f *Files) planContent(ctx context.Context, tx *store.Tx, s *sealed) error {
	g, err := groups.RequireWriter(ctx, tx, s.GroupID, s.account)
	if err != nil {
		return err
	}
	p := &planner{f: f, ctx: ctx, tx: tx, layout: s.meta.Layout(), read: make(map[string]*planned), plan: s.blocks}
	p.plan.taken = make(map[string]bool)
	if p.manifest, err = format.ParseManifest(p.plan.manifest, p.layout.Blocks()); err != nil {
		return fault.New(wire.CodeValidation, "the manifest is not understood: %s", reason(err))
	}
	if p.plan.parts, err = plannedParts(ctx, tx, "SELECT "+partColumns+
		" FROM parts WHERE upload_id = ? AND group_id = ? AND block_size = ?",
		p.plan.upload, s.GroupID, s.meta.BlockBytes); err != nil {
		return err
	}
	if err := p.openBase(&s.upload, g); err != nil {
		return err
	}
	root, err := p.root()
	if err != nil {
		return err
	}
	switch {
	case len(p.missing) > 0:
		return missingBlocks(p.missing)
	case s.FileHash == "" && len(p.plan.taken) == 0:
		return fault.New(wire.CodeValidation, "file_hash must be 64-char hex (SHA-256) where no block is taken over "+
			"from a base")
	case root != s.meta.Root:
		return fault.New(wire.CodeValidation, "the root %x is not that of the blocks, %x", s.meta.Root[:], root[:])
	}
	content := s.meta.Content(format.ManifestSum(p.plan.manifest))
	p.plan.content = hex.EncodeToString(content[:])
	return nil
}

// missingBlocks lists blocks that an upload lacks.
func missingBlocks(missing format.Extents) error {
	more := ""
	if len(missing) > missingShown {
		missing, more = missing[:missingShown], " and more"
	}
	return fault.New(wire.CodeMissing, "blocks are missing, or have another length than the size says: %s%s", missing,
		more)
}

// openBase reads the base of an upload whose manifest needs blocks of others.
func (p *planner) openBase(u *upload, g groups.Group) error {
	needed := false
	for i := range p.manifest {
		_, own := p.plan.parts[p.manifest[i].Part.String()]
		needed = needed || !own
	}
	if u.From == "" || !needed {
		return nil
	}
	if err := mayTakeOver(p.ctx, p.tx, u, g); err != nil {
		return err
	}
	row, err := p.f.contentOf(p.ctx, p.tx, u.From)
	if err != nil {
		return err
	}
	p.baseOf = &row
	p.base, err = format.ParseManifest(row.manifest, row.layout.Blocks())
	return err
}

// root returns the root over the blocks, and notes in the plan which parts are used, and
// those blocks that are missing. Where blocks are missing there is no root, and nothing is
// hashed any more: a refusal is free, so it must cost little.
func (p *planner) root() (format.Hash, error) {
	var sums leafSums
	run, blocks := 0, p.layout.Blocks()
	for block := int64(0); block < blocks && len(p.missing) <= missingShown; {
		if top, ok := p.takenGroup(block); ok {
			if len(p.missing) == 0 {
				sums.addGroup(top)
			}
			block += topLeaves
			continue
		}
		for block >= p.manifest[run].First+p.manifest[run].Count {
			run++
		}
		leaf, absent, err := p.leaf(block, &p.manifest[run])
		if err != nil {
			return format.Hash{}, err
		}
		if absent > 0 {
			p.lacks(block, absent)
			block += absent
			continue
		}
		if len(p.missing) == 0 {
			sums.add(leaf)
		}
		block++
	}
	p.plan.tops = sums.tops
	return sums.tree.Root(), nil
}

// takenGroup returns the hash over all blocks of a tile that begins with block, if the file
// takes all of them over from the base, and all are full.
func (p *planner) takenGroup(block int64) (top format.Hash, ok bool) {
	if p.base == nil || block%topLeaves != 0 || block+topLeaves >= min(p.layout.Blocks(), p.baseOf.layout.Blocks()) {
		return top, false
	}
	at := block / topLeaves * int64(len(top))
	if int64(len(p.baseOf.tops)) < at+int64(len(top)) {
		return top, false
	}
	for next := block; next < block+topLeaves; {
		run, from := p.manifest.Find(next), p.base.Find(next)
		if run.Part != from.Part {
			return top, false
		}
		next = min(run.First+run.Count, from.First+from.Count)
	}
	for next := block; next < block+topLeaves; {
		run := p.manifest.Find(next)
		p.plan.taken[run.Part.String()] = true
		next = run.First + run.Count
	}
	copy(top[:], p.baseOf.tops[at:])
	return top, true
}

// lacks notes missing blocks above all others that are.
func (p *planner) lacks(first, count int64) {
	p.missing = p.missing.Add(first)
	p.missing[len(p.missing)-1].Count += count - 1
}

// leaf returns the leaf of a block, or how many blocks of the run from this one on are missing.
func (p *planner) leaf(block int64, run *format.Run) (leaf format.Hash, absent int64, err error) {
	id, end := run.Part.String(), run.First+run.Count
	part := p.plan.parts[id]
	switch {
	case part != nil:
		part.used++
	case p.base == nil || block >= p.baseOf.layout.Blocks():
		return leaf, end - block, nil
	case p.base.Find(block).Part != run.Part:
		other := p.base.Find(block)
		return leaf, min(end, other.First+other.Count) - block, nil
	default:
		p.plan.taken[id] = true
		if part = p.read[id]; part == nil {
			found, err := plannedParts(p.ctx, p.tx, selectPart, id)
			if err != nil {
				return leaf, 0, err
			}
			if part = found[id]; part == nil {
				return leaf, 0, fmt.Errorf("part %s of the base is missing", id)
			}
			if len(p.read) == partsInMemory {
				clear(p.read) // blocks come in order
			}
			p.read[id] = part
		}
	}
	leaf, ok := part.at(block, p.layout.Sealed(block))
	if !ok {
		absent = part.absent(block, end)
	}
	return leaf, absent, nil
}

// absent returns how many blocks from one on are no use of the part, before an end: that one,
// and those up to the next that the part has.
func (p *planned) absent(block, end int64) int64 {
	for _, x := range p.extents {
		if x.First+x.Count > block {
			end = min(end, max(block+1, x.First))
			break
		}
	}
	return end - block
}
