package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/legacy"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Legacy files are those from before this service: their reference is a content
// id, their format is version 0 without metadata, and their key is one of the
// group, which is remembered per file. A row whose blob_id is its own reference
// has its bytes elsewhere: the gateway is asked for them once.

// fetchTimeout is how long a gateway may take for a file: clients wait 60 s.
const fetchTimeout = 50 * time.Second

// LegacyFile describes a file that the operator imports.
type LegacyFile struct {
	Group   string
	Name    string      // recorded name; may be empty
	Account string      // uploader; "" = the group's owner
	Key     *format.Key // that sealed it; nil = the group's own key
}

// Imported describes an imported file.
type Imported struct {
	CID      string `json:"cid"`
	TransID  string `json:"trans_id"`
	FileHash string `json:"file_hash"`
	Filename string `json:"filename,omitempty"`
	Known    bool   `json:"already_there,omitempty"`
}

// ImportPlain seals a file with the group's key of its current version and
// records it under its content id, version 0 or 1. The same content under the
// same name is recorded once. Free of charge.
func (f *Files) ImportPlain(ctx context.Context, l LegacyFile, plain []byte, cidVersion int) (out Imported, err error) {
	if int64(len(plain)) > f.config.MaxWholeBytes {
		return out, f.tooLargeWhole()
	}
	sum := sha256.Sum256(plain)
	row := legacyRow{LegacyFile: l, hash: hex.EncodeToString(sum[:])}
	var known bool
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(ctx, tx, l.Group)
		if err != nil {
			return err
		}
		row.version = g.KeyVersion
		out, known, err = f.importedBefore(ctx, tx, row)
		return err
	})
	if err != nil || known {
		return out, err
	}
	if row.key, err = f.keys.LegacyKey(ctx, l.Group, row.version); err != nil {
		return out, err
	}
	sealed, err := format.SealBlob(row.key, plain)
	if err != nil {
		return out, err
	}
	row.ref = legacy.Sum(sealed, legacy.Default(cidVersion)).String()
	return f.importBytes(ctx, row, bytes.NewReader(sealed))
}

// ImportSealed records a file that was sealed elsewhere; data is the blob or its
// base64, as it was put away. want is the content id it is known by, "" when it
// is not: then the id of a version is computed.
func (f *Files) ImportSealed(ctx context.Context, l LegacyFile, data []byte, want string,
	cidVersion int) (out Imported, err error) {
	row := legacyRow{LegacyFile: l, ref: want}
	if want == "" {
		row.ref = legacy.Sum(data, legacy.Default(cidVersion)).String()
	}
	id, err := legacy.Parse(row.ref)
	if err != nil {
		return out, fault.New(wire.CodeValidation, "%v", err)
	}
	v := legacy.NewVerifier(id)
	if _, _ = v.Write(data); !v.OK() {
		return out, fault.New(wire.CodeValidation, "the bytes are not those that %s names", row.ref)
	}
	sealed, err := io.ReadAll(legacy.Decoded(bytes.NewReader(data)))
	if err != nil || len(sealed) < format.Overhead {
		return out, fault.New(wire.CodeValidation,
			"no ciphertext: want IV, ciphertext and tag, or standard base64 of them")
	}
	plain, err := f.openLegacy(ctx, &row, sealed)
	if err != nil {
		return out, err
	}
	sum := sha256.Sum256(plain)
	clear(plain)
	row.hash = hex.EncodeToString(sum[:])
	return f.importBytes(ctx, row, bytes.NewReader(sealed))
}

// openLegacy finds the key of a sealed file: the one given, or the newest of the
// group's that opens it.
func (f *Files) openLegacy(ctx context.Context, row *legacyRow, sealed []byte) (plain []byte, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(ctx, tx, row.Group)
		row.version = g.KeyVersion
		return err
	})
	if err != nil {
		return nil, err
	}
	wrong := fault.New(wire.CodeValidation, "the key does not open the file: give the key it was sealed with in "+
		"--key-file")
	if row.Key != nil {
		row.key = row.Key
		if plain, err = keys.OpenLegacy(row.key, sealed); errors.Is(err, keys.ErrWrongKey) {
			err = wrong
		}
		return plain, err
	}
	for version := row.version; version > 0; version-- {
		if row.key, err = f.keys.LegacyKey(ctx, row.Group, version); err != nil {
			return nil, err
		}
		if plain, err = keys.OpenLegacy(row.key, sealed); err == nil {
			row.version = version
			return plain, nil
		}
	}
	return nil, wrong
}

