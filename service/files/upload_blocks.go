package files

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
)

// The record of an upload of format version 2: its frame has the manifest, and its blocks came as parts before. The
// blocks are looked at before the transaction that records them, which only sees whether the parts are there still.

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

// checkManifestHead checks what the head of an upload of format version 2 says by itself.
func (f *Files) checkManifestHead(s *sealed) error {
	switch {
	case s.meta.OriginalSize > f.config.MaxFileBytes:
		return f.tooLarge()
	case s.BlobSize > format.MaxManifestBytes:
		return fault.New(wire.CodeTooLarge, "manifest of %d bytes: at most %d are accepted", s.BlobSize,
			format.MaxManifestBytes)
	case s.BlobSize <= 0:
		return fault.New(wire.CodeValidation, "blob_size: want the length of the manifest")
	}
	return nil
}

// putManifest records an upload of format version 2, whose manifest is the body.
func (f *Files) putManifest(ctx context.Context, s *sealed, body io.Reader) (out wire.FinalizeUploadResult, err error) {
	if err := f.config.Space.Room(s.BlobSize); err != nil {
		return out, err
	}
	keep, known, err := f.beforeBody(ctx, s)
	if err != nil || known {
		return s.result, errors.Join(err, f.readAway(s, body))
	}
	if err := f.openKey(ctx, s); err != nil {
		return out, err
	}
	s.blocks = &plan{upload: partsKey(s.account, s.id), inRow: s.BlobSize <= wire.InlineManifestBytes}
	need, err := f.planMemory(ctx, s)
	if err != nil {
		return out, err
	}
	if err := f.takeMemory(ctx, need); err != nil {
		return out, err
	}
	if err := f.coming.begin(s.BlobSize, keep...); err != nil {
		return out, err
	}
	defer f.coming.end(s.BlobSize, keep...)
	if err := f.readManifest(ctx, s, body); err != nil {
		return out, err
	}
	if s.unfit = f.planBlocks(ctx, s); s.unfit != nil && !isRefusal(s.unfit) {
		f.discardUnused(ctx, []*sealed{s})
		return out, s.unfit
	}
	faultpoint.Hit("finalize.planned")
	err = f.recordAll(ctx, f.store, []*sealed{s})
	faultpoint.Hit("finalize.recorded")
	if err != nil {
		return out, err
	}
	return s.result, s.refused
}

// Memory of a plan, in bytes: for each part beside its blocks, and for each block.
const (
	partMemory  = 1 << 10
	blockMemory = 96 // its leaf, and what the part says of it
)

// planMemory is what a plan takes for the manifest, as it is stored and read, and for the parts of the upload, in
// bytes. The parts of a base are looked at some at a time.
func (f *Files) planMemory(ctx context.Context, s *sealed) (bytes int64, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		u, err := f.partUpload(ctx, tx, s.blocks.upload)
		if err != nil {
			return err
		}
		blocks := u.parts + u.bytes/(s.meta.BlockBytes+format.Overhead)
		bytes = 2*s.BlobSize + u.parts*partMemory + blocks*blockMemory
		return nil
	})
	return bytes, err
}

// readManifest reads the manifest, and keeps one that is too long for the database as a blob.
func (f *Files) readManifest(ctx context.Context, s *sealed, body io.Reader) (err error) {
	if s.blocks.inRow {
		s.blocks.manifest = make([]byte, s.BlobSize)
		if _, err := io.ReadFull(body, s.blocks.manifest); err != nil {
			return cutContent(err)
		}
		s.at.Sum = sha256.Sum256(s.blocks.manifest)
	} else {
		if s.at.Info, err = f.put(ctx, io.LimitReader(body, s.BlobSize), s.BlobSize); err != nil {
			return err
		}
		if s.at.Size == s.BlobSize && s.at.Sum == s.sum {
			if s.blocks.manifest, err = f.blobs.Read(ctx, s.at.ID, s.at.Size); err != nil {
				return err
			}
		}
	}
	if s.at.Sum != s.sum {
		f.discardUnused(ctx, []*sealed{s})
		return otherContent()
	}
	return nil
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

// mayTakeOver refuses to take blocks of From over into an upload. Whoever could read that version may know the keys of
// its parts: so the group's key must be the same still.
func mayTakeOver(ctx context.Context, tx *store.Tx, u *upload, g groups.Group) error {
	var group, uploader, filename string
	var keyVersion, blockBytes int64
	var gone bool
	err := tx.QueryRowContext(ctx, `SELECT group_id, uploader, filename, key_version, block_size, deleted_ns IS NOT NULL
		OR trash_ns IS NOT NULL
		FROM files JOIN contents ON contents.ref = files.ref
		WHERE files.ref = ?`, u.From).Scan(&group, &uploader, &filename, &keyVersion, &blockBytes, &gone)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read base: %w", err)
	}
	because := func(why string) error {
		return fault.New(wire.CodeBase,
			"no blocks of the base can be taken over (%s): begin again, and send all blocks", why)
	}
	switch {
	case err != nil, group != g.ID: // no word about files of other groups
		return because("group " + fmt.Sprintf("%q", g.ID) + " has no such file in blocks")
	case gone:
		return because("it was deleted")
	case uploader != u.account:
		return because("another account uploaded it")
	case keyVersion != g.KeyVersion:
		return because("the group has a new key, because a member was revoked")
	case blockBytes != u.meta.BlockBytes:
		return because("its blocks have another size")
	case u.name != filename:
		return because("it has another name")
	}
	return nil
}

