package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// PlacedTogether bounds the records that get their places in one transaction.
const PlacedTogether = 4096

// ErrFenced means that another sequencer has taken over.
var ErrFenced = errors.New("another sequencer gives the places")

// lockSize also bounds how long a sequencer that is stopped in its transaction keeps others from theirs, in ms.
const lockSize = "SELECT size, set_config('idle_in_transaction_session_timeout', '5000', true) FROM sequencer " +
	"WHERE fence <= ? FOR UPDATE"

// placeNext gives the next places, and is the swap of the size: it changes nothing where another sequencer came first.
const placeNext = `WITH next AS (DELETE FROM unplaced WHERE seq IN (SELECT seq FROM unplaced WHERE seq > ? ORDER BY seq
		LIMIT ?)
		RETURNING seq),
	given AS (INSERT INTO places (place, seq) SELECT CAST(? AS BIGINT) + row_number() OVER (ORDER BY seq), seq FROM next
		RETURNING place)
	UPDATE sequencer SET size = size + (SELECT count(*) FROM given), fence = ? WHERE size = ? AND fence <= ?
	RETURNING size`

// Place gives the next places to at most [PlacedTogether] records that are committed and have none, and returns how
// many. It looks for them after a sequence, as [LookUnplaced] does. They go in the order of their sequences, which is
// that of their numbers in each chain. fence is that of the lease of the sequencer: [ErrFenced] means that a later one
// has given places. It is for a database whose records are sequenced.
func Place(ctx context.Context, tx *store.Tx, fence, after int64) (n int64, err error) {
	var size, now int64
	var unused string
	err = tx.QueryRowContext(ctx, lockSize, fence).Scan(&size, &unused)
	if err == nil {
		err = tx.QueryRowContext(ctx, placeNext, after, PlacedTogether, size, fence, size, fence).Scan(&now)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return 0, ErrFenced
	}
	if err != nil {
		return 0, fmt.Errorf("give places: %w", err)
	}
	return now - size, nil
}

// Unplaced is how far the places lag.
type Unplaced struct {
	Count          int64 // records without a place, at most one more than asked
	Oldest, Newest int64 // their smallest and largest sequence; 0 = there are none
	Placed         int64 // the largest sequence that has a place
}

// LookUnplaced returns how far the places lag, and counts up to limit records. It looks after a sequence: while an old
// state of the database is read, by an export or an audit, the server cannot remove what is placed since, and reads it
// at each look. It is one query.
func LookUnplaced(ctx context.Context, tx *store.Tx, after, limit int64) (u Unplaced, err error) {
	if err := tx.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM (SELECT 1 FROM unplaced WHERE seq > ? ORDER BY seq LIMIT ?) AS few),
		COALESCE((SELECT min(seq) FROM unplaced WHERE seq > ?), 0),
		COALESCE((SELECT max(seq) FROM unplaced WHERE seq > ?), 0), COALESCE((SELECT max(seq) FROM places), 0)`,
		after, limit+1, after, after).Scan(&u.Count, &u.Oldest, &u.Newest, &u.Placed); err != nil {
		return u, fmt.Errorf("look for records without a place: %w", err)
	}
	return u, nil
}

// Waiting checks the records that have no place yet, which follow those of w in their chains, passes each to
// f and moves the chains of w. It returns how many there are.
func (w *Walk) Waiting(ctx context.Context, tx *store.Tx, f func(chain.Row) error) (n int64, err error) {
	for r, err := range records(ctx, tx, "read records without a place", nil, "SELECT "+columns+
		" FROM ledger JOIN unplaced USING (seq) ORDER BY seq") {
		if err != nil {
			return n, err
		}
		name, end, fault := w.check(&r)
		if fault != "" {
			return n, fmt.Errorf("record %d, without a place: %w: %s", r.Seq, ErrBroken, fault)
		}
		if err := f(r); err != nil {
			return n, err
		}
		w.move(name, end)
		n++
	}
	return n, nil
}

// keepPlaces replaces the views of SQLite. Later records get their places from a trigger.
const keepPlaces = `DROP VIEW placed; DROP VIEW place_bounds; DROP VIEW places;
	CREATE TABLE places (place INTEGER PRIMARY KEY, seq INTEGER NOT NULL UNIQUE) STRICT;
	CREATE VIEW placed AS SELECT ledger.*, places.place FROM ledger LEFT JOIN places ON places.seq = ledger.seq;
	CREATE VIEW place_bounds AS SELECT place, +seq AS bound FROM places;
	CREATE TRIGGER ledger_placed AFTER INSERT ON ledger WHEN NOT EXISTS (SELECT 1 FROM places WHERE seq = NEW.seq) BEGIN
		INSERT INTO places SELECT COALESCE(max(place), 0) + 1, NEW.seq FROM places;
	END`

// KeepPlaces makes room for places that are not the sequences, in an empty database, before a ledger with such places
// is filled in: its places first.
func KeepPlaces(ctx context.Context, tx *store.Tx) error {
	if tx.Sequenced() {
		return nil // there is
	}
	return tx.Do(ctx, "make room for places", keepPlaces)
}

// PlacesAreSequences reports whether every place is the sequence of its record.
func PlacesAreSequences(ctx context.Context, tx *store.Tx) (same bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT NOT EXISTS (SELECT 1 FROM places WHERE place <> seq)").Scan(&same)
	if err != nil {
		return false, fmt.Errorf("compare places with sequences: %w", err)
	}
	return same, nil
}

// Arrived brings up to date what the database keeps of records by itself, after some came with their sequences,
// and perhaps with places, from elsewhere. Records without a place get one, in the order of their sequences.
func Arrived(ctx context.Context, tx *store.Tx) error {
	statements := []store.Query{ // the trigger of the index misses records where sequences have gaps
		`INSERT INTO record_ids SELECT substr(tx_id, 1, 10), seq FROM ledger
			WHERE seq <= (SELECT max(seq) - max(seq) % 2048 FROM ledger) ON CONFLICT DO NOTHING`}
	if tx.Sequenced() {
		statements = []store.Query{
			"DELETE FROM unplaced WHERE seq IN (SELECT seq FROM places)",
			`INSERT INTO places SELECT (SELECT COALESCE(max(place), 0) FROM places) + row_number() OVER (ORDER BY seq),
				seq FROM unplaced`,
			"DELETE FROM unplaced",
			"UPDATE sequencer SET size = (SELECT COALESCE(max(place), 0) FROM places)",
			"SELECT setval('ledger_seq', COALESCE(max(seq), 0) + 1, false) FROM ledger"}
	}
	for _, statement := range statements {
		if err := tx.Do(ctx, "bring places and ids up to date", statement); err != nil {
			return err
		}
	}
	return nil
}
