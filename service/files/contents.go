package files

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// finalizeAgain is how often a finalize looks at parts that change meanwhile.
	finalizeAgain = 4
	// partsInMemory is how many parts of a base are in memory at a time.
	partsInMemory = 64
	// missingShown is how many runs of missing blocks a refusal lists.
	missingShown = 100
)

var errPartsChanged = errors.New("the parts of the upload changed")

// plan is what a finalize of format version 2 records, if the parts are still the same then.
type plan struct {
	manifest []byte
	content  string
	tops     []byte
	parts    map[string]*planned // of the upload
	taken    map[string]bool     // parts of the base that the file uses
}

// finalizeBlocks records an upload of format version 2. The blocks are looked at before the
// transaction that records them, which only sees whether they are still the same.
func (f *Files) finalizeBlocks(ctx context.Context, account string, u upload, req wire.FinalizeUploadRequest, meta format.Metadata) (out wire.FinalizeUploadResult, err error) {
	switch {
	case u.blockBytes == 0:
		return out, fault.New(wire.CodeValidation, "format version 2 needs the parts of an upload with parts_url: prepare it with \"formats\":[1,2]")
	case meta.BlockBytes != u.blockBytes:
		return out, fault.New(wire.CodeValidation, "block_size %d: the upload was prepared for blocks of %d bytes", meta.BlockBytes, u.blockBytes)
	case meta.OriginalSize > f.config.MaxFileBytes:
		return out, f.tooLarge()
	case u.filename == "" && meta.Filename == "":
		return out, fault.New(wire.CodeValidation, "Required: filename, of a file of format version 2")
	}
	if err := f.takeMemory(ctx, u.finalizeMemory(req)); err != nil {
		return out, err
	}
	done, err := f.takeTurn(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	var useless []string
	for range finalizeAgain {
		var manifest []byte
		if manifest, err = f.sentManifest(ctx, u, req); err != nil {
			return out, err
		}
		var p *plan
		if err = f.store.Read(ctx, func(tx *store.Tx) (err error) {
			p, err = f.planContent(ctx, tx, account, u, req, meta, manifest)
			return err
		}); err != nil {
			return out, err
		}
		faultpoint.Hit("finalize.planned")
		err = f.store.Write(ctx, func(tx *store.Tx) error {
			useless = nil
			now, err := f.getUpload(ctx, tx, account, req.UploadID)
			if err != nil {
				return err
			}
			if len(now.result) > 0 {
				out, err = f.answered(ctx, tx, now)
				return err
			}
			if now.blobID() != u.blobID() {
				u = now
				return errPartsChanged
			}
			out, useless, err = f.recordBlocks(ctx, tx, account, now, req, meta, p)
			return err
		})
		if !errors.Is(err, errPartsChanged) {
			break
		}
	}
	if errors.Is(err, errPartsChanged) {
		err = fault.New(wire.CodeConflict, "parts of the upload were sent while it was finished: finish it again")
	}
	if err != nil {
		return out, err
	}
	faultpoint.Hit("finalize.recorded")
	f.release(ctx, useless)
	return out, nil
}

// Memory of a finalize, in bytes: for each part beside its blocks, and for each block.
const (
	partMemory  = 1 << 10
	blockMemory = 96 // its leaf, and what the part says of it
)

// finalizeMemory is what a finalize takes for the manifest, as it is stored and read, and for
// the parts of the upload, in bytes. The parts of a base are looked at some at a time.
func (u upload) finalizeMemory(req wire.FinalizeUploadRequest) int64 {
	blocks := u.parts + u.partBytes/(u.blockBytes+format.Overhead)
	return 2*max(int64(len(req.Manifest)), min(u.blobSize(), format.MaxManifestBytes)) + u.parts*partMemory + blocks*blockMemory
}

// blobID is that of the raw transfer, "" without one.
func (u upload) blobID() string {
	if u.blob == nil {
		return ""
	}
	return u.blob.ID
}

// sentManifest returns the manifest of a finalize: inside it, or sent before.
func (f *Files) sentManifest(ctx context.Context, u upload, req wire.FinalizeUploadRequest) ([]byte, error) {
	switch {
	case req.Manifest != "":
		raw, err := base64.StdEncoding.Strict().DecodeString(req.Manifest)
		if err != nil {
			return nil, fault.New(wire.CodeValidation, "manifest is not standard base64")
		}
		if len(raw) > wire.InlineManifestBytes {
			return nil, fault.New(wire.CodeTooLarge, "a manifest of more than %d bytes is PUT to parts_url/%s before", wire.InlineManifestBytes, wire.ManifestPart)
		}
		return raw, nil
	case u.blob == nil:
		return nil, fault.New(wire.CodeValidation, "Required: manifest, or a PUT to parts_url/%s before", wire.ManifestPart)
	case u.blob.Size > format.MaxManifestBytes:
		return nil, fault.New(wire.CodeTooLarge, "manifest of %d bytes: at most %d are accepted", u.blob.Size, format.MaxManifestBytes)
	}
	return f.blobs.Read(ctx, u.blob.ID, u.blob.Size)
}

// planned is a part as a finalize looks at it.
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
	base     format.Manifest // nil = none
	baseOf   *contentRow
	read     map[string]*planned // parts of the base that were read last
	missing  format.Extents
	plan     *plan
}

