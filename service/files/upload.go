package files

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

// Prepare makes the key of a file to be uploaded. Writers only; free, but the
// balance must suffice for the upload.
func (f *Files) Prepare(ctx context.Context, account string, req wire.PrepareUploadRequest) (out wire.PrepareUploadResult, err error) {
	if req.Resume != "" {
		return f.resume(ctx, account, req)
	}
	if err := checkName(req.Filename); err != nil {
		return out, err
	}
	most, refusal := f.config.MaxWholeBytes+format.Overhead, f.tooLargeWhole
	if slices.Contains(req.Formats, format.VersionBlocks) {
		most, refusal = f.layoutOf(format.MinBlockBytes).SealedBytes(), f.tooLarge
	}
	if req.Size > most {
		return out, refusal()
	}
	if err := f.config.Space.Room(req.Size); err != nil {
		return out, err
	}
	ref := f.newRef(req.GroupID)
	u := upload{id: newUUID(), account: account, group: req.GroupID, ref: ref, filename: req.Filename}
	out = wire.PrepareUploadResult{UploadID: u.id, GroupID: req.GroupID, Filename: req.Filename, UploadURL: wire.PathUploadBlob + u.id}
	err = f.store.Write(ctx, func(tx *store.Tx) error {
		g, err := groups.RequireWriter(ctx, tx, req.GroupID, account)
		if err != nil {
			return err
		}
		if err := f.canPay(ctx, tx, account); err != nil {
			return err
		}
		if err := f.MayKeep(ctx, tx, account, req.GroupID, max(req.Size, format.Overhead)); err != nil {
			return err
		}
		now, life := f.ledger.Now(), UploadLife
		u.keyVersion, u.base = g.KeyVersion, ""
		if u.blockBytes, err = inBlocks(g, req); err != nil {
			return err
		}
		if u.blockBytes > 0 {
			life = PartsLife
			if u.base, err = usableBase(ctx, tx, g, u, req.Base); err != nil {
				return err
			}
		}
		key, err := format.RandomKey()
		if err != nil {
			return err
		}
		out.Key = key.Base64()
		keyID, err := f.storeKey(ctx, tx, vault.Binding{Group: g.ID, Ref: ref, Version: g.KeyVersion}, key)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO uploads (id, account, group_id, ref, filename, key_version, key_id, expires_ns, base, block_size, began_ns)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, u.id, account, g.ID, ref, req.Filename, g.KeyVersion, keyID, now.Add(life).UnixNano(), u.base, u.blockBytes, now.UnixNano())
		if err != nil {
			return fmt.Errorf("insert upload: %w", err)
		}
		u.offerParts(&out)
		return nil
	})
	return out, err
}

func (f *Files) tooLarge() error {
	return fault.New(wire.CodeTooLarge, "file too large: at most %d bytes are accepted", f.config.MaxFileBytes)
}

// tooLargeWhole refuses a file of format version 1.
func (f *Files) tooLargeWhole() error {
	if f.config.MaxWholeBytes == f.config.MaxFileBytes {
		return f.tooLarge()
	}
	return fault.New(wire.CodeTooLarge, "file too large: at most %d bytes are accepted in one piece, and %d in blocks, which newer programs send and group format 2 allows",
		f.config.MaxWholeBytes, f.config.MaxFileBytes)
}

// upload is a row of the uploads table.
type upload struct {
	id, account, group, ref, filename string
	keyVersion                        int64
	keyID                             sql.NullInt64
	blob                              *blob.Info // of a raw transfer
	result                            []byte     // JSON once finalized, see answered
	expires                           time.Time
	content                           string // of format version 2, see [chain.TagContent]; not in the table
	base                              string // of whose blocks it may take over, "" = none
	blockBytes                        int64  // plaintext of a block of an upload that may have parts, else 0
	beganNS                           int64  // of an upload that may have parts
	parts, partBytes                  int64  // that it has, until it is finished
}

// blobSize is that of the raw transfer, 0 without one.
func (u upload) blobSize() int64 {
	if u.blob == nil {
		return 0
	}
	return u.blob.Size
}

func (f *Files) getUpload(ctx context.Context, tx *store.Tx, account, id string) (u upload, err error) {
	var blobID, result sql.NullString
	var size sql.NullInt64
	var sum []byte
	var expires int64
	err = tx.QueryRowContext(ctx, `SELECT id, account, group_id, ref, filename, key_version, key_id, blob_id, blob_size, blob_sum, result, expires_ns, base, block_size, began_ns, parts, part_bytes
		FROM uploads WHERE id = ?`, id).Scan(&u.id, &u.account, &u.group, &u.ref, &u.filename, &u.keyVersion, &u.keyID, &blobID, &size, &sum, &result, &expires, &u.base, &u.blockBytes, &u.beganNS, &u.parts, &u.partBytes)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return u, fmt.Errorf("read upload: %w", err)
	}
	if err != nil || expires < f.ledger.Now().UnixNano() {
		return u, unknownUpload()
	}
	if u.account != account {
		return u, fault.New(wire.CodeNotAuthorized, "User not authorized: Account mismatch - you do not own this upload")
	}
	if blobID.Valid {
		u.blob = &blob.Info{ID: blobID.String, Size: size.Int64, Sum: [sha256.Size]byte(sum)}
	}
	u.result, u.expires = []byte(result.String), time.Unix(0, expires)
	return u, nil
}