// ImportReference records a file whose bytes stay elsewhere until its first retrieval.
func (f *Files) ImportReference(ctx context.Context, l LegacyFile, ref, fileHash string) (out Imported, err error) {
	if _, err := legacy.Parse(ref); err != nil {
		return out, fault.New(wire.CodeValidation, "%v", err)
	}
	row := legacyRow{LegacyFile: l, ref: ref, hash: strings.ToLower(fileHash), info: blob.Info{ID: ref}}
	if raw, err := hex.DecodeString(row.hash); err != nil || len(raw) != sha256.Size {
		return out, fault.New(wire.CodeValidation, "file_hash must be 64-char hex (SHA-256)")
	}
	err = f.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		g, err := groups.Get(ctx, tx, l.Group)
		if err != nil {
			return err
		}
		row.version = g.KeyVersion
		if l.Key != nil {
			row.key = l.Key
		} else if row.key, err = f.keys.LegacyKey(ctx, g.ID, g.KeyVersion); err != nil {
			return err
		}
		out, err = f.recordLegacy(ctx, tx, row)
		return err
	})
	return out, err
}

// legacyRow is a legacy file about to be recorded.
type legacyRow struct {
	LegacyFile
	ref, hash string
	key       *format.Key
	version   int64 // of the group's key
	info      blob.Info
}

// importBytes stores the blob of a row and records it.
func (f *Files) importBytes(ctx context.Context, row legacyRow, sealed io.Reader) (out Imported, err error) {
	if row.info, err = f.put(ctx, sealed, 0); err != nil {
		return out, err
	}
	err = f.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		out, err = f.recordLegacy(ctx, tx, row)
		return err
	})
	if isRolledBack(err) || err == nil && out.Known {
		f.discard(ctx, row.info.ID) // the sweep repeats it
	}
	return out, err
}

// recordLegacy is the transaction of an import. It leaves a reference that is recorded
// already as it is, unless the bytes were missing.
func (f *Files) recordLegacy(ctx context.Context, tx *store.Tx, row legacyRow) (out Imported, err error) {
	g, err := groups.Get(ctx, tx, row.Group)
	if err != nil {
		return out, err
	}
	if row.Account == "" {
		row.Account = g.Owner
	}
	if _, err := ledger.Balance(ctx, tx, row.Account); err != nil { // the account exists
		return out, err
	}
	if out, known, err := f.recordedAs(ctx, tx, row); err != nil || known {
		return out, err
	}
	u := &upload{SealedHead: wire.SealedHead{GroupID: g.ID, FileHash: row.hash, Format: json.RawMessage("null")},
		account: row.Account, name: row.Name,
		at: arrived{Info: row.info}, ref: row.ref, keyVersion: row.version}
	keyID, err := f.storeKey(ctx, tx, vaultwire.Binding{Group: g.ID, Ref: row.ref, Version: row.version},
		keys.InClear(row.key))
	if err != nil {
		return out, err
	}
	u.keyID.Int64, u.keyID.Valid = keyID, true
	if u.meta, err = format.ParseMetadata(nil); err != nil {
		return out, err
	}
	opening := u.opening()
	r, err := f.ledger.Append(ctx, tx, u.ledgerRecord(&opening))
	if err != nil {
		return out, err
	}
	out = Imported{CID: row.ref, TransID: r.Tx, FileHash: row.hash, Filename: row.Name}
	return out, f.insertFile(ctx, tx, u, backendLegacy, &opening, r)
}

// recordedAs finds a reference that is recorded already, and keeps its bytes if they
// were missing.
func (f *Files) recordedAs(ctx context.Context, tx *store.Tx, row legacyRow) (out Imported, known bool, err error) {
	var group, blobID string
	var deleted sql.NullInt64
	out = Imported{CID: row.ref, Known: true}
	var seq int64
	err = tx.QueryRowContext(ctx, "SELECT group_id, tx_id, seq, filename, blob_id, deleted_ns FROM files WHERE ref = ?",
		row.ref).
		Scan(&group, &out.TransID, &seq, &out.Filename, &blobID, &deleted)
	if errors.Is(err, sql.ErrNoRows) {
		return Imported{}, false, nil
	}
	if err != nil {
		return out, false, fmt.Errorf("read file: %w", err)
	}
	o, _, err := f.opened(ctx, tx, group, seq)
	if err != nil {
		return out, false, err
	}
	out.FileHash = hashText(o.Hash)
	switch {
	case deleted.Valid && group == row.Group:
		return out, true, fault.New(wire.CodeFileDeleted, "%s was deleted here: a reference is not used twice", row.ref)
	case group != row.Group || out.FileHash != row.hash:
		return out, true, fault.New(wire.CodeConflict, "%s is recorded already, in group %q with file hash %s",
			row.ref, group, out.FileHash)
	}
	if blobID == row.ref && row.info.ID != row.ref {
		out.Known = false // the blob is owned by the row now
		_, err = f.keepBytes(ctx, tx, row.ref, row.info)
	}
	return out, true, err
}

