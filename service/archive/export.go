package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// pageBytes is how long a page is on average, maxPageBytes at most, unless one row is longer.
	pageBytes    = 64 << 10
	maxPageBytes = 1 << 20
	// rounds bounds how often an export looks at the state anew because blobs were deleted meanwhile. The last
	// state has them as they became.
	rounds = 3
)

// errGone means that a blob of the state does not exist any more.
var errGone = errors.New("a blob is gone")

// Export writes the service to w while it may be serving. With an earlier archive, it writes what that archive and
// those before it lack.
func Export(ctx context.Context, w io.Writer, s Service, earlier io.Reader) (Summary, error) {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	e := &exporter{Service: s, out: writer{w: bufio.NewWriterSize(w, 64<<10)}, held: make(map[[sha256.Size]byte]bool),
		sent: make(map[string]bool), gone: make(map[string]bool), anew: make(map[string]partRow),
		head: Head{Format: formatName, Version: formatVersion, Program: s.Version, Contract: s.Contract,
			MasterKey: s.MasterKey, CreatedNS: time.Now().UnixNano(), ID: hex.EncodeToString(id[:])}}
	var err error
	if e.again, err = s.spool(); err != nil {
		return Summary{}, fmt.Errorf("export: %w", err)
	}
	defer e.again.Close()
	if err := e.begin(ctx, earlier); err != nil {
		return Summary{}, fmt.Errorf("export: %w", err)
	}
	sum, err := e.run(ctx)
	if err != nil {
		return sum, fmt.Errorf("export: %w", err)
	}
	return sum, nil
}

type exporter struct {
	Service
	out   writer
	head  Head
	held  map[[sha256.Size]byte]bool // pages of the chain so far
	sent  map[string]bool            // blobs of the chain so far
	again *os.File                   // second copies
	twice []section                  // that are in again, in order

	living  []blobRow          // of the state
	gone    map[string]bool    // blobs that were not there
	anew    map[string]partRow // what parts became that were written anew meanwhile, by the blob they had
	missing []string           // of the state
}

// begin writes the head, after a look at the earlier archive.
func (e *exporter) begin(ctx context.Context, earlier io.Reader) (err error) {
	e.head.Schema = e.Store.SchemaVersion()
	if earlier != nil {
		if err := e.continues(ctx, earlier); err != nil {
			return fault.New(wire.CodeValidation, "--since: %v; or make a full archive, without --since", err)
		}
	}
	text, err := json.Marshal(e.head)
	if err != nil {
		return err
	}
	return e.out.text(kindHead, "", text)
}

// continues takes over what an earlier archive and those before it hold.
func (e *exporter) continues(ctx context.Context, earlier io.Reader) error {
	x, err := e.indexOf(newReader(earlier))
	if err != nil {
		return err
	}
	err = e.Store.Read(ctx, func(tx *store.Tx) error {
		if x.Records == 0 {
			return nil
		}
		r, err := ledger.AtPlace(ctx, tx, x.Records)
		if errors.Is(err, sql.ErrNoRows) || err == nil && hex.EncodeToString(r.Hash[:]) != x.LedgerRoot {
			return errors.New("the archive is of another service, or has records that this one does not have")
		}
		return err
	})
	if err != nil {
		return err
	}
	e.head.Since = x.ID
	for _, pages := range x.pages {
		for _, p := range pages {
			e.held[p.sum] = true
		}
	}
	for id := range x.blobs {
		e.sent[id] = true
	}
	return nil
}

// indexOf returns the last index of a complete archive. It looks at nothing else.
func (s Service) indexOf(r *reader) (*index, error) {
	all, complete := indexes{}, false
	for first := true; ; first = false {
		at, skipped, err := r.next()
		switch {
		case errors.Is(err, io.EOF) && skipped == 0 && !first:
			if x := all.newest(); x != nil && complete {
				return x, nil
			}
			return nil, errors.New("the archive is not complete: give another one")
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case at == nil || first && (at.kind != kindHead || skipped > 0):
			return nil, errNoArchive
		case skipped > 0:
			return nil, fmt.Errorf("the archive is damaged before byte %d: give another one", at.at)
		}
		complete = false
		if at.kind == kindRows || at.kind == kindBlob {
			if err := at.skip(); err != nil {
				return nil, err
			}
			continue
		}
		text, _, err := at.text()
		if err != nil {
			return nil, fmt.Errorf("the archive is damaged at byte %d, %w: give another one", at.at, err)
		}
		if at.kind == kindIndex {
			complete, err = all.read(text, s)
		} else {
			err = s.acceptText(text)
		}
		if err != nil {
			return nil, err
		}
	}
}

