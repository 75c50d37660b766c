package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
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

// Import fills an empty service from a full archive and its increments, in order, or leaves it empty and returns an
// error. [ErrImported] means that an earlier import of the last one was complete, even if it was killed before
// it could report that. To salvage is to take all that is whole from damaged archives; the summary names the damage.
func Import(ctx context.Context, s Service, salvage bool, archives ...io.Reader) (sum Summary, err error) {
	i := &importer{Service: s, salvage: salvage, pages: make(map[[sha256.Size]byte]extent),
		blobs: make(map[string][]arrived), used: make(map[string]bool), lost: make(map[string]int64),
		missing: make(map[string]bool)}
	if i.file, err = s.spool(); err != nil {
		return sum, fmt.Errorf("import: %w", err)
	}
	defer i.file.Close()
	sum, err = i.run(ctx, archives)
	if !errors.Is(err, store.ErrUnavailable) { // or the rows may be there
		i.removeUnused(ctx, err != nil)
	}
	if err != nil {
		return sum, fmt.Errorf("import: %w", err)
	}
	return sum, nil
}

type importer struct {
	Service
	salvage bool
	file    *os.File // has the pages
	end     int64    // of file
	pages   map[[sha256.Size]byte]extent
	blobs   map[string][]arrived // by the id they had; a forged one may come before the right one
	used    map[string]bool      // ids here
	damage  []string
	lost    map[string]int64 // rows, by table
	missing map[string]bool  // blobs that rows name and no archive has whole
	states  []*index         // of the archives, in order
}

// extent is the place of a page in the spool.
type extent struct{ at, size int64 }

// arrived is a blob of an archive.
type arrived struct {
	blob.Info
	root []byte // of the leaves of a part; nil = the archive does not say how long its blocks are
}

// opened is an archive whose beginning was read.
type opened struct {
	*reader
	name  string
	head  *Head    // nil = it is damaged
	first *section // that was found instead
	all   indexes
}

// run reads the archives, and loads the state of the last one.
func (i *importer) run(ctx context.Context, archives []io.Reader) (sum Summary, err error) {
	list := make([]*opened, len(archives))
	for n, from := range archives {
		o := &opened{reader: newReader(from), name: fmt.Sprintf("archive %d", n+1), all: indexes{}}
		if file, ok := from.(interface{ Name() string }); ok {
			o.name = file.Name()
		}
		if err := i.open(o); err != nil {
			return sum, fmt.Errorf("%s: %w", o.name, err)
		}
		list[n] = o
	}
	last := list[len(list)-1]
	if err := i.Store.Read(ctx, func(tx *store.Tx) error { return requireEmpty(ctx, tx, last.head) }); err != nil {
		return sum, err
	}
	if err := i.inOrder(list); err != nil {
		return sum, err
	}
	for _, o := range list {
		if err := i.read(ctx, o); err != nil {
			return sum, fmt.Errorf("%s: %w", o.name, err)
		}
		if newest := o.all.newest(); newest != nil {
			i.states = append(i.states, newest)
		}
	}
	if err := i.refuse(); err != nil {
		return sum, err
	}
	if len(i.states) == 0 {
		return sum, errors.New("without an index nothing can be restored: use an earlier archive")
	}
	x := i.states[len(i.states)-1]
	if schema, err := i.Store.SchemaVersion(); err != nil || x.Schema != schema {
		return sum, errors.Join(err, fmt.Errorf("the archive was made by svcd %s with schema %d of the database, "+
			"which is %d here: import it with that svcd, then upgrade", x.Program, x.Schema, schema))
	}
	err = i.Store.Load(ctx, func(tx *store.Tx) error { return i.fill(ctx, tx, x) })
	sum = x.summary()
	for _, id := range slices.Sorted(maps.Keys(i.missing)) {
		i.damaged("blob %s is lost", id)
	}
	for _, table := range slices.Sorted(maps.Keys(i.lost)) {
		i.damaged("%d rows of %s are lost, but for those that an earlier archive has in their place", i.lost[table],
			table)
	}
	sum.Damage = i.damage
	return sum, err
}

func (i *importer) damaged(format string, args ...any) {
	i.damage = append(i.damage, fmt.Sprintf(format, args...))
}

// damageShown is how much damage a refusal lists.
const damageShown = 20

// refuse refuses damage, unless it is to be left out.
func (i *importer) refuse() error {
	if len(i.damage) == 0 || i.salvage {
		return nil
	}
	more := ""
	if len(i.damage) > damageShown {
		more = fmt.Sprintf("\n  and %d more", len(i.damage)-damageShown)
	}
	return fmt.Errorf("nothing was imported, because of damage:\n  %s%s\n"+
		"use another copy, or restore what is whole: svcd import --salvage",
		strings.Join(i.damage[:min(len(i.damage), damageShown)], "\n  "), more)
}

