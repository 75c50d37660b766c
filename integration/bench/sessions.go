package main

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// sessions counts what the sessions of a database that have something to do wait for.
type sessions struct {
	looks, busy int
	locks       map[string]int // by the event
}

func newSessions() *sessions { return &sessions{locks: map[string]int{}} }

// watch looks again and again, until stop is called.
func (s *sessions) watch(database string) (stop func() error, err error) {
	db, err := sql.Open("pgx", database)
	if err != nil {
		return nil, err
	}
	over, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			if err := s.look(db); err != nil {
				done <- err
				return
			}
			select {
			case <-over:
				done <- nil
				return
			case <-time.After(lookEvery):
			}
		}
	}()
	return func() error {
		close(over)
		return errors.Join(<-done, db.Close())
	}, nil
}

func (s *sessions) look(db *sql.DB) error {
	rows, err := db.Query("SELECT coalesce(wait_event_type, ''), coalesce(wait_event, ''), count(*) " +
		"FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() " +
		"AND backend_type = 'client backend' AND state <> 'idle' GROUP BY 1, 2")
	if err != nil {
		return err
	}
	defer rows.Close()
	s.looks++
	for rows.Next() {
		var kind, event string
		var n int
		if err := rows.Scan(&kind, &event, &n); err != nil {
			return err
		}
		s.busy += n
		if kind == "Lock" {
			s.locks[event] += n
		}
	}
	return rows.Err()
}

// locks tells how many sampled sessions waited for a lock, and counts the worst section.
func (r *serviceReport) locks(d *deployment) string {
	sum, events := 0, []string{}
	for _, event := range slices.Sorted(maps.Keys(d.seen.locks)) {
		sum += d.seen.locks[event]
		events = append(events, fmt.Sprintf("%s %d", event, d.seen.locks[event]))
	}
	r.ratios[targetLocks] = max(r.ratios[targetLocks], float64(sum))
	text := fmt.Sprintf("\nPostgreSQL was asked %d times meanwhile what its sessions do: %d of %d that were in a "+
		"transaction or a statement waited for a lock", d.seen.looks, sum, d.seen.busy)
	if len(events) > 0 {
		text += " (" + strings.Join(events, ", ") + ")"
	}
	return text + ".\n"
}
