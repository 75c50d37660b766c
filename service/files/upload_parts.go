package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Parts of an upload that is not recorded. A part is written once, and is stored whole or not at all. The first one
// begins its upload.

// Limits of uploads in parts.
const (
	// PartsLife is how long an upload in parts is good, from when a part came, and partsMost how long at most from
	// when the first one came.
	PartsLife = 24 * time.Hour
	partsMost = 7 * PartsLife
	// maxParts bounds the parts of an upload, maxOpenParts those of all uploads that an
	// account has begun and not finished.
	maxParts     = 32_768
	maxOpenParts = 4 * maxParts
)

// layoutOf is the layout of the largest file, in blocks of so many bytes.
func (f *Files) layoutOf(blockBytes int64) format.Layout {
	return format.Layout{Size: f.config.MaxFileBytes, BlockBytes: blockBytes}
}

func onlyWhole(group string) error {
	return fault.New(wire.CodeUnsupported, "group %q takes only files of format version %d: send the file again, in "+
		"one piece", group, format.Version)
}

// partsKey is how the parts of an upload are noted. An id is an account's own.
func partsKey(account string, id [wire.UploadIDBytes]byte) string {
	return hex.EncodeToString(spentID(account, id))
}

// partsUpload is a row of part_uploads. The zero value is an upload that has no part yet.
type partsUpload struct {
	group      string
	blockBytes int64
	beganNS    int64
	expiresNS  int64
	parts      int64
	bytes      int64
}

// partUpload reads an upload that is not recorded.
func (f *Files) partUpload(ctx context.Context, tx *store.Tx, key string) (u partsUpload, err error) {
	err = tx.QueryRowContext(ctx, "SELECT group_id, block_size, began_ns, expires_ns, parts, part_bytes FROM "+
		"part_uploads WHERE id = ?", key).
		Scan(&u.group, &u.blockBytes, &u.beganNS, &u.expiresNS, &u.parts, &u.bytes)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return u, fmt.Errorf("read upload: %w", err)
	}
	return u, nil
}

// shown is a part as its client sees it.
func (p *part) shown() wire.Part { return wire.Part{ID: p.id, Blocks: p.blocks, ETag: p.etag()} }

// PartRequest is a part that comes.
type PartRequest struct {
	Upload, Part string // ids of the client's choice
	Group        string
	BlockBytes   int64              // plaintext of a block; 0 = [format.BlockBytes]
	Blocks       string             // such as 0-31
	Size         int64              // of the body in bytes, -1 = not known
	Sum          *[sha256.Size]byte // that the body must have; nil = any
}

// comingPart is a part that comes, as far as it was checked.
type comingPart struct {
	part
	group  string
	key    string // of the upload
	id     [wire.UploadIDBytes]byte
	blocks format.Extents
	size   int64 // at most
}

// parsePart checks what a request says by itself.
func (f *Files) parsePart(account string, p PartRequest) (c comingPart, err error) {
	if c.id, err = uploadID(p.Upload); err != nil {
		return c, err
	}
	if _, err := format.ParsePartID(p.Part); err != nil {
		return c, fault.New(wire.CodeValidation, "%s", reason(err))
	}
	l := format.Layout{Size: 1, BlockBytes: cmp.Or(p.BlockBytes, format.BlockBytes)}
	if err := l.Check(); err != nil {
		return c, fault.New(wire.CodeValidation, "block_size is not understood: %s", reason(err))
	}
	c.part = part{id: p.Part, account: account, blockBytes: l.BlockBytes}
	c.group, c.key = p.Group, partsKey(account, c.id)
	if c.blocks, err = f.extents(p, l.BlockBytes); err != nil {
		return c, err
	}
	if c.part.blocks, c.size = c.blocks.String(), p.Size; p.Size < 0 {
		c.size = c.blocks.Blocks() * c.sealedBytes()
	}
	return c, nil
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
		return nil, fault.New(wire.CodeValidation,
			"a body of %d bytes for %d blocks: want %d for each, and only the last one may be shorter", p.Size, n,
			sealed)
	}
	return e, nil
}

