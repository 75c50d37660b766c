package files

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

// Limits of uploads of format version 2.
const (
	// PartsLife is how long an upload with parts is good, from when it began or a part
	// came, and partsMost how long at most from when it began.
	PartsLife = 24 * time.Hour
	partsMost = 7 * PartsLife
	// maxParts bounds the parts of an upload, maxOpenParts those of all uploads that an
	// account has begun and not finished.
	maxParts     = 32_768
	maxOpenParts = 4 * maxParts
	// MaxPartNumber is the largest number of a part.
	MaxPartNumber = 1<<31 - 1
)

// layoutOf is the layout of the largest file, in blocks of so many bytes.
func (f *Files) layoutOf(blockBytes int64) format.Layout {
	return format.Layout{Size: f.config.MaxFileBytes, BlockBytes: blockBytes}
}

// inBlocks tells an upload that may have parts: its plaintext per block, else 0.
func inBlocks(g groups.Group, req wire.PrepareUploadRequest) (int64, error) {
	if !slices.Contains(req.Formats, format.VersionBlocks) {
		return 0, nil
	}
	l := format.Layout{Size: 1, BlockBytes: cmp.Or(req.BlockSize, format.BlockBytes)}
	if err := l.Check(); err != nil {
		return 0, fault.New(wire.CodeValidation, "block_size is not understood: %s", reason(err))
	}
	if g.Format < format.VersionBlocks {
		return 0, nil
	}
	return l.BlockBytes, nil
}

// offerParts adds to an answer what an upload of format version 2 needs.
func (u upload) offerParts(out *wire.PrepareUploadResult) {
	if u.blockBytes > 0 {
		out.PartsURL, out.PartBytes, out.Base = wire.PathParts+u.id, wire.PartBytes, u.base
	}
}

// resume answers the prepare of an unfinished upload with parts again.
func (f *Files) resume(ctx context.Context, account string, req wire.PrepareUploadRequest) (out wire.PrepareUploadResult, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		u, g, err := f.openParts(ctx, tx, account, req.Resume)
		if err != nil {
			return err
		}
		if req.GroupID != "" && req.GroupID != u.group {
			return unknownUpload()
		}
		var wrapped []byte
		if err := tx.QueryRowContext(ctx, "SELECT wrapped_key FROM file_keys WHERE id = ?", u.keyID).Scan(&wrapped); err != nil {
			return fmt.Errorf("read key: %w", err)
		}
		key, _, err := f.vault.UnwrapFileKey(ctx, tx, vault.Binding{Group: u.group, Ref: u.ref, Version: u.keyVersion}, wrapped)
		if err != nil {
			return err
		}
		if u.base, err = usableBase(ctx, tx, g, u, u.base); err != nil {
			return err
		}
		out = wire.PrepareUploadResult{UploadID: u.id, Key: key.Base64(), GroupID: u.group, Filename: u.filename, UploadURL: wire.PathUploadBlob + u.id}
		u.offerParts(&out)
		return nil
	})
	return out, err
}

// isRefusal tells a refusal from a failure.
func isRefusal(err error) bool {
	var refused *fault.Error
	return errors.As(err, &refused)
}

// openParts returns an unfinished upload that may have parts, for its account while that is
// a writer of the group.
func (f *Files) openParts(ctx context.Context, tx *store.Tx, account, id string) (u upload, g groups.Group, err error) {
	if u, err = f.getUpload(ctx, tx, account, id); err != nil {
		return u, g, err
	}
	switch {
	case len(u.result) > 0:
		return u, g, fault.New(wire.CodeConflict, "the upload is finished: finalize_upload answers again")
	case u.blockBytes == 0:
		return u, g, fault.New(wire.CodeValidation, "the upload was not prepared for parts: prepare it with \"formats\":[1,2]")
	}
	g, err = groups.RequireWriter(ctx, tx, u.group, account)
	return u, g, err
}