// open reads the head of an archive.
func (i *importer) open(o *opened) error {
	s, skipped, err := o.next()
	switch {
	case errors.Is(err, io.EOF):
		return errNoArchive
	case err != nil:
		return fmt.Errorf("read: %w", err)
	case s.kind != kindHead:
		i.damaged("%s: its beginning, %d bytes", o.name, skipped)
		o.first = s
		return nil
	case skipped > 0:
		i.damaged("%s: %d bytes before byte %d", o.name, skipped, s.at)
	}
	text, _, err := s.text()
	if err != nil {
		i.damaged("%s: its beginning: %v", o.name, err)
		return nil
	}
	if err := i.acceptText(text); err != nil {
		return err
	}
	o.head = &Head{}
	return json.Unmarshal(text, o.head)
}

// inOrder refuses archives that are not a full one and its increments, in order.
func (i *importer) inOrder(list []*opened) error {
	given := make(map[string]string)
	for _, o := range list {
		if o.head != nil {
			given[o.head.ID] = o.name
		}
	}
	for n, o := range list {
		switch {
		case o.head == nil || n > 0 && list[n-1].head == nil: // it is damaged
		case n == 0 && o.head.Since == "" || n > 0 && o.head.Since == list[n-1].head.ID:
		case o.head.Since == "":
			return fault.New(wire.CodeValidation, "%s is a full archive: give one full archive first, and after it "+
				"only its increments", o.name)
		case given[o.head.Since] != "":
			return fault.New(wire.CodeValidation, "%s continues %s: give the archives in the order in which they "+
				"were made", o.name, given[o.head.Since])
		case i.salvage:
			i.damaged("%s continues the archive %s, which is not given", o.name, o.head.Since)
		default:
			return fault.New(wire.CodeValidation, "%s continues the archive %s, which is not given: give the full "+
				"archive and all increments since, in order", o.name, o.head.Since)
		}
	}
	return nil
}

// ErrImported means that the service was filled from the archive before.
var ErrImported = errors.New("this archive was completely imported here before: nothing is left to do")

var errHoldsAccounts = fault.New(wire.CodeConflict,
	"this service holds accounts already: import into a new --data directory or --db database")

// metaImported names the archive that a service was filled from.
const metaImported = "imported"

// requireEmpty refuses a service that holds anything.
func requireEmpty(ctx context.Context, tx *store.Tx, last *Head) error {
	records, err := ledger.Head(ctx, tx)
	if err != nil {
		return err
	}
	var accounts int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM accounts").Scan(&accounts); err != nil {
		return fmt.Errorf("look for rows: %w", err)
	}
	if accounts+records == 0 {
		return nil
	}
	var before string
	err = tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = ?", metaImported).Scan(&before)
	switch {
	case err == nil && last != nil && before == last.ID:
		return ErrImported
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("look for an earlier import: %w", err)
	}
	return errHoldsAccounts
}

// read reads an archive. Pages go to the spool, blobs to the store.
func (i *importer) read(ctx context.Context, o *opened) error {
	complete := false
	for s := o.first; ; s = nil {
		if s == nil {
			var skipped int64
			var err error
			if s, skipped, err = o.next(); skipped > 0 {
				i.damaged("%s: %d bytes before byte %d", o.name, skipped, o.at)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("read: %w", err)
			}
		}
		var err error
		complete, err = i.section(ctx, o, s)
		if errors.Is(err, errChanged) || errors.Is(err, errCut) || errors.Is(err, errSeal) && i.salvage {
			i.damaged("%s: %s at byte %d: %v", o.name, s.what(), s.at, err)
		} else if err != nil {
			return fmt.Errorf("%s at byte %d: %w", s.what(), s.at, err)
		}
	}
	if !complete {
		i.damaged("%s: it is not complete, because it does not end with its index", o.name)
	}
	return nil
}

// what names a section to an operator.
func (s *section) what() string {
	switch s.kind {
	case kindRows:
		return fmt.Sprintf("rows of %.80q", s.name)
	case kindBlob:
		return fmt.Sprintf("blob %.80q", s.name)
	}
	return map[kind]string{kindHead: "the head", kindIndex: "the index"}[s.kind]
}

// section reads a section. complete means that the archive may end there.
func (i *importer) section(ctx context.Context, o *opened, s *section) (complete bool, err error) {
	if s.kind == kindBlob {
		return false, i.blob(ctx, s)
	}
	text, sum, err := s.text()
	switch {
	case err != nil:
		return false, err
	case s.kind == kindIndex:
		return o.all.read(text, i.Service)
	case s.kind == kindRows && i.pages[sum] == extent{}:
		if _, err := i.file.WriteAt(text, i.end); err != nil {
			return false, err
		}
		i.pages[sum] = extent{i.end, int64(len(text))}
		i.end += int64(len(text))
	}
	return false, nil
}

