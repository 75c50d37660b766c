// Package files holds the rules of uploads, retrievals and listings. Bytes are
// on the disk before the record commits, and the record before anybody is told;
// membership is checked in the same transaction that hands out a key or records
// an upload.
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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/legacy"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

const (
	// UploadLife is how long an upload id is good, from when it was handed out or
	// bytes of the raw transfer came.
	UploadLife = 300 * time.Second
	// claimLife is how long a claim may be repeated without a second fee.
	claimLife = time.Hour
	// MaxFilename is the longest recorded name, in bytes: a path of components.
	MaxFilename = 4096
	// maxContentType is the longest recorded type, in bytes (RFC 6838 section 4.2).
	maxContentType = 255
	// maxClaimID is the longest claim id, in bytes; a UUID has 36.
	maxClaimID = 128
	// orphanAge is how old a blob without a record must be before it is removed.
	orphanAge = 2 * UploadLife
)

// Blobs is where ciphertext is kept.
type Blobs interface {
	Put(ctx context.Context, r io.Reader, limit int64) (blob.Info, error)
	Open(ctx context.Context, id string) (io.ReadSeekCloser, int64, error)
	Read(ctx context.Context, id string, size int64) ([]byte, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context, age time.Duration, visit func(id string, size int64) error) error
	Sweep(ctx context.Context, age time.Duration, visit func(id string) error) error
}

// Files answers uploads, retrievals and listings.
type Files struct {
	store    *store.Store
	ledger   *ledger.Ledger
	log      *checkpoint.Log
	vault    *vault.Vault
	blobs    Blobs
	contract string
	maxBytes int64
	options  Options
	fetching singleflight.Group // of bytes behind a legacy reference
	coming   coming

	scrubbing sync.Mutex
	traces    atomic.Bool // keys were destroyed since the last scrub, or may have been
}

// Options are what an operator may choose; the zero value is the default.
type Options struct {
	PlainRefs        bool            // references of new files do not start with bafy
	Gateway          *legacy.Gateway // has the bytes of legacy references that are not kept here; nil = nobody
	DestructionDelay time.Duration   // of deletions in bulk; 0 or less = none
	MaxOpenBytes     int64           // of the uploads an account has begun and not finished; 0 = OpenBytes, or OpenFiles of the largest

	MaxAccountBytes int64         // of ciphertext that is kept for an account; 0 = any number
	MaxGroupBytes   int64         // and for a group
	Space           *space.Keeper // of the disks
}

// New returns the files of a service.
func New(s *store.Store, l *ledger.Ledger, log *checkpoint.Log, v *vault.Vault, b Blobs, contract string, maxBytes int64, o Options) *Files {
	f := &Files{store: s, ledger: l, log: log, vault: v, blobs: b, contract: contract, maxBytes: maxBytes, options: o}
	if f.options.MaxOpenBytes <= 0 {
		f.options.MaxOpenBytes = max(OpenBytes, OpenFiles*(maxBytes+format.Overhead))
	}
	f.traces.Store(true) // of a process that ended before it could scrub
	return f
}

// newRef makes a reference: three parts like the hosted service's, the second
// constant per group. It starts with "bafy" unless the operator knows of no
// client that is as old as SDK 1.0.3, which accepts nothing else; it is only ever
// looked up, never parsed.
func (f *Files) newRef(group string) string {
	sum := sha256.Sum256([]byte("svc-location\x00" + f.contract + "\x00" + group))
	prefix := "bafy."
	if f.options.PlainRefs {
		prefix = ""
	}
	return prefix + f.contract + "/fastfs." + f.contract + "/" + hex.EncodeToString(sum[:]) + "/" + newUUID()
}

// newUUID begins with the time (RFC 9562 version 7), so that rows made together
// lie together in the index: one page is written for many of them.
func newUUID() string { return uuid.Must(uuid.NewV7()).String() }