// baseRefused returns why blocks of the base of u may not be taken over into a file of this
// name, "" for one that is not known yet; nil if they may. Whoever could read the base may
// know the keys of its parts: so the group's key must be the same still.
func baseRefused(ctx context.Context, tx *store.Tx, account string, g groups.Group, u upload, name string) error {
	var group, uploader, filename string
	var keyVersion, blockBytes int64
	var gone bool
	err := tx.QueryRowContext(ctx, `SELECT group_id, uploader, filename, key_version, block_size, deleted_ns IS NOT NULL OR trash_ns IS NOT NULL
		FROM files JOIN contents ON contents.ref = files.ref WHERE files.ref = ?`, u.base).Scan(&group, &uploader, &filename, &keyVersion, &blockBytes, &gone)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read base: %w", err)
	}
	because := func(why string) error {
		return fault.New(wire.CodeBase, "no blocks of the base can be taken over (%s): begin again, and send all blocks", why)
	}
	switch {
	case err != nil, group != g.ID: // no word about files of other groups
		return because("group " + fmt.Sprintf("%q", g.ID) + " has no such file in blocks")
	case gone:
		return because("it was deleted")
	case uploader != account:
		return because("another account uploaded it")
	case keyVersion != g.KeyVersion || u.keyVersion != g.KeyVersion:
		return because("the group has a new key, because a member was revoked")
	case blockBytes != u.blockBytes:
		return because("its blocks have another size")
	case name != "" && name != filename:
		return because("it has another name")
	}
	return nil
}

// usableBase returns the base of an upload that was asked for, "" if nothing of it may be
// taken over.
func usableBase(ctx context.Context, tx *store.Tx, g groups.Group, u upload, base string) (string, error) {
	if base == "" {
		return "", nil
	}
	u.base = base
	err := baseRefused(ctx, tx, u.account, g, u, u.filename)
	if isRefusal(err) {
		return "", nil
	}
	return base, err
}

// etag is the root over the blocks of a part alone.
func (p *part) etag() string {
	root := format.RootOf(hashes(p.leaves))
	return hex.EncodeToString(root[:])
}

// hashes reads leaves as the database keeps them.
func hashes(raw []byte) []format.Hash {
	list := make([]format.Hash, len(raw)/len(format.Hash{}))
	for i := range list {
		copy(list[i][:], raw[i*len(list[i]):])
	}
	return list
}

