package files

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// upload is what becomes a file: what its head says, and where its bytes are. Every file that
// is not imported is made of one, by [Files.record].
type upload struct {
	wire.SealedHead // of a prepared upload: group, hash, salt, format and Versioned
	account         string
	meta            format.Metadata // of Format
	name            string          // under which it is recorded

	at      arrived // the ciphertext, or the manifest of blocks
	counted int64   // bytes of the account that it takes the place of
	blocks  *plan   // of format version 2, else nil

	ref        string        // "" = record makes it
	keyVersion int64         // of the group, when the key was wrapped
	keyID      sql.NullInt64 // where the key is, once it is kept
	key        keys.Incoming // none = it is kept already
	isSealed   bool          // the service does not see the key

	content string   // see [chain.TagContent]
	useless []string // blobs that nobody owns once it is recorded
}

// inBlocks reports whether the file is of format version 2.
func (u *upload) inBlocks() bool { return u.meta.Version == format.VersionBlocks }

// more is how many bytes an account and a group keep more once the upload is recorded. Parts count already.
func (u *upload) more() int64 {
	size := u.at.Size
	if !u.key.IsNone() && !u.inBlocks() {
		size = u.BlobSize
	}
	return size - u.counted + formatBytes(u.Format)
}

// mayRecord refuses an upload of somebody who may not write, has no money or no room, or knows an older version of
// the name. It changes nothing: whatever may be refused is refused before the first change.
func (f *Files) mayRecord(ctx context.Context, tx *store.Tx, u *upload) (g groups.Group, err error) {
	if g, err = groups.RequireWriter(ctx, tx, u.GroupID, u.account); err != nil {
		return g, err
	}
	if err := g.RequireSealed(u.isSealed); err != nil {
		return g, err
	}
	if err := f.ledger.Late(); err != nil {
		return g, err
	}
	if u.inBlocks() && g.Format < format.VersionBlocks {
		return g, onlyWhole(g.ID)
	}
	if err := requireHead(ctx, tx, u.GroupID, u.name, u.Base); err != nil {
		return g, err
	}
	if err := requireUpon(ctx, tx, u.GroupID, u.Upon); err != nil {
		return g, err
	}
	if u.blocks != nil {
		if err := f.mayUse(ctx, tx, u, g); err != nil {
			return g, err
		}
	}
	fee := f.ledger.Fee(ledger.ActionUpload)
	balance, err := ledger.Balance(ctx, tx, u.account)
	if err == nil && balance.Cmp(fee) < 0 {
		err = ledger.Insufficient(ledger.ActionUpload, fee, balance)
	}
	if more := u.more(); err == nil && more > 0 {
		err = f.MayKeep(ctx, tx, u.account, g.ID, more)
	}
	return g, err
}

// record makes a file of an upload that mayRecord allows, in the same transaction: its key, its content, its record
// with the price, and its row.
func (f *Files) record(ctx context.Context, tx *store.Tx, u *upload, g groups.Group) (r chain.Row, err error) {
	if u.ref == "" {
		u.ref, u.keyVersion = f.newRef(g.ID), g.KeyVersion
	}
	if u.blocks != nil {
		if u.content = u.blocks.content; u.blocks.inRow {
			u.at.ID = u.ref // no blob is called so
		}
		if err := dropUnused(ctx, tx, u); err != nil {
			return r, err
		}
	}
	if u.key.IsNone() {
		_, err = f.settle(ctx, tx, &u.at)
	} else {
		u.keyID.Valid = true
		u.keyID.Int64, err = f.storeWithKey(ctx, tx, &u.at, vaultwire.Binding{Group: g.ID, Ref: u.ref,
			Version: u.keyVersion, Sealed: g.Keys == wire.KeysSealed}, u.key)
	}
	if err != nil {
		return r, err
	}
	opening := u.opening()
	if r, err = f.ledger.Charge(ctx, tx, ledger.ActionUpload, u.ledgerRecord(&opening)); err != nil {
		return r, err
	}
	if err := f.insertFile(ctx, tx, u, backendFastFS, &opening, r); err != nil {
		return r, err
	}
	if u.blocks != nil {
		err = insertContent(ctx, tx, u, r.Seq)
	}
	return r, err
}

// storeWithKey keeps content and key of a file, and returns the place of the key.
func (f *Files) storeWithKey(ctx context.Context, tx *store.Tx, a *arrived, b vaultwire.Binding,
	key keys.Incoming) (id int64, err error) {
	if a.small == nil {
		return f.storeKey(ctx, tx, b, key)
	}
	root, err := keys.NewestRoot(ctx, tx)
	if err != nil {
		return 0, err
	}
	if a.key, err = f.wrapKey(ctx, tx, root, b, key); err != nil {
		return 0, err
	}
	row, err := f.settle(ctx, tx, a)
	return -row, err
}