// acceptText is accept of a head as it is written.
func (s Service) acceptText(text []byte) error {
	var h Head
	if json.Unmarshal(text, &h) != nil {
		return errNoArchive
	}
	return s.accept(&h)
}

func (e *exporter) run(ctx context.Context) (sum Summary, err error) {
	var x *index
	for round := 1; ; round++ {
		// Rows come first: an archive that is cut has them. Blobs come when the state is no longer held,
		// and one that vanishes meanwhile, because its file is deleted, gives the state up. In the last round blobs
		// come first, of which little is new since the round before: so the rows can say what vanished.
		last := round == rounds
		err = e.Store.Read(ctx, func(tx *store.Tx) error {
			if e.living, err = livingBlobs(ctx, tx); err != nil {
				return err
			}
			if last {
				if err := e.blobs(ctx); err != nil && !errors.Is(err, errGone) {
					return err
				}
			}
			x, err = e.state(ctx, tx, round)
			return err
		})
		if err == nil && !last {
			err = e.blobs(ctx)
		}
		if !errors.Is(err, errGone) || last {
			break
		}
	}
	if err != nil {
		return sum, err
	}
	for _, p := range e.twice {
		if err := e.out.section(kindRows, p.name, p.size, io.NewSectionReader(e.again, p.at, p.size)); err != nil {
			return sum, err
		}
	}
	x.Complete = true
	if err := e.index(x); err != nil {
		return sum, err
	}
	sum = x.summary()
	sum.Bytes, sum.Damage = e.out.bytes, e.missing
	return sum, e.out.w.Flush()
}