// numbered returns the part with a number of an upload, nil if there is none.
func numbered(ctx context.Context, tx *store.Tx, uploadID string, number int64) (*part, error) {
	list, err := readParts(ctx, tx, "SELECT "+partColumns+" FROM parts WHERE upload_id = ? AND number = ?", uploadID, number)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// shown is a part as its client sees it.
func (p *part) shown(number int64, wrapped []byte) wire.Part {
	return wire.Part{ID: p.id, Number: number, Blocks: p.blocks, ETag: p.etag(), Key: base64.StdEncoding.EncodeToString(wrapped)}
}

// PartRequest is a part that comes.
type PartRequest struct {
	UploadID string
	Number   int64  // 0 to [MaxPartNumber]
	Blocks   string // such as 0-31
	IfMatch  string // the ETag of the part to replace, without quotes; "" = none
	Key      [format.WrappedKeyBytes]byte
	Size     int64              // of the body in bytes, -1 = not known
	Sum      *[sha256.Size]byte // that the body must have; nil = any
}

// mayPut refuses a part whose number is taken, or that should replace another than it does.
func (p PartRequest) mayPut(old *part) error {
	switch {
	case old == nil && p.IfMatch != "":
		return fault.New(wire.CodePartExists, "the upload has no part %d to replace", p.Number)
	case old != nil && p.IfMatch == "":
		return fault.New(wire.CodePartExists, "part %d is there already: ask for the parts, or replace it with If-Match", p.Number)
	case old != nil && p.IfMatch != old.etag():
		return fault.New(wire.CodePartExists, "part %d has other content than that which should be replaced: ask for the parts", p.Number)
	}
	return nil
}

// extents reads which blocks come. They must be blocks of a file that may be uploaded, and
// fit in a part and in the announced size.
func (f *Files) extents(p PartRequest, blockBytes int64) (format.Extents, error) {
	sealed := blockBytes + format.Overhead
	e, err := format.ParseExtents(p.Blocks, wire.PartBytes/sealed)
	if err != nil {
		return nil, fault.New(wire.CodeValidation, "%s", reason(err))
	}
	if last := e[len(e)-1]; last.First+last.Count > f.layoutOf(blockBytes).Blocks() {
		return nil, f.tooLarge()
	}
	if n := e.Blocks(); p.Size >= 0 && (p.Size > n*sealed || p.Size <= (n-1)*sealed+format.Overhead) {
		return nil, fault.New(wire.CodeValidation, "a body of %d bytes for %d blocks: want %d for each, and only the last one may be shorter", p.Size, n, sealed)
	}
	return e, nil
}

// PutPart stores sealed blocks as a part of an unfinished upload. Each block is hashed and
// passed on as it comes. Of a body that breaks off the whole blocks are kept, and its error
// is returned. The bytes count like those of [Files.PutBlob].
func (f *Files) PutPart(ctx context.Context, account string, p PartRequest, body io.Reader) (out wire.Part, err error) {
	var blocks format.Extents
	var keep []bound
	var open, blockBytes int64
	if err := f.store.Read(ctx, func(tx *store.Tx) error {
		u, _, err := f.openParts(ctx, tx, account, p.UploadID)
		if err != nil {
			return err
		}
		blockBytes = u.blockBytes
		old, err := numbered(ctx, tx, u.id, p.Number)
		if err != nil {
			return err
		}
		if err := p.mayPut(old); err != nil {
			return err
		}
		if blocks, err = f.extents(p, u.blockBytes); err != nil {
			return err
		}
		byAccount, byGroup, err := f.stored(ctx, tx, account, u.group)
		if err != nil {
			return err
		}
		keep = keepBounds(account, u.group, byAccount, byGroup)
		for i := range keep {
			keep[i].left += old.size()
		}
		open, err = f.openBesides(ctx, tx, account, old)
		return err
	}); err != nil {
		return out, err
	}
	sealed := blockBytes + format.Overhead
	size := p.Size
	if size < 0 {
		size = blocks.Blocks() * sealed
	}
	bounds := append(keep, bound{"unfinished " + account, f.mostOpen(blockBytes) - open, f.tooManyBytes()})
	if err := f.coming.begin(size, bounds...); err != nil {
		return out, err
	}
	defer f.coming.end(size, bounds...)
	arriving, err := f.config.Space.Begin(size)
	if err != nil {
		return out, err
	}
	defer arriving.End()
	source := &arrivingBlocks{body: arriving.Reader(body), blocks: blocks, block: make([]byte, sealed), left: blocks.Blocks()}
	put := f.blobs.PutProved // by its leaves
	if p.Sum != nil {
		put = f.blobs.Put
	}
	info, err := put(context.WithoutCancel(ctx), source, size) // the whole blocks of a client that left are kept
	if err != nil {
		return out, err
	}
	faultpoint.Hit("part.stored")
	if source.cut == nil && p.Sum != nil && *p.Sum != info.Sum {
		f.discard(ctx, info.ID)
		return out, fault.New(wire.CodeValidation, "the body differs from its Repr-Digest: send it again")
	}
	row := part{id: newPartID(), account: account, blocks: source.came().String(), blob: info, blockBytes: blockBytes, leaves: source.leaves}
	var useless string // the blob without an owner afterwards
	err = f.store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		useless, err = f.addPart(ctx, tx, account, p, row)
		return err
	})
	if isRolledBack(err) {
		useless = info.ID
	}
	if useless != "" && (err == nil || isRolledBack(err)) {
		faultpoint.Hit("part.replaced")
		f.discard(ctx, useless) // the sweep repeats it
	}
	if err == nil {
		err = source.cut
	}
	return row.shown(p.Number, p.Key[:]), err
}

// size is that of the blob of a part, 0 for none.
func (p *part) size() int64 {
	if p == nil {
		return 0
	}
	return p.blob.Size
}

// newPartID is the id of a part, which stays when the part moves to another blob.
func newPartID() string {
	var id format.PartID
	_, _ = rand.Read(id[:]) // never fails
	return id.String()
}

// mostOpen is how many bytes an account may have in unfinished uploads: at least the largest
// file.
func (f *Files) mostOpen(blockBytes int64) int64 {
	return max(f.config.MaxOpenBytes, f.layoutOf(blockBytes).SealedBytes()+format.MaxManifestBytes)
}

// openBesides is [openBytes] without a part. It refuses one part too many.
func (f *Files) openBesides(ctx context.Context, tx *store.Tx, account string, old *part) (int64, error) {
	open, parts, err := openBytes(ctx, tx, account, "")
	if err != nil {
		return 0, err
	}
	if old == nil && parts >= maxOpenParts {
		return 0, &fault.Error{Code: wire.CodeRateLimited, RetryAfter: time.Minute, Text: fmt.Sprintf("too many requests: the account has %d parts of uploads that are not finished: "+
			"finish them, or send larger parts", maxOpenParts)}
	}
	return open - old.size(), nil
}

