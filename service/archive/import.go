package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

// oldestSchema is the oldest schema whose exports are read: each later one only added
// tables, and columns with a default.
const oldestSchema = 1

// maxJSON bounds an entry that is read into memory.
const maxJSON = 64 << 20

// errCut means that a stream ends before its trailer.
var errCut = errors.New("the stream ends early: it is not a complete export")

// Import fills an empty service from a stream, or leaves it empty and returns an error.
// [ErrImported] means that an earlier import of this very stream was complete, even if
// it was killed before it could report that.
func Import(ctx context.Context, r io.Reader, s Service) (Summary, error) {
	i := &importer{Service: s, tar: tar.NewReader(r), digest: sha256.New(), blobs: make(map[string]arrived), used: make(map[string]bool),
		sum: Summary{Rows: make(map[string]int64)}}
	before, err := i.importedBefore(ctx)
	if err == nil && before != "" {
		return i.again(before)
	}
	if err == nil {
		err = i.run(ctx)
	}
	if !errors.Is(err, store.ErrUnavailable) { // or the rows may be there
		i.removeUnused(ctx, err != nil)
	}
	if err != nil {
		return i.sum, fmt.Errorf("import: %w", err)
	}
	return i.sum, nil
}

type importer struct {
	Service
	tar    *tar.Reader
	digest hash.Hash
	blobs  map[string]arrived // by the id they had
	used   map[string]bool    // ids they had
	older  bool               // the export lacks the columns of later schemas
	sum    Summary
}

// arrived is a blob of a stream.
type arrived struct {
	blob.Info
	root []byte // of the leaves of a part; nil = the stream does not say how long its blocks are
}

// entry is one entry of a stream; content is nil for a blob.
type entry struct {
	name    string
	content []byte
}

func (i *importer) run(ctx context.Context) error {
	if err := i.Store.Read(ctx, func(tx *store.Tx) error { return requireEmpty(ctx, tx) }); err != nil {
		return err
	}
	first, err := i.next(ctx)
	if err != nil {
		return err
	}
	var h Header
	if err := json.Unmarshal(first.content, &h); err != nil || first.name != headerName {
		return errors.New("this is no export of svcd")
	}
	if err := i.accept(h); err != nil {
		return err
	}
	e, err := i.next(ctx)
	for err == nil && e.content == nil { // blobs
		e, err = i.next(ctx)
	}
	if err != nil {
		return err
	}
	return i.Store.Load(ctx, func(tx *store.Tx) error { return i.fill(ctx, tx, h, e) })
}

// ErrImported means that the service was filled from the stream before.
var ErrImported = errors.New("this export was completely imported here before: nothing is left to do")

// metaImported holds the digest of the stream that a service was filled from.
const metaImported = "imported"

// importedBefore returns the digest of the stream that the service was filled
// from, "" for none.
func (i *importer) importedBefore(ctx context.Context) (digest string, err error) {
	err = i.Store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = ?", metaImported).Scan(&digest)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return digest, err
}

// again reads a stream without keeping it. The error is [ErrImported] when the stream
// has that digest.
func (i *importer) again(digest string) (Summary, error) {
	for {
		h, err := i.tar.Next()
		if err != nil {
			return i.sum, fmt.Errorf("import: %w", errHoldsAccounts)
		}
		if h.Name == trailerName {
			break
		}
		content := sha256.New()
		if _, err := io.Copy(content, i.tar); err != nil {
			return i.sum, fmt.Errorf("import: %w", errCut)
		}
		addToDigest(i.digest, h.Name, [sha256.Size]byte(content.Sum(nil)))
	}
	var want Summary
	err := json.NewDecoder(io.LimitReader(i.tar, maxJSON)).Decode(&want)
	i.sum.Digest = hex.EncodeToString(i.digest.Sum(nil))
	if err != nil || i.sum.Digest != digest || want.Digest != digest || i.SealKey.check(sealedStream, want) != nil {
		return i.sum, fmt.Errorf("import: %w", errHoldsAccounts)
	}
	return want, ErrImported
}

var errHoldsAccounts = fault.New(wire.CodeConflict, "this service holds accounts already: import into a new --data directory or --db database")

// requireEmpty refuses a service that holds anything.
func requireEmpty(ctx context.Context, tx *store.Tx) error {
	records, err := ledger.Head(ctx, tx)
	if err != nil {
		return err
	}
	var accounts int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM accounts").Scan(&accounts); err != nil {
		return fmt.Errorf("look for rows: %w", err)
	}
	if accounts+records > 0 {
		return errHoldsAccounts
	}
	return nil
}