// opening is what the record commits to. Salt and hash were checked.
func (u *upload) opening() chain.Opening {
	size := u.meta.OriginalSize
	if size == format.SizeUnknown && u.meta.Compression == "" && u.at.Size >= format.Overhead {
		size = u.at.Size - format.Overhead
	}
	return openingOf(u.FileHash, u.Salt, size)
}

// ledgerRecord is the record of the upload, with every fact that a listing shows.
func (u *upload) ledgerRecord(opening *chain.Opening) chain.Record {
	versioned := chain.Tag{Name: chain.TagVersioned}
	if u.Versioned {
		versioned.Value = chain.Versioned
	}
	return chain.Record{Kind: chain.KindRecord, Account: u.account, Group: u.GroupID, Ref: u.ref,
		FileHash: opening.Commitment(), Detail: u.name,
		Tags: ledger.WithTags(contentTags(u.meta.ContentType, u.meta.Attributes, u.content), versioned,
			chain.Tag{Name: chain.TagUpon, Value: u.Upon})}
}

// contentTags are those of every record about a file; one without a value is left
// out of it.
func contentTags(contentType, attributes, content string) []chain.Tag {
	return ledger.WithTags(nil, chain.Tag{Name: chain.TagType, Value: contentType},
		chain.Tag{Name: chain.TagAttributes, Value: attributes},
		chain.Tag{Name: chain.TagContent, Value: content})
}

// insertFile adds the file of the record r, and what the record commits to.
func (f *Files) insertFile(ctx context.Context, tx *store.Tx, u *upload, backend string, opening *chain.Opening,
	r chain.Row) error {
	raw := string(u.Format)
	if u.meta.Version == 0 && strings.TrimSpace(raw) == "" {
		raw = "null"
	}
	err := tx.Do(ctx, "insert file", `INSERT INTO files (ref, group_id, seq, changed_seq, named_seq, tx_id, uploader,
		file_hash, time_ns, filename, content_type, format, blob_id, blob_size, blob_sum, key_version,
		key_id, backend, attributes, versioned, content)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		u.ref, u.GroupID, r.Seq, r.Seq, r.Seq, r.Tx, u.account, r.FileHash, r.TimeNS, u.name, u.meta.ContentType, raw,
		u.at.ID, u.at.Size, u.at.Sum[:], u.keyVersion, u.keyID, backend, u.meta.Attributes, u.Versioned, u.content)
	if err != nil {
		return err
	}
	return f.keepOpening(ctx, tx, u.GroupID, r.Seq, opening)
}

// answerOf is the answer to an upload that is recorded.
func answerOf(r *chain.Record, hash string, receipt *wire.ChainHead) wire.FinalizeUploadResult {
	return wire.FinalizeUploadResult{Location: r.Ref, CID: r.Ref, TransID: r.Tx, FileHash: hash, Seq: r.Seq,
		Time: strconv.FormatInt(r.TimeNS, 10), Fee: r.Fee, Record: recordRow(r), Receipt: receipt}
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

func (f *Files) tooLarge() error {
	return fault.New(wire.CodeTooLarge, "file too large: at most %d bytes are accepted", f.config.MaxFileBytes)
}

// tooLargeWhole refuses a file of format version 1.
func (f *Files) tooLargeWhole() error {
	if f.config.MaxWholeBytes == f.config.MaxFileBytes {
		return f.tooLarge()
	}
	return fault.New(wire.CodeTooLarge, "file too large: at most %d bytes are accepted in one piece, and %d in "+
		"blocks, which newer programs send and group format 2 allows",
		f.config.MaxWholeBytes, f.config.MaxFileBytes)
}

func tooShort(size int64) error {
	return fault.New(wire.CodeValidation, "encrypted data of %d bytes: at least %d are needed (IV and tag)", size,
		format.Overhead)
}

// isRolledBack reports that the transaction that failed with err surely did not commit.
// After any other failure it may have committed, and the sweep removes leftovers by the
// state of the database.
func isRolledBack(err error) bool {
	return isRefusal(err) || errors.Is(err, store.ErrFull)
}

// isRefusal tells a refusal from a failure.
func isRefusal(err error) bool {
	var refused *fault.Error
	return errors.As(err, &refused)
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