// state writes the pages of one state that are new, and its index.
func (e *exporter) state(ctx context.Context, tx *store.Tx, round int) (*index, error) {
	x := newIndex(indexHead{Head: e.head, Round: round})
	tables, err := e.tables(ctx, tx)
	if err != nil {
		return nil, err
	}
	if same, err := ledger.PlacesAreSequences(ctx, tx); err != nil {
		return nil, err
	} else if same { // who reads the archive has no need of them
		tables = slices.DeleteFunc(tables, func(t store.Table) bool { return t.Name == placesTable })
	}
	for _, t := range tables {
		if err := e.table(ctx, tx, t, x); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	e.missing = nil
	for _, b := range e.living {
		if now, ok := e.anew[b.id]; ok {
			x.blobs[now.id] = now.size
		} else if !e.gone[b.id] {
			x.blobs[b.id] = b.size
		} else if !b.open {
			e.missing = append(e.missing, fmt.Sprintf("blob %s is missing: its file was deleted meanwhile, "+
				"or svcd verify names it", b.id))
		}
	}
	if x.Records, x.LedgerRoot, err = ledgerRoot(ctx, tx); err != nil {
		return nil, err
	}
	return x, e.index(x)
}

func (e *exporter) index(x *index) error {
	texts, err := x.encode(e.SealKey)
	for _, text := range texts {
		if err == nil {
			err = e.out.text(kindIndex, "", text)
		}
	}
	return err
}

// blobs writes blobs that are new. errGone means that the others were written.
func (e *exporter) blobs(ctx context.Context) (err error) {
	for _, b := range e.living {
		if e.sent[b.id] || e.gone[b.id] {
			continue
		}
		failed := e.blob(ctx, b)
		if errors.Is(failed, fs.ErrNotExist) {
			e.gone[b.id], err = true, errGone
			failed = e.follow(ctx, b)
		}
		if failed != nil {
			return fmt.Errorf("blob %s: %w", b.id, failed)
		}
	}
	return err
}

// follow writes the blob that a part has now, if it was written anew.
func (e *exporter) follow(ctx context.Context, b blobRow) error {
	for was := b.id; b.part != ""; {
		var now partRow
		err := e.Store.Look(ctx, func(tx *store.Tx) (err error) {
			now, err = partNow(ctx, tx, b.part)
			return err
		})
		if errors.Is(err, sql.ErrNoRows) || err == nil && now.id == b.id {
			return nil // it is no more, or missing
		}
		if err != nil {
			return err
		}
		b = now.blobRow
		if err = e.blob(ctx, b); err == nil {
			e.anew[was] = now
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (e *exporter) blob(ctx context.Context, b blobRow) error {
	r, size, err := e.Blobs.Open(ctx, b.id)
	if err != nil {
		return err
	}
	defer r.Close()
	content := newHasher(b.sealed)
	from := &vanishing{r: r, left: size}
	if err := e.out.section(kindBlob, blobName(b.id, b.sealed), size, io.TeeReader(from, content)); err != nil {
		return err
	}
	if from.gone != nil {
		return from.gone
	}
	if [sha256.Size]byte(content.Sum(nil)) != b.sum {
		return errors.New("it was changed since it was stored: svcd verify --read-data names its file")
	}
	e.sent[b.id] = true
	return nil
}

// vanishing reads a blob. One that is gone before its end goes on with zeros: its section is whole, and no row has
// their hash.
type vanishing struct {
	r    io.Reader
	left int64
	gone error
}

func (v *vanishing) Read(p []byte) (n int, err error) {
	if v.gone == nil {
		n, err = v.r.Read(p)
		v.left -= int64(n)
		if !errors.Is(err, fs.ErrNotExist) {
			return n, err
		}
		v.gone = err
	}
	if v.left == 0 {
		return n, io.EOF
	}
	clear(p[n:])
	zeros := min(int64(len(p)-n), v.left)
	v.left -= zeros
	return n + int(zeros), nil
}

// blobName names the section of a blob.
func blobName(id string, sealed int64) string {
	if sealed == 0 {
		return id
	}
	return fmt.Sprintf("%s/%d", id, sealed)
}

// table writes the pages of a table that are new. A page ends where the checksum of a row says so.
func (e *exporter) table(ctx context.Context, tx *store.Tx, t store.Table, x *index) error {
	var content bytes.Buffer
	var rows int64
	end := func() error {
		if rows == 0 {
			return nil
		}
		sum := sumOf(kindRows, t.Name, content.Bytes())
		x.pages[t.Name] = append(x.pages[t.Name], page{len(x.pages[t.Name]), sum, rows})
		var err error
		if !e.held[sum] {
			err = e.page(t.Name, content.Bytes())
		}
		e.held[sum], rows = true, 0
		content.Reset()
		return err
	}
	for row, err := range tx.Rows(ctx, t.SelectAll()) {
		var line []byte
		if err == nil {
			line, err = e.encodeRow(row, t)
		}
		if err != nil {
			return err
		}
		if line == nil {
			continue
		}
		if content.Len()+len(line) > maxPageBytes {
			if err := end(); err != nil {
				return err
			}
		}
		content.Write(line)
		rows++
		if uint64(crc32.ChecksumIEEE(line)) < uint64(len(line))<<32/pageBytes {
			if err := end(); err != nil {
				return err
			}
		}
	}
	return end()
}

func (e *exporter) page(table string, content []byte) error {
	if table != contentTable {
		p := section{name: table, size: int64(len(content))}
		if n := len(e.twice); n > 0 {
			p.at = e.twice[n-1].at + e.twice[n-1].size
		}
		if _, err := e.again.WriteAt(content, p.at); err != nil {
			return err
		}
		e.twice = append(e.twice, p)
	}
	return e.out.text(kindRows, table, content)
}

// encodeRow returns a row as a line of JSON: bytes in base64, truth as 0 and 1. nil is a row about the origin of this
// service, not about its content, or one that amend leaves out.
func (e *exporter) encodeRow(rows store.Row, t store.Table) ([]byte, error) {
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
	if t.Name == "meta" && (row["name"] == metaImported || row["name"] == MetaMark) || !e.amend(t.Name, row) {
		return nil, nil
	}
	line, err := json.Marshal(row)
	return append(line, '\n'), err
}

// amend has a row say what became of its blob, and reports whether the row stays. An upload that is not recorded is
// as if those bytes had not come.
func (e *exporter) amend(table string, row map[string]any) (stays bool) {
	id, _ := row["blob_id"].(string)
	now, anew := e.anew[id]
	switch {
	case !e.gone[id]:
	case anew:
		row["blob_id"], row["blob_size"], row["blocks"], row["leaves"] = now.id, now.size, now.blocks, now.leaves
	case table == "uploads":
		row["blob_id"], row["blob_size"], row["blob_sum"] = nil, nil, nil
	case table == "parts" && row["upload_id"] != nil:
		return false
	}
	return true
}

func orNull(valid bool, v any) any {
	if !valid {
		return nil
	}
	return v
}