// Prepare makes the key of a file to be uploaded. Writers only; free, but the
// balance must suffice for the upload.
func (f *Files) Prepare(ctx context.Context, account string, req wire.PrepareUploadRequest) (out wire.PrepareUploadResult, err error) {
	if err := checkName(req.Filename); err != nil {
		return out, err
	}
	if req.Size > f.maxBytes+format.Overhead {
		return out, f.tooLarge()
	}
	if err := f.options.Space.Room(req.Size); err != nil {
		return out, err
	}
	ref := f.newRef(req.GroupID)
	out = wire.PrepareUploadResult{UploadID: newUUID(), GroupID: req.GroupID, Filename: req.Filename}
	out.UploadURL = wire.PathUploadBlob + out.UploadID
	err = f.store.Write(ctx, func(tx *store.Tx) error {
		g, err := groups.RequireWriter(ctx, tx, req.GroupID, account)
		if err != nil {
			return err
		}
		if err := f.canPay(ctx, tx, account); err != nil {
			return err
		}
		if err := f.mayKeep(ctx, tx, account, req.GroupID, max(req.Size, format.Overhead)); err != nil {
			return err
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
		_, err = tx.ExecContext(ctx, `INSERT INTO uploads (id, account, group_id, ref, filename, key_version, key_id, expires_ns)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, out.UploadID, account, g.ID, ref, req.Filename, g.KeyVersion, keyID, f.ledger.Now().Add(UploadLife).UnixNano())
		if err != nil {
			return fmt.Errorf("insert upload: %w", err)
		}
		return nil
	})
	return out, err
}

func (f *Files) tooLarge() error {
	return fault.New(wire.CodeTooLarge, "file too large: at most %d bytes are accepted", f.maxBytes)
}

// upload is a row of the uploads table.
type upload struct {
	id, account, group, ref, filename string
	keyVersion                        int64
	keyID                             sql.NullInt64
	blob                              *blob.Info // of a raw transfer
	result                            []byte     // JSON once finalized, see answered
	expires                           time.Time
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
	err = tx.QueryRowContext(ctx, `SELECT id, account, group_id, ref, filename, key_version, key_id, blob_id, blob_size, blob_sum, result, expires_ns
		FROM uploads WHERE id = ?`, id).Scan(&u.id, &u.account, &u.group, &u.ref, &u.filename, &u.keyVersion, &u.keyID, &blobID, &size, &sum, &result, &expires)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return u, fmt.Errorf("read upload: %w", err)
	}
	if err != nil || expires < f.ledger.Now().UnixNano() {
		return u, fault.New(wire.CodeUploadUnknown, "Invalid or expired upload_id")
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

// hasNotHappened tells that a write was refused. After another failure it may be
// in the database nevertheless: what it refers to is left to the sweep, which
// looks there.
func hasNotHappened(err error) bool {
	var refused *fault.Error
	return errors.As(err, &refused) || errors.Is(err, store.ErrFull)
}

// discard removes a blob nobody owns, also when the caller has left.
func (f *Files) discard(ctx context.Context, id string) {
	_ = f.blobs.Delete(context.WithoutCancel(ctx), id)
}

// put stores ciphertext of so many bytes, 0 when that is not known, unless it would
// use what is held back of the disk.
func (f *Files) put(ctx context.Context, r io.Reader, size int64) (blob.Info, error) {
	arriving, err := f.options.Space.Begin(size)
	if err != nil {
		return blob.Info{}, err
	}
	defer arriving.End()
	info, err := f.blobs.Put(ctx, arriving.Reader(r), f.maxBytes+format.Overhead)
	faultpoint.Hit("blob.stored")
	switch {
	case errors.Is(err, blob.ErrTooLarge):
		return info, f.tooLarge()
	case err != nil:
		return info, err
	case info.Size < format.Overhead:
		f.discard(ctx, info.ID)
		return info, fault.New(wire.CodeValidation, "encrypted data of %d bytes: at least %d are needed (IV and tag)", info.Size, format.Overhead)
	}
	return info, nil
}

// Finalize records an upload: the bytes from data, or the raw transfer when data
// is nil. Repeated with the same upload id it gives the first answer again.
func (f *Files) Finalize(ctx context.Context, account string, req wire.FinalizeUploadRequest, data io.Reader) (out wire.FinalizeUploadResult, err error) {
	var u upload
	if err := f.store.Look(ctx, func(tx *store.Tx) (err error) {
		if u, err = f.getUpload(ctx, tx, account, req.UploadID); err == nil && len(u.result) > 0 {
			out, err = u.answered(ctx, tx)
		}
		return err
	}); err != nil || len(u.result) > 0 {
		return out, err
	}
	req.FileHash = strings.ToLower(req.FileHash)
	if raw, err := hex.DecodeString(req.FileHash); err != nil || len(raw) != sha256.Size {
		return out, fault.New(wire.CodeValidation, "file_hash must be 64-char hex (SHA-256)")
	}
	meta, err := format.ParseMetadata(req.Format)
	if err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n") // the next line is the decoder's, with names of this program
		return out, fault.New(wire.CodeValidation, "format is not understood: %s", reason)
	}
	if err := checkName(meta.Filename); err != nil {
		return out, err
	}
	if len(meta.ContentType) > maxContentType || strings.ContainsRune(meta.ContentType, 0) {
		return out, fault.New(wire.CodeValidation, "content_type must be at most %d bytes without NUL", maxContentType)
	}
	var own *blob.Info // only ours until the record commits
	if data != nil {
		stored, err := f.put(ctx, data, 0) // what came is on the disk already, or small
		if err != nil {
			return out, err
		}
		own = &stored
	}
	kept := false
	err = f.store.Write(ctx, func(tx *store.Tx) error {
		out, kept, err = f.record(ctx, tx, account, req, meta, own)
		return err
	})
	if own != nil && (hasNotHappened(err) || err == nil && !kept) {
		f.discard(ctx, own.ID) // the sweep repeats it
	}
	return out, err
}

// record is the transaction of a finalize. The blob is own, or that of the raw
// transfer. kept tells whether the file now owns it: false when another call was
// faster.
func (f *Files) record(ctx context.Context, tx *store.Tx, account string, req wire.FinalizeUploadRequest, meta format.Metadata, own *blob.Info) (out wire.FinalizeUploadResult, kept bool, err error) {
	u, err := f.getUpload(ctx, tx, account, req.UploadID)
	if err != nil {
		return out, false, err
	}
	if len(u.result) > 0 {
		out, err = u.answered(ctx, tx)
		return out, false, err
	}
	if _, err := groups.RequireWriter(ctx, tx, u.group, account); err != nil {
		return out, false, err
	}
	info := u.blob
	if own != nil {
		info = own
	}
	if info == nil {
		return out, false, fault.New(wire.CodeValidation, "Required: encrypted_data, or a PUT to upload_url before")
	}
	if own != nil { // what was PUT before counts already
		if err := f.mayKeep(ctx, tx, account, u.group, own.Size-u.blobSize()); err != nil {
			return out, false, err
		}
	}
	if u.filename == "" {
		u.filename = meta.Filename
	}
	size := plainSize(meta, *info)
	r, err := f.ledger.Charge(ctx, tx, ledger.ActionUpload, uploadRecord(u, req.FileHash, size, meta.ContentType))
	if err != nil {
		return out, false, err
	}
	if err := insertFile(ctx, tx, u, backendFastFS, req, meta, *info, size, r); err != nil {
		return out, false, err
	}
	receipt, err := f.log.Receipt(ctx, tx, r)
	if err != nil {
		return out, false, err
	}
	out = u.answer(&r.Record, receipt)
	result, err := json.Marshal(wire.FinalizeUploadResult{Seq: out.Seq, Receipt: out.Receipt})
	if err != nil {
		return out, false, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE uploads SET result = ?, key_id = NULL, blob_id = NULL, expires_ns = ? WHERE id = ?",
		string(result), f.ledger.Now().Add(UploadLife).UnixNano(), u.id)
	return out, true, err
}

// answer is what the finalize of u is answered.
func (u upload) answer(r *chain.Record, receipt *wire.ChainHead) wire.FinalizeUploadResult {
	return wire.FinalizeUploadResult{Location: u.ref, CID: u.ref, TransID: r.Tx, FileHash: r.FileHash, Seq: r.Seq,
		Time: strconv.FormatInt(r.TimeNS, 10), Fee: r.Fee, Record: recordRow(r), Receipt: receipt}
}

// answered is the answer that u got when it was finished. The table of uploads keeps
// of it what the ledger lacks: a row of more than about 1000 bytes takes a page of its own
// in SQLite, which every search that meets the row reads.
func (u upload) answered(ctx context.Context, tx *store.Tx) (out wire.FinalizeUploadResult, err error) {
	if err := json.Unmarshal(u.result, &out); err != nil || out.Location != "" { // kept as a whole by an earlier version
		return out, err
	}
	r, err := ledger.At(ctx, tx, out.Seq)
	return u.answer(&r.Record, out.Receipt), err
}

// plainSize is the size of a file's plaintext in bytes, nil when it is not known.
func plainSize(meta format.Metadata, info blob.Info) *int64 {
	switch {
	case meta.OriginalSize != format.SizeUnknown:
		return &meta.OriginalSize
	case meta.Compression == "" && info.Size >= format.Overhead:
		plain := info.Size - format.Overhead
		return &plain
	default:
		return nil
	}
}

// uploadRecord is the record of an upload, with all that a listing tells of it.
func uploadRecord(u upload, fileHash string, size *int64, contentType string) chain.Record {
	return chain.Record{Kind: chain.KindRecord, Account: u.account, Group: u.group, Ref: u.ref, FileHash: fileHash, Detail: u.filename,
		Tags: ledger.WithTags(nil, contentTags(size, contentType)...)}
}

// contentTags are those of every record about a file; one without a value is left
// out of it.
func contentTags(size *int64, contentType string) []chain.Tag {
	tags := []chain.Tag{{Name: chain.TagType, Value: contentType}}
	if size != nil {
		tags = append(tags, chain.Tag{Name: chain.TagSize, Value: strconv.FormatInt(*size, 10)})
	}
	return tags
}

func insertFile(ctx context.Context, tx *store.Tx, u upload, backend string, req wire.FinalizeUploadRequest, meta format.Metadata, info blob.Info,
	size *int64, r chain.Row) error {
	raw := string(req.Format)
	if meta.Version == 0 && strings.TrimSpace(raw) == "" {
		raw = "null"
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO files (ref, group_id, seq, changed_seq, tx_id, uploader, file_hash, time_ns, filename, original_size,
		content_type, format, blob_id, blob_size, blob_sum, key_version, key_id, backend) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		u.ref, u.group, r.Seq, r.Seq, r.Tx, u.account, req.FileHash, r.TimeNS, u.filename, size, meta.ContentType, raw,
		info.ID, info.Size, info.Sum[:], u.keyVersion, u.keyID, backend)
	if err != nil {
		return fmt.Errorf("insert file: %w", err)
	}
	return nil
}

// Stored is a file's ciphertext, and what opens it.
type Stored struct {
	Key      *format.Key
	Format   json.RawMessage
	BlobID   string
	BlobSize int64
	Inline   []byte // the whole blob when it was asked for and small enough
	Fee      wire.Amount
}

// Retrieve hands out the key of a file to a member and charges the claim. The
// blob is read before the charge when it is to be answered inline, and checked
// against its checksum: nobody pays for bytes that are known to be damaged. Of a
// larger blob only the size is checked; the reader's tag and hash do the rest.
func (f *Files) Retrieve(ctx context.Context, account string, req wire.PrepareRetrieveRequest, inlineUpTo int64) (Stored, error) {
	return f.retrieve(ctx, account, req, func(s *Stored, want blob.Info) (err error) {
		s.Inline, err = f.readBlob(ctx, want, inlineUpTo)
		return err
	})
}

// RetrieveOpened is [Files.Retrieve] with the content to be read, from its start: it
// was read and checked before the charge. The caller closes it.
func (f *Files) RetrieveOpened(ctx context.Context, account string, req wire.PrepareRetrieveRequest) (s Stored, content io.ReadSeekCloser, err error) {
	s, err = f.retrieve(ctx, account, req, func(_ *Stored, want blob.Info) (err error) {
		if content, err = f.openBlob(ctx, want); err != nil {
			return err
		}
		return checkSum(content, want)
	})
	if err == nil {
		_, err = content.Seek(0, io.SeekStart)
	}
	if err != nil && content != nil {
		err = errors.Join(err, content.Close())
	}
	return s, content, err
}

// retrieve reads a file with read, and then charges for it.
func (f *Files) retrieve(ctx context.Context, account string, req wire.PrepareRetrieveRequest, read func(*Stored, blob.Info) error) (s Stored, err error) {
	if len(req.ClaimID) > maxClaimID || strings.ContainsRune(req.ClaimID, 0) {
		return s, fault.New(wire.CodeValidation, "claim_id must be at most %d bytes without NUL", maxClaimID)
	}
	row, err := f.find(ctx, account, req)
	if err != nil {
		return s, err
	}
	if row, err = f.present(ctx, account, req, row); err != nil {
		return s, err
	}
	s = Stored{BlobID: row.blob.ID, BlobSize: row.blob.Size, Format: json.RawMessage(row.format)}
	if err := read(&s, row.blob); err != nil {
		return s, f.unlessDeleted(ctx, account, req, err)
	}
	err = f.store.Write(ctx, func(tx *store.Tx) error {
		row, err := getFile(ctx, tx, account, req)
		if err != nil {
			return err
		}
		if s.Key, _, err = f.vault.Unwrap(ctx, tx, vault.Binding{Group: req.GroupID, Ref: req.IPFSHash, Version: row.keyVersion}, row.wrapped); err != nil {
			return err
		}
		s.Fee, err = f.claim(ctx, tx, account, req)
		return err
	})
	return s, err
}

// claim charges a retrieval once per claim id.
func (f *Files) claim(ctx context.Context, tx *store.Tx, account string, req wire.PrepareRetrieveRequest) (wire.Amount, error) {
	if req.ClaimID != "" {
		var at int64
		err := tx.QueryRowContext(ctx, "SELECT time_ns FROM claims WHERE account = ? AND claim_id = ? AND ref = ?", account, req.ClaimID, req.IPFSHash).Scan(&at)
		if err == nil && f.ledger.Now().Sub(time.Unix(0, at)) < claimLife {
			return wire.Amount{}, nil
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return wire.Amount{}, fmt.Errorf("read claim: %w", err)
		}
	}
	fee := f.ledger.Fee(ledger.ActionRetrieve)
	_, err := f.ledger.Charge(ctx, tx, ledger.ActionRetrieve, chain.Record{Kind: chain.KindClaim, Account: account, Group: req.GroupID, Ref: req.IPFSHash})
	if err != nil || req.ClaimID == "" {
		return fee, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO claims (account, claim_id, ref, time_ns) VALUES (?, ?, ?, ?)
		ON CONFLICT (account, claim_id, ref) DO UPDATE SET time_ns = excluded.time_ns`, account, req.ClaimID, req.IPFSHash, f.ledger.Now().UnixNano())
	return fee, err
}

// file is what Retrieve needs of a row.
type file struct {
	blob       blob.Info
	format     string
	keyVersion int64
	wrapped    []byte
}

func (f *Files) find(ctx context.Context, account string, req wire.PrepareRetrieveRequest) (row file, err error) {
	err = f.store.Look(ctx, func(tx *store.Tx) error {
		row, err = getFile(ctx, tx, account, req)
		return err
	})
	return row, err
}

// Look returns how many bytes of ciphertext a member would retrieve, asking the
// gateway for them if they are not kept here, and whether the content is compressed.
func (f *Files) Look(ctx context.Context, account string, req wire.PrepareRetrieveRequest) (size int64, compressed bool, err error) {
	row, err := f.find(ctx, account, req)
	if err == nil {
		row, err = f.present(ctx, account, req, row)
	}
	if err != nil {
		return 0, false, err
	}
	meta, err := format.ParseMetadata([]byte(row.format))
	return row.blob.Size, err == nil && meta.Compression != "", nil // a format that is not understood is the reader's matter
}

// unlessDeleted returns err, which came of reading a blob, or that the file was
// deleted meanwhile.
func (f *Files) unlessDeleted(ctx context.Context, account string, req wire.PrepareRetrieveRequest, err error) error {
	if _, now := f.find(ctx, account, req); now != nil {
		return now
	}
	return err
}

func getFile(ctx context.Context, tx *store.Tx, account string, req wire.PrepareRetrieveRequest) (row file, err error) {
	if _, err := groups.RequireMember(ctx, tx, req.GroupID, account); err != nil {
		return row, err
	}
	var sum []byte
	var deleted sql.NullInt64
	err = tx.QueryRowContext(ctx, `SELECT blob_id, blob_size, blob_sum, format, key_version, wrapped_key, deleted_ns
		FROM files LEFT JOIN file_keys ON file_keys.id = files.key_id WHERE ref = ? AND group_id = ?`,
		req.IPFSHash, req.GroupID).Scan(&row.blob.ID, &row.blob.Size, &sum, &row.format, &row.keyVersion, &row.wrapped, &deleted)
	if errors.Is(err, sql.ErrNoRows) {
		return row, fault.New(wire.CodeFileNotFound, "file not found: No key for this file in group %q", req.GroupID)
	}
	if err != nil {
		return row, fmt.Errorf("read file: %w", err)
	}
	if deleted.Valid || row.wrapped == nil {
		return row, fault.New(wire.CodeFileDeleted, "File deleted: its key was destroyed")
	}
	copy(row.blob.Sum[:], sum)
	return row, nil
}

// readBlob returns the whole blob if it has at most inlineUpTo bytes, after
// checking it; of a larger one it checks the size.
func (f *Files) readBlob(ctx context.Context, want blob.Info, inlineUpTo int64) ([]byte, error) {
	if want.Size > inlineUpTo {
		return nil, f.checkSize(ctx, want)
	}
	data, err := f.blobs.Read(ctx, want.ID, want.Size)
	switch {
	case errors.Is(err, blob.ErrSize):
		return nil, damaged("cut or extended", err)
	case err != nil:
		return nil, damaged("missing or unreadable", err)
	case sha256.Sum256(data) != want.Sum:
		return nil, damaged("changed", nil)
	}
	return data, nil
}

func (f *Files) checkSize(ctx context.Context, want blob.Info) error {
	r, err := f.openBlob(ctx, want)
	if err == nil {
		err = r.Close()
	}
	return err
}

// openBlob opens a blob that must have its size.
func (f *Files) openBlob(ctx context.Context, want blob.Info) (io.ReadSeekCloser, error) {
	r, size, err := f.blobs.Open(ctx, want.ID)
	if err != nil {
		return nil, damaged("missing or unreadable", err)
	}
	if size != want.Size {
		return nil, errors.Join(damaged("cut or extended", nil), r.Close())
	}
	return r, nil
}

// damaged is the refusal to hand out what cannot be right; an outage of the
// store stays one.
func damaged(how string, cause error) error {
	if errors.Is(cause, blob.ErrUnavailable) || errors.Is(cause, context.Canceled) {
		return cause
	}
	return &fault.Error{Code: wire.CodeBlobCorrupt, Text: "stored ciphertext is corrupt (" + how + "): nothing was charged", Err: cause}
}

// OpenBlob opens ciphertext for a raw transfer to a member who has a ticket.
func (f *Files) OpenBlob(ctx context.Context, account, group, ref string) (io.ReadSeekCloser, blob.Info, error) {
	req := wire.PrepareRetrieveRequest{GroupID: group, IPFSHash: ref}
	row, err := f.find(ctx, account, req)
	if err == nil {
		row, err = f.present(ctx, account, req, row)
	}
	if err != nil {
		return nil, blob.Info{}, err
	}
	r, err := f.openBlob(ctx, row.blob)
	if err != nil {
		return nil, blob.Info{}, f.unlessDeleted(ctx, account, req, err)
	}
	return r, row.blob, nil
}

// BlobID returns where the ciphertext of a reference is kept, for the operator.
func (f *Files) BlobID(ctx context.Context, ref string) (id string, err error) {
	err = f.store.Look(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT blob_id FROM files WHERE ref = ?", ref).Scan(&id)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return "", fault.New(wire.CodeFileNotFound, "file not found: no such reference")
	}
	return id, err
}
