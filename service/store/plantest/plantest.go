// Package plantest shows tests how a query is carried out.
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
		for rows, err := range tx.Rows(t.Context(), "EXPLAIN QUERY PLAN "+query, args...) {
			var id, parent, unused int
			var step string
			if err == nil {
				err = rows.Scan(&id, &parent, &unused, &step)
			}
			if err != nil {
				return err
			}
			if strings.Contains(step, " "+table+" ") {
				steps = append(steps, step)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return steps
}