func unknownUpload() error { return fault.New(wire.CodeUploadUnknown, "Invalid or expired upload_id") }

// isRolledBack reports that the transaction that failed with err surely did not commit.
// After any other failure it may have committed, and the sweep removes leftovers by the
// state of the database.
func isRolledBack(err error) bool {
	var refused *fault.Error
	return errors.As(err, &refused) || errors.Is(err, store.ErrFull)
}

// discard removes a blob without an owner, even when the caller has left.
func (f *Files) discard(ctx context.Context, id string) {
	_ = f.blobs.Delete(context.WithoutCancel(ctx), id)
}

// put stores ciphertext of so many bytes, 0 for an unknown size, unless the upload would
// use the reserve of the disk.
func (f *Files) put(ctx context.Context, r io.Reader, size int64) (blob.Info, error) {
	arriving, err := f.config.Space.Begin(size)
	if err != nil {
		return blob.Info{}, err
	}
	defer arriving.End()
	info, err := f.blobs.Put(ctx, arriving.Reader(r), f.config.MaxWholeBytes+format.Overhead)
	faultpoint.Hit("blob.stored")
	switch {
	case errors.Is(err, blob.ErrTooLarge):
		return info, f.tooLargeWhole()
	case err != nil:
		return info, err
	case info.Size < format.Overhead:
		f.discard(ctx, info.ID)
		return info, tooShort(info.Size)
	}
	return info, nil
}

