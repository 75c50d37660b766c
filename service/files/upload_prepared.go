package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Uploads as the specification has them: prepare_upload hands out an id and a key, finalize_upload records the
// ciphertext, which is in the request or was PUT before.

// Prepare makes the key of a file to be uploaded. Writers only; free, but the
// balance must suffice for the upload.
func (f *Files) Prepare(ctx context.Context, account string,
	req wire.PrepareUploadRequest) (out wire.PrepareUploadResult, err error) {
	if err := checkName(req.Filename); err != nil {
		return out, err
	}
	if req.Size > f.config.MaxWholeBytes+format.Overhead {
		return out, f.tooLargeWhole()
	}
	if err := f.config.Space.Room(req.Size); err != nil {
		return out, err
	}
	ref, id := f.newRef(req.GroupID), newUUID()
	out = wire.PrepareUploadResult{UploadID: id, GroupID: req.GroupID, Filename: req.Filename,
		UploadURL: wire.PathUploadBlob + id}
	err = f.store.Write(ctx, ledger.In(req.GroupID, account), func(tx *store.Tx) error {
		g, err := groups.RequireWriter(ctx, tx, req.GroupID, account)
		if err != nil {
			return err
		}
		if err := g.RequireSealed(false); err != nil {
			return err
		}
		if err := f.canPay(ctx, tx, account); err != nil {
			return err
		}
		if err := f.MayKeep(ctx, tx, account, req.GroupID, max(req.Size, format.Overhead)); err != nil {
			return err
		}
		key, err := format.RandomKey()
		if err != nil {
			return err
		}
		out.Key = key.Base64()
		keyID, err := f.storeKey(ctx, tx, vaultwire.Binding{Group: g.ID, Ref: ref, Version: g.KeyVersion},
			keys.InClear(key))
		if err != nil {
			return err
		}
		return tx.Do(ctx, "insert upload", `INSERT INTO uploads
			(id, account, group_id, ref, filename, key_version, key_id, expires_ns)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, id, account, g.ID, ref, req.Filename, g.KeyVersion, keyID,
			f.ledger.Now().Add(UploadLife).UnixNano())
	})
	return out, err
}

// prepared is a row of the uploads table.
type prepared struct {
	id, account, group, ref, filename string
	keyVersion                        int64
	keyID                             sql.NullInt64
	blob                              *blob.Info // of a raw transfer
	result                            []byte     // JSON once finalized, see answered
	expires                           time.Time
}

// blobSize is that of the raw transfer, 0 without one.
func (p *prepared) blobSize() int64 {
	if p.blob == nil {
		return 0
	}
	return p.blob.Size
}

func askUpload(id string) store.Ask {
	return store.Ask{Query: `SELECT id, account, group_id, ref, filename, key_version, key_id, blob_id,
		blob_size, blob_sum, result, expires_ns
		FROM uploads
		WHERE id = ?`, Args: []any{id}}
}

func (f *Files) getUpload(ctx context.Context, tx *store.Tx, account, id string) (p prepared, err error) {
	var blobID, result sql.NullString
	var size sql.NullInt64
	var sum []byte
	var expires int64
	err = tx.Ask(ctx, askUpload(id)).Scan(&p.id, &p.account, &p.group, &p.ref, &p.filename, &p.keyVersion, &p.keyID,
		&blobID, &size, &sum, &result, &expires)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return p, fmt.Errorf("read upload: %w", err)
	}
	if err != nil || expires < f.ledger.Now().UnixNano() {
		return p, unknownUpload()
	}
	if p.account != account {
		return p, fault.New(wire.CodeNotAuthorized,
			"User not authorized: Account mismatch - you do not own this upload")
	}
	if blobID.Valid {
		p.blob = &blob.Info{ID: blobID.String, Size: size.Int64, Sum: [sha256.Size]byte(sum)}
	}
	p.result, p.expires = []byte(result.String), time.Unix(0, expires)
	return p, nil
}

func unknownUpload() error { return fault.New(wire.CodeUploadUnknown, "Invalid or expired upload_id") }

// lively reads the bytes of an upload, and renews the upload id while bytes come.
type lively struct {
	r       io.Reader
	now     func() time.Time
	renew   func()
	expires time.Time
}

func (l *lively) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if n > 0 && l.expires.Sub(l.now()) < UploadLife*2/3 {
		l.expires = l.now().Add(UploadLife)
		l.renew()
	}
	return n, err
}

// renew makes an upload id good for another UploadLife. When that fails, the next bytes
// try again.
func (f *Files) renew(ctx context.Context, account, uploadID string) {
	_ = f.store.Write(ctx, ledger.By(account), func(tx *store.Tx) error {
		if _, err := f.getUpload(ctx, tx, account, uploadID); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "UPDATE uploads SET expires_ns = ? WHERE id = ?",
			f.ledger.Now().Add(UploadLife).UnixNano(), uploadID)
		return err
	})
}

// PutBlob stores the ciphertext of an upload ahead of its finalize. size is its length,
// -1 for an unknown length. The bytes in unfinished uploads and the storage of account
// and group are bounded over all processes; each process also bounds the bytes that are
// coming.
func (f *Files) PutBlob(ctx context.Context, account, uploadID string, r io.Reader, size int64) error {
	if size > f.config.MaxWholeBytes+format.Overhead {
		return f.tooLargeWhole()
	}
	p, keep, open, err := f.mayPutBlob(ctx, account, uploadID)
	if err != nil {
		return err
	}
	known := max(size, 0)
	if size < 0 {
		size = f.config.MaxWholeBytes + format.Overhead
	}
	unfinished := bound{"unfinished " + account, f.config.MaxOpenBytes - open, f.tooManyBytes()}
	if err := f.coming.begin(size, unfinished); err != nil {
		return err
	}
	defer f.coming.end(size, unfinished)
	if err := f.coming.begin(known, keep...); err != nil {
		return err
	}
	arriving := &counted{r: r, coming: &f.coming, bounds: keep, said: known}
	defer arriving.end()
	came, err := f.arrive(ctx, &lively{arriving, f.ledger.Now, func() { f.renew(ctx, account, uploadID) }, p.expires},
		known)
	if err != nil {
		return err
	}
	var useless string // the blob without an owner afterwards
	err = f.store.Write(ctx, ledger.In(p.group, account), func(tx *store.Tx) error {
		useless, err = f.replaceBlob(ctx, tx, account, uploadID, &came)
		return err
	})
	if isRolledBack(err) {
		useless = came.ID
	}
	if useless != "" && (err == nil || isRolledBack(err)) {
		f.discard(ctx, useless) // the sweep repeats it
	}
	return err
}

// mayPutBlob refuses the bytes of somebody who may not write. It returns the upload, the bounds of what may be kept,
// and how many bytes the other unfinished uploads of the account have.
func (f *Files) mayPutBlob(ctx context.Context, account, uploadID string) (p prepared, keep []bound, open int64,
	err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		if p, err = f.getUpload(ctx, tx, account, uploadID); err != nil {
			return err
		}
		g, err := groups.RequireWriter(ctx, tx, p.group, account)
		if err == nil {
			err = g.RequireSealed(false)
		}
		if err != nil {
			return err
		}
		byAccount, byGroup, err := f.stored(ctx, tx, account, p.group)
		if err != nil {
			return err
		}
		keep = keepBounds(account, p.group, byAccount, byGroup)
		for i := range keep {
			keep[i].left += p.blobSize()
		}
		open, _, err = openBytes(ctx, tx, account, uploadID)
		return err
	})
	return p, keep, open, err
}

// replaceBlob gives a blob to an upload and returns the blob without an owner, "" for
// none: the earlier one of the upload, or this one when the upload is finished.
func (f *Files) replaceBlob(ctx context.Context, tx *store.Tx, account, uploadID string, came *arrived) (useless string,
	err error) {
	p, err := f.getUpload(ctx, tx, account, uploadID)
	if err != nil {
		return "", err
	}
	if len(p.result) > 0 {
		return came.ID, nil
	}
	open, _, err := openBytes(ctx, tx, account, uploadID)
	if err != nil {
		return "", err
	}
	if open+came.Size > f.config.MaxOpenBytes {
		return "", f.tooManyBytes()
	}
	if err := f.MayKeep(ctx, tx, account, p.group, came.Size-p.blobSize()); err != nil {
		return "", err
	}
	if p.blob != nil {
		useless = p.blob.ID
	}
	if _, err := f.settle(ctx, tx, came); err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, "UPDATE uploads SET blob_id = ?, blob_size = ?, blob_sum = ? WHERE id = ?", came.ID,
		came.Size, came.Sum[:], uploadID)
	return useless, err
}

// Finalize records an upload: the bytes from data, or the raw transfer when data
// is nil. Repeated with the same upload id it gives the first answer again.
func (f *Files) Finalize(ctx context.Context, account string, req wire.FinalizeUploadRequest,
	data io.Reader) (out wire.FinalizeUploadResult, err error) {
	known := false
	var p prepared
	if err := f.store.Look(ctx, func(tx *store.Tx) (err error) {
		p, err = f.getUpload(ctx, tx, account, req.UploadID)
		if known = err == nil && len(p.result) > 0; known {
			out, err = f.answered(ctx, tx, p)
		}
		return err
	}); err != nil || known {
		return out, err
	}
	u := &upload{account: account, SealedHead: wire.SealedHead{FileHash: strings.ToLower(req.FileHash), Salt: req.Salt,
		Format: req.Format, Versioned: req.Versioned, Base: req.Base, Upon: req.Upon}}
	if !isHash(u.FileHash) {
		return out, noHash()
	}
	if u.meta, err = parseMeta(req.Format, u.FileHash); err != nil {
		return out, err
	}
	if u.inBlocks() {
		return out, fault.New(wire.CodeValidation, "format: a file of version %d is recorded with PUT %s",
			format.VersionBlocks, wire.PathSealed)
	}
	if err := checkSalt(req.Salt); err != nil {
		return out, err
	}
	var own *arrived // only ours until the record commits
	if data != nil {
		stored, err := f.arrive(ctx, data, 0) // the content is on the disk already, or small
		if err != nil {
			return out, err
		}
		own = &stored
	}
	kept := false
	asks := func() []store.Ask {
		asks := append(f.asksToRecord(account, p.group), askUpload(req.UploadID))
		if own != nil && own.small != nil {
			asks = append(asks, askPlace(len(padded(nil, own.small))))
		}
		return asks
	}
	err = f.store.Write(ctx, ledger.In(p.group, account).Asking(asks), func(tx *store.Tx) error {
		out, kept, err = f.finalize(ctx, tx, u, req.UploadID, own)
		return err
	})
	if own != nil && (isRolledBack(err) || err == nil && !kept) {
		f.discard(ctx, own.ID)
	}
	return out, err
}

// finalize is the transaction of a finalize. The blob is own, or that of the raw transfer.
// kept is true when the file owns the blob now, false when a concurrent finalize was
// first.
func (f *Files) finalize(ctx context.Context, tx *store.Tx, u *upload, id string,
	own *arrived) (out wire.FinalizeUploadResult, kept bool, err error) {
	p, err := f.getUpload(ctx, tx, u.account, id)
	if err != nil {
		return out, false, err
	}
	if len(p.result) > 0 {
		out, err = f.answered(ctx, tx, p)
		return out, false, err
	}
	u.GroupID, u.name, u.ref, u.keyVersion, u.keyID, u.counted = p.group, cmp.Or(p.filename,
		u.meta.Filename), p.ref, p.keyVersion, p.keyID, p.blobSize()
	switch {
	case own != nil:
		u.at = *own
	case p.blob != nil:
		u.at.Info = *p.blob
	}
	g, err := f.mayRecord(ctx, tx, u)
	if err == nil && own == nil && p.blob == nil {
		err = fault.New(wire.CodeValidation, "Required: encrypted_data, or a PUT to upload_url before")
	}
	if err != nil {
		return out, false, err
	}
	r, err := f.record(ctx, tx, u, g)
	if err != nil {
		return out, false, err
	}
	if own != nil {
		own.ID = u.at.ID
	}
	out, err = f.finished(ctx, tx, u, id, r)
	return out, true, err
}

// finished notes the answer to a finalize.
func (f *Files) finished(ctx context.Context, tx *store.Tx, u *upload, id string,
	r chain.Row) (out wire.FinalizeUploadResult, err error) {
	receipt, err := f.log.Receipt(ctx, tx, r)
	if err != nil {
		return out, err
	}
	out = answerOf(&r.Record, u.FileHash, receipt)
	result, err := json.Marshal(wire.FinalizeUploadResult{Seq: out.Seq, Receipt: out.Receipt})
	if err != nil {
		return out, err
	}
	err = tx.Do(ctx, "note the answer", "UPDATE uploads SET result = ?, key_id = NULL, blob_id = NULL, "+
		"blob_size = NULL, blob_sum = NULL, expires_ns = ? WHERE id = ?",
		string(result), f.ledger.Now().Add(UploadLife).UnixNano(), id)
	return out, err
}

// answered repeats the answer to the finalize of p; once the file was deleted, without its hash. The table of uploads
// keeps only the part of it that the ledger lacks: in SQLite, a row of more than about 1000 bytes takes a page of its
// own, and every search that meets the row reads that page.
func (f *Files) answered(ctx context.Context, tx *store.Tx, p prepared) (out wire.FinalizeUploadResult, err error) {
	if err := json.Unmarshal(p.result, &out); err != nil {
		return out, err
	}
	r, err := ledger.At(ctx, tx, out.Seq)
	if err != nil {
		return out, err
	}
	o, _, err := f.opened(ctx, tx, p.group, out.Seq)
	return answerOf(&r.Record, hashText(o.Hash), out.Receipt), err
}
