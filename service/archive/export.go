package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/service/store"
)

// chunkBytes is how much of a table is one entry of a stream.
const chunkBytes = 1 << 20

// Export writes the service to w while it may be serving. All rows are of one
// state of the database.
func Export(ctx context.Context, w io.Writer, s Service) (Summary, error) {
	e := &exporter{Service: s, tar: tar.NewWriter(w), now: time.Now(), digest: sha256.New(), sent: make(map[string]bool),
		sum: Summary{Rows: make(map[string]int64)}}
	if err := e.run(ctx); err != nil {
		return e.sum, fmt.Errorf("export: %w", err)
	}
	return e.sum, nil
}

type exporter struct {
	Service
	tar    *tar.Writer
	now    time.Time
	digest hash.Hash
	sent   map[string]bool // blobs
	sum    Summary
}

func (e *exporter) run(ctx context.Context) error {
	var tables []store.Table
	var early []blobRow
	err := e.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if tables, err = e.tables(ctx, tx); err != nil {
			return err
		}
		early, err = livingBlobs(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	if err := e.header(tables); err != nil {
		return err
	}
	// Most blobs are written before the state is fixed, so that it is not held for long.
	// A blob that vanishes meanwhile belongs to a deleted file.
	for _, b := range early {
		if err := e.blob(ctx, b); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// A blob that vanishes meanwhile gives the state up before any row is written: another one
	// lacks it. The import leaves out blobs that no row refers to.
	for try := 1; ; try++ {
		err = e.Store.Read(ctx, func(tx *store.Tx) error { return e.state(ctx, tx, tables) })
		if !errors.Is(err, errGone) || try == snapshotTries {
			break
		}
	}
	if err != nil {
		return err
	}
	e.sum.Digest = hex.EncodeToString(e.digest.Sum(nil))
	e.sum.Seal = e.SealKey.seal(sealedStream, e.sum.Digest)
	if err := e.json(trailerName, e.sum); err != nil {
		return err
	}
	return e.tar.Close()
}

func (e *exporter) header(tables []store.Table) error {
	schema, err := e.Store.SchemaVersion()
	if err != nil {
		return err
	}
	h := Header{Format: formatName, Version: formatVersion, Program: e.Version, Schema: schema, Engine: e.Store.Engine(), Contract: e.Contract,
		MasterKey: e.MasterKey, CreatedNS: e.now.UnixNano()}
	for _, t := range tables {
		h.Tables = append(h.Tables, t.Name)
	}
	return e.json(headerName, h)
}

// state writes one state of the database, with the blobs that were not written yet.
func (e *exporter) state(ctx context.Context, tx *store.Tx, tables []store.Table) (err error) {
	late, err := livingBlobs(ctx, tx)
	if err != nil {
		return err
	}
	for _, b := range late {
		err := e.blob(ctx, b)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("blob %s is missing, see svcd verify: %w", b.id, errGone)
		}
		if err != nil {
			return err
		}
	}
	for _, t := range tables {
		if err := e.table(ctx, tx, t); err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	e.sum.LedgerRoot, err = ledgerRoot(ctx, tx)
	return err
}

// blob writes a blob that was not written yet. A missing one is fs.ErrNotExist.
func (e *exporter) blob(ctx context.Context, b blobRow) error {
	if e.sent[b.id] {
		return nil
	}
	r, size, err := e.Blobs.Open(ctx, b.id)
	if err != nil {
		return err
	}
	defer r.Close()
	content := newHasher(b.sealed)
	var header map[string]string
	if b.sealed > 0 {
		header = map[string]string{sealedRecord: strconv.FormatInt(b.sealed, 10)}
	}
	if err := e.entry(blobPrefix+b.id, size, io.TeeReader(r, content), header); err != nil {
		return fmt.Errorf("blob %s: %w", b.id, err)
	}
	if [sha256.Size]byte(content.Sum(nil)) != b.sum {
		return fmt.Errorf("blob %s was changed since it was stored: svcd verify --read-data names its file", b.id)
	}
	e.sent[b.id] = true
	e.sum.Blobs++
	e.sum.BlobBytes += size
	return nil
}

// table writes the rows of a table in chunks.
func (e *exporter) table(ctx context.Context, tx *store.Tx, t store.Table) error {
	var chunk bytes.Buffer
	n := 0
	flush := func() error {
		n++
		err := e.entry(fmt.Sprintf("%s%s/%06d.jsonl", rowsPrefix, t.Name, n), int64(chunk.Len()), &chunk, nil)
		chunk.Reset()
		return err
	}
	for rows, err := range tx.Rows(ctx, t.SelectAll()) {
		if err != nil {
			return err
		}
		row, err := scanRow(rows, t)
		if err != nil {
			return err
		}
		if t.Name == "meta" && row["name"] == metaImported {
			continue // is about the origin of this service, not about its content
		}
		if err := json.NewEncoder(&chunk).Encode(row); err != nil {
			return err
		}
		e.sum.Rows[t.Name]++
		if chunk.Len() >= chunkBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if chunk.Len() == 0 {
		return nil
	}
	return flush()
}

// scanRow reads a row as JSON holds it: bytes in base64, truth as 0 and 1.
func scanRow(rows *sql.Rows, t store.Table) (map[string]any, error) {
	into := make([]any, len(t.Columns))
	for i, c := range t.Columns {
		switch c.Kind {
		case store.KindText:
			into[i] = new(sql.NullString)
		case store.KindInt:
			into[i] = new(sql.NullInt64)
		case store.KindBool:
			into[i] = new(sql.NullBool)
		default:
			into[i] = new(sql.Null[[]byte]) // a plain slice would take no bytes for NULL
		}
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	row := make(map[string]any, len(into))
	for i, c := range t.Columns {
		switch v := into[i].(type) {
		case *sql.NullString:
			row[c.Name] = orNull(v.Valid, v.String)
		case *sql.NullInt64:
			row[c.Name] = orNull(v.Valid, v.Int64)
		case *sql.NullBool:
			n := 0
			if v.Bool {
				n = 1
			}
			row[c.Name] = orNull(v.Valid, n)
		case *sql.Null[[]byte]:
			row[c.Name] = orNull(v.Valid, append([]byte{}, v.V...))
		}
	}
	return row, nil
}

func orNull(valid bool, v any) any {
	if !valid {
		return nil
	}
	return v
}

func (e *exporter) json(name string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return e.entry(name, int64(len(raw)), bytes.NewReader(raw), nil)
}

// entry writes one entry, with more records in its header, and adds it to the digest.
func (e *exporter) entry(name string, size int64, r io.Reader, header map[string]string) error {
	if err := e.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: e.now, Format: tar.FormatPAX, PAXRecords: header}); err != nil {
		return err
	}
	content := sha256.New()
	if _, err := io.Copy(io.MultiWriter(e.tar, content), r); err != nil {
		return err
	}
	addToDigest(e.digest, name, [sha256.Size]byte(content.Sum(nil)))
	return nil
}

func addToDigest(h hash.Hash, name string, sum [sha256.Size]byte) {
	fmt.Fprintf(h, "%d %s ", len(name), name)
	h.Write(sum[:])
}
