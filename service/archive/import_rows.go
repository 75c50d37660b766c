package archive

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// fill inserts the rows of a state.
func (i *importer) fill(ctx context.Context, tx *store.Tx, x *index) error {
	if err := requireEmpty(ctx, tx, nil); err != nil {
		return err
	}
	// The imported keys and addresses replace those that this service made and noted for itself.
	if err := errors.Join(tx.Do(ctx, "remove the keys made at the start", "DELETE FROM "+keys.Table),
		tx.Do(ctx, "remove what was noted", "DELETE FROM meta WHERE name <> ?", MetaMark)); err != nil {
		return err
	}
	if x.pages[placesTable] != nil {
		if err := ledger.KeepPlaces(ctx, tx); err != nil {
			return err
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
	if err := errors.Join(tx.Filled(ctx), ledger.Arrived(ctx, tx)); err != nil {
		return err
	}
	var count int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+keys.Table).Scan(&count); err != nil {
		return fmt.Errorf("count keys: %w", err)
	}
	if count == 0 {
		return errors.New("the keys of the service are lost in these archives, and without them no file can be read: " +
			"use another copy")
	}
	return i.compareLedger(ctx, tx, x)
}

// compareLedger compares the imported ledger with the index, and notes that the import is complete.
func (i *importer) compareLedger(ctx context.Context, tx *store.Tx, x *index) error {
	_, err := ledger.Audit(ctx, tx)
	if err == nil && x.Records > 0 { // those behind it had no place yet
		var r chain.Row
		r, err = ledger.AtPlace(ctx, tx, x.Records)
		if errors.Is(err, sql.ErrNoRows) || err == nil && hex.EncodeToString(r.Hash[:]) != x.LedgerRoot {
			err = errors.New("the ledger is not the one that the index names")
		}
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
	if err == nil { // and now their errors come
		_, err = tx.ExecContext(ctx, "RELEASE SAVEPOINT some_rows")
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
	return tx.Do(ctx, "insert", insert, values...)
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
