package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// migrateAgain is the pause before another attempt to migrate.
const migrateAgain = 20 * time.Millisecond

// firstSchema is the number in a database that 0001_initial.sql made. Databases of early programs have
// smaller numbers, and other tables.
const firstSchema = 1001

// migration is one numbered file of SQL.
type migration struct {
	version int // from firstSchema on
	sql     string
}

// load reads the migrations of an engine, in order: 0001_initial.sql, then one for each later change.
func (s *Store) load() ([]migration, error) {
	dir := s.engine.name()
	files, err := fs.ReadDir(s.schema, dir)
	if err != nil {
		return nil, err
	}
	var all []migration
	for i, file := range files {
		number, _, _ := strings.Cut(file.Name(), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s: want number %d", file.Name(), i+1)
		}
		text, err := fs.ReadFile(s.schema, path.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, migration{firstSchema + i, string(text)})
	}
	return all, nil
}

// migratePatiently migrates, even while another process makes the same SQLite database:
// switching to the write-ahead log does not wait for other processes.
func (s *Store) migratePatiently(ctx context.Context) error {
	deadline := time.Now().Add(writeTimeout)
	for {
		err := s.migrate(ctx)
		if !errors.Is(err, ErrUnavailable) || s.Engine() != (sqliteEngine{}).name() || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(migrateAgain):
		}
	}
}

// migrate runs the missing migrations in one transaction.
func (s *Store) migrate(ctx context.Context) error {
	all, err := s.load()
	if err != nil {
		return fmt.Errorf("load migrations: %w", err)
	}
	newest := all[len(all)-1].version
	return s.Write(ctx, Everything(), func(tx *Tx) error {
		have, err := s.engine.version(ctx, tx)
		if err != nil {
			return fmt.Errorf("read schema version: %w", err)
		}
		if have != 0 && have < firstSchema {
			return fmt.Errorf("the data was written by an early svcd (schema %d), which no other version reads: use "+
				"that version, or begin with an empty database and data directory", have)
		}
		if have > newest {
			return fmt.Errorf("the data was written by a newer svcd (schema %d, this program knows %d): install that "+
				"version", have, newest)
		}
		for _, m := range all {
			if m.version <= have {
				continue
			}
			if _, err := tx.ExecContext(ctx, Query(m.sql)); err != nil {
				return fmt.Errorf("migrate to schema %d: %w", m.version, err)
			}
		}
		if have == newest {
			return nil
		}
		return s.engine.setVersion(ctx, tx, newest)
	})
}