// importedBefore finds content that was imported under the same name.
func (f *Files) importedBefore(ctx context.Context, tx *store.Tx, row legacyRow) (out Imported, known bool, err error) {
	same, err := f.withContent(ctx, tx, row.Group, row.hash, "backend = ? AND "+groups.SelectNamed, backendLegacy,
		row.Name, row.Name)
	if err != nil || len(same) == 0 {
		return Imported{}, false, err
	}
	out = Imported{CID: same[0], FileHash: row.hash, Filename: row.Name, Known: true}
	if err := tx.QueryRowContext(ctx, "SELECT tx_id FROM files WHERE ref = ?", out.CID).Scan(&out.TransID); err != nil {
		return out, false, fmt.Errorf("read file: %w", err)
	}
	return out, true, nil
}

// keepBytes gives a blob to a living legacy row that has no bytes yet.
func (f *Files) keepBytes(ctx context.Context, tx *store.Tx, ref string, info blob.Info) (kept bool, err error) {
	n, err := tx.Count(ctx, "record bytes", `UPDATE files SET blob_id = ?, blob_size = ?, blob_sum = ?
		WHERE ref = ? AND blob_id = ? AND deleted_ns IS NULL`, info.ID, info.Size, info.Sum[:], ref, ref)
	return n == 1, err
}

// fetchOnce asks the gateway for the bytes of a file; calls for one file share the
// answer.
func (f *Files) fetchOnce(ctx context.Context, account string, req wire.PrepareRetrieveRequest) error {
	if f.config.Gateway == nil {
		return fault.New(wire.CodeFileNotFound, "file not found: its bytes are not kept here; the operator can "+
			"import them with svcd import-legacy, "+
			"or name a gateway with svcd serve --gateway")
	}
	_, err, _ := f.fetching.Do(req.IPFSHash, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout) // others may wait for it too
		defer cancel()
		if now, err := f.recorded(ctx, account, req); err == nil && now.blob.ID != req.IPFSHash {
			return nil, nil // another call fetched it since
		}
		return nil, f.fetch(ctx, req.GroupID, req.IPFSHash)
	})
	if err != nil {
		return f.unlessDeleted(ctx, account, req, err)
	}
	return nil
}

// fetch gets the bytes behind a reference in a group from the gateway, checks them and keeps them.
// The gateway is not trusted.
func (f *Files) fetch(ctx context.Context, group, ref string) error {
	info, err := f.download(ctx, ref)
	if err != nil {
		return err
	}
	kept := false
	err = f.store.Write(ctx, ledger.In(group), func(tx *store.Tx) error {
		kept, err = f.keepBytes(ctx, tx, ref, info)
		return err
	})
	if isRolledBack(err) || err == nil && !kept {
		f.discard(ctx, info.ID) // the sweep repeats it
	}
	return err
}

// download gets the bytes behind a reference, and stores them if they are those that it names.
func (f *Files) download(ctx context.Context, ref string) (info blob.Info, err error) {
	id, err := legacy.Parse(ref)
	if err != nil {
		return info, err
	}
	lost := func(err error) error {
		return &fault.Error{Code: wire.CodeUnavailable,
			Text:       "the gateway for old references does not answer: nothing was charged; try again in a moment",
			RetryAfter: 5 * time.Second, Err: err}
	}
	body, err := f.config.Gateway.Open(ctx, id)
	if errors.Is(err, legacy.ErrNotThere) {
		return info, &fault.Error{Code: wire.CodeFileNotFound, Err: err,
			Text: "file not found: the gateway does not have its bytes"}
	}
	if err != nil {
		return info, lost(err)
	}
	defer body.Close()
	v := legacy.NewVerifier(id)
	arriving, err := f.config.Space.Begin(0)
	if err != nil {
		return info, err
	}
	defer arriving.End()
	source := &watched{r: arriving.Reader(body)}
	info, err = f.blobs.Put(ctx, legacy.Decoded(io.TeeReader(source, v)), f.config.MaxWholeBytes+format.Overhead)
	var badText base64.CorruptInputError
	switch {
	case errors.Is(err, blob.ErrTooLarge):
		return info, f.tooLarge()
	case err != nil && (source.err != nil || ctx.Err() != nil):
		return info, lost(err)
	case err != nil && !errors.As(err, &badText) && !errors.Is(err, io.ErrUnexpectedEOF):
		return info, err
	}
	if err != nil || info.Size < format.Overhead || !v.OK() {
		f.discard(ctx, info.ID)
		return info, &fault.Error{Code: wire.CodeBlobCorrupt,
			Text: "the gateway sent other bytes than the reference names: nothing was charged", Err: err}
	}
	return info, nil
}

// watched remembers how reading failed.
type watched struct {
	r   io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}
