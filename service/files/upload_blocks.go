package files

import (
	"context"
	"crypto/sha256"
	"database/sql"
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
	return store.Values[string](ctx, tx, "list parts", "SELECT id FROM parts WHERE upload_id = ?", upload)
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
		if err := tx.Do(ctx, "insert content", step.query, step.args...); err != nil {
			return err
		}
	}
	for id, part := range p.parts {
		if part.used == 0 || part.used == part.extents.Blocks() {
			continue
		}
		if err := tx.Do(ctx, "note loose part", "UPDATE parts SET loose = ? WHERE id = ?", seq, id); err != nil {
			return err
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
			if err := tx.Do(ctx, "take over part", "INSERT INTO part_uses (part, ref) VALUES (?, ?)", id,
				u.ref); err != nil {
				return err
			}
		}
		return nil
	}
	parts, err := store.Values[string](ctx, tx, "take over parts",
		"INSERT INTO part_uses (part, ref) SELECT part, ? FROM part_uses WHERE ref = ? RETURNING part", u.ref, u.From)
	if err != nil {
		return err
	}
	for _, id := range parts {
		if taken[id] {
			continue
		}
		if err := tx.Do(ctx, "leave out part", "DELETE FROM part_uses WHERE part = ? AND ref = ?", id,
			u.ref); err != nil {
			return err
		}
	}
	return nil
}