// mayPut refuses a part of somebody who may not write, one that is there, and one too many. It returns its upload as
// it was, and how many bytes of the account are in unfinished uploads.
func (f *Files) mayPut(ctx context.Context, tx *store.Tx, c *comingPart) (u partsUpload, open int64, err error) {
	g, err := groups.RequireWriter(ctx, tx, c.group, c.account)
	if err != nil {
		return u, 0, err
	}
	if g.Format < format.VersionBlocks {
		return u, 0, onlyWhole(g.ID)
	}
	seq, _, err := spentBy(ctx, tx, c.account, c.id)
	if err == nil && seq > 0 {
		err = fault.New(wire.CodeSpent, "the upload is recorded: it takes no more parts")
	}
	if err != nil {
		return u, 0, err
	}
	if u, err = f.partUpload(ctx, tx, c.key); err != nil {
		return u, 0, err
	}
	switch {
	case u == (partsUpload{}):
		err = f.canPay(ctx, tx, c.account)
	case u.expiresNS < f.ledger.Now().UnixNano():
		err = unknownUpload()
	case u.group != g.ID, u.blockBytes != c.blockBytes:
		err = fault.New(wire.CodeValidation, "the upload was begun in another group, or with blocks of another size")
	case u.parts >= maxParts:
		err = fault.New(wire.CodeTooLarge, "the upload has %d parts already: send larger parts", maxParts)
	}
	if err != nil {
		return u, 0, err
	}
	var there bool
	if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM parts WHERE id = ?)",
		c.part.id).Scan(&there); err != nil {
		return u, 0, fmt.Errorf("look for part: %w", err)
	}
	if there {
		return u, 0, fault.New(wire.CodePartExists, "the part is there already: a part is written once")
	}
	open, parts, err := openBytes(ctx, tx, c.account, "")
	if err == nil && parts >= maxOpenParts {
		err = &fault.Error{Code: wire.CodeRateLimited, RetryAfter: time.Minute,
			Text: fmt.Sprintf("too many requests: the account has %d parts of uploads that are not finished: "+
				"finish them, or send larger parts", maxOpenParts)}
	}
	return u, open, err
}

// mostOpen is how many bytes an account may have in unfinished uploads: at least the largest file, and a quarter of it
// in parts that were sent twice.
func (f *Files) mostOpen(blockBytes int64) int64 {
	return max(f.config.MaxOpenBytes, f.layoutOf(blockBytes).SealedBytes()/4*5)
}

// PutPart stores sealed blocks as a part of an upload: all of them, or nothing. Each block is hashed and passed on as
// it comes. The bytes count like those of [Files.PutBlob].
func (f *Files) PutPart(ctx context.Context, account string, p PartRequest, body io.Reader) (out wire.Part, err error) {
	c, err := f.parsePart(account, p)
	if err != nil {
		return out, err
	}
	var bounds []bound
	if err := f.store.Read(ctx, func(tx *store.Tx) error {
		_, open, err := f.mayPut(ctx, tx, &c)
		if err != nil {
			return err
		}
		byAccount, byGroup, err := f.stored(ctx, tx, account, c.group)
		bounds = append(keepBounds(account, c.group, byAccount, byGroup),
			bound{"unfinished " + account, f.mostOpen(c.blockBytes) - open, f.tooManyBytes()})
		return err
	}); err != nil {
		return out, err
	}
	if err := f.coming.begin(c.size, bounds...); err != nil {
		return out, err
	}
	defer f.coming.end(c.size, bounds...)
	arriving, err := f.config.Space.Begin(c.size)
	if err != nil {
		return out, err
	}
	defer arriving.End()
	source := &arrivingBlocks{body: arriving.Reader(body), block: make([]byte, c.sealedBytes()),
		left: c.blocks.Blocks()}
	put := f.blobs.PutProved // by its leaves
	if p.Sum != nil {
		put = f.blobs.Put
	}
	if c.blob, err = put(ctx, source, c.size); err != nil {
		return out, err
	}
	faultpoint.Hit("part.stored")
	if p.Sum != nil && *p.Sum != c.blob.Sum {
		f.discard(ctx, c.blob.ID)
		return out, fault.New(wire.CodeValidation, "the body differs from its Repr-Digest: send it again")
	}
	c.leaves = source.leaves
	err = f.store.Write(context.WithoutCancel(ctx), ledger.In(c.group, account), func(tx *store.Tx) error {
		return f.addPart(ctx, tx, &c)
	})
	if isRolledBack(err) {
		f.discard(ctx, c.blob.ID) // the sweep repeats it
	}
	return c.shown(), err
}