// errPartsGone refuses an upload whose parts ended after they were looked at.
func errPartsGone() error {
	return fault.New(wire.CodeConflict, "parts of the upload ended while it was recorded: send the file again")
}

// mayUse refuses an upload whose parts, or whose base, are not there any more.
func (f *Files) mayUse(ctx context.Context, tx *store.Tx, u *upload, g groups.Group) error {
	if len(u.blocks.taken) > 0 {
		if err := mayTakeOver(ctx, tx, u, g); err != nil {
			return err
		}
	}
	used := 0
	for _, p := range u.blocks.parts {
		if p.used > 0 {
			used++
		}
	}
	list, err := partIDs(ctx, tx, u.blocks.upload)
	if err != nil {
		return err
	}
	for _, id := range list {
		if p := u.blocks.parts[id]; p != nil && p.used > 0 {
			used--
		}
	}
	if used > 0 {
		return errPartsGone()
	}
	return nil
}

func partIDs(ctx context.Context, tx *store.Tx, upload string) ([]string, error) {
	return store.List(ctx, tx, "list parts", func(id *string) []any { return []any{id} },
		"SELECT id FROM parts WHERE upload_id = ?", upload)
}

// dropUnused removes the parts of an upload that the file does not use.
func dropUnused(ctx context.Context, tx *store.Tx, u *upload) error {
	list, err := partIDs(ctx, tx, u.blocks.upload)
	if err != nil {
		return err
	}
	for _, id := range list {
		if p := u.blocks.parts[id]; p != nil && p.used > 0 {
			continue
		}
		var blobID string
		if err := tx.QueryRowContext(ctx, "DELETE FROM parts WHERE id = ? RETURNING blob_id",
			id).Scan(&blobID); err != nil {
			return fmt.Errorf("remove part: %w", err)
		}
		u.useless = append(u.useless, blobID)
	}
	return nil
}

// insertContent gives a file that the record of a sequence made its parts. A part of which
// it does not use all blocks is loose.
func insertContent(ctx context.Context, tx *store.Tx, u *upload, seq int64) error {
	p := u.blocks
	tops, manifest := p.tops, p.manifest
	if tops == nil {
		tops = []byte{}
	}
	if !p.inRow {
		manifest = nil
	}
	for _, step := range []struct {
		query store.Query
		args  []any
	}{
		{"INSERT INTO contents (ref, size, block_size, manifest, tops) VALUES (?, ?, ?, ?, ?)",
			[]any{u.ref, u.meta.OriginalSize, u.meta.BlockBytes, manifest, tops}},
		{"INSERT INTO part_uses (part, ref) SELECT id, ? FROM parts WHERE upload_id = ?", []any{u.ref, p.upload}},
		{"UPDATE parts SET upload_id = NULL WHERE upload_id = ?", []any{p.upload}},
		{"DELETE FROM part_uploads WHERE id = ?", []any{p.upload}},
	} {
		if _, err := tx.ExecContext(ctx, step.query, step.args...); err != nil {
			return fmt.Errorf("insert content: %w", err)
		}
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
func takeOver(ctx context.Context, tx *store.Tx, u *upload, taken map[string]bool) error {
	if len(taken) == 0 {
		return nil
	}
	var all int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM part_uses WHERE ref = ?", u.From).Scan(&all); err != nil {
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
	for rows, err := range tx.Rows(ctx, "INSERT INTO part_uses (part, ref) SELECT part, ? FROM part_uses WHERE ref = "+
		"? RETURNING part", u.ref, u.From) {
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