func (i *importer) accept(h Header) error {
	schema, err := i.Store.SchemaVersion()
	switch {
	case err != nil:
		return err
	case h.Format != formatName:
		return errors.New("this is no export of svcd")
	case h.Version > formatVersion || h.Schema > schema:
		return fmt.Errorf("the export was made by svcd %s, which is newer: install that version", h.Program)
	case h.Schema < oldestSchema:
		return fmt.Errorf("the export was made by svcd %s, whose database is older (schema %d, here %d): upgrade that service, then export again", h.Program, h.Schema, schema)
	case h.Contract != i.Contract:
		return fmt.Errorf("the export is of contract %s, this service has %s: give --contract %s", h.Contract, i.Contract, h.Contract)
	case h.MasterKey != i.MasterKey:
		return errors.New("the export belongs to another master key: copy master.key of the exported service into the new data directory first, mode 0600")
	}
	i.older = h.Schema < schema
	return nil
}

// next reads an entry. Blobs go to the store at once.
func (i *importer) next(ctx context.Context) (entry, error) {
	h, err := i.tar.Next()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return entry{}, errCut
	}
	if err != nil {
		return entry{}, fmt.Errorf("read the stream: %w", err)
	}
	if isSparse(h) {
		return entry{}, fmt.Errorf("entry %.80q does not belong here", h.Name)
	}
	if id, ok := strings.CutPrefix(h.Name, blobPrefix); ok && h.Typeflag == tar.TypeReg {
		return entry{name: h.Name}, i.blob(ctx, h, id)
	}
	if h.Typeflag != tar.TypeReg || h.Size > maxJSON {
		return entry{}, fmt.Errorf("entry %.80q does not belong here", h.Name)
	}
	content, err := io.ReadAll(i.tar)
	if err != nil {
		return entry{}, errCut
	}
	if h.Name != trailerName {
		addToDigest(i.digest, h.Name, sha256.Sum256(content))
	}
	return entry{h.Name, content}, nil
}

// isSparse reports an entry with holes. A few bytes of such an entry may stand for any
// size; exports have none.
func isSparse(h *tar.Header) bool {
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

func (i *importer) blob(ctx context.Context, h *tar.Header, id string) error {
	if _, twice := i.blobs[id]; twice {
		return fmt.Errorf("blob %.80q comes twice", id)
	}
	var content io.Reader = i.tar
	var root *format.RootHash
	if text := h.PAXRecords[sealedRecord]; text != "" {
		sealed, err := strconv.ParseInt(text, 10, 64)
		if err != nil || sealed < format.MinBlockBytes+format.Overhead || sealed > format.MaxBlockBytes+format.Overhead {
			return fmt.Errorf("blob %.80q has blocks of %.20q bytes, which svcd does not write", id, text)
		}
		root = format.NewRootHash(sealed)
		content = io.TeeReader(content, root)
	}
	info, err := i.Blobs.Put(ctx, content, h.Size)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	if err != nil {
		return err
	}
	got := arrived{Info: info}
	if root != nil {
		got.root = root.Sum(nil)
	}
	i.blobs[id] = got
	i.sum.Blobs++
	i.sum.BlobBytes += info.Size
	addToDigest(i.digest, h.Name, info.Sum)
	return nil
}

// fill inserts all rows, the first of which is in e. It accepts them when the trailer
// matches and the ledger is intact.
func (i *importer) fill(ctx context.Context, tx *store.Tx, h Header, e entry) error {
	if err := requireEmpty(ctx, tx); err != nil {
		return err
	}
	// The imported keys replace those that this service made for itself.
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+vault.Table); err != nil {
		return fmt.Errorf("remove keys: %w", err)
	}
	tables, err := i.tables(ctx, tx)
	if err != nil {
		return err
	}
	byName := make(map[string]store.Table)
	for _, t := range tables {
		byName[t.Name] = t
	}
	for ; e.name != trailerName; e, err = i.next(ctx) {
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(e.name, rowsPrefix), "/")
		t, ok := byName[name]
		if !ok || e.content == nil || !strings.HasPrefix(e.name, rowsPrefix) {
			return fmt.Errorf("entry %.80q does not belong here", e.name)
		}
		if err := i.rows(ctx, tx, t, e.content); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return i.compare(ctx, tx, e.content)
}

// rows inserts the rows of one entry.
func (i *importer) rows(ctx context.Context, tx *store.Tx, t store.Table, content []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxJSON)
	for lines.Scan() {
		row, has, err := decodeRow(lines.Bytes(), t, i.older)
		if err != nil {
			return err
		}
		i.sum.Rows[t.Name]++
		if err := i.moveBlob(row); err != nil {
			return err
		}
		values := make([]any, len(has.Columns))
		for k, c := range has.Columns {
			values[k] = row[c.Name]
		}
		if _, err := tx.ExecContext(ctx, has.Insert(), values...); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
	}
	return lines.Err()
}