// addPart records a part, prolongs its upload, and returns the blob of the part that it
// replaces, "" for none.
func (f *Files) addPart(ctx context.Context, tx *store.Tx, account string, p PartRequest, row part) (useless string, err error) {
	u, _, err := f.openParts(ctx, tx, account, p.UploadID)
	if err != nil {
		return "", err
	}
	old, err := numbered(ctx, tx, u.id, p.Number)
	if err != nil {
		return "", err
	}
	if err := p.mayPut(old); err != nil {
		return "", err
	}
	open, err := f.openBesides(ctx, tx, account, old)
	if err != nil {
		return "", err
	}
	if open+row.blob.Size > f.mostOpen(u.blockBytes) {
		return "", f.tooManyBytes()
	}
	if err := f.MayKeep(ctx, tx, account, u.group, row.blob.Size-old.size()); err != nil {
		return "", err
	}
	u.parts, u.partBytes = u.parts+1, u.partBytes+row.blob.Size-old.size()
	if old != nil {
		u.parts--
		useless = old.blob.ID
		if _, err := tx.ExecContext(ctx, "DELETE FROM parts WHERE id = ?", old.id); err != nil {
			return "", fmt.Errorf("replace part: %w", err)
		}
	}
	if u.parts > maxParts {
		return "", fault.New(wire.CodeTooLarge, "the upload has %d parts already: send larger parts", maxParts)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO parts (id, blob_id, blob_size, group_id, account, upload_id, number, blocks, block_size, leaves, wrapped_key)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, row.id, row.blob.ID, row.blob.Size, u.group, account, u.id, p.Number, row.blocks, u.blockBytes, row.leaves, p.Key[:])
	if err != nil {
		return "", fmt.Errorf("insert part: %w", err)
	}
	return useless, f.prolong(ctx, tx, u)
}

// until is when an upload ends that would live until a time, in ns: one with parts ends
// partsMost after it began, whatever comes.
func (u upload) until(ends time.Time) int64 {
	if u.blockBytes == 0 {
		return ends.UnixNano()
	}
	return min(ends.UnixNano(), u.beganNS+partsMost.Nanoseconds())
}

// prolong makes an upload with parts good for another PartsLife, and writes how many it has.
func (f *Files) prolong(ctx context.Context, tx *store.Tx, u upload) error {
	ends := u.until(f.ledger.Now().Add(PartsLife))
	if _, err := tx.ExecContext(ctx, "UPDATE uploads SET expires_ns = ?, parts = ?, part_bytes = ? WHERE id = ?", ends, u.parts, u.partBytes, u.id); err != nil {
		return fmt.Errorf("prolong upload: %w", err)
	}
	return nil
}

// PutManifest stores the manifest of an unfinished upload with parts.
func (f *Files) PutManifest(ctx context.Context, account, uploadID string, r io.Reader, size int64) error {
	if err := f.store.Write(ctx, func(tx *store.Tx) error {
		u, _, err := f.openParts(ctx, tx, account, uploadID)
		if err != nil {
			return err
		}
		return f.prolong(ctx, tx, u)
	}); err != nil {
		return err
	}
	return f.PutBlob(ctx, account, uploadID, r, size)
}

// partRows is how many parts of a list are in memory at a time.
const partRows = 500

// PartsMemory is how much memory a list of parts takes, at most, in bytes.
const PartsMemory = partRows * 4 << 10

// Parts passes the parts of an unfinished upload to each, in the order of their numbers.
func (f *Files) Parts(ctx context.Context, account, uploadID string, each func([]wire.Part) error) error {
	for after := int64(-1); ; {
		var list []wire.Part
		err := f.store.Read(ctx, func(tx *store.Tx) error {
			if _, _, err := f.openParts(ctx, tx, account, uploadID); err != nil {
				return err
			}
			for scan, err := range tx.Rows(ctx, "SELECT number, id, blocks, leaves, wrapped_key FROM parts WHERE upload_id = ? AND number > ? ORDER BY number LIMIT ?", uploadID, after, partRows) {
				var p part
				var number int64
				var wrapped []byte
				if err == nil {
					err = scan.Scan(&number, &p.id, &p.blocks, &p.leaves, &wrapped)
				}
				if err != nil {
					return fmt.Errorf("list parts: %w", err)
				}
				list = append(list, p.shown(number, wrapped))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := each(list); err != nil || len(list) < partRows {
			return err
		}
		after = list[len(list)-1].Number
	}
}