// planContent checks that every block of the file is in a part of the upload, or was at its
// place in the base, in its length, and that the blocks have the root of the metadata.
func (f *Files) planContent(ctx context.Context, tx *store.Tx, account string, u upload, req wire.FinalizeUploadRequest, meta format.Metadata, raw []byte) (*plan, error) {
	g, err := groups.RequireWriter(ctx, tx, u.group, account)
	if err != nil {
		return nil, err
	}
	p := &planner{f: f, ctx: ctx, tx: tx, layout: meta.Layout(), read: make(map[string]*planned),
		plan: &plan{manifest: raw, taken: make(map[string]bool)}}
	if p.manifest, err = format.ParseManifest(raw, p.layout.Blocks()); err != nil {
		return nil, fault.New(wire.CodeValidation, "the manifest is not understood: %s", reason(err))
	}
	if p.plan.parts, err = plannedParts(ctx, tx, "SELECT "+partColumns+" FROM parts WHERE upload_id = ?", u.id); err != nil {
		return nil, err
	}
	if err := p.openBase(account, g, u, meta); err != nil {
		return nil, err
	}
	root, err := p.root()
	if err != nil {
		return nil, err
	}
	switch {
	case len(p.missing) > 0:
		return nil, missingBlocks(p.missing)
	case req.FileHash == "" && len(p.plan.taken) == 0:
		return nil, fault.New(wire.CodeValidation, "file_hash must be 64-char hex (SHA-256) where no block is taken over from a base")
	case root != meta.Root:
		return nil, fault.New(wire.CodeValidation, "the root %x is not that of the blocks, %x", meta.Root[:], root[:])
	}
	content := meta.Content(format.ManifestSum(raw))
	p.plan.content = hex.EncodeToString(content[:])
	return p.plan, nil
}

// missingBlocks lists blocks that an upload lacks.
func missingBlocks(missing format.Extents) error {
	more := ""
	if len(missing) > missingShown {
		missing, more = missing[:missingShown], " and more"
	}
	return fault.New(wire.CodeMissing, "blocks are missing, or have another length than the size says: %s%s", missing, more)
}

