package store

import (
	"cmp"
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
	version   int  // from firstSchema on
	contracts bool // it takes away what no program needs that knows the migration before it
	sql       string
}

// state is the schema of a database: the newest migration that ran, and the oldest that a program must know to run
// over it.
type state struct{ version, oldest int }

// load reads the migrations of an engine, in order: 0001_initial.sql, then one for each later change. README.md
// beside them has the rule.
func (s *Store) load() ([]migration, error) {
	dir := s.engine.name()
	files, err := fs.ReadDir(s.schema, dir)
	if err != nil {
		return nil, err
	}
	var all []migration
	for i, file := range files {
		number, name, _ := strings.Cut(file.Name(), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s: want number %d", file.Name(), i+1)
		}
		text, err := fs.ReadFile(s.schema, path.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		contracts := strings.HasPrefix(name, "contract")
		if i > 0 && !contracts && !strings.HasPrefix(name, "expand") {
			return nil, fmt.Errorf("migration %s: want a name that begins with expand or contract", file.Name())
		}
		all = append(all, migration{firstSchema + i, contracts, string(text)})
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

// migrate runs the missing migrations in one transaction. Over a schema that a later program only expanded it
// runs as well.
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
		if have.version != 0 && have.version < firstSchema {
			return fmt.Errorf("the data was written by an early svcd (schema %d), which no other version reads: use "+
				"that version, or begin with an empty database and data directory", have.version)
		}
		have.oldest = cmp.Or(have.oldest, have.version, firstSchema)
		if have.oldest > newest {
			return fmt.Errorf("the data was written by a newer svcd (schema %d, this program knows %d): install that "+
				"version", have.version, newest)
		}
		now := have
		for _, m := range all {
			if m.version <= have.version {
				continue
			}
			if _, err := tx.ExecContext(ctx, Query(m.sql)); err != nil {
				return fmt.Errorf("migrate to schema %d: %w", m.version, err)
			}
			if now.version = m.version; m.contracts {
				now.oldest = m.version - 1
			}
		}
		if s.have = now.version; now == have {
			return nil
		}
		return s.engine.setVersion(ctx, tx, now)
	})
}
