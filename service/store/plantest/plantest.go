// Package plantest tells tests how a query is carried out.
package plantest

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/store"
)

// Steps returns the steps in which SQLite reads a table for a query, in order.
func Steps(t *testing.T, table string, query store.Query, args ...any) (steps []string) {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Read(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				return err
			}
			if strings.Contains(step, " "+table+" ") {
				steps = append(steps, step)
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return steps
}