func (i *importer) blob(ctx context.Context, s *section) error {
	id, blocks, isPart := strings.Cut(s.name, "/")
	var root *format.RootHash
	content := io.Reader(s)
	if isPart {
		sealed, err := strconv.ParseInt(blocks, 10, 64)
		if err != nil || sealed < format.MinBlockBytes+format.Overhead ||
			sealed > format.MaxBlockBytes+format.Overhead {
			return errors.New("it has blocks of a size which svcd does not write")
		}
		root = format.NewRootHash(sealed)
		content = io.TeeReader(s, root)
	}
	info, err := i.Blobs.Put(ctx, content, s.size)
	if err == nil {
		_, err = io.Copy(io.Discard, s) // nothing, but its checksum
		if err != nil {
			_ = i.Blobs.Delete(context.WithoutCancel(ctx), info.ID)
		}
	}
	if err != nil {
		return err
	}
	got := arrived{Info: info}
	if root != nil {
		got.root = root.Sum(nil)
	}
	i.blobs[id] = append(i.blobs[id], got)
	return nil
}

// fill inserts the rows of a state, and compares the ledger with the index.
func (i *importer) fill(ctx context.Context, tx *store.Tx, x *index) error {
	if err := requireEmpty(ctx, tx, nil); err != nil {
		return err
	}
	// The imported keys and addresses replace those that this service made and noted for itself.
	for _, remove := range []store.Query{"DELETE FROM " + vault.Table, "DELETE FROM meta"} {
		if _, err := tx.ExecContext(ctx, remove); err != nil {
			return fmt.Errorf("remove what was made at the start: %w", err)
		}
	}
	tables, err := i.tables(ctx, tx)
	if err != nil {
		return err
	}
	for name := range x.pages {
		if !slices.ContainsFunc(tables, func(t store.Table) bool { return t.Name == name }) {
			return fmt.Errorf("the archive has a table %.80q, which does not belong here", name)
		}
	}
	for _, t := range tables {
		gaps, err := i.table(ctx, tx, t, x)
		for n := len(i.states) - 2; n >= 0 && len(gaps) > 0 && err == nil; n-- {
			err = i.earlier(ctx, tx, t, i.states[n], gaps)
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	var keys int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+vault.Table).Scan(&keys); err != nil {
		return fmt.Errorf("count keys: %w", err)
	}
	if keys == 0 {
		return errors.New("the keys of the service are lost in these archives, and without them no file can be read: " +
			"use another copy")
	}
	_, err = ledger.Audit(ctx, tx)
	records, root, failed := ledgerRoot(ctx, tx)
	if failed != nil {
		return failed
	}
	if err == nil && (records != x.Records || root != x.LedgerRoot) {
		err = errors.New("the ledger is not the one that the index names")
	}
	if i.salvage && len(i.damage)+len(i.lost)+len(i.missing) > 0 {
		if err != nil {
			i.damaged("ledger: %v", err)
		}
		return nil
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES (?, ?)", metaImported, x.ID)
	}
	return err
}

// lines are the rows of a page, nil where it is lost.
func (i *importer) lines(p page) ([][]byte, error) {
	at, ok := i.pages[p.sum]
	if !ok {
		return nil, nil
	}
	content := make([]byte, at.size)
	_, err := i.file.ReadAt(content, at.at)
	return slices.Collect(bytes.Lines(content)), err
}

// gap is where rows were lost: between two places, the second one "" for the end.
type gap struct{ after, before string }

// placeOf is the place of a row in its table, a text in whose order the rows are.
func placeOf(line []byte, t store.Table) (place string, err error) {
	row, err := decodeRow(line, t)
	for _, name := range t.Order() {
		if n, is := row[name].(int64); is {
			place += fmt.Sprintf("%020d", n)
		} else {
			place += fmt.Sprintf("%s\x00", row[name])
		}
	}
	return place, err
}

// table inserts the rows of a table, and returns where some were lost.
func (i *importer) table(ctx context.Context, tx *store.Tx, t store.Table, x *index) (gaps []gap, err error) {
	last, open := "", false
	for _, p := range x.pages[t.Name] {
		lines, err := i.lines(p)
		switch {
		case err != nil:
			return nil, err
		case lines == nil && !i.salvage:
			return nil, fmt.Errorf("page %d: it is in none of the archives", p.number)
		case lines == nil:
			i.lost[t.Name] += p.rows
			if !open {
				gaps, open = append(gaps, gap{after: last}), true
			}
			continue
		}
		if open {
			gaps[len(gaps)-1].before, err = placeOf(lines[0], t)
			open = false
		}
		if err == nil {
			last, err = placeOf(lines[len(lines)-1], t)
		}
		if err == nil {
			err = i.rows(ctx, tx, t, lines)
		}
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", p.number, err)
		}
	}
	return gaps, nil
}