// openBase reads the base of an upload whose manifest needs blocks of others.
func (p *planner) openBase(account string, g groups.Group, u upload, meta format.Metadata) error {
	needed := false
	for i := range p.manifest {
		_, own := p.plan.parts[p.manifest[i].Part.String()]
		needed = needed || !own
	}
	if u.base == "" || !needed {
		return nil
	}
	name := u.filename
	if name == "" {
		name = meta.Filename
	}
	if err := baseRefused(p.ctx, p.tx, account, g, u, name); err != nil {
		return err
	}
	row, err := p.f.contentOf(p.ctx, p.tx, u.base)
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

// recordBlocks is the transaction of a finalize of format version 2. It returns the blobs
// that nothing refers to afterwards.
func (f *Files) recordBlocks(ctx context.Context, tx *store.Tx, account string, u upload, req wire.FinalizeUploadRequest, meta format.Metadata, p *plan) (out wire.FinalizeUploadResult, useless []string, err error) {
	g, err := groups.RequireWriter(ctx, tx, u.group, account)
	if err != nil {
		return out, nil, err
	}
	if g.Format < format.VersionBlocks {
		return out, nil, fault.New(wire.CodeUnsupported, "group %q takes only files of format version 1 since then: send the file again", g.ID)
	}
	if err := f.mayKeepFormat(ctx, tx, account, u.group, req.Format); err != nil {
		return out, nil, err
	}
	if u.filename == "" {
		u.filename = meta.Filename
	}
	if err := requireHead(ctx, tx, u.group, u.filename, req.Head); err != nil {
		return out, nil, err
	}
	if len(p.taken) > 0 {
		if err := baseRefused(ctx, tx, account, g, u, u.filename); err != nil {
			return out, nil, err
		}
	}
	if useless, err = dropUnused(ctx, tx, u, p); err != nil {
		return out, nil, err
	}
	manifest, inRow := blob.Info{ID: u.ref}, p.manifest
	switch {
	case len(p.manifest) > wire.InlineManifestBytes:
		manifest, inRow = *u.blob, nil
	case u.blob != nil:
		useless = append(useless, u.blob.ID)
	}
	u.content = p.content
	r, err := f.recordFile(ctx, tx, u, req, meta, manifest)
	if err != nil {
		return out, nil, err
	}
	if err := insertContent(ctx, tx, u, meta.OriginalSize, p, inRow, r.Seq); err != nil {
		return out, nil, err
	}
	out, err = f.finished(ctx, tx, u, req.FileHash, r)
	return out, useless, err
}

// dropUnused compares the parts of an upload with those of the plan, and removes those that
// the file does not use.
func dropUnused(ctx context.Context, tx *store.Tx, u upload, p *plan) (useless []string, err error) {
	n := 0
	for rows, err := range tx.Rows(ctx, "SELECT id FROM parts WHERE upload_id = ?", u.id) {
		var id string
		if err == nil {
			err = rows.Scan(&id)
		}
		if err != nil {
			return nil, fmt.Errorf("compare parts: %w", err)
		}
		if _, known := p.parts[id]; !known {
			return nil, errPartsChanged
		}
		n++
	}
	if n != len(p.parts) {
		return nil, errPartsChanged
	}
	for id, part := range p.parts {
		if part.used > 0 {
			continue
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM parts WHERE id = ?", id); err != nil {
			return nil, fmt.Errorf("remove part: %w", err)
		}
		useless = append(useless, part.blob.ID)
	}
	return useless, nil
}

// insertContent gives a file that the record of a sequence made its parts. A part of which
// it does not use all blocks is loose.
func insertContent(ctx context.Context, tx *store.Tx, u upload, size int64, p *plan, manifest []byte, seq int64) error {
	tops := p.tops
	if tops == nil {
		tops = []byte{}
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO contents (ref, size, block_size, manifest, tops) VALUES (?, ?, ?, ?, ?)", u.ref, size, u.blockBytes, manifest, tops)
	if err != nil {
		return fmt.Errorf("insert content: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO part_uses (part, ref) SELECT id, ? FROM parts WHERE upload_id = ?", u.ref, u.id); err != nil {
		return fmt.Errorf("insert uses of parts: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE parts SET upload_id = NULL, number = NULL, wrapped_key = NULL WHERE upload_id = ?", u.id); err != nil {
		return fmt.Errorf("keep parts: %w", err)
	}
	for id, part := range p.parts {
		if part.used == 0 || part.used == part.extents.Blocks() {
			continue
		}
		if _, err := tx.ExecContext(ctx, "UPDATE parts SET loose = ? WHERE id = ?", seq, id); err != nil {
			return fmt.Errorf("note loose part: %w", err)
		}
	}
	return takeOver(ctx, tx, u, p.taken)
}

// takeOver records that a file uses parts of its base.
func takeOver(ctx context.Context, tx *store.Tx, u upload, taken map[string]bool) error {
	if len(taken) == 0 {
		return nil
	}
	var all int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM part_uses WHERE ref = ?", u.base).Scan(&all); err != nil {
		return fmt.Errorf("count parts of the base: %w", err)
	}
	if len(taken) <= all/2 {
		for id := range taken {
			if _, err := tx.ExecContext(ctx, "INSERT INTO part_uses (part, ref) VALUES (?, ?)", id, u.ref); err != nil {
				return fmt.Errorf("take over part: %w", err)
			}
		}
		return nil
	}
	var dropped []string
	for rows, err := range tx.Rows(ctx, "INSERT INTO part_uses (part, ref) SELECT part, ? FROM part_uses WHERE ref = ? RETURNING part", u.ref, u.base) {
		var id string
		if err == nil {
			err = rows.Scan(&id)
		}
		if err != nil {
			return fmt.Errorf("take over parts: %w", err)
		}
		if !taken[id] {
			dropped = append(dropped, id)
		}
	}
	for _, id := range dropped {
		if _, err := tx.ExecContext(ctx, "DELETE FROM part_uses WHERE part = ? AND ref = ?", id, u.ref); err != nil {
			return fmt.Errorf("leave out part: %w", err)
		}
	}
	return nil
}

// withoutParts removes the parts of an upload that is recorded without them, and returns
// their blobs. The parts come back if the transaction fails.
func (f *Files) withoutParts(ctx context.Context, tx *store.Tx, u upload) (blobs []string, err error) {
	if u.blockBytes == 0 {
		return nil, nil
	}
	for rows, err := range tx.Rows(ctx, "DELETE FROM parts WHERE upload_id = ? RETURNING blob_id", u.id) {
		var id string
		if err == nil {
			err = rows.Scan(&id)
		}
		if err != nil {
			return nil, fmt.Errorf("remove parts: %w", err)
		}
		blobs = append(blobs, id)
	}
	return blobs, nil
}