func tooShort(size int64) error {
	return fault.New(wire.CodeValidation, "encrypted data of %d bytes: at least %d are needed (IV and tag)", size, format.Overhead)
}

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
	_ = f.store.Write(ctx, func(tx *store.Tx) error {
		u, err := f.getUpload(ctx, tx, account, uploadID)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE uploads SET expires_ns = ? WHERE id = ?", u.until(f.ledger.Now().Add(UploadLife)), uploadID)
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
	var open int64
	var keep []bound
	var expires time.Time
	if err := f.store.Read(ctx, func(tx *store.Tx) error {
		u, err := f.getUpload(ctx, tx, account, uploadID)
		if err != nil {
			return err
		}
		if _, err = groups.RequireWriter(ctx, tx, u.group, account); err != nil {
			return err
		}
		byAccount, byGroup, err := f.stored(ctx, tx, account, u.group)
		if err != nil {
			return err
		}
		expires = u.expires
		keep = keepBounds(account, u.group, byAccount, byGroup)
		for i := range keep {
			keep[i].left += u.blobSize()
		}
		open, _, err = openBytes(ctx, tx, account, uploadID)
		return err
	}); err != nil {
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
	came, err := f.arrive(ctx, &lively{arriving, f.ledger.Now, func() { f.renew(ctx, account, uploadID) }, expires}, known)
	if err != nil {
		return err
	}
	var useless string // the blob without an owner afterwards
	err = f.store.Write(ctx, func(tx *store.Tx) error {
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

// replaceBlob gives a blob to an upload and returns the blob without an owner, "" for
// none: the earlier one of the upload, or this one when the upload is finished.
func (f *Files) replaceBlob(ctx context.Context, tx *store.Tx, account, uploadID string, came *arrived) (useless string, err error) {
	u, err := f.getUpload(ctx, tx, account, uploadID)
	if err != nil {
		return "", err
	}
	if len(u.result) > 0 {
		return came.ID, nil
	}
	open, _, err := openBytes(ctx, tx, account, uploadID)
	if err != nil {
		return "", err
	}
	if open+came.Size > f.config.MaxOpenBytes {
		return "", f.tooManyBytes()
	}
	if err := f.MayKeep(ctx, tx, account, u.group, came.Size-u.blobSize()); err != nil {
		return "", err
	}
	if u.blob != nil {
		useless = u.blob.ID
	}
	if _, err := f.settle(ctx, tx, came); err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, "UPDATE uploads SET blob_id = ?, blob_size = ?, blob_sum = ? WHERE id = ?", came.ID, came.Size, came.Sum[:], uploadID)
	return useless, err
}

// Finalize records an upload: the bytes from data, or the raw transfer when data
// is nil. Repeated with the same upload id it gives the first answer again.
func (f *Files) Finalize(ctx context.Context, account string, req wire.FinalizeUploadRequest, data io.Reader) (out wire.FinalizeUploadResult, err error) {
	var u upload
	if err := f.store.Look(ctx, func(tx *store.Tx) (err error) {
		if u, err = f.getUpload(ctx, tx, account, req.UploadID); err == nil && len(u.result) > 0 {
			out, err = f.answered(ctx, tx, u)
		}
		return err
	}); err != nil || len(u.result) > 0 {
		return out, err
	}
	req.FileHash = strings.ToLower(req.FileHash)
	if !isHash(req.FileHash) && (req.FileHash != "" || u.base == "") {
		return out, noHash()
	}
	meta, err := parseMeta(req.Format, req.FileHash)
	if err != nil {
		return out, err
	}
	if meta.Version != format.VersionBlocks && req.FileHash == "" {
		return out, noHash()
	}
	if err := checkSalt(req.Salt); err != nil {
		return out, err
	}
	if meta.Version == format.VersionBlocks {
		return f.finalizeBlocks(ctx, account, u, req, meta)
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
	var useless []string
	err = f.store.Write(ctx, func(tx *store.Tx) error {
		if useless, err = f.withoutParts(ctx, tx, u); err == nil {
			out, kept, err = f.record(ctx, tx, account, req, meta, own)
		}
		return err
	})
	if err != nil {
		useless = nil
	}
	if own != nil && (isRolledBack(err) || err == nil && !kept) {
		useless = append(useless, own.ID)
	}
	f.release(ctx, useless)
	return out, err
}

// parseMeta reads the format object of an upload.
func parseMeta(raw json.RawMessage, fileHash string) (meta format.Metadata, err error) {
	if !utf8.Valid(raw) {
		return meta, fault.New(wire.CodeValidation, "format is not UTF-8")
	}
	if meta, err = format.ParseMetadata(raw); err != nil {
		return meta, fault.New(wire.CodeValidation, "format is not understood: %s", reason(err))
	}
	if err := checkName(meta.Filename); err != nil {
		return meta, err
	}
	if len(meta.ContentType) > maxContentType || strings.ContainsRune(meta.ContentType, 0) {
		return meta, fault.New(wire.CodeValidation, "content_type must be at most %d bytes without NUL", maxContentType)
	}
	meta.Attributes, err = uploadAttributes(meta, fileHash)
	return meta, err
}

// isHash reports whether a text is a SHA-256 in lower-case hex.
func isHash(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size && hex.EncodeToString(raw) == text
}

func noHash() error { return fault.New(wire.CodeValidation, "file_hash must be 64-char hex (SHA-256)") }

// reason is the first line of an error of package format. The next line is that of the
// decoder, with names of this program.
func reason(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// record is the transaction of a finalize. The blob is own, or that of the raw transfer.
// kept is true when the file owns the blob now, false when a concurrent finalize was
// first.
func (f *Files) record(ctx context.Context, tx *store.Tx, account string, req wire.FinalizeUploadRequest, meta format.Metadata, own *arrived) (out wire.FinalizeUploadResult, kept bool, err error) {
	u, err := f.getUpload(ctx, tx, account, req.UploadID)
	if err != nil {
		return out, false, err
	}
	if len(u.result) > 0 {
		out, err = f.answered(ctx, tx, u)
		return out, false, err
	}
	if _, err := groups.RequireWriter(ctx, tx, u.group, account); err != nil {
		return out, false, err
	}
	info := u.blob
	if own != nil {
		info = &own.Info
	}
	if info == nil {
		return out, false, fault.New(wire.CodeValidation, "Required: encrypted_data, or a PUT to upload_url before")
	}
	if own != nil { // the bytes of a raw transfer count already
		if err := f.MayKeep(ctx, tx, account, u.group, own.Size-u.blobSize()+formatBytes(req.Format)); err != nil {
			return out, false, err
		}
	} else if err := f.mayKeepFormat(ctx, tx, account, u.group, req.Format); err != nil {
		return out, false, err
	}
	if u.filename == "" {
		u.filename = meta.Filename
	}
	if err := requireHead(ctx, tx, u.group, u.filename, req.Head); err != nil {
		return out, false, err
	}
	if own != nil {
		if _, err := f.settle(ctx, tx, own); err != nil {
			return out, false, err
		}
	}
	r, err := f.recordFile(ctx, tx, u, req, meta, *info)
	if err != nil {
		return out, false, err
	}
	out, err = f.finished(ctx, tx, u, req.FileHash, r)
	return out, true, err
}

// finished notes the answer to a finalize of content with a hash.
func (f *Files) finished(ctx context.Context, tx *store.Tx, u upload, hash string, r chain.Row) (out wire.FinalizeUploadResult, err error) {
	receipt, err := f.log.Receipt(ctx, tx, r)
	if err != nil {
		return out, err
	}
	out = u.answer(&r.Record, hash, receipt)
	result, err := json.Marshal(wire.FinalizeUploadResult{Seq: out.Seq, Receipt: out.Receipt})
	if err != nil {
		return out, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE uploads SET result = ?, key_id = NULL, blob_id = NULL, blob_size = NULL, blob_sum = NULL, expires_ns = ? WHERE id = ?",
		string(result), f.ledger.Now().Add(UploadLife).UnixNano(), u.id)
	return out, err
}

// answer is the answer to the finalize of u.
func (u upload) answer(r *chain.Record, hash string, receipt *wire.ChainHead) wire.FinalizeUploadResult {
	return wire.FinalizeUploadResult{Location: u.ref, CID: u.ref, TransID: r.Tx, FileHash: hash, Seq: r.Seq,
		Time: strconv.FormatInt(r.TimeNS, 10), Fee: r.Fee, Record: recordRow(r), Receipt: receipt}
}

// answered repeats the answer to the finalize of u; once the file was deleted, without its hash. The table of uploads keeps only the
// part of it that the ledger lacks: in SQLite, a row of more than about 1000 bytes takes
// a page of its own, and every search that meets the row reads that page.
func (f *Files) answered(ctx context.Context, tx *store.Tx, u upload) (out wire.FinalizeUploadResult, err error) {
	if err := json.Unmarshal(u.result, &out); err != nil {
		return out, err
	}
	r, err := ledger.At(ctx, tx, out.Seq)
	if err != nil {
		return out, err
	}
	o, _, err := f.opened(ctx, tx, u.group, out.Seq)
	return u.answer(&r.Record, hashText(o.Hash), out.Receipt), err
}

// plainSize is the size of a file's plaintext in bytes, [format.SizeUnknown] when it is not known.
func plainSize(meta format.Metadata, info blob.Info) int64 {
	if meta.OriginalSize == format.SizeUnknown && meta.Compression == "" && info.Size >= format.Overhead {
		return info.Size - format.Overhead
	}
	return meta.OriginalSize
}

// recordFile takes the price of an upload, and makes its record, its file, and what the record commits
// to. Content and key of the file are kept already.
func (f *Files) recordFile(ctx context.Context, tx *store.Tx, u upload, req wire.FinalizeUploadRequest, meta format.Metadata, info blob.Info) (chain.Row, error) {
	opening := openingOf(req, plainSize(meta, info))
	r, err := f.ledger.Charge(ctx, tx, ledger.ActionUpload, uploadRecord(u, req.Versioned, opening.Commitment(), meta))
	if err != nil {
		return r, err
	}
	return r, f.insertFile(ctx, tx, u, backendFastFS, req, meta, info, &opening, r)
}

// uploadRecord is the record of an upload, with every fact that a listing shows.
func uploadRecord(u upload, isVersioned bool, commitment string, meta format.Metadata) chain.Record {
	versioned := chain.Tag{Name: chain.TagVersioned}
	if isVersioned {
		versioned.Value = chain.Versioned
	}
	return chain.Record{Kind: chain.KindRecord, Account: u.account, Group: u.group, Ref: u.ref, FileHash: commitment, Detail: u.filename,
		Tags: ledger.WithTags(contentTags(meta.ContentType, meta.Attributes, u.content), versioned)}
}

// contentTags are those of every record about a file; one without a value is left
// out of it.
func contentTags(contentType, attributes, content string) []chain.Tag {
	return ledger.WithTags(nil, chain.Tag{Name: chain.TagType, Value: contentType}, chain.Tag{Name: chain.TagAttributes, Value: attributes},
		chain.Tag{Name: chain.TagContent, Value: content})
}

// insertFile adds the file of the record r, and what the record commits to.
func (f *Files) insertFile(ctx context.Context, tx *store.Tx, u upload, backend string, req wire.FinalizeUploadRequest, meta format.Metadata, info blob.Info,
	opening *chain.Opening, r chain.Row) error {
	raw := string(req.Format)
	if meta.Version == 0 && strings.TrimSpace(raw) == "" {
		raw = "null"
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO files (ref, group_id, seq, changed_seq, named_seq, tx_id, uploader, file_hash, time_ns, filename,
		content_type, format, blob_id, blob_size, blob_sum, key_version, key_id, backend, attributes, versioned, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		u.ref, u.group, r.Seq, r.Seq, r.Seq, r.Tx, u.account, r.FileHash, r.TimeNS, u.filename, meta.ContentType, raw,
		info.ID, info.Size, info.Sum[:], u.keyVersion, u.keyID, backend, meta.Attributes, req.Versioned, u.content)
	if err != nil {
		return fmt.Errorf("insert file: %w", err)
	}
	return f.keepOpening(ctx, tx, u.group, r.Seq, opening)
}