// earlier inserts what an earlier state has where rows were lost. What was deleted elsewhere stays deleted.
func (i *importer) earlier(ctx context.Context, tx *store.Tx, t store.Table, x *index, gaps []gap) error {
	for _, p := range x.pages[t.Name] {
		lines, err := i.lines(p)
		var in [][]byte
		for _, line := range lines {
			place, failed := placeOf(line, t)
			err = errors.Join(err, failed)
			inGap := func(g gap) bool { return place > g.after && (place < g.before || g.before == "") }
			if slices.ContainsFunc(gaps, inGap) {
				in = append(in, line)
			}
		}
		if err == nil && len(in) > 0 {
			err = i.rows(ctx, tx, t, in)
		}
		if err != nil {
			return fmt.Errorf("page %d of an earlier archive: %w", p.number, err)
		}
	}
	return nil
}

// rows inserts rows. Where something was lost, rows that refer to it are lost too: those that can be are inserted.
func (i *importer) rows(ctx context.Context, tx *store.Tx, t store.Table, lines [][]byte) error {
	if len(i.lost) == 0 {
		for _, line := range lines {
			if err := i.row(ctx, tx, t, line); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT some_rows"); err != nil {
		return err
	}
	var err error
	for _, line := range lines {
		if err = i.row(ctx, tx, t, line); err != nil {
			break
		}
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT some_rows")
		return err
	}
	if !tx.IsReference(err) {
		return err
	}
	if _, err := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT some_rows"); err != nil {
		return err
	}
	if len(lines) == 1 {
		i.lost[t.Name]++
		return nil
	}
	half := len(lines) / 2
	return errors.Join(i.rows(ctx, tx, t, lines[:half]), i.rows(ctx, tx, t, lines[half:]))
}

func (i *importer) row(ctx context.Context, tx *store.Tx, t store.Table, line []byte) error {
	row, err := decodeRow(line, t)
	if err == nil {
		err = i.moveBlob(row)
	}
	if err != nil {
		return err
	}
	values := make([]any, len(t.Columns))
	for k, c := range t.Columns {
		values[k] = row[c.Name]
	}
	insert := t.Insert()
	if len(i.lost) > 0 {
		insert = t.InsertNew() // a newer row is there
	}
	if _, err := tx.ExecContext(ctx, insert, values...); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	return nil
}

// decodeRow reads a row for the columns of a table.
func decodeRow(line []byte, t store.Table) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	var row map[string]any
	if err := decoder.Decode(&row); err != nil {
		return nil, errors.New("a row is not JSON")
	}
	for _, c := range t.Columns {
		value, ok := row[c.Name]
		if !ok {
			return nil, fmt.Errorf("a row has no %s", c.Name)
		}
		var err error
		if row[c.Name], err = convert(value, c.Kind); err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	if len(row) != len(t.Columns) {
		return nil, fmt.Errorf("a row has %d columns, the table %d", len(row), len(t.Columns))
	}
	return row, nil
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

// moveBlob gives a row the new id of its blob, after comparing the blob with the row. One that was
// salvaged keeps the id of a blob that is missing.
func (i *importer) moveBlob(row map[string]any) error {
	id, ok := row["blob_id"].(string)
	// none, or elsewhere: a legacy reference without bytes, or a row
	if !ok || row["ref"] == id || row["deleted_ns"] != nil || strings.HasPrefix(id, files.SmallPrefix) {
		return nil
	}
	for _, info := range i.blobs[id] {
		if row["blob_size"] == info.Size && info.isProvedBy(row) {
			row["blob_id"] = info.ID
			i.used[info.ID] = true
			return nil
		}
	}
	_, had := i.states[len(i.states)-1].blobs[id]
	switch {
	case !had: // the service that was exported lacked it too
		return nil
	case i.salvage:
		i.missing[id] = true
		return nil
	case len(i.blobs[id]) > 0:
		return fmt.Errorf("blob %s was changed on the way", id)
	}
	return fmt.Errorf("blob %s is in none of the archives", id)
}

// isProvedBy compares a blob with its row: that of a part by its leaves.
func (a *arrived) isProvedBy(row map[string]any) bool {
	if leaves, ok := row["leaves"].([]byte); ok {
		root := rootOf(leaves)
		return bytes.Equal(a.root, root[:])
	}
	sum, _ := row["blob_sum"].([]byte)
	return bytes.Equal(sum, a.Sum[:])
}

// removeUnused removes blobs that no row refers to, or all after a failure.
func (i *importer) removeUnused(ctx context.Context, all bool) {
	for _, list := range i.blobs {
		for _, info := range list {
			if all || !i.used[info.ID] {
				_ = i.Blobs.Delete(context.WithoutCancel(ctx), info.ID) // the sweep repeats it
			}
		}
	}
}