// addPart records a part, and begins or prolongs its upload.
func (f *Files) addPart(ctx context.Context, tx *store.Tx, c *comingPart) error {
	u, open, err := f.mayPut(ctx, tx, c)
	if err != nil {
		return err
	}
	if open+c.blob.Size > f.mostOpen(c.blockBytes) {
		return f.tooManyBytes()
	}
	if err := f.MayKeep(ctx, tx, c.account, c.group, c.blob.Size); err != nil {
		return err
	}
	now := f.ledger.Now()
	began := cmp.Or(u.beganNS, now.UnixNano())
	expires := min(now.Add(PartsLife).UnixNano(), began+partsMost.Nanoseconds())
	if err := tx.Do(ctx, "prolong upload", `INSERT INTO part_uploads
		(id, account, group_id, block_size, began_ns, expires_ns, parts, part_bytes) VALUES (?, ?, ?, ?, ?, ?, 1, ?)
		ON CONFLICT (id) DO UPDATE
		SET expires_ns = excluded.expires_ns, parts = part_uploads.parts + 1,
		part_bytes = part_uploads.part_bytes + excluded.part_bytes`,
		c.key, c.account, c.group, c.blockBytes, began, expires, c.blob.Size); err != nil {
		return err
	}
	return tx.Do(ctx, "insert part", `INSERT INTO parts
		(id, blob_id, blob_size, group_id, account, upload_id, blocks, block_size, leaves)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		c.part.id, c.blob.ID, c.blob.Size, c.group, c.account, c.key, c.part.blocks, c.blockBytes, c.leaves)
}

// partRows is how many parts of a list are in memory at a time.
const partRows = 500

// PartsMemory is how much memory a list of parts takes, at most, in bytes.
const PartsMemory = partRows * 4 << 10

const (
	listParts store.Query = "SELECT id, blocks, leaves FROM parts WHERE upload_id = ? AND id > ? ORDER BY id LIMIT ?"
	listPart  store.Query = "SELECT id, blocks, leaves FROM parts WHERE upload_id = ? AND id = ? LIMIT ?"
)

// Parts passes the parts of an upload that is not recorded to each, in the order of their ids; only is the id of the
// one that is asked for, "" for all.
func (f *Files) Parts(ctx context.Context, account, upload, only string, each func([]wire.Part) error) error {
	id, err := uploadID(upload)
	if err != nil {
		return err
	}
	query, after := listParts, ""
	if only != "" {
		query, after = listPart, only
	}
	for {
		var list []wire.Part
		err := f.store.Read(ctx, func(tx *store.Tx) error {
			rows, err := store.List(ctx, tx, "list parts", func(p *part) []any {
				return []any{&p.id, &p.blocks,
					&p.leaves}
			}, query, partsKey(account, id), after, partRows)
			for i := range rows {
				list = append(list, rows[i].shown())
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := each(list); err != nil || only != "" || len(list) < partRows {
			return err
		}
		after = list[len(list)-1].ID
	}
}

// arrivingBlocks reads the body of a part: whole blocks, each of which is hashed before it is
// passed on. A body that is not what was announced is an error, and nothing of it is stored.
type arrivingBlocks struct {
	body   io.Reader
	block  []byte // memory for one
	left   int64  // blocks that have not come
	rest   []byte // of the block that came last
	leaves []byte
	ended  bool
}

func (a *arrivingBlocks) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.ended {
			return 0, io.EOF
		}
		if err := a.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// WriteTo writes each block from the memory it came in.
func (a *arrivingBlocks) WriteTo(w io.Writer) (written int64, err error) {
	for {
		n, err := w.Write(a.rest)
		written, a.rest = written+int64(n), a.rest[n:]
		if err != nil || a.ended {
			return written, err
		}
		if err := a.next(); err != nil {
			return written, err
		}
	}
}

// next receives a block.
func (a *arrivingBlocks) next() error {
	into := a.block
	if a.left == 0 {
		into = into[:1] // nothing may follow
	}
	n, err := fill(a.body, into)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case a.left == 0 && n > 0:
		return fault.New(wire.CodeValidation, "the body is longer than its blocks")
	case a.left == 0:
		a.ended = true
		return nil
	case n < len(into) && (a.left > 1 || n <= format.Overhead):
		return fault.New(wire.CodeValidation, "the body ends within a block: only the last one may be shorter, and "+
			"not empty")
	}
	leaf := format.Leaf(into[:n])
	a.leaves = append(a.leaves, leaf[:]...)
	a.rest = into[:n]
	a.left--
	return nil
}

// fill reads until p is full, or to io.EOF, or to another error.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var got int
		got, err = r.Read(p[n:])
		n += got
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}