// decodeRow reads a row for the columns of a table, all of which it must have; an older one
// lacks those that were added later. has are those that it has.
func decodeRow(line []byte, t store.Table, older bool) (row map[string]any, has store.Table, err error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	var given map[string]any
	if err := decoder.Decode(&given); err != nil {
		return nil, has, errors.New("a row is not JSON")
	}
	row, has.Name = make(map[string]any, len(given)), t.Name
	for _, c := range t.Columns {
		value, ok := given[c.Name]
		if !ok && older {
			continue
		}
		if !ok {
			return nil, has, fmt.Errorf("a row has no %s", c.Name)
		}
		if row[c.Name], err = convert(value, c.Kind); err != nil {
			return nil, has, fmt.Errorf("column %s: %w", c.Name, err)
		}
		has.Columns = append(has.Columns, c)
	}
	if len(given) != len(has.Columns) {
		return nil, has, fmt.Errorf("a row has %d columns, the table %d", len(given), len(has.Columns))
	}
	return row, has, nil
}

// convert turns a JSON value into a value of the column.
func convert(v any, kind store.Kind) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch kind {
	case store.KindText:
		if text, ok := v.(string); ok {
			return text, nil
		}
	case store.KindBytes:
		if text, ok := v.(string); ok {
			return base64.StdEncoding.DecodeString(text)
		}
	case store.KindInt, store.KindBool:
		number, ok := v.(json.Number)
		if !ok {
			break
		}
		n, err := number.Int64()
		if kind == store.KindBool {
			return n != 0, err
		}
		return n, err
	}
	return nil, errors.New("has the wrong type")
}

// moveBlob gives a row the new id of its blob, after comparing the blob with the row.
func (i *importer) moveBlob(row map[string]any) error {
	id, ok := row["blob_id"].(string)
	if !ok || row["ref"] == id || strings.HasPrefix(id, files.SmallPrefix) { // none, or elsewhere: a legacy reference without bytes, or a row
		return nil
	}
	info, ok := i.blobs[id]
	if !ok {
		if row["deleted_ns"] != nil {
			return nil // gone with its file
		}
		return fmt.Errorf("blob %s is not in the stream", id)
	}
	if row["blob_size"] != info.Size || !info.isProvedBy(row) {
		return fmt.Errorf("blob %s was changed on the way", id)
	}
	row["blob_id"] = info.ID
	i.used[id] = true
	return nil
}

// isProvedBy compares a blob with its row: that of a part by its leaves. An export from before leaves
// proved parts has a SHA-256 of them, too.
func (a *arrived) isProvedBy(row map[string]any) bool {
	if leaves, ok := row["leaves"].([]byte); ok && a.root != nil {
		root := rootOf(leaves)
		return bytes.Equal(a.root, root[:])
	}
	sum, _ := row["blob_sum"].([]byte)
	return bytes.Equal(sum, a.Sum[:])
}

// compare checks the trailer and its seal, the chain of the ledger, and that
// nothing follows.
func (i *importer) compare(ctx context.Context, tx *store.Tx, trailer []byte) error {
	var want Summary
	if err := json.Unmarshal(trailer, &want); err != nil {
		return errCut
	}
	if _, err := ledger.Audit(ctx, tx); err != nil {
		return err
	}
	root, err := ledgerRoot(ctx, tx)
	if err != nil {
		return err
	}
	i.sum.LedgerRoot, i.sum.Digest = root, hex.EncodeToString(i.digest.Sum(nil))
	if i.sum.Digest != want.Digest || root != want.LedgerRoot || i.sum.Blobs != want.Blobs || i.sum.BlobBytes != want.BlobBytes || !maps.Equal(i.sum.Rows, want.Rows) {
		return errors.New("the stream is not what its trailer says: it was changed or put together from parts")
	}
	if _, err := i.tar.Next(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the trailer")
	}
	i.sum.Seal = want.Seal
	if err := i.SealKey.check(sealedStream, want); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES (?, ?)", metaImported, i.sum.Digest); err != nil {
		return fmt.Errorf("note the import: %w", err)
	}
	return nil
}

// removeUnused removes blobs that no row refers to, or all after a failure.
func (i *importer) removeUnused(ctx context.Context, all bool) {
	for id, info := range i.blobs {
		if all || !i.used[id] {
			_ = i.Blobs.Delete(context.WithoutCancel(ctx), info.ID) // the sweep repeats it
		}
	}
}
